//! Files and directories into an archive that is there, as its next commit.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, statat};

use super::{Describer, Job, PackOptions, PackStats, READ_SHARE, input, named, share, walk_options};
use crate::convert::pack::Input;
use crate::convert::walk::{Facts, Handles, Name, Tree, Walk, Window};
use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind, Metadata, Namespace, Timestamp};
use crate::format::error::{Error, Result};
use crate::format::nra::reader::NraReader;
use crate::format::nra::writer::Writer;
use crate::format::path::EntryPath;
use crate::format::progress::Monitor;
use crate::format::source::FileStore;

/// Adds `inputs` to the archive at `archive`; what has the path of an entry takes its place. Paths are those that [`pack`](super::pack) gives.
///
/// With `update`, files of the size and time that the archive knows are not read: only changed metadata is noted. Until the end the archive is what it
/// was, and readers are not disturbed. Mode, owner and attributes of the directory that was packed first stay as they are.
///
/// # Errors
///
/// `Io` when an input or the archive is missing, or another process is changing it; what [`Writer::append`] gives; `Cancelled`. The archive is what it
/// was then.
pub fn add(inputs: &[Input], archive: &Path, options: &PackOptions, update: bool, monitor: &dyn Monitor) -> Result<PackStats> {
    let resolved = input::resolve(inputs, &options.prefix, options.follow_symlinks, monitor)?;
    let mut walk = Walk::new(walk_options(options), resolved.starts)?;
    let name = archive.as_os_str().as_bytes();
    let metadata = fs::metadata(archive).map_err(|error| Error::io("open", name, error))?;
    let store = Arc::new(FileStore::open(archive)?);
    let describer = Describer::new(options)?;
    let (writer_options, read_bytes) = share(options);
    let threads = writer_options.threads.max(1);
    let writer = Writer::append(store, writer_options).map_err(|error| named(error, name))?;
    let known = if update { writer.base().cloned().map(Known) } else { None };
    let own = vec![(metadata.dev(), metadata.ino())];
    let job = Job { describer, options, own, known, threads, read_bytes, monitor };
    let (_, stats) = job.run(&mut walk, writer).map_err(|error| named(error, name))?;
    if stats.written.added + stats.written.replaced + stats.unchanged == 0 && stats.left_out > 0 {
        let path = inputs[0].location().into_os_string().into_encoded_bytes();
        return Err(Error::io("add", path, std::io::Error::other("nothing could be read")));
    }
    Ok(stats)
}

/// Adds `inputs` to the commit that `writer` is making, among its other changes. Paths are those that [`pack`](super::pack) gives. Returns how
/// many names gave no entry; a warning said why for each. The archive itself, at `archive`, is no input.
///
/// # Errors
///
/// `Io` when an input or the archive is missing, what [`Writer::add`] gives, `Cancelled`.
pub fn add_to<W: Write + Send>(
    inputs: &[Input],
    archive: &Path,
    writer: Writer<W>,
    options: &PackOptions,
    monitor: &dyn Monitor,
) -> Result<(Writer<W>, u64)> {
    let own = fs::metadata(archive).map_err(|error| Error::io("open", archive.as_os_str().as_bytes(), error))?;
    let own = vec![(own.dev(), own.ino())];
    let resolved = input::resolve(inputs, &options.prefix, options.follow_symlinks, monitor)?;
    let mut walk = Walk::new(walk_options(options), resolved.starts)?;
    let describer = Describer::new(options)?;
    let threads = options.writer.threads.max(1);
    let read_bytes = options.writer.memory_bytes / READ_SHARE;
    let job = Job { describer, options, own, known: None, threads, read_bytes, monitor };
    Ok(job.fill(&mut walk, writer)?.into_writer())
}

/// The state that is updated.
pub(super) struct Known(Arc<NraReader>);

/// How an entry compares with that of the archive.
pub(super) enum Standing {
    /// It is new, or its content has to be read.
    New,
    /// Its content is that of the archive, its metadata is not.
    Touched,
    /// Nothing has changed.
    Same,
}

impl Known {
    /// Says whether the archive has a file of this size and time at `path`.
    pub(super) fn has_file(&self, path: &[u8], facts: &Facts, time: Option<Timestamp>) -> bool {
        self.find(path).is_some_and(|old| old.kind == Kind::File && old.size == facts.size && is_time(time, &old))
    }

    /// Compares an entry of a file of `size` bytes, or of something that is no file.
    pub(super) fn standing(&self, entry: &Entry, size: u64) -> Standing {
        let Some(old) = self.find(entry.path.as_bytes()) else { return Standing::New };
        let what = |entry: &Entry| (entry.kind, entry.device, entry.implied);
        if what(&old) != what(entry) || old.target != entry.target || old.size != size || !is_time(entry.modified, &old) {
            return Standing::New;
        }
        if is_same_metadata(&old.metadata, &entry.metadata) { Standing::Same } else { Standing::Touched }
    }

    /// An entry that does not read is as good as new.
    fn find(&self, path: &[u8]) -> Option<Entry> {
        self.0.find(path).ok().flatten().map(|(_, entry)| entry)
    }
}

/// Says whether `archive` has an entry of this kind, time and, if it is a file, size.
pub(super) fn has(archive: &dyn Archive, path: &[u8], kind: Kind, facts: &Facts) -> bool {
    let found = archive.find(path).ok().flatten();
    found.is_some_and(|(_, old)| {
        old.kind == kind && is_time(Some(facts.modified), &old) && (kind != Kind::File || old.size == facts.size)
    })
}

/// As [`has`], for a name of a walk.
pub(super) fn has_name(
    archive: &dyn Archive,
    path: &[u8],
    kind: Kind,
    (tree, handles): (&Tree, &Handles),
    name: &Name,
    window: &Window,
) -> bool {
    let Ok(directory) = handles.get(tree, name.directory) else { return false };
    let facts = statat(&directory, window.name(name), AtFlags::SYMLINK_NOFOLLOW);
    facts.is_ok_and(|facts| has(archive, path, kind, &Facts::new(&facts)))
}

fn is_time(time: Option<Timestamp>, old: &Entry) -> bool {
    time.is_some() && time == old.modified
}

/// Compares what comes from the file system: tags that were given later don't count.
fn is_same_metadata(old: &Metadata, new: &Metadata) -> bool {
    let own = |metadata: &Metadata| -> Vec<_> {
        metadata.attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr).cloned().collect()
    };
    (old.mode, &old.owner) == (new.mode, &new.owner) && own(old) == own(new)
}

/// Puts the metadata of a file in the place of what the archive has, and keeps tags.
pub(super) fn touch(old: &mut Entry, new: &Entry) {
    let given = old.metadata.attributes.iter().filter(|attribute| attribute.namespace != Namespace::Xattr);
    let own = new.metadata.attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr);
    let attributes = own.chain(given).cloned().collect();
    old.metadata = Arc::new(Metadata { mode: new.metadata.mode, owner: new.metadata.owner.clone(), attributes });
}

/// A file whose names the archive has, and where.
pub(super) type KeptName = ((u64, u64), EntryPath);
