//! Standard input that may not come: an interrupt ends the wait for it.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use nra_format::Error;

/// Length of what is handed over at once, bytes.
const BUFFER: usize = 128 << 10;
/// Buffers that may wait.
const BUFFERS: usize = 4;
/// How long input is waited for before asking whether the work was stopped.
const PATIENCE: Duration = Duration::from_millis(100);

/// A reader that another thread reads, which may wait for ever.
pub struct InterruptibleReader {
    full: Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    taken: usize,
    stopped: fn() -> bool,
}

impl InterruptibleReader {
    /// Starts reading. Once `stopped` says so, reading ends with [`Error::Cancelled`].
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn new(mut reader: impl Read + Send + 'static, stopped: fn() -> bool) -> io::Result<Self> {
        let (sender, full) = bounded(BUFFERS);
        let work = move || {
            loop {
                let mut bytes = vec![0; BUFFER];
                let read = match reader.read(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read,
                };
                let ended = !matches!(read, Ok(1..));
                let read = read.map(|len| {
                    bytes.truncate(len);
                    bytes
                });
                if sender.send(read).is_err() || ended {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("standard input".into()).spawn(work)?;
        Ok(Self { full, current: Vec::new(), taken: 0, stopped })
    }
}

impl Read for InterruptibleReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.current.len() {
            match self.full.recv_timeout(PATIENCE) {
                Ok(next) => (self.current, self.taken) = (next?, 0),
                Err(RecvTimeoutError::Timeout) => {}
                // It ended, or failed, and that was told.
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
            if (self.stopped)() {
                return Err(io::Error::other(Error::Cancelled));
            }
        }
        let len = buffer.len().min(self.current.len() - self.taken);
        buffer[..len].copy_from_slice(&self.current[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_comes_is_read_to_its_end() {
        let content: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
        let mut awaited = InterruptibleReader::new(io::Cursor::new(content.clone()), || false).unwrap();
        let mut found = Vec::new();
        awaited.read_to_end(&mut found).unwrap();
        assert!(found == content && awaited.read(&mut [0; 9]).unwrap() == 0);
    }

    #[test]
    fn what_does_not_come_is_not_waited_for_when_the_work_is_stopped() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"beginning").unwrap();
        let mut awaited = InterruptibleReader::new(reader, || true).unwrap();
        let error = awaited.read(&mut [0; 9]).unwrap_err();
        assert!(matches!(Error::io("read", "it", error), Error::Cancelled));
    }
}
