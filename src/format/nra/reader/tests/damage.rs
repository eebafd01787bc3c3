//! Damage affects only the damaged parts, and never causes wrong content.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::block_index::Chunk;
use crate::content::{Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::entry_page::{Child, EntryPage, InnerPage};
use crate::extent_map::ExtentPage;
use crate::frame::FrameKind;
use crate::reader::NraReader;
use crate::reader::tests::build::{Builder, path, small, text};
use crate::reader::tests::{content, open};
use nra_core::archive::{Access, Archive, OpenOptions};
use nra_core::checksum::content_checksum;
use nra_core::codec::Method;
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;
use nra_core::source::{MemorySource, ReadAt};
use nra_core::testing::noise;

/// Opens an archive and reads everything. Panics on wrong content. Returns the readable paths.
fn readable(builder: &Builder, bytes: &[u8]) -> BTreeSet<EntryPath> {
    let Ok(archive) = open(bytes) else { return BTreeSet::new() };
    let mut good = BTreeSet::new();
    for entry in archive.entries(0..u64::MAX).flatten() {
        let expected = builder.entries.get(&entry.path).unwrap_or_else(|| panic!("{} was never there", entry.path));
        assert_eq!(entry.kind, expected.kind);
        let Some(expected) = builder.contents.get(&entry.path) else {
            good.insert(entry.path);
            continue;
        };
        if let Ok(found) = content(&archive, &entry) {
            assert_eq!(&found, expected, "{}", entry.path);
            assert_eq!(archive.find(entry.path.as_bytes()).unwrap().unwrap().1, entry);
            good.insert(entry.path);
        }
    }
    good
}

/// Returns the entries with content in the frame at `offset`.
fn users(builder: &Builder, offset: u64) -> BTreeSet<EntryPath> {
    let uses = |entry: &&Entry| match entry.content() {
        Content::Extent(extent) | Content::Uncompressed(extent, _) => extent.block.offset == offset,
        Content::List(segments, _) => {
            segments.iter().any(|segment| matches!(segment, Segment::Data(extent) if extent.block.offset == offset))
        }
        _ => false,
    };
    builder.entries.values().filter(uses).map(|entry| entry.path.clone()).collect()
}

fn all(builder: &Builder) -> BTreeSet<EntryPath> {
    builder.entries.keys().cloned().collect()
}

#[test]
fn flipped_byte_affects_at_most_one_block() {
    let builder = small();
    let all = all(&builder);
    for at in 0..builder.bytes.len() {
        let mut bytes = builder.bytes.clone();
        for mask in [0x01, 0xff] {
            bytes[at] = builder.bytes[at] ^ mask;
            let good = readable(&builder, &bytes);
            let block = builder
                .frames
                .iter()
                .find(|frame| frame.0 == FrameKind::Block && (frame.1..frame.1 + frame.2).contains(&(at as u64)));
            let may_fail = block.map(|frame| users(&builder, frame.1)).unwrap_or_default();
            let lost: BTreeSet<_> = all.difference(&good).cloned().collect();
            assert!(lost.is_subset(&may_fail), "byte {at}: lost {lost:?}");
        }
    }
}

#[test]
fn truncated_archive_returns_correct_content_or_none() {
    let (builder, mut most) = (small(), 0);
    let all = all(&builder);
    for len in 0..builder.bytes.len() {
        let good = readable(&builder, &builder.bytes[..len]);
        // An entry whose content and record precede the cut survives. An entry with one extent is
        // recorded in its block, others in any block.
        let blocks = builder.frames.iter().filter(|frame| frame.0 == FrameKind::Block);
        let cut: Vec<u64> = blocks.filter(|block| block.1 + block.2 > len as u64).map(|block| block.1).collect();
        let may_be_hurt = |entry: &&Entry| match entry.content() {
            Content::Extent(extent) | Content::Uncompressed(extent, _) => cut.contains(&extent.block.offset),
            _ => !cut.is_empty(),
        };
        let hurt: BTreeSet<_> = builder.entries.values().filter(may_be_hurt).map(|entry| entry.path.clone()).collect();
        let lost: BTreeSet<_> = all.difference(&good).cloned().collect();
        assert!(lost.is_subset(&hurt), "{len}: lost {lost:?}, hurt {hurt:?}");
        most = most.max(good.len());
    }
    assert_eq!(most, builder.entries.len());
}

#[test]
fn entries_survive_the_loss_of_any_index_page() {
    for fanout in [1, 2, 3, 100] {
        let mut builder = small();
        builder.fanout = fanout;
        builder.commit();
        let end = builder.bytes.len() as u64;
        let index = [FrameKind::EntryPage, FrameKind::Commit];
        let mut parts: Vec<(u64, u64)> =
            builder.frames.iter().filter(|frame| index.contains(&frame.0)).map(|frame| (frame.1, frame.2)).collect();
        parts.extend([(end - 64, 64), (0, 256), (end - 1000, 1000)]);
        for (offset, len) in parts {
            let mut bytes = builder.bytes.clone();
            bytes[offset as usize..(offset + len) as usize].fill(0);
            assert_eq!(readable(&builder, &bytes), all(&builder), "zeros at {offset}, {len} bytes");
            let archive = open(&bytes).unwrap();
            for (number, entry) in (0..).zip(builder.entries.values()) {
                assert_eq!(archive.find(entry.path.as_bytes()).unwrap().unwrap().0, number);
                assert_eq!(archive.entry(number).unwrap().path, entry.path);
            }
            assert_eq!(archive.children(None).count(), 6);
            let content: u64 = builder.entries.values().map(|entry| entry.size).sum();
            assert_eq!(archive.totals(0..u64::MAX).unwrap().content_bytes, content);
            if archive.is_index_damaged() {
                assert!(!archive.remarks().is_empty());
            }
        }
    }
}

#[test]
fn strict_reader_reports_a_damaged_page() {
    let mut builder = small();
    builder.fanout = 3;
    builder.commit();
    let last_root = builder.frames.iter().rposition(|frame| frame.0 == FrameKind::Commit).unwrap();
    let pages: Vec<_> = builder.frames[..last_root].iter().rev().take_while(|frame| frame.0 == FrameKind::EntryPage).collect();
    let leaf = pages[pages.len() - 1];
    let mut bytes = builder.bytes.clone();
    bytes[leaf.1 as usize + 70] ^= 1;
    let options = OpenOptions { recover: false, ..OpenOptions::default() };
    let archive = NraReader::open(Arc::new(MemorySource::new(bytes)), &options).unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = archive.entries(0..99).partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (builder.entries.len() - 3, 1));
    assert!(matches!(bad[0].as_ref().unwrap_err(), Error::Corrupt { structure: "entry page", offset, .. } if *offset == leaf.1));
    assert!(archive.children(None).any(|child| child.is_err()));
    assert!(!archive.is_index_damaged());
}

#[test]
fn bad_byte_in_an_uncompressed_block_affects_one_entry() {
    let builder = small();
    let raw = builder.entries[&path("dir/raw1")].position().0 as usize;
    let mut bytes = builder.bytes.clone();
    bytes[raw + 64 + 310] ^= 4;
    let expected: BTreeSet<_> = all(&builder).into_iter().filter(|entry| entry != &path("dir/raw2")).collect();
    assert_eq!(readable(&builder, &bytes), expected);
    // Without the tree, the digests in the block index show the same.
    let end = bytes.len();
    bytes[end - 400..].fill(0);
    assert_eq!(readable(&builder, &bytes), expected);
}

#[test]
fn names_from_earlier_commits_are_reported() {
    let mut builder = small();
    builder.entries.remove(&path("t3"));
    let file = Entry::new(path("raw3/now-a-directory"), Kind::File);
    builder.entry(file);
    builder.entries.insert(path("raw3"), Entry::new(path("raw3"), Kind::Directory));
    builder.commit();
    let end = builder.bytes.len();
    builder.bytes[end - 600..].fill(0);
    let archive = open(&builder.bytes).unwrap();
    assert!(archive.is_index_damaged());
    assert!(archive.remarks().iter().any(|remark| remark.contains("former names")), "{:?}", archive.remarks());
    assert!(archive.find(b"t3").unwrap().is_some());
    assert_eq!(archive.find(b"raw3").unwrap().unwrap().1.kind, Kind::Directory);
}

#[test]
fn missing_parents_are_implied() {
    let mut builder = Builder::new();
    builder.block(Method::zstd(3), &[("a/b/c/one", &text(300, 1))]);
    builder.block(Method::zstd(3), &[("a/b/c/two", &text(300, 2)), ("q", &noise(50, 1))]);
    builder.commit();
    let first = builder.frames[0];
    builder.bytes[first.1 as usize..(first.1 + first.2) as usize].fill(0);
    builder.bytes.truncate(builder.bytes.len() - 64);
    let cut = builder.bytes.len() - 400;
    let archive = open(&builder.bytes[..cut]).unwrap();
    let found: Vec<(String, bool)> =
        archive.entries(0..99).map(|entry| entry.map(|entry| (entry.path.to_string(), entry.implied)).unwrap()).collect();
    let expected = [("a", true), ("a/b", true), ("a/b/c", true), ("a/b/c/two", false), ("q", false)];
    assert_eq!(found, expected.map(|(name, implied)| (name.to_owned(), implied)));
}

#[test]
fn arbitrary_files_do_not_panic() {
    for seed in 0..200 {
        let mut bytes = noise(700 + seed as usize * 13, seed);
        bytes[..6].copy_from_slice(b"NRA\0\x05\0");
        assert!(open(&bytes).is_err());
    }
    // Many sync bytes must not slow down the search.
    let bytes = [&b"NRA\0\x05\0"[..], &[0; 250], &[0x8a, 0x4e, 0x0d, 0x0a, 1, 0, 0, 0].repeat(1 << 20)].concat();
    assert!(open(&bytes).is_err());
}

#[test]
fn descendants_of_a_lost_directory_are_not_children() {
    let mut builder = Builder::new();
    for directory in ["a", "b"] {
        for i in 0..20 {
            builder.entry(Entry::new(path(&format!("{directory}/{i:02}")), Kind::File));
        }
    }
    builder.entry(Entry::new(path("c"), Kind::File));
    builder.commit();
    // The leaf page with `b`; its neighbors start with `a` and below `b`.
    let leaves: Vec<_> = builder.frames.iter().filter(|frame| frame.0 == FrameKind::EntryPage).collect();
    let hit = leaves[21 / builder.fanout].1 as usize + 80;
    builder.bytes[hit] ^= 1;
    let options = OpenOptions { recover: false, ..OpenOptions::default() };
    let archive = NraReader::open(Arc::new(MemorySource::new(builder.bytes)), &options).unwrap();
    assert!(archive.find(b"b").is_err());
    let children: Vec<_> = archive.children(None).collect();
    assert!(children.iter().any(Result::is_err));
    let names: Vec<_> = children.into_iter().flatten().map(|child| child.path.to_string()).collect();
    assert_eq!(names, ["a", "c"]);
}

/// Returns offset and length of the first leaf page of the last commit.
fn first_leaf(builder: &Builder) -> (usize, usize) {
    let commits: Vec<usize> = (0..builder.frames.len()).filter(|&i| builder.frames[i].0 == FrameKind::Commit).collect();
    let from = commits.len().checked_sub(2).map_or(0, |before| commits[before]);
    let leaf = builder.frames[from..].iter().find(|frame| frame.0 == FrameKind::EntryPage).unwrap();
    (leaf.1 as usize, leaf.2 as usize)
}

#[test]
fn entries_of_later_commits_do_not_replace_lost_ones() {
    let mut builder = small();
    let (leaf, _) = first_leaf(&builder);
    let whole = builder.entries.clone();
    builder.note_slot();
    builder.block(Method::NONE, &[("dir/new", &noise(300, 50)), ("dir/raw1", &noise(20, 51))]);
    builder.bytes[leaf + 70] ^= 1;
    let archive = open(&builder.bytes).unwrap();
    let found: Vec<Entry> = archive.entries(0..99).map(Result::unwrap).collect();
    assert!(archive.is_index_damaged());
    let brief = |entry: &Entry| (entry.path.clone(), entry.size, entry.position());
    assert!(found.iter().map(brief).eq(whole.values().map(brief)));
}

#[test]
fn commit_slot_of_a_lost_commit_does_not_hide_earlier_commits() {
    let mut builder = small();
    builder.note_slot();
    builder.block(Method::NONE, &[("second", &noise(300, 50))]);
    builder.commit();
    builder.note_slot();
    let commit = builder.frames.iter().rfind(|frame| frame.0 == FrameKind::Commit).unwrap().1 as usize;
    builder.block(Method::NONE, &[("third", &noise(300, 51))]);
    assert_eq!(open(&builder.bytes).unwrap().info().commit, Some(2));
    builder.bytes[commit + 70] ^= 1;
    let archive = open(&builder.bytes).unwrap();
    assert!(archive.is_index_damaged());
    assert_eq!(archive.info().commit, None);
    assert!(archive.remarks()[0].contains("found in block indexes"), "{:?}", archive.remarks());
    assert!(archive.find(b"second").unwrap().is_some());
    let trusting = OpenOptions { recover: false, ..OpenOptions::default() };
    let refused = NraReader::open(Arc::new(MemorySource::new(builder.bytes)), &trusting).err().unwrap();
    assert!(matches!(refused, Error::Corrupt { structure: "commit", .. }), "{refused}");
}

#[test]
fn leaf_is_reachable_by_one_key_only() {
    let mut builder = small();
    let leaf = EntryPage::Leaf(builder.entries.values().cloned().collect()).encode();
    let (page, _) = builder.frame(FrameKind::EntryPage, Method::zstd(3), &leaf, b"");
    let (entries, content_bytes) = (builder.commit.entries, builder.commit.content_bytes);
    let keys = ["", "a", "b", "c", "zz"];
    let children = keys.map(|key| Child { key: key.as_bytes().into(), page, entries, content_bytes }).to_vec();
    let root = EntryPage::Inner(InnerPage { level: 1, children }).encode();
    builder.commit.entry_root = Some(builder.frame(FrameKind::EntryPage, Method::zstd(3), &root, b"").0);
    builder.commit.entries = 5 * entries;
    builder.commit.files *= 5;
    builder.commit.content_bytes = 5 * content_bytes;
    builder.seal();
    let trusting = OpenOptions { recover: false, ..OpenOptions::default() };
    let archive = NraReader::open(Arc::new(MemorySource::new(builder.bytes.clone())), &trusting).unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = archive.entries(0..u64::MAX).partition(Result::is_ok);
    // All its entries are between "c" and "zz".
    assert_eq!((good.len(), bad.len()), (builder.entries.len(), 4));
    let archive = open(&builder.bytes).unwrap();
    let found: Vec<EntryPath> = archive.entries(0..u64::MAX).flatten().map(|entry| entry.path).collect();
    assert!(found.iter().eq(builder.entries.keys()));
}

#[test]
fn scan_is_retried_after_an_io_error() {
    struct Flaky(MemorySource, AtomicBool);
    impl ReadAt for Flaky {
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn name(&self) -> &[u8] {
            self.0.name()
        }
        fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
            if self.1.load(Relaxed) {
                return Err(Error::io("read", self.name(), std::io::ErrorKind::TimedOut.into()));
            }
            self.0.read_exact_at(offset, buffer)
        }
    }
    let mut builder = small();
    builder.block(Method::NONE, &[("zz-new", &noise(90_000, 4))]);
    builder.commit();
    let (leaf, _) = first_leaf(&builder);
    builder.bytes[leaf + 70] ^= 1;
    let source = Arc::new(Flaky(MemorySource::new(builder.bytes.clone()), AtomicBool::new(false)));
    let archive = NraReader::open(Arc::clone(&source) as Arc<dyn ReadAt>, &OpenOptions::default()).unwrap();
    source.1.store(true, Relaxed);
    assert!(matches!(archive.find(b"dir"), Err(Error::Io { .. })));
    source.1.store(false, Relaxed);
    assert!(archive.find(b"dir").unwrap().is_some());
    assert_eq!(archive.entries(0..99).flatten().count(), builder.entries.len());
}

#[test]
fn scan_of_a_small_file_has_a_memory_limit() {
    let mut builder = Builder::new();
    for block in 0..4 {
        for number in 0..10_000 {
            builder.entry(Entry::new(path(&format!("{}{block}{number}", "long".repeat(500))), Kind::File));
        }
        builder.write_block(Method::NONE, b"", Vec::new());
    }
    builder.bytes.resize(builder.bytes.len() + 64, 0);
    assert!(builder.bytes.len() < 400_000, "{}", builder.bytes.len());
    let options = OpenOptions { cache_bytes: 1 << 20, ..OpenOptions::default() };
    let refused = NraReader::open(Arc::new(MemorySource::new(builder.bytes)), &options).err();
    assert!(matches!(refused, Some(Error::Limit { what: "memory for the recorded entries", .. })), "{refused:?}");
}

/// A file of 1,584 bytes. The extent map of its only entry has 4 pages; each refers 4,096 times to
/// the next.
#[test]
fn shared_extent_map_pages_are_rejected() {
    let archive = open(include_bytes!("../../../../../tests/fixtures/nra5/shared-map-pages.nra")).unwrap();
    let (_, entry) = archive.find(b"bomb").unwrap().unwrap();
    assert!(entry.size > 1 << 36);
    let refused = |result: Result<()>| assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    refused(archive.stored_bytes(&entry).map(drop));
    refused(archive.holes(&entry).map(drop));
    refused(archive.runs(&entry, 8).map(drop));
    refused(archive.each_segment(&entry, 0..entry.size, &mut |_, _| Ok(())));
    refused(archive.with_content(&entry, Access::Sequential, &mut |_| Ok(())));
    // It claims more content than there is memory.
    refused(archive.read_all(&entry, u64::MAX).map(drop));
    // One page of the map suffices for the first bytes.
    assert_eq!(archive.read_at(&entry, 0, &mut [0; 2]).unwrap(), 2);
}

/// Returns an archive whose entries share structures, some by false references: `good` has the
/// content, and each of the others differs in what its name says.
fn with_false_references() -> Builder {
    let mut builder = Builder::new();
    let text = text(5_000, 1);
    let chunk = |bytes: &[u8]| Chunk { gap: 0, raw_len: bytes.len() as u32, digest: Digest::of(bytes) };
    let block = builder.write_block(Method::zstd(3), &text, vec![chunk(&text)]);
    let noise = noise(5_000, 1);
    let plain = builder.write_block(Method::NONE, &noise, vec![chunk(&noise)]);
    let whole = Extent { block: plain, offset: 0, len: 5_000 };
    let sum = content_checksum(&noise);
    // As many extents as a map needs.
    let segment = |at: u32| Segment::Data(Extent { block, offset: at * 2, len: 1 });
    let segments: Vec<Segment> = (0..1_024).map(segment).collect();
    let page = ExtentPage::Leaf(segments).encode();
    let (map, _) = builder.frame(FrameKind::ExtentPage, Method::zstd(3), &page, b"");
    let mapped: Vec<u8> = text.iter().copied().step_by(2).take(1_024).collect();
    let false_map = FrameRef { length: map.length + 8, ..map };
    let false_kind = builder.frame(FrameKind::ChunkPage, Method::zstd(3), &page, b"").0;
    for (name, content, bytes) in [
        ("map/good", Content::Map(map, None), &mapped),
        ("map/kind", Content::Map(false_kind, None), &mapped),
        ("map/length", Content::Map(false_map, None), &mapped),
        ("plain/checksum", Content::Uncompressed(whole, sum ^ 1), &noise),
        ("plain/good", Content::Uncompressed(whole, sum), &noise),
    ] {
        let mut entry = Entry::new(path(name), Kind::File);
        entry.size = bytes.len() as u64;
        *entry.content_mut() = content;
        builder.contents.insert(entry.path.clone(), bytes.clone());
        builder.entry(entry);
    }
    builder.commit();
    builder
}

#[test]
fn false_reference_does_not_affect_others() {
    let builder = with_false_references();
    let mut names: Vec<&EntryPath> = builder.contents.keys().collect();
    for _ in 0..2 {
        let archive = open(&builder.bytes).unwrap();
        for name in &names {
            let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
            // Parts are cached.
            let mut part = [0; 100];
            let is_read = archive.read_at(&entry, 10, &mut part).is_ok();
            assert_eq!(is_read, name.as_bytes().ends_with(b"/good"), "{name}");
            assert!(!is_read || part == builder.contents[*name][10..110], "{name}");
        }
        names.reverse();
    }
}
