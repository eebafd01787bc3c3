//! Threads whose results come in the order in which their work was sent.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

/// How long a result is waited for before asking whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Work on several threads, results in the order of the work.
pub struct InOrder<J, R> {
    jobs: Sender<(J, Sender<R>)>,
    waiting: VecDeque<Receiver<R>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, R: Send + 'static> InOrder<J, R> {
    /// Starts `threads` threads called `name`; each does its work with what `worker` makes for it.
    ///
    /// # Errors
    ///
    /// When the system gives no threads.
    pub fn new<W: FnMut(J) -> R>(
        name: &str,
        threads: NonZero<usize>,
        worker: impl Fn() -> W + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, received) = bounded::<(J, Sender<R>)>(threads.get());
        let mut all = Vec::with_capacity(threads.get());
        for _ in 0..threads.get() {
            let (received, worker) = (received.clone(), worker.clone());
            let run = move || {
                let mut work = worker();
                for (job, out) in received {
                    // Nobody waits for it when the whole was stopped.
                    let _ = out.send(work(job));
                }
            };
            all.push(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
        }
        Ok(Self { jobs, waiting: VecDeque::new(), threads: all })
    }

    /// Returns how many results are to come.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends work; waits while all threads have enough.
    ///
    /// # Errors
    ///
    /// When the threads are gone, as one is that panicked.
    pub fn send(&mut self, job: J) -> io::Result<()> {
        let (out, result) = bounded(1);
        self.jobs.send((job, out)).map_err(|_| io::Error::other("the threads are gone"))?;
        self.waiting.push_back(result);
        Ok(())
    }

    /// Returns the next result; `None` when all were returned.
    ///
    /// # Errors
    ///
    /// When the thread that worked on it is gone.
    pub fn receive(&mut self) -> io::Result<Option<R>> {
        self.receive_while(&|| Ok(()))
    }

    /// Returns the next result as [`InOrder::receive`] does, and asks `check` every now and then while it is not there.
    ///
    /// # Errors
    ///
    /// As [`InOrder::receive`]; what `check` gives.
    pub fn receive_while(&mut self, check: &dyn Fn() -> io::Result<()>) -> io::Result<Option<R>> {
        let Some(result) = self.waiting.pop_front() else { return Ok(None) };
        loop {
            match result.recv_timeout(PATIENCE) {
                Ok(result) => return Ok(Some(result)),
                Err(RecvTimeoutError::Timeout) => check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the thread is gone")),
            }
        }
    }

    /// Ends the threads.
    pub fn finish(self) {
        drop(self.jobs);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
