//! A damaged archive: readable and unreadable files, and salvaging.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use insta::assert_snapshot;

use super::jobs::open;
use super::{Story, everything};
use crate::event::{Event, Response};
use crate::rows::{Anchor, Page};
use crate::state::RowsResponse;
use crate::tests::sample;
use nra_convert::{Destination, Input, NewArchive, NraSink, Options, Sink, Source, WalkSource, convert};
use nra_format::archive::{Archive, OpenOptions, open as open_bytes, open_path};
use nra_format::progress::Recorder;
use nra_format::source::MemorySource;
use nra_format::testing::noise;

/// Returns incompressible bytes.
const NOISE_BYTES: usize = 3 << 20;

/// Writes an archive of two files, one of which has damaged content.
fn damaged(file: &Path) {
    let (first, second) = (noise(NOISE_BYTES, 1), noise(NOISE_BYTES, 2));
    let mut bytes = sample::bytes(&[("d/hurt.bin", &first), ("d/whole.bin", &second), ("note.txt", b"hello")]);
    let at = bytes.windows(64).position(|part| part == &first[1 << 20..][..64]).expect("noise is stored as it is");
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn readable_files_are_listed_and_salvaged() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    damaged(&file);
    let mut story = Story::begin(everything(), 120, 30);
    open(&mut story, &file);
    story.then("V");
    story.sees("1 damage").sees("R lists the affected files");
    // The damage is known now, and nothing can be written.
    story.then("d").sees("A damaged archive cannot be changed").sees("damaged ·");
    story.then("enter R");
    story.sees("Damage").sees("list damaged files").sees("at offset").misses("No known damage");
    story.then("d");
    assert_eq!(story.names(), ["d/hurt.bin"]);
    story.then("R i");
    assert_eq!(story.names(), ["d/whole.bin", "note.txt"]);
    story.then("R s");
    story.sees("Salvage a.nra to").sees("a-salvaged.nra");
    story.then("ctrl-u").types("saved.zip");
    story.then("enter");
    story.sees("use the extension");
    let output = work.path().join("saved.nra");
    story.then("ctrl-u");
    story.event(Event::Paste(output.display().to_string()));
    story.then("enter");
    story.sees("salvaged 3 entries, 3.0 MiB").sees("1 entry skipped");
    story.then("J");
    story.sees("d/hurt.bin");
    let saved = open_path(&output, &OpenOptions::default()).unwrap();
    let paths: Vec<String> = saved.entries(0..saved.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect();
    assert_eq!(paths, ["d", "d/whole.bin", "note.txt"]);
    assert_eq!(saved.info().message, "salvaged from a.nra");
    // An existing file is not replaced.
    story.then("esc R s ctrl-u");
    story.event(Event::Paste(output.display().to_string()));
    story.then("enter");
    story.sees("the file exists");
}

/// Returns an archive with a file `a` of this content, one block of which is damaged (the first, or
/// one in the middle), and the range of that block.
fn torn(content: &[u8], first: bool) -> (Arc<dyn Archive>, Range<u64>) {
    let work = tempfile::tempdir().unwrap();
    let (file, packed) = (work.path().join("a"), work.path().join("a.nra"));
    std::fs::write(&file, content).unwrap();
    let sink = Sink::Archive(Destination::new_file(&packed), NewArchive::Nra(NraSink::default()));
    convert(Source::Walk(WalkSource::new([Input::new(file)])), sink, &Options::default(), &Recorder::default()).unwrap();
    let whole = open_path(&packed, &OpenOptions::default()).unwrap();
    let (runs, _) = whole.runs(&whole.entry(0).unwrap(), 100).unwrap().unwrap();
    let hurt = if first { 0 } else { runs.len() / 2 };
    let start = runs[..hurt].iter().map(|run| run.len).sum();
    let mut bytes = std::fs::read(&packed).unwrap();
    let within = if first { 100 } else { runs[hurt].stored_bytes / 2 };
    bytes[usize::try_from(runs[hurt].block + within).unwrap()] ^= 1;
    let archive = open_bytes(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap();
    (Arc::from(archive), start..start + runs[hurt].len)
}

#[test]
fn content_around_damage_is_shown_and_searched() {
    let lines = noise(8 * 60_000, 1);
    let lines = lines.chunks(8).zip(1u64..).map(|(bytes, number)| format!("line {number} {bytes:02x?}\n"));
    let content = lines.collect::<String>();
    let (archive, hurt) = torn(content.as_bytes(), false);
    let within = usize::try_from(hurt.start.midpoint(hurt.end)).unwrap();
    let lost = content[..within].lines().count() as u64;
    let size = archive.entry(0).unwrap().size;
    assert!(hurt.start > 300 << 10 && hurt.end < size - (300 << 10), "{hurt:?} of {size}");
    let mut story = Story::begin(archive, 100, 24);
    let first = |story: &Story| story.screen().lines().nth(2).unwrap_or_default().to_owned();
    let goes = |story: &mut Story, to: u64| {
        story.then("ctrl-g").types(&to.to_string()).then("enter");
    };
    // If the target is unreadable, the preview and its title stay.
    story.then("enter");
    goes(&mut story, lost);
    story.sees("is damaged").sees("text · ");
    assert!(first(&story).contains("1 line 1 "), "{}", story.screen());
    story.then("G").misses("is damaged").sees("line 60000");
    story.then("g j");
    assert!(first(&story).contains("2 line 2 "), "{}", story.screen());
    // A text is found after the damage, where line numbers are unknown, and before it.
    story.then("/").types("line 55555").then("enter");
    assert!(first(&story).contains("~ line 55555"), "{}", story.screen());
    story.then("/ ctrl-u").types(&format!("line {lost} ")).then("enter");
    story.sees("Not found in the readable part: ");
    story.then("/ ctrl-u").types("line 7777").then("enter N").sees("line 7777 ");
    // Bytes are readable up to the edge of the damage.
    story.then("2 g");
    for (near, reads) in [(hurt.start - 8_000, true), (hurt.start + 8_000, false), (hurt.end + 16, true)] {
        goes(&mut story, near);
        assert_eq!(first(&story).contains(&format!("{:08x}", near / 16 * 16)), reads, "{}", story.screen());
        story.sees("is damaged");
    }
}

#[test]
fn content_after_damaged_start_is_reached() {
    let (archive, hurt) = torn(&[noise(8 << 20, 3), b"there".to_vec()].concat(), true);
    assert!(hurt.end < 7 << 20, "{hurt:?}");
    for (keys, typed, sees) in [("G", "", "there"), ("ctrl-g", "8000000", "007a1200"), ("/", "there", "there")] {
        let mut story = Story::begin(Arc::clone(&archive), 100, 24);
        story.then("enter").sees("is damaged");
        story.then(keys).types(typed);
        story.then("enter").sees(sees).sees("hex · 8.0 MiB");
    }
}

#[test]
fn unreadable_content_is_not_counted() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let files = [("d/a.bin", noise(NOISE_BYTES, 1)), ("d/b.bin", noise(NOISE_BYTES, 2)), ("e/one.txt", b"hello".to_vec())];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    let (mut bytes, whole) = (sample::bytes(&files), sample::with_contents(&files));
    let (_, lost) = whole.find(b"d/b.bin").unwrap().unwrap();
    let block = usize::try_from(whole.runs(&lost, 100).unwrap().unwrap().0.last().unwrap().block).unwrap();
    let field = |at: usize| usize::try_from(u32::from_le_bytes(*bytes[block + at..].first_chunk().unwrap())).unwrap();
    // Damages the index page, and the block index, which follows the payload.
    let page = usize::try_from(whole.pages_at(0).unwrap().last().unwrap().offset).unwrap();
    for place in [page + 100, block + 64 + field(16) + field(12) + 4] {
        bytes[place] ^= 1;
    }
    std::fs::write(&file, bytes).unwrap();
    let mut story = Story::begin(everything(), 120, 30);
    open(&mut story, &file);
    story.sees("damaged · ").misses("entries ·").sees("1 readable entry");
    let row = |story: &Story, name: &str| story.screen().lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(row(&story, " d/ ").contains("3.0 MiB"), "{}", story.screen());
    // The sizes are drawn without it, and nothing can be changed.
    story.then("b b");
    story.sees("3.0 MiB");
    story.then("b d");
    story.sees("A damaged archive cannot be changed");
    story.then("J");
    story.sees("a page of the entry tree is damaged");
}

#[test]
fn known_damage_is_shown() {
    for (width, height) in [(120, 40), (80, 24), (40, 10)] {
        let mut story = Story::begin(everything(), width, height);
        story.state.archive.remarks = vec!["the root of the entry tree at offset 4096 is damaged".to_owned()];
        story.state.archive.damaged = true;
        story.then("R");
        assert_snapshot!(format!("damage-{width}x{height}"), story.screen());
    }
    // It also works from the preview and from a directory. Without damage, nothing is listed.
    let mut story = Story::begin(everything(), 120, 40);
    story.then("G k enter enter R");
    story.sees("No known damage");
    story.then("d");
    story.sees("No matches");
    story.then("esc");
    story.sees("README.md");
}

#[test]
fn changes_made_before_damage_can_be_undone() {
    let mut story = Story::begin(everything(), 100, 24);
    story.state.archive.file = Ok("a.nra".into());
    story.then("d j d");
    let page = Page { damage: Some(vec!["the index is damaged".to_owned()]), ..Page::default() };
    story.respond(Response::Rows(RowsResponse { anchor: Anchor::Start, page: Ok(page) }));
    story.then("W").sees("A damaged archive cannot be changed");
    story.then("P").sees("Pending changes");
    story.then("u");
    assert_eq!(story.state.changes.pending.list().len(), 1);
    story.then("esc u");
    assert!(story.state.changes.pending.is_empty());
    story.then("u").sees("A damaged archive cannot be changed");
}
