//! A row of the list, with details that are loaded later.

use crate::rows::Row;
use nra_format::entry::Kind;

/// Details of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowDetails {
    /// Size of the content below a directory, bytes.
    pub content_bytes: Option<u64>,
    /// Stored size of a file, bytes.
    pub stored_bytes: Option<u64>,
    /// Entry numbers of a directory and everything below it: first, and one past the last.
    pub numbers: Option<(u64, u64)>,
}

/// A row with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub row: Row,
    pub facts: Option<RowDetails>,
    pub requested: bool,
}

impl Line {
    /// Returns the size of a file, or of everything below a directory once it is known.
    pub fn size(&self) -> Option<u64> {
        match self.row.entry.kind {
            Kind::File => Some(self.row.entry.size),
            Kind::Directory => self.facts?.content_bytes,
            _ => None,
        }
    }
}
