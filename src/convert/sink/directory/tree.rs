//! Directories below the target, opened through handles.
//!
//! No path of more than one component is resolved. Each directory is opened from the handle of its
//! parent, without following a symlink. No name in an archive and no symlink can therefore refer to
//! a file outside the target, and the length of paths is not limited. A cache of bounded size keeps
//! handles. Others are reopened from the nearest cached ancestor.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::fault::Fault;
use super::restore_rules::modified;
use super::selected::{SelectedEntry, joined};
use crate::handles::HandleCache;
use crate::proc::path_of;
use nra_format::entry::Timestamp;

/// Number of the target itself.
pub(super) const ROOT: u32 = 0;
/// Maximum number of cached handles. At most a quarter of the open files that the system allows are
/// used.
const MAX_HANDLES: u64 = 4_096;

/// Why an entry is skipped if its directory is missing.
pub(super) const UNMADE: &str = "its directory could not be created";

/// State of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// Not created yet.
    No,
    /// Created.
    New,
    /// It existed.
    Old {
        /// Its mode, if it denied access to its owner.
        locked: Option<u32>,
        /// It had the time of its entry, as after an earlier extraction.
        dated: bool,
    },
    /// It could not be created.
    Failed,
}

/// A directory below the target.
pub(super) struct Node {
    parent: u32,
    name: Box<[u8]>,
    /// The entry; `None` if it is only implied by entries below it.
    pub item: Option<SelectedEntry>,
    /// Its state.
    pub made: Made,
    /// Group that new files inherit from this directory, if it differs from the group of the
    /// process.
    pub group: Option<u32>,
}

impl Node {
    /// Returns its last path component.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the number of its parent.
    pub(super) fn parent(&self) -> u32 {
        self.parent
    }
}

/// The directories in use. Number [`ROOT`] is the target.
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: Arc<OwnedFd>,
    handles: HandleCache<u32>,
}

impl Tree {
    /// Starts at an open directory.
    pub(super) fn new(root: Arc<OwnedFd>) -> Self {
        let group = rustix::fs::fstat(&*root).ok().and_then(|stat| inherited_group(&stat));
        let node = Node { parent: ROOT, name: Box::default(), item: None, made: Made::Old { locked: None, dated: false }, group };
        Self { nodes: vec![node], root, handles: HandleCache::new(MAX_HANDLES) }
    }

    /// Returns the number of directories, the target included.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.nodes.len()).expect("push checks that the number fits")
    }

    /// Adds a directory and returns its number; `None` if there are too many.
    pub(super) fn push(&mut self, parent: u32, name: &[u8], item: Option<SelectedEntry>) -> Option<u32> {
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

    /// Removes all directories from number `len` on.
    pub(super) fn truncate(&mut self, len: u32) {
        self.nodes.truncate(len as usize);
        self.handles.retain(|number| number < len);
    }

    /// Removes all directories except the target and `chain`, in which each is the parent of the
    /// next, and renumbers these from 1.
    pub(super) fn keep(&mut self, chain: &[u32]) {
        let old = std::mem::take(&mut self.nodes);
        let mut keep = chain.iter().copied().peekable();
        for (number, mut node) in (0u32..).zip(old) {
            if number == ROOT || keep.next_if_eq(&number).is_some() {
                node.parent = u32::try_from(self.nodes.len()).expect("no more than before").saturating_sub(1);
                self.nodes.push(node);
            }
        }
        self.handles.retain(|_| false);
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

    /// Returns an error if the directory could not be created.
    pub(super) fn check(&self, number: u32) -> Result<(), Fault> {
        match self.node(number).made {
            Made::Failed => Err(Fault::skip(UNMADE)),
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
            if let Some(handle) = self.handles.get(at) {
                break handle;
            }
            missing.push(at);
            at = self.node(at).parent;
        };
        for number in missing.into_iter().rev() {
            handle = Arc::new(open_directory(&handle, &self.node(number).name)?);
            self.handles.insert(number, Arc::clone(&handle));
        }
        Ok(handle)
    }

    /// Creates a directory whose parent exists, or finds an existing one. Its owner can write to it
    /// until it is finished.
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
                    self.handles.insert(number, Arc::new(handle));
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

    /// Creates a directory under the first of `names` that does not exist.
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
}

/// Opens the directory `name` in `parent`; fails for a symlink.
pub(super) fn open_directory(parent: &impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        // A directory may permit entering but not listing.
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

/// Changes the mode of the file of a handle, even if the handle permits no access.
pub(super) fn chmod_handle(handle: &OwnedFd, mode: Mode) -> Result<(), Errno> {
    match rustix::fs::fchmod(handle, mode) {
        Err(Errno::BADF) => rustix::fs::chmod(path_of(handle), mode),
        other => other,
    }
}

/// Returns whether a file has this time, to the second: some file systems store no more.
pub(super) fn is_dated(stat: &Stat, time: Timestamp) -> bool {
    modified(stat).seconds == time.seconds
}

/// Returns the group that new files inherit from a directory.
fn inherited_group(stat: &Stat) -> Option<u32> {
    (stat.st_mode & 0o2000 != 0).then_some(stat.st_gid)
}
