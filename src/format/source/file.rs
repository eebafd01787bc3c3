//! A local file.

use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::format::error::{Error, Result};
use crate::format::source::ReadAt;

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
    /// [`Error::Io`] when it can't be opened or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.as_os_str().as_bytes().to_vec();
        let fail = |error| Error::io("open", &name, error);
        // A fifo would wait for a writer before it could be refused.
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
        self.file.read_exact_at(buffer, offset).map_err(|error| Error::io("read", &self.name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        assert!(FileSource::open(&path).unwrap_err().to_string().contains("cannot open"));
    }
}
