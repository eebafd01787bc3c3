//! Reverting: a new commit that restores an earlier one, wholly or in part.
//!
//! The blocks of earlier commits remain in the file until it is compacted, so only records and
//! pages are written.
//!
//! Spec: nra.md, sections 7 and 17.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use crate::changes::{Change, each_change};
use crate::writer::{Writer, no_base};
use nra_core::archive::Archive;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Monitor, Warning};

/// Why a file is not restored.
const OCCUPIED: &str = "not restored: a directory with unselected entries is in its place";
/// Why an entry below a missing directory is not restored.
const NO_PARENT: &str = "not restored: its parent is not a directory any more, and was not selected";

/// The result of a revert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reverted {
    /// Entries that were added, removed or changed.
    pub entries: u64,
    /// Selected entries that were skipped because an entry outside the selection is in the way.
    /// Each was reported as a warning.
    pub skipped: u64,
    /// Whether the attributes of the archive changed.
    pub attributes: bool,
}

/// Restores commit number `commit`, limited to the differences that `is_selected` accepts. If
/// `is_selected` is `None`, all differences and the attributes of the archive are restored. Before
/// a difference is undone, `visit` is called with the step from the current to the earlier version,
/// in path order.
///
/// Missing parent directories of restored entries are restored, too. No other entry changes, and a
/// directory stays as long as it contains an entry that stays.
///
/// # Errors
///
/// `Usage` if there is no such commit or the writer has no base; `Corrupt` if either commit is
/// damaged; `Cancelled`; errors of `visit`.
pub fn revert<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    commit: u64,
    is_selected: Option<&dyn Fn(&Change) -> bool>,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Change) -> Result<(), E>,
) -> Result<Reverted, E> {
    let earlier = writer.open_earlier_commit(commit)?;
    let base = writer.base().map(Arc::clone).ok_or_else(no_base)?;
    let (mut entries, mut skipped) = (0, 0);
    let mut steps = PendingSteps::default();
    let mut undo = |change: Change| -> Result<(), E> {
        monitor.check()?;
        visit(&change)?;
        monitor.add(Counter::Entries, 1);
        entries += 1;
        steps.add(change);
        Ok(())
    };
    match is_selected {
        // A full revert has no conflicts, so the changes need not be kept.
        None => each_change(&base, &earlier, &mut undo)?,
        Some(is_selected) => {
            let mut neighbours = Neighbours::default();
            let mut changes = Vec::new();
            each_change::<Error>(&base, &earlier, &mut |change| {
                monitor.check()?;
                let selected = is_selected(&change);
                neighbours.record(&change, selected);
                // A selected change may need a missing directory.
                if selected || matches!(&change, Change::Added(entry) if entry.kind == Kind::Directory) {
                    changes.push((change, selected));
                }
                Ok(())
            })?;
            for (change, selected) in changes {
                match neighbours.decide(&change, selected) {
                    Ok(true) => undo(change)?,
                    Ok(false) => {}
                    Err(why) => {
                        let path = change.entry().path.as_bytes().to_vec();
                        monitor.warn(Warning::degraded(path, why));
                        skipped += 1;
                    }
                }
            }
        }
    }
    for path in steps.removed {
        monitor.check()?;
        writer.remove(&path)?;
    }
    for entry in steps.restored {
        monitor.check()?;
        writer.restore_entry(entry)?;
    }
    let attributes = is_selected.is_none() && writer.attributes() != earlier.info().attributes;
    if attributes {
        writer.set_attributes(earlier.info().attributes.clone())?;
    }
    Ok(Reverted { entries, skipped, attributes })
}

/// The changes to write. Removals come first.
#[derive(Default)]
struct PendingSteps {
    /// Removing a directory removes everything below it.
    removed: Vec<EntryPath>,
    restored: Vec<Entry>,
}

impl PendingSteps {
    /// Adds a change. Changes come in path order.
    fn add(&mut self, change: Change) {
        match change {
            Change::Removed(entry) if self.removed.last().is_some_and(|last| entry.path.is_below(last)) => {}
            Change::Removed(entry) => self.removed.push(entry.path),
            Change::Added(entry) | Change::Changed(_, entry) => self.restored.push(entry),
        }
    }
}

/// Directories that affect whether a change can be undone.
#[derive(Default)]
struct Neighbours {
    /// Directories that contain an entry that stays.
    kept: HashSet<EntryPath>,
    /// Paths of missing directories where another entry stays.
    blocked: HashSet<EntryPath>,
    /// Directories below which an entry is restored.
    needed: HashSet<EntryPath>,
}

impl Neighbours {
    /// Records a change. Changes come in path order, so parents are recorded first.
    fn record(&mut self, change: &Change, selected: bool) {
        let set = match change {
            Change::Removed(_) if !selected => &mut self.kept,
            Change::Changed(now, then) if !selected && then.kind == Kind::Directory && now.kind != Kind::Directory => {
                self.blocked.insert(then.path.clone());
                return;
            }
            Change::Added(entry) if selected && self.is_blocked(entry) => return,
            Change::Added(_) if selected => &mut self.needed,
            _ => return,
        };
        for above in change.entry().path.above() {
            if !set.insert(above) {
                break;
            }
        }
    }

    fn is_blocked(&self, entry: &Entry) -> bool {
        !self.blocked.is_empty() && entry.path.above().any(|above| self.blocked.contains(&above))
    }

    /// Returns whether a change is undone, or why a selected change cannot be undone.
    fn decide(&self, change: &Change, selected: bool) -> Result<bool, &'static str> {
        match change {
            // A selected directory is removed with its content, as far as that is removed.
            Change::Removed(entry) => Ok(selected && !self.kept.contains(&entry.path)),
            Change::Added(entry) if selected && self.is_blocked(entry) => Err(NO_PARENT),
            Change::Added(entry) => Ok(selected || self.needed.contains(&entry.path)),
            Change::Changed(now, then) if selected && now.kind == Kind::Directory && self.kept.contains(&then.path) => {
                if then.kind == Kind::Directory { Ok(true) } else { Err(OCCUPIED) }
            }
            Change::Changed(..) => Ok(selected),
        }
    }
}

#[cfg(test)]
mod tests;
