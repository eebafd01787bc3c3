//! A window of content, and how it is cut into whole rows.

use std::ops::Range;

use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::Result;

/// A part of content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub size: u64,
}

impl Window {
    /// Reads up to `len` bytes from an offset, rounded down to a multiple of `unit`.
    pub fn read(archive: &dyn Archive, entry: &Entry, offset: u64, unit: u64, len: u64) -> Result<Self> {
        let offset = offset.min(entry.size) / unit * unit;
        let mut bytes = vec![0; usize::try_from(len.min(entry.size - offset)).expect("no more than a window")];
        let read = archive.read_at(entry, offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(Self { offset, bytes, size: entry.size })
    }

    /// Returns whether the window ends at the end of the content.
    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() as u64 >= self.size
    }

    /// Returns the part that consists of whole rows, given the offsets after row breaks. The first
    /// row is skipped if it may have started before the window, unless the window `begins` with a
    /// row. The last row is skipped if it may continue. A row that is longer than the window is
    /// kept.
    pub fn whole(&self, begins: bool, breaks: &[usize]) -> Range<usize> {
        let first = if begins || self.offset == 0 { 0 } else { breaks.first().copied().unwrap_or(0) };
        let last = breaks.last().copied().filter(|last| !self.is_last() && *last > first);
        first..last.unwrap_or(self.bytes.len())
    }
}

/// Returns the offsets after line feeds.
pub fn line_feeds(bytes: &[u8]) -> Vec<usize> {
    let feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    feeds.map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn incomplete_rows_are_skipped() {
        let archive = sample::with_contents(&[("a", b"one\ntwo\nthree\nfour")]);
        let entry = archive.entry(0).unwrap();
        let rows = |offset, len, begins| {
            let window = Window::read(&*archive, &entry, offset, 1, len).unwrap();
            let whole = window.whole(begins, &line_feeds(&window.bytes));
            String::from_utf8(window.bytes[whole].to_vec()).unwrap()
        };
        assert_eq!(rows(0, 100, false), "one\ntwo\nthree\nfour");
        assert_eq!(rows(0, 10, false), "one\ntwo\n");
        assert_eq!(rows(1, 10, false), "two\n");
        assert_eq!(rows(4, 100, false), "three\nfour");
        assert_eq!(rows(4, 100, true), "two\nthree\nfour");
        // A row that is longer than the window is better than nothing.
        assert_eq!(rows(9, 3, false), "hre");
        assert_eq!(rows(99, 3, false), "");
        assert_eq!(Window::read(&*archive, &entry, 7, 4, 3).unwrap().offset, 4);
    }
}
