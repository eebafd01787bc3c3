//! Limits for the decoded size of an input.

use std::sync::atomic::{AtomicU64, Ordering};

use nra_format::error::{Error, Resource, Result};
use nra_format::stream::check_ratio;

/// Limits for the decoded size of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content, holes included. Default: the maximum size of a file.
    pub bytes: u64,
    /// Entries. Default: 100 million.
    pub entries: u64,
    /// Decoded bytes per stored byte, holes included. The first GiB is not counted. Default: 2,000,
    /// which deflate cannot reach.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: nra_format::limits::MAX_OFFSET, entries: 100_000_000, ratio: 2_000 }
    }
}

impl Limits {
    /// No limits.
    pub(crate) const NONE: Self = Self { bytes: u64::MAX, entries: u64::MAX, ratio: u64::MAX };
}

/// Counts against the limits. Threads share it.
#[derive(Debug)]
pub(crate) struct LimitCounter {
    limits: Limits,
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl LimitCounter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: AtomicU64::new(0), entries: AtomicU64::new(0) }
    }

    /// Counts an entry.
    pub(crate) fn entry(&self) -> Result<()> {
        within(Resource::Entries, add(&self.entries, 1), self.limits.entries)
    }

    /// Counts bytes of content that is copied as stored.
    pub(crate) fn bytes(&self, len: u64) -> Result<()> {
        within(Resource::Content, add(&self.bytes, len), self.limits.bytes)
    }

    /// Counts bytes of content as they are read, holes included, and compares the total with the
    /// stored bytes.
    pub(crate) fn content(&self, len: u64, stored: u64) -> Result<()> {
        self.bytes(len)?;
        self.ratio(self.bytes.load(Ordering::Relaxed), stored)
    }

    /// Compares decoded with stored bytes.
    pub(crate) fn ratio(&self, decoded: u64, stored: u64) -> Result<()> {
        check_ratio(decoded, stored, self.limits.ratio)
    }

    /// Calls `work` and forgets the content that it counted, because it is read again. No other
    /// thread may count meanwhile.
    pub(crate) fn on_trial<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.bytes.load(Ordering::Relaxed);
        let result = work();
        self.bytes.store(before, Ordering::Relaxed);
        result
    }
}

fn add(count: &AtomicU64, more: u64) -> u64 {
    let added = |found: u64| Some(found.saturating_add(more));
    let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    before.unwrap_or_else(|found| found).saturating_add(more)
}

fn within(resource: Resource, found: u64, limit: u64) -> Result<()> {
    if found > limit { Err(Error::ResourceLimit { resource, found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_limited_while_it_is_read() {
        let limit_counter = LimitCounter::new(Limits { bytes: 1 << 40, entries: 1, ratio: 100 });
        limit_counter.entry().unwrap();
        assert!(matches!(limit_counter.entry(), Err(Error::ResourceLimit { resource: Resource::Entries, .. })));
        limit_counter.on_trial(|| limit_counter.content(1 << 30, 1)).unwrap();
        limit_counter.content(1 << 30, 1).unwrap();
        limit_counter.content(1, 1 << 24).unwrap();
        assert!(matches!(limit_counter.content(1, 1 << 20), Err(Error::ResourceLimit { resource: Resource::Ratio, .. })));
        // Content that is copied as stored has no ratio.
        limit_counter.bytes(1 << 35).unwrap();
        assert!(matches!(limit_counter.bytes(u64::MAX), Err(Error::ResourceLimit { resource: Resource::Content, .. })));
        assert!(limit_counter.bytes(1).is_err());
    }
}
