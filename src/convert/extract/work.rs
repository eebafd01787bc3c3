//! Making the files of a wave on several threads.
//!
//! Files are taken in the order in which the archive stores them, so that each block is decoded once. Each thread begins in a part
//! of its own, because two threads that create files in one directory wait for each other, and helps the others when it is done. An archive
//! that decodes forward only ([`is_sequential`](crate::format::archive::Archive::is_sequential)) is read by one thread, from its start to its end.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::files::{self, Memory};
use super::large::{Large, PART};
use super::plan::Job;
use super::run::Run;
use super::tree::Tree;
use crate::format::error::{Error, Result};

/// Files handed to a thread at a time.
const MAX_TASK_FILES: usize = 256;
/// Content handed to a thread at a time, bytes, unless one file is larger.
const MAX_TASK_BYTES: u64 = 4 << 20;

/// What a thread takes at once.
enum Task {
    /// Some files.
    Files(Range<usize>),
    /// A part of a large file: number of its job, number among the large files, bytes.
    Part(usize, usize, Range<u64>),
}

/// Makes all `jobs`.
///
/// # Errors
///
/// The first reason for which nothing further can be made.
pub(super) fn make_files(run: &Run<'_>, tree: &Tree, mut jobs: Vec<Job>) -> Result<()> {
    let is_sequential = run.archive.is_sequential();
    jobs.sort_by_cached_key(|(item, parent)| {
        let (block, offset) = item.entry.place();
        // One directory after the other within a block costs nothing, unless the block is all there is.
        (block, if is_sequential { 0 } else { *parent }, offset)
    });
    let threads = if is_sequential { 1 } else { threads(run) };
    let (tasks, large) = tasks(&jobs, threads > 1);
    let queue = Queue::new(tasks.len(), threads.min(tasks.len()).max(1));
    let stop = AtomicBool::new(false);
    let first_error = Mutex::new(None);
    let perform = |task: &Task, memory: &mut Memory| match task {
        Task::Files(numbers) => jobs[numbers.clone()].iter().try_for_each(|(item, parent)| {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            run.monitor.check()?;
            make(run, tree, memory, item, *parent)
        }),
        Task::Part(job, number, part) => {
            run.monitor.check()?;
            large[*number].write(run, tree, memory, &jobs[*job], part.clone())
        }
    };
    let work = |thread: usize| {
        let mut memory = Memory::default();
        while let Some(task) = queue.next(thread).filter(|_| !stop.load(Ordering::Relaxed)) {
            if let Err(error) = perform(&tasks[task], &mut memory) {
                stop.store(true, Ordering::Relaxed);
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..queue.parts.len() {
            scope.spawn(move || work(thread));
        }
        work(0);
    });
    large.iter().for_each(Large::abandon);
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn make(run: &Run<'_>, tree: &Tree, memory: &mut Memory, item: &super::run::Item, parent: u32) -> Result<(), Error> {
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
        threads => threads,
    }
}

/// Cuts sorted jobs into what a thread takes at once, and returns the large files that are cut themselves, if `cut` says so.
fn tasks(jobs: &[Job], cut: bool) -> (Vec<Task>, Vec<Large>) {
    let (mut tasks, mut large) = (Vec::new(), Vec::new());
    let (mut start, mut bytes) = (0, 0u64);
    for (index, (item, _)) in jobs.iter().enumerate() {
        let size = item.entry.size;
        let is_large = cut && size > 2 * PART;
        let other_block = index > start && item.entry.place().0 != jobs[index - 1].0.entry.place().0;
        if index > start && (is_large || other_block || index - start >= MAX_TASK_FILES || bytes >= MAX_TASK_BYTES) {
            tasks.push(Task::Files(start..index));
            (start, bytes) = (index, 0);
        }
        if is_large {
            tasks.extend(Large::parts(size).map(|part| Task::Part(index, large.len(), part)));
            large.push(Large::new(size));
            start = index + 1;
        } else {
            bytes = bytes.saturating_add(size);
        }
    }
    if start < jobs.len() {
        tasks.push(Task::Files(start..jobs.len()));
    }
    (tasks, large)
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
