//! A file that has `.partial` behind its name until it is finished.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::format::error::{Error, Result};

/// Where a [`ShardWriter`](super::ShardWriter) writes to so that readers never see half of a file.
///
/// Bytes go to `NAME.partial`; [`PartialFile::publish`] makes them durable and gives the file its name. Dropping it leaves the `.partial`, which holds
/// all content that was written and has no magic, so that it does not open.
pub struct PartialFile {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl PartialFile {
    /// Begins a file. A `.partial` that was left is written over; `path` itself stays as it is until the new file is published.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(|error| failed("create", &partial, error))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), partial, path })
    }

    /// Makes the bytes durable and gives the file its name, in the place of one that had it.
    ///
    /// # Errors
    ///
    /// `Io`; then the `.partial` is left.
    pub fn publish(self) -> Result<()> {
        let Self { file, partial, path } = self;
        let file = file.into_inner().map_err(|error| failed("write", &partial, error.into_error()))?;
        file.sync_all().map_err(|error| failed("write", &partial, error))?;
        fs::rename(&partial, &path).map_err(|error| failed("rename", &partial, error))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Seek for PartialFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

fn failed(action: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::io(action, path.as_os_str().as_bytes(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_appears_with_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.shard");
        fs::write(&path, "before").unwrap();
        let mut file = PartialFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read(folder.path().join("a.shard.partial")).unwrap(), b"after");
        let mut file = PartialFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
