//! Which parts of something are meant, each byte once.

use std::collections::BTreeMap;

/// Parts: where each begins and ends, none next to another.
#[derive(Debug, Default)]
pub struct Parts(BTreeMap<u64, u64>);

impl Parts {
    /// Adds the bytes from `start` to in front of `end`.
    pub fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&first, &last)) = self.0.range(..=end).next_back().filter(|(_, last)| **last >= start) {
            if first <= start && last >= end {
                return;
            }
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    /// Returns how many bytes they have together.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}
