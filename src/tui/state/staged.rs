//! Changes of the archive that are planned and not written yet.

use std::ops::Range;
use std::path::PathBuf;

use rangemap::RangeSet;

use crate::format::path::EntryPath;
use crate::text;

/// One planned change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Entries of these numbers are removed.
    Remove(Vec<Range<u64>>),
    /// An entry gets another path.
    Rename(EntryPath, EntryPath),
    /// A file or directory is added below a directory, `None` = at the top.
    Add(PathBuf, Option<EntryPath>),
    /// A directory is made.
    MakeDirectory(EntryPath),
}

/// Planned changes in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Staged {
    list: Vec<Stage>,
    removed: RangeSet<u64>,
}

impl Staged {
    /// Says whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the changes.
    pub fn list(&self) -> &[Stage] {
        &self.list
    }

    /// Plans one more.
    pub fn push(&mut self, stage: Stage) {
        if let Stage::Remove(ranges) = &stage {
            ranges.iter().filter(|range| !range.is_empty()).for_each(|range| self.removed.insert(range.clone()));
        }
        self.list.push(stage);
    }

    /// Takes the last one back; says whether there was one.
    pub fn undo(&mut self) -> bool {
        let undone = self.list.pop().is_some();
        let list = std::mem::take(self).list;
        list.into_iter().for_each(|stage| self.push(stage));
        undone
    }

    /// Says whether an entry is to be removed.
    pub fn removes(&self, number: u64) -> bool {
        self.removed.contains(&number)
    }

    /// Returns the new path of an entry that is to be renamed.
    pub fn renamed(&self, path: &EntryPath) -> Option<&EntryPath> {
        self.list.iter().rev().find_map(|stage| match stage {
            Stage::Rename(from, to) if from == path => Some(to),
            _ => None,
        })
    }

    /// Says what is planned.
    pub fn told(&self) -> String {
        let removed: u64 = self.removed.iter().map(|range| range.end - range.start).sum();
        let count = |of: fn(&Stage) -> bool| self.list.iter().filter(|stage| of(stage)).count() as u64;
        let parts = [
            (count(|stage| matches!(stage, Stage::Add(..))), "to add"),
            (count(|stage| matches!(stage, Stage::MakeDirectory(_))), "to make"),
            (removed, "to remove"),
            (count(|stage| matches!(stage, Stage::Rename(..))), "to rename"),
        ];
        let told: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", text::count(*count))).collect();
        told.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_can_be_taken_back() {
        let path = |text: &str| EntryPath::try_from(text).unwrap();
        let remove = |range: Range<u64>| Stage::Remove(std::iter::once(range).collect());
        let mut staged = Staged::default();
        staged.push(remove(3..7));
        staged.push(remove(5..9));
        staged.push(Stage::Rename(path("a"), path("b")));
        staged.push(Stage::Add(PathBuf::from("x"), None));
        assert_eq!(staged.told(), "1 to add, 6 to remove, 1 to rename");
        assert!(staged.undo());
        assert_eq!(staged.told(), "6 to remove, 1 to rename");
        assert!(staged.removes(8) && !staged.removes(9));
        assert_eq!(staged.renamed(&path("a")), Some(&path("b")));
        assert!(staged.undo() && staged.undo());
        assert!(staged.removes(6) && !staged.removes(8));
        assert!(staged.undo() && !staged.undo());
        assert!(staged.is_empty());
    }
}
