//! Marked entries: ranges of numbers. A marked directory brings everything below it.

use std::ops::Range;
use std::sync::Arc;

use nra_format::path::EntryPath;

/// The marked share of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    No,
    /// Something below it.
    Partly,
    Yes,
}

/// The entries a job works on. Marks and cursor may change before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedEntries {
    pub ranges: Arc<Vec<Range<u64>>>,
    /// Their description for messages.
    pub label: String,
    /// They are marked entries, not the one under the cursor.
    pub marked: bool,
    /// Size of their content once it is known, bytes.
    pub content_bytes: Option<u64>,
    /// Path components of the directory shown, if all of them are below it.
    pub above: usize,
}

/// The entries a glob is matched against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Among {
    /// Below this directory, `None` = the top.
    pub directory: Option<EntryPath>,
    /// Only these entry numbers, if the list is filtered.
    pub rows: Option<Arc<Vec<u64>>>,
}

/// A change of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Add,
    Remove,
    Invert,
}

/// The marks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Ascending, with gaps between them.
    ranges: Arc<Vec<Range<u64>>>,
    count: u64,
    /// Sum of the sizes of the marked files once it is known, bytes.
    pub content_bytes: Option<u64>,
    /// Place of the row where a range was started.
    pub anchor: Option<u64>,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns how many entries are marked.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the marked numbers, ascending.
    pub fn ranges(&self) -> &Arc<Vec<Range<u64>>> {
        &self.ranges
    }

    pub fn of(&self, numbers: &Range<u64>) -> Marked {
        let first = self.ranges.partition_point(|range| range.end <= numbers.start);
        match self.ranges.get(first).filter(|range| range.start < numbers.end && !numbers.is_empty()) {
            None => Marked::No,
            Some(range) if range.start <= numbers.start && range.end >= numbers.end => Marked::Yes,
            Some(_) => Marked::Partly,
        }
    }

    /// Changes the marks of some numbers, in time proportional to the number of ranges.
    pub fn change(&mut self, numbers: Vec<Range<u64>>, change: Change) {
        let numbers = tidy(numbers);
        let keep = |marked: bool, named: bool| match change {
            Change::Add => marked || named,
            Change::Remove => marked && !named,
            Change::Invert => marked != named,
        };
        self.ranges = if self.ranges.is_empty() && change != Change::Remove {
            Arc::new(numbers)
        } else {
            Arc::new(combined(&self.ranges, &numbers, keep))
        };
        self.count = self.ranges.iter().map(|range| range.end - range.start).sum();
        self.content_bytes = None;
    }

    pub fn clear(&mut self) {
        *self = Self { anchor: self.anchor, ..Self::default() };
    }
}

/// Sorts ranges and joins those that touch.
pub fn tidy(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let apart = |pair: &[Range<u64>]| pair[0].end < pair[1].start;
    if ranges.windows(2).all(apart) && !ranges.iter().any(Range::is_empty) {
        return ranges;
    }
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touch = next.start <= last.end;
        if touch {
            last.end = last.end.max(next.end);
        }
        touch
    });
    ranges
}

/// Merges two sorted lists of ranges: keeps the numbers that `keep` accepts, given whether each
/// list has them.
pub fn combined(first: &[Range<u64>], second: &[Range<u64>], keep: impl Fn(bool, bool) -> bool) -> Vec<Range<u64>> {
    let mut kept: Vec<Range<u64>> = Vec::with_capacity(first.len() + second.len());
    let bounds = |ranges: &[Range<u64>], bound: usize| {
        let range = ranges.get(bound / 2)?;
        Some(if bound.is_multiple_of(2) { range.start } else { range.end })
    };
    let (mut a, mut b, mut open) = (0, 0, None);
    loop {
        let at = match (bounds(first, a), bounds(second, b)) {
            (None, None) => return kept,
            (Some(at), None) | (None, Some(at)) => at,
            (Some(one), Some(other)) => one.min(other),
        };
        a += usize::from(bounds(first, a) == Some(at));
        b += usize::from(bounds(second, b) == Some(at));
        // After the start of a range, it is open until its end.
        match (open, keep(a % 2 == 1, b % 2 == 1)) {
            (None, true) => open = Some(at),
            (Some(start), false) => {
                kept.push(start..at);
                open = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_can_be_marked_partly() {
        let mut marks = Marks::default();
        marks.change(vec![3..4, 10..20], Change::Add);
        assert_eq!(marks.of(&(10..20)), Marked::Yes);
        assert_eq!(marks.of(&(9..20)), Marked::Partly);
        assert_eq!(marks.of(&(4..10)), Marked::No);
        assert_eq!(marks.count(), 11);
        marks.clear();
        assert!(marks.is_empty());
        // A directory and its contents are inverted once.
        marks.change(vec![2..5, 3..4], Change::Invert);
        assert_eq!((marks.ranges().first(), marks.count()), (Some(&(2..5)), 3));
        marks.change(vec![2..5, 3..4, 7..8], Change::Invert);
        assert_eq!((marks.ranges().first(), marks.count()), (Some(&(7..8)), 1));
    }

    proptest! {
        #[test]
        fn marks_are_a_set(steps in proptest::collection::vec((0u64..40, 0u64..10, 0usize..3), 0..20)) {
            let (mut marks, mut model) = (Marks::default(), BTreeSet::new());
            for (start, len, change) in steps {
                let change = [Change::Add, Change::Remove, Change::Invert][change];
                marks.change(vec![start + len..start + 2 * len, start..start + len], change);
                for number in start..start + 2 * len {
                    let had = model.remove(&number);
                    if change == Change::Add || (change == Change::Invert && !had) {
                        model.insert(number);
                    }
                }
                let flat: BTreeSet<u64> = marks.ranges().iter().cloned().flatten().collect();
                prop_assert!(marks.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
                let some = start..start + len;
                let inside = some.clone().filter(|number| model.contains(number)).count() as u64;
                let expected = if inside == 0 { Marked::No } else if inside == len { Marked::Yes } else { Marked::Partly };
                prop_assert_eq!(marks.of(&some), expected);
                prop_assert_eq!(&flat, &model);
                prop_assert_eq!(marks.count(), model.len() as u64);
            }
        }
    }
}
