//! What all steps of one extraction share.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Settings;
use super::dest_name::{DestName, Refusal};
use super::fault::Fault;
use super::item::{Item, joined, shown, split};
use super::options::{Action, DirectoryStats, Event, Overwrite};
use super::rules::Rules;
use super::survey::Decisions;
use super::tree::ROOT;
use rustix::io::Errno;

use nra_format::archive::Archive;
use nra_format::entry::{Kind, Location};
use nra_format::error::{Error, Result, Subject};
use nra_format::progress::{Counter, Monitor, Severity, Warning};

/// What is counted; see [`DirectoryStats`].
#[derive(Debug, Default)]
struct Counts {
    files: AtomicU64,
    links: AtomicU64,
    directories: AtomicU64,
    symlinks: AtomicU64,
    specials: AtomicU64,
    bytes: AtomicU64,
    renamed: AtomicU64,
    backups: AtomicU64,
    kept: AtomicU64,
    omitted: AtomicU64,
    damaged: AtomicU64,
}

/// Identity of a file on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inode {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

/// A file made in this run that others of its hard link group become links of.
#[derive(Debug, Clone)]
pub(super) struct Leader {
    /// Path below the target.
    pub path: Box<[u8]>,
    /// Which file it is.
    pub inode: Inode,
    size: u64,
    location: Location,
}

/// One extraction.
pub(super) struct Run<'a> {
    /// Where content comes from.
    pub archive: &'a dyn Archive,
    /// What was asked for.
    pub options: &'a Settings<'a>,
    /// What metadata is restored.
    pub rules: Rules,
    /// Who is told.
    pub monitor: &'a dyn Monitor,
    /// What is done about each conflict.
    pub decisions: Decisions,
    /// Path of the target, for messages.
    pub target: Vec<u8>,
    leaders: Mutex<HashMap<u64, Leader>>,
    counts: Counts,
}

impl<'a> Run<'a> {
    /// Starts.
    pub(super) fn new(
        archive: &'a dyn Archive,
        options: &'a Settings<'a>,
        monitor: &'a dyn Monitor,
        decisions: Decisions,
        target: &Path,
    ) -> Self {
        Self {
            archive,
            options,
            rules: Rules::new(options),
            monitor,
            decisions,
            target: target.as_os_str().as_encoded_bytes().to_vec(),
            leaders: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Returns the path of something below the target for messages.
    pub(super) fn shown(&self, path: &[u8]) -> Vec<u8> {
        shown(&self.target, path)
    }

    /// Returns what is done when something stands at `path`.
    pub(super) fn overwrite(&self, path: &[u8]) -> Overwrite {
        self.decisions.of(path)
    }

    /// Makes `item` in `directory` by `make`, as [`DestName::claim`] does.
    pub(super) fn claim<T>(
        &self,
        directory: &OwnedFd,
        item: &Item,
        make: impl FnMut(&[u8]) -> Result<T, Refusal>,
    ) -> Result<(T, DestName), Fault> {
        let name = split(item.path()).1;
        let is_entry = |other: &[u8]| self.is_beside(item, other);
        DestName::claim(directory, name, self.overwrite(item.path()), item.entry.modified, is_entry, make)
    }

    /// Says whether an entry of the archive stands beside `item` with this name.
    pub(super) fn is_beside(&self, item: &Item, name: &[u8]) -> bool {
        let above = split(item.entry.path.as_bytes()).0;
        self.archive.find(&joined(above, name)).is_ok_and(|found| found.is_some())
    }

    /// Takes down that an entry is done.
    pub(super) fn done(&self, item: &Item, path: &[u8], action: Action) {
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        match (action, item.entry.kind) {
            (Action::Keep | Action::Refuse, _) => add(&self.counts.kept, 1),
            (_, Kind::File) => {
                add(&self.counts.bytes, item.entry.size);
                add(&self.counts.files, 1)
            }
            (_, Kind::Directory) => add(&self.counts.directories, 1),
            (_, Kind::Symlink) => add(&self.counts.symlinks, 1),
            _ => add(&self.counts.specials, 1),
        };
        match action {
            Action::Link => drop(add(&self.counts.links, 1)),
            Action::Rename => drop(add(&self.counts.renamed, 1)),
            Action::Backup => drop(add(&self.counts.backups, 1)),
            Action::Create | Action::Replace | Action::Keep | Action::Merge | Action::Refuse => {}
        }
        self.monitor.add(Counter::Entries, 1);
        if let Some(observe) = self.options.sink.observe {
            observe(&Event { entry: &item.entry, path, action });
        }
    }

    /// Takes down what would be done with an entry.
    pub(super) fn rehearsed(&self, item: &Item, action: Action) {
        self.wrote(item.entry.size);
        self.done(item, item.path(), action);
    }

    /// Takes down that content bytes are done with. Whether they stay is told when their file is done.
    pub(super) fn wrote(&self, bytes: u64) {
        self.monitor.add(Counter::Bytes, bytes);
    }

    /// Takes down why an entry was not made. Fails when nothing further can be made.
    pub(super) fn failed(&self, item: &Item, fault: Fault) -> Result<()> {
        match fault {
            Fault::Stop(error) => return Err(self.placed(error, item.path())),
            Fault::Keep => {
                self.monitor.add(Counter::Bytes, item.entry.size);
                self.done(item, item.path(), Action::Keep);
            }
            Fault::Omit { message, damage } => {
                self.counts.omitted.fetch_add(1, Ordering::Relaxed);
                self.counts.damaged.fetch_add(u64::from(damage), Ordering::Relaxed);
                let severity = if damage { Severity::Damage } else { Severity::Degraded };
                self.monitor.warn(Warning::new(severity, item.entry.path.as_bytes(), message));
                self.monitor.add(Counter::Entries, 1);
            }
        }
        Ok(())
    }

    /// Takes down damage of the index, which hides entries of unknown names, and entries that the archive does not serve.
    pub(super) fn lost(&self, parts: u64, omitted: u64) {
        self.counts.damaged.fetch_add(parts, Ordering::Relaxed);
        self.counts.omitted.fetch_add(omitted, Ordering::Relaxed);
    }

    /// Warns that something about an entry was not restored.
    pub(super) fn degraded(&self, item: &Item, message: String) {
        let path = item.entry.path.as_bytes().to_vec();
        self.monitor.warn(Warning::degraded(path, message));
    }

    /// Judges a refusal to make `name` in directory number `parent`: when it is the target that can't be written, nothing can be made.
    pub(super) fn refused(&self, parent: u32, action: &'static str, name: &[u8], errno: Errno) -> Refusal {
        match errno {
            Errno::EXIST => Refusal::Exists,
            Errno::ACCESS if parent == ROOT => Refusal::Fault(Fault::Stop(Error::io("write to", &self.target, errno.into()))),
            errno => Refusal::Fault(Fault::system(action, name, errno)),
        }
    }

    /// Gives an error of the system the whole path.
    fn placed(&self, error: Error, path: &[u8]) -> Error {
        match error {
            Error::Io { action, subject: Subject::File(name), source } if split(path).1 == name => {
                Error::io(action, self.shown(path), source)
            }
            other => other,
        }
    }

    /// Remembers a file that others of its hard link group may be linked to.
    pub(super) fn lead(&self, item: &Item, path: &[u8], inode: Inode) {
        let leader = Leader { path: path.into(), inode, size: item.entry.size, location: item.entry.location.clone() };
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner).entry(item.entry.link_group).or_insert(leader);
    }

    /// Returns the file that `item` can be a link of: of the same group and, lest the archive lies, of the same content.
    pub(super) fn leader(&self, item: &Item) -> Option<Leader> {
        let leaders = self.leaders.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |leader: &&Leader| leader.size == item.entry.size && leader.location == item.entry.location;
        leaders.get(&item.entry.link_group).filter(same).cloned()
    }

    /// Sums up.
    pub(super) fn stats(&self, target: &Path) -> DirectoryStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DirectoryStats {
            target: target.into(),
            files: get(&self.counts.files),
            links: get(&self.counts.links),
            directories: get(&self.counts.directories),
            symlinks: get(&self.counts.symlinks),
            specials: get(&self.counts.specials),
            bytes: get(&self.counts.bytes),
            renamed: get(&self.counts.renamed),
            backups: get(&self.counts.backups),
            kept: get(&self.counts.kept),
            omitted: get(&self.counts.omitted),
            damaged: get(&self.counts.damaged),
            untrusted: self.rules.untrusted(),
        }
    }
}
