//! Single faults: each is reported, with the affected entries.

mod contradictions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::block_index::{BlockIndex, Chunk};
use crate::chunk_run::{ChunkLocation, ChunkPage};
use crate::commit::Commit;
use crate::content::{BlockRef, Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::entry_page::{Child, EntryPage, InnerPage, separator};
use crate::extent_map::ExtentPage;
use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::NraReader;
use crate::superblock::Superblock;
use crate::writer::{BlockPolicy, DictionaryPolicy, NewContent, Writer, WriterOptions};
use nra_core::archive::{Archive, Damage, Depth, OpenOptions, Verdict};
use nra_core::checksum::{checksum, content_checksum};
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Entry, Kind, Namespace, Timestamp};
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Recorder};
use nra_core::source::MemorySource;
use nra_core::testing::noise;

fn text(len: usize, seed: u64) -> Vec<u8> {
    noise(len, seed).iter().flat_map(|byte| format!("row {byte} of {seed}\n").into_bytes()).take(len).collect()
}

fn file(path: &str) -> Entry {
    Entry::new(EntryPath::try_from(path).unwrap(), Kind::File)
}

fn add(writer: &mut Writer<Vec<u8>>, path: &str, bytes: &[u8]) {
    let incompressible = path.ends_with(".bin");
    writer.add(file(path), NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible }).unwrap();
}

/// A small archive with all kinds of blocks, a dictionary, several leaf pages, an extent map and
/// attributes.
fn archive() -> Vec<u8> {
    let samples: Vec<_> = (0..300).map(|i| text(300, i)).collect();
    let dictionary = Dictionary::train(&samples, 1 << 10).unwrap().as_bytes().to_vec();
    let options = WriterOptions {
        block: BlockPolicy { min_raw_bytes: 1 << 10, max_raw_bytes: 4 << 10, stored_bytes: 1 << 10, max_cheap_bytes: 16 << 20 },
        dictionary: DictionaryPolicy::Given(dictionary),
        align: 64,
        threads: 1,
        reproducible: true,
        message: "first".into(),
        attributes: vec![Attribute { namespace: Namespace::User, name: (*b"name").into(), value: (*b"test").into() }],
        ..WriterOptions::balanced()
    };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    for i in 0..30 {
        add(&mut writer, &format!("text/{i}.txt"), &text(300 + i * 7, i as u64));
        add(&mut writer, &format!("noise/{i}.bin"), &noise(60 + i, i as u64));
    }
    for i in 0..400 {
        let path = noise(12, i).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        writer.add(file(&format!("empty/{path}")), NewContent::None).unwrap();
    }
    writer.begin_file(file("large.bin")).unwrap();
    for i in 0..3 {
        let (packed, raw) = (text(2_000, 100 + i), noise(500, 100 + i));
        writer.add_chunk(&packed, Digest::of(&packed), false).unwrap();
        writer.add_hole(5_000).unwrap();
        writer.add_chunk(&raw, Digest::of(&raw), true).unwrap();
    }
    writer.end_file(None).unwrap();
    writer.begin_file(file("map.bin")).unwrap();
    let raw = noise(8, 1_000);
    for i in 1..1_100 {
        writer.add_chunk(&raw, Digest::of(&raw), true).unwrap();
        writer.add_hole(i).unwrap();
    }
    writer.end_file(None).unwrap();
    writer.finish(&Recorder::default()).unwrap().0
}

fn open(bytes: Vec<u8>) -> nra_core::error::Result<NraReader> {
    NraReader::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
}

fn verify(reader: &NraReader, depth: Depth) -> Verdict {
    reader.verify(depth, None, &Recorder::default()).unwrap()
}

/// Returns the readable entries of an archive with their content.
fn contents(reader: &NraReader) -> BTreeMap<EntryPath, Vec<u8>> {
    let entries = reader.entries(0..reader.entry_count()).flatten();
    let content = |entry: &Entry| if entry.size == 0 { Some(Vec::new()) } else { reader.read_all(entry, 1 << 20).ok() };
    entries.filter_map(|entry| content(&entry).map(|content| (entry.path, content))).collect()
}

fn named(damage: &[Damage]) -> BTreeSet<EntryPath> {
    damage.iter().flat_map(|damage| damage.entries.iter().cloned()).collect()
}

/// Header and offset of each frame.
fn frames(bytes: &[u8]) -> Vec<(FrameHeader, usize)> {
    let mut place = SUPERBLOCK_LEN;
    let mut frames = Vec::new();
    while let Ok((header, _)) = FrameHeader::parse(bytes[place..place + HEADER_LEN].try_into().unwrap(), place as u64) {
        frames.push((header, place));
        place += usize::try_from(header.frame_len()).unwrap();
    }
    assert_eq!(place, bytes.len() - FOOTER_LEN);
    frames
}

#[test]
fn undamaged_archive_has_no_findings() {
    let bytes = archive();
    let kinds: BTreeSet<u8> = frames(&bytes).iter().map(|frame| frame.0.kind as u8).collect();
    assert_eq!(kinds, (1..=7).collect(), "frames of every kind");
    let reader = open(bytes).unwrap();
    let size: u64 = reader.entries(0..u64::MAX).map(|entry| entry.unwrap().size).sum();
    for depth in [Depth::Quick, Depth::Full] {
        let recorder = Recorder::default();
        let verdict = reader.verify(depth, None, &recorder).unwrap();
        assert_eq!(verdict.damage, []);
        assert_eq!((verdict.entries, verdict.content_bytes), (reader.entry_count(), size));
        assert_eq!(Some(verdict.blocks), reader.info().blocks);
        assert_eq!(recorder.count(Counter::Entries), verdict.entries);
    }
    let select = |entry: &Entry| entry.path.as_bytes().starts_with(b"text/") || entry.path.as_bytes() == b"map.bin";
    let verdict = reader.verify(Depth::Full, Some(&select), &Recorder::default()).unwrap();
    assert_eq!((verdict.damage, verdict.entries), (vec![], 31));
    assert!(verdict.blocks > 3 && Some(verdict.blocks) < reader.info().blocks);
}

#[test]
fn empty_archive_has_no_findings() {
    let writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
    assert_eq!(verify(&open(bytes).unwrap(), Depth::Full), Verdict::default());
}

/// Changes a byte, verifies, and compares the report with the readable content.
fn change(bytes: &[u8], at: usize, good: &BTreeMap<EntryPath, Vec<u8>>) {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x40;
    let reader = open(bytes).unwrap();
    let quick = verify(&reader, Depth::Quick);
    let readable = contents(&reader);
    for (path, content) in &readable {
        assert!(good.get(path) == Some(content), "byte {at}: {path} has other content");
    }
    let lost: BTreeSet<EntryPath> = good.keys().filter(|path| !readable.contains_key(path)).cloned().collect();
    for (depth, verdict) in [(Depth::Quick, quick), (Depth::Full, verify(&reader, Depth::Full))] {
        assert!(!verdict.damage.is_empty(), "byte {at}, {depth:?}");
        assert_eq!(named(&verdict.damage), lost, "byte {at}, {depth:?}: {:?}", verdict.damage);
    }
}

/// Changes every `step`th byte from `start` on, one at a time.
fn change_each(start: usize, step: usize) {
    let bytes = archive();
    let reader = open(bytes.clone()).unwrap();
    let good = contents(&reader);
    assert_eq!(good.len() as u64, reader.entry_count(), "all entries are readable");
    (start..bytes.len()).step_by(step).for_each(|at| change(&bytes, at, &good));
}

#[test]
fn changed_bytes_are_reported_with_the_affected_entries() {
    change_each(0, 397);
}

// Two tests, so that two cores share the work.
#[test]
#[ignore = "takes half a minute"]
fn every_even_byte_that_changed_is_reported_with_the_affected_entries() {
    change_each(0, 2);
}

#[test]
#[ignore = "takes half a minute"]
fn every_odd_byte_that_changed_is_reported_with_the_affected_entries() {
    change_each(1, 2);
}

#[test]
fn findings_name_the_structure() {
    let bytes = archive();
    let damaged = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        verify(&open(bytes).unwrap(), Depth::Full).damage
    };
    let structures = |at| damaged(at).into_iter().map(|damage| damage.structure).collect::<Vec<_>>();
    assert_eq!(structures(20), ["superblock"]);
    assert_eq!(structures(70), ["commit slot"]);
    assert_eq!(structures(bytes.len() - 1), ["footer"]);
    for (header, place) in frames(&bytes) {
        let payload = place + usize::try_from(header.payload_start()).unwrap();
        let behind = place + usize::try_from(header.block_index_start()).unwrap();
        let kind = header.kind;
        if kind == FrameKind::Block {
            assert_eq!(structures(behind), ["block index"]);
            if header.raw_len > 0 {
                assert_eq!(structures(payload), ["block payload"]);
                assert_eq!(structures(place + 9), ["block header"]);
            }
            if header.pad_len > 0 {
                assert_eq!(structures(payload - 1), ["padding"]);
            }
            continue;
        }
        let found = structures(payload);
        assert!(found.iter().any(|structure| *structure == kind.name()), "{kind:?}: {found:?}");
        let end = place + usize::try_from(header.frame_len()).unwrap();
        if behind < end {
            assert_eq!(structures(end - 1), ["padding"]);
        }
    }
}

#[test]
fn truncation_is_reported() {
    let bytes = archive();
    for len in (SUPERBLOCK_LEN + HEADER_LEN..bytes.len()).step_by(611) {
        let Ok(reader) = open(bytes[..len].to_vec()) else { continue };
        assert!(!verify(&reader, Depth::Full).damage.is_empty(), "{len} bytes");
    }
}

#[test]
fn trailing_bytes_are_reported() {
    let mut bytes = archive();
    let entries = open(bytes.clone()).unwrap().entry_count();
    bytes.extend_from_slice(&[7; 100]);
    let reader = open(bytes).unwrap();
    let verdict = verify(&reader, Depth::Full);
    assert!(reader.has_trailing_bytes() && reader.remarks()[0].starts_with("100 bytes after"), "{:?}", reader.remarks());
    assert_eq!((verdict.entries, verdict.damage), (entries, Vec::new()));
}

#[test]
fn only_selected_entries_are_checked() {
    let bytes = archive();
    let reader = open(bytes.clone()).unwrap();
    let place = usize::try_from(reader.find(b"noise/7.bin").unwrap().unwrap().1.position().0).unwrap();
    let (header, _) = *frames(&bytes).iter().find(|frame| frame.1 == place).unwrap();
    let mut bytes = bytes;
    bytes[place + usize::try_from(header.block_index_start()).unwrap() - 1] ^= 1;
    let reader = open(bytes).unwrap();
    let verdict = |prefix: &'static [u8]| {
        let select = move |entry: &Entry| entry.path.as_bytes().starts_with(prefix);
        reader.verify(Depth::Quick, Some(&select), &Recorder::default()).unwrap()
    };
    assert_eq!(verdict(b"text/").damage, []);
    let all = named(&verify(&reader, Depth::Full).damage);
    assert!(!all.is_empty());
    assert_eq!(named(&verdict(b"").damage), all);
}

#[test]
fn damage_in_an_uncompressed_block_affects_overlapping_files_only() {
    let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::balanced() }).unwrap();
    let contents: Vec<Vec<u8>> = (0..5).map(|i| noise(200_000, 70 + i)).collect();
    for (number, content) in contents.iter().enumerate() {
        writer.begin_file(file(&format!("{number}.bin"))).unwrap();
        for chunk in content.chunks(128 << 10) {
            writer.add_chunk(chunk, Digest::of(chunk), true).unwrap();
        }
        writer.end_file(Some(Digest::of(content))).unwrap();
    }
    let mut bytes = writer.finish(&Recorder::default()).unwrap().0;
    let reader = open(bytes.clone()).unwrap();
    let entries: Vec<Entry> = reader.entries(0..9).map(Result::unwrap).collect();
    let blocks: BTreeSet<u64> = entries.iter().map(|entry| entry.position().0).collect();
    assert_eq!((entries.len(), blocks.len()), (5, 1), "all in one block");
    assert!(entries.iter().all(|entry| matches!(entry.content(), Content::Extent(_))));
    // In the second chunk of the third file.
    let needle = &contents[2][150_000..150_016];
    let at = bytes.windows(16).position(|window| window == needle).unwrap();
    bytes[at] ^= 0x10;
    let reader = open(bytes).unwrap();
    for (number, entry) in entries.iter().enumerate() {
        let read = reader.read_all(entry, 1 << 20);
        assert_eq!(read.ok().as_ref(), Some(&contents[number]).filter(|_| number != 2));
    }
    let mut part = vec![0; 100_000];
    assert_eq!(reader.read_at(&entries[2], 20_000, &mut part).unwrap(), part.len());
    assert_eq!(part, contents[2][20_000..120_000]);
    assert!(reader.read_at(&entries[2], 100_000, &mut part).is_err());
    for depth in [Depth::Quick, Depth::Full] {
        assert_eq!(named(&verify(&reader, depth).damage), BTreeSet::from([entries[2].path.clone()]));
    }
}

#[test]
fn verification_can_be_cancelled() {
    let recorder = Recorder::default();
    recorder.cancel();
    let reader = open(archive()).unwrap();
    assert!(matches!(reader.verify(Depth::Full, None, &recorder), Err(nra_core::error::Error::Cancelled)));
}
