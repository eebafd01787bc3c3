//! Previews of many file formats.

use std::collections::HashSet;
use std::sync::Arc;

use insta::assert_snapshot;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use super::jobs::open;
use super::{Story, asks, everything};
use crate::canvas::{Canvas, Protocol};
use crate::effect::Request;
use crate::event::Event;
use crate::nested;
use crate::open_target::OpenTarget;
use crate::preview::{Body, Preview};
use crate::state::Facts;
use crate::tests::sample;
use crate::theme::{Background, Depth, Theme};
use crate::view::view;
use nra_format::archive::{Archive, OpenOptions, open_path};

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 10)];

fn snapshots(archive: &Arc<dyn Archive>, name: &str, keys: &str) {
    for (width, height) in SIZES {
        let mut story = Story::begin(Arc::clone(archive), width, height);
        story.then(keys);
        assert_snapshot!(format!("{name}-{width}x{height}"), story.screen());
    }
}

/// Returns a safetensors file with a number of layers.
fn safetensors(layers: usize) -> Vec<u8> {
    let tensor =
        |name: &str, shape: &str, end: usize| format!(r#""{name}":{{"dtype":"BF16","shape":{shape},"data_offsets":[0,{end}]}}"#);
    let mut parts = vec![r#""__metadata__":{"format":"pt","made by":"a test\u001b[31m"}"#.to_owned()];
    for layer in 0..layers {
        parts.push(tensor(&format!("model.layers.{layer}.attention.weight"), "[512,64]", 65_536));
        parts.push(tensor(&format!("model.layers.{layer}.norm.bias"), "[512]", 1_024));
    }
    let json = format!("{{{}}}", parts.join(","));
    let mut bytes = u64::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.resize(bytes.len() + 70_000, 7);
    bytes
}

/// Returns a PNG file of dark and bright squares.
fn png() -> Vec<u8> {
    let image = image::GrayImage::from_fn(64, 48, |x, y| image::Luma([if (x / 8 + y / 8) % 2 == 0 { 250 } else { 60 }]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn files() -> Arc<dyn Archive> {
    let mut npy = b"\x93NUMPY\x01\0\x3c\0{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n".to_vec();
    npy.resize(npy.len() + 48, 0);
    let csv = "name,size,note\ncat.png,1203,\"good, but dark\"\ndog.png,88,\nа\u{202e}б.png,9,日本語のメモ\n";
    let json = format!("{{\"name\":\"a\u{202e}b\",\"list\":[{}],\"none\":{{}}}}", "1,".repeat(120) + "2");
    sample::with_contents(&[
        ("a.npy", &npy),
        ("b.safetensors", &safetensors(40)),
        ("c.csv", csv.as_bytes()),
        ("d.parquet", include_bytes!("../../format/describe/small.parquet")),
        ("f.json", json.as_bytes()),
        ("g.png", &png()),
        ("h.png", b"\x89PNG\r\n\x1a\nnot quite"),
        ("i.rs", b"/// Says hello.\nfn main() {\n    println!(\"hello\");\n}\n"),
        ("e.npy", b"\x93NUMPY\x01\0\xff\xff{"),
    ])
}

#[test]
fn shard_files_show_entries() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/shard");
    for (name, keys, expected) in [
        ("go_tensorv1.mosh", "j j j f3", ["shape     2 × 3", "elements  6"]),
        ("go_tensorv1.mosh", "j j j j f3 5", ["Shard 2 (ModelShard)", "TensorV1 i8 [3, 2], quantised"]),
        ("smp_cowrie.smpl", "f3", ["input   float [2]", "target  int"]),
        ("smp_json.smpl", "f3 4", ["input   int [2]", "record  JSON"]),
        ("der_columns.cshard", "f3", ["encoding   delta", "max        4"]),
    ] {
        for (width, height) in [SIZES[0], SIZES[1]] {
            let archive = open_path(&folder.join(name), &OpenOptions::default()).unwrap();
            let mut story = Story::begin(Arc::from(archive), width, height);
            story.then(keys);
            assert!(expected.iter().all(|part| story.screen().contains(part)), "{name}:\n{}", story.screen());
        }
    }
}

#[test]
fn tensors_are_listed() {
    snapshots(&files(), "tensors", "j f3");
}

#[test]
fn separated_values_are_aligned() {
    snapshots(&files(), "csv", "j j f3");
}

#[test]
fn arrays_and_columns_are_listed() {
    let mut story = Story::begin(files(), 120, 40);
    story.sees("NPY · 1").sees("float32").sees("3 × 4");
    story.then("j j j");
    story.sees("who.name").sees("bytes (text)").sees("row groups");
    // A damaged file is shown as bytes. The error is shown if a table is requested.
    story.then("j");
    story.sees("hex · 11 B");
    story.then("4");
    story.sees("NPY header");
}

#[test]
fn table_scrolls_and_switches_to_bytes() {
    let mut story = Story::begin(files(), 120, 40);
    story.then("j tab G");
    story.sees("model.layers.39.norm.bias").misses("made by");
    story.then("2");
    story.sees("hex · ");
    story.then("0 g");
    story.sees("made by").sees("a test␛[31m");
}

#[test]
fn pictures_are_drawn() {
    snapshots(&files(), "picture", "j j j j j j f3");
}

#[test]
fn pictures_follow_pane_size() {
    let mut story = Story::begin(files(), 120, 40);
    story.state.preview.canvas = Canvas { protocol: Protocol::Sixel, font: (4, 8), ..story.state.preview.canvas };
    let sent =
        |story: &Story| story.screen().split("\x1bP").nth(1).map(|rest| rest.split(['#', '\x1b']).next().unwrap().to_owned());
    story.then("j j j j j j");
    let side = |story: &Story| sent(story).map(|head| head.split("\"1;1;").nth(1).unwrap().to_owned());
    story.sees("PNG · 64 × 48");
    assert_eq!(side(&story).as_deref(), Some("64;48"));
    // A dialog over it, or another entry, removes it.
    story.then("?");
    assert_eq!(side(&story), None);
    story.then("q");
    assert_eq!(side(&story).as_deref(), Some("64;48"));
    story.then("k");
    assert_eq!(side(&story), None);
    // A smaller pane or a larger font requires a new picture.
    story.then("j");
    story.event(Event::Resize(120, 9));
    assert_eq!(side(&story).as_deref(), Some("53;40"));
    story.event(Event::Font(8, 16));
    assert_eq!(side(&story).as_deref(), Some("64;48"));
    story.event(Event::Resize(100, 8));
    assert_eq!(side(&story).as_deref(), Some("64;48"));
}

#[test]
fn dense_json_is_indented() {
    snapshots(&files(), "json", "j j j j j f3");
}

#[test]
fn json_is_folded() {
    let mut story = Story::begin(files(), 120, 40);
    story.then("j j j j j tab");
    story.sees("▾ {").sees("▾   \"list\": [");
    // Folds the list to one row, and unfolds it.
    story.then("j j h");
    story.sees("▸   \"list\": [1, 1,").sees("\"none\": {}");
    story.then("j k enter G");
    story.sees("    2").sees("}");
    // From the last value to its list, to the top, and back to the list of entries.
    story.then("k k h h");
    story.sees("▸   \"list\"");
    story.then("h h");
    story.sees("▸ {\"name\": \"a·b\", \"list\": [1,");
    story.then("h");
    assert_eq!(story.state.layout.focus, crate::state::Focus::List);
    story.then("tab +");
    story.sees("▾   \"list\"");
    story.then("-");
    story.sees("▾ {").sees("▸   \"list\": [1,");
}

#[test]
fn each_record_has_a_row() {
    let record =
        |number: u32| format!("{{\"id\": {number}, \"labels\": [\"cat\", \"dog\"], \"text\": \"{}\"}}\n", "word ".repeat(20));
    let content: Vec<u8> = (1..=20_000).flat_map(|number| record(number).into_bytes()).collect();
    let archive = sample::with_contents(&[("records.jsonl", &content)]);
    for (width, height) in SIZES {
        let mut story = Story::begin(Arc::clone(&archive), width, height);
        story.then("f3 j enter j j");
        assert_snapshot!(format!("records-{width}x{height}"), story.screen());
    }
    let mut story = Story::begin(archive, 80, 24);
    story.then("f3");
    // It is loaded in windows.
    for _ in 0..200 {
        story.then("pagedown");
    }
    story.sees("▸ {\"id\": 3801, ");
    for _ in 0..200 {
        story.then("pageup");
    }
    story.sees("▸ {\"id\": 1, ");
    story.then("G");
    story.sees("▸ {\"id\": 20000, ");
    story.then("g / ctrl-u").types("\"id\": 12345").then("enter");
    assert!(story.screen().lines().nth(2).unwrap().contains("▸ {\"id\": 12345, "), "{}", story.screen());
    story.then("enter");
    story.sees("▾   \"labels\": [");
}

#[test]
fn goto_counts_rows_of_whole_content() {
    let record = |number: u32| format!("{{\"id\": {number}, \"text\": \"{}\"}}\n", "word ".repeat(20));
    let records: Vec<u8> = (1..=20_000).flat_map(|number| record(number).into_bytes()).collect();
    let row = |number: u32| format!("row {number},\"two\nlines\",{}\n", "word ".repeat(20));
    let rows: Vec<u8> = (1..=20_000).flat_map(|number| row(number).into_bytes()).collect();
    let archive = sample::with_contents(&[("a.jsonl", &records), ("b.csv", &rows)]);
    for (keys, name, behind) in [("f3", "▸ {\"id\": ", ", "), ("j f3", "row ", "  ")] {
        let mut story = Story::begin(Arc::clone(&archive), 80, 24);
        // At any position, and with anything unfolded.
        for before in [keys, "G", "g", "enter j j"] {
            story.then(before);
            for number in [3, 15_000, 20_000, 1] {
                story.then("ctrl-g").types(&number.to_string()).then("enter");
                let first = story.screen().lines().nth(2).unwrap_or_default().to_owned();
                assert!(first.contains(&format!("{name}{number}{behind}")), "{before} {number}: {}", story.screen());
            }
        }
    }
}

/// Returns the words of a wrapped preview.
fn words(story: &Story) -> Vec<String> {
    let area = story.state.layout.inner(story.state.areas().preview);
    let front = match &story.state.preview.preview {
        Some(Ok(Preview { body: Body::Text(page), .. })) => page.gutter(area.width),
        _ => 2,
    };
    let mut buffer = Buffer::empty(story.state.screen);
    view(&story.state, story.state.screen, &mut buffer);
    let rows = (area.top()..area.bottom()).flat_map(|y| (area.left() + front..area.right()).map(move |x| (x, y)));
    let text: String = rows.map(|at| buffer[at].symbol().to_owned()).collect();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn wrapped_rows_scroll_completely() {
    let line = |number: usize, words: usize| (0..words).map(|word| format!("p{number}w{word}q ")).collect::<String>();
    let mut prose: Vec<String> = (0..40).map(|number| line(number, 37)).collect();
    // This row is higher than the screen.
    prose[12] = line(12, 450);
    let records: Vec<String> = prose.iter().map(|line| format!("{{\"text\":\"{line} \"}}\n")).collect();
    let long: String = (0..2_000).map(|number| line(number, 37) + "\n").collect();
    let prose = prose.join("\n");
    let files = [("a.jsonl", records.concat().into_bytes()), ("b.txt", prose.into_bytes()), ("long.txt", long.into_bytes())];
    let archive = sample::with_contents(&files.each_ref().map(|(name, bytes)| (*name, bytes.as_slice())));
    for ((width, height), open, file) in [
        ((80, 24), "f3 w", 0),
        ((80, 24), "j f3 w", 1),
        ((120, 40), "j tab w", 1),
        ((40, 10), "j f3 w", 1),
        ((80, 24), "j j f3 w", 2),
    ] {
        let (is_long, content) = (file == 2, &files[file].1);
        let all = String::from_utf8(content.clone()).unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wanted: HashSet<String> = all.into_iter().filter(|word| word.starts_with('p')).collect();
        for (down, up) in [("j", "k"), ("ctrl-f", "ctrl-b"), ("ctrl-d", "ctrl-u")].into_iter().skip(usize::from(is_long)) {
            let mut story = Story::begin(Arc::clone(&archive), width, height);
            story.then(open);
            for key in [down, up] {
                let (mut seen, mut before) = (HashSet::new(), None);
                loop {
                    let now = words(&story);
                    seen.extend(now.iter().cloned());
                    let now = Some((now, story.state.preview.scroll.cursor));
                    if now == before {
                        break;
                    }
                    before = now;
                    story.then(key);
                }
                let missed = wanted.iter().filter(|word| !seen.contains(*word)).count();
                assert!(missed == 0, "{width} {open} {key}: {missed} of {}:\n{}", wanted.len(), story.screen());
                let end = if key == down { content.rsplit(|byte| *byte == b'p').next().unwrap() } else { b"0w0q" };
                let end = String::from_utf8_lossy(end).split_whitespace().next().unwrap().to_owned();
                assert!(words(&story).iter().any(|word| word.ends_with(&end)), "{key}: {}", story.screen());
            }
            story.then("G");
            assert!(words(&story).iter().any(|word| word.starts_with(if is_long { "p1999w36q" } else { "p39w36q" })));
        }
    }
    // The target is in the first row.
    let mut story = Story::begin(archive, 80, 24);
    story.then("j f3 w ctrl-g").types("20").then("enter");
    assert_eq!(words(&story)[0], "p19w0q");
    story.then("g / ctrl-u").types("p12w333q").then("enter");
    assert!(words(&story).iter().take(12).any(|word| word == "p12w333q"), "{}", story.screen());
}

#[test]
fn damaged_picture_shows_error_and_bytes() {
    let mut story = Story::begin(files(), 120, 40);
    story.then("j j j j j j j");
    story.sees("image at offset 0 is damaged");
    story.then("2");
    story.sees("hex · ").sees("89 50 4e 47");
    story.then("3 k k");
    story.sees("Not a supported image format").sees("Press 0 for the default preview");
    story.then("0 j");
    story.sees("PNG · 64 × 48").misses("by what it is");
}

#[test]
fn source_text_is_coloured() {
    let mut story = Story::begin(files(), 120, 40);
    story.state.settings.theme = Theme::new(Background::Dark, Depth::Ansi);
    story.then("G tab");
    story.sees("fn main()");
    let colors = |story: &Story| {
        let area = story.state.areas().preview;
        let mut buffer = Buffer::empty(story.state.screen);
        view(&story.state, story.state.screen, &mut buffer);
        (area.left()..area.right()).map(|x| buffer[(x, area.y + 1)].fg).collect::<HashSet<_>>()
    };
    assert!(colors(&story).contains(&Color::Cyan), "{:?}", colors(&story));
    story.state.settings.theme = Theme::new(Background::Dark, Depth::Mono);
    assert_eq!(colors(&story), HashSet::from([Color::Reset]));
}

#[test]
fn archives_and_videos_show_their_contents() {
    let inner = sample::bytes(&[("deep/evil\x1b[31m", b"hello"), ("top", b"x")]);
    let film = b"\0\0\0\x0cftypqt  \0\0\0\x08free";
    let arrays = include_bytes!("../../format/describe/new.h5");
    let archive =
        sample::with_contents(&[("a.nra", &inner), ("b.mov", film), ("c.h5", arrays), ("d.zip", b"PK\x03\x04 not quite")]);
    let mut story = Story::begin(archive, 120, 40);
    story.sees("archive · ").sees("NRA 5").sees("deep/evil␛[31m").sees("top");
    story.then("j");
    story.sees("QuickTime · 20 B");
    story.then("j");
    story.sees("HDF5 · ").sees("model/weights").sees("3 × 4");
    // A damaged file is shown as bytes.
    story.then("j");
    story.sees("hex · ");
}

#[test]
fn pending_changes_and_marks_survive_nested_archive() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("a.nra");
    let inner = sample::bytes(&[("deep", b"hello")]);
    std::fs::write(&file, sample::bytes(&[("a", b"x"), ("b", b"y"), ("in.nra", &inner)])).unwrap();
    let mut story = Story::begin(everything(), 100, 24);
    open(&mut story, &file);
    story.then("d j space j l");
    let outer = Arc::clone(&story.archive);
    let (_, entry) = outer.find(b"in.nra").unwrap().unwrap();
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Nested(entry.clone()), None))], "nothing is asked");
    let around = story.state.archive.clone();
    story.archive = nested::open(&*outer, &entry, None, 1 << 20).unwrap();
    let facts = Facts { name: "a.nra ▸ in.nra".to_owned(), depth: 1, info: story.archive.info().clone(), ..Facts::default() };
    story.opens(OpenTarget::Nested(entry), facts);
    story.sees("deep").misses("marks are gone").misses("to remove");
    assert!(story.state.marks.is_empty() && story.state.changes.pending.is_empty());
    // Quitting asks about them here, too, but they cannot be written here.
    story.then("Q").sees("Unwritten changes").sees("remove a: 1 entry").misses("write them");
    story.then("b h");
    story.archive = outer;
    story.opens(OpenTarget::Parent, around);
    story.sees("1 to remove");
    assert_eq!((story.name().as_str(), story.state.marks.count()), ("in.nra", 1));
}

#[test]
fn nested_archive_is_entered_and_left() {
    let inner = sample::bytes(&[("deep/file", b"hello")]);
    let outer = sample::with_contents(&[("a/in.nra", &inner), ("a/other", b"x"), ("b", b"y")]);
    let mut story = Story::begin(Arc::clone(&outer), 80, 24);
    story.then("l l");
    let (_, entry) = outer.find(b"a/in.nra").unwrap().unwrap();
    assert_eq!(story.outside, [asks(Request::Open(OpenTarget::Nested(entry.clone()), None))]);
    let around = story.state.archive.clone();
    story.archive = nested::open(&*outer, &entry, None, 1 << 20).unwrap();
    let facts = Facts { name: "a.nra ▸ in.nra".to_owned(), depth: 1, info: story.archive.info().clone(), ..Facts::default() };
    story.opens(OpenTarget::Nested(entry), facts);
    story.sees("a.nra ▸ in.nra").sees("deep/");
    story.then("l");
    assert_eq!(story.name(), "deep/file");
    story.then("H");
    story.sees("newest commit");
    story.then("h h");
    assert_eq!(story.outside[1..], [asks(Request::Open(OpenTarget::Parent, None))]);
    story.archive = outer;
    story.opens(OpenTarget::Parent, around);
    assert_eq!(story.name(), "a/in.nra");
    // A file with another extension is previewed.
    story.then("j l");
    story.sees("text · 1 B");
    assert_eq!(story.outside.len(), 2);
}

#[test]
fn content_is_searched_and_navigated_by_number() {
    let content: Vec<u8> = (1..=60_000).flat_map(|number| format!("this is line {number}\n").into_bytes()).collect();
    let archive = sample::with_contents(&[("text", &content), ("zz.safetensors", &safetensors(40))]);
    let mut story = Story::begin(archive, 80, 24);
    story.then("enter /");
    story.types("LINE 4").then("enter");
    story.sees("Not found").sees("this is line 1");
    story.then("j n").sees("Not found");
    story.then("/ ctrl-u").types("line 51234").then("enter");
    let first = |story: &Story| story.screen().lines().nth(2).unwrap_or_default().to_owned();
    assert!(first(&story).contains("this is line 51234"), "{}", story.screen());
    story.then("n");
    story.sees("1 of 1").sees("Search wrapped");
    // A text without matches has no number. A match before the position is found.
    story.then("/ ctrl-u").types("line x").then("enter").sees("Not found").misses("1 of 1");
    story.then("/ ctrl-u").types("line 1234\n").then("ctrl-u").types("is line 1234").then("enter");
    assert!(first(&story).contains("1234 this is line 1234"), "{}", story.screen());
    story.sees("1 of 11").sees("Search wrapped");
    story.then("N").sees("11 of 11").sees("Search wrapped");
    story.then("N").sees("10 of 11").misses("Search wrapped");
    story.then("ctrl-g").types("40000").then("enter");
    assert!(first(&story).contains("40000 this is line 40000"), "{}", story.screen());
    story.then("/ ctrl-u").types("line 399").then("enter N");
    assert!(first(&story).contains("this is line 39999"), "{}", story.screen());
    story.then("2 ctrl-g").types("0x20").then("enter");
    assert!(first(&story).contains("00000020"), "{}", story.screen());
    story.then("ctrl-g").types("x").then("enter");
    story.sees("'x' is not a number");
    // Rows of a table are searched as shown.
    story.then("esc esc j 0 enter / ctrl-u").types("layers.30.norm").then("enter");
    assert!(first(&story).contains("model.layers.30.norm.bias"), "{}", story.screen());
    story.then("g / ctrl-u").types("layers.30").then("enter N").sees("Search wrapped");
    story.then("n").sees("1 of ").sees("Search wrapped");
    story.then("/ ctrl-u").types("nowhere").then("enter").sees("Not found").misses(" of ");
}
