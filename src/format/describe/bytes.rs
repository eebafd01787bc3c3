//! Reads bytes and numbers of a source.

use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes read at once.
const READ_LEN: usize = 64 << 10;

/// Reads up to `len` bytes at `offset`, fewer at the end of the source.
pub fn up_to(source: &dyn ReadAt, offset: u64, len: usize) -> Result<Vec<u8>> {
    let available = usize::try_from(source.len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len.min(available)];
    source.read_exact_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// Reads `len` bytes at `offset`. `len` may not exceed `limit`.
pub fn exactly(source: &dyn ReadAt, structure: &'static str, offset: u64, len: u64, limit: u64) -> Result<Vec<u8>> {
    if len > limit {
        return Err(Error::Limit { what: structure, found: len, limit });
    }
    if offset.checked_add(len).is_none_or(|end| end > source.len()) {
        return Err(Error::corrupt(structure, offset, format!("its {len} bytes exceed the file")));
    }
    up_to(source, offset, usize::try_from(len).expect("no more than the limit"))
}

/// Reads consecutive bytes and numbers of a source, up to a limit.
pub struct Cursor<'a> {
    source: &'a dyn ReadAt,
    structure: &'static str,
    /// Offset of the next byte.
    pub at: u64,
    /// Offset of the limit.
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Cursor<'a> {
    /// Starts at offset `at` and reads at most `limit` bytes.
    pub fn new(source: &'a dyn ReadAt, structure: &'static str, at: u64, limit: u64) -> Self {
        let end = at.saturating_add(limit);
        Self { source, structure, at, end, window: Vec::new(), window_at: 0 }
    }

    /// Returns an error about the current offset.
    pub fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(self.structure, self.at, detail)
    }

    /// Skips bytes.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let to = self.at.checked_add(len).filter(|to| *to <= self.source.len());
        let to = to.ok_or_else(|| self.corrupt("it exceeds the file"))?;
        if to > self.end {
            return Err(Error::Limit { what: self.structure, found: to, limit: self.end });
        }
        self.at = to;
        Ok(())
    }

    /// Reads bytes. The caller limits `len`.
    pub fn take(&mut self, len: usize) -> Result<&[u8]> {
        let from = self.at;
        self.skip(len as u64)?;
        let is_buffered = from >= self.window_at && self.at <= self.window_at + self.window.len() as u64;
        if !is_buffered {
            self.window = up_to(self.source, from, READ_LEN.max(len))?;
            self.window_at = from;
        }
        let start = usize::try_from(from - self.window_at).expect("within the window");
        Ok(&self.window[start..start + len])
    }

    /// Reads a little-endian number of `len` bytes.
    pub fn number(&mut self, len: usize) -> Result<u64> {
        Ok(little(self.take(len)?))
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.number(4)?).expect("four bytes"))
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Result<u64> {
        self.number(8)
    }
}

/// Returns a big-endian number.
pub fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns a little-endian number.
pub fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
/// Returns a big-endian number of `len` bytes at `at`, or 0 if the bytes end before.
pub fn big_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at.saturating_add(len)).map_or(0, big)
}

/// Returns a little-endian number of `len` bytes at `at`, or 0 if the bytes end before.
pub fn little_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at.saturating_add(len)).map_or(0, little)
}

/// An element of a nested format.
pub struct Element {
    /// Its type.
    pub kind: u64,
    /// Offset of its content.
    pub body: u64,
    /// Offset of its end.
    pub end: u64,
}

impl Element {
    /// Reads up to `len` bytes of the content.
    pub fn read(&self, source: &dyn ReadAt, len: usize) -> Result<Vec<u8>> {
        up_to(source, self.body, usize::try_from(self.end.saturating_sub(self.body)).unwrap_or(usize::MAX).min(len))
    }
}

/// How a walk continues after an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// With the elements in its content.
    Enter,
    /// With the next element.
    Next,
    /// Not at all.
    Stop,
}

/// Passes up to 2,000 nested elements to `visit`, entering at most `max_depth` levels. `parse`
/// parses an element from its first 16 bytes, its offset and the end of its parent.
pub fn walk(
    source: &dyn ReadAt,
    max_depth: usize,
    parse: impl Fn(&[u8], u64, u64) -> Option<Element>,
    mut visit: impl FnMut(&Element) -> Result<Walk>,
) -> Result<()> {
    // The ends of the entered elements, the outermost first.
    let (mut at, mut ends) = (0u64, vec![source.len()]);
    for _ in 0..2_000 {
        while ends.len() > 1 && ends.last().is_some_and(|end| at >= *end) {
            ends.pop();
        }
        let parent_end = ends.last().copied().unwrap_or(0);
        let Some(element) = parse(&up_to(source, at, 16)?, at, parent_end) else {
            if ends.len() < 2 {
                break;
            }
            at = parent_end;
            continue;
        };
        // An element ends with its parent, whatever its header says.
        let element = Element { end: element.end.min(parent_end), ..element };
        match visit(&element)? {
            Walk::Enter if ends.len() <= max_depth => {
                ends.push(element.end);
                at = element.body;
            }
            Walk::Stop => break,
            _ if element.end <= at => break,
            _ => at = element.end,
        }
    }
    Ok(())
}
