//! A directory on disk as a tree to compare. Entries are listed in path order; memory holds the
//! names of one directory and its parents.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::diff::Tree;
use crate::proc::path_of;
use nra_format::archive::IndexPage;
use nra_format::digest::Digest;
use nra_format::entry::{Device, Entry, Kind, Metadata, Timestamp};
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;

/// Longest path passed to the system, bytes. Its limit is 4,096 including the NUL.
const MAX_PATH: usize = 4_000;
/// Bytes read at once for a digest.
const READ: usize = 1 << 20;

/// The content of a directory.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Returns the tree of the directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Tree for Folder {
    fn entries(&self, from: u64) -> Box<dyn Iterator<Item = Result<Entry>> + '_> {
        let walk = Walk { root: &self.root, stack: Vec::new(), enter: Some(Vec::new()) };
        Box::new(walk.skip(usize::try_from(from).unwrap_or(usize::MAX)))
    }

    fn pages_at(&self, _number: u64) -> Result<Vec<IndexPage>> {
        Ok(Vec::new())
    }

    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        let fail = |error| Error::io("read", shown(&self.root, entry.path.as_bytes()), error);
        let mut file =
            ShortPath::new(&self.root, entry.path.as_bytes()).and_then(|short| fs::File::open(short.path)).map_err(fail)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; READ.min(usize::try_from(entry.size).unwrap_or(READ).max(1))];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(Some(hasher.finalize().into())),
                Ok(count) => drop(hasher.update(&buffer[..count])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }

    fn is_archive(&self) -> bool {
        false
    }
}

/// A path that is short enough for the system.
struct ShortPath {
    path: PathBuf,
    /// The open directory at which `path` starts, if the full path is too long.
    _start: Option<OwnedFd>,
}

impl ShortPath {
    /// Returns a path to `below` in `root`.
    fn new(root: &Path, below: &[u8]) -> io::Result<Self> {
        let mut path = root.join(OsStr::from_bytes(below));
        let mut start: Option<OwnedFd> = None;
        while path.as_os_str().len() > MAX_PATH {
            let whole = path.into_os_string().into_vec();
            let slash = whole[..MAX_PATH].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if slash == 0 {
                return Err(Errno::NAMETOOLONG.into());
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let handle = rustix::fs::open(OsStr::from_bytes(&whole[..slash]), flags, Mode::empty())?;
            let rest = OsStr::from_bytes(&whole[slash + 1..]);
            path = PathBuf::from(path_of(&handle)).join(rest);
            start = Some(handle);
        }
        Ok(Self { path, _start: start })
    }
}

/// Returns a path for messages.
fn shown(root: &Path, below: &[u8]) -> Vec<u8> {
    root.join(OsStr::from_bytes(below)).into_os_string().into_vec()
}

/// A walk in path order: a directory, then its entries, then its next sibling.
struct Walk<'a> {
    root: &'a Path,
    /// The path below the root and the remaining names of each open directory.
    stack: Vec<(Vec<u8>, vec::IntoIter<Vec<u8>>)>,
    /// The directory to read next.
    enter: Option<Vec<u8>>,
}

impl Walk<'_> {
    fn list(&self, below: &[u8]) -> Result<Vec<Vec<u8>>> {
        let fail = |error| Error::io("read directory", shown(self.root, below), error);
        let mut names = Vec::new();
        let directory = ShortPath::new(self.root, below).map_err(fail)?;
        for item in fs::read_dir(&directory.path).map_err(fail)? {
            names.push(item.map_err(fail)?.file_name().into_vec());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the entry for the file at `path` below the root; `None` if it is gone or archives
    /// cannot contain it.
    fn describe(&self, path: &[u8]) -> Result<Option<Entry>> {
        let fail = |error| Error::io("read", shown(self.root, path), error);
        let short = ShortPath::new(self.root, path).map_err(fail)?;
        let facts = match fs::symlink_metadata(&short.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            facts => facts.map_err(fail)?,
        };
        let kind = facts.file_type();
        let kind = match kind {
            _ if kind.is_file() => Kind::File,
            _ if kind.is_dir() => Kind::Directory,
            _ if kind.is_symlink() => Kind::Symlink,
            _ if kind.is_fifo() => Kind::Fifo,
            _ if kind.is_char_device() => Kind::CharacterDevice,
            _ if kind.is_block_device() => Kind::BlockDevice,
            _ => return Ok(None),
        };
        let Ok(path) = EntryPath::new(path) else { return Ok(None) };
        let mut entry = Entry::new(path, kind);
        let mode = u16::try_from(facts.mode() & 0o7777).expect("twelve bits fit");
        entry.metadata = Arc::new(Metadata { mode, ..Metadata::default() });
        let nanoseconds = u32::try_from(facts.mtime_nsec()).unwrap_or(0);
        entry.modified = Some(Timestamp { seconds: facts.mtime(), nanoseconds });
        match kind {
            Kind::File => entry.size = facts.len(),
            Kind::Symlink => {
                entry.target = fs::read_link(&short.path).map_err(fail)?.into_os_string().into_vec().into();
            }
            Kind::CharacterDevice | Kind::BlockDevice => {
                let (major, minor) = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
                entry.device = Some(Device { major, minor });
            }
            Kind::Directory | Kind::Fifo => {}
        }
        Ok(Some(entry))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(directory) = self.enter.take() {
                match self.list(&directory) {
                    Ok(names) => self.stack.push((directory, names.into_iter())),
                    Err(error) => return Some(Err(error)),
                }
            }
            let (directory, names) = self.stack.last_mut()?;
            let Some(name) = names.next() else {
                self.stack.pop();
                continue;
            };
            let mut path = directory.clone();
            crate::source::walk::join(&mut path, &name);
            match self.describe(&path) {
                Ok(None) => {}
                Ok(Some(entry)) => {
                    if entry.kind == Kind::Directory {
                        self.enter = Some(path);
                    }
                    return Some(Ok(entry));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
