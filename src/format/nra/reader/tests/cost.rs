//! Tests that count reads.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::frame::FrameKind;
use crate::reader::NraReader;
use crate::reader::tests::build::{Builder, path, small, text};
use crate::reader::tests::content;
use crate::writer::{NewContent, Writer, WriterOptions};
use nra_core::archive::{Access, Archive, OpenOptions, Totals};
use nra_core::codec::Method;
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::progress::Recorder;
use nra_core::source::{MemorySource, RecordingSource};
use nra_core::testing::noise;

type Source = Arc<RecordingSource<MemorySource>>;

fn recorded(bytes: Vec<u8>) -> (Source, NraReader) {
    let source = Arc::new(RecordingSource::new(MemorySource::new(bytes)));
    let archive = NraReader::open(Arc::clone(&source) as _, &OpenOptions::default()).unwrap();
    (source, archive)
}

/// An uncompressed block of 1,000 files of 1,000 bytes, then compressed blocks, then an index that
/// exceeds the window.
fn large() -> Builder {
    let mut builder = Builder::new();
    builder.fanout = 500;
    let noises: Vec<(String, Vec<u8>)> = (0..1_000).map(|i| (format!("noise/{i:05}"), noise(1_000, i))).collect();
    let texts: Vec<(String, Vec<u8>)> =
        (0..20_000).map(|i| (format!("text/{i:05}-{}", i * 7919 % 10_007), text(30, i))).collect();
    let files = |files: &'_ [(String, Vec<u8>)]| files.iter().map(|file| (file.0.clone(), file.1.clone())).collect::<Vec<_>>();
    let mut write = |method, part: Vec<(String, Vec<u8>)>| {
        let part: Vec<(&str, &[u8])> = part.iter().map(|file| (file.0.as_str(), file.1.as_slice())).collect();
        builder.block(method, &part);
    };
    write(Method::NONE, files(&noises));
    texts.chunks(4_000).for_each(|part| write(Method::zstd(1), files(part)));
    builder.commit();
    builder
}

#[test]
fn small_archive_opens_with_one_read() {
    let builder = small();
    let (source, archive) = recorded(builder.bytes.clone());
    for entry in archive.entries(0..99).map(Result::unwrap) {
        content(&archive, &entry).unwrap();
        archive.digest(&entry).unwrap();
    }
    assert_eq!(source.take(), [(0, builder.bytes.len() as u64)]);
}

#[test]
fn cold_lookup_reads_leaf_and_content() {
    let builder = large();
    let window = 64 << 10;
    let len = builder.bytes.len() as u64;
    for name in ["noise/00500", "text/00000-0"] {
        let (source, archive) = recorded(builder.bytes.clone());
        assert_eq!(source.take(), [(len - window, window)]);
        let (_, entry) = archive.find(name.as_bytes()).unwrap().unwrap();
        let leaf = source.take();
        assert!(leaf.len() == 1 && leaf[0].1 < 64 << 10, "{leaf:?}");
        assert_eq!(archive.read_all(&entry, u64::MAX).unwrap(), builder.contents[&entry.path]);
        let read = source.take();
        assert_eq!(read.len(), 1);
        if name.starts_with("noise") {
            assert_eq!(read[0].1, 1_000, "a raw entry is read as exactly its own bytes");
        }
        // A second time: the leaf page is cached, and so is a compressed block.
        archive.find(name.as_bytes()).unwrap();
        archive.read_all(&entry, u64::MAX).unwrap();
        assert_eq!(source.take().len(), usize::from(name.starts_with("noise")));
    }
}

#[test]
fn sequential_access_reads_whole_uncompressed_blocks() {
    let builder = large();
    let (source, archive) = recorded(builder.bytes.clone());
    let mut bytes = 0;
    for entry in archive.entries(archive.subtree(Some(b"noise")).unwrap()).map(Result::unwrap) {
        archive.with_content(&entry, Access::Sequential, &mut |_| Ok(())).unwrap();
        bytes += entry.size;
    }
    let reads = source.take();
    assert_eq!(bytes, 1_000_000);
    assert_eq!(reads.iter().filter(|read| read.1 >= 1_000_000).count(), 1, "{reads:?}");
    assert!(reads.len() < 8, "{reads:?}");
}

#[test]
fn uncompressed_entry_is_checked_once() {
    let builder = large();
    let (source, archive) = recorded(builder.bytes.clone());
    let entry = archive.find(b"noise/00007").unwrap().unwrap().1;
    source.take();
    for offset in 0..1_000 {
        let mut byte = [0];
        assert_eq!(archive.read_at(&entry, offset, &mut byte).unwrap(), 1);
        assert_eq!(byte[0], builder.contents[&entry.path][offset as usize]);
    }
    assert_eq!(source.take().len(), 1);
}

#[test]
fn digests_cost_one_block_index_read() {
    let builder = large();
    let (source, archive) = recorded(builder.bytes.clone());
    let entries: Vec<_> = archive.entries(archive.subtree(Some(b"noise")).unwrap()).map(Result::unwrap).collect();
    source.take();
    for entry in entries.iter().skip(1) {
        archive.digest(entry).unwrap().unwrap();
    }
    let reads = source.take();
    assert!(reads.len() == 2 && reads[0].1 == 64 && reads[1].1 < 100_000, "{reads:?}");
}

#[test]
fn concurrent_readers_decode_a_block_once() {
    let builder = large();
    let (source, archive) = recorded(builder.bytes.clone());
    let entries: Vec<_> = archive.entries(archive.subtree(Some(b"text")).unwrap()).skip(1).take(8).map(Result::unwrap).collect();
    source.take();
    let barrier = Barrier::new(entries.len());
    thread::scope(|scope| {
        for entry in &entries {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(archive.read_all(entry, u64::MAX).unwrap(), builder.contents[&entry.path]);
            });
        }
    });
    assert_eq!(source.take().len(), 1);
}

#[test]
fn damaged_block_is_read_once() {
    let mut builder = large();
    let block = builder.frames.iter().filter(|frame| frame.0 == FrameKind::Block).nth(1).unwrap().1;
    builder.bytes[block as usize + 80] ^= 1;
    let (source, archive) = recorded(builder.bytes.clone());
    let entries: Vec<_> = archive.entries(archive.subtree(Some(b"text")).unwrap()).skip(1).take(50).map(Result::unwrap).collect();
    source.take();
    assert!(entries.iter().all(|entry| archive.read_all(entry, u64::MAX).is_err()));
    assert_eq!(source.take().len(), 1);
}

#[test]
fn tiny_caches_work() {
    let builder = large();
    for cache_bytes in [0, 1, 1_000, 100_000] {
        let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
        let archive = NraReader::open(Arc::new(MemorySource::new(builder.bytes.clone())), &options).unwrap();
        for name in ["noise/00999", "noise/00007", "text/00000-0"] {
            let entry = archive.find(name.as_bytes()).unwrap().unwrap().1;
            assert_eq!(archive.read_all(&entry, u64::MAX).unwrap(), builder.contents[&path(name)]);
        }
    }
}

/// The guarantee of section 16 and of the design: three reads and 128 KiB in addition to the block,
/// for one of a million entries.
#[test]
fn block_larger_than_the_cache_is_decoded_once() {
    let builder = large();
    let source = Arc::new(RecordingSource::new(MemorySource::new(builder.bytes.clone())));
    let options = OpenOptions { cache_bytes: 1 << 10, ..OpenOptions::default() };
    let archive = NraReader::open(source.clone(), &options).unwrap();
    let entries: Vec<_> = archive.entries(archive.subtree(Some(b"noise")).unwrap()).map(Result::unwrap).collect();
    source.take();
    for entry in &entries {
        archive.with_content(entry, Access::Sequential, &mut |_| Ok(())).unwrap();
    }
    assert_eq!(source.take().len(), 1);
}

#[test]
fn lookup_among_a_million_entries_is_cheap() {
    let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    let mut directories = BTreeSet::new();
    for i in 0u32..1_000_000 {
        let name = format!("shard-{:03}/part-{:02}/sample-{i:07}.json", i / 5_000, i / 200 % 25);
        for directory in [&name[..9], &name[..17]] {
            if directories.insert(directory.to_owned()) {
                writer.add(Entry::new(path(directory), Kind::Directory), NewContent::None).unwrap();
            }
        }
        let bytes = i.to_le_bytes();
        let content = NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible: false };
        writer.add(Entry::new(path(&name), Kind::File), content).unwrap();
    }
    let (bytes, stats) = writer.finish(&Recorder::default()).unwrap();
    assert_eq!(stats.entries, 1_000_000 + directories.len() as u64);
    let (source, archive) = recorded(bytes);
    let (number, entry) = archive.find(b"shard-123/part-04/sample-0615800.json").unwrap().unwrap();
    let index = source.take();
    assert!(index.len() <= 3 && index.iter().map(|read| read.1).sum::<u64>() <= 128 << 10, "{index:?}");
    assert_eq!(archive.read_all(&entry, 4).unwrap(), 615_800u32.to_le_bytes());
    assert_eq!(source.take().len(), 1);
    assert_eq!(archive.entry(number).unwrap(), entry);
    assert_eq!(archive.subtree(Some(b"shard-123")).unwrap().count(), 5_026);
    let listed: Vec<Entry> = archive.children(None).map(Result::unwrap).collect();
    assert_eq!(listed.len(), 200);
    // Subtrees are skipped: about one leaf page per child is read, not all of them.
    assert!(source.take().len() <= 210);
    assert_eq!(archive.totals(0..u64::MAX).unwrap(), Totals { entries: stats.entries, content_bytes: 4_000_000 });
    assert_eq!(source.take().len(), 0);
    assert_eq!(archive.entries(0..u64::MAX).map(Result::unwrap).count() as u64, stats.entries);
}
