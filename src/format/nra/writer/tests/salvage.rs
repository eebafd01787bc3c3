//! Bytes after the last commit: an unfinished append, a lost commit, foreign bytes.

use std::collections::BTreeMap;

use super::append::{append, files, pack, put};
use super::disk::{Disk, source};
use super::*;
use crate::reader::{NraReader, open_for_salvage};
use crate::recovery::protect;
use nra_core::archive::{Archive, Depth, OpenOptions};

/// Memory for recovery data, bytes.
const MEMORY: u64 = 32 << 20;

/// Returns the archive after each of four commits.
fn commits() -> Vec<Vec<u8>> {
    let mut states = vec![pack(|writer| {
        put(writer, "f", &text(3_000, 1));
        put(writer, "changed", b"before");
    })];
    for (name, content) in [("one", text(900, 2)), ("import", noise(5_000, 3)), ("changed", b"after".to_vec())] {
        let (bytes, _) = append(states.last().unwrap().clone(), |writer| {
            put(writer, name, &content);
        });
        states.push(bytes);
    }
    states
}

/// Returns what is reported about an archive: whether it is damaged, remarks, and offsets of damage
/// that `verify` finds.
fn told(bytes: &[u8]) -> (bool, Vec<String>, Vec<String>) {
    let reader = NraReader::open(source(bytes.to_vec()), &OpenOptions::default()).unwrap();
    let damage = reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage;
    (reader.is_index_damaged(), reader.remarks(), damage.into_iter().map(|damage| damage.structure.to_string()).collect())
}

/// Returns what is salvaged from an archive, by name.
fn saved(bytes: &[u8]) -> (BTreeMap<String, Vec<u8>>, NraReader) {
    let (reader, base) = open_for_salvage(source(bytes.to_vec()), &OpenOptions::default()).unwrap();
    assert_eq!(base, 0);
    let entries = reader.entries(0..reader.entry_count()).map(Result::unwrap);
    let files = entries.map(|entry| (entry.path.to_string(), reader.read_all(&entry, u64::MAX).unwrap())).collect();
    (files, reader)
}

fn is_refused(bytes: &[u8]) -> bool {
    let disk = Disk::new(bytes.to_vec());
    let refused = Writer::append(disk.clone(), options()).is_err();
    assert_eq!(protect(&*disk, 10, MEMORY, &Recorder::default()).is_err(), refused);
    refused && disk.bytes() == bytes
}

#[test]
fn entries_of_an_unfinished_append_are_salvaged() {
    let states = commits();
    let mut bytes = states[2].clone();
    let len = bytes.len();
    // The footer, and the end of the commit frame.
    bytes[len - 128..].fill(0);
    let (is_damaged, remarks, damage) = told(&bytes);
    assert!(!is_damaged && damage.is_empty(), "{damage:?}");
    assert!(remarks.len() == 1 && remarks[0].contains("an unfinished append"), "{remarks:?}");
    let (found, reader) = saved(&bytes);
    assert!(found == files(&states[2]) && reader.is_index_damaged());
    assert!(reader.remarks().iter().any(|remark| remark.contains("1 entry was found after commit 2")));
    // The next writer reports the bytes that it removes.
    let monitor = Recorder::default();
    let mut writer = Writer::append(Disk::new(bytes.clone()), options()).unwrap();
    put(&mut writer, "new", b"new");
    writer.finish(&monitor).unwrap();
    assert!(
        monitor
            .take_warnings()
            .iter()
            .any(|warning| warning.message.contains("an unfinished append, which a new commit removes"))
    );
    // Without a key nobody can tell whether such frames are a commit.
    let disk = Disk::new(bytes);
    assert!(protect(&*disk, 10, MEMORY, &monitor).is_err());
    let torn = [&states[2][..states[1].len()], &[0; 100]].concat();
    let disk = Disk::new(torn);
    protect(&*disk, 10, MEMORY, &monitor).unwrap();
    assert!(
        monitor
            .take_warnings()
            .iter()
            .any(|warning| warning.message.starts_with("100 bytes of an unfinished append after commit 2"))
    );
    assert_eq!(files(&disk.bytes()), files(&states[1]));
}

#[test]
fn lost_commit_named_by_a_commit_slot_is_reported() {
    let states = commits();
    let [first, second] = [states[1].len(), states[2].len()];
    for zeroed in [330, second - first] {
        let mut bytes = states[3].clone();
        bytes[second - zeroed..].fill(0);
        let (is_damaged, remarks, damage) = told(&bytes);
        assert!(is_damaged && damage.contains(&"commit slot".to_owned()), "{damage:?}");
        assert!(remarks.iter().any(|remark| remark.contains("names commit 3")), "{remarks:?}");
        assert!(is_refused(&bytes));
        let (found, reader) = saved(&bytes);
        assert!(reader.is_index_damaged());
        let expected = if zeroed == 330 { &states[2] } else { &states[1] };
        assert_eq!(found, files(expected));
    }
    // A file cut at the end of an earlier commit is that commit; losing the others for good takes
    // more.
    let bytes = &states[3][..first];
    assert_eq!(told(bytes), (false, Vec::new(), vec!["commit slot".to_owned()]));
    assert!(is_refused(bytes));
    let (found, reader) = saved(bytes);
    assert!(reader.is_index_damaged() && found == files(&states[1]));
    assert!(reader.remarks().iter().any(|remark| remark.contains("names commit 3")));
}

#[test]
fn damaged_commit_does_not_hide_the_newest_one() {
    let states = commits();
    let mut bytes = states[3].clone();
    let (before, len) = (states[2].len(), bytes.len());
    bytes[before - 100..before].fill(0);
    bytes[len - 1] ^= 1;
    let (found, reader) = saved(&bytes);
    assert!(found == files(&states[3]) && reader.is_index_damaged());
}

#[test]
fn earlier_version_is_kept_if_the_later_one_is_damaged() {
    let (first, content) = (commits().remove(0), noise(20_000, 9));
    let (whole, _) = append(first.clone(), |writer| {
        put(writer, "f", &content);
        put(writer, "g", b"g");
    });
    let mut bytes = whole;
    let place = bytes.windows(64).position(|window| window == &content[..64]).unwrap();
    bytes[place + 7] ^= 1;
    let len = bytes.len();
    bytes[len - 128..].fill(0);
    let mut expected = files(&first);
    expected.insert("g".into(), b"g".to_vec());
    assert_eq!(saved(&bytes).0, expected);
}

#[test]
fn foreign_trailing_bytes_are_reported_only() {
    let states = commits();
    let protected = |bytes: &[u8]| {
        let disk = Disk::new(bytes.to_vec());
        protect(&*disk, 10, MEMORY, &Recorder::default()).unwrap();
        disk.bytes()
    };
    for archive in [states[0].clone(), states[3].clone(), protected(&states[0]), protected(&states[3])] {
        for junk in [noise(5, 1), vec![0; 4_096], noise(100_000, 2)] {
            let bytes = [&archive[..], &junk].concat();
            let (is_damaged, remarks, damage) = told(&bytes);
            assert!(!is_damaged && damage.is_empty(), "{damage:?} {remarks:?}");
            assert!(remarks.len() == 1 && remarks[0].contains(&junk.len().to_string()), "{remarks:?}");
            let (found, reader) = saved(&bytes);
            assert!(found == files(&archive) && !reader.is_index_damaged());
        }
    }
}
