//! Reading one directory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::filter::{CACHE_SIGNATURE, CACHE_TAG, GITIGNORE, Ignores, Sieve};
use super::{AttributeReader, DirId, Facts, Handles, NameKind, Tree, WalkOptions, join, reason};
use nra_format::entry::Attribute;
use nra_format::progress::{Severity, Warning};

/// Bytes of names asked for in one call.
const NAMES_BUFFER: usize = 64 << 10;
/// Longest `.gitignore` that is read, bytes.
const GITIGNORE_MAX: usize = 1 << 20;

/// What became of a directory that was to be read.
#[derive(Debug)]
pub(super) enum Fate {
    /// It makes no entry: it is only where names stand, or it vanished.
    Nothing,
    /// An entry with this status and these attributes.
    Directory(Facts, Vec<Attribute>),
    /// A symlink that leads back to a directory above it, to be kept as a symlink; number of its inode.
    Link(u64),
}

/// The names in one directory, sorted.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) directory: DirId,
    pub(super) fate: Fate,
    pub(super) warnings: Vec<Warning>,
    pub(super) ignores: Option<Arc<Ignores>>,
    /// Some or all of its names are not known.
    pub(super) is_partial: bool,
    names: Vec<Listed>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Listed {
    start: usize,
    len: u16,
    kind: NameKind,
    inode: u64,
}

impl Listing {
    /// Returns a listing without names of a directory that makes no entry.
    pub(super) fn of_names(directory: DirId) -> Self {
        Self {
            directory,
            fate: Fate::Nothing,
            warnings: Vec::new(),
            ignores: None,
            is_partial: false,
            names: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds a name.
    pub(super) fn push(&mut self, name: &[u8], kind: NameKind, inode: u64) {
        let Ok(len) = u16::try_from(name.len()) else { return };
        self.names.push(Listed { start: self.bytes.len(), len, kind, inode });
        self.bytes.extend_from_slice(name);
    }

    /// Returns a name by number.
    pub(super) fn get(&self, number: usize) -> Option<(&[u8], NameKind, u64)> {
        self.names.get(number).map(|listed| (bytes_of(&self.bytes, listed), listed.kind, listed.inode))
    }

    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|listed| bytes_of(&self.bytes, listed) == name)
    }

    fn warn(&mut self, severity: Severity, path: Vec<u8>, message: String) {
        self.warnings.push(Warning::new(severity, path, message));
    }
}

fn bytes_of<'a>(bytes: &'a [u8], listed: &Listed) -> &'a [u8] {
    &bytes[listed.start..listed.start + usize::from(listed.len)]
}

/// Reads directories on one thread.
#[derive(Debug)]
pub(super) struct Lister<'a> {
    tree: &'a Tree,
    handles: &'a Handles,
    sieve: &'a Sieve,
    options: &'a WalkOptions,
    attributes: AttributeReader,
    buffer: Vec<u8>,
}

impl<'a> Lister<'a> {
    /// Prepares reading.
    pub(super) fn new(tree: &'a Tree, handles: &'a Handles, sieve: &'a Sieve, options: &'a WalkOptions) -> Self {
        let attributes = AttributeReader::default();
        Self { tree, handles, sieve, options, attributes, buffer: Vec::with_capacity(NAMES_BUFFER) }
    }

    /// Reads one directory. `above`: the ignore files of the directories above it.
    pub(super) fn list(&mut self, id: DirId, above: Option<Arc<Ignores>>) -> Listing {
        let mut listing = Listing::of_names(id);
        listing.ignores = above;
        let handle = match self.handles.open_to_list(self.tree, id) {
            Ok(handle) => Arc::new(handle),
            Err(error) => {
                self.not_opened(id, error, &mut listing);
                return listing;
            }
        };
        let facts = match fstat(&handle) {
            Ok(stat) => Facts::new(&stat),
            Err(error) => {
                listing.warn(Severity::Degraded, self.shown(id), reason(error));
                return listing;
            }
        };
        if self.options.follow
            && let Some(parent) = self.tree.parent(id)
            && self.tree.is_above(parent, facts.identity)
        {
            listing.warn(Severity::Remark, self.shown(id), "kept as a symlink: it leads back to a directory above it".to_owned());
            listing.fate = Fate::Link(facts.identity.1);
            return listing;
        }
        let attributes = self.read_attributes(id, &handle, &mut listing);
        listing.fate = Fate::Directory(facts, attributes);
        if self.options.one_file_system && self.device_of_root(id).is_some_and(|device| device != facts.identity.0) {
            return listing;
        }
        if let Err(error) = self.read_names(&handle, &mut listing) {
            listing.is_partial = true;
            listing.warn(Severity::Degraded, self.shown(id), format!("not read to its end: {}", reason(error)));
        }
        self.sift(id, &handle, &mut listing);
        let Listing { names, bytes, .. } = &mut listing;
        names.sort_unstable_by(|a, b| bytes_of(bytes, a).cmp(bytes_of(bytes, b)));
        self.handles.keep(id, handle);
        listing
    }

    fn shown(&self, id: DirId) -> Vec<u8> {
        self.tree.shown_path(id, b"")
    }

    /// Device of the input that `id` lies below; `None` for an input itself.
    fn device_of_root(&self, id: DirId) -> Option<u64> {
        let mut at = self.tree.parent(id)?;
        while let Some(parent) = self.tree.parent(at) {
            at = parent;
        }
        self.tree.identity(at).map(|(device, _)| device)
    }

    /// Reports a directory that can't be read; its own entry is kept if its status is known.
    fn not_opened(&self, id: DirId, error: Errno, listing: &mut Listing) {
        let message = match error {
            Errno::NOENT => "vanished before it was read".to_owned(),
            Errno::LOOP | Errno::NOTDIR => "skipped: it changed its type while it was read".to_owned(),
            error => reason(error),
        };
        listing.is_partial = true;
        listing.warn(Severity::Degraded, self.shown(id), message);
        let Some(parent) = self.tree.parent(id) else { return };
        let flags = if self.options.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let status = self.handles.get(self.tree, parent).and_then(|handle| statat(&handle, self.tree.name(id), flags));
        if let Ok(stat) = status {
            let facts = Facts::new(&stat);
            if facts.file_type == FileType::Directory {
                listing.fate = Fate::Directory(facts, Vec::new());
            }
        }
    }

    fn read_attributes(&mut self, id: DirId, handle: &OwnedFd, listing: &mut Listing) -> Vec<Attribute> {
        if !self.options.xattrs {
            return Vec::new();
        }
        let (attributes, lost) = self.attributes.read(handle);
        if let Some(lost) = lost {
            listing.warn(Severity::Degraded, self.shown(id), lost.to_string());
        }
        attributes
    }

    fn read_names(&mut self, handle: &OwnedFd, listing: &mut Listing) -> Result<(), Errno> {
        let mut names = RawDir::new(handle, self.buffer.spare_capacity_mut());
        while let Some(entry) = names.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || self.sieve.leaves_out_name(name) {
                continue;
            }
            let mut kind = kind_of(entry.file_type());
            let mut inode = entry.ino();
            let link = kind == Some(NameKind::Symlink);
            if kind.is_none() || (link && self.options.follow) {
                let follow = self.options.follow;
                let status =
                    stat_of(handle, name, follow).or_else(|error| if follow { stat_of(handle, name, false) } else { Err(error) });
                match status {
                    Ok(facts) => (kind, inode) = (kind_of(facts.file_type), facts.identity.1),
                    // The name goes on, so that opening it reports what is wrong.
                    Err(_) => kind = kind.or(Some(NameKind::File)),
                }
            }
            listing.push(name, kind.unwrap_or(NameKind::Other), inode);
        }
        Ok(())
    }

    /// Drops what the filter leaves out.
    fn sift(&self, id: DirId, handle: &OwnedFd, listing: &mut Listing) {
        if self.sieve.skip_caches && listing.has(CACHE_TAG) && is_cache(handle) {
            let Listing { names, bytes, .. } = listing;
            names.retain(|listed| bytes_of(bytes, listed) == CACHE_TAG);
        }
        let mut path = Vec::new();
        if self.sieve.gitignore && listing.has(GITIGNORE) {
            self.tree.stored_path(id, &mut path);
            match read_small(handle, GITIGNORE, GITIGNORE_MAX) {
                Ok(text) => listing.ignores = Some(Arc::new(Ignores::new(&text, &path, listing.ignores.take()))),
                Err(error) => listing.warn(
                    Severity::Degraded,
                    self.tree.shown_path(id, GITIGNORE),
                    format!("not obeyed: {}", reason(error)),
                ),
            }
        }
        if listing.names.is_empty() || (!self.sieve.needs_paths() && listing.ignores.is_none()) {
            return;
        }
        self.tree.stored_path(id, &mut path);
        let directory_len = path.len();
        let hidden = self.tree.root(id).hidden_len;
        let Listing { names, bytes, ignores, .. } = listing;
        names.retain(|listed| {
            path.truncate(directory_len);
            join(&mut path, bytes_of(bytes, listed));
            let directory = listed.kind == NameKind::Directory;
            let visible = path.get(hidden..).unwrap_or_default();
            !self.sieve.leaves_out_path(visible, directory) && !ignores.as_ref().is_some_and(|i| i.leave_out(&path, directory))
        });
    }
}

/// Returns what a type of the system stands for; `None` when the system does not say.
fn kind_of(file_type: FileType) -> Option<NameKind> {
    Some(match file_type {
        FileType::RegularFile => NameKind::File,
        FileType::Directory => NameKind::Directory,
        FileType::Symlink => NameKind::Symlink,
        FileType::Fifo => NameKind::Fifo,
        FileType::CharacterDevice => NameKind::CharacterDevice,
        FileType::BlockDevice => NameKind::BlockDevice,
        FileType::Unknown => return None,
        _ => NameKind::Other,
    })
}

fn stat_of(directory: &OwnedFd, name: &[u8], follow: bool) -> Result<Facts, Errno> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    statat(directory, name, flags).map(|stat| Facts::new(&stat))
}

fn is_cache(directory: &OwnedFd) -> bool {
    read_small(directory, CACHE_TAG, CACHE_SIGNATURE.len()).is_ok_and(|text| text == CACHE_SIGNATURE)
}

/// Reads up to `most` bytes from the front of a regular file.
fn read_small(directory: &OwnedFd, name: &[u8], most: usize) -> Result<Vec<u8>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = retry_on_intr(|| openat(directory, name, flags, Mode::empty()))?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut text = vec![0; most];
    let mut len = 0;
    while len < most {
        match retry_on_intr(|| rustix::io::read(file.as_fd(), &mut text[len..]))? {
            0 => break,
            read => len += read,
        }
    }
    text.truncate(len);
    Ok(text)
}
