//! Cost of appending: growth of the archive, bytes read, and processor time.

use std::fs;

use super::append::put;
use super::disk::Disk;
use super::*;
use crate::revert::revert;
use nra_core::source::FileStore;

/// An archive of small files with dissimilar names and contents.
fn large(entries: u64) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), options()).unwrap();
    for i in 0..entries {
        let number = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        put(&mut writer, &format!("set/{:03}/{number:010x}.txt", number % 500), format!("{number} of {i}").as_bytes());
    }
    writer.finish(&Recorder::default()).unwrap().0
}

/// Returns the processor time of this process, milliseconds.
fn processor_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in hundredths of a second.
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// Appends a file of 3 KB. Returns the growth, the number of reads and the bytes read.
fn cost(bytes: Vec<u8>) -> (u64, u64, u64) {
    let before = bytes.len() as u64;
    let disk = Disk::new(bytes);
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    put(&mut writer, "set/250/new.txt", &noise(3_000, 77));
    let stats = writer.finish(&Recorder::default()).unwrap().1;
    let (reads, read) = disk.reads();
    (stats.archive_bytes - before, reads, read)
}

#[test]
fn append_cost_depends_on_new_data() {
    let bytes = large(60_000);
    let whole = bytes.len() as u64;
    let (growth, reads, read) = cost(bytes);
    assert!(growth < 32 << 10, "{growth}");
    // One of the reads saves the commit slot for a failure.
    assert!(reads <= 9 && read < 256 << 10 && read < whole / 4, "{reads} reads, {read} bytes of {whole}");
}

#[test]
fn revert_cost_depends_on_changes() {
    let disk = Disk::new(large(60_000));
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    put(&mut writer, "set/250/new.txt", &noise(3_000, 77));
    writer.remove(&path("set/100")).unwrap();
    writer.finish(&Recorder::default()).unwrap();
    let whole = disk.bytes().len() as u64;
    let disk = Disk::new(disk.bytes());
    let mut writer = Writer::append(disk.clone(), options()).unwrap();
    let done = revert::<_, Error>(&mut writer, 1, None, &Recorder::default(), &mut |_| Ok(())).unwrap();
    let stats = writer.finish(&Recorder::default()).unwrap().1;
    assert_eq!((done.entries, stats.added, stats.removed, stats.entries), (123, 122, 1, 60_501));
    let (reads, read) = disk.reads();
    assert!(stats.archive_bytes - whole < 64 << 10, "{}", stats.archive_bytes - whole);
    assert!(reads <= 24 && read < 512 << 10 && read < whole / 4, "{reads} reads, {read} bytes of {whole}");
}

#[test]
#[ignore = "a million entries"]
fn append_to_a_million_entries_takes_milliseconds() {
    let bytes = large(1_000_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.nra");
    fs::write(&path, &bytes).unwrap();
    let (growth, reads, read) = cost(bytes);
    assert!(growth < 32 << 10 && reads <= 10 && read < 256 << 10, "{growth} bytes; {reads} reads of {read} bytes");
    const COMMITS: u64 = 40;
    let (length, start) = (fs::metadata(&path).unwrap().len(), processor_time());
    for i in 0..COMMITS {
        let store = Arc::new(FileStore::open(&path).unwrap());
        let mut writer = Writer::append(store, options()).unwrap();
        put(&mut writer, &format!("set/{:03}/new {i}.txt", i * 7), &noise(3_000, i + 99));
        writer.finish(&Recorder::default()).unwrap();
    }
    let (grown, time) = (fs::metadata(&path).unwrap().len() - length, processor_time() - start);
    let (grown, time) = (grown / COMMITS, time / COMMITS);
    assert!(grown < 96 << 10 && time < 30, "{grown} bytes and {time} ms for each commit");
}
