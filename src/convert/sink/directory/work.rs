//! Creates the files of a batch on several threads.
//!
//! Files are processed in storage order, so that each block is decoded once. Each thread starts in
//! its own part of the list, because two threads that create files in one directory wait for each
//! other. When it is done, it helps the others. An archive that only decodes forward
//! ([`is_sequential`](nra_format::archive::Archive::is_sequential)) is read by one thread at a
//! time, from start to end. A thread reads small files into memory and creates them while the next
//! thread reads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffered::BufferedContent;
use super::extraction::Extraction;
use super::files::{self, Linked, Memory};
use super::large::{Large, PART};
use super::plan::Job;
use super::tree::Tree;
use nra_format::archive::Archive;
use nra_format::error::Result;

/// Maximum number of files in a task.
const MAX_TASK_FILES: usize = 256;
/// Maximum content of a task, bytes, unless one file is larger.
const MAX_TASK_BYTES: u64 = 4 << 20;

/// A unit of work for a thread.
enum Task {
    /// Some files.
    Files(Range<usize>),
    /// A part of a large file: number of its job, its number among the large files, range of bytes.
    Part(usize, usize, Range<u64>),
}

/// Creates all `jobs`.
///
/// # Errors
///
/// The first error that ends the extraction.
pub(super) fn make_files(run: &Extraction<'_>, tree: &Tree, mut jobs: Vec<Job>) -> Result<()> {
    let is_sequential = run.archive.is_sequential();
    jobs.sort_by_cached_key(|(item, parent)| {
        let (block, offset) = item.entry.position();
        // Grouping by directory within a block needs no extra decoding, unless the archive is one
        // block.
        (block, if is_sequential { 0 } else { *parent }, offset)
    });
    let threads = run.options.options.threads;
    let (tasks, large) = tasks(run.archive, &jobs, threads);
    let threads = threads.min(tasks.len()).max(1);
    let queue = Queue::new(tasks.len(), threads, is_sequential);
    let stop = AtomicBool::new(false);
    let first_error = Mutex::new(None);
    let perform = |task: &Task, turn: Option<Turn<'_>>, memory: &mut Memory| match task {
        Task::Files(numbers) => {
            let jobs = &jobs[numbers.clone()];
            let (content, _turn) = read_small(run, jobs, turn);
            let content = content.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            jobs.iter().zip(content).try_for_each(|(job, content)| {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                run.monitor.check()?;
                files::make_file(run, tree, memory, job, content).or_else(|fault| run.failed(&job.0, fault))
            })
        }
        Task::Part(job, number, part) => {
            run.monitor.check()?;
            large[*number].write(run, tree, memory, &jobs[*job], part.clone())
        }
    };
    let work = |thread: usize| {
        let mut memory = Memory::default();
        while let Some((task, turn)) = queue.next(thread).filter(|_| !stop.load(Ordering::Relaxed)) {
            if let Err(error) = perform(&tasks[task], turn, &mut memory) {
                stop.store(true, Ordering::Relaxed);
                first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..threads {
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

/// Reads small files into memory and ends the turn. Larger files are not read, and the turn
/// continues while they are written.
fn read_small<'t>(run: &Extraction<'_>, jobs: &[Job], turn: Option<Turn<'t>>) -> (Vec<BufferedContent>, Option<Turn<'t>>) {
    if turn.is_none() || jobs.iter().any(|(item, _)| item.entry.size > MAX_TASK_BYTES) {
        return (Vec::new(), turn);
    }
    (jobs.iter().map(|(item, _)| BufferedContent::read(run.archive, &item.entry)).collect(), None)
}

/// Creates a file that should be a hard link to an earlier one.
pub(super) fn make_link(run: &Extraction<'_>, tree: &Tree, memory: &mut Memory, job: &Job) -> Result<()> {
    let (item, parent) = job;
    let made = files::link(run, tree, item, *parent).and_then(|linked| {
        let refused = match linked {
            Linked::Made => return Ok(()),
            Linked::Alone => None,
            Linked::Refused(why) => Some(why),
        };
        files::make_file(run, tree, memory, job, None)?;
        if let Some(why) = refused {
            run.degraded(item, format!("a copy, not a hard link: {why}"));
        }
        Ok(())
    });
    made.or_else(|fault| run.failed(item, fault))
}

/// Divides sorted jobs into tasks. Also returns the large files that several threads write, if the
/// archive can read parts of them. In a sequential archive, a large file is a task of its own.
fn tasks(archive: &dyn Archive, jobs: &[Job], threads: usize) -> (Vec<Task>, Vec<Large>) {
    let is_sequential = archive.is_sequential();
    let (mut tasks, mut large) = (Vec::new(), Vec::new());
    let (mut start, mut bytes) = (0, 0u64);
    for (index, (item, _)) in jobs.iter().enumerate() {
        let size = item.entry.size;
        let is_large = if is_sequential {
            size > MAX_TASK_BYTES
        } else {
            threads > 1 && size > 2 * PART && archive.reads_ranges(&item.entry)
        };
        let other_block = index > start && item.entry.position().0 != jobs[index - 1].0.entry.position().0;
        if index > start && (is_large || other_block || index - start >= MAX_TASK_FILES || bytes >= MAX_TASK_BYTES) {
            tasks.push(Task::Files(start..index));
            (start, bytes) = (index, 0);
        }
        if !is_large {
            bytes = bytes.saturating_add(size);
            continue;
        }
        start = index + 1;
        if is_sequential {
            tasks.push(Task::Files(index..start));
        } else {
            tasks.extend(Large::parts(size).map(|part| Task::Part(index, large.len(), part)));
            large.push(Large::new(size));
        }
    }
    if start < jobs.len() {
        tasks.push(Task::Files(start..jobs.len()));
    }
    (tasks, large)
}

/// Numbers of tasks, in one part for each thread, or in a single part if threads read in turn.
struct Queue {
    parts: Vec<(AtomicUsize, usize)>,
    turns: Option<Mutex<()>>,
}

/// The right to read a sequential archive.
type Turn<'q> = MutexGuard<'q, ()>;

impl Queue {
    fn new(len: usize, threads: usize, is_sequential: bool) -> Self {
        let parts = if is_sequential { 1 } else { threads };
        let bound = |part: usize| len * part / parts;
        Self {
            parts: (0..parts).map(|part| (AtomicUsize::new(bound(part)), bound(part + 1))).collect(),
            // A single thread needs no turns.
            turns: (is_sequential && threads > 1).then(Mutex::default),
        }
    }

    /// Returns the next number of the thread's own part, or one of the part with the most tasks
    /// left, and the turn to read.
    fn next(&self, thread: usize) -> Option<(usize, Option<Turn<'_>>)> {
        let turn = self.turns.as_ref().map(|turns| turns.lock().unwrap_or_else(PoisonError::into_inner));
        let left = |(at, end): &(AtomicUsize, usize)| end.saturating_sub(at.load(Ordering::Relaxed));
        let mut part = &self.parts[thread % self.parts.len()];
        loop {
            let number = part.0.fetch_add(1, Ordering::Relaxed);
            if number < part.1 {
                return Some((number, turn));
            }
            part = self.parts.iter().max_by_key(|part| left(part)).filter(|part| left(part) > 0)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_returns_every_number_once() {
        for (len, threads, is_sequential) in [(0, 1, false), (1, 3, false), (10, 3, false), (100, 7, false), (100, 7, true)] {
            let queue = Queue::new(len, threads, is_sequential);
            let mut given = Vec::new();
            let mut thread = 0;
            while let Some((number, _)) = queue.next(thread) {
                given.push(number);
                thread = (thread * 5 + 1) % threads;
            }
            given.sort_unstable();
            assert_eq!(given, (0..len).collect::<Vec<_>>());
        }
    }
}
