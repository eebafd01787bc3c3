//! Reads one directory.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::filter::{CACHE_SIGNATURE, CACHE_TAG, FilterMatcher, GITIGNORE, Ignores};
use super::{AttributeReader, DirId, Facts, Handles, NameKind, Tree, WalkOptions, Window, join, reason};
use nra_format::entry::Attribute;
use nra_format::progress::{Severity, Warning};

/// Size of the buffer for names, bytes.
const NAMES_BUFFER: usize = 64 << 10;
/// Maximum length of a `.gitignore` that is read, bytes.
const GITIGNORE_MAX: u64 = 1 << 20;

/// The entry of a directory.
#[derive(Debug)]
pub(super) enum Fate {
    /// None: the directory only contains names of inputs, or it vanished.
    Skip,
    /// A directory with this status and these attributes.
    Directory(Facts, Vec<Attribute>),
    /// A symlink to a directory above it, which is stored as a symlink; its inode number.
    Link(u64),
}

/// The names in one directory, sorted.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) directory: DirId,
    pub(super) fate: Fate,
    pub(super) warnings: Vec<Warning>,
    pub(super) ignores: Option<Arc<Ignores>>,
    /// The names could not be read completely.
    pub(super) is_partial: bool,
    pub(super) found: Window,
}

impl Listing {
    /// Returns an empty listing of a directory without an entry.
    pub(super) fn of_names(directory: DirId) -> Self {
        let found = Window::default();
        Self { directory, fate: Fate::Skip, warnings: Vec::new(), ignores: None, is_partial: false, found }
    }

    /// Adds a name.
    pub(super) fn push(&mut self, name: &[u8], kind: NameKind, inode: u64) {
        self.found.push(self.directory, kind, inode, name);
    }

    fn has(&self, name: &[u8]) -> bool {
        self.found.names.iter().any(|known| self.found.name(known) == name)
    }

    fn warn(&mut self, severity: Severity, path: Vec<u8>, message: String) {
        self.warnings.push(Warning::new(severity, path, message));
    }
}

/// Reads directories on one thread.
#[derive(Debug)]
pub(super) struct Lister<'a> {
    tree: &'a Tree,
    handles: &'a Handles,
    matcher: &'a FilterMatcher,
    options: &'a WalkOptions,
    attributes: AttributeReader,
    buffer: Vec<u8>,
}

impl<'a> Lister<'a> {
    /// Prepares reading.
    pub(super) fn new(tree: &'a Tree, handles: &'a Handles, matcher: &'a FilterMatcher, options: &'a WalkOptions) -> Self {
        let attributes = AttributeReader::default();
        Self { tree, handles, matcher, options, attributes, buffer: Vec::with_capacity(NAMES_BUFFER) }
    }

    /// Reads one directory. `above`: the `.gitignore` files of the directories above it.
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
            listing.warn(Severity::Remark, self.shown(id), "kept as a symlink: it refers to a directory above it".to_owned());
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
            listing.warn(Severity::Degraded, self.shown(id), format!("not read completely: {}", reason(error)));
        }
        self.filter(id, &handle, &mut listing);
        let Window { names, bytes, .. } = &mut listing.found;
        names.sort_unstable_by(|a, b| a.of(bytes).cmp(b.of(bytes)));
        self.handles.keep(id, handle);
        listing
    }

    fn shown(&self, id: DirId) -> Vec<u8> {
        self.tree.shown_path(id, b"")
    }

    /// Returns the device of the input that contains `id`; `None` for an input itself.
    fn device_of_root(&self, id: DirId) -> Option<u64> {
        let mut at = self.tree.parent(id)?;
        while let Some(parent) = self.tree.parent(at) {
            at = parent;
        }
        self.tree.identity(at).map(|(device, _)| device)
    }

    /// Reports an unreadable directory. Its entry is kept if its status is known.
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
            if name == b"." || name == b".." || self.matcher.skips_name(name) {
                continue;
            }
            let mut kind = NameKind::of(entry.file_type());
            let mut inode = entry.ino();
            let link = kind == Some(NameKind::Symlink);
            if kind.is_none() || (link && self.options.follow) {
                let follow = self.options.follow;
                let status =
                    stat_of(handle, name, follow).or_else(|error| if follow { stat_of(handle, name, false) } else { Err(error) });
                match status {
                    Ok(facts) => (kind, inode) = (NameKind::of(facts.file_type), facts.identity.1),
                    // The name is kept, so that opening the file reports the reason.
                    Err(_) => kind = kind.or(Some(NameKind::File)),
                }
            }
            listing.push(name, kind.unwrap_or(NameKind::Other), inode);
        }
        Ok(())
    }

    /// Removes the names that the filter skips.
    fn filter(&self, id: DirId, handle: &OwnedFd, listing: &mut Listing) {
        if self.matcher.skip_caches && listing.has(CACHE_TAG) && is_cache(handle) {
            let Window { names, bytes, .. } = &mut listing.found;
            names.retain(|name| name.of(bytes) == CACHE_TAG);
        }
        let mut path = Vec::new();
        if self.matcher.gitignore && listing.has(GITIGNORE) {
            self.tree.stored_path(id, &mut path);
            match read_small(handle, GITIGNORE, GITIGNORE_MAX) {
                Ok(text) => listing.ignores = Some(Arc::new(Ignores::new(&text, &path, listing.ignores.take()))),
                Err(error) => listing.warn(
                    Severity::Degraded,
                    self.tree.shown_path(id, GITIGNORE),
                    format!("ignored: {}", nra_format::error::reason(&error)),
                ),
            }
        }
        if listing.found.names.is_empty() || (!self.matcher.needs_paths() && listing.ignores.is_none()) {
            return;
        }
        self.tree.stored_path(id, &mut path);
        let directory_len = path.len();
        let hidden = self.tree.root(id).hidden_len;
        let Listing { found: Window { names, bytes, .. }, ignores, .. } = listing;
        names.retain(|name| {
            path.truncate(directory_len);
            join(&mut path, name.of(bytes));
            let directory = name.kind == NameKind::Directory;
            let visible = path.get(hidden..).unwrap_or_default();
            !self.matcher.skips_path(visible, directory) && !ignores.as_ref().is_some_and(|i| i.skips(&path, directory))
        });
    }
}

fn stat_of(directory: &OwnedFd, name: &[u8], follow: bool) -> Result<Facts, Errno> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    statat(directory, name, flags).map(|stat| Facts::new(&stat))
}

fn is_cache(directory: &OwnedFd) -> bool {
    read_small(directory, CACHE_TAG, CACHE_SIGNATURE.len() as u64).is_ok_and(|text| text == CACHE_SIGNATURE)
}

/// Reads up to `most` bytes from the start of a regular file.
fn read_small(directory: &OwnedFd, name: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(retry_on_intr(|| openat(directory, name, flags, Mode::empty()))?);
    if !file.metadata()?.is_file() {
        return Err(Errno::INVAL.into());
    }
    let mut text = Vec::new();
    file.take(most).read_to_end(&mut text)?;
    Ok(text)
}
