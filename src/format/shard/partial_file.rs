//! A file whose name ends in `.partial` until it is finished.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use nra_core::error::{Error, Result};
use nra_core::source::sync_directory;

/// An output for [`ShardWriter`](super::ShardWriter) that hides unfinished files from readers.
///
/// Bytes are written to `NAME.partial`, which is locked. [`PartialFile::publish`] syncs and renames the
/// file. If it is dropped before, the `.partial` file remains. It has no magic and does not open.
pub struct PartialFile {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl PartialFile {
    /// Creates a file. A remaining `.partial` file is overwritten. `path` does not change until
    /// [`PartialFile::publish`].
    ///
    /// # Errors
    ///
    /// `Io`, also if another process is writing the `.partial` file or if it is not a regular file.
    /// Symlinks are not followed.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = open_partial(&partial).map_err(|error| io_error("create", &partial, error))?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), partial, path })
    }

    /// Syncs the file and renames it, replacing an existing file.
    ///
    /// # Errors
    ///
    /// `Io`; the `.partial` file then remains.
    pub fn publish(self) -> Result<()> {
        let Self { file, partial, path } = self;
        let file = file.into_inner().map_err(|error| io_error("write", &partial, error.into_error()))?;
        file.sync_all().map_err(|error| io_error("write", &partial, error))?;
        fs::rename(&partial, &path).map_err(|error| io_error("rename", &partial, error))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_directory(parent).map_err(|error| io_error("sync", &path, error))
    }
}

/// Opens and locks the file at `partial`, and truncates it.
fn open_partial(partial: &Path) -> io::Result<File> {
    // Opening a FIFO would otherwise block before it could be rejected.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).expect("the flags of open are an int");
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(partial)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match io::Error::from(errno) {
            error if error.kind() == io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing the file")
            }
            error => error,
        })?;
        // The previous holder of the lock may have renamed the file.
        let (opened, current) = (file.metadata()?, fs::symlink_metadata(partial));
        if current.is_ok_and(|current| (opened.dev(), opened.ino()) == (current.dev(), current.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
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

fn io_error(action: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::io(action, path.as_os_str().as_bytes(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_replaces_the_file_atomically() {
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

    #[test]
    fn create_rejects_locked_files_symlinks_and_fifos() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.shard");
        let mut first = PartialFile::create(&path).unwrap();
        first.write_all(b"first").unwrap();
        let second = PartialFile::create(&path).err().unwrap();
        assert!(second.to_string().contains("cannot create"), "{second}");
        first.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("b.shard.partial")).unwrap();
        assert!(PartialFile::create(folder.path().join("b.shard")).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path().join("c.shard.partial"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(PartialFile::create(folder.path().join("c.shard")).is_err());
    }
}
