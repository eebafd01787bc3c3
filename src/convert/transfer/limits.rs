//! Where the growing of what is decoded ends.

use crate::format::error::{Error, Result};
use crate::format::stream::check_ratio;

/// Bounds of what an input may grow to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content, holes included. Default: those that a file can have.
    pub bytes: u64,
    /// Entries. Default: 100 million.
    pub entries: u64,
    /// Decoded bytes for each stored one; the first GiB is free. Default: 2,000, which deflate can't reach.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: crate::format::limits::MAX_OFFSET, entries: 100_000_000, ratio: 2_000 }
    }
}

/// Counts against the limits.
#[derive(Debug)]
pub(super) struct Ledger {
    limits: Limits,
    bytes: u64,
    entries: u64,
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, bytes: 0, entries: 0 }
    }

    /// Counts an entry.
    pub(super) fn entry(&mut self) -> Result<()> {
        self.entries += 1;
        within("number of entries", self.entries, self.limits.entries)
    }

    /// Counts bytes of content.
    pub(super) fn bytes(&mut self, len: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(len);
        within("length of the content", self.bytes, self.limits.bytes)
    }

    /// Compares what was decoded with what it came from.
    pub(super) fn ratio(&self, decoded: u64, stored: u64) -> Result<()> {
        check_ratio(decoded, stored, self.limits.ratio)
    }
}

fn within(what: &'static str, found: u64, limit: u64) -> Result<()> {
    if found > limit { Err(Error::Limit { what, found, limit }) } else { Ok(()) }
}
