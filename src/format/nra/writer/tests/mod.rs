//! Archives taken apart with the structures of the format, and the reader compared with a model.

mod append;
mod changes;
mod cost;
mod crash;
mod disk;
mod model;
mod recovery;
mod salvage;
mod sealed;
mod structure;

use super::*;
use crate::commit::parse_attributes;
use crate::content::{Content, EntryContent as _, Segment};
use crate::frame::{FrameKind, HEADER_LEN};
use crate::writer::chunk_buffer::MAX_WEIGHT;
use nra_core::codec::{Method, looks_incompressible};
use nra_core::entry::{Attribute, Metadata, Namespace, Timestamp};
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Recorder, Severity};
use nra_core::testing::noise;
use structure::ArchiveStructure;

fn path(text: &str) -> EntryPath {
    EntryPath::new(text.as_bytes()).unwrap()
}

fn file(text: &str) -> Entry {
    let mut entry = Entry::new(path(text), Kind::File);
    entry.modified = Some(Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
    entry
}

fn options() -> WriterOptions {
    WriterOptions { reproducible: true, threads: 2, ..WriterOptions::balanced() }
}

fn text(len: usize, seed: u64) -> Vec<u8> {
    noise(len / 4, seed)
        .iter()
        .flat_map(|byte| format!("{byte:03} ").into_bytes())
        .chain(std::iter::repeat(b'\n'))
        .take(len)
        .collect()
}

fn whole(bytes: &[u8]) -> NewContent<'_> {
    NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) }
}

/// Writes an archive and takes it apart.
fn archive(options: WriterOptions, fill: impl FnOnce(&mut Writer<Vec<u8>>)) -> (ArchiveStructure, WriterStats) {
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    fill(&mut writer);
    let (bytes, stats) = writer.finish(&Recorder::default()).unwrap();
    assert_eq!(stats.archive_bytes, bytes.len() as u64);
    (ArchiveStructure::dissect(bytes), stats)
}

fn add(writer: &mut Writer<Vec<u8>>, name: &str, content: &[u8]) -> EntryId {
    writer.add(file(name), whole(content)).unwrap()
}

fn add_large(writer: &mut Writer<Vec<u8>>, name: &str, parts: &[Result<&[u8], u64>]) -> EntryId {
    writer.begin_file(file(name)).unwrap();
    for part in parts {
        match part {
            Ok(bytes) => writer.add_chunk(bytes, Digest::of(bytes), looks_incompressible(bytes)).unwrap(),
            Err(hole) => writer.add_hole(*hole).unwrap(),
        }
    }
    writer.end_file(Some(Digest::of(b"as told"))).unwrap()
}

#[test]
fn empty_writer_gives_an_archive_without_entries() {
    let (parts, stats) = archive(options(), |_| {});
    assert_eq!((parts.commit.entry_root, stats.entries, stats.blocks), (None, 0, 0));
}

#[test]
fn all_entry_kinds_round_trip() {
    let mut link = Entry::new(path("link"), Kind::Symlink);
    link.target = (*b"a/b").into();
    let mut pipe = Entry::new(path("pipe"), Kind::Fifo);
    pipe.metadata = Arc::new(Metadata {
        mode: 0o600,
        attributes: vec![Attribute { namespace: Namespace::User, name: (*b"tag").into(), value: (*b"x").into() }].into(),
        ..Metadata::default()
    });
    let given = [link, pipe, Entry::new(path("dir"), Kind::Directory), file("empty")];
    let (parts, stats) = archive(options(), |writer| {
        for entry in &given {
            writer.add(entry.clone(), NewContent::None).unwrap();
        }
    });
    for entry in &given {
        assert_eq!(parts.entries.iter().find(|found| found.path == entry.path), Some(entry));
    }
    assert_eq!((stats.entries, stats.files), (4, 1));
}

/// Compressible and incompressible files, large ones, links, repetitions; enough for several
/// buffers.
fn mixed(writer: &mut Writer<Vec<u8>>) {
    for i in 0..3_000u64 {
        add(writer, &format!("text/{}/{i}.txt", i % 7), &text(2_000 + i as usize % 900, i));
        add(writer, &format!("noise/{i}.bin"), &noise(900 + i as usize % 300, i));
        if i % 10 == 0 {
            add(writer, &format!("again/{i}"), &text(2_000 + (i / 2) as usize % 900, i / 2));
            writer.add(file(&format!("empty/{i}")), NewContent::None).unwrap();
        }
        if i % 500 == 499 {
            let (text, noise) = (text(200_000, i), noise(150_000, i));
            let id = add_large(writer, &format!("large/{i}"), &[Ok(&text), Err(70_000), Ok(&noise), Ok(&text[..9_000])]);
            writer.add_link(file(&format!("linked/{i}")), id).unwrap();
        }
    }
}

#[test]
fn progress_counts_compressed_content() {
    for align in [0, 4_096] {
        let mut writer = Writer::create(Vec::new(), WriterOptions { align, ..options() }).unwrap();
        add(&mut writer, "a", &text(90_000, 1));
        add(&mut writer, "b", &noise(90_000, 2));
        assert_eq!(writer.done_bytes(), 0, "both wait for more");
        add(&mut writer, "same", &text(90_000, 1));
        add_large(&mut writer, "hole", &[Err(1_000_000)]);
        assert_eq!(writer.done_bytes(), 1_090_000, "nothing is left to do for these");
        mixed(&mut writer);
        let done = writer.done_bytes();
        let recorder = Recorder::default();
        let (_, stats) = writer.finish(&recorder).unwrap();
        let links: u64 = (1..=6).map(|_| 200_000 + 70_000 + 150_000 + 9_000).sum();
        assert_eq!(done + recorder.count(Counter::Bytes), stats.content_bytes - links);
        assert!(recorder.count(Counter::Bytes) > 0);
    }
}

#[test]
fn archive_bytes_do_not_depend_on_threads() {
    let small = WriterOptions { block: BlockPolicy { max_raw_bytes: 256 << 10, ..options().block }, ..options() };
    let (parts, stats) = archive(small.clone(), mixed);
    for i in [0, 7, 10, 1_500, 2_999] {
        assert_eq!(parts.content(&format!("text/{}/{i}.txt", i % 7)), text(2_000 + i as usize % 900, i));
        assert_eq!(parts.content(&format!("noise/{i}.bin")), noise(900 + i as usize % 300, i));
    }
    for i in [499, 2_999] {
        let (text, noise) = (text(200_000, i), noise(150_000, i));
        let expected = [&text[..], &[0; 70_000], &noise, &text[..9_000]].concat();
        for name in ["large", "linked"] {
            let name = format!("{name}/{i}");
            assert_eq!(parts.content(&name), expected);
            assert!(parts.entry(&name).link_group > 0);
        }
    }
    assert!(matches!(parts.entry("noise/1.bin").content(), Content::Uncompressed(..)));
    assert!(matches!(parts.entry("text/1/1.txt").content(), Content::Extent(_)));
    assert!(stats.deduplicated_bytes > 300_000 && stats.stored_bytes < stats.chunk_bytes);
    assert!(stats.blocks > 10);
    for (threads, memory_bytes) in [(1, 256 << 20), (3, 1)] {
        let mut writer = Writer::create(Vec::new(), WriterOptions { threads, memory_bytes, ..small.clone() }).unwrap();
        mixed(&mut writer);
        assert!(writer.finish(&Recorder::default()).unwrap().0 == parts.bytes, "{threads} threads");
    }
}

#[test]
fn equal_content_is_stored_once() {
    let content = text(50_000, 1);
    let (parts, stats) = archive(options(), |writer| {
        for i in 0..100 {
            add(writer, &format!("{i}"), &content);
        }
        add_large(writer, "large", &[Ok(&content), Ok(&noise(5_000, 2)), Ok(&content)]);
    });
    assert_eq!((stats.chunks, stats.deduplicated_bytes), (2, 101 * 50_000));
    assert_eq!(parts.content("99"), content);
    assert_eq!(parts.content("large"), [&content[..], &noise(5_000, 2), &content].concat());
}

#[test]
fn adjacent_chunks_become_one_extent() {
    let content = text(300_000, 5);
    let cut: Vec<Result<&[u8], u64>> = content.chunks(64_000).map(Ok).collect();
    let (parts, _) = archive(options(), |writer| {
        add_large(writer, "a", &cut);
        add_large(writer, "holes", &[Err(10), Err(20)]);
        add_large(writer, "none", &[]);
    });
    assert!(matches!(parts.entry("a").content(), Content::Extent(_)));
    assert_eq!(parts.content("a"), content);
    assert!(matches!(parts.entry("holes").content(), Content::List(segments, _) if **segments == [Segment::Hole(30)]));
    assert_eq!(parts.content("none"), b"");
}

#[test]
fn file_with_many_extents_has_an_extent_map() {
    let chunks: Vec<Vec<u8>> = (0..3_000).map(|i| text(100, i)).collect();
    let cut: Vec<Result<&[u8], u64>> = chunks.iter().flat_map(|chunk| [Ok(&chunk[..]), Err(5)]).collect();
    let expected: Vec<u8> = chunks.iter().flat_map(|chunk| [&chunk[..], &[0; 5]].concat()).collect();
    let (parts, _) = archive(options(), |writer| {
        let id = add_large(writer, "many", &cut);
        writer.add_link(file("same"), id).unwrap();
        add(writer, "other", b"x");
    });
    assert!(matches!(parts.entry("many").content(), Content::Map(..)));
    assert_eq!(parts.content("many"), expected);
    assert_eq!(parts.content("same"), expected);
}

#[test]
fn missing_directories_are_implied() {
    let (parts, stats) = archive(options(), |writer| {
        add(writer, "a/b/c", b"1");
        add(writer, "a/b!", b"2");
        add(writer, "z/y", b"3");
        writer.add(Entry::new(path("z"), Kind::Directory), NewContent::None).unwrap();
    });
    let names: Vec<_> = parts.entries.iter().map(|entry| (entry.path.as_bytes(), entry.implied)).collect();
    assert_eq!(names, [(&b"a"[..], true), (b"a/b", true), (b"a/b/c", false), (b"a/b!", false), (b"z", false), (b"z/y", false)]);
    assert_eq!(stats.entries, 6);
}

#[test]
fn file_with_entries_below_it_is_skipped() {
    let monitor = Recorder::default();
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    add(&mut writer, "a", b"file");
    add(&mut writer, "a/b/c", b"1");
    let parts = ArchiveStructure::dissect(writer.finish(&monitor).unwrap().0);
    assert_eq!(parts.entry("a").kind, Kind::Directory);
    let warnings = monitor.take_warnings();
    assert!(warnings.len() == 1 && warnings[0].severity == Severity::Degraded && warnings[0].path == b"a");
}

#[test]
fn last_of_equal_paths_wins() {
    let (parts, stats) = archive(options(), |writer| {
        add(writer, "a", &text(5_000, 1));
        add(writer, "a", &noise(5_000, 1));
        add(writer, "b", b"first");
        add(writer, "b", b"second");
        add(writer, "b", b"third");
    });
    assert_eq!(stats.entries, 2);
    assert_eq!(parts.content("a"), noise(5_000, 1));
    assert_eq!(parts.content("b"), b"third");
}

#[test]
fn link_groups_of_one_are_dropped() {
    let (parts, _) = archive(options(), |writer| {
        let with_group = |name: &str, group| Entry { link_group: group, ..file(name) };
        writer.add(with_group("a", 77), whole(b"one")).unwrap();
        writer.add(with_group("b", 99), whole(b"alone")).unwrap();
        writer.add(with_group("c", 77), whole(b"one")).unwrap();
        let late = add(writer, "d", &noise(2_000, 4));
        (0..1_000).for_each(|i| _ = add(writer, &format!("between/{i}"), &noise(2_000, i)));
        writer.add_link(file("e"), late).unwrap();
        writer.add_link(file("f"), late).unwrap();
        let replaced = add(writer, "g", b"g");
        writer.add_link(file("h"), replaced).unwrap();
        add(writer, "h", b"no link any more");
        let empty = writer.add(file("i"), NewContent::None).unwrap();
        writer.add_link(file("j"), empty).unwrap();
    });
    let group = |name: &str| parts.entry(name).link_group;
    assert!(group("a") == group("c") && group("a") > 0);
    assert!(group("d") == group("e") && group("d") == group("f") && group("d") > 0 && group("d") != group("a"));
    assert_eq!((group("b"), group("g"), group("h")), (0, 0, 0));
    assert!(group("i") == group("j") && group("i") > 0);
    assert_eq!(parts.content("f"), noise(2_000, 4));
}

#[test]
fn uncompressed_content_is_aligned() {
    for align in [16, 64, 4096] {
        let (parts, _) = archive(WriterOptions { align, ..options() }, |writer| {
            for i in 0..700 {
                add(writer, &format!("{i}"), &noise(1_000 + i as usize, i));
                // Only the worker finds out that it is incompressible.
                let bytes = noise(3_000, 1_000 + i);
                let content = NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible: false };
                writer.add(file(&format!("unknown {i}")), content).unwrap();
            }
        });
        for entry in &parts.entries {
            let Content::Uncompressed(extent, _) = *entry.content() else { panic!("raw content is expected") };
            let start = extent.block.offset + HEADER_LEN as u64 + u64::from(extent.block.pad_len + extent.offset);
            assert_eq!(start % u64::from(align), 0);
            parts.content(str::from_utf8(entry.path.as_bytes()).unwrap());
        }
    }
}

#[test]
fn all_methods_and_presets_round_trip() {
    let words: Vec<Vec<u8>> = (0..3_000)
        .map(|i| {
            format!("{{\"id\": {i}, \"name\": \"entry number {}\", \"label\": \"class-{}\"}}", i * 7, i % 13)
                .repeat(1 + i % 5)
                .into_bytes()
        })
        .collect();
    for preset in [WriterOptions::balanced(), WriterOptions::dense(), WriterOptions::random()] {
        for method in [preset.method, Method::LZ4, Method::NONE] {
            let options = WriterOptions { method, reproducible: true, threads: 2, ..preset.clone() };
            let (parts, stats) = archive(options, |writer| {
                words.iter().enumerate().for_each(|(i, word)| _ = add(writer, &format!("{i}.json"), word));
            });
            assert_eq!(parts.content("2999.json"), words[2_999]);
            assert_eq!(stats.stored_bytes == stats.chunk_bytes, method == Method::NONE);
        }
    }
}

#[test]
fn dictionary_is_trained_where_it_pays() {
    let record = |i: u64| {
        let word = |n: u64| text(12, n % 900).trim_ascii().to_vec();
        let (camera, exposure, place) = (word(i), word(i * 7), word(i * 31));
        let i = i.to_string();
        [
            br#"{"id": "#,
            i.as_bytes(),
            br#", "camera": ""#,
            &camera,
            br#"", "exposure": ""#,
            &exposure,
            br#"", "place": ""#,
            &place,
            br#""}"#,
        ]
        .concat()
    };
    let block = BlockPolicy { min_raw_bytes: 1 << 10, max_raw_bytes: 1 << 10, stored_bytes: 0, max_cheap_bytes: 16 << 20 };
    let fill = |writer: &mut Writer<Vec<u8>>| (0..10_000).for_each(|i| _ = add(writer, &i.to_string(), &record(i)));
    let auto = WriterOptions { block, dictionary: DictionaryPolicy::Auto, ..options() };
    let (with, stats) = archive(auto.clone(), fill);
    let (without, plain_stats) = archive(WriterOptions { dictionary: DictionaryPolicy::Never, ..auto.clone() }, fill);
    assert_eq!((with.dictionaries.len(), without.dictionaries.len()), (1, 0));
    assert!(stats.archive_bytes < plain_stats.archive_bytes);
    assert_eq!(with.content("9999"), record(9_999));
    let given = with.frames.values().find(|frame| frame.header.kind == FrameKind::Dictionary).unwrap().payload.clone();
    let (again, given_stats) = archive(WriterOptions { dictionary: DictionaryPolicy::Given(given), ..auto.clone() }, fill);
    assert_eq!((again.dictionaries.len(), given_stats.stored_bytes), (1, stats.stored_bytes));
    let (noise, _) = archive(auto, |writer| (0..1_000).for_each(|i| _ = add(writer, &i.to_string(), &noise(1_000, i))));
    assert!(noise.dictionaries.is_empty());
}

#[test]
fn attributes_message_and_time_round_trip() {
    let attribute = |name: &[u8]| Attribute { namespace: Namespace::User, name: name.into(), value: (*b"v").into() };
    let time = Timestamp { seconds: 5, nanoseconds: 6 };
    let given = WriterOptions {
        attributes: vec![attribute(b"name"), attribute(b"licence")],
        message: "first".into(),
        time: Some(time),
        ..options()
    };
    let (parts, _) = archive(given.clone(), |_| {});
    let found = parse_attributes(parts.follow(parts.commit.attributes.unwrap(), FrameKind::Attributes)).unwrap();
    assert_eq!(found, [attribute(b"licence"), attribute(b"name")]);
    assert_eq!((parts.commit.message.as_str(), parts.commit.time), ("first", Some(time)));
    assert_eq!(parts.commit.archive_id, parts.commit.derived_id());
    let twice = WriterOptions { attributes: vec![attribute(b"name"), attribute(b"name")], ..given };
    assert!(matches!(Writer::create(Vec::new(), twice), Err(Error::Usage { .. })));
    let (parts, _) = archive(WriterOptions { reproducible: false, ..options() }, |_| {});
    assert!(parts.commit.time.is_some() && parts.commit.archive_id != parts.commit.derived_id());
}

#[test]
fn many_entries_produce_inner_pages() {
    let (parts, stats) = archive(options(), |writer| {
        for i in 0..100_000u32 {
            let mut entry = file(&format!("images/{:03}/{i:06}.png", i % 100));
            entry.modified = Some(Timestamp { seconds: 1_700_000_000 + i64::from(i), nanoseconds: i });
            writer.add(entry, whole(&i.to_le_bytes())).unwrap();
        }
    });
    assert_eq!((stats.entries, parts.entries.len()), (100_101, 100_101));
    assert_eq!(parts.content("images/042/000042.png"), 42u32.to_le_bytes());
}

#[test]
fn output_errors_are_returned() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for room in [0, 1_000, 1_500_000] {
        let mut writer = Writer::create(Full(room), options()).unwrap();
        let result = (0..3_000).try_for_each(|i| {
            let bytes = noise(1_000, i);
            writer.add(file(&i.to_string()), whole(&bytes)).map(|_| ())
        });
        assert!(result.is_err() || writer.finish(&Recorder::default()).is_err(), "{room}");
    }
}

#[test]
fn misuse_is_an_error() {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    assert!(writer.add_chunk(b"x", Digest::of(b"x"), false).is_err());
    assert!(writer.add(Entry::new(path("d"), Kind::Directory), whole(b"x")).is_err());
    assert!(writer.begin_file(Entry::new(path("d"), Kind::Directory)).is_err());
    assert!(writer.add(Entry::new(path("s"), Kind::Symlink), NewContent::None).is_err(), "no target");
    let directory = writer.add(Entry::new(path("d"), Kind::Directory), NewContent::None).unwrap();
    assert!(writer.add_link(file("l"), directory).is_err());
    writer.begin_file(file("f")).unwrap();
    assert!(writer.add(file("g"), NewContent::None).is_err());
    writer.abandon_file();
    writer.begin_file(file("f")).unwrap();
    assert!(writer.finish(&Recorder::default()).is_err());
    for bad in [
        WriterOptions { align: 3, ..options() },
        WriterOptions { message: "m".repeat(70_000), ..options() },
        WriterOptions {
            block: BlockPolicy { min_raw_bytes: 2, max_raw_bytes: 1, stored_bytes: 0, max_cheap_bytes: 16 << 20 },
            ..options()
        },
        WriterOptions { method: Method::zstd(99), ..options() },
        WriterOptions { dictionary: DictionaryPolicy::Given(b"none".to_vec()), ..options() },
    ] {
        assert!(Writer::create(Vec::new(), bad).is_err());
    }
}

#[test]
fn writer_can_be_dropped_early() {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    (0..2_000).for_each(|i| _ = add(&mut writer, &i.to_string(), &text(10_000, i)));
    drop(writer);
}

/// A file of `count` equal bytes with a hole after each.
fn riddled(writer: &mut Writer<Vec<u8>>, entry: Entry, bytes: usize) {
    writer.begin_file(entry).unwrap();
    for _ in 0..bytes {
        writer.add_chunk(b"x", Digest::of(b"x"), false).unwrap();
        writer.add_hole(1).unwrap();
    }
    writer.end_file(None).unwrap();
}

#[test]
fn hard_links_share_one_extent_map() {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    for name in ["a", "b", "c"] {
        riddled(&mut writer, Entry { link_group: 5, ..file(name) }, 2_000);
    }
    let parts = ArchiveStructure::dissect(writer.finish(&Recorder::default()).unwrap().0);
    let pages = parts.frames.values().filter(|frame| frame.header.kind == FrameKind::ExtentPage).count();
    assert_eq!(pages, 5, "four leaves and a root");
    let [a, b, c] = &parts.entries[..] else { panic!("three entries") };
    assert!(a.link_group != 0 && [b, c].iter().all(|other| other.link_group == a.link_group && other.shares_content(a)));
}

#[test]
fn chunk_lists_of_large_files_are_released() {
    let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..options() }).unwrap();
    let mut most = 0;
    for i in 0..20 {
        riddled(&mut writer, file(&format!("{i:02}")), 100_000);
        let held = |added: &index::Added| {
            if let index::ContentSource::Parts(parts, _) = &added.source { size_of_val(&**parts) } else { 0 }
        };
        most = most.max(writer.index.entries.iter().map(held).sum::<usize>());
    }
    assert!(most <= 2 * MAX_WEIGHT, "{most} bytes");
    let parts = ArchiveStructure::dissect(writer.finish(&Recorder::default()).unwrap().0);
    assert!(parts.entries.iter().all(|entry| entry.size == 200_000));
}

#[test]
fn content_size_overflow_is_rejected() {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    for name in ["a", "b", "c"] {
        writer.begin_file(file(name)).unwrap();
        writer.add_hole(u64::MAX / 2).unwrap();
        writer.end_file(None).unwrap();
    }
    let refused = writer.finish(&Recorder::default()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Limit { what: "content of all files", .. }), "{refused:?}");
}
