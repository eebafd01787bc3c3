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
use crate::format::progress::{Counter, Monitor, Warning};

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
    let mut around = Around::default();
    let mut changes = Vec::new();
    each_change::<Error>(&base, &earlier, &mut |change| {
        monitor.check()?;
        let meant = is_meant.is_none_or(|is_meant| is_meant(&change));
        around.note(&change, meant);
        if meant || Around::may_be_needed(&change) {
            changes.push((change, meant));
        }
        Ok(())
    })?;
    let mut reverted = Reverted::default();
    let mut back = Vec::new();
    // With a directory goes what is below it: one cut for all. What goes makes room for what comes.
    let mut last: Option<EntryPath> = None;
    for (change, meant) in changes {
        monitor.check()?;
        match around.fate(&change, meant) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                let path = change.entry().path.as_bytes().to_vec();
                monitor.warn(Warning { path, message: why.to_owned(), degraded: true, damage: false });
                reverted.left_out += 1;
                continue;
            }
        }
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
