//! State that all steps of one extraction share.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Settings;
use super::conflicts::Decisions;
use super::dest_name::{DestName, Refusal};
use super::fault::Fault;
use super::options::{Action, DirectoryStats, Event, Overwrite};
use super::restore_rules::RestoreRules;
use super::selected::{SelectedEntry, joined, shown, split};
use super::tree::ROOT;
use crate::source::walk::reason;
use rustix::io::Errno;

use nra_format::archive::Archive;
use nra_format::entry::Kind;
use nra_format::error::{Error, Result, Subject};
use nra_format::links::LinkGroups;
use nra_format::progress::{Counter, Monitor, Severity, Warning};

/// Identity of a file on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

/// The first file of a hard link group that was created. Others become links to it.
#[derive(Debug, Clone)]
pub(super) struct FirstLink {
    /// Path below the target.
    pub path: Box<[u8]>,
    /// Identity of the file.
    pub inode: Inode,
}

/// One extraction.
pub(super) struct Extraction<'a> {
    /// Source of the content.
    pub archive: &'a dyn Archive,
    /// The settings.
    pub options: &'a Settings<'a>,
    /// Which metadata is restored.
    pub rules: RestoreRules,
    /// Receives progress and warnings.
    pub monitor: &'a dyn Monitor,
    /// How conflicts are resolved.
    pub decisions: Decisions,
    /// Path of the target, for messages.
    pub target: Vec<u8>,
    first_links: Mutex<LinkGroups<FirstLink>>,
    stats: Mutex<DirectoryStats>,
}

impl<'a> Extraction<'a> {
    /// Starts an extraction to `target`.
    pub(super) fn new(archive: &'a dyn Archive, options: &'a Settings<'a>, monitor: &'a dyn Monitor, target: &Path) -> Self {
        Self {
            archive,
            options,
            rules: RestoreRules::new(options),
            monitor,
            decisions: Decisions::default(),
            target: target.as_os_str().as_encoded_bytes().to_vec(),
            first_links: Mutex::default(),
            stats: Mutex::new(DirectoryStats { target: target.into(), ..DirectoryStats::default() }),
        }
    }

    /// Returns a path below the target for messages.
    pub(super) fn shown(&self, path: &[u8]) -> Vec<u8> {
        shown(&self.target, path)
    }

    /// Returns how a conflict at `path` is resolved.
    pub(super) fn overwrite(&self, path: &[u8]) -> Overwrite {
        self.decisions.of(path)
    }

    /// Creates `item` in `directory` with `make`, as [`DestName::claim`] does.
    pub(super) fn claim<T>(
        &self,
        directory: &OwnedFd,
        item: &SelectedEntry,
        make: impl FnMut(&[u8]) -> Result<T, Refusal>,
    ) -> Result<(T, DestName), Fault> {
        let name = split(item.path()).1;
        let is_entry = |other: &[u8]| self.is_beside(item, other);
        DestName::claim(directory, name, self.overwrite(item.path()), item.entry.modified, is_entry, make)
    }

    /// Returns whether the archive has an entry of this name in the directory of `item`.
    pub(super) fn is_beside(&self, item: &SelectedEntry, name: &[u8]) -> bool {
        let above = split(item.entry.path.as_bytes()).0;
        self.archive.find(&joined(above, name)).is_ok_and(|found| found.is_some())
    }

    fn counts(&self) -> MutexGuard<'_, DirectoryStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts and reports an entry that is done.
    pub(super) fn done(&self, item: &SelectedEntry, path: &[u8], action: Action) {
        let mut stats = self.counts();
        match (action, item.entry.kind) {
            (Action::Keep | Action::Refuse, _) => stats.kept += 1,
            (_, Kind::File) => {
                stats.bytes += item.entry.size;
                stats.files += 1;
            }
            (_, Kind::Directory) => stats.directories += 1,
            (_, Kind::Symlink) => stats.symlinks += 1,
            _ => stats.specials += 1,
        }
        match action {
            Action::Link => stats.links += 1,
            Action::Rename => stats.renamed += 1,
            Action::Backup => stats.backups += 1,
            Action::Create | Action::Replace | Action::Keep | Action::Merge | Action::Refuse => {}
        }
        drop(stats);
        self.monitor.add(Counter::Entries, 1);
        if let Some(observe) = self.options.sink.observe {
            observe(&Event { entry: &item.entry, path, action });
        }
    }

    /// Reports content that was written.
    pub(super) fn wrote(&self, bytes: u64) {
        self.monitor.add(Counter::Bytes, bytes);
    }

    /// Counts and reports an entry that was not created.
    ///
    /// # Errors
    ///
    /// If the fault ends the extraction.
    pub(super) fn failed(&self, item: &SelectedEntry, fault: Fault) -> Result<()> {
        match fault {
            Fault::Stop(error) => return Err(self.placed(error, item.path())),
            Fault::Keep => {
                self.monitor.add(Counter::Bytes, item.entry.size);
                self.done(item, item.path(), Action::Keep);
            }
            Fault::Skip { message, damage } => {
                let mut stats = self.counts();
                (stats.skipped, stats.damaged) = (stats.skipped + 1, stats.damaged + u64::from(damage));
                drop(stats);
                let severity = if damage { Severity::Damage } else { Severity::Degraded };
                self.monitor.warn(Warning::new(severity, item.entry.path.as_bytes(), message));
                self.monitor.add(Counter::Entries, 1);
            }
        }
        Ok(())
    }

    /// Counts damaged parts of the index, whose entries are unknown, and entries that the archive
    /// does not list.
    pub(super) fn lost(&self, parts: u64, unlisted: u64) {
        let mut stats = self.counts();
        (stats.damaged, stats.skipped) = (stats.damaged + parts, stats.skipped + unlisted);
    }

    /// Warns that a property of an entry was not restored.
    pub(super) fn degraded(&self, item: &SelectedEntry, message: String) {
        let path = item.entry.path.as_bytes().to_vec();
        self.monitor.warn(Warning::degraded(path, message));
    }

    /// Warns if `property` of an entry could not be restored.
    pub(super) fn restored(&self, item: &SelectedEntry, property: &str, result: Result<(), Errno>) {
        if let Err(errno) = result {
            self.degraded(item, format!("{property} not restored: {}", reason(errno)));
        }
    }

    /// Classifies an error of creating `name` in directory number `parent`. If the target itself is
    /// not writable, the extraction ends.
    pub(super) fn refused(&self, parent: u32, action: &'static str, name: &[u8], errno: Errno) -> Refusal {
        match errno {
            Errno::EXIST => Refusal::Exists,
            Errno::ACCESS if parent == ROOT => Refusal::Fault(Fault::Stop(Error::io("write to", &self.target, errno.into()))),
            errno => Refusal::Fault(Fault::system(action, name, errno)),
        }
    }

    /// Replaces the name in a system error by the whole path.
    fn placed(&self, error: Error, path: &[u8]) -> Error {
        match error {
            Error::Io { action, subject: Subject::File(name), source } if split(path).1 == name => {
                Error::io(action, self.shown(path), source)
            }
            other => other,
        }
    }

    /// Remembers a file that others of its link group may become links to.
    pub(super) fn add_first_link(&self, item: &SelectedEntry, path: &[u8], inode: Inode) {
        let mut first_links = self.first_links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = first_links.key(&item.entry) {
            first_links.insert(key, FirstLink { path: path.into(), inode });
        }
    }

    /// Returns the file that `item` can be linked to.
    pub(super) fn first_link(&self, item: &SelectedEntry) -> Option<FirstLink> {
        let first_links = self.first_links.lock().unwrap_or_else(PoisonError::into_inner);
        first_links.get(first_links.key(&item.entry)?).cloned()
    }

    /// Returns what was done so far.
    pub(super) fn stats(&self) -> DirectoryStats {
        DirectoryStats { untrusted: self.rules.untrusted(), ..self.counts().clone() }
    }
}
