//! Adds files to an existing archive, as its next commit.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Describer, Job, WalkSource, named, reject_input};
use crate::options::Options;
use crate::pipeline::Visit;
use crate::sink::CommitSink;
use crate::source::walk::{Facts, Walk};
use crate::stats::Stats;
use nra_format::entry::{Entry, Kind, Metadata, Namespace, Timestamp};
use nra_format::error::{Error, Result};
use nra_format::nra::writer::{Snapshot, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::Monitor;
use nra_format::source::{FileStore, Rehearsal, Store};

/// Adds files to the archive at `archive`. An entry replaces the one of the same path, and keeps
/// its tags and its media type unless it has others.
///
/// Until the end the archive is unchanged, and readers are not disturbed. Mode, owner and
/// attributes of the directory that was packed first stay. A dry run adds the entries without their
/// content, discards all writes, and passes the entries to `dry_run`.
pub(crate) fn add(
    source: &WalkSource,
    archive: &Path,
    sink: &CommitSink,
    dry_run: Option<Visit<'_>>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let resolved = source.resolve(monitor)?;
    let mut walk = Walk::new(source.walk_options(options), resolved.starts)?;
    let name = archive.as_os_str().as_bytes();
    let (writer_options, read_bytes) = options.writer(&sink.writer);
    let own = identity(archive)?;
    reject_input(&source.inputs, own, "add", "it is the archive itself")?;
    let file = FileStore::open(archive)?;
    let store: Arc<dyn Store> = if dry_run.is_some() { Arc::new(Rehearsal(file)) } else { Arc::new(file) };
    let mut writer = Writer::append(store, writer_options).map_err(|error| named(error, name))?;
    let describer = Describer::new(source, options)?;
    let known = ExistingEntries::new(writer.snapshot()?, sink.update, sink.overwrite);
    let job = Job { describer, source, options, own: vec![own], known: Some(known), dry_run, read_bytes, monitor };
    let (_, stats) = job.run(&mut walk, writer).map_err(|error| named(error, name))?;
    if stats.written.added + stats.written.replaced + stats.unchanged + stats.conflicts == 0 && stats.skipped > 0 {
        let path = source.inputs[0].location().into_os_string().into_encoded_bytes();
        return Err(Error::io("add", path, std::io::Error::other("nothing could be read")));
    }
    Ok(stats)
}

/// Adds files to the commit that `writer` is making, among its other changes. The archive itself,
/// at `archive`, is skipped.
pub(crate) fn add_to<W: Write + Send>(
    source: &WalkSource,
    archive: &Path,
    writer: &mut Writer<W>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let own = vec![identity(archive)?];
    let resolved = source.resolve(monitor)?;
    let mut walk = Walk::new(source.walk_options(options), resolved.starts)?;
    let describer = Describer::new(source, options)?;
    let read_bytes = options.writer(&WriterOptions::default()).1;
    let known = ExistingEntries::new(writer.snapshot()?, false, false);
    let job = Job { describer, source, options, own, known: Some(known), dry_run: None, read_bytes, monitor };
    job.fill(&mut walk, writer)
}

/// Returns device and inode of the archive.
pub(super) fn identity(archive: &Path) -> Result<(u64, u64)> {
    let metadata = fs::metadata(archive).map_err(|error| Error::io("open", archive.as_os_str().as_bytes(), error))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The entries of the archive before the commit.
pub(super) struct ExistingEntries {
    snapshot: Snapshot,
    /// Do not read files that the archive has with the same size and time.
    update: bool,
    /// Replace directories by other kinds of files, and the reverse.
    overwrite: bool,
    conflicts: AtomicU64,
}

/// How an entry compares with that of the archive.
pub(super) enum Comparison {
    /// It is new, or its content has to be read.
    New,
    /// The archive has its content with other metadata.
    Touched,
    /// Nothing has changed.
    Same,
}

impl ExistingEntries {
    fn new(snapshot: Snapshot, update: bool, overwrite: bool) -> Self {
        Self { snapshot, update, overwrite, conflicts: AtomicU64::new(0) }
    }

    /// Returns how many names were skipped because of a conflicting entry.
    pub(super) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Returns the entry of the archive at `path`. An unreadable one is treated as missing.
    pub(super) fn find(&self, path: &EntryPath) -> Option<Entry> {
        self.snapshot.find(path).ok().flatten()
    }

    /// Returns whether files are compared and `old` has this kind, time and, for a file, size.
    pub(super) fn has(&self, old: Option<&Entry>, kind: Kind, facts: &Facts, time: Option<Timestamp>) -> bool {
        let same = |old: &Entry| old.kind == kind && is_time(time, old) && (kind != Kind::File || old.size == facts.size);
        self.update && old.is_some_and(same)
    }

    /// Compares an entry; `size` is the length of a file, 0 for others.
    pub(super) fn compare(&self, entry: &Entry, old: Option<&Entry>, size: u64) -> Comparison {
        let Some(old) = old.filter(|_| self.update) else { return Comparison::New };
        let what = |entry: &Entry| (entry.kind, entry.device, entry.implied);
        if what(old) != what(entry) || old.target != entry.target || old.size != size || !is_time(entry.modified, old) {
            return Comparison::New;
        }
        if is_same_metadata(&old.metadata, &entry.metadata) { Comparison::Same } else { Comparison::Touched }
    }

    /// Returns the conflict of any entry below a directory.
    pub(super) fn conflict_above(&self, directory: &EntryPath) -> Option<String> {
        if self.overwrite {
            return None;
        }
        for at in std::iter::successors(Some(directory.clone()), EntryPath::parent) {
            match self.find(&at).map(|old| old.kind) {
                Some(Kind::Directory) => return None,
                Some(_) => return Some(format!("skipped: {at} is not a directory in the archive")),
                None => {}
            }
        }
        None
    }

    /// Returns why an entry of this kind can't replace `old`.
    pub(super) fn conflict_with(&self, old: Option<&Entry>, kind: Kind) -> Option<String> {
        let is_directory = old.filter(|_| !self.overwrite)?.kind == Kind::Directory;
        if is_directory == (kind == Kind::Directory) {
            return None;
        }
        Some(format!("skipped: it is {} directory in the archive", if is_directory { "a" } else { "not a" }))
    }

    /// Counts a name that is skipped because of a conflicting entry.
    pub(super) fn skip(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Copies tags and media type of the replaced entry, unless the entry has others.
pub(super) fn keep_tags(entry: &mut Entry, old: Option<&Entry>) {
    let Some(old) = old.filter(|old| old.kind == entry.kind) else { return };
    let mut attributes = entry.metadata.attributes.to_vec();
    for given in old.metadata.attributes.iter().filter(|attribute| attribute.is_user_defined()) {
        if !attributes.iter().any(|own| own.has_same_name(given)) {
            given.clone().insert_into(&mut attributes);
        }
    }
    if attributes.len() > entry.metadata.attributes.len() {
        entry.metadata = Arc::new(Metadata { attributes: attributes.into(), ..Metadata::clone(&entry.metadata) });
    }
}

fn is_time(time: Option<Timestamp>, old: &Entry) -> bool {
    time.is_some() && time == old.modified
}

/// Compares metadata of the file system; tags are ignored.
fn is_same_metadata(old: &Metadata, new: &Metadata) -> bool {
    let own = |metadata: &Metadata| -> Vec<_> {
        metadata.attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr).cloned().collect()
    };
    (old.mode, &old.owner) == (new.mode, &new.owner) && own(old) == own(new)
}

/// Replaces the metadata of an entry by that of the file, and keeps tags.
pub(super) fn touch(old: &mut Entry, new: &Entry) {
    let given = old.metadata.attributes.iter().filter(|attribute| attribute.namespace != Namespace::Xattr);
    let own = new.metadata.attributes.iter().filter(|attribute| attribute.namespace == Namespace::Xattr);
    let attributes = own.chain(given).cloned().collect();
    old.metadata = Arc::new(Metadata { mode: new.metadata.mode, owner: new.metadata.owner.clone(), attributes });
}

/// A file that the archive has, and its path there.
pub(super) type KeptName = ((u64, u64), EntryPath);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::files::Input;
    use nra_format::nra::writer::{AppendDestination, NewContent};
    use nra_format::progress::Recorder;

    /// Pending changes of the browser form one commit: removed entries cause no conflicts, moved
    /// entries do.
    #[test]
    fn conflicts_depend_on_pending_changes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let path = |text: &str| EntryPath::try_from(text).unwrap();
        let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
        writer.add(Entry::new(path("box/old"), Kind::File), NewContent::None).unwrap();
        std::fs::write(at("a.nra"), writer.finish(&Recorder::default()).unwrap().0).unwrap();
        std::fs::write(at("box"), "a file").unwrap();
        let add = |before: &dyn Fn(&mut Writer<AppendDestination>)| {
            let store = Arc::new(FileStore::open(&at("a.nra")).unwrap());
            let mut writer = Writer::append(store, WriterOptions::balanced()).unwrap();
            before(&mut writer);
            let source = WalkSource::new([Input::new(at("box"))]);
            let options = Options::default().resolved();
            let skipped = add_to(&source, &at("a.nra"), &mut writer, &options, &Recorder::default()).unwrap().skipped;
            let kind = |writer: &mut Writer<AppendDestination>, text| {
                writer.snapshot().unwrap().find(&path(text)).unwrap().map(|entry| entry.kind)
            };
            (skipped, kind(&mut writer, "box"), kind(&mut writer, "box/old"))
        };
        assert_eq!(add(&|_| ()), (1, Some(Kind::Directory), Some(Kind::File)));
        assert_eq!(add(&|writer| writer.remove(&path("box")).unwrap()), (0, Some(Kind::File), None));
        let moved = |writer: &mut Writer<AppendDestination>| {
            writer.rename(&path("box"), &path("other")).unwrap();
            writer.rename(&path("other"), &path("box")).unwrap();
        };
        assert_eq!(add(&moved), (1, Some(Kind::Directory), Some(Kind::File)));
    }
}
