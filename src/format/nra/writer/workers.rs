//! Worker threads for compression.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::block_index;
use nra_core::codec::{Compressor, Method, StreamCompressor};
use nra_core::error::{Error, Result};

/// Compression contexts that a thread reuses.
#[derive(Default)]
pub(super) struct Compressors {
    blocks: Option<Compressor>,
    stream: Option<StreamCompressor>,
    pages: Option<Compressor>,
    records: Option<Compressor>,
}

/// Level for pages. They are few, and read more often than written.
const PAGE_LEVEL: i32 = 6;

impl Compressors {
    /// Returns the context for blocks that are compressed at once. `method` is always the same.
    pub fn blocks(&mut self, method: Method) -> Result<&mut Compressor> {
        get(&mut self.blocks, || Compressor::new(method))
    }

    /// Returns the context for blocks that are compressed chunk by chunk. `level` is always the
    /// same.
    pub fn stream(&mut self, level: i32) -> Result<&mut StreamCompressor> {
        get(&mut self.stream, || StreamCompressor::new(level))
    }

    /// Returns the context for block indexes.
    pub fn records(&mut self) -> Result<&mut Compressor> {
        get(&mut self.records, || Compressor::new(block_index::METHOD))
    }

    /// Returns the context for pages.
    pub fn pages(&mut self) -> Result<&mut Compressor> {
        get(&mut self.pages, || Compressor::new(Method::zstd(PAGE_LEVEL)))
    }
}

fn get<T>(slot: &mut Option<T>, make: impl FnOnce() -> Result<T>) -> Result<&mut T> {
    if slot.is_none() {
        *slot = Some(make()?);
    }
    Ok(slot.as_mut().expect("made above"))
}

type Job = Box<dyn FnOnce(&mut Compressors) + Send>;

/// Threads that run jobs in order. Threads start on demand, and are joined when this is dropped.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    queue: Receiver<Job>,
    threads: Vec<JoinHandle<()>>,
    limit: usize,
    stop: Arc<AtomicBool>,
}

impl Workers {
    /// Prepares for up to `limit` threads.
    pub fn new(limit: usize) -> Self {
        let (jobs, queue) = unbounded();
        Self { jobs: Some(jobs), queue, threads: Vec::new(), limit, stop: Arc::default() }
    }

    /// Runs `work` on a thread and sends the result with `number` to `results`. A panic becomes an
    /// error.
    pub fn submit<T: Send + 'static>(
        &mut self,
        number: u64,
        results: &Sender<(u64, Result<T>)>,
        work: impl FnOnce(&mut Compressors) -> Result<T> + Send + 'static,
    ) -> Result<()> {
        if self.threads.len() < self.limit && (self.threads.is_empty() || !self.queue.is_empty()) {
            self.start()?;
        }
        let (results, stop) = (results.clone(), self.stop.clone());
        let job: Job = Box::new(move |compressors| {
            let result = if stop.load(Ordering::Relaxed) {
                Err(Error::Cancelled)
            } else {
                catch_unwind(AssertUnwindSafe(|| work(compressors))).unwrap_or_else(|_| {
                    *compressors = Compressors::default();
                    Err(Error::io("compress", "content", io::Error::other("a worker thread panicked")))
                })
            };
            // Nobody listens any more if the writer was dropped.
            let _ = results.send((number, result));
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        assert!(sent, "the queue lives as long as this value");
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let queue = self.queue.clone();
        let thread = Builder::new().name("nra-compress".into()).spawn(move || {
            let mut compressors = Compressors::default();
            queue.iter().for_each(|job| job(&mut compressors));
        });
        match thread {
            Ok(thread) => self.threads.push(thread),
            Err(source) if self.threads.is_empty() => return Err(Error::io("start", "a worker thread", source)),
            // The system allows no more threads; continue with those that run.
            Err(_) => self.limit = self.threads.len(),
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // The panic was reported as the result of its job.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_and_the_thread_survives() {
        let mut workers = Workers::new(1);
        let (sender, results) = unbounded();
        workers.submit(1, &sender, |_| -> Result<u32> { panic!("expected by this test") }).unwrap();
        workers.submit(2, &sender, |_| Ok(7)).unwrap();
        let (number, result) = results.recv().unwrap();
        assert!(number == 1 && result.is_err());
        let (number, result) = results.recv().unwrap();
        assert_eq!((number, result.unwrap()), (2, 7));
        drop(workers);
    }
}
