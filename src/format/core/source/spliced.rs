//! A source made of several parts, and a reader of a source.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::source::ReadAt;

/// A range of a source between bytes in memory.
pub struct Spliced {
    prefix: Vec<u8>,
    source: Arc<dyn ReadAt>,
    range: Range<u64>,
    suffix: Vec<u8>,
}

impl Spliced {
    /// Returns a source that consists of `prefix`, a range of `source`, and `suffix`.
    pub fn new(prefix: Vec<u8>, source: Arc<dyn ReadAt>, range: Range<u64>, suffix: Vec<u8>) -> Self {
        Self { prefix, source, range, suffix }
    }
}

impl ReadAt for Spliced {
    fn len(&self) -> u64 {
        (self.prefix.len() + self.suffix.len()) as u64 + (self.range.end - self.range.start)
    }

    fn name(&self) -> &[u8] {
        self.source.name()
    }

    fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<()> {
        let parts = [
            (self.prefix.len() as u64, Some(&self.prefix)),
            (self.range.end - self.range.start, None),
            (self.suffix.len() as u64, Some(&self.suffix)),
        ];
        for (len, bytes) in parts {
            let available = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
            let count = available.min(buffer.len());
            let (target, rest) = std::mem::take(&mut buffer).split_at_mut(count);
            buffer = rest;
            match bytes {
                _ if target.is_empty() => {}
                Some(bytes) => target.copy_from_slice(&bytes[bytes.len() - available..][..target.len()]),
                None => self.source.read_exact_at(self.range.start + offset, target)?,
            }
            offset = offset.saturating_sub(len);
        }
        if buffer.is_empty() { Ok(()) } else { Err(Error::io("read", self.name(), io::ErrorKind::UnexpectedEof.into())) }
    }
}

/// Reads a source from a position that can be changed.
pub struct SourceReader<S> {
    source: S,
    position: u64,
}

impl<S: ReadAt> SourceReader<S> {
    /// Returns a reader at this position of `source`.
    pub fn new(source: S, position: u64) -> Self {
        Self { source, position }
    }

    /// Returns the position.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl<S: ReadAt> Read for SourceReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let remaining = self.source.len().saturating_sub(self.position);
        let len = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
        if len > 0 {
            self.source.read_exact_at(self.position, &mut buffer[..len]).map_err(io::Error::other)?;
            self.position += len as u64;
        }
        Ok(len)
    }
}

impl<S: ReadAt> Seek for SourceReader<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.source.len().checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    #[test]
    fn spliced_source_reads_across_its_parts() {
        let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(*b"0123456789"));
        for (prefix, range, suffix) in
            [("ab", 3..7, "yz"), ("", 3..7, "yz"), ("ab", 3..3, "yz"), ("ab", 0..10, ""), ("", 0..0, "")]
        {
            let middle = &b"0123456789"[range.start..range.end];
            let whole = [prefix.as_bytes(), middle, suffix.as_bytes()].concat();
            let range = range.start as u64..range.end as u64;
            let spliced = Spliced::new(prefix.into(), Arc::clone(&source), range, suffix.into());
            assert_eq!(spliced.len(), whole.len() as u64);
            for start in 0..=whole.len() {
                for end in start..=whole.len() {
                    let mut found = vec![0; end - start];
                    spliced.read_exact_at(start as u64, &mut found).unwrap();
                    assert_eq!(found, whole[start..end]);
                }
                let mut too_many = vec![0; whole.len() - start + 1];
                assert!(spliced.read_exact_at(start as u64, &mut too_many).is_err());
            }
            let mut reader = SourceReader::new(spliced, 0);
            let mut found = Vec::new();
            reader.seek(SeekFrom::End(-(whole.len() as i64))).unwrap();
            reader.read_to_end(&mut found).unwrap();
            assert_eq!((found, reader.position()), (whole, reader.source.len()));
        }
    }
}
