//! Pending changes of the archive.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::glyphs;
use crate::state::marks::combined;
use nra_format::path::EntryPath;

/// The reason a change is not possible.
pub type Refusal = String;

/// A pending change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingChange {
    /// Remove entries: disjoint ranges of numbers, ascending, and what they are, for people.
    Remove(Arc<Vec<Range<u64>>>, String),
    /// Rename or move an entry.
    Rename(EntryPath, EntryPath),
    /// Add a file or directory to a directory, `None` = the top directory; true if the name exists:
    /// a file is replaced, a directory merged.
    Add(PathBuf, Option<EntryPath>, bool),
    MakeDirectory(EntryPath),
}

impl PendingChange {
    /// Describes the change for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Remove(ranges, what) => {
                format!("remove {what}: {}", nra_text::counted(count(ranges), "entry", "entries"))
            }
            Self::Rename(from, to) => {
                format!("rename {} to {}", glyphs::printable(from.as_bytes()), glyphs::printable(to.as_bytes()))
            }
            Self::Add(path, directory, meets) => {
                let meets = if *meets { " over the existing one" } else { "" };
                let to = directory.as_ref().map_or_else(String::new, |to| format!(" to {}", glyphs::printable(to.as_bytes())));
                format!("add {}{to}{meets}", glyphs::printable(path.as_os_str().as_bytes()))
            }
            Self::MakeDirectory(path) => format!("make {}", glyphs::printable(path.as_bytes())),
        }
    }

    /// Returns the path it adds to the archive, and whether that is known to be a directory.
    pub fn new_path(&self) -> Option<(EntryPath, bool)> {
        match self {
            Self::Remove(..) => None,
            Self::Rename(_, to) => Some((to.clone(), false)),
            Self::MakeDirectory(path) => Some((path.clone(), true)),
            Self::Add(path, directory, _) => {
                let name = path.file_name()?.as_bytes();
                let path = match directory {
                    Some(directory) => directory.join(name).ok()?,
                    None => EntryPath::new(name).ok()?,
                };
                Some((path, false))
            }
        }
    }
}

/// Renames that happen at once. Both paths of a rename are those of the commit shown.
#[derive(Debug, Clone, Default)]
pub struct Renames(BTreeMap<EntryPath, EntryPath>);

impl Renames {
    /// Returns the renames among changes.
    pub fn of(changes: &[PendingChange]) -> Self {
        let renames = changes.iter().filter_map(|change| match change {
            PendingChange::Rename(from, to) => Some((from.clone(), to.clone())),
            _ => None,
        });
        Self(renames.collect())
    }

    /// Returns whether the entry at a path is renamed itself.
    pub fn has(&self, path: &EntryPath) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the new path of an entry of the commit shown. Fails if directories would contain
    /// each other, or the path gets too long.
    pub fn then(&self, path: &EntryPath) -> Result<EntryPath, Refusal> {
        let (mut at, mut suffix) = (path.clone(), Vec::new());
        // Each rename applies once: more steps are a cycle.
        for _ in 0..=self.0.len() {
            let renamed = std::iter::successors(Some(at.clone()), EntryPath::parent)
                .find_map(|above| self.0.get(&above).map(|to| (above, to)));
            let Some((from, to)) = renamed else { return joined(at.as_bytes(), &suffix) };
            suffix = [to.name(), &at.as_bytes()[from.as_bytes().len()..], &suffix].concat();
            let Some(parent) = to.parent() else { return joined(&suffix, b"") };
            suffix.insert(0, b'/');
            at = parent;
        }
        Err("an entry cannot be moved into itself".to_owned())
    }
}

/// Returns a path with a suffix.
pub fn joined(path: &[u8], suffix: &[u8]) -> Result<EntryPath, Refusal> {
    EntryPath::new([path, suffix].concat()).map_err(|error| error.to_string())
}

/// Pending changes in order. Copies share the entry numbers, of which there may be many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingChanges {
    list: Vec<PendingChange>,
    /// All numbers to remove: disjoint ranges, ascending, and their count.
    removed: Arc<Vec<Range<u64>>>,
    removed_count: u64,
}

impl PendingChanges {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn list(&self) -> &[PendingChange] {
        &self.list
    }

    /// Adds a change. A rename replaces an earlier one of the same entry.
    pub fn push(&mut self, change: PendingChange) {
        if let PendingChange::Rename(from, _) = &change {
            self.remove_rename(from);
        }
        if let PendingChange::Remove(ranges, _) = &change {
            self.removed = if self.removed.is_empty() {
                Arc::clone(ranges)
            } else {
                Arc::new(combined(&self.removed, ranges, |a, b| a || b))
            };
            self.removed_count = count(&self.removed);
        }
        self.list.push(change);
    }

    pub fn remove(&mut self, index: usize) -> Option<PendingChange> {
        let mut list = std::mem::take(self).list;
        let change = (index < list.len()).then(|| list.remove(index));
        list.into_iter().for_each(|change| self.push(change));
        change
    }

    pub fn remove_rename(&mut self, path: &EntryPath) {
        self.list.retain(|change| !matches!(change, PendingChange::Rename(from, _) if from == path));
    }

    /// Returns the changes that do not depend on entry numbers, so that they fit a later commit.
    pub fn by_name(&self) -> Self {
        let list = self.list.iter().filter(|change| !matches!(change, PendingChange::Remove(..)));
        Self { list: list.cloned().collect(), ..Self::default() }
    }

    /// Returns whether an entry is to be removed.
    pub fn removes(&self, number: u64) -> bool {
        let next = self.removed.partition_point(|range| range.start <= number);
        next > 0 && number < self.removed[next - 1].end
    }

    /// Returns the new path of an entry that is to be renamed.
    pub fn renamed(&self, path: &EntryPath) -> Option<&EntryPath> {
        self.list.iter().rev().find_map(|change| match change {
            PendingChange::Rename(from, to) if from == path => Some(to),
            _ => None,
        })
    }

    /// Summarizes the changes for people.
    pub fn summary(&self) -> String {
        let count = |of: fn(&PendingChange) -> bool| self.list.iter().filter(|change| of(change)).count() as u64;
        let parts = [
            (count(|change| matches!(change, PendingChange::Add(..))), "to add"),
            (count(|change| matches!(change, PendingChange::MakeDirectory(_))), "to make"),
            (self.removed_count, "to remove"),
            (count(|change| matches!(change, PendingChange::Rename(..))), "to rename"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", nra_text::count(*count)))
            .collect();
        parts.join(", ")
    }
}

/// Returns how many numbers there are in ranges.
pub fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_changes_can_be_undone() {
        let path = |text: &str| EntryPath::try_from(text).unwrap();
        let remove = |range: Range<u64>| PendingChange::Remove(Arc::new(vec![range]), "x".to_owned());
        let mut pending = PendingChanges::default();
        pending.push(remove(3..7));
        pending.push(remove(5..9));
        pending.push(PendingChange::Rename(path("a"), path("b")));
        pending.push(PendingChange::Add(PathBuf::from("x"), None, false));
        assert_eq!(pending.summary(), "1 to add, 6 to remove, 1 to rename");
        let brought: Vec<_> = pending.list().iter().filter_map(PendingChange::new_path).map(|(path, _)| path).collect();
        assert_eq!(brought, [path("b"), path("x")]);
        assert_eq!(pending.remove(3).unwrap().describe(), "add x");
        assert_eq!(pending.summary(), "6 to remove, 1 to rename");
        assert!(pending.removes(8) && !pending.removes(9));
        assert_eq!(pending.renamed(&path("a")), Some(&path("b")));
        // A change in the middle.
        assert_eq!(pending.remove(1).unwrap().describe(), "remove x: 4 entries");
        assert_eq!(pending.remove(2), None);
        assert_eq!(pending.remove(1).unwrap().describe(), "rename a to b");
        assert!(pending.removes(6) && !pending.removes(8));
        assert!(pending.remove(0).is_some() && pending.remove(0).is_none());
        assert!(pending.is_empty());
        // The last name counts.
        pending.push(PendingChange::Rename(path("a"), path("b")));
        pending.push(remove(1..2));
        pending.push(PendingChange::Rename(path("a"), path("c")));
        assert_eq!((pending.renamed(&path("a")), pending.list().len()), (Some(&path("c")), 2));
        assert_eq!(pending.by_name().summary(), "1 to rename");
        pending.remove_rename(&path("a"));
        assert_eq!(pending.summary(), "1 to remove");
    }

    #[test]
    fn ranges_are_joined() {
        let ranges = |ends: &[(u64, u64)]| ends.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let (one, other) = (ranges(&[(0, 2), (5, 6), (8, 12)]), ranges(&[(2, 3), (4, 5), (9, 10), (20, 21)]));
        let all = ranges(&[(0, 3), (4, 6), (8, 12), (20, 21)]);
        let union = |one: &[Range<u64>], other: &[Range<u64>]| combined(one, other, |a, b| a || b);
        assert_eq!((union(&one, &other), union(&other, &one), count(&all)), (all.clone(), all, 10));
        assert_eq!(union(&[], &one), one);
    }
}
