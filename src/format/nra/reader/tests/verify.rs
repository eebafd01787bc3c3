//! Findings of `verify`.

use std::collections::BTreeSet;

use crate::block_index::Chunk;
use crate::content::{Extent, Segment};
use crate::frame::FrameKind;
use crate::reader::tests::build::{Builder, path, small, text};
use crate::reader::tests::{content, open};
use nra_core::archive::{Archive, Damage, Depth, Verdict};
use nra_core::codec::{Dictionary, Method};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Error;
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Recorder};
use nra_core::testing::noise;

fn verify(bytes: &[u8], depth: Depth) -> Verdict {
    open(bytes).unwrap().verify(depth, None, &Recorder::default()).unwrap()
}

fn hurt(verdict: &Verdict) -> BTreeSet<EntryPath> {
    verdict.damage.iter().flat_map(|damage| damage.entries.iter().cloned()).collect()
}

#[test]
fn verify_accepts_undamaged_archives() {
    for fanout in [2, 3, 100] {
        let mut builder = small();
        builder.fanout = fanout;
        builder.note_slot();
        builder.block(Method::zstd(3), &[("added", &text(200, 77))]);
        builder.commit();
        for depth in [Depth::Quick, Depth::Full] {
            let monitor = Recorder::default();
            let verdict = open(&builder.bytes).unwrap().verify(depth, None, &monitor).unwrap();
            assert_eq!(verdict.damage, []);
            assert_eq!(verdict.entries, builder.entries.len() as u64);
            assert_eq!(verdict.content_bytes, builder.contents.values().map(|content| content.len() as u64).sum::<u64>());
            assert_eq!(verdict.blocks, builder.commit.blocks);
            assert_eq!(monitor.count(Counter::Entries), verdict.entries);
        }
    }
}

#[test]
fn every_flipped_byte_is_reported_with_the_affected_entries() {
    let builder = small();
    for at in 0..builder.bytes.len() {
        let mut bytes = builder.bytes.clone();
        bytes[at] ^= 0x10;
        let Ok(archive) = open(&bytes) else { continue };
        for depth in [Depth::Quick, Depth::Full] {
            let verdict = archive.verify(depth, None, &Recorder::default()).unwrap();
            assert!(!verdict.damage.is_empty(), "byte {at}, {depth:?}");
            let unreadable = |entry: &Entry| builder.contents.contains_key(&entry.path) && content(&archive, entry).is_err();
            let expected: BTreeSet<EntryPath> =
                archive.entries(0..99).flatten().filter(|entry| unreadable(entry)).map(|entry| entry.path).collect();
            assert_eq!(hurt(&verdict), expected, "byte {at}, {depth:?}: {:?}", verdict.damage);
        }
    }
}

#[test]
fn every_truncation_and_addition_is_reported() {
    let builder = small();
    for len in 0..builder.bytes.len() {
        let Ok(archive) = open(&builder.bytes[..len]) else { continue };
        assert!(!archive.verify(Depth::Quick, None, &Recorder::default()).unwrap().damage.is_empty(), "{len}");
    }
    for more in [1, 8, 64, 100_000] {
        let archive = open(&[&builder.bytes[..], &vec![0; more]].concat()).unwrap();
        assert_eq!(archive.verify(Depth::Quick, None, &Recorder::default()).unwrap().damage, []);
        assert!(archive.has_trailing_bytes() && archive.remarks()[0].contains("belong to no commit"), "{:?}", archive.remarks());
    }
}

#[test]
fn wrong_content_with_valid_checksums_is_detected_by_digest() {
    let mut builder = Builder::new();
    builder.block(Method::zstd(3), &[("good", &text(300, 1))]);
    let raw = text(300, 2);
    let chunk = Chunk { gap: 0, raw_len: 300, digest: Digest::of(&text(300, 3)) };
    let block = builder.write_block(Method::zstd(3), &raw, vec![chunk]);
    let extent = |offset, len| Segment::Data(Extent { block, offset, len });
    builder.list("bad", vec![extent(0, 100), extent(200, 100)], [&raw[..100], &raw[200..]].concat());
    builder.commit();
    assert_eq!(verify(&builder.bytes, Depth::Quick).damage, []);
    let damage = verify(&builder.bytes, Depth::Full).damage;
    assert!(matches!(&damage[..], [Damage { structure, .. }] if structure == "block payload"), "{damage:?}");
    assert_eq!(hurt(&verify(&builder.bytes, Depth::Full)), BTreeSet::from([path("bad")]));
}

#[test]
fn damaged_dictionary_affects_its_blocks() {
    let samples: Vec<Vec<u8>> = (0..2_000).map(|i| text(60, i)).collect();
    let mut builder = Builder::new();
    builder.dictionary(Dictionary::train(&samples, 4 << 10).unwrap());
    builder.block(Method::zstd(3), &[("a", &text(100, 5)), ("b", &text(100, 50))]);
    builder.block(Method::NONE, &[("c", &noise(100, 5))]);
    builder.commit();
    assert_eq!(verify(&builder.bytes, Depth::Full).damage, []);
    builder.bytes[256 + 64 + 900] ^= 1;
    for depth in [Depth::Quick, Depth::Full] {
        let verdict = verify(&builder.bytes, depth);
        assert_eq!(hurt(&verdict), BTreeSet::from([path("a"), path("b")]), "{verdict:?}");
        assert_eq!(verdict.damage[0].structure, "dictionary");
        assert_eq!(verdict.damage[0].entry_count, 2);
    }
}

#[test]
fn only_selected_entries_are_checked() {
    let builder = small();
    let first_block = builder.frames.iter().find(|frame| frame.0 == FrameKind::Block).unwrap().1;
    let mut bytes = builder.bytes.clone();
    bytes[first_block as usize + 64 + 10] ^= 1;
    let archive = open(&bytes).unwrap();
    for depth in [Depth::Quick, Depth::Full] {
        let verdict = archive.verify(depth, Some(&|entry| entry.path == path("t3")), &Recorder::default()).unwrap();
        assert_eq!((verdict.damage.len(), verdict.entries, verdict.blocks, verdict.content_bytes), (0, 1, 1, 90));
        let verdict = archive.verify(depth, Some(&|entry| entry.path.is_below(&path("dir"))), &Recorder::default()).unwrap();
        assert_eq!(hurt(&verdict), BTreeSet::from([path("dir/raw1")]));
        assert_eq!(verdict.damage.len(), 1);
    }
}

#[test]
fn contradictions_are_reported() {
    // An entry that no block index records; a commit with wrong totals; chunks in no run; an entry
    // without a parent.
    let mut builder = small();
    builder.entries.insert(path("unrecorded"), Entry::new(path("unrecorded"), Kind::File));
    builder.commit();
    let damage = verify(&builder.bytes, Depth::Quick).damage;
    assert!(matches!(&damage[..], [Damage { structure, .. }] if structure == "entry record"), "{damage:?}");

    let mut builder = small();
    builder.commit.chunk_bytes += 1;
    builder.commit();
    let damage = verify(&builder.bytes, Depth::Quick).damage;
    assert!(matches!(&damage[..], [Damage { structure, .. }] if structure == "commit"), "{damage:?}");

    let mut builder = small();
    builder.forget_chunk();
    builder.commit();
    let damage = verify(&builder.bytes, Depth::Quick).damage;
    assert!(matches!(&damage[..], [Damage { detail, .. }] if detail.contains("chunk runs")), "{damage:?}");

    let mut builder = small();
    builder.entries.remove(&path("dir"));
    builder.commit();
    let damage = verify(&builder.bytes, Depth::Quick).damage;
    assert!(matches!(&damage[..], [Damage { detail, .. }] if detail.contains("in no directory")), "{damage:?}");
}

#[test]
fn verify_can_be_cancelled() {
    let monitor = Recorder::default();
    monitor.cancel();
    let error = open(&small().bytes).unwrap().verify(Depth::Full, None, &monitor).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
}
