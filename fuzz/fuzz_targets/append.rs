//! Commits on top of damaged and malicious archives: rejected without a trace, or written with all
//! added entries.
#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Archive, Depth, OpenOptions};
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::error::Error;
use nra::format::nra::changes::Change as Difference;
use nra::format::nra::reader::NraReader;
use nra::format::nra::revert::revert;
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use nra_fuzz::{Disk, Mutation, bases, check_text, exercise, verify};

#[derive(Debug, Arbitrary)]
enum Step {
    Add { path: u8, content: u8 },
    Remove { path: u8 },
    Rename { from: u8, to: u8 },
    Link { from: u8, to: u8 },
    Revert { commit: u8, part: Option<u8> },
}

/// Returns a path, of the archives or another one.
fn path(number: u8) -> EntryPath {
    let known: Vec<&EntryPath> = bases().iter().flat_map(|base| &base.newest).map(|version| &version.entry.path).collect();
    let others = ["new", "a", "a/new", "d/new/deep", "zz"];
    let number = usize::from(number) % (known.len() + others.len());
    let other = |number: usize| EntryPath::try_from(others[number]).expect("valid");
    known.get(number).map_or_else(|| other(number - known.len()), |known| EntryPath::clone(known))
}

fn content(number: u8) -> Vec<u8> {
    format!("content number {number}\n").into_bytes().repeat(usize::from(number))
}

/// Returns the number and paths of the newest commit. A commit slot may be new.
fn state(bytes: Vec<u8>) -> Option<(Option<u64>, Vec<Option<EntryPath>>)> {
    let archive = NraReader::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).ok()?;
    let paths = archive.entries(0..archive.entry_count()).map(|entry| entry.ok().map(|entry| entry.path));
    Some((archive.info().commit, paths.collect()))
}

fuzz_target!(|input: (u8, Mutation, Vec<Step>)| {
    let (number, mutation, steps) = input;
    let base = &bases()[usize::from(number) % bases().len()];
    let file = mutation.apply(base);
    let disk = Arc::new(Disk::new(file.clone()));
    let options = WriterOptions { threads: 1, reproducible: true, ..WriterOptions::balanced() };
    let mut writer = match Writer::append(disk.clone(), options) {
        Ok(writer) => writer,
        Err(error) => {
            check_text(&error.to_string());
            assert_eq!(disk.bytes(), file, "a rejected archive is unchanged");
            return;
        }
    };
    let last = writer.base().and_then(|base| base.info().commit);
    // Content of the paths that were added and not changed since.
    let mut added: Vec<(EntryPath, Vec<u8>)> = Vec::new();
    for step in steps.iter().take(20) {
        let touched = match step {
            Step::Add { path: at, content: what } => {
                let (at, bytes) = (path(*at), content(*what));
                let whole = NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible: false };
                let new = if bytes.is_empty() { NewContent::None } else { whole };
                let done = writer.add(Entry::new(at.clone(), Kind::File), new);
                added.retain(|(path, _)| *path != at && !path.is_below(&at) && !at.is_below(path));
                if done.is_ok() {
                    added.push((at, bytes));
                }
                done.map(drop)
            }
            Step::Remove { path: at } => {
                let at = path(*at);
                added.retain(|(path, _)| *path != at && !path.is_below(&at));
                writer.remove(&at)
            }
            Step::Rename { from, to } => {
                let (from, to) = (path(*from), path(*to));
                let near = |path: &EntryPath, at: &EntryPath| path == at || path.is_below(at) || at.is_below(path);
                added.retain(|(path, _)| !near(path, &from) && !near(path, &to));
                writer.rename(&from, &to)
            }
            Step::Link { from, to } => {
                let (from, to) = (path(*from), path(*to));
                added.retain(|(path, _)| *path != to && !path.is_below(&to) && !to.is_below(path));
                writer.reference_entry(&from).and_then(|id| writer.add_link(Entry::new(to, Kind::File), id)).map(drop)
            }
            Step::Revert { commit, part } => {
                added.clear();
                let selects = |change: &Difference, at: &EntryPath| change.entry().path == *at || change.entry().path.is_below(at);
                let part = part.map(path);
                let filter = part.as_ref().map(|at| move |change: &Difference| selects(change, at));
                let filter = filter.as_ref().map(|filter| filter as &dyn Fn(&Difference) -> bool);
                revert::<_, Error>(&mut writer, u64::from(*commit % 5), filter, &Recorder::default(), &mut |_| Ok(())).map(drop)
            }
        };
        if let Err(error) = touched {
            check_text(&error.to_string());
        }
    }
    let recorder = Recorder::default();
    match writer.finish(&recorder) {
        Ok((end, stats)) => {
            drop(end);
            let bytes = disk.bytes();
            if last == Some(stats.commit) {
                // A commit without changes may cut off trailing bytes or restore the footer.
                assert!(state(bytes) == state(file), "there was nothing to write");
                return;
            }
            assert_eq!(stats.archive_bytes, bytes.len() as u64);
            let mut options = OpenOptions::default();
            (options.recover, options.cache_bytes) = (false, 32 << 20);
            let archive = NraReader::open(Arc::new(MemorySource::new(bytes)), &options).expect("it was just written");
            assert_eq!(archive.entry_count(), stats.entries);
            // A file with entries below its path is skipped and reported.
            let skipped: Vec<Vec<u8>> = recorder.take_warnings().into_iter().map(|warning| warning.path).collect();
            added.retain(|(path, _)| !skipped.iter().any(|skipped| skipped == path.as_bytes()));
            for (path, content) in &added {
                let (_, entry) = archive.find(path.as_bytes()).expect("its pages were just read").expect("it was added");
                assert_eq!(archive.read_all(&entry, u64::MAX).ok().as_ref(), Some(content), "{path}");
            }
            exercise(&archive);
            let _ = verify(&archive, Depth::Quick);
        }
        Err(error) => {
            check_text(&error.to_string());
            // The writer removed what it had written, and trailing bytes.
            assert!(state(disk.bytes()) == state(file), "it failed: {error}");
        }
    }
});
