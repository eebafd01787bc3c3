//! Failures of the process or the machine while an archive is changed.
//!
//! If the process fails at a write, everything before it is in the file. If the machine fails, any
//! part of the unsynced sectors is in the file, in any order, with the last write torn. The archive
//! must then be the old or the new one, and the next writer must work.

use std::collections::BTreeMap;

use super::append::{append, files, pack, put};
use super::disk::{Disk, NewFile, Step, source};
use super::*;
use crate::compact::compact;
use crate::reader::NraReader;
use crate::recovery::protect;
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::crypt::{Argon2Cost, KeyInfo, Keyring, Secret};

type Change = fn(&mut Writer<AppendDestination>);

/// Content of an archive, and the passwords that open it.
#[derive(Debug, PartialEq)]
pub struct State {
    pub files: BTreeMap<String, Vec<u8>>,
    keys: Vec<KeyInfo>,
    /// Which of the passwords open it.
    passwords: [bool; 2],
}

const PASSWORDS: [&str; 2] = ["old", "new"];
const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };

/// Returns the key that always opens encrypted archives.
fn key() -> Secret {
    Secret::user_key([9; 32])
}

fn password(number: usize) -> Secret {
    Secret::password(PASSWORDS[number])
}

/// Unit of atomic writes, bytes.
const SECTOR: usize = 512;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Splits a write at sector boundaries.
fn sectors(step: &Step) -> Vec<Step> {
    let Step::Write(offset, data) = step else { return vec![step.clone()] };
    let mut parts = Vec::new();
    let (mut at, mut rest) = (*offset, &data[..]);
    while !rest.is_empty() {
        let room = SECTOR - usize::try_from(at).unwrap() % SECTOR;
        let (part, later) = rest.split_at(room.min(rest.len()));
        parts.push(Step::Write(at, part.to_vec()));
        (at, rest) = (at + part.len() as u64, later);
    }
    parts
}

fn apply(bytes: &[u8], steps: &[Step]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    steps.iter().for_each(|step| step.apply(&mut bytes, usize::MAX));
    bytes
}

/// Returns possible disk contents after a failure during `steps`.
pub fn images(base: &[u8], steps: &[Step], random: &mut Random) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    let mut synced = 0;
    for (k, step) in steps.iter().enumerate() {
        // The process fails before or within this step.
        let before = apply(base, &steps[..k]);
        if let Step::Write(_, data) = step {
            for part in [1, 7, 8, data.len() / 2, data.len() - 1] {
                let mut torn = before.clone();
                step.apply(&mut torn, part);
                images.push(torn);
            }
        }
        images.push(before);
        if let Step::Sync = step {
            // The machine fails before it.
            let durable = apply(base, &steps[..synced]);
            let parts: Vec<Step> = steps[synced..k].iter().flat_map(sectors).collect();
            for i in (0..parts.len()).step_by(parts.len().div_ceil(40).max(1)) {
                let mut others = parts.clone();
                let alone = others.remove(i);
                images.push(apply(&durable, &[alone]));
                images.push(apply(&durable, &others));
            }
            for odds in [1, 3, 6, 9, 9] {
                let mut kept: Vec<Step> = parts.iter().filter(|_| random.below(10) < odds).cloned().collect();
                random.shuffle(&mut kept);
                images.push(apply(&durable, &kept));
            }
            synced = k + 1;
        }
    }
    images.push(apply(base, steps));
    images.sort_unstable();
    images.dedup();
    images
}

fn reader(bytes: &[u8], key: Secret, recover: bool) -> Result<NraReader> {
    let options = OpenOptions { recover, key: Some(key), ..OpenOptions::default() };
    NraReader::open(source(bytes.to_vec()), &options)
}

pub fn read(bytes: &[u8], recover: bool) -> State {
    let reader = reader(bytes, key(), recover).unwrap();
    let entries = reader.entries(0..reader.entry_count()).map(Result::unwrap);
    let files = entries
        .map(|entry| {
            let slash = if entry.kind == Kind::Directory { "/" } else { "" };
            (format!("{}{slash}", entry.path), reader.read_all(&entry, u64::MAX).unwrap())
        })
        .collect();
    let keys = reader.info().keys.clone();
    let opens = |number| !keys.is_empty() && self::reader(bytes, password(number), recover).is_ok();
    State { files, passwords: [opens(0), opens(1)], keys }
}

/// Reads an undamaged archive.
fn read_whole(bytes: &[u8]) -> State {
    let reader = reader(bytes, key(), false).unwrap();
    assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    assert!(reader.remarks().is_empty());
    read(bytes, false)
}

/// Begins a commit on the disk.
fn writer(disk: &Arc<Disk>) -> Writer<AppendDestination> {
    let encryption = reader(&disk.bytes(), key(), true).unwrap().keyring().cloned();
    Writer::append(disk.clone(), WriterOptions { encryption, ..options() }).unwrap()
}

/// Applies `change` and fails at each step.
fn matrix(base: &[u8], (name, change): (&str, Change)) -> Vec<Vec<u8>> {
    let disk = Disk::new(base.to_vec());
    let mut first = writer(&disk);
    change(&mut first);
    drop(first.finish(&Recorder::default()).unwrap());
    let steps = disk.steps();
    let (old, new) = (read(base, false), read_whole(&disk.bytes()));
    assert!(old != new);
    let mut seen = [false; 2];
    let images = images(base, &steps, &mut Random(steps.len() as u64));
    for (i, image) in images.iter().enumerate() {
        let found = [read(image, false), read(image, true)];
        for found in &found {
            assert!(*found == old || *found == new, "{name}: image {i}: {:?}", found.files.keys());
        }
        seen[0] |= found[1] == old;
        seen[1] |= found[1] == new;
        // The next writer starts from the commit that tolerant readers see.
        let disk = Disk::new(image.clone());
        let mut next = writer(&disk);
        put(&mut next, "next", b"after the crash");
        drop(next.finish(&Recorder::default()).unwrap());
        let mut after = read_whole(&disk.bytes());
        assert_eq!(after.files.remove("next").unwrap(), b"after the crash");
        assert!(after == found[1], "{name}: image {i}");
    }
    assert_eq!(seen, [true; 2]);
    // A writer that is dropped at any step and can clean up leaves the old archive without stray
    // bytes.
    for limit in 0..steps.len() {
        let disk = Disk::failing(base.to_vec(), limit);
        let mut failing = writer(&disk);
        change(&mut failing);
        assert!(failing.finish(&Recorder::default()).is_err());
        assert!(read(&disk.bytes(), false) == old || read(&disk.bytes(), true) == new);
    }
    images
}

const CHANGES: [(&str, Change); 5] = [
    ("add", |writer| {
        put(writer, "a/new", &text(3_000, 5));
        put(writer, "noise", &noise(2_000, 6));
    }),
    ("remove", |writer| writer.remove(&path("a")).unwrap()),
    ("rename", |writer| writer.rename(&path("b"), &path("n/c")).unwrap()),
    ("all", |writer| {
        put(writer, "a", &noise(2_500, 7));
        writer.remove(&path("b/two")).unwrap();
        writer.rename(&path("c"), &path("b/two")).unwrap();
    }),
    // Several writes before the commit.
    ("large", |writer| {
        for i in 0..3 {
            put(writer, &format!("large/{i}"), &noise(150_000, i));
        }
    }),
];

const KEY_CHANGES: [(&str, Change); 4] = [
    ("add a key", |writer| writer.change_keys(|keys| keys.add(&password(1), CHEAP, "later")).unwrap()),
    ("change a key", |writer| writer.change_keys(|keys| keys.replace(1, &password(1), CHEAP)).unwrap()),
    ("remove a key", |writer| writer.change_keys(|keys| keys.remove(1)).unwrap()),
    ("remove a key and files", |writer| {
        writer.change_keys(|keys| keys.remove(1)).unwrap();
        writer.remove(&path("a")).unwrap();
    }),
];

fn base() -> Vec<u8> {
    pack(|writer| {
        put(writer, "a/one", &text(1_000, 1));
        put(writer, "b/two", &noise(700, 2));
        put(writer, "c", b"see");
    })
}

#[test]
fn failure_leaves_the_old_or_the_new_archive() {
    for change in CHANGES {
        matrix(&base(), change);
        // With both commit slots in use.
        let mut bytes = base();
        for i in 0..3 {
            (bytes, _) = append(bytes, |writer| {
                put(writer, &format!("more/{i}"), &text(600, i));
            });
        }
        matrix(&bytes, change);
    }
}

#[test]
fn failure_while_replacing_recovery_data_leaves_a_whole_archive() {
    for (percent, change) in [(100, CHANGES[0]), (5, CHANGES[0]), (100, CHANGES[3]), (30, CHANGES[4])] {
        let disk = Disk::new(base());
        protect(&*disk, percent, 32 << 20, &Recorder::default()).unwrap();
        matrix(&disk.bytes(), change);
    }
}

#[test]
fn full_disk_leaves_the_file_unchanged() {
    let fresh = base();
    let (changed, _) = append(fresh.clone(), |writer| {
        put(writer, "more", b"more");
    });
    for before in [fresh, changed] {
        for space in [0, 100, 4_000, 140_000] {
            let disk = Disk::with_space(before.clone(), before.len() as u64 + space);
            let mut writer = writer(&disk);
            put(&mut writer, "large", &noise(150_000, 1));
            assert!(writer.finish(&Recorder::default()).is_err());
            assert!(disk.bytes() == before, "{space} bytes of space");
        }
    }
}

#[test]
fn failure_leaves_the_old_or_the_new_keys() {
    let mut keyring = Keyring::create(&key(), CHEAP, "stays").unwrap();
    keyring.add(&password(0), CHEAP, "goes").unwrap();
    let options = WriterOptions { encryption: Some(keyring), ..options() };
    let mut first = Writer::create(Vec::new(), options).unwrap();
    put(&mut first, "a/one", &text(1_000, 1));
    put(&mut first, "b", b"see");
    let mut bytes = first.finish(&Recorder::default()).unwrap().0;
    for commit in 0..2 {
        for change in KEY_CHANGES.into_iter().chain([CHANGES[0]]) {
            matrix(&bytes, change);
        }
        let disk = Disk::new(bytes);
        let mut next = writer(&disk);
        put(&mut next, &format!("more/{commit}"), b"more");
        drop(next.finish(&Recorder::default()).unwrap());
        bytes = disk.bytes();
    }
}

#[test]
fn second_failure_does_no_harm() {
    let (bytes, _) = append(base(), |writer| {
        put(writer, "d", b"second");
    });
    let mut random = Random(3);
    for image in matrix(&bytes, CHANGES[0]) {
        if random.below(6) == 0 && read(&image, false) == read(&bytes, false) && read(&image, true) == read(&bytes, false) {
            matrix(&image, CHANGES[3]);
        }
    }
}

#[test]
fn unfinished_archive_does_not_open() {
    let bytes = base();
    for len in (0..bytes.len()).step_by(8) {
        let options = OpenOptions { recover: false, ..OpenOptions::default() };
        assert!(NraReader::open(source(bytes[..len].to_vec()), &options).is_err());
        assert!(Writer::append(Disk::new(bytes[..len].to_vec()), super::options()).is_err());
    }
}

#[test]
fn finished_commit_without_footer_is_kept() {
    let (first, _) = append(base(), |writer| {
        put(writer, "d", b"second");
    });
    for damage in [1, 64] {
        let mut bytes = first.clone();
        let len = bytes.len();
        bytes[len - damage..].fill(0);
        let (bytes, stats) = append(bytes, |writer| {
            put(writer, "e", b"third");
        });
        assert_eq!(stats.commit, 3);
        assert!(files(&bytes).contains_key("d"));
    }
    // Without a commit slot nothing shows that the archive was complete.
    let mut bytes = base();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(matches!(Writer::append(Disk::new(bytes), options()), Err(Error::Corrupt { .. })));
}

/// Compacts as `convert` does before it renames the new file: with recovery data if the old one had
/// some.
fn compact_to(old: &[u8], new: &NewFile) -> Result<()> {
    const MEMORY: u64 = 32 << 20;
    let encryption = reader(old, key(), false)?.keyring().cloned();
    let (source, monitor) = (source(old.to_vec()), Recorder::default());
    let done = compact(&source, 2, &|| Ok(new.open()), &WriterOptions { encryption, ..options() }, &monitor)?;
    if let Some(percent) = done.recovery_percent {
        protect(&*new.open(), percent, MEMORY, &monitor)?;
    }
    Ok(())
}

/// Three commits; the first is not kept.
fn several(mut bytes: Vec<u8>) -> Vec<u8> {
    for i in 0..2 {
        let disk = Disk::new(bytes);
        let mut next = writer(&disk);
        put(&mut next, &format!("more/{i}"), &noise(2_000, 30 + i));
        next.remove(&path(if i == 0 { "a" } else { "c" })).unwrap();
        drop(next.finish(&Recorder::default()).unwrap());
        bytes = disk.bytes();
    }
    bytes
}

#[test]
fn failed_compaction_leaves_the_old_archive() {
    let sealed = {
        let mut keyring = Keyring::create(&key(), CHEAP, "stays").unwrap();
        keyring.add(&password(0), CHEAP, "second").unwrap();
        let options = WriterOptions { encryption: Some(keyring), ..options() };
        let mut first = Writer::create(Vec::new(), options).unwrap();
        put(&mut first, "a/one", &text(1_000, 1));
        put(&mut first, "c", b"see");
        first.finish(&Recorder::default()).unwrap().0
    };
    let protected = |bytes: Vec<u8>| {
        let disk = Disk::new(bytes);
        protect(&*disk, 10, 32 << 20, &Recorder::default()).unwrap();
        disk.bytes()
    };
    for old in [several(base()), several(sealed.clone()), protected(several(base())), protected(several(sealed))] {
        let new = NewFile::default();
        compact_to(&old, &new).unwrap();
        let (steps, whole) = (new.disk().steps(), new.disk().bytes());
        let state = read_whole(&old);
        assert!(read_whole(&whole) == state);
        // The new file is renamed when all of it is durable. Until then a failure leaves the old
        // file, which is only read.
        assert!(matches!(steps.last(), Some(Step::Sync)));
        let kept = {
            let options = OpenOptions { commit: Some(1), key: Some(key()), ..OpenOptions::default() };
            let first = NraReader::open(source(whole.clone()), &options).unwrap();
            first.entries(0..first.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect::<Vec<_>>()
        };
        let mut seen = [0; 3];
        for image in images(&[], &steps, &mut Random(7)) {
            // A leftover file holds a kept commit, or is known to be damaged.
            let left = reader(&image, key(), false).ok();
            let left = left.filter(|left| left.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
            let Some(left) = left else {
                seen[0] += 1;
                continue;
            };
            let paths: Vec<String> = left.entries(0..left.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect();
            let is_newest = paths.iter().eq(state.files.keys().map(|path| path.trim_end_matches('/')));
            assert!(is_newest || paths == kept, "{paths:?}");
            seen[if is_newest { 2 } else { 1 }] += 1;
        }
        assert!(seen.iter().all(|&seen| seen > 0), "{seen:?}");
        for limit in 0..steps.len() {
            assert!(compact_to(&old, &NewFile::failing(limit)).is_err(), "step {limit}");
        }
        // The next compaction works.
        let again = NewFile::default();
        compact_to(&old, &again).unwrap();
        assert!(read_whole(&again.disk().bytes()) == state);
    }
}
