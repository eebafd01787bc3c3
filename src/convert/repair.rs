//! Recovery data of an archive file: made in place, used beside it.

use std::path::Path;
use std::sync::Arc;

pub use nra_format::nra::recovery::{RecoveryHeader, Report};

use crate::compact::Target;
use crate::sink::new_file::NewFile;
use nra_format::error::Result;
use nra_format::nra::reader::NraReader;
use nra_format::nra::recovery::{self, check, restore};
use nra_format::progress::Monitor;
use nra_format::source::{FileSource, FileStore};

/// Memory that recovery data is made and used with when nothing else is said, bytes.
pub const MEMORY_BYTES: u64 = 256 << 20;

/// Writes recovery data of `percent` behind the archive, in place of what it has of that.
///
/// # Errors
///
/// What [`protect`](recovery::protect) gives, `Unsupported` for what is no NRA archive, and `Io` when another process is changing the archive.
pub fn protect(archive: &Path, percent: u32, memory_bytes: u64, monitor: &dyn Monitor) -> Result<RecoveryHeader> {
    let store = Arc::new(FileStore::open(archive)?);
    NraReader::reject_other_formats(store.clone())?;
    recovery::protect(&*store, percent, memory_bytes, monitor)
}

/// Tells what [`protect`] would write.
///
/// # Errors
///
/// As [`protect`].
pub fn plan(archive: &Path, percent: u32, memory_bytes: u64) -> Result<RecoveryHeader> {
    let source = Arc::new(FileSource::open(archive)?);
    NraReader::reject_other_formats(source.clone())?;
    recovery::plan(&*source, percent, memory_bytes)
}

/// Tells what [`repair`] would find; `None` if there is no recovery data.
///
/// # Errors
///
/// As [`repair`].
pub fn survey(archive: &Path, monitor: &dyn Monitor) -> Result<Option<Report>> {
    check(&FileSource::open(archive)?, monitor)
}

/// Restores the exact bytes of `archive` at `target`, if something is damaged and all of it can be restored. Returns what it found;
/// `None` if there is no recovery data.
///
/// The restored archive is written beside the target, checked, synced, and gets its name then.
///
/// # Errors
///
/// `Io` when a file can't be read or written, or another process is changing the archive; `ResourceLimit` when restoring takes more than `memory_bytes`; `Cancelled`. Then everything is
/// as it was.
pub fn repair(archive: &Path, target: &Target, memory_bytes: u64, monitor: &dyn Monitor) -> Result<Option<Report>> {
    let (source, path, overwrite) = target.open(archive)?;
    let Some(report) = check(&*source, monitor)? else { return Ok(None) };
    let needless = report.is_whole() && *target == Target::InPlace;
    if needless || !report.is_restorable() {
        return Ok(Some(report));
    }
    let new = NewFile::create(&path, overwrite)?;
    restore(&*source, &report, &new.store()?, memory_bytes, monitor)?;
    monitor.check()?;
    target.publish(new)?;
    Ok(Some(report))
}
