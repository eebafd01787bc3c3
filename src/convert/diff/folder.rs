//! A directory on disk as a tree to compare: its entries in path order, one directory's names in memory at a time and those above it.

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

/// Longest path that is handed to the system, bytes: its limit is 4,096 with the byte at the end.
const STRIDE: usize = 4_000;
/// Bytes read at once for a digest.
const READ: usize = 1 << 20;

/// The content of a directory.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Takes the directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Tree for Folder {
    fn entries(&self, from: u64) -> Box<dyn Iterator<Item = Result<Entry>> + '_> {
        let mut names = Names { root: &self.root, stack: Vec::new(), enter: Some(Vec::new()) };
        for _ in 0..from {
            let _ = names.next();
        }
        Box::new(names)
    }

    fn pages_at(&self, _number: u64) -> Result<Vec<IndexPage>> {
        Ok(Vec::new())
    }

    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        let fail = |error| Error::io("read", shown(&self.root, entry.path.as_bytes()), error);
        let mut file =
            Place::find(&self.root, entry.path.as_bytes()).and_then(|place| fs::File::open(place.path)).map_err(fail)?;
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

/// A path that the system takes, for one that may be longer than that.
struct Place {
    path: PathBuf,
    /// The directory that `path` begins at, when it is none from the root.
    _from: Option<OwnedFd>,
}

impl Place {
    /// Finds what lies at `below` in `root`: as it is when that is short enough, otherwise from a directory further down.
    fn find(root: &Path, below: &[u8]) -> io::Result<Self> {
        let mut path = root.join(OsStr::from_bytes(below));
        let mut from: Option<OwnedFd> = None;
        while path.as_os_str().len() > STRIDE {
            let whole = path.into_os_string().into_vec();
            let slash = whole[..STRIDE].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if slash == 0 {
                return Err(Errno::NAMETOOLONG.into());
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let handle = rustix::fs::open(OsStr::from_bytes(&whole[..slash]), flags, Mode::empty())?;
            let rest = OsStr::from_bytes(&whole[slash + 1..]);
            path = PathBuf::from(path_of(&handle)).join(rest);
            from = Some(handle);
        }
        Ok(Self { path, _from: from })
    }
}

/// A path for messages.
fn shown(root: &Path, below: &[u8]) -> Vec<u8> {
    root.join(OsStr::from_bytes(below)).into_os_string().into_vec()
}

/// A walk in path order: a directory, then what is in it, then its next sibling.
struct Names<'a> {
    root: &'a Path,
    /// For each open directory its path below the root and the names that are left.
    stack: Vec<(Vec<u8>, vec::IntoIter<Vec<u8>>)>,
    /// A directory to read next.
    enter: Option<Vec<u8>>,
}

impl Names<'_> {
    fn list(&self, below: &[u8]) -> Result<Vec<Vec<u8>>> {
        let fail = |error| Error::io("read directory", shown(self.root, below), error);
        let mut names = Vec::new();
        let place = Place::find(self.root, below).map_err(fail)?;
        for item in fs::read_dir(&place.path).map_err(fail)? {
            names.push(item.map_err(fail)?.file_name().into_vec());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Describes the file at `path` below the root; `None` for what no archive holds, and what is gone.
    fn describe(&self, path: &[u8]) -> Result<Option<Entry>> {
        let fail = |error| Error::io("read", shown(self.root, path), error);
        let place = Place::find(self.root, path).map_err(fail)?;
        let facts = match fs::symlink_metadata(&place.path) {
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
                entry.target = fs::read_link(&place.path).map_err(fail)?.into_os_string().into_vec().into();
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

impl Iterator for Names<'_> {
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
