//! Histories of damaged and malicious archives: every listed commit opens or is rejected, and
//! compaction keeps its content or fails.
#![no_main]

use std::sync::{Arc, Mutex, PoisonError};

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Archive, Depth, OpenOptions};
use nra::format::nra::compact::compact;
use nra::format::nra::reader::NraReader;
use nra::format::nra::writer::WriterOptions;
use nra::format::progress::Recorder;
use nra::format::source::{MemorySource, ReadAt, Store};
use nra_fuzz::{Disk, MAX_CONTENT, Mutation, bases, check_text, exercise, verify};

/// Most commits that are opened.
const MAX_COMMITS: usize = 8;

fuzz_target!(|input: (u8, u8, Mutation)| {
    let (number, keep, mutation) = input;
    let base = &bases()[usize::from(number) % bases().len()];
    let file = mutation.apply(base);
    let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(file));
    let options = |recover, commit| {
        let mut options = OpenOptions::default();
        (options.recover, options.commit, options.cache_bytes) = (recover, commit, 32 << 20);
        options
    };
    let Ok(newest) = NraReader::open(Arc::clone(&source), &options(true, None)) else { return };
    let commits: Vec<u64> = newest.commits().take(MAX_COMMITS).flatten().map(|commit| commit.number).collect();
    assert!(commits.is_sorted_by(|newer, older| newer > older), "{commits:?}");
    for &commit in &commits {
        match NraReader::open(Arc::clone(&source), &options(true, Some(commit))) {
            Ok(archive) => {
                assert_eq!(archive.info().commit, Some(commit));
                exercise(&archive);
            }
            Err(error) => check_text(&error.to_string()),
        }
    }
    let content: u64 = newest.entries(0..newest.entry_count()).flatten().map(|entry| entry.size).fold(0, u64::saturating_add);
    if content > 8 * MAX_CONTENT {
        return;
    }
    // The file as each opening leaves it.
    let file = Mutex::new(Arc::new(Disk::new(Vec::new())));
    let lock = || file.lock().unwrap_or_else(PoisonError::into_inner);
    let open = || {
        let mut file = lock();
        *file = Arc::new(Disk::new(file.bytes()));
        Ok(Arc::clone(&file) as Arc<dyn Store>)
    };
    let writer = WriterOptions { threads: 1, ..WriterOptions::balanced() };
    let keep = u64::from(keep % 4);
    match compact(&source, keep, &open, &writer, &Recorder::default()) {
        Ok(done) => {
            let bytes = lock().bytes();
            assert_eq!((done.after_bytes, done.commits <= keep), (bytes.len() as u64, true));
            let new = NraReader::open(Arc::new(MemorySource::new(bytes)), &options(false, None)).expect("it was just written");
            let verdict = verify(&new, Depth::Full).expect("an undamaged archive");
            assert!(verdict.damage.is_empty(), "{:?}", verdict.damage);
            // Everything that a strict reader reads is unchanged.
            let old = NraReader::open(Arc::clone(&source), &options(false, None)).expect("it was read");
            for (old_entry, new_entry) in old.entries(0..old.entry_count()).zip(new.entries(0..new.entry_count())) {
                let (old_entry, new_entry) = (old_entry.expect("it was read"), new_entry.expect("an undamaged archive"));
                assert_eq!((&old_entry.path, old_entry.kind, old_entry.size), (&new_entry.path, new_entry.kind, new_entry.size));
                if let Ok(content) = old.read_all(&old_entry, MAX_CONTENT) {
                    assert_eq!(new.read_all(&new_entry, MAX_CONTENT).ok(), Some(content), "{}", old_entry.path);
                }
            }
        }
        Err(error) => check_text(&error.to_string()),
    }
});
