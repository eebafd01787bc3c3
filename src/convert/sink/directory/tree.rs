//! Directories below the target, reached through handles.
//!
//! Nothing here resolves a path of more than one component: each directory is opened from the handle of its parent, without
//! following a symlink. So no name in an archive and no symlink, old or new, leads out of the target, and the length of a path
//! does not matter. Handles are kept in a cache of bounded size and reopened from the nearest ancestor that is in it.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::item::{Item, joined};
use super::rules::modified;
use crate::proc::path_of;
use nra_format::entry::Timestamp;

/// Number of the target itself.
pub(super) const ROOT: u32 = 0;
/// Handles kept, if the system allows at least four times as many open files; otherwise a quarter of what it allows.
const MAX_HANDLES: u64 = 4_096;

/// Why an entry is skipped whose directory is missing.
pub(super) const UNMADE: &str = "its directory could not be made";

/// What became of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Nothing yet.
    No,
    /// It was created.
    New,
    /// It was there.
    Old {
        /// Its mode, if its owner lacked permission.
        locked: Option<u32>,
        /// It had the time of its entry, as an earlier extraction leaves it.
        dated: bool,
    },
    /// It could not be made.
    Failed,
}

/// A directory below the target.
pub(super) struct Node {
    parent: u32,
    name: Box<[u8]>,
    /// The entry, unless it is only implied by what lies below.
    pub item: Option<Item>,
    /// What became of it.
    pub made: Made,
    /// Group that new files in it get, if not that of the process.
    pub group: Option<u32>,
}

impl Node {
    /// Returns its last path component.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the number of the directory that it is in.
    pub(super) fn parent(&self) -> u32 {
        self.parent
    }
}

#[derive(Default)]
struct Handles {
    map: HashMap<u32, Arc<OwnedFd>>,
    order: VecDeque<u32>,
}

/// Returns how many handles are kept.
fn max_handles() -> usize {
    let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((allowed / 4).clamp(1, MAX_HANDLES)).expect("not many")
}

/// The directories in use. Number [`ROOT`] is the target.
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: Arc<OwnedFd>,
    handles: Mutex<Handles>,
    max_handles: usize,
}

impl Tree {
    /// Starts at an open directory.
    pub(super) fn new(root: Arc<OwnedFd>) -> Self {
        let group = rustix::fs::fstat(&*root).ok().and_then(|stat| inherited_group(&stat));
        let node = Node { parent: ROOT, name: Box::default(), item: None, made: Made::Old { locked: None, dated: false }, group };
        Self { nodes: vec![node], root, handles: Mutex::default(), max_handles: max_handles() }
    }

    /// Returns the number of directories, the target included.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.nodes.len()).expect("push checks that the number fits")
    }

    /// Adds a directory and returns its number. `None` when there are too many.
    pub(super) fn push(&mut self, parent: u32, name: &[u8], item: Option<Item>) -> Option<u32> {
        let number = u32::try_from(self.nodes.len()).ok().filter(|number| *number < u32::MAX)?;
        self.nodes.push(Node { parent, name: name.into(), item, made: Made::No, group: None });
        Some(number)
    }

    /// Returns a directory.
    pub(super) fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    /// Returns a directory.
    pub(super) fn node_mut(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize]
    }

    /// Forgets all directories from `len` on.
    pub(super) fn truncate(&mut self, len: u32) {
        self.nodes.truncate(len as usize);
        let handles = self.handles.get_mut().unwrap_or_else(PoisonError::into_inner);
        handles.map.retain(|number, _| *number < len);
        handles.order.retain(|number| *number < len);
    }

    /// Forgets all directories but the target and `chain`, of which each is the parent of the next, and renumbers these from 1.
    pub(super) fn keep(&mut self, chain: &[u32]) {
        let old = std::mem::take(&mut self.nodes);
        let mut keep = chain.iter().copied().peekable();
        for (number, mut node) in (0u32..).zip(old) {
            if number == ROOT || keep.next_if_eq(&number).is_some() {
                node.parent = u32::try_from(self.nodes.len()).expect("no more than before").saturating_sub(1);
                self.nodes.push(node);
            }
        }
        *self.handles.get_mut().unwrap_or_else(PoisonError::into_inner) = Handles::default();
    }

    /// Returns the path of a directory below the target, empty for the target itself.
    pub(super) fn path(&self, number: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            names.push(&*self.node(at).name);
            at = self.node(at).parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Returns the path of `name` in a directory below the target.
    pub(super) fn path_of(&self, number: u32, name: &[u8]) -> Vec<u8> {
        joined(&self.path(number), name)
    }

    /// Fails when nothing can be made in a directory.
    pub(super) fn check(&self, number: u32) -> Result<(), Fault> {
        match self.node(number).made {
            Made::Failed => Err(Fault::omit(UNMADE)),
            Made::No | Made::New | Made::Old { .. } => Ok(()),
        }
    }

    /// Returns an open handle of a directory.
    pub(super) fn handle(&self, number: u32) -> Result<Arc<OwnedFd>, Errno> {
        let mut missing = Vec::new();
        let mut at = number;
        let mut handle = loop {
            if at == ROOT {
                break Arc::clone(&self.root);
            }
            if let Some(handle) = self.cached(at) {
                break handle;
            }
            missing.push(at);
            at = self.node(at).parent;
        };
        for number in missing.into_iter().rev() {
            handle = Arc::new(open_directory(&handle, &self.node(number).name)?);
            self.remember(number, &handle);
        }
        Ok(handle)
    }

    /// Makes a directory whose parent is made, or finds it there. It can be entered and written by the owner until it is finished.
    pub(super) fn make(&mut self, number: u32) -> Result<(), Errno> {
        let (parent, inherited) = (self.node(number).parent, self.node(self.node(number).parent).group);
        let parent = self.handle(parent)?;
        let name = &self.node(number).name;
        let (made, group) = match rustix::fs::mkdirat(&parent, &**name, Mode::RWXU) {
            Ok(()) => (Made::New, inherited),
            Err(Errno::EXIST) => {
                let handle = open_directory(&parent, name)?;
                let stat = rustix::fs::fstat(&handle)?;
                let mode = stat.st_mode & 0o7777;
                let euid = rustix::process::geteuid();
                let locked = mode & 0o300 != 0o300 && !euid.is_root() && stat.st_uid == euid.as_raw();
                if locked {
                    chmod_handle(&handle, Mode::from_raw_mode(mode | 0o700))?;
                } else {
                    self.remember(number, &Arc::new(handle));
                }
                let time = self.node(number).item.as_ref().and_then(|item| item.entry.modified);
                let dated = time.is_some_and(|time| is_dated(&stat, time));
                (Made::Old { locked: locked.then_some(mode), dated }, inherited_group(&stat))
            }
            Err(error) => return Err(error),
        };
        let node = self.node_mut(number);
        (node.made, node.group) = (made, group);
        Ok(())
    }

    /// Makes a directory whose parent is made under the first of `names` that is free, which becomes its name.
    pub(super) fn make_under(&mut self, number: u32, names: impl Iterator<Item = Vec<u8>>) -> Result<(), Errno> {
        let above = self.node(number).parent;
        let (parent, inherited) = (self.handle(above)?, self.node(above).group);
        for name in names {
            match rustix::fs::mkdirat(&parent, &*name, Mode::RWXU) {
                Ok(()) => {
                    let node = self.node_mut(number);
                    (node.name, node.made, node.group) = (name.into(), Made::New, inherited);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    fn cached(&self, number: u32) -> Option<Arc<OwnedFd>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).map.get(&number).cloned()
    }

    fn remember(&self, number: u32, handle: &Arc<OwnedFd>) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.map.insert(number, Arc::clone(handle)).is_none() {
            handles.order.push_back(number);
            if handles.order.len() > self.max_handles
                && let Some(oldest) = handles.order.pop_front()
            {
                handles.map.remove(&oldest);
            }
        }
    }
}

/// Opens the directory `name` in `parent`; fails for a symlink.
pub(super) fn open_directory(parent: &impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        // One may be allowed to enter what one may not list.
        #[cfg(target_os = "linux")]
        Err(Errno::ACCESS) => rustix::fs::openat(parent, name, flags | OFlags::PATH, Mode::empty()),
        other => other,
    }
}

/// Opens a directory by its path below `root`, component by component.
pub(super) fn open_below(root: &Arc<OwnedFd>, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
    let mut handle = Arc::clone(root);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        handle = Arc::new(open_directory(&handle, name)?);
    }
    Ok(handle)
}

/// Changes the mode of what a handle stands for, also if the handle gives no access.
pub(super) fn chmod_handle(handle: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    match rustix::fs::fchmod(handle, mode) {
        Err(Errno::BADF) => rustix::fs::chmod(path_of(handle), mode),
        other => other,
    }
}

/// Says whether something has this time, as far as its file system tells times apart.
pub(super) fn is_dated(stat: &Stat, time: Timestamp) -> bool {
    modified(stat).seconds == time.seconds
}

/// Returns the group that files made in a directory get from it.
fn inherited_group(stat: &Stat) -> Option<u32> {
    (stat.st_mode & 0o2000 != 0).then_some(stat.st_gid)
}
