//! An earlier commit made the present state again, whole or in part, by one more commit.
//!
//! Blocks stay in the file as long as it is not compacted, so that nothing but records and pages is written.
//!
//! Spec: nra.md, sections 7 and 17.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::nra::changes::{Change, each_change};
use crate::format::nra::writer::{Writer, no_base};
use crate::format::path::EntryPath;
use crate::format::progress::{Counter, Monitor};

/// What a return to an earlier commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reverted {
    /// Entries that came, went or changed.
    pub entries: u64,
    /// The attributes of the archive changed.
    pub attributes: bool,
}

/// Makes what `is_meant` says of the differences to commit number `commit` as it was then: all of them, and the attributes of the archive, if it is `None`. Each difference
/// that is undone is handed to `visit` first, as the step from the present state to the earlier one, in path order.
///
/// With an entry come the directories above it that are not there any more; a directory does not go as long as something in it stays.
///
/// # Errors
///
/// `Usage` when there is no such commit, or no archive that is changed; `Corrupt` when one of the two does not read; errors of `visit`; `Cancelled`.
pub fn revert<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    commit: u64,
    is_meant: Option<&dyn Fn(&Change) -> bool>,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Change) -> Result<(), E>,
) -> Result<Reverted, E> {
    let earlier = writer.earlier(commit)?;
    let base = writer.base().map(Arc::clone).ok_or_else(no_base)?;
    let mut changes = Vec::new();
    each_change::<Error>(&base, &earlier, &mut |change| {
        let meant = is_meant.is_none_or(|is_meant| is_meant(&change));
        changes.push((change, meant));
        monitor.check()
    })?;
    let around = Around::of(&changes);
    changes.retain(|(change, meant)| around.is_undone(change, *meant));
    let mut reverted = Reverted::default();
    let mut back = Vec::new();
    // With a directory goes what is below it: one cut for all. What goes makes room for what comes.
    let mut last: Option<EntryPath> = None;
    for (change, _) in changes {
        monitor.check()?;
        visit(&change)?;
        monitor.add(Counter::Entries, 1);
        reverted.entries += 1;
        match change {
            Change::Removed(entry) if last.as_ref().is_some_and(|last| entry.path.is_below(last)) => {}
            Change::Removed(entry) => {
                writer.remove(&entry.path)?;
                last = Some(entry.path);
            }
            Change::Added(entry) | Change::Changed(_, entry) => back.push(entry),
        }
    }
    for entry in back {
        monitor.check()?;
        writer.put_back(entry)?;
    }
    if is_meant.is_none() && writer.attributes() != earlier.info().attributes {
        writer.set_attributes(earlier.info().attributes.clone())?;
        reverted.attributes = true;
    }
    Ok(reverted)
}

/// What the meant and the other changes say of the directories around them.
struct Around {
    /// They hold something that stays.
    kept: HashSet<EntryPath>,
    /// Something below them comes back.
    needed: HashSet<EntryPath>,
}

impl Around {
    fn of(changes: &[(Change, bool)]) -> Self {
        let (mut kept, mut needed) = (HashSet::new(), HashSet::new());
        for (change, meant) in changes {
            let set = match (change, meant) {
                (Change::Removed(_), false) => &mut kept,
                (Change::Added(_) | Change::Changed(..), true) => &mut needed,
                (Change::Removed(_), true) | (_, false) => continue,
            };
            for above in std::iter::successors(change.entry().path.parent(), EntryPath::parent) {
                if !set.insert(above) {
                    break;
                }
            }
        }
        Self { kept, needed }
    }

    fn is_undone(&self, change: &Change, meant: bool) -> bool {
        let is_directory = |entry: &Entry| entry.kind == Kind::Directory;
        match change {
            Change::Removed(entry) => meant && !self.kept.contains(&entry.path),
            Change::Added(entry) => meant || self.needed.contains(&entry.path),
            Change::Changed(now, then) if is_directory(now) == is_directory(then) => meant,
            Change::Changed(_, then) if is_directory(then) => meant || self.needed.contains(&then.path),
            Change::Changed(_, then) => meant && !self.kept.contains(&then.path),
        }
    }
}

#[cfg(test)]
mod tests;
