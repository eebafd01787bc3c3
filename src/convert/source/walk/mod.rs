//! Names of the files below some directories, in an order that depends on nothing but the names.
//!
//! Directories are read relative to handles of the directories above them, breadth first, a batch of them at a time on several
//! threads. Types come with the names wherever the file system tells them; nothing but directories is opened. Names come out in
//! windows of bounded length, so that what follows can order them without holding all of a very large tree.

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
use filter::{Ignores, Sieve};
use listing::{Fate, Lister, Listing};
pub(crate) use tree::{DirId, Handles, Root, Tree, join};

use nra_format::entry::Attribute;
use nra_format::error::Result;
use nra_format::limits::MAX_PATH;
use nra_format::progress::{Monitor, Warning};

/// Directories read in one go: enough to keep threads busy, few enough that what was read ahead stays small.
const BATCH_DIRECTORIES: usize = 1024;

/// What a name stands for.
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
    /// Socket, or something the format has no kind for.
    Other,
}

/// A name found by a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    /// The directory it stands in.
    pub(crate) directory: DirId,
    /// What it is.
    pub(crate) kind: NameKind,
    /// Number of the inode, as the directory says it: a hint.
    pub(crate) inode: u64,
    start: usize,
    len: u16,
}

/// A run of names.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Everything that is not a directory.
    pub(crate) names: Vec<Name>,
    /// Directories, with what is known of them.
    pub(crate) directories: Vec<(DirId, Facts, Vec<Attribute>)>,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the bytes of a name.
    pub(crate) fn name(&self, name: &Name) -> &[u8] {
        &self.bytes[name.start..name.start + usize::from(name.len)]
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

/// Where a walk begins.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// A directory and what is below it.
    Directory(Root),
    /// One name, in a directory that is not itself an entry.
    Name {
        /// The directory.
        within: Root,
        /// The name.
        name: Box<[u8]>,
        /// What it is.
        kind: NameKind,
        /// Number of its inode.
        inode: u64,
    },
}

/// How to walk.
#[derive(Debug, Clone)]
pub(crate) struct WalkOptions {
    /// What is skipped.
    pub(crate) filter: Filter,
    /// Take what symlinks lead to instead of the symlinks.
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
    sieve: Sieve,
    tree: Tree,
    handles: Handles,
    /// Directories to read next, with the ignore files that apply in them.
    frontier: VecDeque<(DirId, Option<Arc<Ignores>>)>,
    /// Names that gave nothing, and directories of which not all names are known; a warning said why for each.
    left_out: u64,
    /// Listings not yet handed out, and how many names of the first one were.
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
        let sieve = Sieve::new(&options.filter)?;
        let handles = Handles::new(options.follow);
        let mut walk = Self {
            options,
            sieve,
            tree: Tree::default(),
            handles,
            frontier: VecDeque::new(),
            left_out: 0,
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
                if visible.is_empty() || !self.sieve.leaves_out_path(visible, true) {
                    let id = self.tree.add_root(root);
                    self.frontier.push_back((id, None));
                }
            }
            Start::Name { within, name, kind, inode } => {
                let mut path = within.stored.to_vec();
                join(&mut path, &name);
                if self.sieve.leaves_out_path(path.get(within.hidden_len..).unwrap_or_default(), false) {
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

    /// Number of names that gave nothing, and of directories of which not all names are known.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Says whether everything was handed out.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty() && self.frontier.is_empty()
    }

    /// Returns the next names, at most `limit` of them (directories counted in).
    ///
    /// # Errors
    ///
    /// `Cancelled`. What can't be read is a warning.
    pub(crate) fn next_window(&mut self, limit: usize, monitor: &dyn Monitor) -> Result<Window> {
        let mut window = Window::default();
        loop {
            while let Some(listing) = self.pending.pop_front() {
                if let Some(rest) = self.hand_out(listing, limit, &mut window, monitor) {
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

    /// Reads the next directories; their names wait in `pending`.
    fn list_batch(&mut self, monitor: &dyn Monitor) {
        let count = self.frontier.len().min(BATCH_DIRECTORIES);
        let batch: Vec<_> = self.frontier.drain(..count).collect();
        let threads = self.options.threads.min(count);
        let new_lister = || Lister::new(&self.tree, &self.handles, &self.sieve, &self.options);
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

    /// Moves names from a listing to `window`; returns the listing when the window is full before its end.
    fn hand_out(&mut self, mut listing: Listing, limit: usize, window: &mut Window, monitor: &dyn Monitor) -> Option<Listing> {
        if window.len() >= limit {
            return Some(listing);
        }
        let directory = listing.directory;
        for warning in listing.warnings.drain(..) {
            monitor.warn(warning);
        }
        self.left_out += u64::from(std::mem::take(&mut listing.is_partial));
        match std::mem::replace(&mut listing.fate, Fate::Nothing) {
            Fate::Nothing => {}
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
        while let Some((name, kind, inode)) = listing.get(self.taken) {
            if window.len() >= limit {
                return Some(listing);
            }
            self.taken += 1;
            if self.tree.child_len(directory, name) > MAX_PATH {
                self.left_out += 1;
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
