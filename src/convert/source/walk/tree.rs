//! The directories of a walk: names and parents, from which paths are built, and open handles of
//! recently used ones.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, retry_on_intr};

use crate::handles::HandleCache;

/// Maximum length of a path in a system call, bytes. The limit of the system is 4,096 with the
/// closing NUL.
const CALL_PATH_MAX: usize = 4_000;

/// Number of a directory in a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DirId(u32);

impl DirId {
    /// Returns the number as an index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A directory at which a walk starts, or that contains names at which it starts.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    /// Path for system calls.
    pub(crate) path: Box<[u8]>,
    /// Its path in the archive; empty for the top directory.
    pub(crate) stored: Box<[u8]>,
    /// Its path in messages; empty for the current directory.
    pub(crate) shown: Box<[u8]>,
    /// Number of bytes at the start of stored paths that patterns ignore: the prefix given by the
    /// caller, with its slash.
    pub(crate) hidden_len: usize,
}

/// One directory.
#[derive(Debug)]
struct Dir {
    /// Parent; `None` for a root.
    parent: Option<DirId>,
    /// Name below the parent; empty for a root.
    name: Box<[u8]>,
    /// Length of its path in the archive, bytes.
    stored_len: usize,
    /// Number of the root above it.
    root: u32,
    /// Device and inode, once it was opened.
    identity: Option<(u64, u64)>,
}

/// All directories of a walk. Paths are built from the chain of parents when they are needed, so
/// that deep trees stay small.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    roots: Vec<Root>,
    dirs: Vec<Dir>,
}

impl Tree {
    /// Adds a root.
    pub(crate) fn add_root(&mut self, root: Root) -> DirId {
        let number = u32::try_from(self.roots.len()).expect("fewer than 2^32 inputs fit in memory");
        let stored_len = root.stored.len();
        self.roots.push(root);
        self.push(Dir { parent: None, name: Box::default(), stored_len, root: number, identity: None })
    }

    /// Adds a directory below `parent`.
    pub(crate) fn add(&mut self, parent: DirId, name: &[u8]) -> DirId {
        let above = &self.dirs[parent.index()];
        let root = above.root;
        let stored_len = self.child_len(parent, name);
        self.push(Dir { parent: Some(parent), name: name.into(), stored_len, root, identity: None })
    }

    fn push(&mut self, dir: Dir) -> DirId {
        let id = DirId(u32::try_from(self.dirs.len()).expect("fewer than 2^32 directories fit in memory"));
        self.dirs.push(dir);
        id
    }

    /// Returns whether there are several roots, so that paths can repeat.
    pub(crate) fn has_several_roots(&self) -> bool {
        self.roots.len() > 1
    }

    /// Returns the number of directories.
    pub(crate) fn len(&self) -> usize {
        self.dirs.len()
    }

    /// Returns all directories. Parents precede their children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = DirId> + use<> {
        (0..u32::try_from(self.dirs.len()).expect("checked when they were added")).map(DirId)
    }

    /// Returns the parent, or `None` for a root.
    pub(crate) fn parent(&self, id: DirId) -> Option<DirId> {
        self.dirs[id.index()].parent
    }

    /// Returns the name below the parent.
    pub(crate) fn name(&self, id: DirId) -> &[u8] {
        &self.dirs[id.index()].name
    }

    /// Returns the root of a directory, which may be itself.
    pub(crate) fn root(&self, id: DirId) -> &Root {
        &self.roots[self.dirs[id.index()].root as usize]
    }

    /// Returns device and inode, if it was opened.
    pub(crate) fn identity(&self, id: DirId) -> Option<(u64, u64)> {
        self.dirs[id.index()].identity
    }

    /// Sets device and inode.
    pub(crate) fn set_identity(&mut self, id: DirId, identity: (u64, u64)) {
        self.dirs[id.index()].identity = Some(identity);
    }

    /// Returns whether `identity` is that of `id` or of a directory above it.
    pub(crate) fn is_above(&self, id: DirId, identity: (u64, u64)) -> bool {
        let mut at = Some(id);
        while let Some(dir) = at {
            if self.identity(dir) == Some(identity) {
                return true;
            }
            at = self.parent(dir);
        }
        false
    }

    /// Returns the length of the stored path of `name` in `dir`, bytes.
    pub(crate) fn child_len(&self, dir: DirId, name: &[u8]) -> usize {
        let above = self.dirs[dir.index()].stored_len;
        if above == 0 { name.len() } else { above + 1 + name.len() }
    }

    /// Replaces `out` by the path of `dir` in the archive; empty for the top directory.
    pub(crate) fn stored_path(&self, dir: DirId, out: &mut Vec<u8>) {
        self.path_after(dir, &self.root(dir).stored, out);
    }

    /// Returns the path of `name` in `dir` for messages.
    pub(crate) fn shown_path(&self, dir: DirId, name: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.path_after(dir, &self.root(dir).shown, &mut out);
        if !name.is_empty() {
            join(&mut out, name);
        }
        out
    }

    /// Replaces `out` by `start` and the names from the root down to `dir`.
    fn path_after(&self, dir: DirId, start: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let mut chain = Vec::new();
        let mut at = dir;
        while let Some(parent) = self.parent(at) {
            chain.push(at);
            at = parent;
        }
        out.extend_from_slice(start);
        for id in chain.into_iter().rev() {
            join(out, self.name(id));
        }
    }
}

/// Appends a component to a path.
pub(crate) fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Maximum number of open handles.
const MAX_HANDLES: u64 = 512;

/// Open handles of directories.
#[derive(Debug)]
pub(crate) struct Handles {
    open: HandleCache<DirId>,
    /// Follow symlinks below roots.
    follow: bool,
}

impl Handles {
    /// Creates an empty set.
    pub(crate) fn new(follow: bool) -> Self {
        Self { open: HandleCache::new(MAX_HANDLES), follow }
    }

    /// Keeps a handle.
    pub(crate) fn keep(&self, id: DirId, handle: Arc<OwnedFd>) {
        self.open.insert(id, handle);
    }

    /// Returns a handle of a directory for opening the files in it. It is reopened from the nearest
    /// open directory above it.
    pub(crate) fn get(&self, tree: &Tree, id: DirId) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(handle) = self.open.get(id) {
            return Ok(handle);
        }
        let handle = Arc::new(self.reopen(tree, id, OFlags::PATH)?);
        self.keep(id, handle.clone());
        Ok(handle)
    }

    /// Opens a directory for listing.
    pub(crate) fn open_to_list(&self, tree: &Tree, id: DirId) -> Result<OwnedFd, Errno> {
        self.reopen(tree, id, OFlags::RDONLY)
    }

    fn reopen(&self, tree: &Tree, id: DirId, access: OFlags) -> Result<OwnedFd, Errno> {
        let mut chain = Vec::new();
        let mut at = id;
        let (start, mut path) = loop {
            let Some(parent) = tree.parent(at) else { break (None, tree.root(id).path.to_vec()) };
            chain.push(at);
            at = parent;
            if let Some(handle) = self.open.get(at) {
                break (Some(handle), Vec::new());
            }
        };
        // Symlinks in the path of an input were given by the user. Those below it are only followed
        // on request.
        let mut follow = start.is_none();
        let mut base: Option<Arc<OwnedFd>> = start;
        for id in chain.into_iter().rev() {
            let name = tree.name(id);
            if follow || (!path.is_empty() && path.len() + name.len() >= CALL_PATH_MAX) {
                base = Some(Arc::new(open_directory(fd_or_cwd(&base), &path, OFlags::PATH, follow || self.follow)?));
                path.clear();
                follow = false;
            }
            join(&mut path, name);
        }
        open_directory(fd_or_cwd(&base), &path, access, follow || self.follow)
    }
}

fn fd_or_cwd(fd: &Option<Arc<OwnedFd>>) -> BorrowedFd<'_> {
    fd.as_ref().map_or(CWD, |fd| fd.as_fd())
}

fn open_directory(base: BorrowedFd<'_>, path: &[u8], access: OFlags, follow: bool) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = Path::new(OsStr::from_bytes(path));
    if !follow {
        match retry_on_intr(|| openat2(base, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)) {
            // Old kernels and some sandboxes don't support openat2.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
            result => return result,
        }
    }
    let last = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    retry_on_intr(|| openat(base, path, flags | last, Mode::empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_built_from_parents() {
        let mut tree = Tree::default();
        let root = tree.add_root(Root {
            path: b"/x/photos"[..].into(),
            stored: b"p"[..].into(),
            shown: b"photos"[..].into(),
            hidden_len: 0,
        });
        let a = tree.add(root, b"a");
        let b = tree.add(a, b"b");
        let mut path = Vec::new();
        tree.stored_path(b, &mut path);
        assert_eq!(path, b"p/a/b");
        tree.stored_path(root, &mut path);
        assert_eq!(path, b"p");
        assert_eq!(tree.shown_path(b, b"f"), b"photos/a/b/f");
        assert_eq!(tree.child_len(b, b"f"), b"p/a/b/f".len());
        tree.set_identity(a, (1, 2));
        assert!(tree.is_above(b, (1, 2)) && !tree.is_above(root, (1, 2)));
    }
}
