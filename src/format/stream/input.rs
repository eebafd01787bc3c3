//! Sequential input from a file, a pipe or a decoder.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use nra_core::error::{Error, Result, Subject};
use nra_core::source::ReadAt;

/// Length of an input buffer, bytes: long enough for few calls, short enough for the cache.
const BUFFER: usize = 128 << 10;
/// Most bytes that can be peeked at.
pub(super) const MAX_PEEK: usize = BUFFER / 2;

/// A stream of bytes.
pub trait ByteStream: Send {
    /// Reads bytes into `buffer`, which is not empty. Returns 0 at the end.
    ///
    /// # Errors
    ///
    /// `Io` if the source fails, `Corrupt` if the bytes cannot be decoded.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Returns a remark on the stream, once its end was reached.
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

/// A reader as a stream.
pub struct ReaderStream<R> {
    reader: R,
    name: Subject,
}

impl<R: Read + Send> ReaderStream<R> {
    /// Wraps `reader`. `name` is its name in messages.
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

/// A source as a stream.
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

/// A buffered stream that can be peeked at.
pub struct Input {
    inner: Box<dyn ByteStream>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of the next byte in the stream.
    offset: u64,
    ended: bool,
    /// A read at the end of the stream was attempted.
    starved: bool,
}

impl Input {
    /// Wraps a stream whose next byte is at `offset`.
    pub fn new(inner: impl ByteStream + 'static, offset: u64) -> Self {
        Self { inner: Box::new(inner), buffer: vec![0; BUFFER], start: 0, end: 0, offset, ended: false, starved: false }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether the end of the stream was reached.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether a read at the end of the stream was attempted.
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Returns the buffered bytes: at least `min_len`, which is at most 64 KiB, or fewer at the
    /// end.
    pub fn peek(&mut self, min_len: usize) -> Result<&[u8]> {
        debug_assert!(min_len <= MAX_PEEK);
        if self.end - self.start < min_len && !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < min_len && !self.ended {
                let read = self.inner.read(&mut self.buffer[self.end..])?;
                self.end += read;
                self.ended = read == 0;
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Consumes `len` of the peeked bytes.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    /// Consumes up to `len` bytes and passes them to `each`. Returns their number, which is less
    /// than `len` only at the end.
    pub(super) fn consume_each(&mut self, len: u64, mut each: impl FnMut(&[u8])) -> Result<u64> {
        let mut remaining = len;
        while remaining > 0 {
            let bytes = self.peek(1)?;
            let count = bytes.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
            if count == 0 {
                break;
            }
            each(&bytes[..count]);
            self.consume(count);
            remaining -= count as u64;
        }
        Ok(len - remaining)
    }
}

impl ByteStream for Input {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // Large reads bypass the buffer.
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
