//! Compacts an archive into a new file. The old file stays until the new one is complete and on
//! disk.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use nra_format::nra::compact::Compaction;

use crate::sink::new_file::NewFile;
use crate::sink::output::named;
use nra_format::error::{Error, Result};
use nra_format::nra::compact::{compact as write, plan as estimate};
use nra_format::nra::recovery::protect;
use nra_format::nra::writer::WriterOptions;
use nra_format::progress::Monitor;
use nra_format::source::{FileSource, FileStore, MemoryStore, ReadAt, Store};

/// Where the new archive is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It replaces the archive.
    InPlace,
    /// Another file.
    File {
        /// Its path.
        path: PathBuf,
        /// Replace an existing file. Otherwise an existing file is an error.
        overwrite: bool,
    },
}

impl Target {
    /// Opens `archive` for rewriting it to the target. Returns its bytes, the path of the new file,
    /// and whether that may replace a file.
    ///
    /// An archive that will be replaced is locked until the source is dropped, so that no other
    /// process changes it.
    pub(crate) fn open(&self, archive: &Path) -> Result<(Arc<dyn ReadAt>, PathBuf, bool)> {
        match self {
            Self::InPlace => {
                let name = archive.as_os_str().as_bytes();
                // Replace the target of a symlink, not the symlink.
                let path = archive.canonicalize().map_err(|error| Error::io("open", name, error))?;
                Ok((Arc::new(FileStore::open(&path)?), path, true))
            }
            Self::File { path, overwrite } => Ok((Arc::new(FileSource::open(archive)?), path.clone(), *overwrite)),
        }
    }

    /// Gives the new file its name. A file that replaces the archive gets its metadata.
    pub(crate) fn publish(&self, mut new: NewFile) -> Result<()> {
        if *self == Self::InPlace {
            new.copy_metadata()?;
        }
        new.publish(true)
    }
}

/// Longest archive that a dry run compacts in memory, bytes. It must also be at most a quarter of
/// the memory limit.
const MAX_IN_MEMORY: u64 = 64 << 20;

/// Returns the result that [`compact`] would have: exact for a short archive, estimated for a long
/// one.
///
/// # Errors
///
/// As [`compact`].
pub fn plan(archive: &Path, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(archive)?);
    if source.len() <= MAX_IN_MEMORY.min(options.memory_bytes / 4) {
        let memory = MemoryStore::default();
        let open = || Ok(Arc::new(memory.open()) as Arc<dyn Store>);
        return rewrite(&source, keep, &open, options, monitor).map_err(|error| named(error, archive.as_os_str().as_bytes()));
    }
    let mut planned = estimate(&source, keep, options, monitor)?;
    if let Some(percent) = planned.recovery_percent {
        // Recovery data is part of the file and shrinks with the protected data.
        let shrunk = u128::from(planned.dropped_bytes) * u128::from(percent) / 100;
        planned.after_bytes = planned.after_bytes.saturating_sub(u64::try_from(shrunk).unwrap_or(u64::MAX));
    }
    Ok(planned)
}

/// Writes the newest `keep` commits of `archive`, and nothing else, to `target`. Returns `None` if
/// that would save nothing; the archive is then unchanged. `commits` is the expected number of
/// commits in the archive, if the caller has checked which ones will be removed.
///
/// Recovery data is created again with the same percentage. The new archive is written next to the
/// target, synced and then renamed. Meanwhile no other process can change the archive; readers keep
/// the old file.
///
/// # Errors
///
/// `Usage` if the archive does not have `commits` commits; `Io` if a file cannot be opened or
/// written, or another process is changing the archive; errors of
/// [`compact`](nra_format::nra::compact::compact). The archive is then unchanged.
pub fn compact(
    archive: &Path,
    keep: u64,
    commits: Option<u64>,
    target: &Target,
    options: &WriterOptions,
    monitor: &dyn Monitor,
) -> Result<Option<Compaction>> {
    let (source, path, overwrite) = target.open(archive)?;
    let new = NewFile::create(&path, overwrite)?;
    let open = || new.store().map(|store| Arc::new(store) as Arc<dyn Store>);
    let shown = path.as_os_str().as_bytes();
    let done = rewrite(&source, keep, &open, options, monitor).map_err(|error| named(error, shown))?;
    // The archive is locked, so this number cannot change any more.
    if commits.is_some_and(|commits| commits != done.commits + done.dropped_commits) {
        return Err(Error::Usage { detail: "the archive has changed; open it again".to_owned() });
    }
    if *target == Target::InPlace && done.dropped_commits == 0 && done.after_bytes >= done.before_bytes {
        return Ok(None);
    }
    monitor.check()?;
    target.publish(new)?;
    Ok(Some(done))
}

/// Writes the new archive, with recovery data if the old one has it.
fn rewrite(
    source: &Arc<dyn ReadAt>,
    keep: u64,
    open: &dyn Fn() -> Result<Arc<dyn Store>>,
    options: &WriterOptions,
    monitor: &dyn Monitor,
) -> Result<Compaction> {
    let mut done = write(source, keep, open, options, monitor)?;
    if let Some(percent) = done.recovery_percent {
        done.after_bytes = protect(&*open()?, percent, options.memory_bytes, monitor)?.file_len();
    }
    Ok(done)
}
