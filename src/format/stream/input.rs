//! Bytes that come once, in order: from a file, a pipe, or a decoder.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use nra_core::error::{Error, Result, Subject};
use nra_core::source::ReadAt;

/// Length of the buffer in front of a stream, bytes: few calls, and it stays in the cache.
const BUFFER: usize = 128 << 10;
/// Most bytes that can be looked at before they are taken.
pub(super) const MAX_PEEK: usize = BUFFER / 2;

/// Bytes in order.
pub trait ByteStream: Send {
    /// Reads some bytes into `buffer`, which is not empty; 0 means that there are no more.
    ///
    /// # Errors
    ///
    /// `Io` when the source fails, `Corrupt` when the bytes can't be decoded.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Returns something worth knowing about the stream, once its end was reached.
    fn remark(&self) -> Option<String> {
        None
    }
}

impl<T: ByteStream + ?Sized> ByteStream for Box<T> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        (**self).read(buffer)
    }
    fn remark(&self) -> Option<String> {
        (**self).remark()
    }
}

/// Anything that reads, as a stream.
pub struct ReaderStream<R> {
    reader: R,
    name: Subject,
}

impl<R: Read + Send> ReaderStream<R> {
    /// Wraps `reader`; `name` is used in messages.
    pub fn new(reader: R, name: impl Into<Subject>) -> Self {
        Self { reader, name: name.into() }
    }
}

impl<R: Read + Send> ByteStream for ReaderStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result.map_err(|error| Error::io("read", &self.name, error)),
            }
        }
    }
}

/// A source from an offset on, as a stream.
pub struct SourceStream {
    source: Arc<dyn ReadAt>,
    offset: u64,
}

impl SourceStream {
    /// Reads `source` from `offset` to its end.
    pub fn new(source: Arc<dyn ReadAt>, offset: u64) -> Self {
        Self { source, offset }
    }
}

impl ByteStream for SourceStream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = self.source.len().saturating_sub(self.offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if len > 0 {
            self.source.read_exact_at(self.offset, &mut buffer[..len])?;
            self.offset += len as u64;
        }
        Ok(len)
    }
}

/// A stream with a buffer in front of it, so that one can look before taking.
pub struct Input {
    inner: Box<dyn ByteStream>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the first byte that was not taken.
    offset: u64,
    ended: bool,
    /// A reader was told that there is nothing more.
    starved: bool,
}

impl Input {
    /// Wraps a stream that stands at `offset`.
    pub fn new(inner: impl ByteStream + 'static, offset: u64) -> Self {
        Self { inner: Box::new(inner), buffer: vec![0; BUFFER], start: 0, end: 0, offset, ended: false, starved: false }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Says whether the end of the stream was seen.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Says whether somebody who read from here met the end.
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Returns what is in the buffer: at least `least` bytes (up to 64 KiB), fewer only at the end.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn peek(&mut self, least: usize) -> Result<&[u8]> {
        debug_assert!(least <= MAX_PEEK);
        if self.end - self.start < least && !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < least && !self.ended {
                let read = self.inner.read(&mut self.buffer[self.end..])?;
                self.end += read;
                self.ended = read == 0;
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Takes `len` of the bytes that were looked at.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }
}

impl ByteStream for Input {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // A large read goes past the buffer.
        if self.start == self.end && buffer.len() >= BUFFER && !self.ended {
            let read = self.inner.read(buffer)?;
            self.ended = read == 0;
            self.offset += read as u64;
            return Ok(read);
        }
        let bytes = self.peek(1)?;
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        Ok(len)
    }

    fn remark(&self) -> Option<String> {
        self.inner.remark()
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let read = ByteStream::read(self, buffer).map_err(std::io::Error::other)?;
        self.starved |= read == 0;
        Ok(read)
    }
}
