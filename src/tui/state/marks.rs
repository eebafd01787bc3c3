//! Marked entries: ranges of numbers. A marked directory brings everything below it.

use std::ops::Range;

use rangemap::RangeSet;

/// How much of a row is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// Nothing.
    No,
    /// Something below it.
    Partly,
    /// All of it.
    Yes,
}

/// How marks change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They are added.
    Add,
    /// They are taken away.
    Remove,
    /// Marked ones are taken away, others added.
    Invert,
}

/// The marks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    ranges: RangeSet<u64>,
    count: u64,
    /// Raised with every change, so that sums that come late are told.
    pub generation: u64,
    /// Sum of the sizes of the marked files once it is known, bytes.
    pub content_bytes: Option<u64>,
}

impl Marks {
    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns how many entries are marked.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the marked numbers.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.iter().cloned().collect()
    }

    /// Says how much of some numbers is marked.
    pub fn of(&self, numbers: &Range<u64>) -> Marked {
        if numbers.is_empty() || !self.ranges.overlaps(numbers) {
            Marked::No
        } else if self.ranges.gaps(numbers).next().is_none() {
            Marked::Yes
        } else {
            Marked::Partly
        }
    }

    /// Changes the marks of some numbers.
    pub fn change(&mut self, numbers: impl IntoIterator<Item = Range<u64>>, change: Change) {
        // What is named twice changes once.
        let numbers: RangeSet<u64> = numbers.into_iter().filter(|range| !range.is_empty()).collect();
        if self.ranges.is_empty() && change != Change::Remove {
            self.ranges = numbers;
        } else {
            self.change_some(numbers, change);
        }
        self.count = self.ranges.iter().map(|range| range.end - range.start).sum();
        self.generation += 1;
        self.content_bytes = None;
    }

    fn change_some(&mut self, numbers: RangeSet<u64>, change: Change) {
        for range in numbers {
            match change {
                Change::Add => self.ranges.insert(range),
                Change::Remove => self.ranges.remove(range),
                Change::Invert => {
                    let unmarked: Vec<_> = self.ranges.gaps(&range).collect();
                    self.ranges.remove(range);
                    unmarked.into_iter().for_each(|gap| self.ranges.insert(gap));
                }
            }
        }
    }

    /// Takes all marks away.
    pub fn clear(&mut self) {
        *self = Self { generation: self.generation + 1, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_marked_partly() {
        let mut marks = Marks::default();
        marks.change([3..4, 10..20], Change::Add);
        assert_eq!(marks.of(&(10..20)), Marked::Yes);
        assert_eq!(marks.of(&(9..20)), Marked::Partly);
        assert_eq!(marks.of(&(4..10)), Marked::No);
        assert_eq!(marks.count(), 11);
        marks.clear();
        assert!(marks.is_empty());
        // A directory and what is in it: turned once.
        marks.change([2..5, 3..4], Change::Invert);
        assert_eq!((marks.ranges().first(), marks.count()), (Some(&(2..5)), 3));
        marks.change([2..5, 3..4, 7..8], Change::Invert);
        assert_eq!((marks.ranges().first(), marks.count()), (Some(&(7..8)), 1));
    }

    proptest! {
        #[test]
        fn marks_are_a_set(steps in proptest::collection::vec((0u64..40, 0u64..10, 0usize..3), 0..20)) {
            let (mut marks, mut model) = (Marks::default(), BTreeSet::new());
            for (start, len, change) in steps {
                let change = [Change::Add, Change::Remove, Change::Invert][change];
                marks.change(std::iter::once(start..start + len), change);
                for number in start..start + len {
                    let had = model.remove(&number);
                    if change == Change::Add || (change == Change::Invert && !had) {
                        model.insert(number);
                    }
                }
                let flat: BTreeSet<u64> = marks.ranges().into_iter().flatten().collect();
                prop_assert_eq!(&flat, &model);
                prop_assert_eq!(marks.count(), model.len() as u64);
            }
        }
    }
}
