//! Opens archives of all formats.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::registry::{FORMATS, detect};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::error::{Error, Resource, Result, Subject};
use nra_core::source::{FileSource, MemorySource, ReadAt, is_locked};

/// Opens an archive. Its format is detected from its content unless [`OpenOptions::engine`] is set.
///
/// # Errors
///
/// `KeyNeeded` and `WrongKey` for an encrypted archive; `NotAnArchive` if no engine reads the file; `Usage` if there is no commit
/// [`OpenOptions::commit`]; otherwise those of the engine.
pub fn open(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Box<dyn Archive>> {
    let formats = FORMATS.iter().filter(|format| options.engine.is_none_or(|engine| engine == format.engine));
    for format in formats {
        let Some(archive) = (format.probe)(&source, options)? else { continue };
        return match options.commit {
            Some(number) if archive.info().commit != Some(number) => {
                let container = archive.container();
                Err(Error::usage(format!("there is no commit {number}: {container} archives have no history")))
            }
            _ => Ok(archive),
        };
    }
    Err(detect::refusal(&*source, options.engine)?)
}

/// Opens the archive file at `path`.
///
/// # Errors
///
/// `Io` if there is no such regular file; otherwise as [`open`].
pub fn open_path(path: &Path, options: &OpenOptions) -> Result<Box<dyn Archive>> {
    open_settled(path, &mut || open(Arc::new(FileSource::open(path)?), options))
}

/// Opens the archive file at `path` by calling `open`. Retries while another process changes the file and it appears damaged or unfinished: between two
/// writes of a commit, the superblock refers to a footer that is not yet written.
///
/// # Errors
///
/// Those of `open`.
pub fn open_settled(path: &Path, open: &mut dyn FnMut() -> Result<Box<dyn Archive>>) -> Result<Box<dyn Archive>> {
    let mut attempts = 0;
    loop {
        let opened = open();
        let patience = match &opened {
            Ok(archive) if archive.is_index_damaged() => SETTLING_TRIES,
            // Bytes after the last commit: a running change may take long, so the remark is kept after a few retries.
            Ok(archive) if !archive.remarks().is_empty() => SHORT_TRIES,
            Err(Error::Corrupt { .. }) => SETTLING_TRIES,
            _ => return opened,
        };
        let is_recent = |time: SystemTime| time.elapsed().is_ok_and(|elapsed| elapsed < 4 * SETTLING);
        let changes = || is_locked(path) || path.metadata().and_then(|status| status.modified()).is_ok_and(is_recent);
        if attempts >= patience || !changes() {
            return opened;
        }
        attempts += 1;
        std::thread::sleep(SETTLING);
    }
}

/// Time between two writes of a commit, which includes syncing the disk.
const SETTLING: Duration = Duration::from_millis(20);
const SETTLING_TRIES: u32 = 50;
/// Retries for a change of unknown duration.
const SHORT_TRIES: u32 = 10;

/// Reads a stream, such as a pipe, to its end and opens its content as an archive in memory. `name` is used in messages.
///
/// # Errors
///
/// `ResourceLimit` if the stream is longer than [`OpenOptions::stream_limit`]; otherwise as [`open`].
pub fn open_stream(stream: &mut dyn Read, name: impl Into<Subject>, options: &OpenOptions) -> Result<Box<dyn Archive>> {
    let name = name.into();
    let mut bytes = Vec::new();
    stream
        .take(options.stream_limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", &name, error))?;
    let found = bytes.len() as u64;
    if found > options.stream_limit {
        return Err(Error::ResourceLimit { resource: Resource::Stream, found, limit: options.stream_limit });
    }
    open(Arc::new(MemorySource::named(bytes, name.name())), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_opened_in_memory_up_to_its_limit() {
        let bytes = nra_nra5::testing::archive_with_false_links();
        let mut options = OpenOptions::default();
        let archive = open_stream(&mut &bytes[..], "standard input", &options).unwrap();
        assert_eq!(archive.entry_count(), 4);
        options.stream_limit = 100;
        let error = open_stream(&mut &bytes[..], "standard input", &options).err().unwrap();
        assert!(matches!(error, Error::ResourceLimit { found: 101, limit: 100, .. }));
    }
}
