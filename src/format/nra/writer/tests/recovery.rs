//! Recovery data: all kinds of damage and their repair.

use proptest::prelude::*;

use super::append::{append, files, open, pack, put};
use super::crash::{Random, images, read};
use super::disk::Disk;
use super::*;
use crate::reader::NraReader;
use crate::recovery::{RecoveryHeader, Report, check, protect, restore};
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::source::MemorySource;

/// Memory for the longest groups, bytes.
const MEMORY: u64 = 256 << 20;

fn protected(bytes: Vec<u8>, percent: u32) -> Vec<u8> {
    let disk = Disk::new(bytes);
    protect(&*disk, percent, MEMORY, &Recorder::default()).unwrap();
    disk.bytes()
}

fn report(bytes: &[u8]) -> Report {
    check(&MemorySource::new(bytes.to_vec()), &Recorder::default()).unwrap().expect("recovery data is found")
}

/// Returns the repaired archive, or the reason for a failure.
fn repaired(bytes: &[u8]) -> Result<Vec<u8>> {
    let out = Disk::new(Vec::new());
    restore(&MemorySource::new(bytes.to_vec()), &report(bytes), &*out, MEMORY, &Recorder::default())?;
    Ok(out.bytes())
}

/// Compares two archives without printing them.
#[track_caller]
fn assert_restored(damaged: &[u8], whole: &[u8], what: &str) {
    match repaired(damaged) {
        Ok(bytes) => assert!(bytes == whole, "{what}: restored, but to something else"),
        Err(error) => panic!("{what}: {error}"),
    }
}

fn large(len: usize) -> Vec<u8> {
    pack(|writer| {
        for i in 0..4 {
            put(writer, &format!("large/{i}"), &noise(len / 4, i));
        }
        put(writer, "text", &text(3_000, 9));
    })
}

fn several_commits() -> Vec<u8> {
    let mut bytes = large(300_000);
    for i in 0..3 {
        (bytes, _) = append(bytes, |writer| {
            put(writer, &format!("more/{i}"), &noise(20_000, 50 + i));
        });
    }
    bytes
}

#[test]
fn archive_with_recovery_data_reads_as_before() {
    for bytes in [pack(|_| {}), large(300_000), several_commits()] {
        let whole = protected(bytes.clone(), 10);
        assert_eq!(files(&whole), files(&bytes));
        let recovery_header = report(&whole).recovery_header;
        assert!(report(&whole).is_whole());
        // Only a commit slot has changed.
        assert_eq!(bytes[SUPERBLOCK_LEN..], whole[SUPERBLOCK_LEN..bytes.len()]);
        assert_eq!(recovery_header.protected, bytes.len() as u64);
        assert_eq!(open(&whole).info().recovery, Some(recovery_header.summary()));
        assert_eq!(open(&bytes).info().recovery, None);
        // Once more, with another percentage: the earlier data is replaced.
        assert!(protected(whole.clone(), 10) == whole);
        assert!(report(&protected(whole, 60)).recovery_header.parity_shards > recovery_header.parity_shards);
    }
}

#[test]
fn burst_damage_within_the_percentage_is_restored() {
    let whole = protected(several_commits(), 10);
    let run = usize::try_from(report(&whole).recovery_header.protected).unwrap() / 10;
    for place in (0..whole.len() - run).step_by(7_777).chain([whole.len() - run]) {
        let mut bytes = whole.clone();
        bytes[place..place + run].iter_mut().for_each(|byte| *byte ^= 0xa5);
        assert_restored(&bytes, &whole, &format!("flipped from {place}"));
        bytes[place..place + run].fill(0);
        assert_restored(&bytes, &whole, &format!("zeroed from {place}"));
    }
}

#[test]
fn lost_superblock_and_footer_are_restored() {
    const LOST: usize = 64 << 10;
    let whole = protected(large(900_000), 10);
    let mut bytes = whole.clone();
    bytes[..LOST].fill(0);
    assert_restored(&bytes, &whole, "superblock");
    let mut bytes = whole.clone();
    let len = bytes.len();
    bytes[len - LOST..].fill(0);
    assert_restored(&bytes, &whole, "tail zeroed");
    assert_restored(&whole[..len - LOST], &whole, "tail cut");
    assert_restored(&[&whole[..], &[7; 1000]].concat(), &whole, "bytes behind it");
}

/// Damages random sectors until no more fit into `bytes_hit`.
fn scatter(bytes: &mut [u8], bytes_hit: usize, random: &mut Random) {
    const SECTOR: usize = 4096;
    let mut sectors: Vec<usize> = (0..bytes.len() / SECTOR).collect();
    random.shuffle(&mut sectors);
    for sector in sectors.into_iter().take(bytes_hit / SECTOR) {
        bytes[sector * SECTOR..(sector + 1) * SECTOR].fill(0x55);
    }
}

#[test]
fn scattered_sectors_within_the_percentage_are_restored() {
    let mut random = Random(11);
    for (len, percent) in [(1_500_000, 5), (2_000_000, 10), (6_000_000, 10)] {
        let archive = large(len);
        let hit = archive.len() * percent / 100;
        let whole = protected(archive, u32::try_from(percent).unwrap());
        for round in 0..6 {
            let mut bytes = whole.clone();
            scatter(&mut bytes, hit, &mut random);
            assert_restored(&bytes, &whole, &format!("{len} bytes, {percent} %, round {round}"));
        }
    }
}

/// Returns recovery data in groups of 256 shards of 4 KiB.
fn in_groups(bytes: Vec<u8>, percent: u32) -> Vec<u8> {
    let disk = Disk::new(bytes);
    protect(&*disk, percent, 4 << 20, &Recorder::default()).unwrap();
    disk.bytes()
}

#[test]
fn damage_within_the_percentage_is_restored_in_several_groups() {
    let whole = in_groups(large(6_000_000), 10);
    let recovery_header = report(&whole).recovery_header;
    assert_eq!((recovery_header.groups, recovery_header.in_group(), recovery_header.shard_len), (6, 245, 4_096));
    let run = usize::try_from(recovery_header.protected).unwrap() / 10;
    let mut random = Random(17);
    // A burst, also across archive and recovery data; and the same amount as sectors.
    let last = whole.len() - run;
    for place in [0, 2_000_000, 5_700_000, last].into_iter().chain((0..4).map(|_| random.below(last))) {
        let mut bytes = whole.clone();
        bytes[place..place + run].fill(0);
        assert_restored(&bytes, &whole, &format!("a burst from {place}"));
    }
    for round in 0..4 {
        let mut bytes = whole.clone();
        scatter(&mut bytes, run, &mut random);
        assert_restored(&bytes, &whole, &format!("sectors, round {round}"));
        // Half as a burst, half as sectors.
        let mut bytes = whole.clone();
        let place = random.below(whole.len() - run);
        bytes[place..place + run / 2].fill(0xff);
        scatter(&mut bytes, run / 2, &mut random);
        assert_restored(&bytes, &whole, &format!("a burst from {place} and sectors"));
    }
}

#[test]
fn each_group_restores_as_many_shards_as_it_has_parities_and_not_one_more() {
    let whole = in_groups(large(6_000_000), 5);
    let recovery_header = report(&whole).recovery_header;
    let shard = usize::try_from(recovery_header.shard_len).unwrap();
    let groups = usize::try_from(recovery_header.groups).unwrap();
    let parity_shards = usize::try_from(recovery_header.parity_shards).unwrap();
    assert_eq!((groups, parity_shards), (6, 33));
    // Shards are assigned in turn.
    let hit = |bytes: &mut [u8], group: usize, count: usize| {
        for number in 0..count {
            let shard_number = (number * 3 + 1) * groups + group;
            bytes[shard_number * shard..][..shard].fill(0x3c);
        }
    };
    let mut bytes = whole.clone();
    (0..groups).for_each(|group| hit(&mut bytes, group, parity_shards));
    let found = report(&bytes);
    assert_eq!((found.damaged_shards, found.lost_groups), ((groups * parity_shards) as u64, 0));
    assert_restored(&bytes, &whole, "as many as can be");
    for group in 0..groups {
        let mut beyond = whole.clone();
        hit(&mut beyond, group, parity_shards + 1);
        let found = report(&beyond);
        assert_eq!((found.lost_groups, found.worst_group), (1, (parity_shards as u64 + 1, parity_shards as u64)));
        assert!(matches!(repaired(&beyond), Err(Error::Corrupt { .. })), "group {group}");
    }
}

#[test]
fn groups_beyond_the_memory_limit_are_reported() {
    let whole = in_groups(large(3_000_000), 5);
    let mut bytes = whole.clone();
    bytes[70_000] ^= 1;
    let (source, report) = (MemorySource::new(bytes.clone()), report(&bytes));
    let needed = report.recovery_header.restoring_bytes();
    let restored = |memory| {
        let out = Disk::new(Vec::new());
        restore(&source, &report, &*out, memory, &Recorder::default()).map(|()| out.bytes())
    };
    assert!(matches!(restored(needed - 1), Err(Error::ResourceLimit { found, .. }) if found == needed));
    assert!(restored(needed).unwrap() == whole);
}

#[test]
fn excessive_damage_is_reported_and_rejected() {
    let whole = protected(large(400_000), 5);
    let mut bytes = whole.clone();
    bytes[100_000..140_000].fill(0);
    let found = report(&bytes);
    assert!(!found.is_restorable() && !found.is_whole());
    let [(from, len)] = found.damaged[..] else { panic!("{:?}", found.damaged) };
    assert!(from <= 100_000 && 100_000 - from < 4096 && from + len >= 140_000 && from + len < 144_096);
    assert_eq!((found.damaged_bytes, found.lost_groups), (len, 1));
    assert!(found.worst_group.0 > found.worst_group.1);
    assert!(matches!(repaired(&bytes), Err(Error::Corrupt { .. })));
}

#[test]
fn damaged_recovery_data_is_reported_and_rewritten() {
    let archive = large(200_000);
    let whole = protected(archive.clone(), 10);
    for place in (archive.len()..whole.len()).step_by(601) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        let found = report(&bytes);
        assert!(!found.recovery_is_whole && found.damaged.is_empty() && found.is_restorable(), "byte {place}");
        assert_restored(&bytes, &whole, &format!("byte {place}"));
        assert_eq!(read(&bytes, false).files, files(&archive));
        let options = OpenOptions::default();
        let verdict = NraReader::open(super::disk::source(bytes), &options).unwrap();
        let verdict = verdict.verify(Depth::Full, None, &Recorder::default()).unwrap();
        assert_eq!(verdict.restorable, Some(true));
        assert!(!verdict.damage.is_empty(), "byte {place}");
    }
}

#[test]
fn recovery_data_without_ends_does_not_affect_the_archive() {
    let archive = several_commits();
    let whole = protected(archive.clone(), 20);
    let (begin, end) = (archive.len(), whole.len() - 64);
    for (lost, is_told) in [(begin..begin + 128, false), (end - 128..end, false), (begin..end, true)] {
        let mut bytes = whole.clone();
        bytes[lost].fill(0);
        let reader = NraReader::open(super::disk::source(bytes.clone()), &OpenOptions::default()).unwrap();
        assert_eq!(reader.info().recovery.is_none(), is_told);
        let told: &[&str] = if is_told { &["the recovery data is damaged"] } else { &[] };
        assert_eq!(reader.remarks(), told);
        assert_eq!((reader.info().commit, reader.is_index_damaged()), (Some(4), false));
    }
}

#[test]
fn verify_reports_whether_damage_can_be_restored() {
    let whole = protected(large(400_000), 5);
    for (damage, restorable) in [(200_000..200_010, true), (150_000..200_000, false)] {
        let mut bytes = whole.clone();
        bytes[damage].fill(0xee);
        let reader = NraReader::open(super::disk::source(bytes), &OpenOptions::default()).unwrap();
        let verdict = reader.verify(Depth::Full, None, &Recorder::default()).unwrap();
        assert!(!verdict.damage.is_empty());
        assert_eq!(verdict.restorable, Some(restorable));
    }
}

#[test]
fn failed_append_keeps_recovery_data() {
    let whole = protected(large(300_000), 10);
    let change = |writer: &mut Writer<AppendDestination>, len: usize| -> Result<()> {
        writer.add(file("next"), super::whole(&noise(len, 77)))?;
        Ok(())
    };
    // A full disk, while content or the commit is written; an abandoned writer.
    let space = whole.len() as u64;
    for len in [500, 10_000, 900_000] {
        for full in [space, space + 100_000] {
            let disk = Disk::with_space(whole.clone(), full);
            let mut writer = Writer::append(disk.clone(), options()).unwrap();
            let done = change(&mut writer, len).and_then(|()| writer.finish(&Recorder::default()).map(drop));
            assert!(done.is_err() || len < 20_000);
            if done.is_err() {
                assert!(disk.bytes() == whole, "{len} bytes, space for {full}");
            }
        }
        let disk = Disk::new(whole.clone());
        let mut writer = Writer::append(disk.clone(), options()).unwrap();
        change(&mut writer, len).unwrap();
        drop(writer);
        assert!(disk.bytes() == whole);
    }
    // The same for recovery data that replaces recovery data.
    for full in [space, space + 10_000] {
        let disk = Disk::with_space(whole.clone(), full);
        assert!(protect(&*disk, 90, MEMORY, &Recorder::default()).is_err());
        assert!(disk.bytes() == whole);
    }
}

#[test]
fn killed_append_leaves_usable_recovery_data() {
    let whole = protected(large(900_000), 20);
    let disk = Disk::new(whole.clone());
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    put(&mut writer, "next", &noise(60_000, 77));
    writer.finish(&Recorder::default()).unwrap();
    let mut bytes = whole.clone();
    let mut restored = 0;
    for step in disk.steps() {
        step.apply(&mut bytes, usize::MAX);
        if bytes.len() == whole.len() && bytes != whole {
            let reader = NraReader::open(super::disk::source(bytes.clone()), &OpenOptions::default()).unwrap();
            assert!(reader.remarks().is_empty() && reader.info().recovery.is_some());
            let damaged = [&bytes[..5_000], &[0; 9_000], &bytes[14_000..]].concat();
            assert_restored(&damaged, &whole, "killed, and damaged besides");
            restored += 1;
        }
    }
    assert!(restored > 0);
}

#[test]
fn next_commit_drops_recovery_data() {
    let archive = several_commits();
    let (with, _) = append(protected(archive.clone(), 10), |writer| {
        put(writer, "next", b"more");
    });
    assert!(files(&with).contains_key("next"));
    assert!(check(&MemorySource::new(with.clone()), &Recorder::default()).unwrap().is_none());
    let (without, _) = append(archive, |writer| {
        put(writer, "next", b"more");
    });
    assert_eq!(with.len(), without.len());
}

#[test]
fn encrypted_archive_is_restored_without_key() {
    let options = WriterOptions { encryption: Some(super::sealed::keyring()), ..options() };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    put(&mut writer, "secret", &noise(200_000, 1));
    let whole = protected(writer.finish(&Recorder::default()).unwrap().0, 10);
    let mut bytes = whole.clone();
    bytes[..10_000].fill(0);
    assert_restored(&bytes, &whole, "encrypted");
}

/// A newer archive copied over an older one with recovery data, without truncating the file.
#[test]
fn old_recovery_data_does_not_undo_a_later_commit() {
    for encryption in [None, Some(super::sealed::keyring())] {
        let options = || WriterOptions { encryption: encryption.clone(), ..options() };
        let mut writer = Writer::create(Vec::new(), options()).unwrap();
        put(&mut writer, "old", &noise(40_000, 1));
        let old = writer.finish(&Recorder::default()).unwrap().0;
        let behind = protected(old.clone(), 100);
        let disk = Disk::new(old);
        let mut writer = Writer::append(disk.clone(), options()).unwrap();
        put(&mut writer, "new", b"new");
        writer.finish(&Recorder::default()).unwrap();
        let mut mixed = disk.bytes();
        assert!(mixed.len() < behind.len());
        mixed.extend(&behind[mixed.len()..]);
        assert_eq!(check(&MemorySource::new(mixed.clone()), &Recorder::default()).unwrap(), None);
        let disk = Disk::new(mixed.clone());
        assert!(matches!(protect(&*disk, 10, MEMORY, &Recorder::default()), Err(Error::Corrupt { .. })));
        assert!(disk.bytes() == mixed);
    }
}

#[test]
fn damaged_archive_is_not_protected() {
    let archive = large(50_000);
    let mut damaged_head = archive.clone();
    damaged_head[20] ^= 1;
    let (appended, _) = append(archive.clone(), |writer| {
        put(writer, "next", b"more");
    });
    // That append is finished: its commit must not be cut off.
    let lost_footer = appended[..appended.len() - 64].to_vec();
    for bytes in [Vec::new(), noise(1_000, 1), damaged_head, archive[..archive.len() - 64].to_vec(), lost_footer] {
        let disk = Disk::new(bytes.clone());
        assert!(protect(&*disk, 10, MEMORY, &Recorder::default()).is_err());
        assert!(disk.bytes() == bytes);
    }
    // Bytes of an append that are not a frame are removed.
    let torn = [&appended[..archive.len()], &[0; 100]].concat();
    assert_eq!(files(&protected(torn, 10)), files(&archive));
}

#[test]
fn failure_leaves_the_archive_unchanged() {
    let fresh = pack(|writer| {
        put(writer, "a", &noise(9_000, 1));
    });
    let old = protected(fresh.clone(), 30);
    for base in [fresh, old] {
        let disk = Disk::new(base.clone());
        protect(&*disk, 10, MEMORY, &Recorder::default()).unwrap();
        let (steps, whole) = (disk.steps(), disk.bytes());
        for image in images(&base, &steps, &mut Random(5)) {
            assert!(read(&image, false).files == files(&base) && read(&image, true).files == files(&base));
            // The next change works.
            assert!(protected(image.clone(), 10) == whole);
            let (bytes, _) = append(image, |writer| {
                put(writer, "next", b"more");
            });
            assert_eq!(files(&bytes).len(), 2);
        }
        for limit in 0..steps.len() {
            let disk = Disk::failing(base.clone(), limit);
            assert!(protect(&*disk, 10, MEMORY, &Recorder::default()).is_err());
            assert!(read(&disk.bytes(), false).files == files(&base));
        }
    }
}

#[test]
fn hostile_recovery_headers_do_not_panic() {
    let whole = protected(large(60_000), 10);
    let recovery_header: RecoveryHeader = report(&whole).recovery_header;
    let front = usize::try_from(recovery_header.file_len()).unwrap() - 64 - 64;
    for at in 0..56 {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[front + at] = value;
            let sum = nra_core::checksum::checksum(&bytes[front..front + 56], front as u64);
            bytes[front + 56..front + 64].copy_from_slice(&sum.to_le_bytes());
            if let Ok(again) = repaired(&bytes) {
                let len = usize::try_from(recovery_header.protected).unwrap();
                assert!(again[..len] == whole[..len], "byte {at} = {value}");
            }
            assert_eq!(read(&bytes, false).files, files(&whole));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_damage_within_the_percentage_is_restored_exactly(
        len in 0usize..200_000,
        percent in 1u32..=60,
        seed in any::<u64>(),
        chunks in 1usize..3,
        cut in any::<bool>(),
    ) {
        let archive = if len == 0 { pack(|_| {}) } else { large(len) };
        // Bursts touch one more shard than they fill.
        let shard = usize::try_from(RecoveryHeader::choose(archive.len() as u64, percent, 1, MEMORY).unwrap().shard_len).unwrap();
        let budget = (archive.len() * usize::try_from(percent).unwrap() / 100).saturating_sub((chunks - 1) * 2 * shard);
        let whole = protected(archive, percent);
        let mut random = Random(seed);
        let mut bytes = whole.clone();
        for _ in 0..chunks {
            let run = budget / chunks;
            let place = random.below(bytes.len() - run + 1);
            bytes[place..place + run].copy_from_slice(&noise(run, seed ^ place as u64));
        }
        if cut && chunks == 1 {
            bytes = whole[..whole.len() - budget].to_vec();
        }
        match repaired(&bytes) {
            Ok(bytes) => prop_assert!(bytes == whole),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
