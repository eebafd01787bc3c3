//! Appending, removing, renaming.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::disk::{Disk, source};
use super::*;
use crate::reader::NraReader;
use nra_core::archive::{Archive, Depth, OpenOptions};

type Files = BTreeMap<String, Vec<u8>>;

/// Writes a new archive.
pub fn pack(fill: impl FnOnce(&mut Writer<Vec<u8>>)) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    fill(&mut writer);
    writer.finish(&Recorder::default()).unwrap().0
}

/// Makes a commit on top of `bytes`.
pub fn append(bytes: Vec<u8>, change: impl FnOnce(&mut Writer<AppendDestination>)) -> (Vec<u8>, WriterStats) {
    let disk = Disk::new(bytes);
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    change(&mut writer);
    let (end, stats) = writer.finish(&Recorder::default()).unwrap();
    drop(end);
    assert_eq!(stats.archive_bytes, disk.bytes().len() as u64);
    (disk.bytes(), stats)
}

pub fn put<W: Write + Send>(writer: &mut Writer<W>, name: &str, content: &[u8]) -> EntryId {
    writer.add(file(name), whole(content)).unwrap()
}

/// Opens an undamaged archive.
pub fn open(bytes: &[u8]) -> NraReader {
    let reader = NraReader::open(source(bytes.to_vec()), &OpenOptions::default()).unwrap();
    let verdict = reader.verify(Depth::Full, None, &Recorder::default()).unwrap();
    assert_eq!(verdict.damage, []);
    assert!(reader.remarks().is_empty() && !reader.is_index_damaged());
    reader
}

/// Returns paths with contents; directories end with a slash.
pub fn files(bytes: &[u8]) -> Files {
    let reader = open(bytes);
    let entries = reader.entries(0..reader.entry_count()).map(Result::unwrap);
    let files: Files = entries
        .map(|entry| {
            let slash = if entry.kind == Kind::Directory { "/" } else { "" };
            (format!("{}{slash}", entry.path), reader.read_all(&entry, u64::MAX).unwrap())
        })
        .collect();
    assert_eq!(files.len() as u64, reader.entry_count());
    files
}

fn names(bytes: &[u8]) -> Vec<String> {
    files(bytes).into_keys().collect()
}

fn small() -> Vec<u8> {
    pack(|writer| {
        put(writer, "a/one", b"1");
        put(writer, "a/two", &text(5_000, 2));
        put(writer, "b/three", &noise(3_000, 3));
        put(writer, "c", b"see");
    })
}

#[test]
fn commit_adds_replaces_removes_and_renames() {
    let (bytes, stats) = append(small(), |writer| {
        put(writer, "a/one", b"eins");
        put(writer, "d/e/f", b"deep");
        writer.remove(&path("c")).unwrap();
        writer.rename(&path("b"), &path("x/y")).unwrap();
    });
    let found = files(&bytes);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a/", "a/one", "a/two", "d/", "d/e/", "d/e/f", "x/", "x/y/", "x/y/three"]);
    assert_eq!((&*found["a/one"], &found["x/y/three"]), (&b"eins"[..], &noise(3_000, 3)));
    assert_eq!((stats.commit, stats.entries, stats.files), (2, 9, 4));
    assert_eq!((stats.added, stats.replaced, stats.removed), (6, 1, 3));
}

#[test]
fn files_and_directories_replace_each_other() {
    let (bytes, _) = append(small(), |writer| {
        put(writer, "a", b"no longer a directory");
        put(writer, "c/d", b"no longer a file");
    });
    assert_eq!(names(&bytes), ["a", "b/", "b/three", "c/", "c/d"]);
    let (bytes, _) = append(bytes, |writer| {
        writer.rename(&path("c"), &path("q")).unwrap();
        writer.rename(&path("q/d"), &path("c")).unwrap();
        put(writer, "q/r/s", b"");
        writer.remove(&path("q/r")).unwrap();
    });
    assert_eq!(names(&bytes), ["a", "b/", "b/three", "c", "q/"]);
}

#[test]
fn all_entries_can_be_removed_and_added_again() {
    let (bytes, stats) = append(small(), |writer| {
        for name in ["a", "b", "c"] {
            writer.remove(&path(name)).unwrap();
        }
    });
    assert_eq!((names(&bytes).len(), stats.entries), (0, 0));
    let (bytes, stats) = append(bytes, |writer| {
        put(writer, "b/three", &noise(3_000, 3));
    });
    assert_eq!(names(&bytes), ["b/", "b/three"]);
    assert_eq!(stats.deduplicated_bytes, 3_000);
}

#[test]
fn invalid_changes_are_rejected_without_effect() {
    let before = small();
    let (after, stats) = append(before.clone(), |writer| {
        assert!(matches!(writer.remove(&path("nothing")), Err(Error::NotFound { .. })));
        assert!(matches!(writer.rename(&path("nothing"), &path("x")), Err(Error::NotFound { .. })));
        for (from, to) in [("a", "a"), ("a", "a/b"), ("a", "b"), ("a", "c/d"), ("c", "a/one")] {
            assert!(matches!(writer.rename(&path(from), &path(to)), Err(Error::Usage { .. })), "{from} {to}");
        }
    });
    assert!(after == before && stats.commit == 1);
    let mut new = Writer::create(Vec::new(), options()).unwrap();
    assert!(new.remove(&path("a")).is_err());
}

#[test]
fn existing_content_is_deduplicated() {
    let (large, raw) = (text(300_000, 7), noise(100_000, 8));
    let bytes = pack(|writer| {
        add_large(writer, "large", &[Ok(&large), Err(5_000), Ok(&raw)]);
        put(writer, "raw", &noise(4_000, 9));
    });
    let len = bytes.len();
    let (bytes, stats) = append(bytes, |writer| {
        writer.begin_file(file("again")).unwrap();
        writer.add_chunk(&raw, Digest::of(&raw), true).unwrap();
        writer.add_chunk(&large, Digest::of(&large), false).unwrap();
        writer.end_file(None).unwrap();
        put(writer, "raw-again", &noise(4_000, 9));
    });
    assert_eq!((stats.deduplicated_bytes, stats.chunks), (404_000, 3));
    assert!(bytes.len() - len < 2_000, "{}", bytes.len() - len);
    let found = files(&bytes);
    assert_eq!(found["again"], [&*raw, &large].concat());
    assert_eq!(found["raw-again"], noise(4_000, 9));
}

#[test]
fn number_of_chunk_runs_stays_small() {
    let mut bytes = small();
    for i in 0..40 {
        (bytes, _) = append(bytes, |writer| {
            put(writer, &format!("n/{i}"), format!("content {i}").as_bytes());
        });
    }
    assert_eq!(files(&bytes).len(), 47);
    let (_, stats) = append(bytes, |writer| {
        for i in 0..40 {
            put(writer, &format!("m/{i}"), format!("content {i}").as_bytes());
        }
    });
    assert_eq!(stats.chunks, 44);
    assert_eq!(stats.commit, 42);
}

#[test]
fn metadata_and_attributes_can_change() {
    let attribute = |name: &str, value: &str| Attribute {
        namespace: Namespace::User,
        name: name.as_bytes().into(),
        value: value.as_bytes().into(),
    };
    let (bytes, _) = append(small(), |writer| {
        writer.set_attributes(vec![attribute("name", "x"), attribute("licence", "y")]).unwrap();
        writer.set_message("why".into()).unwrap();
        let change = |entry: &mut Entry| {
            entry.metadata = Arc::new(Metadata { mode: 0o600, attributes: [attribute("t", "u")].into(), ..Metadata::default() });
            entry.size = 77;
        };
        writer.change(&path("a"), change).unwrap();
        writer.change(&path("a/two"), change).unwrap();
    });
    let reader = open(&bytes);
    assert_eq!(reader.info().attributes.len(), 2);
    assert_eq!(reader.info().message, "why");
    for name in ["a", "a/two"] {
        let entry = reader.find(name.as_bytes()).unwrap().unwrap().1;
        assert_eq!((entry.metadata.mode, entry.implied), (0o600, false));
        assert_eq!(entry.metadata.attributes.len(), 1);
    }
    assert_eq!(files(&bytes)["a/two"], text(5_000, 2));
    let disk = Disk::new(bytes);
    let options = WriterOptions { attributes: vec![attribute("name", "z")], ..options() };
    Writer::append(disk.clone(), options).unwrap().finish(&Recorder::default()).unwrap();
    assert_eq!(open(&disk.bytes()).info().attributes, [attribute("licence", "y"), attribute("name", "z")]);
}

#[test]
fn link_groups_persist_across_commits() {
    let bytes = pack(|writer| {
        let first = put(writer, "l/1", b"linked");
        writer.add_link(file("l/2"), first).unwrap();
    });
    let (bytes, _) = append(bytes, |writer| {
        let first = put(writer, "m/1", b"other");
        writer.add_link(file("m/2"), first).unwrap();
        let old = writer.reference_entry(&path("l/1")).unwrap();
        writer.add_link(file("l/3"), old).unwrap();
    });
    let (bytes, _) = append(bytes, |writer| {
        let first = put(writer, "n/1", b"third");
        writer.add_link(file("n/2"), first).unwrap();
        writer.remove(&path("m/1")).unwrap();
        writer.rename(&path("n"), &path("o")).unwrap();
    });
    let reader = open(&bytes);
    let group = |name: &str| reader.find(name.as_bytes()).unwrap().unwrap().1.link_group;
    assert_eq!(["l/1", "l/2", "l/3", "m/2", "o/1", "o/2"].map(group), [1, 1, 1, 2, 3, 3]);
}

#[test]
fn deep_trees_are_copied_on_write() {
    let bytes = pack(|writer| {
        for i in 0..40_000 {
            put(writer, &format!("d{:03}/f{i:05}-{}", i % 200, i * 7_919), b"");
        }
    });
    let len = bytes.len();
    let (bytes, stats) = append(bytes, |writer| {
        put(writer, "d100/f00100-x", b"new");
    });
    assert_eq!((stats.entries, stats.added), (40_201, 1));
    assert!(bytes.len() - len < 20_000, "{}", bytes.len() - len);
    let (bytes, stats) = append(bytes, |writer| {
        for i in 0..150 {
            writer.remove(&path(&format!("d{i:03}"))).unwrap();
        }
        for i in 0..3_000 {
            put(writer, &format!("d1{i:05}"), b"");
        }
    });
    assert_eq!((stats.removed, stats.entries), (30_151, 50 * 201 + 3_000));
    let (bytes, stats) = append(bytes, |writer| {
        for i in 151..199 {
            writer.remove(&path(&format!("d{i:03}"))).unwrap();
        }
    });
    assert_eq!(stats.entries, 2 * 201 + 3_000);
    assert_eq!(files(&bytes).len(), 2 * 201 + 3_000);
}

#[test]
fn hard_links_share_content() {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    let linked = |name: &str| Entry { link_group: 9, ..file(name) };
    writer.add(linked("a"), whole(b"same")).unwrap();
    writer.add(linked("b"), whole(b"same")).unwrap();
    assert!(matches!(writer.add(linked("c"), whole(b"else")), Err(Error::Usage { .. })));
    let mut other = linked("d");
    other.modified = None;
    assert!(matches!(writer.add(other, whole(b"same")), Err(Error::Usage { .. })));
    let bytes = writer.finish(&Recorder::default()).unwrap().0;
    assert_eq!(names(&bytes), ["a", "b"]);
}

#[test]
fn dropped_writer_leaves_the_archive_unchanged() {
    let before = small();
    let disk = Disk::new(before.clone());
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    for i in 0..40 {
        put(&mut writer, &format!("{i}"), &noise(200_000, i));
    }
    assert!(disk.bytes().len() > before.len() + 1_000_000);
    drop(writer);
    assert_eq!(disk.bytes().len(), before.len());
    assert_eq!(files(&disk.bytes()), files(&before));
}

#[test]
fn other_files_are_rejected() {
    for bytes in [Vec::new(), b"PK\x03\x04".repeat(100), vec![0; 4_000]] {
        assert!(matches!(Writer::append(Disk::new(bytes), options()), Err(Error::Unsupported { .. })));
    }
    let mut bytes = small();
    // An unknown optional feature.
    bytes[12] = 2;
    let sum = nra_core::checksum::checksum(&bytes[..56], 0);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(Writer::append(Disk::new(bytes), options()), Err(Error::Unsupported { .. })));
}

proptest! {
    /// Damaged archives, and forged ones with valid checksums, are rejected or do no harm.
    #[test]
    fn append_to_a_damaged_archive_does_no_harm(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (mut bytes, _) = append(small(), |writer| {
            put(writer, "d/x", &text(2_000, 4));
        });
        for (at, to) in damage {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        let disk = Disk::new(bytes);
        let Ok(mut writer) = Writer::append(disk.clone(), options()) else { return Ok(()) };
        let _ = writer.remove(&path("b"));
        let _ = writer.rename(&path("a"), &path("e/f"));
        put(&mut writer, "new", &text(5_000, 2));
        if writer.finish(&Recorder::default()).is_ok() {
            let reader = NraReader::open(source(disk.bytes()), &OpenOptions::default()).unwrap();
            let (_, entry) = reader.find(b"new").unwrap().unwrap();
            // It may share a chunk of a damaged block, but never has other content.
            if let Ok(content) = reader.read_all(&entry, u64::MAX) {
                prop_assert!(content == text(5_000, 2));
            }
        }
    }
}

#[test]
fn readers_are_not_disturbed_by_a_writer() {
    let before = small();
    let disk = Disk::new(before.clone());
    let reader = NraReader::open(disk.clone(), &OpenOptions::default()).unwrap();
    let read = |reader: &NraReader| {
        let entries = reader.entries(0..reader.entry_count()).map(Result::unwrap);
        entries.map(|entry| (entry.path.to_string(), reader.read_all(&entry, u64::MAX).unwrap())).collect::<Vec<_>>()
    };
    let expected = read(&open(&before));
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    writer.remove(&path("a")).unwrap();
    for i in 0..40 {
        put(&mut writer, &format!("{i}"), &noise(200_000, i));
    }
    // A reader opened before, and one opened while the file is longer than the archive.
    assert_eq!(read(&reader), expected);
    let later = NraReader::open(source(disk.bytes()), &OpenOptions::default()).unwrap();
    assert_eq!((read(&later), later.is_index_damaged()), (expected.clone(), false));
    assert!(later.remarks()[0].contains("an unfinished append"));
    writer.finish(&Recorder::default()).unwrap();
    assert_eq!(read(&reader), expected);
}

#[test]
fn append_works_with_damaged_chunk_runs() {
    let mut bytes = small();
    for i in 0..15 {
        (bytes, _) = append(bytes, |writer| {
            put(writer, &format!("n/{i}"), format!("content {i}").as_bytes());
        });
    }
    let runs = NraReader::base(source(bytes.clone()), 1 << 20, None).unwrap().1.commit.runs;
    assert_eq!(runs.len(), 16);
    let last = usize::try_from(runs[15].offset).unwrap();
    bytes[last + 70] ^= 1;
    let disk = Disk::new(bytes);
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    put(&mut writer, "again", b"content 14");
    put(&mut writer, "known", b"content 13");
    let stats = writer.finish(&Recorder::default()).unwrap().1;
    assert_eq!((stats.chunks, stats.deduplicated_bytes), (20, 10));
    assert!(NraReader::open(source(disk.bytes()), &OpenOptions::default()).unwrap().find(b"again").unwrap().is_some());
}
