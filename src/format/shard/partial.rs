//! A file that has `.partial` behind its name until it is finished.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use nra_core::error::{Error, Result};
use nra_core::source::sync_directory;

/// Where a [`ShardWriter`](super::ShardWriter) writes to so that readers never see half of a file.
///
/// Bytes go to `NAME.partial`, which one writer has at a time; [`PartialFile::publish`] makes them durable and gives the file its name, durably too.
/// Dropping it leaves the `.partial`, which holds all content that was written and has no magic, so that it does not open.
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
    /// `Io`, also when somebody is writing to the `.partial`, and when that is something else than a file: a symlink is not followed.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = begin(&partial).map_err(|error| failed("create", &partial, error))?;
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
        fs::rename(&partial, &path).map_err(|error| failed("rename", &partial, error))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_directory(parent).map_err(|error| failed("sync", &path, error))
    }
}

/// Opens the file at `partial`, empty and locked.
fn begin(partial: &Path) -> io::Result<File> {
    // A pipe would wait for a reader before it could be refused.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).expect("the flags of open are an int");
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(partial)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match io::Error::from(errno) {
            error if error.kind() == io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing it")
            }
            error => error,
        })?;
        // The one that held the lock may have given the file its name.
        let (own, named) = (file.metadata()?, fs::symlink_metadata(partial));
        if named.is_ok_and(|named| (own.dev(), own.ino()) == (named.dev(), named.ino())) {
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

    #[test]
    fn one_writer_has_the_file_and_no_link_is_followed() {
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
