//! Recovery data of an archive file: adds it in place, and restores a damaged archive to a new
//! file.

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

/// Default memory limit for creating and using recovery data, bytes.
pub const MEMORY_BYTES: u64 = 256 << 20;

/// Appends recovery data of `percent` to the archive, replacing existing recovery data.
///
/// # Errors
///
/// As [`recovery::protect`]; `Unsupported` if it is not an NRA 5 archive; `Io` if another process
/// is changing the archive.
pub fn protect(archive: &Path, percent: u32, memory_bytes: u64, monitor: &dyn Monitor) -> Result<RecoveryHeader> {
    let store = Arc::new(FileStore::open(archive)?);
    NraReader::reject_other_formats(store.clone())?;
    recovery::protect(&*store, percent, memory_bytes, monitor)
}

/// Returns the header of the recovery data that [`protect`] would write.
///
/// # Errors
///
/// As [`protect`].
pub fn plan(archive: &Path, percent: u32, memory_bytes: u64) -> Result<RecoveryHeader> {
    let source = Arc::new(FileSource::open(archive)?);
    NraReader::reject_other_formats(source.clone())?;
    recovery::plan(&*source, percent, memory_bytes)
}

/// Returns the damage that [`repair`] would find; `None` if there is no recovery data.
///
/// # Errors
///
/// As [`repair`].
pub fn survey(archive: &Path, monitor: &dyn Monitor) -> Result<Option<Report>> {
    check(&FileSource::open(archive)?, monitor)
}

/// Restores the exact bytes of `archive` to `target` if all damage can be restored. Does nothing if
/// an archive to be restored in place is undamaged. Returns the damage found; `None` if there is no
/// recovery data.
///
/// The restored archive is written next to the target, checked, synced and then renamed.
///
/// # Errors
///
/// `Io` if a file cannot be read or written, or another process is changing the archive;
/// `ResourceLimit` if restoring needs more than `memory_bytes`; `Cancelled`. Nothing is changed
/// then.
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
