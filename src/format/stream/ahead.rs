//! Reads a stream on a thread of its own, a few buffers ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::ByteStream;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;

/// Length of a buffer, bytes: long enough that handing over costs nothing, short enough to stay in the cache.
const BUFFER: usize = 256 << 10;
/// Buffers that may wait.
const BUFFERS: usize = 16;
/// How long a buffer is waited for before asking whether the work was stopped.
const PATIENCE: Duration = Duration::from_millis(200);

/// A stream whose bytes are made by another thread.
pub struct Ahead<S> {
    full: Option<Receiver<Result<Filled>>>,
    empty: Sender<Vec<u8>>,
    current: Filled,
    start: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<S>>,
}

#[derive(Default)]
struct Filled {
    bytes: Vec<u8>,
    len: usize,
}

impl<S: ByteStream + 'static> Ahead<S> {
    /// Starts reading `stream`.
    ///
    /// # Errors
    ///
    /// `Io` when the system gives no thread.
    pub fn new(mut stream: S) -> Result<Self> {
        let (full_in, full) = bounded::<Result<Filled>>(BUFFERS);
        let (empty, empty_out) = bounded::<Vec<u8>>(BUFFERS);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            loop {
                let mut bytes = empty_out.try_recv().unwrap_or_else(|_| vec![0; BUFFER]);
                let (len, error) = fill(&mut stream, &mut bytes, &stopped);
                // What came before an error is handed on; an empty buffer says that the stream ended.
                let ended = len == 0 || error.is_some();
                let sent = if len > 0 || error.is_none() { full_in.send(Ok(Filled { bytes, len })) } else { Ok(()) };
                let sent = sent.and_then(|()| error.map_or(Ok(()), |error| full_in.send(Err(error))));
                if sent.is_err() || ended {
                    return stream;
                }
            }
        };
        let thread = std::thread::Builder::new().name("read ahead".into()).spawn(work);
        let thread = thread.map_err(|error| Error::io("start", "a thread", error))?;
        Ok(Self { full: Some(full), empty, current: Filled::default(), start: 0, stop, thread: Some(thread) })
    }

    /// Returns the bytes that are there, at least one unless the stream ended.
    ///
    /// # Errors
    ///
    /// Those of the stream, and `Cancelled`.
    pub fn peek(&mut self, monitor: &dyn Monitor) -> Result<&[u8]> {
        if self.start == self.current.len
            && let Some(full) = &self.full
        {
            let next = loop {
                match full.recv_timeout(PATIENCE) {
                    Ok(Ok(next)) => break next,
                    Ok(Err(error)) => {
                        self.full = None;
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => monitor.check()?,
                    // Only a panic ends the thread without a word.
                    Err(RecvTimeoutError::Disconnected) => {
                        let panic = self.thread.take().and_then(|thread| thread.join().err());
                        if let Some(panic) = panic {
                            std::panic::resume_unwind(panic);
                        }
                        break Filled::default();
                    }
                }
            };
            if next.len == 0 {
                self.full = None;
            }
            let used = std::mem::replace(&mut self.current, next);
            self.start = 0;
            if used.bytes.len() == BUFFER {
                let _ = self.empty.try_send(used.bytes);
            }
        }
        Ok(&self.current.bytes[self.start..self.current.len])
    }

    /// Takes `len` of the bytes that are there.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.current.len - self.start);
        self.start += len;
    }

    /// Returns the stream, where reading has come to by then.
    pub fn into_inner(mut self) -> Option<S> {
        // Nobody takes what was read ahead any more: the thread must not wait for that.
        self.stop.store(true, Ordering::Relaxed);
        self.full = None;
        self.thread.take()?.join().ok()
    }
}

impl<S> Drop for Ahead<S> {
    fn drop(&mut self) {
        // Without a receiver the thread ends at its next buffer; it may wait for a pipe now, so that nobody waits for it.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Fills the buffer; less only at the end of the stream or before an error.
fn fill(stream: &mut dyn ByteStream, buffer: &mut [u8], stop: &AtomicBool) -> (usize, Option<Error>) {
    let mut len = 0;
    while len < buffer.len() && !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) => return (len, Some(error)),
        }
    }
    (len, None)
}
