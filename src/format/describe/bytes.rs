//! Bytes of a source: as many as there are, or one after the other.

use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes read at once.
const STEP: usize = 64 << 10;

/// Reads up to `len` bytes at `offset`: fewer where the source ends.
pub fn some(source: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u8>> {
    let there = usize::try_from(source.len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len.min(there)];
    source.read_exact_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// Reads `len` bytes at `offset`, no more than `limit`.
pub fn exactly(source: &dyn ReadAt, structure: &'static str, offset: u64, len: u64, limit: u64) -> Result<Vec<u8>> {
    if len > limit {
        return Err(Error::Limit { what: structure, found: len, limit });
    }
    if offset.checked_add(len).is_none_or(|end| end > source.len()) {
        return Err(Error::corrupt(structure, offset, format!("it has {len} bytes, more than the file")));
    }
    some(source, offset, usize::try_from(len).expect("no more than the limit"))
}

/// A place in a source from where numbers and bytes are read in order, up to a limit.
pub struct Cursor<'a> {
    source: &'a dyn ReadAt,
    structure: &'static str,
    /// Offset of the next byte.
    pub at: u64,
    /// No byte at or behind this offset is read.
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Cursor<'a> {
    /// Begins at `at`; at most `limit` bytes are gone through.
    pub fn new(source: &'a dyn ReadAt, structure: &'static str, at: u64, limit: u64) -> Self {
        let end = at.saturating_add(limit);
        Self { source, structure, at, end, window: Vec::new(), window_at: 0 }
    }

    /// Returns an error about this place.
    pub fn wrong(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(self.structure, self.at, detail)
    }

    /// Goes over bytes.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let to = self.at.checked_add(len).filter(|to| *to <= self.source.len());
        let to = to.ok_or_else(|| self.wrong("it goes on behind the end of the file"))?;
        if to > self.end {
            return Err(Error::Limit { what: self.structure, found: to, limit: self.end });
        }
        self.at = to;
        Ok(())
    }

    /// Reads bytes; the caller bounds `len`.
    pub fn take(&mut self, len: usize) -> Result<&[u8]> {
        let from = self.at;
        self.skip(len as u64)?;
        let inside = from >= self.window_at && self.at <= self.window_at + self.window.len() as u64;
        if !inside {
            self.window = some(self.source, from, STEP.max(len))?;
            self.window_at = from;
        }
        let start = usize::try_from(from - self.window_at).expect("within the window");
        Ok(&self.window[start..start + len])
    }

    /// Reads a number of so many bytes, the lowest first.
    pub fn number(&mut self, len: usize) -> Result<u64> {
        Ok(self.take(len)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads four bytes as a number.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.number(4)?).expect("four bytes"))
    }

    /// Reads eight bytes as a number.
    pub fn u64(&mut self) -> Result<u64> {
        self.number(8)
    }
}

/// Returns a number whose highest byte comes first.
pub fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns a number whose lowest byte comes first.
pub fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
