//! Sets of byte ranges without overlaps.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::content::{BlockRef, Extent};

/// Ranges of the raw payloads of blocks, by block offset.
#[derive(Default)]
pub(crate) struct BlockRanges(BTreeMap<u64, (BlockRef, RangeSet)>);

impl BlockRanges {
    pub(crate) fn add(&mut self, extent: &Extent) {
        let (_, ranges) = self.0.entry(extent.block.offset).or_insert_with(|| (extent.block, RangeSet::default()));
        let start = u64::from(extent.offset);
        ranges.add(start, start.saturating_add(extent.len));
    }

    /// Returns the blocks and the number of bytes in the ranges of each.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&BlockRef, u64)> {
        self.0.values().map(|(block, ranges)| (block, ranges.bytes()))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A set of ranges: start to end. No two ranges touch.
#[derive(Debug, Default)]
pub struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds the bytes from `start` up to `end`, exclusive.
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

    /// Returns the ranges in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the total length of the ranges, bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|part| part.end - part.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Compares with a list that has one flag per byte.
        #[test]
        fn added_ranges_are_merged(added in proptest::collection::vec((0u64..60, 1u64..20), 0..40)) {
            let mut parts = RangeSet::default();
            let mut bytes = [false; 81];
            for (start, len) in added {
                parts.add(start, start + len);
                (start..start + len).for_each(|at| bytes[at as usize] = true);
            }
            let starts = (0..80).filter(|&at| bytes[at] && (at == 0 || !bytes[at - 1]));
            let expected: Vec<Range<u64>> =
                starts.map(|at| at as u64..(at..).find(|&end| !bytes[end]).unwrap() as u64).collect();
            proptest::prop_assert!(parts.ranges().eq(expected));
            proptest::prop_assert_eq!(parts.bytes(), bytes.iter().filter(|meant| **meant).count() as u64);
        }
    }
}
