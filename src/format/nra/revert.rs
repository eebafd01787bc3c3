//! An earlier commit made the present state again, whole or in part, by one more commit.
//!
//! Blocks stay in the file as long as it is not compacted, so that nothing but records and pages is written.
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

/// Why a file does not come back.
const HELD: &str = "not brought back: a directory with something that was not named is in its place";
/// Why what was below a directory does not.
const BLOCKED: &str = "not brought back: above it is no directory any more, and that was not named";

/// What a return to an earlier commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reverted {
    /// Entries that came, went or changed.
    pub entries: u64,
    /// Entries that did not, though they were meant: what was not meant is in the way. Each is a warning.
    pub left_out: u64,
    /// The attributes of the archive changed.
    pub attributes: bool,
}

/// Makes what `is_meant` says of the differences to commit number `commit` as it was then: all of them, and the attributes of the archive, if it is `None`. Each difference
/// that is undone is handed to `visit` first, as the step from the present state to the earlier one, in path order.
///
/// With an entry come the directories above it that are not there any more; nothing else goes or comes that is not meant, and a directory does not go as long as something in it stays.
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
    let (mut entries, mut left_out) = (0, 0);
    let mut steps = Steps::default();
    let mut undo = |change: Change| -> Result<(), E> {
        monitor.check()?;
        visit(&change)?;
        monitor.add(Counter::Entries, 1);
        entries += 1;
        steps.add(change);
        Ok(())
    };
    match is_meant {
        // Nothing is in the way of all of it: no more is kept than what is written.
        None => each_change(&base, &earlier, &mut undo)?,
        Some(is_meant) => {
            let mut around = Around::default();
            let mut changes = Vec::new();
            each_change::<Error>(&base, &earlier, &mut |change| {
                monitor.check()?;
                let meant = is_meant(&change);
                around.note(&change, meant);
                if meant || Around::may_be_needed(&change) {
                    changes.push((change, meant));
                }
                Ok(())
            })?;
            for (change, meant) in changes {
                match around.fate(&change, meant) {
                    Ok(true) => undo(change)?,
                    Ok(false) => {}
                    Err(why) => {
                        let path = change.entry().path.as_bytes().to_vec();
                        monitor.warn(Warning::degraded(path, why));
                        left_out += 1;
                    }
                }
            }
        }
    }
    for path in steps.gone {
        monitor.check()?;
        writer.remove(&path)?;
    }
    for entry in steps.back {
        monitor.check()?;
        writer.put_back(entry)?;
    }
    let attributes = is_meant.is_none() && writer.attributes() != earlier.info().attributes;
    if attributes {
        writer.set_attributes(earlier.info().attributes.clone())?;
    }
    Ok(Reverted { entries, left_out, attributes })
}

/// What is written. What goes makes room for what comes.
#[derive(Default)]
struct Steps {
    /// With a directory goes what is below it: one cut for all.
    gone: Vec<EntryPath>,
    back: Vec<Entry>,
}

impl Steps {
    /// Adds a change; they come in path order.
    fn add(&mut self, change: Change) {
        match change {
            Change::Removed(entry) if self.gone.last().is_some_and(|last| entry.path.is_below(last)) => {}
            Change::Removed(entry) => self.gone.push(entry.path),
            Change::Added(entry) | Change::Changed(_, entry) => self.back.push(entry),
        }
    }
}

/// What the meant and the other changes say of the places around them.
#[derive(Default)]
struct Around {
    /// Directories that hold something which stays.
    kept: HashSet<EntryPath>,
    /// Places of directories at which something else stays.
    blocked: HashSet<EntryPath>,
    /// Directories below which something comes back.
    needed: HashSet<EntryPath>,
}

impl Around {
    /// Says whether a change that is not meant may come with one that is: a directory that is not there any more.
    fn may_be_needed(change: &Change) -> bool {
        matches!(change, Change::Added(entry) if entry.kind == Kind::Directory)
    }

    /// Takes note of a change. They come in path order: what is above an entry has been noted.
    fn note(&mut self, change: &Change, meant: bool) {
        let set = match change {
            Change::Removed(_) if !meant => &mut self.kept,
            Change::Changed(now, then) if !meant && then.kind == Kind::Directory && now.kind != Kind::Directory => {
                self.blocked.insert(then.path.clone());
                return;
            }
            Change::Added(entry) if meant && self.is_blocked(entry) => return,
            Change::Added(_) if meant => &mut self.needed,
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

    /// Says whether a change is undone, or why it can't be although it is meant.
    fn fate(&self, change: &Change, meant: bool) -> Result<bool, &'static str> {
        match change {
            // It goes with what is in it, as far as that goes.
            Change::Removed(entry) => Ok(meant && !self.kept.contains(&entry.path)),
            Change::Added(entry) if meant && self.is_blocked(entry) => Err(BLOCKED),
            Change::Added(entry) => Ok(meant || self.needed.contains(&entry.path)),
            Change::Changed(now, then) if meant && now.kind == Kind::Directory && self.kept.contains(&then.path) => {
                if then.kind == Kind::Directory { Ok(true) } else { Err(HELD) }
            }
            Change::Changed(..) => Ok(meant),
        }
    }
}

#[cfg(test)]
mod tests;
