//! Threads that read ahead: positions are divided into jobs, whose batches arrive in order.

use std::ops::Range;
use std::thread;

use crossbeam_channel::{bounded, never, unbounded};

use super::batch::{Batch, Delivery, OrderedPart, Outlet, Stopped, Unhashed};
use nra_format::chunker::MAX_CHUNK_LEN;
use nra_format::error::Result;
use nra_format::progress::Monitor;
use nra_format::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Shortest buffer of a reader, bytes: a small file, or one chunk after the rest of another.
pub(crate) const MIN_BUFFER: usize = 2 * MAX_CHUNK_LEN;
/// Maximum number of names in a job: enough to make the overhead of jobs negligible, few enough to
/// share work evenly.
const JOB_NAMES: usize = 256;
/// Jobs in progress or waiting, per thread.
const JOBS_AHEAD: usize = 2;
/// Maximum number of waiting batches of a job.
const BATCHES_AHEAD: usize = 2;
/// Longest buffer of a batch, bytes. Longer ones are slower: content leaves the CPU cache before it
/// is written.
const MAX_BUFFER: usize = 1 << 20;

/// A source of entries: numbered positions that several threads read and decode.
pub(crate) trait EntrySource<X>: Sync {
    /// Returns a reader for one thread.
    fn reader(&self) -> Box<dyn EntryReader<X> + '_>;

    /// Returns whether one thread reads all positions in order. Several threads still hash the
    /// chunks.
    fn is_sequential(&self) -> bool {
        false
    }
}

/// Reads entries on one thread.
pub(crate) trait EntryReader<X> {
    /// Reads the entry at `position` into `outlet`. Problems become parts or warnings.
    ///
    /// # Errors
    ///
    /// If the conversion was stopped.
    fn read_entry(&mut self, position: u32, outlet: &mut Outlet<X>) -> Result<(), Stopped>;
}

/// How reading ahead shares its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buffers {
    /// Threads that read.
    threads: usize,
    /// Maximum number of waiting batches of a job.
    batches_ahead: usize,
    /// Length of a buffer.
    bytes: usize,
    /// Maximum number of buffers in use.
    count: usize,
}

impl Buffers {
    /// Divides `total` bytes among up to `threads`. With little memory there are shorter batches,
    /// then fewer batches, then fewer threads.
    fn new(threads: usize, total: u64) -> Self {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        // One for each waiting batch, one for each thread to fill, and one that is written.
        let count = |threads: usize, batches_ahead: usize| threads * JOBS_AHEAD * batches_ahead + threads + 1;
        let affordable = total / MIN_BUFFER;
        let batches_ahead = (1..=BATCHES_AHEAD).rev().find(|&ahead| count(threads, ahead) <= affordable).unwrap_or(1);
        let threads = (1..=threads).rev().find(|&threads| count(threads, batches_ahead) <= affordable).unwrap_or(1);
        let count = count(threads, batches_ahead);
        Self { threads, batches_ahead, bytes: (total / count).clamp(MIN_BUFFER, MAX_BUFFER), count }
    }
}

/// Receives parts, with the batch that contains their bytes.
pub(crate) type Take<'a, X> = &'a mut dyn FnMut(OrderedPart<X>, &Batch<X>) -> Result<()>;

/// Reads the positions 0 to `count` with `readers` and passes the parts to `take`, in order.
/// Reading ahead uses up to `read_bytes` of memory.
///
/// # Errors
///
/// Those of `take`, and `Cancelled`.
pub(crate) fn read_ahead<X: Send>(
    readers: &dyn EntrySource<X>,
    count: usize,
    threads: usize,
    read_bytes: u64,
    monitor: &dyn Monitor,
    take: Take<'_, X>,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let Buffers { threads: readers_at_work, batches_ahead, bytes: buffer_bytes, count: buffers } =
        Buffers::new(if readers.is_sequential() { 1 } else { threads.min(count) }, read_bytes);
    let job_names = (count / (readers_at_work * 8)).clamp(1, JOB_NAMES);
    let limits = PoolLimits { results: batches_ahead, ..PoolLimits::new(readers_at_work, readers_at_work * JOBS_AHEAD) };
    let (spare_in, spare) = bounded::<Vec<u8>>(buffers);
    thread::scope(|scope| {
        let (unhashed_in, unhashed) = unbounded::<Unhashed<X>>();
        for _ in 0..threads.max(1) {
            let unhashed = unhashed.clone();
            // All threads hash chunks of one large file.
            scope.spawn(move || unhashed.into_iter().for_each(Unhashed::finish));
        }
        // If all of these threads panic, sending fails instead of waiting for them.
        drop(unhashed);
        let mut pool = WorkerPool::scoped(scope, "read", limits, move || {
            let mut reader = readers.reader();
            let mut outlet = Outlet::new(spare.clone(), buffer_bytes, Some(unhashed_in.clone()));
            move |positions: Range<u32>, out: JobOutput<Delivery<X>>| {
                outlet.turn_to(out);
                for position in positions {
                    if monitor.cancelled() || reader.read_entry(position, &mut outlet).is_err() {
                        break;
                    }
                }
                // The receiver is gone if the conversion was stopped.
                let _ = outlet.close();
            }
        });
        let mut starts = (0..count).step_by(job_names);
        loop {
            while pool.has_room(0)
                && let Some(start) = starts.next()
            {
                pool.send(position(start)..position((start + job_names).min(count)), 0)?;
            }
            if pool.is_idle() {
                return monitor.check();
            }
            let delivery = pool.receive();
            monitor.check()?;
            if let Some(bytes) = delivery.map_or(Ok(None), |delivery| take_batch(delivery, take))? {
                // If there are enough spare buffers, this one is dropped.
                let _ = spare_in.try_send(bytes);
            }
        }
    })
}

/// Reads one position on a thread of its own and passes the parts to `take`.
///
/// # Errors
///
/// As [`read_ahead`].
pub(crate) fn read_one<X: Send>(
    read: impl Fn(&mut Outlet<X>) -> Result<(), Stopped> + Copy + Send + Sync,
    monitor: &dyn Monitor,
    take: Take<'_, X>,
) -> Result<()> {
    thread::scope(|scope| {
        let limits = PoolLimits { results: BATCHES_AHEAD, ..PoolLimits::new(1, 1) };
        let mut pool = WorkerPool::scoped(scope, "read", limits, move || {
            move |(), out: JobOutput<Delivery<X>>| {
                let mut outlet = Outlet::new(never(), MIN_BUFFER, None);
                outlet.turn_to(out);
                let _ = read(&mut outlet).and_then(|()| outlet.close());
            }
        });
        pool.send((), 0)?;
        while let Some(delivery) = pool.receive() {
            take_batch(delivery, take)?;
        }
        monitor.check()
    })
}

/// Passes on the parts of a batch. Returns its buffer; `None` if the conversion was stopped before
/// it arrived.
fn take_batch<X>(delivery: Delivery<X>, take: Take<'_, X>) -> Result<Option<Vec<u8>>> {
    let mut batch = match delivery {
        Delivery::Ready(batch) => batch,
        Delivery::Soon(batch) => match batch.recv() {
            Ok(batch) => batch,
            Err(_) => return Ok(None),
        },
    };
    for part in std::mem::take(&mut batch.parts) {
        take(part, &batch)?;
    }
    Ok(Some(batch.bytes))
}

fn position(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 positions are read in one go")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::pipeline::batch::{ByteRange, EntryPart};
    use nra_format::progress::Recorder;

    /// A source whose chunks are outside their batch, so that hashing them panics.
    struct OutOfRange;

    impl EntrySource<()> for OutOfRange {
        fn reader(&self) -> Box<dyn EntryReader<()> + '_> {
            Box::new(Self)
        }
    }

    impl EntryReader<()> for OutOfRange {
        fn read_entry(&mut self, position: u32, outlet: &mut Outlet<()>) -> Result<(), Stopped> {
            outlet.push(position, None, EntryPart::Cut(ByteRange { start: 1 << 40, len: 1 }));
            outlet.flush(0)
        }
    }

    #[test]
    fn panic_of_all_hashing_threads_ends_the_conversion() {
        let read = || read_ahead(&OutOfRange, 100, 2, 4 << 20, &Recorder::default(), &mut |_, _| Ok(()));
        assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
    }

    #[test]
    fn reading_ahead_stays_within_its_memory_budget() {
        for threads in [1, 2, 7, 64, 1000] {
            for total in [4 << 20, 8 << 20, 64 << 20, 1 << 30] {
                let buffers = Buffers::new(threads, total);
                assert!(buffers.bytes as u64 * buffers.count as u64 <= total, "{threads} {total} {buffers:?}");
                assert!(buffers.threads >= 1 && buffers.threads <= threads);
            }
        }
        assert_eq!(Buffers::new(2, 64 << 20), Buffers { threads: 2, batches_ahead: 2, bytes: 1 << 20, count: 11 });
        assert_eq!(Buffers::new(8, 0), Buffers { threads: 1, batches_ahead: 1, bytes: MIN_BUFFER, count: 4 });
    }
}
