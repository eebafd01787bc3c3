//! Reads a stream ahead on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::ByteStream;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;

/// Length of a buffer, bytes: long enough to make passing it cheap, short enough for the cache.
const BUFFER: usize = 256 << 10;
/// Most filled buffers.
const BUFFERS: usize = 16;
/// Interval of checks for an interrupt while waiting for a buffer.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A stream that another thread reads.
pub struct ReadAhead<S> {
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

impl<S: ByteStream + 'static> ReadAhead<S> {
    /// Starts reading `stream`.
    pub fn new(mut stream: S) -> Result<Self> {
        let (full_in, full) = bounded::<Result<Filled>>(BUFFERS);
        let (empty, empty_out) = bounded::<Vec<u8>>(BUFFERS);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            loop {
                let mut bytes = empty_out.try_recv().unwrap_or_else(|_| vec![0; BUFFER]);
                let (len, error) = fill(&mut stream, &mut bytes, || stopped.load(Ordering::Relaxed));
                // Bytes before an error are passed on; an empty buffer marks the end of the stream.
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

    /// Returns the available bytes, at least one unless the stream ended.
    pub fn peek(&mut self, monitor: &dyn Monitor) -> Result<&[u8]> {
        if self.start == self.current.len
            && let Some(full) = &self.full
        {
            let next = loop {
                match full.recv_timeout(CHECK_INTERVAL) {
                    Ok(Ok(next)) => break next,
                    Ok(Err(error)) => {
                        self.full = None;
                        return Err(error);
                    }
                    Err(RecvTimeoutError::Timeout) => monitor.check()?,
                    // The thread only ends without a message if it panicked.
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

    /// Consumes `len` of the available bytes.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.current.len - self.start);
        self.start += len;
    }

    /// Returns the stream at the position that the thread has reached.
    pub fn into_inner(mut self) -> Option<S> {
        // No more buffers are received, so the thread must not wait for that.
        self.stop.store(true, Ordering::Relaxed);
        self.full = None;
        self.thread.take()?.join().ok()
    }
}

impl<S> Drop for ReadAhead<S> {
    fn drop(&mut self) {
        // The thread ends at its next buffer. It is not joined: it may be waiting for a pipe.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Fills the buffer. Returns the length, which is less only at the end of the stream, when stopped,
/// or before an error.
pub(super) fn fill(stream: &mut dyn ByteStream, buffer: &mut [u8], is_stopped: impl Fn() -> bool) -> (usize, Option<Error>) {
    let mut len = 0;
    while len < buffer.len() && !is_stopped() {
        match stream.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) => return (len, Some(error)),
        }
    }
    (len, None)
}
