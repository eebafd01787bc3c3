//! What it costs to look at a large archive: counted reads, and time on the event path.
#![allow(clippy::print_stdout, reason = "the figures are what these tests are for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Story;
use crate::format::archive::{Archive, OpenOptions, open};
use crate::format::digest::Digest;
use crate::format::entry::{Entry, Kind};
use crate::format::nra::writer::{NewContent, Writer, WriterOptions};
use crate::format::path::EntryPath;
use crate::format::progress::Recorder;
use crate::format::source::MemorySource;
use crate::format::source::RecordingSource;
use crate::tui::event::Event;
use crate::tui::update::update;
use crate::tui::view::view;

type Source = Arc<RecordingSource<MemorySource>>;

/// Returns an archive of so many files in one directory, and its source.
fn large(files: u64) -> (Arc<dyn Archive>, Source) {
    let mut writer = Writer::create(Vec::new(), WriterOptions::default()).unwrap();
    for number in 0..files {
        let path = EntryPath::new(format!("images/{number:08}.json").into_bytes()).unwrap();
        let text = format!("{{\"id\": {}}}\n", number % 1_000);
        let bytes = text.as_bytes();
        let content = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: false };
        writer.add(Entry::new(path, Kind::File), content).unwrap();
    }
    let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
    let source = Arc::new(RecordingSource::new(MemorySource::new(bytes)));
    let archive = open(Arc::<RecordingSource<MemorySource>>::clone(&source), &OpenOptions::default()).unwrap();
    (Arc::from(archive), source)
}

/// Goes through a session and returns reads and bytes of each step, the opening first.
fn session(files: u64) -> Vec<(&'static str, usize, u64)> {
    let (archive, source) = large(files);
    let mut costs = Vec::new();
    let mut count = |step| {
        let reads = source.take();
        costs.push((step, reads.len(), reads.iter().map(|read| read.1).sum()));
    };
    count("open");
    let mut story = Story::begin(archive, 120, 40);
    count("first rows");
    for keys in ["enter", "j", "pagedown", "G", "pageup", "g", "space", "A", "h"] {
        story.then(keys);
        count(keys);
    }
    costs
}

#[test]
fn looking_around_costs_the_same_in_any_archive() {
    let (small, big) = (session(5_000), session(150_000));
    for ((step, few, _), (_, reads, bytes)) in small.iter().zip(&big) {
        // A level of the tree more, for each of the places that a step looks up.
        assert!(*reads <= few + 8, "{step}: {reads} reads instead of {few}");
        assert!(*bytes <= 1 << 20, "{step}: {bytes} bytes");
    }
    let bytes: u64 = big.iter().map(|cost| cost.2).sum();
    assert!(bytes <= 3 << 20, "{bytes} bytes");
}

#[test]
#[ignore = "takes a while: a million entries are written"]
fn a_million_entries_feel_like_a_few() {
    let (archive, source) = large(1_000_000);
    source.take();
    let before = Instant::now();
    let mut story = Story::begin(archive, 120, 40);
    story.then("enter");
    let shown = before.elapsed();
    let reads = source.take();
    let bytes: u64 = reads.iter().map(|read| read.1).sum();
    println!("first rows: {} reads, {bytes} bytes, {shown:?}", reads.len());
    assert!(reads.len() <= 24 && bytes <= 1 << 20, "{} reads, {bytes} bytes", reads.len());

    let area = Rect::new(0, 0, 120, 40);
    for key in
        ["j", "k", "ctrl-d", "pagedown", "G", "g", "space", "*", "A", "b", "p", "p", "?", "q", "s", "q", ":", "esc", "5", "0"]
    {
        // The state machine and the drawing alone; the best of five, since other programs run, too.
        let best = (0..5).map(|_| {
            let mut state = story.state.clone();
            let event = Event::Key(key.parse().unwrap());
            let before = Instant::now();
            let effects = update(&mut state, event, story.now);
            view(&state, area, &mut Buffer::empty(area));
            drop(effects);
            before.elapsed()
        });
        let best = best.min().unwrap();
        println!("{key}: {best:?}");
        assert!(best < Duration::from_millis(16), "{key}: {best:?}");
        story.then(key);
    }

    let before = Instant::now();
    story.then("/").types("999123");
    println!("search, six keys: {:?}", before.elapsed());
    story.sees("00999123.json");
}
