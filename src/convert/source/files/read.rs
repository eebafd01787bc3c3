//! Reads files for packing with few system calls: open, status, attributes, one read and close for
//! a small file.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::add::{Comparison, ExistingEntries, keep_tags};
use super::content::{Opened, Stream, first_hole, read_front};
use super::describe::{Describer, LastMetadata};
use super::plan::Plan;
use super::skip::{CHANGED_TYPE, Failed, OWN, SOCKET, broken_symlink};
use super::store::FileFact;
use crate::pipeline::{ByteRange, EntryPart, EntryReader, EntrySource, Outlet, Stopped, hash_chunk};
use crate::source::walk::{AttributeReader, DirId, Facts, Handles, Name, NameKind, Tree, Window, join};
use nra_format::chunker::MAX_SINGLE_CHUNK_LEN;
use nra_format::entry::{Attribute, Entry, Kind};
use nra_format::path::EntryPath;
use nra_format::progress::{Monitor, Severity, Warning};

/// Shorter files are not checked for holes, bytes: a hole has at least one page.
const HOLE_MIN: u64 = 4_096;
/// The status of files up to this length is not checked after reading if it was at rest, bytes:
/// that saves one call of six, and a page is copied atomically.
const RESTING_MAX: usize = 4_096;
/// A status is at rest if it has not changed for this long.
const REST: Duration = Duration::from_secs(2);
/// Warning about a file that was written to while it was read.
const CHANGED: &str = "changed while it was read";

/// Shared by all readers of a window.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) tree: &'a Tree,
    pub(super) handles: &'a Handles,
    pub(super) window: &'a Window,
    pub(super) plan: &'a Plan,
    pub(super) describer: &'a Describer,
    pub(super) monitor: &'a dyn Monitor,
    /// Store the targets of symlinks.
    pub(super) follow: bool,
    /// Read extended attributes.
    pub(super) xattrs: bool,
    /// Ask the file system for holes.
    pub(super) holes: bool,
    /// Device and inode of files that must not be packed: the output.
    pub(super) own: &'a [(u64, u64)],
    /// The archive that is added to.
    pub(super) known: Option<&'a ExistingEntries>,
    /// Names in the windows before this one: link groups are numbered by positions across all of
    /// them.
    pub(super) links_before: u64,
    /// Defer files with names outside of this window.
    pub(super) defer: bool,
    /// Read no content.
    pub(super) dry_run: bool,
}

/// Reads names on one thread.
pub(super) struct Reader<'a> {
    context: Context<'a>,
    /// Directory of the last name: its handle, and its path in the archive.
    at: Option<(DirId, Arc<OwnedFd>)>,
    directory_path: Vec<u8>,
    /// The conflict of entries in that directory.
    blocked: Option<String>,
    metadata: LastMetadata,
    attributes: AttributeReader,
    /// Opening without updating the access time is permitted.
    no_atime: bool,
    path: Vec<u8>,
}

impl EntrySource<FileFact> for Context<'_> {
    fn reader(&self) -> Box<dyn EntryReader<FileFact> + '_> {
        Box::new(Reader::new(*self))
    }
}

impl EntryReader<FileFact> for Reader<'_> {
    fn read_entry(&mut self, position: u32, outlet: &mut Outlet<FileFact>) -> Result<(), Stopped> {
        self.read(position, true, outlet)
    }
}

impl<'a> Reader<'a> {
    /// Prepares reading.
    pub(super) fn new(context: Context<'a>) -> Self {
        Self {
            context,
            at: None,
            directory_path: Vec::new(),
            blocked: None,
            metadata: LastMetadata::default(),
            attributes: AttributeReader::default(),
            no_atime: true,
            path: Vec::new(),
        }
    }

    /// Reads the name at `position` into `outlet`. `as_link`: the result may be [`FileFact::Link`].
    pub(super) fn read(&mut self, position: u32, as_link: bool, outlet: &mut Outlet<FileFact>) -> Result<(), Stopped> {
        let Context { window, plan, .. } = self.context;
        let name = &window.names[plan.name_at(position)];
        match self.read_name(position, name, as_link, outlet) {
            Ok(()) => Ok(()),
            Err(Failed::Stopped) => Err(Stopped),
            Err(Failed::Skip(message)) => {
                self.warn(Severity::Degraded, name, message);
                outlet.push(position, None, EntryPart::Nothing);
                Ok(())
            }
        }
    }

    fn warn(&self, severity: Severity, name: &Name, message: String) {
        let path = self.context.tree.shown_path(name.directory, self.context.window.name(name));
        self.context.monitor.warn(Warning::new(severity, path, message));
    }

    /// Returns the handle of a directory and remembers its path in the archive.
    fn enter(&mut self, directory: DirId) -> Result<Arc<OwnedFd>, Errno> {
        if let Some((id, handle)) = &self.at
            && *id == directory
        {
            return Ok(handle.clone());
        }
        let Context { tree, handles, .. } = self.context;
        let handle = handles.get(tree, directory)?;
        tree.stored_path(directory, &mut self.directory_path);
        let path = EntryPath::new(self.directory_path.as_slice()).ok();
        self.blocked = path.and_then(|path| self.context.known?.conflict_above(&path));
        self.at = Some((directory, handle.clone()));
        Ok(handle)
    }

    /// Returns the path of an entry, and the entry of the archive there, which must not conflict.
    fn entry_path(&mut self, name: &[u8], kind: Kind) -> Result<(EntryPath, Option<Entry>), Failed> {
        self.path.clear();
        self.path.extend_from_slice(&self.directory_path);
        join(&mut self.path, name);
        let path = EntryPath::new(self.path.as_slice()).map_err(|error| Failed::Skip(format!("skipped: {error}")))?;
        let Some(known) = self.context.known else { return Ok((path, None)) };
        let old = known.find(&path);
        if let Some(message) = known.conflict_with(old.as_ref(), kind).or_else(|| self.blocked.clone()) {
            known.skip();
            return Err(Failed::Skip(message));
        }
        Ok((path, old))
    }

    /// Returns an entry, and the entry of the archive that it replaces.
    fn describe(
        &mut self,
        name: &[u8],
        kind: Kind,
        facts: &Facts,
        attributes: Vec<Attribute>,
    ) -> Result<(Entry, Option<Entry>), Failed> {
        let (path, old) = self.entry_path(name, kind)?;
        let mut entry = self.context.describer.entry(path, kind, facts, attributes, &mut self.metadata);
        keep_tags(&mut entry, old.as_ref());
        Ok((entry, old))
    }

    fn read_name(&mut self, position: u32, name: &Name, as_link: bool, outlet: &mut Outlet<FileFact>) -> Result<(), Failed> {
        let directory = self.enter(name.directory)?;
        match name.kind {
            NameKind::File if as_link && self.context.plan.is_repeated(position) => {
                self.read_link(position, name, &directory, outlet)
            }
            NameKind::File => self.read_file(position, name, false, &directory, outlet),
            NameKind::Symlink | NameKind::Fifo | NameKind::CharacterDevice | NameKind::BlockDevice => {
                self.read_node(position, name, &directory, outlet)
            }
            NameKind::Other => Err(Failed::Skip(SOCKET.to_owned())),
            NameKind::Directory => Err(Failed::Skip(CHANGED_TYPE.to_owned())),
        }
    }

    /// Reads a further name of a file that is read at another position, as its status confirms.
    fn read_link(
        &mut self,
        position: u32,
        name: &Name,
        directory: &OwnedFd,
        outlet: &mut Outlet<FileFact>,
    ) -> Result<(), Failed> {
        let bytes = self.context.window.name(name);
        let facts = Facts::new(&statat(directory, bytes, self.at_flags())?);
        if let Some(known) = self.context.known {
            let (_, old) = self.entry_path(bytes, Kind::File)?;
            if known.has(old.as_ref(), Kind::File, &facts, self.context.describer.time(&facts)) {
                return self.read_file(position, name, true, directory, outlet);
            }
        }
        let part = if self.is_deferred(position, &facts) {
            EntryPart::Other(FileFact::Defer)
        } else {
            EntryPart::Other(FileFact::Link(facts.identity))
        };
        outlet.push(position, Some(facts.identity), part);
        Ok(())
    }

    fn at_flags(&self) -> AtFlags {
        if self.context.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
    }

    fn is_deferred(&self, position: u32, facts: &Facts) -> bool {
        self.context.defer && facts.links > self.context.plan.names_of_inode(position)
    }

    /// Reads a symlink, fifo or device.
    fn read_node(
        &mut self,
        position: u32,
        name: &Name,
        directory: &OwnedFd,
        outlet: &mut Outlet<FileFact>,
    ) -> Result<(), Failed> {
        let bytes = self.context.window.name(name);
        let is_symlink = name.kind == NameKind::Symlink;
        let flags = if is_symlink { AtFlags::SYMLINK_NOFOLLOW } else { self.at_flags() };
        let facts = Facts::new(&statat(directory, bytes, flags)?);
        if self.context.own.contains(&facts.identity) {
            self.warn(Severity::Remark, name, OWN.to_owned());
            outlet.push(position, None, EntryPart::Other(FileFact::Own));
            return Ok(());
        }
        let kind = match facts.file_type {
            FileType::Symlink if is_symlink => Kind::Symlink,
            FileType::Fifo if !is_symlink => Kind::Fifo,
            FileType::CharacterDevice if !is_symlink => Kind::CharacterDevice,
            FileType::BlockDevice if !is_symlink => Kind::BlockDevice,
            _ => return Err(Failed::Skip(CHANGED_TYPE.to_owned())),
        };
        let mut target = Box::default();
        if is_symlink {
            if self.context.follow
                && let Some(message) = broken_symlink(directory, bytes)
            {
                self.warn(Severity::Remark, name, message);
            }
            target = retry_on_intr(|| readlinkat(directory, bytes, Vec::new()))?.into_bytes().into();
        }
        let attributes = self.attributes_by_name(name, bytes, directory);
        let (mut entry, old) = self.describe(bytes, kind, &facts, attributes)?;
        entry.target = target;
        let part = self.compared(&entry, old.as_ref(), 0, None);
        outlet.push(position, None, part.unwrap_or(EntryPart::Plain(entry)));
        Ok(())
    }

    /// Returns what to do with an entry that the archive has; `None` for a new one.
    fn compared(
        &self,
        entry: &Entry,
        old: Option<&Entry>,
        size: u64,
        identity: Option<(u64, u64)>,
    ) -> Option<EntryPart<FileFact>> {
        match self.context.known?.compare(entry, old, size) {
            Comparison::New => None,
            Comparison::Touched => Some(EntryPart::Other(FileFact::Touched(Box::new(entry.clone())))),
            Comparison::Same => Some(EntryPart::Other(FileFact::Same(identity.map(|_| entry.path.clone())))),
        }
    }

    /// Reads the attributes of a file that can't be opened, through the handle of its directory.
    fn attributes_by_name(&mut self, name: &Name, bytes: &[u8], directory: &OwnedFd) -> Vec<Attribute> {
        if !self.context.xattrs {
            return Vec::new();
        }
        let mut path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(directory)).into_bytes();
        join(&mut path, bytes);
        let (attributes, lost) = self.attributes.read_path(&path);
        // Report errors of existing files only: without /proc, none can be read.
        if let Some(lost) = lost.filter(|lost| !lost.is_absent()) {
            self.warn(Severity::Degraded, name, lost.to_string());
        }
        attributes
    }

    fn open(&mut self, bytes: &[u8], directory: &OwnedFd) -> Result<OwnedFd, Errno> {
        let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if !self.context.follow {
            flags |= OFlags::NOFOLLOW;
        }
        if self.no_atime {
            match retry_on_intr(|| openat(directory, bytes, flags | OFlags::NOATIME, Mode::empty())) {
                // Only the owner may do that: do not try again on this thread.
                Err(Errno::PERM) => self.no_atime = false,
                result => return result,
            }
        }
        retry_on_intr(|| openat(directory, bytes, flags, Mode::empty()))
    }

    /// Reads a file. `as_link`: the result for a further name may be [`FileFact::Link`].
    fn read_file(
        &mut self,
        position: u32,
        name: &Name,
        as_link: bool,
        directory: &OwnedFd,
        outlet: &mut Outlet<FileFact>,
    ) -> Result<(), Failed> {
        let bytes = self.context.window.name(name);
        let file = self.open(bytes, directory)?;
        let facts = Facts::new(&fstat(&file)?);
        if facts.file_type != FileType::RegularFile {
            return Err(Failed::Skip(CHANGED_TYPE.to_owned()));
        }
        if self.context.own.contains(&facts.identity) {
            self.warn(Severity::Remark, name, OWN.to_owned());
            outlet.push(position, None, EntryPart::Other(FileFact::Own));
            return Ok(());
        }
        let identity = (facts.links > 1).then_some(facts.identity);
        if self.is_deferred(position, &facts) {
            outlet.push(position, identity, EntryPart::Other(FileFact::Defer));
            return Ok(());
        }
        let mut attributes = Vec::new();
        if self.context.xattrs {
            let lost;
            (attributes, lost) = self.attributes.read(&file);
            if let Some(lost) = lost {
                self.warn(Severity::Degraded, name, lost.to_string());
            }
        }
        let (mut entry, old) = self.describe(bytes, Kind::File, &facts, attributes)?;
        match self.compared(&entry, old.as_ref(), facts.size, identity) {
            // The names of one file stay together: it is stored again, and the others become links
            // to it.
            Some(EntryPart::Other(FileFact::Touched(_))) if identity.is_some() => {
                if let Some(identity) = identity.filter(|_| as_link) {
                    outlet.push(position, Some(identity), EntryPart::Other(FileFact::Link(identity)));
                    return Ok(());
                }
            }
            // The file had several names before, and has one now.
            Some(EntryPart::Other(FileFact::Same(_))) if identity.is_none() && old.is_some_and(|old| old.link_group != 0) => {}
            Some(part) => {
                outlet.push(position, identity, part);
                return Ok(());
            }
            None => {}
        }
        if identity.is_some() && self.context.plan.names_of_inode(position) > 1 {
            entry.link_group = self.context.links_before + 1 + u64::from(position);
        }
        if facts.size == 0 || self.context.dry_run {
            outlet.push(position, identity, EntryPart::Plain(entry));
            return Ok(());
        }
        let sparse = self.context.holes
            && facts.size >= HOLE_MIN
            && facts.allocated_bytes < facts.size
            && first_hole(&file, facts.size).is_some();
        let opened = Opened { position, identity, name, fd: &file, size: facts.size };
        if sparse || facts.size > MAX_SINGLE_CHUNK_LEN as u64 {
            let mut stream = Stream { file: &opened, sparse, hasher: Some(blake3::Hasher::new()), holes: 0 };
            outlet.push(position, identity, EntryPart::Begin(entry));
            let end = match stream.read(self.context.monitor, outlet) {
                Ok(read) => {
                    self.check_unchanged(name, &file, &facts, read);
                    EntryPart::End(stream.hasher.map(|hasher| hasher.finalize().into()))
                }
                Err(failed) => {
                    outlet.push(position, identity, EntryPart::Abandon);
                    return match failed {
                        Failed::Skip(message) => {
                            self.warn(Severity::Degraded, name, message);
                            Ok(())
                        }
                        Failed::Stopped => Err(failed),
                    };
                }
            };
            outlet.push(position, identity, end);
            return Ok(());
        }
        self.read_whole(&opened, entry, &facts, outlet)
    }

    fn read_whole(
        &mut self,
        file: &Opened<'_>,
        entry: Entry,
        facts: &Facts,
        outlet: &mut Outlet<FileFact>,
    ) -> Result<(), Failed> {
        let Opened { position, identity, name, .. } = *file;
        let size = usize::try_from(file.size).expect("small files fit in memory");
        // Reading one more byte detects growth, and saves the read that finds the end.
        outlet.make_room(size + 1)?;
        let start = outlet.batch.filled;
        let mut len = read_front(file.fd, &mut outlet.batch.bytes[start..=start + size], size)?;
        if len > size {
            self.warn(Severity::Remark, name, "grew while it was read; stored without the added bytes".to_owned());
            len = size;
        } else if len < size || size > RESTING_MAX || !is_at_rest(facts) {
            self.check_unchanged(name, file.fd, facts, len as u64);
        }
        if len == 0 {
            outlet.push(position, identity, EntryPart::Plain(entry));
            return Ok(());
        }
        let run = ByteRange { start, len };
        outlet.batch.filled += len;
        let chunk = hash_chunk(outlet.batch.run(run), run);
        outlet.push(position, identity, EntryPart::Whole(entry, chunk));
        Ok(())
    }

    /// Warns when a file changed while it was read.
    fn check_unchanged(&self, name: &Name, file: &OwnedFd, before: &Facts, read: u64) {
        if read < before.size {
            self.warn(Severity::Degraded, name, "shrank while it was read".to_owned());
            return;
        }
        let Ok(stat) = fstat(file) else { return };
        let after = Facts::new(&stat);
        if after.size > before.size {
            self.warn(Severity::Remark, name, "grew while it was read; stored without the added bytes".to_owned());
        } else if after.size < before.size || after.modified != before.modified {
            self.warn(Severity::Degraded, name, CHANGED.to_owned());
        }
    }
}

/// Returns whether a file has not changed recently.
fn is_at_rest(facts: &Facts) -> bool {
    let Ok(seconds) = u64::try_from(facts.changed.seconds) else { return true };
    let changed = Duration::new(seconds, facts.changed.nanoseconds);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(changed).is_some_and(|since| since > REST)
}
