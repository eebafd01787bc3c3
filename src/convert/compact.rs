//! An archive compacted into a file: the old one stays until the new one is whole and on disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::format::nra::compact::Compaction;

use crate::format::error::{Error, Result};
use crate::format::nra::compact::{compact as write, plan as look};
use crate::format::nra::writer::WriterOptions;
use crate::format::progress::Monitor;
use crate::format::source::{FileSource, FileStore, ReadAt};

/// Where the compacted archive goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It takes the place of the archive.
    InPlace,
    /// Another file.
    File {
        /// Its name.
        path: PathBuf,
        /// Replace an existing file; otherwise that is an error.
        overwrite: bool,
    },
}

/// Tells what [`compact`] would do.
///
/// # Errors
///
/// As [`compact`].
pub fn plan(archive: &Path, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(archive)?);
    look(&source, keep, options, monitor)
}

/// Writes the newest `keep` commits of `archive`, and nothing else, to `target`. Says `None` when that would save nothing and the archive was left as it is.
///
/// The new archive is written under a temporary name beside the target, synced, and renamed. While that goes on, nobody else can change the archive;
/// whoever reads it goes on with the old file.
///
/// # Errors
///
/// `Io` when a file can't be opened or written, or another process is changing the archive; what
/// [`compact`](crate::format::nra::compact::compact) gives. Then everything is as it was.
pub fn compact(
    archive: &Path,
    keep: u64,
    target: &Target,
    options: &WriterOptions,
    monitor: &dyn Monitor,
) -> Result<Option<Compaction>> {
    let name = archive.as_os_str().as_bytes();
    let (source, path, overwrite): (Arc<dyn ReadAt>, PathBuf, bool) = match target {
        Target::InPlace => {
            // What a symlink leads to is replaced, not the symlink.
            let path = archive.canonicalize().map_err(|error| Error::io("open", name, error))?;
            (Arc::new(FileStore::open(&path)?), path, true)
        }
        Target::File { path, overwrite } => (Arc::new(FileSource::open(archive)?), path.clone(), *overwrite),
    };
    let shown = path.as_os_str().as_bytes();
    let fail = |action: &'static str| move |error: io::Error| Error::io(action, shown, error);
    if !overwrite && path.symlink_metadata().is_ok() {
        return Err(fail("create")(io::ErrorKind::AlreadyExists.into()));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .prefix(".nra-")
        .suffix(".tmp")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(fail("create"))?;
    let done = write(&source, keep, temporary.path(), options, monitor)?;
    if *target == Target::InPlace && done.dropped_commits == 0 && done.after_bytes >= done.before_bytes {
        return Ok(None);
    }
    let (file, temporary) = temporary.into_parts();
    if *target == Target::InPlace {
        let mode = fs::metadata(&path).map_err(fail("read"))?.permissions();
        file.set_permissions(mode).map_err(fail("create"))?;
    }
    file.sync_all().map_err(fail("sync"))?;
    monitor.check()?;
    let named = if overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
    named.map_err(|error| fail("create")(error.error))?;
    // Some file systems can't sync a directory; the file itself is safe.
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
    Ok(Some(done))
}
