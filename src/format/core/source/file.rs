//! A local file.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::source::ReadAt;

/// A file that is read with positional reads (never mapped: a truncated file must not end the process).
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
    name: Vec<u8>,
}

impl FileSource {
    /// Opens the regular file at `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.as_os_str().as_bytes().to_vec();
        let fail = |error| Error::io("open", &name, error);
        // Opening a fifo would wait for a writer.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("the system's flags are of this type");
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(std::io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            return Err(fail(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file")));
        }
        Ok(Self { len: metadata.len(), file, name })
    }
}

impl ReadAt for FileSource {
    fn len(&self) -> u64 {
        self.len
    }
    fn name(&self) -> &[u8] {
        &self.name
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| {
            let error = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    std::io::Error::new(error.kind(), "the file was truncated after it was opened")
                }
                _ => error,
            };
            Error::io("read", &self.name, error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_truncated_file_reports_the_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [1; 100]).unwrap();
        let source = FileSource::open(&path).unwrap();
        std::fs::write(&path, [1; 50]).unwrap();
        let error = source.read_exact_at(40, &mut [0; 20]).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, "the file was truncated after it was opened");
    }

    #[test]
    fn open_rejects_a_fifo_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        assert!(FileSource::open(&path).unwrap_err().to_string().contains("cannot open"));
    }
}
