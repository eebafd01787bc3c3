//! The cost of browsing a large archive: number of reads, and time to process events.
#![allow(clippy::print_stdout, reason = "the figures are what these tests are for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Story;
use crate::effect::{Effect, Request};
use crate::event::Event;
use crate::state::task::Task;
use crate::state::{Change, Ending, FindRequest, JobEvent, PendingChange};
use crate::update::update;
use crate::view::view;
use crate::workers::Finder;
use crate::workers::jobs::Jobs;
use nra_convert::Overwrite;
use nra_format::archive::{Archive, OpenOptions, open};
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind};
use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::Recorder;
use nra_format::source::MemorySource;
use nra_format::source::RecordingSource;

type Source = Arc<RecordingSource<MemorySource>>;

/// Returns an archive with a number of files in one directory, and its source.
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

/// Runs a session and returns the reads and bytes of each step, starting with opening.
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
fn browsing_cost_is_independent_of_size() {
    let (small, big) = (session(5_000), session(150_000));
    for ((step, few, _), (_, reads, bytes)) in small.iter().zip(&big) {
        // One more level of the tree for each lookup of a step.
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
    let keys =
        ["j", "k", "ctrl-d", "pagedown", "G", "g", "space", "*", "A", "b", "p", "p", "?", "q", "s", "q", ":", "esc", "5", "0"];
    for key in keys.into_iter().chain(["gaps", "space", "*", "A", "esc"]) {
        if key == "gaps" {
            mark_with_gaps(&mut story, 1_000_000);
            continue;
        }
        // State machine and drawing only. The best of five, because other programs run, too.
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

    // A search while typing: the time until the first hits and until all of them.
    let mut finder = Finder::default();
    // The first search reads the names, and its hit is near the end; the second one has them in
    // memory.
    for (pattern, first_within, all_within) in [("999123", 1_250, 2_500), ("999123", 100, 1_000), ("99 json", 100, 1_000)] {
        let request = FindRequest { directory: None, pattern: pattern.to_owned() };
        let (before, mut first, mut hits) = (Instant::now(), None, 0);
        finder.find(&*story.archive, &request, &mut |answer| {
            if let Some(answer) = answer.filter(|answer| !answer.hits.is_empty()) {
                first.get_or_insert_with(|| before.elapsed());
                hits = answer.hits.len();
            }
            true
        });
        let (first, all) = (first.unwrap(), before.elapsed());
        println!("search for {pattern:?}: {hits} hits, the first after {first:?}, all after {all:?}");
        assert!(hits > 0 && first.as_millis() <= first_within && all.as_millis() <= all_within);
    }
}

/// Returns the CPU time of this thread, which does not depend on other programs. The system updates
/// it every few milliseconds.
#[cfg(target_os = "linux")]
fn on_the_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the system tells");
    Duration::from_nanos(text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("a number"))
}

/// Returns the time for a key: updating and drawing the state.
#[cfg(target_os = "linux")]
fn cpu_of_key(story: &Story, key: &str) -> Duration {
    const TIMES: u32 = 20;
    let before = on_the_processor();
    for _ in 0..TIMES {
        let mut state = story.state.clone();
        let effects = update(&mut state, Event::Key(key.parse().unwrap()), story.now);
        view(&state, state.screen, &mut Buffer::empty(state.screen));
        drop(effects);
    }
    (on_the_processor() - before) / TIMES
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_of_thousands_of_directories_costs_what_is_shown_of_it() {
    let mut story = Story::begin(crate::tests::sample::archive(&["a/b", "c"]), 100, 24);
    story.then("enter");
    let deep = format!("{}b", "a/".repeat(32_767));
    story.state.listing.scope.directory = Some(EntryPath::try_from(deep.as_str()).unwrap());
    let parts = crate::path_bar::parts(&story.state, 30);
    let depths: Vec<_> = parts.iter().map(|part| part.depth).collect();
    assert_eq!((depths[..3].to_vec(), depths.last()), (vec![Some(0), None, Some(32_764)], Some(&Some(32_768))));
    let each = cpu_of_key(&story, "?");
    assert!(each < Duration::from_millis(16), "{each:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_pasted_and_what_jobs_say_costs_what_is_shown_of_it() {
    let mut story = Story::begin(crate::tests::sample::archive(&["a"]), 100, 24);
    story.then("f");
    let before = on_the_processor();
    story.event(Event::Paste("x".repeat(1 << 20)));
    let pasted = on_the_processor() - before;
    assert!(pasted < Duration::from_secs(1), "{pasted:?}");
    story.sees("the first 64 KiB were pasted");
    story.then("esc");
    let id = story.state.jobs.add("verify".to_owned(), story.now).id;
    for _ in 0..2_000 {
        story.event(Event::Job(id, JobEvent::Warning("a word and another ".repeat(50))));
    }
    story.then("J");
    for key in ["j", "G", "k", "pageup", "g"] {
        let each = cpu_of_key(&story, key);
        assert!(each < Duration::from_millis(16), "{key}: {each:?}");
        story.then(key);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn long_names_cost_what_is_shown_of_them() {
    for (keys, files, bytes) in [("b b", 100, 5_000), ("i", 20, 60_000)] {
        let names: Vec<String> = (0..files).map(|number| format!("{number:03}{}", "x".repeat(bytes))).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"the same".as_slice())).collect();
        let mut story = Story::begin(crate::tests::sample::with_contents(&files), 100, 12);
        story.then(keys);
        let each = cpu_of_key(&story, "j");
        assert!(each < Duration::from_millis(16), "{keys}: {each:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn keys_are_answered_while_jobs_run() {
    let (archive, _) = large(60_000);
    let target = tempfile::tempdir().unwrap();
    let (sender, events) = unbounded();
    let mut story = Story::begin(Arc::clone(&archive), 120, 40);
    story.then("enter");
    let mut jobs = Jobs::default();
    let ranges = std::iter::once(0..archive.entry_count()).collect();
    let task = Task::Extract { ranges, target: target.path().join("out"), strip: 0, overwrite: Overwrite::Rename };
    jobs.start(1, task, &archive, &sender);
    jobs.start(2, Task::Verify { ranges: None }, &archive, &sender);
    story.event(events.recv().unwrap());
    for key in
        ["j", "k", "ctrl-d", "pagedown", "G", "g", "space", "A", "b", "b", "b", "J", "esc", "?", "esc", "/", "esc", "5", "0"]
    {
        let each = cpu_of_key(&story, key);
        assert!(each < Duration::from_millis(16), "{key}: {each:?}");
        story.then(key);
        // The events of the jobs count as well.
        let before = on_the_processor();
        for event in events.try_iter() {
            assert!(!matches!(event, Event::Job(1, JobEvent::End(..))), "it was over before the keys were");
            story.event(event);
        }
        let spent = on_the_processor() - before;
        assert!(spent < Duration::from_millis(16), "reports of jobs beside {key}: {spent:?}");
    }
    jobs.stop(1);
    jobs.stop(2);
    let stopped = |event: Event| matches!(event, Event::Job(1, JobEvent::End(Ending::Cancelled, _)));
    while !stopped(events.recv_timeout(Duration::from_secs(60)).expect("it ends when it is stopped")) {}
}

/// Marks every other entry, as a glob could.
fn mark_with_gaps(story: &mut Story, entries: u64) {
    story.state.marks.change((0..entries / 2).map(|number| 2 * number..2 * number + 1).collect(), Change::Add);
}

#[test]
#[cfg(target_os = "linux")]
fn marks_with_gaps_are_answered_as_fast() {
    let (archive, _) = large(20_000);
    let mut story = Story::begin(archive, 120, 40);
    story.then("enter");
    mark_with_gaps(&mut story, 20_000);
    for key in ["space", "G", "space", "k", "v", "pageup", "v", "*", "A", "*", "esc"] {
        let each = cpu_of_key(&story, key);
        assert!(each < Duration::from_millis(16), "{key}: {each:?}");
        story.then(key);
    }
    // In a sorted list, a worker determines all entries and responds with one list.
    story.then("s s A");
    assert_eq!((story.state.marks.count(), story.state.marks.ranges().len()), (20_000, 1));
    // Many keys cause one sum, for the last state.
    story.then("esc G");
    story.held_back = true;
    story.then("space k space k space");
    let sums = story.back.iter().filter_map(|effect| match effect {
        Effect::Request(id, Request::Totals(_)) => Some(story.state.requests.awaits(*id)),
        _ => None,
    });
    assert_eq!(sums.collect::<Vec<_>>(), [false, false, true]);
}

#[test]
#[cfg(target_os = "linux")]
fn plans_with_gaps_are_answered_as_fast() {
    let (archive, _) = large(20_000);
    let mut story = Story::begin(archive, 120, 40);
    story.state.archive.file = Ok("a.nra".into());
    story.then("enter");
    let gaps = |first: u64| Arc::new((0..500_000).map(|number| first + 4 * number..first + 4 * number + 1).collect());
    for change in [PendingChange::Remove(gaps(0), "these".to_owned()), PendingChange::Remove(gaps(2), "those".to_owned())] {
        story.state.changes.pending.push(change);
    }
    assert_eq!(story.state.changes.pending.summary(), "1,000,000 to remove");
    for keys in ["j", "G", "P", "esc", "W", "esc", "r", "esc", "u"] {
        let each = cpu_of_key(&story, keys);
        assert!(each < Duration::from_millis(16), "{keys}: {each:?}");
        story.then(keys);
    }
    assert_eq!(story.state.changes.pending.summary(), "500,000 to remove");
}

#[test]
#[ignore = "measures time: other work on the machine makes it fail"]
fn a_large_extraction_shows_itself_and_stops_at_once() {
    let (archive, _) = large(100_000);
    let target = tempfile::tempdir().unwrap();
    let (sender, events) = unbounded();
    let mut jobs = Jobs::default();
    let task = Task::Extract {
        ranges: std::iter::once(0..archive.entry_count()).collect(),
        target: target.path().join("out"),
        strip: 0,
        overwrite: Overwrite::Rename,
    };
    let before = Instant::now();
    jobs.start(1, task, &archive, &sender);
    let first = events.recv_timeout(Duration::from_secs(10)).unwrap();
    let shown = before.elapsed();
    assert!(matches!(first, Event::Job(1, JobEvent::Progress(..))), "{first:?}");
    let before = Instant::now();
    jobs.stop(1);
    let ended = events.iter().any(|event| matches!(event, Event::Job(1, JobEvent::End(Ending::Cancelled, _))));
    let stopped = before.elapsed();
    println!("100,000 files: progress after {shown:?}, stopped after {stopped:?}");
    assert!(ended && shown < Duration::from_millis(250) && stopped < Duration::from_millis(100));
    // Every extracted file is complete.
    let mut queue = vec![target.path().to_owned()];
    while let Some(directory) = queue.pop() {
        for item in std::fs::read_dir(directory).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                queue.push(path);
            } else {
                assert!(std::fs::read(&path).unwrap().ends_with(b"}\n"), "{}", path.display());
            }
        }
    }
}
