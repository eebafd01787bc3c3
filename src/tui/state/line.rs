//! A row of the list with what is known of it.

use crate::rows::Row;
use nra_format::entry::Kind;

/// What a row shows beside its entry; found out after the row is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// Size of the content below a directory, bytes.
    pub content_bytes: Option<u64>,
    /// Bytes that hold the content of a file.
    pub stored_bytes: Option<u64>,
    /// Numbers of a directory and all below it: the first, and the one behind the last.
    pub numbers: Option<(u64, u64)>,
}

/// A row with what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The row.
    pub row: Row,
    /// What is known beyond.
    pub facts: Option<Facts>,
    /// That is asked for.
    pub asked: bool,
}

impl Line {
    /// Returns the size to show: of a file, or of all below a directory once it is known.
    pub fn size(&self) -> Option<u64> {
        match self.row.entry.kind {
            Kind::File => Some(self.row.entry.size),
            Kind::Directory => self.facts?.content_bytes,
            _ => None,
        }
    }
}
