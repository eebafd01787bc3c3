//! Encrypted archives: content round-trips with the key only, and every change of the file is
//! detected.

use super::append::put;
use super::disk::{Disk, source};
use super::*;
use crate::footer::FOOTER_LEN;
use crate::reader::NraReader;
use crate::superblock::CommitSlot;
use nra_core::archive::{Access, Archive, Depth, OpenOptions, Part};
use nra_core::crypt::{Argon2Cost, Keyring, Secret};

const KEY: [u8; 32] = [7; 32];
const CHEAP: Argon2Cost = Argon2Cost { memory_kib: 32, passes: 1, lanes: 1 };

fn secret() -> Secret {
    Secret::user_key(KEY)
}

pub fn keyring() -> Keyring {
    Keyring::create(&secret(), CHEAP, "test").unwrap()
}

fn sealed(keyring: &Keyring, options: WriterOptions, fill: impl FnOnce(&mut Writer<Vec<u8>>)) -> Vec<u8> {
    let options = WriterOptions { encryption: Some(keyring.clone()), ..options };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    fill(&mut writer);
    writer.finish(&Recorder::default()).unwrap().0
}

fn with_key(key: Secret) -> OpenOptions {
    OpenOptions { key: Some(key), ..OpenOptions::default() }
}

fn try_open(bytes: &[u8], options: &OpenOptions) -> Result<NraReader> {
    NraReader::open(source(bytes.to_vec()), options)
}

fn append(bytes: Vec<u8>, change: impl FnOnce(&mut Writer<AppendDestination>)) -> Vec<u8> {
    let keyring = try_open(&bytes, &with_key(secret())).unwrap().keyring().unwrap().clone();
    let disk = Disk::new(bytes);
    let options = WriterOptions { encryption: Some(keyring), ..options() };
    let mut writer = Writer::append(disk.clone(), options).unwrap();
    change(&mut writer);
    drop(writer.finish(&Recorder::default()).unwrap());
    disk.bytes()
}

/// Content of all readable entries, read in three ways.
fn contents(reader: &NraReader) -> Vec<(String, Option<Vec<u8>>)> {
    let entries = reader.entries(0..reader.entry_count()).filter_map(Result::ok);
    entries
        .map(|entry| {
            let all = reader.read_all(&entry, u64::MAX).ok();
            let mut parts = Vec::new();
            let whole = reader.with_content(&entry, Access::Sequential, &mut |part| {
                match part {
                    Part::Data(bytes) => parts.extend_from_slice(bytes),
                    Part::Hole(len) => parts.resize(parts.len() + len as usize, 0),
                }
                Ok(())
            });
            if let (Some(all), Ok(())) = (&all, whole) {
                assert_eq!(*all, parts);
                let mut middle = [0; 5];
                let from = all.len() as u64 / 2;
                let len = reader.read_at(&entry, from, &mut middle).unwrap();
                assert_eq!(middle[..len], all[from as usize..][..len]);
            }
            (entry.path.to_string(), all)
        })
        .collect()
}

fn fill<W: Write + Send>(writer: &mut Writer<W>) {
    put(writer, "a/one.txt", &text(5_000, 1));
    put(writer, "a/two.bin", &noise(40_000, 2));
    put(writer, "b/small.bin", &noise(3_000, 3));
    put(writer, "empty", b"");
    writer.begin_file(file("sparse")).unwrap();
    writer.add_chunk(&noise(100, 4), Digest::of(&noise(100, 4)), true).unwrap();
    writer.add_hole(1 << 20).unwrap();
    writer.add_chunk(&text(100, 5), Digest::of(&text(100, 5)), false).unwrap();
    writer.end_file(None).unwrap();
}

fn fill_small<W: Write + Send>(writer: &mut Writer<W>) {
    put(writer, "quite-secret-name", b"quite secret content, quite secret content");
    put(writer, "noise", &noise(90, 7));
}

#[test]
fn encrypted_archive_opens_with_its_key_only() {
    let keyring = keyring();
    for preset in [WriterOptions::balanced(), WriterOptions::random(), WriterOptions { align: 64, ..WriterOptions::balanced() }] {
        let options = WriterOptions { attributes: vec![], ..preset };
        let bytes = sealed(&keyring, options.clone(), fill);
        let (plain, _) = {
            let mut writer = Writer::create(Vec::new(), options).unwrap();
            fill(&mut writer);
            writer.finish(&Recorder::default()).unwrap()
        };
        let reader = try_open(&bytes, &with_key(secret())).unwrap();
        assert!(reader.info().encrypted && reader.remarks().is_empty() && !reader.is_index_damaged());
        assert_eq!(contents(&reader), contents(&try_open(&plain, &OpenOptions::default()).unwrap()));
        for depth in [Depth::Full, Depth::Quick] {
            assert_eq!(reader.verify(depth, None, &Recorder::default()).unwrap().damage, []);
        }
        let some = reader.verify(Depth::Full, Some(&|entry: &Entry| entry.size > 10_000), &Recorder::default()).unwrap();
        assert!(some.damage.is_empty() && some.entries == 2);
        assert!(matches!(try_open(&bytes, &OpenOptions::default()), Err(Error::KeyNeeded)));
        for wrong in [Secret::user_key([8; 32]), Secret::password(KEY)] {
            assert!(matches!(try_open(&bytes, &with_key(wrong)), Err(Error::WrongKey)));
        }
        // Overhead: 48 bytes per frame, 16 per tag, two key frames.
        assert!(bytes.len() < plain.len() + plain.len() / 500 + 4_000, "{} {}", bytes.len(), plain.len());
        let keys = NraReader::keys(source(bytes)).unwrap().unwrap();
        assert_eq!(keys.len(), 1);
        assert!(NraReader::keys(source(plain)).unwrap().is_none());
    }
}

#[test]
fn encrypted_file_contains_no_plain_text() {
    let bytes = sealed(&keyring(), options(), fill_small);
    let content: &[u8] = b"quite secret content, quite secret content";
    let digest = Digest::of(content);
    for (what, needle) in [
        ("name", &b"secret"[..]),
        ("content", b"content"),
        ("incompressible content", &noise(90, 7)[..8]),
        ("digest", &digest.0[..8]),
        ("plain frame", &[0x8a, 0x4e, 0x0d, 0x0a, 1]),
    ] {
        assert!(!bytes.windows(needle.len()).any(|window| window == needle), "{what}");
    }
    let again = sealed(&keyring(), options(), fill_small);
    assert_eq!(again.len(), bytes.len());
    let equal = bytes.iter().zip(&again).filter(|(a, b)| a == b).count();
    // Superblock, commit slots and zero bytes; nothing of 42 equal bytes of content.
    assert!(equal < 700, "{equal} equal bytes");
}

#[test]
fn every_flip_and_truncation_is_detected() {
    let keyring = keyring();
    let bytes = sealed(&keyring, options(), fill_small);
    let bytes = append(bytes, |writer| {
        put(writer, "later", b"later content");
    });
    let good = contents(&try_open(&bytes, &with_key(secret())).unwrap());
    let check = |bytes: &[u8], what: &str, may_be_older: bool| {
        let reader = match try_open(bytes, &with_key(secret())) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. } | Error::WrongKey), "{what}: {error}");
                return;
            }
        };
        for (path, content) in contents(&reader) {
            if let Some(content) = content {
                assert!(good.contains(&(path.clone(), Some(content))), "{what}: wrong content of {path}");
            }
        }
        let verdict = reader.verify(Depth::Full, None, &Recorder::default()).unwrap();
        let is_told = !verdict.damage.is_empty() || reader.is_index_damaged() || reader.has_trailing_bytes();
        assert!(may_be_older || is_told, "{what} was not found");
    };
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        check(&flipped, &format!("flip at {at}"), false);
    }
    let first_end = sealed_end(&bytes);
    for len in (0..bytes.len()).rev() {
        check(&bytes[..len], &format!("cut to {len}"), len as u64 == first_end);
    }
}

/// Returns the length of the file at its first commit.
fn sealed_end(bytes: &[u8]) -> u64 {
    let place = usize::try_from(CommitSlot::offset(0)).unwrap();
    let slot = CommitSlot::parse(bytes[place..place + 64].try_into().unwrap(), place as u64).unwrap();
    slot.expect("an append fills a slot").end
}

/// Returns the ranges of the frames between superblock and last footer, found by their sync bytes.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let is_start = |at: usize| {
        bytes[at..].starts_with(&[0x8a, 0x53, 0x0d, 0x0a, 0, 0, 0, 0])
            || bytes[at..].starts_with(b"NRATAIL\n")
            || bytes[at..].starts_with(&[0x8a, 0x4e, 0x0d, 0x0a])
    };
    let mut starts: Vec<usize> = (SUPERBLOCK_LEN..bytes.len()).step_by(8).filter(|&at| is_start(at)).collect();
    starts.push(bytes.len());
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

#[test]
fn moved_and_replayed_frames_are_rejected() {
    let keyring = keyring();
    let base = sealed(&keyring, WriterOptions { message: "x".into(), ..options() }, fill_small);
    // Two forks with the same changes: frames of the same length at the same offsets differ only in
    // content.
    let fork = |content: &'static [u8; 15]| {
        append(base.clone(), move |writer| {
            put(writer, "fork", content);
        })
    };
    let (left, right) = (fork(b"content to left"), fork(b"content to righ"));
    assert_eq!(left.len(), right.len());
    let (frames_left, frames_right) = (frames(&left), frames(&right));
    assert_eq!(frames_left, frames_right);
    let good = contents(&try_open(&left, &with_key(secret())).unwrap());
    let mut tried = 0;
    let mut refused = |bytes: &[u8], what: String| {
        tried += 1;
        let Ok(reader) = try_open(bytes, &with_key(secret())) else { return };
        for (path, content) in contents(&reader) {
            let Some(content) = content else { continue };
            // Without its index, an archive is served from readable records, possibly of the fork:
            // this is reported.
            assert!(reader.is_index_damaged() || good.contains(&(path, Some(content))), "{what}");
        }
        let damage = reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage;
        assert!(!damage.is_empty() || reader.has_trailing_bytes(), "{what}");
    };
    for frame in &frames_left {
        if left[frame.clone()] != right[frame.clone()] && !left[frame.clone()].starts_with(b"NRATAIL") {
            let mut spliced = left.clone();
            spliced[frame.clone()].copy_from_slice(&right[frame.clone()]);
            refused(&spliced, format!("frame at {} of the other fork", frame.start));
        }
    }
    for a in &frames_left {
        for b in &frames_left {
            if a.start < b.start && a.len() == b.len() && left[a.clone()] != left[b.clone()] {
                let mut swapped = left.clone();
                swapped[a.clone()].copy_from_slice(&left[b.clone()]);
                swapped[b.clone()].copy_from_slice(&left[a.clone()]);
                refused(&swapped, format!("frames at {} and {} swapped", a.start, b.start));
            }
        }
        let mut repeated = left[..a.end].to_vec();
        repeated.extend_from_slice(&left[a.start..]);
        refused(&repeated, format!("frame at {} repeated", a.start));
        let cut = [&left[..a.start], &left[a.end..]].concat();
        refused(&cut, format!("frame at {} cut out", a.start));
    }
    assert!(tried > 20);
}

#[test]
fn plain_frames_in_an_encrypted_archive_are_rejected() {
    let keyring = keyring();
    let bytes = sealed(&keyring, options(), fill_small);
    let (plain, _) = archive(options(), fill_small);
    let plain = plain.bytes;
    let key_frame = frames(&bytes)[0].clone();
    // Frames of a plain archive after the key frame; the whole encrypted index is gone.
    let moved = [&bytes[..key_frame.end], &plain[SUPERBLOCK_LEN..plain.len() - FOOTER_LEN]].concat();
    assert!(try_open(&moved, &with_key(secret())).is_err());
    let (longer, lone) = ([&bytes[..], &plain[SUPERBLOCK_LEN..]].concat(), [&bytes[..256], &plain[256..]].concat());
    for bytes in [longer, lone] {
        if let Ok(reader) = try_open(&bytes, &with_key(secret())) {
            assert!(
                !reader.info().encrypted
                    || contents(&reader).is_empty()
                    || reader.has_trailing_bytes()
                    || !reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty()
            );
        }
    }
}

#[test]
fn appends_are_encrypted() {
    let mut bytes = sealed(&keyring(), options(), fill_small);
    for round in 0..5 {
        bytes = append(bytes, |writer| {
            put(writer, &format!("round-{round}"), &noise(20_000, 100 + round));
            put(writer, "again", &noise(90, 7));
        });
    }
    let reader = try_open(&bytes, &with_key(secret())).unwrap();
    assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    assert_eq!((reader.entry_count(), reader.info().commit), (8, Some(6)));
    assert!(contents(&reader).iter().all(|(_, content)| content.is_some()));
    assert!(!bytes.windows(5).any(|window| window == b"round"));
    let early = OpenOptions { commit: Some(2), ..with_key(secret()) };
    assert_eq!(try_open(&bytes, &early).unwrap().entry_count(), 4);
    for encryption in [None, Some(keyring())] {
        let disk = Disk::new(bytes.clone());
        let refused = Writer::append(disk, WriterOptions { encryption, ..options() }).err();
        assert!(matches!(refused, Some(Error::KeyNeeded | Error::Corrupt { .. })), "{refused:?}");
    }
    let (plain, _) = archive(options(), fill_small);
    let refused = Writer::append(Disk::new(plain.bytes), WriterOptions { encryption: Some(keyring()), ..options() }).err();
    assert!(matches!(refused, Some(Error::Usage { .. })));
}

#[test]
fn keys_can_change_with_a_commit() {
    let bytes = sealed(&keyring(), options(), fill_small);
    let password = || with_key(Secret::password("new"));
    let added = append(bytes.clone(), |writer| {
        writer.change_keys(|keys| keys.add(&Secret::password("new"), CHEAP, "later")).unwrap();
    });
    assert_eq!(contents(&try_open(&added, &password()).unwrap()), contents(&try_open(&bytes, &with_key(secret())).unwrap()));
    let removed = append(added.clone(), |writer| writer.change_keys(|keys| keys.remove(0)).unwrap());
    let reader = try_open(&removed, &password()).unwrap();
    assert_eq!(reader.verify(Depth::Full, None, &Recorder::default()).unwrap().damage, []);
    assert!(matches!(try_open(&removed, &with_key(secret())), Err(Error::WrongKey)));
    // The key frame of the preceding commit in place of the newest one is not accepted for it.
    let keys: Vec<_> =
        frames(&removed).into_iter().filter(|frame| removed[frame.start..].starts_with(&[0x8a, 0x4e, 0x0d, 0x0a, 8])).collect();
    let [.., former, newest] = &keys[..] else { panic!("a key frame for each commit") };
    assert!(former.len() > newest.len());
    let mut back = removed.clone();
    back[newest.clone()].copy_from_slice(&removed[former.start..former.start + newest.len()]);
    assert!(
        try_open(&back, &with_key(secret())).is_ok_and(|reader| reader.is_index_damaged()),
        "the keys of the beginning, and it is told"
    );
    // Only the last key frame is needed, and the first one replaces it.
    let reader = |damaged: &std::ops::Range<usize>| {
        let mut bytes = added.clone();
        bytes[damaged.clone()].fill(0);
        try_open(&bytes, &with_key(secret())).unwrap()
    };
    let keys: Vec<_> =
        frames(&added).into_iter().filter(|frame| added[frame.start..].starts_with(&[0x8a, 0x4e, 0x0d, 0x0a, 8])).collect();
    assert!(!reader(&keys[0]).is_index_damaged());
    let by_first = reader(&keys[2]);
    assert!(by_first.is_index_damaged() && by_first.entry_count() == 2 && !by_first.remarks().is_empty());
}

#[test]
fn unlocked_keys_open_archives_with_the_same_key_slots() {
    let bytes = sealed(&keyring(), options(), fill_small);
    let keyring = try_open(&bytes, &with_key(secret())).unwrap().keyring().cloned();
    let unlocked = || OpenOptions { unlocked: keyring.clone(), ..OpenOptions::default() };
    // Another commit has another key frame with the same key slots.
    let appended = append(bytes.clone(), |writer| {
        put(writer, "more", b"more");
    });
    for commit in [None, Some(1)] {
        let reader = try_open(&appended, &OpenOptions { commit, ..unlocked() }).unwrap();
        assert_eq!(reader.keyring().unwrap().used(), Some(0));
        assert_eq!(contents(&reader), contents(&try_open(&appended, &OpenOptions { commit, ..with_key(secret()) }).unwrap()));
    }
    // With other key slots, one of their secrets is needed.
    let password = Secret::password("new");
    let changed = append(appended, |writer| {
        writer.change_keys(|keys| keys.add(&password, CHEAP, "later")).unwrap();
        writer.change_keys(|keys| keys.remove(0)).unwrap();
    });
    assert!(matches!(try_open(&changed, &unlocked()), Err(Error::KeyNeeded)));
    assert!(matches!(try_open(&changed, &OpenOptions { key: Some(secret()), ..unlocked() }), Err(Error::WrongKey)));
    assert!(try_open(&changed, &OpenOptions { key: Some(password), ..unlocked() }).is_ok());
    // Another archive may have similar key slots, but has other keys.
    let other = sealed(&self::keyring(), options(), fill_small);
    assert!(matches!(try_open(&other, &unlocked()), Err(Error::KeyNeeded)));
}

#[test]
fn encrypted_entries_are_found_without_an_index() {
    let bytes = sealed(&keyring(), options(), |writer| {
        fill(writer);
        fill_small(writer);
    });
    let good = contents(&try_open(&bytes, &with_key(secret())).unwrap());
    let all = frames(&bytes);
    let first_block = all[1].start;
    for lost in [&all[all.len() - 1..], &all[all.len() - 2..], &all[all.len() - 4..]] {
        let mut bytes = bytes.clone();
        bytes[lost[0].start..].fill(0);
        let reader = try_open(&bytes, &with_key(secret())).unwrap();
        assert!(reader.is_index_damaged());
        assert_eq!(contents(&reader), good);
        // Without superblock and first key frame: the second key frame follows the lost range in
        // all cases except the first.
        bytes[..first_block].fill(0);
        match try_open(&bytes, &with_key(secret())) {
            Ok(reader) => assert_eq!(contents(&reader), good),
            Err(error) => assert!(lost.len() > 2, "{error}"),
        }
    }
}

#[test]
fn nonces_are_not_reused() {
    // Real writers: a new archive, two copies that continue separately from the same offset, and
    // many small commits.
    let keyring = keyring();
    nra_core::crypt::watch::begin(&keyring);
    let tiny = BlockPolicy { min_raw_bytes: 1, max_raw_bytes: 64, stored_bytes: 1, max_cheap_bytes: 64 };
    let options = WriterOptions { block: tiny, encryption: Some(keyring.clone()), ..options() };
    let fill = |writer: &mut dyn FnMut(&str, &[u8]), first: u64, count: u64| {
        (first..first + count).for_each(|number| writer(&format!("{number:05}"), &noise(24, number)));
    };
    let mut writer = Writer::create(Vec::new(), options.clone()).unwrap();
    fill(&mut |name, bytes| _ = put(&mut writer, name, bytes), 0, 16_000);
    let first = writer.finish(&Recorder::default()).unwrap().0;
    let go_on = |bytes: Vec<u8>, from: u64, count: u64| {
        let disk = Disk::new(bytes);
        let mut writer = Writer::append(disk.clone(), options.clone()).unwrap();
        fill(&mut |name, bytes| _ = put(&mut writer, name, bytes), from, count);
        drop(writer.finish(&Recorder::default()).unwrap());
        disk.bytes()
    };
    go_on(first.clone(), 20_000, 9_000);
    let mut last = go_on(first, 20_000, 9_000);
    for commit in 0..40 {
        last = go_on(last, 40_000 + commit, 1);
    }
    let sealed = nra_core::crypt::watch::end(&keyring);
    assert_eq!(sealed.repeats, 0);
    assert!(sealed.count() >= 100_000, "{}", sealed.count());
}
