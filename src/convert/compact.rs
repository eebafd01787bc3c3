//! An archive compacted into a file: the old one stays until the new one is whole and on disk.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use nra_format::nra::compact::Compaction;

use crate::sink::new_file::NewFile;
use crate::sink::output::named;
use nra_format::error::{Error, Result};
use nra_format::nra::compact::{compact as write, plan as look};
use nra_format::nra::recovery::protect;
use nra_format::nra::writer::WriterOptions;
use nra_format::progress::Monitor;
use nra_format::source::{FileSource, FileStore, MemoryStore, ReadAt, Store};

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

impl Target {
    /// Opens `archive` to be written anew to the target. Returns its bytes, the path that the new file gets, and whether it may replace a file.
    ///
    /// An archive that is replaced is locked while the source lives, so that nobody else changes it.
    pub(crate) fn open(&self, archive: &Path) -> Result<(Arc<dyn ReadAt>, PathBuf, bool)> {
        match self {
            Self::InPlace => {
                let name = archive.as_os_str().as_bytes();
                // What a symlink leads to is replaced, not the symlink.
                let path = archive.canonicalize().map_err(|error| Error::io("open", name, error))?;
                Ok((Arc::new(FileStore::open(&path)?), path, true))
            }
            Self::File { path, overwrite } => Ok((Arc::new(FileSource::open(archive)?), path.clone(), *overwrite)),
        }
    }

    /// Gives the new file its name; one that takes the place of the archive is like it.
    pub(crate) fn publish(&self, mut new: NewFile) -> Result<()> {
        if *self == Self::InPlace {
            new.take_over()?;
        }
        new.publish(true)
    }
}

/// Longest archive that is compacted in memory to find out what comes of it, bytes, if the memory allows four times as much.
const REHEARSED: u64 = 64 << 20;

/// Tells what [`compact`] would do: of a short archive exactly, of others about.
///
/// # Errors
///
/// As [`compact`].
pub fn plan(archive: &Path, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(archive)?);
    if source.len() <= REHEARSED.min(options.memory_bytes / 4) {
        let memory = MemoryStore::default();
        let open = || Ok(Arc::new(memory.open()) as Arc<dyn Store>);
        return rewrite(&source, keep, &open, options, monitor).map_err(|error| named(error, archive.as_os_str().as_bytes()));
    }
    let mut planned = look(&source, keep, options, monitor)?;
    if let Some(percent) = planned.recovery_percent {
        // It is part of the file, and shrinks with what it protects.
        let shrunk = u128::from(planned.dropped_bytes) * u128::from(percent) / 100;
        planned.after_bytes = planned.after_bytes.saturating_sub(u64::try_from(shrunk).unwrap_or(u64::MAX));
    }
    Ok(planned)
}

/// Writes the newest `keep` commits of `archive`, and nothing else, to `target`. Says `None` when that would save nothing and the archive was left as it is.
/// `commits`: how many it has to have, for whoever has looked what goes.
///
/// Recovery data is made anew for the same percentage. The new archive is written beside the target, synced, and gets its name then. While that goes on, nobody else can change the archive;
/// whoever reads it goes on with the old file.
///
/// # Errors
///
/// `Usage` when there are not `commits` any more; `Io` when a file can't be opened or written, or another process is changing the archive; what
/// [`compact`](nra_format::nra::compact::compact) gives. Then everything is as it was.
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
    // Behind the lock nobody has written one since.
    if commits.is_some_and(|commits| commits != done.commits + done.dropped_commits) {
        return Err(Error::Usage { detail: "the archive has another commit by now; open it anew".to_owned() });
    }
    if *target == Target::InPlace && done.dropped_commits == 0 && done.after_bytes >= done.before_bytes {
        return Ok(None);
    }
    monitor.check()?;
    target.publish(new)?;
    Ok(Some(done))
}

/// Writes the new archive, with recovery data if the old one has some.
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
