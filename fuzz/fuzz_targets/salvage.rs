//! Salvage: only packed content is recovered, and the result is a valid archive.
#![no_main]

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::convert::{Destination, NewArchive, NraSink, Options, Sink as To, Source, convert};
use nra::format::archive::{Archive, Depth, OpenOptions};
use nra::format::nra::reader::{NraReader, open_for_salvage};
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use nra::fuzzing::Operation;
use nra_fuzz::{Base, Change, Hit, MAX_CONTENT, Version, bases, check_text, open, verify};

/// With more hits, the fuzzer could repair checksums.
const MAX_HITS: usize = 6;

#[derive(Debug, Arbitrary)]
enum Input {
    /// Damage, with foreign bytes before the archive or without its first bytes.
    Damaged { base: u8, hits: Vec<Hit>, front: Vec<u8>, missing: u16 },
    /// Changes by a malicious writer.
    Resealed { base: u8, changes: Vec<Change>, missing: u16 },
}

fuzz_target!(|input: Input| {
    let base = |number: u8| &bases()[usize::from(number) % bases().len()];
    match input {
        Input::Damaged { base: number, hits, mut front, missing } => {
            let mut file = base(number).bytes.to_vec();
            hits.iter().take(MAX_HITS).for_each(|hit| hit.apply(&mut file));
            front.truncate(300);
            front.extend(file.drain(..).skip(missing.into()));
            if let Some((archive, moved)) = open_damaged(front) {
                check_packed(base(number), &archive, moved);
            }
        }
        Input::Resealed { base: number, changes, missing } => {
            let operations: Vec<Operation> = changes.into_iter().map(Operation::from).collect();
            let file = base(number).dissection.rebuild(&operations);
            if let Some((archive, _)) = open_damaged(file.into_iter().skip(missing.into()).collect()) {
                let _ = saved(&archive);
            }
        }
    }
});

fn open_damaged(file: Vec<u8>) -> Option<(NraReader, bool)> {
    let mut options = OpenOptions::default();
    options.cache_bytes = 32 << 20;
    match open_for_salvage(Arc::new(MemorySource::new(file)), &options) {
        Ok((archive, place)) => Some((archive, place != 0)),
        Err(error) => {
            check_text(&error.to_string());
            None
        }
    }
}

/// Salvages readable entries. Returns `None` if an entry is too long.
fn saved(archive: &NraReader) -> Option<Box<dyn Archive>> {
    let content: u64 = archive.entries(0..archive.entry_count()).flatten().map(|entry| entry.size).fold(0, u64::saturating_add);
    if content > 8 * MAX_CONTENT {
        return None;
    }
    let out = Sink::default();
    let options = Options { threads: 1, sync: false, ..Options::default() };
    let monitor = Recorder::default();
    let to = To::Archive(Destination::Stream(Box::new(out.clone())), NewArchive::Nra(NraSink::default()));
    let done = convert(Source::Damaged(archive), to, &options, &monitor);
    for warning in monitor.take_warnings() {
        check_text(&warning.message);
    }
    let stats = match done {
        Ok(stats) => stats,
        Err(error) => {
            // A damaged or malicious archive may claim more than a writer accepts.
            check_text(&error.to_string());
            return None;
        }
    };
    let bytes = std::mem::take(&mut *out.0.lock().unwrap_or_else(PoisonError::into_inner));
    let new = open(bytes).expect("what was just written");
    let verdict = verify(&*new, Depth::Full).expect("an undamaged archive");
    assert!(verdict.damage.is_empty() && new.remarks().is_empty(), "{:?}", verdict.damage);
    assert_eq!(new.entry_count(), stats.written.entries);
    Some(new)
}

fn check_packed(base: &Base, archive: &NraReader, moved: bool) {
    let Some(new) = saved(archive) else { panic!("nothing in it is too much for a writer") };
    let former = if moved || archive.is_index_damaged() || !archive.remarks().is_empty() { &base.former[..] } else { &[] };
    for entry in new.entries(0..new.entry_count()) {
        let entry = entry.expect("an undamaged archive");
        let versions: Vec<&Version> = base.newest.iter().chain(former).filter(|version| version.is(&entry)).collect();
        if versions.is_empty() && entry.implied {
            // Its own record is lost; entries below it imply it.
            assert!(base.newest.iter().chain(former).any(|version| version.entry.path.is_below(&entry.path)), "{entry:?}");
            continue;
        }
        let content = new.read_all(&entry, MAX_CONTENT).expect("an undamaged archive");
        assert!(versions.iter().any(|version| version.content == content), "not what was packed: {entry:?}");
    }
}

/// Keeps the written bytes.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
