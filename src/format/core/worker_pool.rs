//! Worker threads whose results arrive in the order of the jobs.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, bounded, unbounded};

use crate::error::{Error, Result};

/// Interval between checks for an interrupt while a result is awaited.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Limits of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Maximum number of threads, at least 1. Threads start on demand.
    pub threads: usize,
    /// Maximum number of pending jobs: jobs whose results were not all received.
    pub jobs: usize,
    /// Maximum cost of pending jobs, bytes. A single job may cost more.
    pub bytes: u64,
    /// Maximum number of results of one job that wait to be received.
    pub results: usize,
}

impl PoolLimits {
    /// Returns limits for jobs that have one result each, and whose memory the caller limits.
    pub fn new(threads: usize, jobs: usize) -> Self {
        Self { threads, jobs, bytes: u64::MAX, results: 1 }
    }
}

/// The pool was dropped: no more results are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

enum Message<R> {
    Result(R),
    Last(R),
    Panic(Box<dyn Any + Send>),
}

/// Where a worker sends the results of a job. The job ends when this is dropped.
pub struct JobOutput<R> {
    results: Sender<Message<R>>,
    stop: Arc<AtomicBool>,
}

impl<R> JobOutput<R> {
    /// Sends a result that others may follow. Waits while too many results are unreceived.
    ///
    /// # Errors
    ///
    /// If the pool was dropped.
    pub fn send(&self, result: R) -> Result<(), Stopped> {
        self.results.send(Message::Result(result)).map_err(|_| Stopped)
    }

    /// Sends the last result.
    pub fn finish(self, result: R) {
        // The receiver is gone if the pool was dropped.
        let _ = self.results.send(Message::Last(result));
    }

    /// Returns whether the pool was dropped. Long jobs check this and end early.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

type Job<J, R> = (J, JobOutput<R>);
type Start<'a> = Box<dyn Fn() -> io::Result<()> + Send + Sync + 'a>;

/// Threads that process jobs `J`, and the results `R` in the order of the jobs.
///
/// A panic of a worker continues in the thread that receives the result. Dropping the pool discards
/// all pending jobs. Threads outside of a scope are not waited for: compressing a block can take
/// seconds, and an interrupt must not.
pub struct WorkerPool<'a, J, R> {
    limits: PoolLimits,
    jobs: Sender<Job<J, R>>,
    /// The results of each pending job, and its cost.
    pending: VecDeque<(Receiver<Message<R>>, u64)>,
    pending_bytes: u64,
    start: Start<'a>,
    started: usize,
    stop: Arc<AtomicBool>,
}

impl<J: Send + 'static, R: Send + 'static> WorkerPool<'static, J, R> {
    /// Creates a pool. Each thread called `name` processes its jobs with a worker that `new_worker`
    /// makes on it.
    pub fn new<W: FnMut(J, JobOutput<R>)>(
        name: &'static str,
        limits: PoolLimits,
        new_worker: impl Fn() -> W + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::with(limits, |queue| {
            Box::new(move || {
                let (queue, new_worker) = (queue.clone(), new_worker.clone());
                Builder::new().name(name.into()).spawn(move || run(&queue, &new_worker)).map(drop)
            })
        })
    }
}

impl<'a, J: Send + 'a, R: Send + 'a> WorkerPool<'a, J, R> {
    /// Creates a pool as [`WorkerPool::new`] does. Its threads belong to `scope`, so that workers may
    /// borrow.
    pub fn scoped<W: FnMut(J, JobOutput<R>)>(
        scope: &'a Scope<'a, '_>,
        name: &'static str,
        limits: PoolLimits,
        new_worker: impl Fn() -> W + Clone + Send + Sync + 'a,
    ) -> Self {
        Self::with(limits, |queue| {
            Box::new(move || {
                let (queue, new_worker) = (queue.clone(), new_worker.clone());
                Builder::new().name(name.into()).spawn_scoped(scope, move || run(&queue, &new_worker)).map(drop)
            })
        })
    }
}

impl<'a, J, R> WorkerPool<'a, J, R> {
    fn with(limits: PoolLimits, start: impl FnOnce(Receiver<Job<J, R>>) -> Start<'a>) -> Self {
        let (jobs, queue) = unbounded();
        Self {
            limits: PoolLimits { threads: limits.threads.max(1), jobs: limits.jobs.max(1), ..limits },
            jobs,
            pending: VecDeque::new(),
            pending_bytes: 0,
            start: start(queue),
            started: 0,
            stop: Arc::default(),
        }
    }

    /// Returns whether no job is pending.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns whether the limits allow another job that costs `bytes`.
    pub fn has_room(&self, bytes: u64) -> bool {
        let is_small = self.pending_bytes.saturating_add(bytes) <= self.limits.bytes;
        self.pending.is_empty() || self.pending.len() < self.limits.jobs && is_small
    }

    /// Sends a job that costs `bytes`. Callers check [`WorkerPool::has_room`] first, and receive
    /// results until there is room.
    ///
    /// # Errors
    ///
    /// `Io` if no thread can be started.
    pub fn send(&mut self, job: J, bytes: u64) -> Result<()> {
        if self.started < self.limits.threads && self.pending.len() >= self.started {
            match (self.start)() {
                Ok(()) => self.started += 1,
                Err(error) if self.started == 0 => return Err(Error::io("start", "a worker thread", error)),
                // The system allows no more threads: the others do the work.
                Err(_) => self.limits.threads = self.started,
            }
        }
        let (sender, results) = bounded(self.limits.results);
        let sent = self.jobs.send((job, JobOutput { results: sender, stop: Arc::clone(&self.stop) }));
        assert!(sent.is_ok(), "the function that starts threads holds a receiver");
        self.pending.push_back((results, bytes));
        self.pending_bytes += bytes;
        Ok(())
    }

    /// Waits for the next result. Returns `None` if no job is pending.
    pub fn receive(&mut self) -> Option<R> {
        while let Some((results, _)) = self.pending.front() {
            match results.recv() {
                Ok(message) => return Some(self.open(message)),
                Err(RecvError) => self.end_job(),
            }
        }
        None
    }

    /// Waits for the next result as [`WorkerPool::receive`] does, and calls `check` at short
    /// intervals.
    ///
    /// # Errors
    ///
    /// Those of `check`.
    pub fn receive_while<E>(&mut self, mut check: impl FnMut() -> Result<(), E>) -> Result<Option<R>, E> {
        while let Some((results, _)) = self.pending.front() {
            match results.recv_timeout(CHECK_INTERVAL) {
                Ok(message) => return Ok(Some(self.open(message))),
                Err(RecvTimeoutError::Timeout) => check()?,
                Err(RecvTimeoutError::Disconnected) => self.end_job(),
            }
        }
        Ok(None)
    }

    /// Returns the next result if it is ready.
    pub fn try_receive(&mut self) -> Option<R> {
        while let Some((results, _)) = self.pending.front() {
            match results.try_recv() {
                Ok(message) => return Some(self.open(message)),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => self.end_job(),
            }
        }
        None
    }

    fn open(&mut self, message: Message<R>) -> R {
        match message {
            Message::Result(result) => result,
            Message::Last(result) => {
                self.end_job();
                result
            }
            Message::Panic(panic) => resume_unwind(panic),
        }
    }

    /// Removes the first pending job.
    fn end_job(&mut self) {
        self.pending_bytes -= self.pending.pop_front().map_or(0, |(_, bytes)| bytes);
    }
}

impl<J, R> Drop for WorkerPool<'_, J, R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Processes jobs until the pool is dropped.
fn run<J, R, W: FnMut(J, JobOutput<R>)>(queue: &Receiver<Job<J, R>>, new_worker: &impl Fn() -> W) {
    let mut worker = None;
    for (job, output) in queue {
        if output.is_stopped() {
            continue;
        }
        let results = output.results.clone();
        let work = AssertUnwindSafe(|| worker.get_or_insert_with(new_worker)(job, output));
        if let Err(panic) = catch_unwind(work) {
            // The panic may have left the worker in an inconsistent state.
            worker = None;
            let _ = results.send(Message::Panic(panic));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn limits(threads: usize, jobs: usize) -> PoolLimits {
        PoolLimits::new(threads, jobs)
    }

    #[test]
    fn results_arrive_in_the_order_of_the_jobs() {
        // The first job ends only after the second one has begun.
        let barrier = Arc::new(Barrier::new(2));
        let mut pool = WorkerPool::new("test", limits(2, 2), move || {
            let barrier = Arc::clone(&barrier);
            move |number: u32, output: JobOutput<u32>| {
                if number < 2 {
                    barrier.wait();
                }
                output.finish(number * 10);
            }
        });
        let mut results = Vec::new();
        for number in 0..10 {
            while !pool.has_room(0) {
                results.extend(pool.receive());
            }
            pool.send(number, 0).unwrap();
        }
        while let Some(result) = pool.receive() {
            results.push(result);
        }
        assert_eq!(results, (0..10).map(|number| number * 10).collect::<Vec<_>>());
        assert!(pool.is_idle());
    }

    #[test]
    fn scoped_jobs_have_any_number_of_results() {
        let words = ["none", "one two", "", "three"];
        std::thread::scope(|scope| {
            let limits = PoolLimits { results: 1, ..limits(2, 4) };
            let mut pool = WorkerPool::scoped(scope, "test", limits, || {
                |number: usize, output: JobOutput<&str>| {
                    for word in words[number].split_whitespace().filter(|word| *word != "none") {
                        output.send(word).unwrap();
                    }
                }
            });
            (0..words.len()).for_each(|number| pool.send(number, 0).unwrap());
            let results: Vec<&str> = std::iter::from_fn(|| pool.receive()).collect();
            assert_eq!(results, ["one", "two", "three"]);
        });
    }

    #[test]
    fn room_depends_on_the_number_and_cost_of_pending_jobs() {
        let new_worker = || |(), output: JobOutput<()>| output.finish(());
        let mut pool = WorkerPool::new("test", PoolLimits { bytes: 10, ..limits(1, 3) }, new_worker);
        assert!(pool.has_room(11));
        pool.send((), 6).unwrap();
        assert!(pool.has_room(4) && !pool.has_room(5));
        pool.send((), 0).unwrap();
        pool.send((), 0).unwrap();
        assert!(!pool.has_room(0));
        pool.receive();
        assert!(pool.has_room(10));
    }

    #[test]
    fn panic_continues_in_the_receiver() {
        let new_worker = || {
            |number: u32, output: JobOutput<u32>| {
                if number == 1 { panic!("expected by this test") } else { output.finish(number) }
            }
        };
        let mut pool = WorkerPool::new("test", limits(1, 3), new_worker);
        (0..3).for_each(|number| pool.send(number, 0).unwrap());
        assert_eq!(pool.receive(), Some(0));
        let panic = catch_unwind(AssertUnwindSafe(|| pool.receive())).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"expected by this test"));
        assert_eq!(pool.receive(), Some(2));
        assert_eq!(pool.receive(), None);
    }

    #[test]
    fn dropping_the_pool_stops_the_workers() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&begun);
        let mut pool = WorkerPool::new("test", limits(1, 5), move || {
            let counter = Arc::clone(&counter);
            move |(), output: JobOutput<()>| {
                counter.fetch_add(1, Ordering::Relaxed);
                while !output.is_stopped() {
                    std::thread::yield_now();
                }
            }
        });
        (0..5).for_each(|_| pool.send((), 0).unwrap());
        while begun.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(pool.receive_while(|| Err("interrupted")), Err("interrupted"));
        assert!(pool.try_receive().is_none());
        drop(pool);
        assert_eq!(begun.load(Ordering::Relaxed), 1);
    }
}
