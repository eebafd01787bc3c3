//! What is known before anything is written: how much there is, where it goes, and what stands in the way.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::Settings;
use super::dest_name::{DIRECTORY_IN_THE_WAY, OTHER_IN_THE_WAY, gives_way, is_directory};
use super::item::{Item, joined, shown, split};
use super::options::{Action, Conflict, Overwrite};
use super::plan::is_below;
use super::tree::{Tree, UNMADE};
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::{ConflictKind, Error, Result};
use nra_format::links::{LinkGroups, LinkKey};

/// Paths named in an error.
const MAX_NAMED: usize = 10;

/// What is done about conflicts: the same for all, but for those that were asked about.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    rest: Overwrite,
    single: HashMap<Box<[u8]>, Overwrite>,
}

impl Decisions {
    /// Returns what is done when something stands at `path`.
    pub(super) fn of(&self, path: &[u8]) -> Overwrite {
        if self.single.is_empty() { self.rest } else { self.single.get(path).copied().unwrap_or(self.rest) }
    }
}

/// Sums over the selected entries.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Entries to make.
    pub entries: u64,
    /// Sum of the sizes of the files.
    pub bytes: u64,
    /// The same with hard links of each other counted once.
    pub distinct_bytes: u64,
    links: LinkGroups,
    /// Those that are counted.
    counted: HashSet<LinkKey>,
    /// First name at the top, and whether there is another.
    top: Option<Box<[u8]>>,
    /// More than one name at the top.
    pub several: bool,
}

impl Sums {
    /// Adds an entry.
    pub(super) fn add(&mut self, item: &Item) {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(item.entry.size);
        // Of a group that lies each file is made.
        if self.links.key(&item.entry).is_none_or(|key| self.counted.insert(key)) {
            self.distinct_bytes = self.distinct_bytes.saturating_add(item.entry.size);
        }
        let path = item.path();
        let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        match &self.top {
            None => self.top = Some(top.into()),
            Some(known) => self.several |= **known != *top,
        }
    }
}

/// Returns the item for an entry; `None` if it is skipped by the options.
pub(super) fn item(options: &Settings<'_>, entry: Entry) -> Option<Item> {
    let path = entry.path.as_bytes();
    if options.sink.flat {
        let start = path.len() - split(path).1.len();
        return (entry.kind != Kind::Directory).then_some(Item { entry, start });
    }
    let mut start = 0;
    for _ in 0..options.sink.strip_components {
        start += path[start..].iter().position(|byte| *byte == b'/')? + 1;
    }
    Some(Item { entry, start })
}

/// What will be done with an entry, or why it is skipped.
pub(super) type Outlook = std::result::Result<Action, &'static str>;

/// Looks for what stands in the way of entries.
pub(super) struct Survey<'a> {
    options: &'a Settings<'a>,
    /// Existing directories on the path of the last entry, one below the other.
    tree: Tree,
    /// Path of the last of them.
    path: Vec<u8>,
    /// A path where no directory exists, nor anything below.
    absent: Vec<u8>,
    /// What is done with entries below it.
    below: Outlook,
    decisions: Decisions,
    asking: bool,
    conflicts: Obstructions,
    directories: Obstructions,
    others: Obstructions,
}

#[derive(Default)]
struct Obstructions {
    first: Vec<Vec<u8>>,
    count: u64,
}

impl Obstructions {
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

impl<'a> Survey<'a> {
    /// Starts with an existing target.
    pub(super) fn new(options: &'a Settings<'a>, root: Arc<OwnedFd>) -> Self {
        Self {
            options,
            tree: Tree::new(root),
            path: Vec::new(),
            absent: Vec::new(),
            below: Ok(Action::Create),
            decisions: Decisions { rest: options.sink.overwrite, single: HashMap::new() },
            asking: options.sink.ask.is_some(),
            conflicts: Obstructions::default(),
            directories: Obstructions::default(),
            others: Obstructions::default(),
        }
    }

    /// Returns the decisions for a target in which nothing exists.
    pub(super) fn nothing_there(options: &Settings<'_>) -> Decisions {
        Decisions { rest: options.sink.overwrite, single: HashMap::new() }
    }

    /// Looks at the place of one entry and returns what will be done.
    pub(super) fn look(&mut self, item: &Item) -> Result<Outlook> {
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

    /// Returns what is done with something that is no directory where one goes, `item` or what it lies below; nothing lies below what is there.
    fn displace(&mut self, item: &Item, path: &[u8], there: &Stat) -> Result<Outlook> {
        let outlook = self.decide(item, path, there)?;
        let below = match outlook {
            Ok(Action::Refuse) => outlook,
            Ok(_) => Ok(Action::Create),
            Err(_) => Err(UNMADE),
        };
        (self.absent, self.below) = (path.to_vec(), below);
        Ok(outlook)
    }

    /// Ends the survey.
    ///
    /// # Errors
    ///
    /// `Conflict` when there is a conflict that the options don't settle.
    pub(super) fn finish(self, target: &Path) -> Result<Decisions> {
        self.directories.check(ConflictKind::Directory, target)?;
        self.others.check(ConflictKind::NotDirectory, target)?;
        self.conflicts.check(ConflictKind::Exists, target)?;
        Ok(self.decisions)
    }

    /// Settles what is done where something stands at `path`: the place of `item`, or of a directory above it.
    fn decide(&mut self, item: &Item, path: &[u8], there: &Stat) -> Result<Outlook> {
        let is_own = path == item.path();
        let wants_directory = !is_own || item.entry.kind == Kind::Directory;
        let overwrite = self.policy(&item.entry, path, there, wants_directory)?;
        // Of a directory that is only implied no time is known.
        let modified = item.entry.modified.filter(|_| is_own);
        Ok(match overwrite {
            Overwrite::Refuse => {
                let obstructions = match (wants_directory, is_directory(there)) {
                    (true, _) => &mut self.others,
                    (false, true) => &mut self.directories,
                    (false, false) => &mut self.conflicts,
                };
                obstructions.add(path);
                Ok(Action::Refuse)
            }
            Overwrite::Backup => Ok(Action::Backup),
            Overwrite::Rename => Ok(Action::Rename),
            _ if gives_way(there, overwrite, modified) => Ok(Action::Replace),
            _ if is_directory(there) => Err(DIRECTORY_IN_THE_WAY),
            _ if wants_directory => Err(OTHER_IN_THE_WAY),
            _ => Ok(Action::Keep),
        })
    }

    /// Returns the policy for what stands at `path`, which somebody may be asked for.
    fn policy(&mut self, entry: &Entry, path: &[u8], there: &Stat, wants_directory: bool) -> Result<Overwrite> {
        let Some(ask) = self.options.sink.ask.filter(|_| self.asking) else { return Ok(self.decisions.rest) };
        let modified = Timestamp { seconds: there.st_mtime, nanoseconds: u32::try_from(there.st_mtime_nsec).unwrap_or(0) };
        let size = u64::try_from(there.st_size).unwrap_or(0);
        let is_directory = is_directory(there);
        let answer = ask(&Conflict { entry, path, wants_directory, is_directory, size, modified })?;
        if answer.all {
            (self.asking, self.decisions.rest) = (false, answer.overwrite);
        } else {
            self.decisions.single.insert(path.into(), answer.overwrite);
        }
        Ok(answer.overwrite)
    }

    /// Makes `path`, above `item`, the last directory of the tree. `false` when it does not exist or something else is there.
    fn enter(&mut self, item: &Item, path: &[u8]) -> Result<bool> {
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
                    let _below: Outlook = self.displace(item, &path[..end], &there)?;
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
            Error::io("look at", joined(&directory, name), errno.into())
        };
        let handle = match self.tree.handle(directory) {
            // What can't be seen can't be asked about; it is not touched later unless a policy says so.
            Err(Errno::ACCESS) => return Ok(None),
            other => other.map_err(failed)?,
        };
        match rustix::fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            // A name that is too long for the file system can't be there; making it will say so.
            Err(Errno::NOENT | Errno::ACCESS | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_format::entry::Location;
    use nra_format::path::EntryPath;

    #[test]
    fn what_only_says_that_it_is_a_hard_link_is_counted() {
        let mut sums = Sums::default();
        for (path, number) in [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 2)] {
            let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), Kind::File);
            (entry.link_group, entry.size, entry.location) = (1, 100, Location::numbered(number, (0, 0)));
            sums.add(&Item { entry, start: 0 });
        }
        assert_eq!((sums.entries, sums.bytes, sums.distinct_bytes), (5, 500, 200));
    }
}
