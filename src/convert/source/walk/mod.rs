//! Finds the names of all files below some directories, in an order that depends on the names
//! alone.
//!
//! Directories are opened relative to handles of their parents and read breadth first, in batches
//! on several threads. The listing includes the types if the file system stores them, so only
//! directories are opened. Names are returned in windows of bounded length, so that they can be
//! sorted without holding all names of a very large tree.

mod facts;
mod filter;
mod listing;
mod tree;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(crate) use facts::{AttributeReader, Facts, reason};
pub use filter::Filter;
use filter::{FilterMatcher, Ignores};
use listing::{Fate, Lister, Listing};
pub(crate) use tree::{DirId, Handles, Root, Tree, join};

use rustix::fs::FileType;

use nra_format::entry::Attribute;
use nra_format::error::Result;
use nra_format::limits::MAX_PATH;
use nra_format::progress::{Monitor, Warning};

/// Directories in a batch: enough to keep threads busy, few enough that listings that wait stay
/// small.
const BATCH_DIRECTORIES: usize = 1024;

/// Type of the file of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NameKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// Socket, or another type that the format does not support.
    Other,
}

impl NameKind {
    /// Converts a file type; `None` if the system does not report it.
    pub(crate) fn of(file_type: FileType) -> Option<Self> {
        Some(match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => return None,
            _ => Self::Other,
        })
    }
}

/// A name found by a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    /// Its directory.
    pub(crate) directory: DirId,
    /// Its type.
    pub(crate) kind: NameKind,
    /// Inode number in the listing, which may be wrong.
    pub(crate) inode: u64,
    start: usize,
    len: u16,
}

impl Name {
    /// Returns its bytes, which are part of those of its window.
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + usize::from(self.len)]
    }
}

/// A number of consecutive names.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// All names of files that are not directories.
    pub(crate) names: Vec<Name>,
    /// Directories with their status and attributes.
    pub(crate) directories: Vec<(DirId, Facts, Vec<Attribute>)>,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the bytes of a name.
    pub(crate) fn name(&self, name: &Name) -> &[u8] {
        name.of(&self.bytes)
    }

    /// Adds a name.
    pub(crate) fn push(&mut self, directory: DirId, kind: NameKind, inode: u64, name: &[u8]) {
        let Ok(len) = u16::try_from(name.len()) else { return };
        self.names.push(Name { directory, kind, inode, start: self.bytes.len(), len });
        self.bytes.extend_from_slice(name);
    }

    fn len(&self) -> usize {
        self.names.len() + self.directories.len()
    }
}

/// Start of a walk.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// A directory with everything below it.
    Directory(Root),
    /// One name, in a directory that is not itself an entry.
    Name {
        /// The directory.
        within: Root,
        /// The name.
        name: Box<[u8]>,
        /// Its type.
        kind: NameKind,
        /// Its inode number.
        inode: u64,
    },
}

/// How to walk.
#[derive(Debug, Clone)]
pub(crate) struct WalkOptions {
    /// Which names are skipped.
    pub(crate) filter: Filter,
    /// Use the targets of symlinks instead of the symlinks.
    pub(crate) follow: bool,
    /// Do not enter other file systems.
    pub(crate) one_file_system: bool,
    /// Read the extended attributes of directories.
    pub(crate) xattrs: bool,
    /// Threads, 1 or more.
    pub(crate) threads: usize,
}

/// A walk in progress.
#[derive(Debug)]
pub(crate) struct Walk {
    options: WalkOptions,
    matcher: FilterMatcher,
    tree: Tree,
    handles: Handles,
    /// Directories to read next, with the ignore files that apply in them.
    frontier: VecDeque<(DirId, Option<Arc<Ignores>>)>,
    /// Number of skipped names and of incompletely read directories. A warning gave the reason for
    /// each.
    skipped: u64,
    /// Listings that were not returned yet, and the number of names of the first one that were.
    pending: VecDeque<Listing>,
    taken: usize,
}

impl Walk {
    /// Prepares a walk.
    ///
    /// # Errors
    ///
    /// `Usage` for patterns that do not work.
    pub(crate) fn new(options: WalkOptions, starts: Vec<Start>) -> Result<Self> {
        let matcher = FilterMatcher::new(&options.filter)?;
        let handles = Handles::new(options.follow);
        let mut walk = Self {
            options,
            matcher,
            tree: Tree::default(),
            handles,
            frontier: VecDeque::new(),
            skipped: 0,
            pending: VecDeque::new(),
            taken: 0,
        };
        for start in starts {
            walk.begin(start);
        }
        Ok(walk)
    }

    fn begin(&mut self, start: Start) {
        match start {
            Start::Directory(root) => {
                let visible = root.stored.get(root.hidden_len..).unwrap_or_default();
                if visible.is_empty() || !self.matcher.skips_path(visible, true) {
                    let id = self.tree.add_root(root);
                    self.frontier.push_back((id, None));
                }
            }
            Start::Name { within, name, kind, inode } => {
                let mut path = within.stored.to_vec();
                join(&mut path, &name);
                if self.matcher.skips_path(path.get(within.hidden_len..).unwrap_or_default(), false) {
                    return;
                }
                let last = self.pending.back_mut().filter(|listing| {
                    let root = self.tree.root(listing.directory);
                    root.path == within.path && root.stored == within.stored
                });
                let listing = match last {
                    Some(listing) => listing,
                    None => {
                        let id = self.tree.add_root(within);
                        self.pending.push_back(Listing::of_names(id));
                        self.pending.back_mut().expect("pushed just now")
                    }
                };
                listing.push(&name, kind, inode);
            }
        }
    }

    /// Returns the directories found so far.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns handles of the directories.
    pub(crate) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// Returns the number of skipped names and of incompletely read directories.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns whether all names were returned.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.frontier.is_empty()
    }

    /// Returns the next names, at most `limit`, including directories. Unreadable directories are
    /// reported as warnings.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    pub(crate) fn next_window(&mut self, limit: usize, monitor: &dyn Monitor) -> Result<Window> {
        let mut window = Window::default();
        loop {
            while let Some(listing) = self.pending.pop_front() {
                if let Some(rest) = self.fill_window(listing, limit, &mut window, monitor) {
                    self.pending.push_front(rest);
                    return Ok(window);
                }
            }
            if self.frontier.is_empty() {
                return Ok(window);
            }
            self.list_batch(monitor);
            monitor.check()?;
        }
    }

    /// Reads the next directories into `pending`.
    fn list_batch(&mut self, monitor: &dyn Monitor) {
        let count = self.frontier.len().min(BATCH_DIRECTORIES);
        let batch: Vec<_> = self.frontier.drain(..count).collect();
        let threads = self.options.threads.min(count);
        let new_lister = || Lister::new(&self.tree, &self.handles, &self.matcher, &self.options);
        if threads <= 1 {
            let mut lister = new_lister();
            self.pending.extend(batch.into_iter().map(|(id, ignores)| lister.list(id, ignores)));
            return;
        }
        let next = AtomicUsize::new(0);
        let mut found: Vec<(usize, Listing)> = thread::scope(|scope| {
            let work = || {
                let mut lister = new_lister();
                let mut found = Vec::new();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some((id, ignores)) = batch.get(i).filter(|_| !monitor.cancelled()) else { return found };
                    found.push((i, lister.list(*id, ignores.clone())));
                }
            };
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            for other in others {
                found.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            found
        });
        found.sort_unstable_by_key(|(i, _)| *i);
        self.pending.extend(found.into_iter().map(|(_, listing)| listing));
    }

    /// Moves names from a listing to `window`. Returns the listing if the window is full before its
    /// end.
    fn fill_window(&mut self, mut listing: Listing, limit: usize, window: &mut Window, monitor: &dyn Monitor) -> Option<Listing> {
        if window.len() >= limit {
            return Some(listing);
        }
        let directory = listing.directory;
        for warning in listing.warnings.drain(..) {
            monitor.warn(warning);
        }
        self.skipped += u64::from(std::mem::take(&mut listing.is_partial));
        match std::mem::replace(&mut listing.fate, Fate::Skip) {
            Fate::Skip => {}
            Fate::Directory(facts, attributes) => {
                self.tree.set_identity(directory, facts.identity);
                window.directories.push((directory, facts, attributes));
            }
            Fate::Link(inode) => {
                if let Some(parent) = self.tree.parent(directory) {
                    window.push(parent, NameKind::Symlink, inode, self.tree.name(directory));
                }
            }
        }
        while let Some(found) = listing.found.names.get(self.taken) {
            let (name, kind, inode) = (listing.found.name(found), found.kind, found.inode);
            if window.len() >= limit {
                return Some(listing);
            }
            self.taken += 1;
            if self.tree.child_len(directory, name) > MAX_PATH {
                self.skipped += 1;
                monitor.warn(Warning::degraded(
                    self.tree.shown_path(directory, name),
                    format!("skipped: its path is longer than {MAX_PATH} bytes"),
                ));
            } else if kind == NameKind::Directory {
                let id = self.tree.add(directory, name);
                self.frontier.push_back((id, listing.ignores.clone()));
            } else {
                window.push(directory, kind, inode, name);
            }
        }
        self.taken = 0;
        None
    }
}

#[cfg(test)]
mod tests;
