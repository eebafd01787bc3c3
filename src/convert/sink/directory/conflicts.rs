//! Finds conflicts with existing files before anything is written, and decides how to resolve them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::Settings;
use super::dest_name::{DIRECTORY_IN_THE_WAY, OTHER_IN_THE_WAY, is_directory, is_replaced};
use super::options::{Action, Conflict, Overwrite};
use super::plan::is_below;
use super::selected::{SelectedEntry, joined, shown, split};
use super::tree::{Tree, UNMADE};
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::{ConflictKind, Error, Result};

/// Maximum number of paths in an error.
const MAX_NAMED: usize = 10;

/// How conflicts are resolved: by one policy, except where the user gave another answer.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    policy: Overwrite,
    answers: HashMap<Box<[u8]>, Overwrite>,
}

impl Decisions {
    /// Returns decisions without answers.
    pub(super) fn of_policy(policy: Overwrite) -> Self {
        Self { policy, answers: HashMap::new() }
    }

    /// Returns how a conflict at `path` is resolved.
    pub(super) fn of(&self, path: &[u8]) -> Overwrite {
        if self.answers.is_empty() { self.policy } else { self.answers.get(path).copied().unwrap_or(self.policy) }
    }
}

/// The expected action for an entry, or why it is skipped.
pub(super) type Expected = std::result::Result<Action, &'static str>;

/// Checks for each entry whether its path exists in the target.
pub(super) struct ConflictFinder<'a> {
    options: &'a Settings<'a>,
    /// Existing directories on the path of the last entry, each the parent of the next.
    tree: Tree,
    /// Path of the last one.
    path: Vec<u8>,
    /// A path at which no directory exists.
    absent: Vec<u8>,
    /// The expected action for entries below it.
    below: Expected,
    decisions: Decisions,
    asking: bool,
    /// Unresolved conflicts: existing files, directories in place of files, and the reverse.
    files: Conflicts,
    directories: Conflicts,
    not_directories: Conflicts,
}

/// Conflicts of one kind.
#[derive(Default)]
struct Conflicts {
    first: Vec<Vec<u8>>,
    count: u64,
}

impl Conflicts {
    fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.first.len() < MAX_NAMED && self.first.last().is_none_or(|last| last != path) {
            self.first.push(path.to_vec());
        }
    }

    fn check(self, kind: ConflictKind, target: &Path) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let paths = self.first.iter().map(|path| shown(target.as_os_str().as_bytes(), path)).collect();
        Err(Error::Conflict { kind, paths, count: self.count })
    }
}

impl<'a> ConflictFinder<'a> {
    /// Starts at an existing target.
    pub(super) fn new(options: &'a Settings<'a>, root: Arc<OwnedFd>) -> Self {
        Self {
            options,
            tree: Tree::new(root),
            path: Vec::new(),
            absent: Vec::new(),
            below: Ok(Action::Create),
            decisions: Decisions::of_policy(options.sink.overwrite),
            asking: options.sink.ask.is_some(),
            files: Conflicts::default(),
            directories: Conflicts::default(),
            not_directories: Conflicts::default(),
        }
    }

    /// Checks the path of an entry. Returns the expected action.
    pub(super) fn check(&mut self, item: &SelectedEntry) -> Result<Expected> {
        let path = item.path();
        let (parent, name) = split(path);
        if !self.enter(item, parent)? {
            return Ok(self.below);
        }
        let is_wanted = item.entry.kind == Kind::Directory;
        let Some(there) = self.stat(self.tree.len() - 1, name)? else {
            if is_wanted {
                (self.absent, self.below) = (path.to_vec(), Ok(Action::Create));
            }
            return Ok(Ok(Action::Create));
        };
        match (is_wanted, is_directory(&there)) {
            (true, true) => Ok(Ok(Action::Merge)),
            (true, false) => self.displace(item, path, &there),
            (false, _) => self.decide(item, path, &there),
        }
    }

    /// Decides about an existing file at the path of a directory: that of `item`, or of one above
    /// it.
    fn displace(&mut self, item: &SelectedEntry, path: &[u8], there: &Stat) -> Result<Expected> {
        let expected = self.decide(item, path, there)?;
        let below = match expected {
            Ok(Action::Refuse) => expected,
            Ok(_) => Ok(Action::Create),
            Err(_) => Err(UNMADE),
        };
        (self.absent, self.below) = (path.to_vec(), below);
        Ok(expected)
    }

    /// Returns the decisions.
    ///
    /// # Errors
    ///
    /// `Conflict` if the policy does not settle a conflict.
    pub(super) fn finish(self, target: &Path) -> Result<Decisions> {
        self.directories.check(ConflictKind::Directory, target)?;
        self.not_directories.check(ConflictKind::NotDirectory, target)?;
        self.files.check(ConflictKind::Exists, target)?;
        Ok(self.decisions)
    }

    /// Decides how to resolve a conflict at `path`: that of `item`, or of a directory above it.
    fn decide(&mut self, item: &SelectedEntry, path: &[u8], there: &Stat) -> Result<Expected> {
        let is_own = path == item.path();
        let wants_directory = !is_own || item.entry.kind == Kind::Directory;
        let overwrite = self.policy(&item.entry, path, there, wants_directory)?;
        // The time of an implied directory is unknown.
        let modified = item.entry.modified.filter(|_| is_own);
        Ok(match overwrite {
            Overwrite::Refuse => {
                let conflicts = match (wants_directory, is_directory(there)) {
                    (true, _) => &mut self.not_directories,
                    (false, true) => &mut self.directories,
                    (false, false) => &mut self.files,
                };
                conflicts.add(path);
                Ok(Action::Refuse)
            }
            Overwrite::Backup => Ok(Action::Backup),
            Overwrite::Rename => Ok(Action::Rename),
            _ if is_replaced(there, overwrite, modified) => Ok(Action::Replace),
            _ if is_directory(there) => Err(DIRECTORY_IN_THE_WAY),
            _ if wants_directory => Err(OTHER_IN_THE_WAY),
            _ => Ok(Action::Keep),
        })
    }

    /// Returns the policy for a conflict at `path`. Asks the user if that is requested.
    fn policy(&mut self, entry: &Entry, path: &[u8], there: &Stat, wants_directory: bool) -> Result<Overwrite> {
        let Some(ask) = self.options.sink.ask.filter(|_| self.asking) else { return Ok(self.decisions.policy) };
        let modified = Timestamp { seconds: there.st_mtime, nanoseconds: u32::try_from(there.st_mtime_nsec).unwrap_or(0) };
        let size = u64::try_from(there.st_size).unwrap_or(0);
        let is_directory = is_directory(there);
        let answer = ask(&Conflict { entry, path, wants_directory, is_directory, size, modified })?;
        if answer.all {
            (self.asking, self.decisions.policy) = (false, answer.overwrite);
        } else {
            self.decisions.answers.insert(path.into(), answer.overwrite);
        }
        Ok(answer.overwrite)
    }

    /// Makes `path`, above `item`, the last directory of the tree. Returns whether it is an
    /// existing directory.
    fn enter(&mut self, item: &SelectedEntry, path: &[u8]) -> Result<bool> {
        if !self.absent.is_empty() && (path == self.absent || is_below(path, &self.absent)) {
            return Ok(false);
        }
        if path == self.path {
            return Ok(true);
        }
        let same = path.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
        while !self.path.is_empty() {
            let len = self.path.len();
            if len <= same && path.get(len).is_none_or(|byte| *byte == b'/') {
                break;
            }
            self.tree.truncate(self.tree.len() - 1);
            self.path.truncate(split(&self.path).0.len());
        }
        let mut at = self.path.len();
        while at < path.len() {
            let start = if at == 0 { 0 } else { at + 1 };
            let end = path[start..].iter().position(|byte| *byte == b'/').map_or(path.len(), |len| start + len);
            let name = &path[start..end];
            let last = self.tree.len() - 1;
            match self.stat(last, name)? {
                Some(there) if is_directory(&there) => {}
                Some(there) => {
                    let _below: Expected = self.displace(item, &path[..end], &there)?;
                    return Ok(false);
                }
                None => {
                    (self.absent, self.below) = (path[..end].to_vec(), Ok(Action::Create));
                    return Ok(false);
                }
            }
            self.tree.push(last, name, None).ok_or(Error::Limit {
                what: "depth of directories",
                found: u64::MAX,
                limit: u32::MAX.into(),
            })?;
            self.path.extend_from_slice(&path[at..end]);
            at = end;
        }
        Ok(true)
    }

    fn stat(&self, directory: u32, name: &[u8]) -> Result<Option<Stat>> {
        let failed = |errno: Errno| {
            let directory = self.tree.path(directory);
            Error::io("read metadata of", joined(&directory, name), errno.into())
        };
        let handle = match self.tree.handle(directory) {
            // Files in such a directory can't be checked. They are not replaced later without a
            // policy.
            Err(Errno::ACCESS) => return Ok(None),
            other => other.map_err(failed)?,
        };
        match rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            // A name that the file system rejects does not exist. Creating it reports the reason.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }
}
