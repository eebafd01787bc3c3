//! Reads standard input so that an interrupt can end the wait for data.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use nra_format::Error;

/// Length of a buffer, bytes.
const BUFFER: usize = 128 << 10;
/// Buffers that may be queued.
const BUFFERS: usize = 4;
/// Interval between checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A reader whose data is read by another thread, which may block forever.
pub struct InterruptibleReader {
    full: Receiver<io::Result<Vec<u8>>>,
    current: Vec<u8>,
    taken: usize,
    stopped: fn() -> bool,
}

impl InterruptibleReader {
    /// Starts reading. When `stopped` returns `true`, reading fails with [`Error::Cancelled`].
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
            match self.full.recv_timeout(POLL_INTERVAL) {
                Ok(next) => (self.current, self.taken) = (next?, 0),
                Err(RecvTimeoutError::Timeout) => {}
                // The input has ended, or its error was already returned.
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
    fn input_is_read_completely() {
        let content: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
        let mut reader = InterruptibleReader::new(io::Cursor::new(content.clone()), || false).unwrap();
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        assert!(found == content && reader.read(&mut [0; 9]).unwrap() == 0);
    }

    #[test]
    fn interrupt_ends_the_wait_for_input() {
        let (input, mut writer) = io::pipe().unwrap();
        writer.write_all(b"beginning").unwrap();
        let mut reader = InterruptibleReader::new(input, || true).unwrap();
        let error = reader.read(&mut [0; 9]).unwrap_err();
        assert!(matches!(Error::io("read", "it", error), Error::Cancelled));
    }
}
