//! Lookup, listing and reading of undamaged archives.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::footer::Footer;
use crate::reader::NraReader;
use crate::reader::tests::build::{Builder, path, small, text};
use crate::reader::tests::{content, names, open};
use nra_core::archive::{Archive, OpenOptions, Totals, reader};
use nra_core::codec::{Dictionary, Method};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Error;
use nra_core::source::MemorySource;
use nra_core::testing::noise;

#[test]
fn all_entries_and_content_round_trip() {
    for fanout in [1, 2, 3, 4, 100] {
        let mut builder = small();
        builder.fanout = fanout;
        builder.commit();
        let archive = open(&builder.bytes).unwrap();
        assert!(!archive.is_index_damaged());
        assert_eq!(archive.remarks(), [""; 0]);
        assert_eq!(archive.info().commit, Some(2));
        let entries: Vec<Entry> = archive.entries(0..u64::MAX).map(Result::unwrap).collect();
        assert!(entries.iter().eq(builder.entries.values()));
        for (number, entry) in (0..).zip(&entries) {
            assert_eq!(&archive.entry(number).unwrap(), entry);
            assert_eq!(archive.find(entry.path.as_bytes()).unwrap(), Some((number, entry.clone())));
            if let Some(expected) = builder.contents.get(&entry.path) {
                assert_eq!(&content(&archive, entry).unwrap(), expected);
                assert_eq!(archive.digest(entry).unwrap(), Some(Digest::of(expected)));
            } else {
                assert_eq!(archive.digest(entry).unwrap(), None);
            }
        }
        assert!(matches!(archive.entry(entries.len() as u64), Err(Error::Usage { .. })));
        for missing in ["", "a", "dir/", "dir/raw", "dir/raw11", "zzz"] {
            assert_eq!(archive.find(missing.as_bytes()).unwrap(), None, "{missing}");
        }
    }
}

#[test]
fn directories_are_ranges_of_entries() {
    for fanout in [1, 2, 3, 100] {
        let mut builder = small();
        builder.fanout = fanout;
        builder.commit();
        let archive = open(&builder.bytes).unwrap();
        assert_eq!(names(archive.children(None)), ["dir", "'dir!'", "empty", "raw3", "t3", "x"]);
        assert_eq!(names(archive.children(Some(b"dir"))), ["dir/link", "dir/raw1", "dir/raw2", "dir/sub"]);
        assert_eq!(names(archive.children(Some(b"x"))), ["x/list", "x/y"]);
        assert_eq!(names(archive.children(Some(b"x/y/z"))), ["x/y/z/deep"]);
        assert_eq!(names(archive.children(Some(b"raw3"))), [""; 0]);
        assert_eq!(names(archive.children(Some(b"none"))), [""; 0]);
        for directory in [None, Some(&b"dir"[..]), Some(b"x"), Some(b"dir/sub"), Some(b"raw3"), Some(b"none")] {
            let range = archive.subtree(directory).unwrap();
            let inside = |entry: &&Entry| {
                directory.is_none_or(|directory| {
                    entry.path.as_bytes() == directory || entry.path.is_below(&path(std::str::from_utf8(directory).unwrap()))
                })
            };
            let expected: Vec<&Entry> = builder.entries.values().filter(inside).collect();
            let found: Vec<Entry> = archive.entries(range.clone()).map(Result::unwrap).collect();
            assert!(found.iter().eq(expected.iter().copied()), "{directory:?}");
            let content_bytes = expected.iter().map(|entry| entry.size).sum();
            assert_eq!(archive.totals(range).unwrap(), Totals { entries: expected.len() as u64, content_bytes });
        }
        let all = archive.info().entries;
        for start in 0..=all {
            for end in 0..=all + 1 {
                let expected: Vec<&Entry> = builder.entries.values().take(end.min(all) as usize).skip(start as usize).collect();
                let content_bytes = expected.iter().map(|entry| entry.size).sum();
                assert_eq!(archive.totals(start..end).unwrap(), Totals { entries: expected.len() as u64, content_bytes });
                assert!(archive.entries(start..end).map(Result::unwrap).eq(expected.into_iter().cloned()));
            }
        }
    }
}

#[test]
fn ranges_of_content_are_readable() {
    let builder = small();
    let archive = open(&builder.bytes).unwrap();
    for (path, expected) in &builder.contents {
        let entry = &builder.entries[path];
        for (offset, len) in
            [(0, 1), (1, 10), (0, 10_000), (599, 2), (600, 3), (5_599, 10), (5_850, 100), (1 << 40, 5), (u64::MAX, 9)]
        {
            let mut buffer = vec![0xaa; len];
            let read = archive.read_at(entry, offset, &mut buffer).unwrap();
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(expected.len());
            let to = from.saturating_add(len).min(expected.len());
            assert_eq!(&buffer[..read], &expected[from..to], "{path} {offset} {len}");
        }
        let mut stream = reader(&archive, entry.clone());
        let mut streamed = Vec::new();
        stream.read_to_end(&mut streamed).unwrap();
        assert_eq!(&streamed, expected);
        stream.seek(SeekFrom::End(-(expected.len().min(5) as i64))).unwrap();
        streamed.clear();
        stream.read_to_end(&mut streamed).unwrap();
        assert!(expected.ends_with(&streamed) && streamed.len() == expected.len().min(5));
        assert!(stream.seek(SeekFrom::Current(i64::MIN)).is_err());
    }
    let list = &builder.entries[&path("x/list")];
    assert!(matches!(archive.read_all(list, 100), Err(Error::Limit { .. })));
}

#[test]
fn dictionaries_are_resolved() {
    let samples: Vec<Vec<u8>> = (0..2_000).map(|i| text(60, i)).collect();
    let mut builder = Builder::new();
    builder.dictionary(Dictionary::train(&samples, 4 << 10).unwrap());
    builder.block(Method::zstd(3), &[("a", &text(100, 5)), ("b", &text(100, 50))]);
    builder.commit();
    let archive = open(&builder.bytes).unwrap();
    for (path, expected) in &builder.contents {
        assert_eq!(&content(&archive, &builder.entries[path]).unwrap(), expected);
    }
}

#[test]
fn padding_and_empty_archives_are_valid() {
    let mut builder = Builder::new();
    builder.commit();
    let archive = open(&builder.bytes).unwrap();
    assert_eq!(archive.entry_count(), 0);
    assert_eq!(archive.find(b"a").unwrap(), None);
    assert_eq!(names(archive.children(None)), [""; 0]);
    assert_eq!(names(archive.entries(0..9)), [""; 0]);
    assert_eq!(archive.totals(0..9).unwrap(), Totals::default());
    let mut builder = Builder::new();
    builder.pad_len = 192;
    builder.block(Method::NONE, &[("a", &noise(100, 1)), ("b", &noise(100, 2))]);
    builder.commit();
    let archive = open(&builder.bytes).unwrap();
    for (path, expected) in &builder.contents {
        assert_eq!(&content(&archive, &builder.entries[path]).unwrap(), expected);
    }
}

#[test]
fn unknown_features_are_rejected_by_name() {
    for (required, name) in [(1 << 1, "bit 1"), (1 << 5 | 1, "bit 5")] {
        let mut builder = small();
        builder.superblock.required = required;
        // The footer of an encrypted archive names its key frame.
        builder.commit.number = 3;
        let before = builder.bytes.len() as u64;
        let footer = Footer {
            required,
            commit_offset: before - 64,
            commit_length: 64,
            keys: if required & 1 == 1 { (256, 64) } else { (0, 0) },
            number: 1,
        };
        builder.bytes.extend_from_slice(&footer.encode(before));
        let error = open(&builder.bytes).err().unwrap();
        assert_eq!(error.to_string(), format!("required feature {name} is not supported (known: encryption)"));
    }
}

#[test]
fn unfinished_append_is_ignored_and_reported() {
    let mut builder = small();
    let whole = builder.entries.clone();
    builder.note_slot();
    builder.block(Method::NONE, &[("zz-new", &noise(90_000, 4))]);
    for cut in [builder.bytes.len(), builder.bytes.len() - 9, builder.bytes.len() - 80_000] {
        let archive = open(&builder.bytes[..cut]).unwrap();
        assert!(archive.entries(0..99).map(Result::unwrap).eq(whole.values().cloned()));
        assert!(!archive.is_index_damaged());
        assert!(archive.remarks()[0].contains("unfinished append"), "{:?}", archive.remarks());
    }
    builder.commit();
    let archive = open(&builder.bytes).unwrap();
    assert!(archive.find(b"zz-new").unwrap().is_some());
    assert_eq!(archive.remarks(), [""; 0]);
}

#[test]
fn finished_append_survives_the_loss_of_its_footer() {
    let mut builder = small();
    builder.note_slot();
    builder.block(Method::NONE, &[("zz-new", &noise(900, 4))]);
    let block_end = builder.bytes.len();
    builder.commit();
    let footer = builder.bytes.len() - 20;
    builder.bytes[footer] ^= 1;
    let archive = open(&builder.bytes).unwrap();
    assert!(archive.entries(0..99).map(Result::unwrap).eq(builder.entries.values().cloned()));
    assert!(archive.is_index_damaged());
    assert!(archive.remarks()[0].contains("the last commit was opened"), "{:?}", archive.remarks());
    let trusting = OpenOptions { recover: false, ..OpenOptions::default() };
    let archive = NraReader::open(Arc::new(MemorySource::new(builder.bytes.clone())), &trusting).unwrap();
    assert!(archive.find(b"zz-new").unwrap().is_none(), "the slot leads to the state before");
    // A commit frame follows its frames; unreadable ones are damage.
    builder.bytes[block_end - 64..block_end + 64].fill(0);
    let archive = open(&builder.bytes).unwrap();
    let (_, new) = archive.find(b"zz-new").unwrap().unwrap();
    assert_eq!(archive.read_all(&new, 900).unwrap(), noise(900, 4));
    assert!(archive.is_index_damaged());
    assert!(archive.remarks()[0].contains("the last commit was opened"), "{:?}", archive.remarks());
}

#[test]
fn link_targets_and_kinds_round_trip() {
    let builder = small();
    let archive = NraReader::open(Arc::new(MemorySource::new(builder.bytes)), &OpenOptions::default()).unwrap();
    let (_, link) = archive.find(b"dir/link").unwrap().unwrap();
    assert_eq!((link.kind, &*link.target), (Kind::Symlink, &b"../elsewhere"[..]));
}
