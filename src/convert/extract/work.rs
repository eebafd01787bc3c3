//! Making the files of a wave on several threads.
//!
//! Files are taken in the order in which the archive stores them, so that each block is decoded once. Each thread begins in a part
//! of its own, because two threads that create files in one directory wait for each other, and helps the others when it is done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::files::{self, Memory};
use super::plan::Job;
use super::run::Run;
use super::tree::{Made, Tree};
use crate::format::error::{Error, Result};

/// Files handed to a thread at a time.
const MAX_TASK_FILES: usize = 256;
/// Content handed to a thread at a time, bytes, unless one file is larger.
const MAX_TASK_BYTES: u64 = 4 << 20;

/// Makes all `jobs`.
///
/// # Errors
///
/// The first reason for which nothing further can be made.
pub(super) fn make_files(run: &Run<'_>, tree: &Tree, mut jobs: Vec<Job>) -> Result<()> {
    jobs.sort_by_cached_key(|(item, parent)| {
        let (block, offset) = item.entry.place();
        (block, *parent, offset)
    });
    let tasks = tasks(&jobs);
    let threads = threads(run).min(tasks.len()).max(1);
    let queue = Queue::new(tasks.len(), threads);
    let stop = AtomicBool::new(false);
    let first_error = Mutex::new(None);
    let work = |thread: usize| {
        let mut memory = Memory::default();
        while let Some(task) = queue.next(thread) {
            for (item, parent) in &jobs[tasks[task].clone()] {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let result = run.monitor.check().and_then(|()| make(run, tree, &mut memory, item, *parent));
                if let Err(error) = result {
                    stop.store(true, Ordering::Relaxed);
                    first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..threads {
            scope.spawn(move || work(thread));
        }
        work(0);
    });
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn make(run: &Run<'_>, tree: &Tree, memory: &mut Memory, item: &super::run::Item, parent: u32) -> Result<(), Error> {
    if tree.node(parent).made == Made::Failed {
        return run.failed(item, super::fault::Fault::omit("its directory could not be made"));
    }
    files::make_file(run, tree, memory, item, parent).or_else(|fault| run.failed(item, fault))
}

/// Makes a file that should be a hard link of an earlier one.
pub(super) fn make_link(run: &Run<'_>, tree: &Tree, memory: &mut Memory, item: &super::run::Item, parent: u32) -> Result<()> {
    match files::link(run, tree, item, parent) {
        Ok(true) => Ok(()),
        Ok(false) => make(run, tree, memory, item, parent),
        Err(fault) => run.failed(item, fault),
    }
}

/// Returns how many threads to use.
fn threads(run: &Run<'_>) -> usize {
    match run.options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads.min(256),
    }
}

/// Cuts sorted jobs into runs that a thread takes at once.
fn tasks(jobs: &[Job]) -> Vec<std::ops::Range<usize>> {
    let mut tasks = Vec::new();
    let (mut start, mut bytes) = (0, 0u64);
    for (index, (item, _)) in jobs.iter().enumerate() {
        let other_block = index > start && item.entry.place().0 != jobs[index - 1].0.entry.place().0;
        if other_block || index - start >= MAX_TASK_FILES || bytes >= MAX_TASK_BYTES {
            tasks.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes = bytes.saturating_add(item.entry.size);
    }
    if start < jobs.len() {
        tasks.push(start..jobs.len());
    }
    tasks
}

/// Numbers from 0 to a bound, in one part for each thread.
struct Queue {
    parts: Vec<(AtomicUsize, usize)>,
}

impl Queue {
    fn new(len: usize, threads: usize) -> Self {
        let bound = |thread: usize| len * thread / threads;
        Self { parts: (0..threads).map(|thread| (AtomicUsize::new(bound(thread)), bound(thread + 1))).collect() }
    }

    /// Returns the next number of the thread's own part, or one of the part that has most left.
    fn next(&self, thread: usize) -> Option<usize> {
        let left = |(at, end): &(AtomicUsize, usize)| end.saturating_sub(at.load(Ordering::Relaxed));
        let mut part = &self.parts[thread];
        loop {
            let number = part.0.fetch_add(1, Ordering::Relaxed);
            if number < part.1 {
                return Some(number);
            }
            part = self.parts.iter().max_by_key(|part| left(part)).filter(|part| left(part) > 0)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_given_once() {
        for (len, threads) in [(0, 1), (1, 3), (10, 3), (100, 7)] {
            let queue = Queue::new(len, threads);
            let mut given = Vec::new();
            let mut thread = 0;
            while let Some(number) = queue.next(thread) {
                given.push(number);
                thread = (thread * 5 + 1) % threads;
            }
            given.sort_unstable();
            assert_eq!(given, (0..len).collect::<Vec<_>>());
        }
    }
}
