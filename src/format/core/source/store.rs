//! Files that are changed in place, for appending to archives.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::source::ReadAt;

/// A source that can be written, truncated and synced. The holder is the only writer.
pub trait Store: ReadAt {
    /// Writes `bytes` at `offset`. The file grows as needed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. Some of the bytes may have been written.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Sets the length of the file to `len` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    fn truncate(&self, len: u64) -> Result<()>;

    /// Reserves space for a length of `len` bytes, if the system supports it. Does not change the length.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is not enough space.
    fn reserve(&self, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Syncs all preceding writes, so that they survive a crash.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    fn sync(&self) -> Result<()>;
}

/// A local file that this process alone writes, by an advisory lock (`flock`). Readers need no lock.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    len: u64,
    name: Vec<u8>,
}

impl FileStore {
    /// Opens and locks the regular file at `path`. The lock ends with the value.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be opened, is not a regular file, or another process holds the lock (of kind
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy), action `lock`).
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, path.as_os_str().as_bytes())
    }

    /// Opens the file with another name for messages.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_as(path: &Path, name: &[u8]) -> Result<Self> {
        let name = name.to_vec();
        let fail = |error| Error::io("open", &name, error);
        // Opening a fifo would wait for the other end.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("the system's flags are of this type");
        loop {
            let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).map_err(fail)?;
            if !file.metadata().map_err(fail)?.is_file() {
                return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
            }
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| {
                let error = io::Error::from(errno);
                let busy = error.kind() == io::ErrorKind::WouldBlock;
                let held = || io::Error::new(io::ErrorKind::ResourceBusy, "another process is changing it");
                Error::io("lock", &name, if busy { held() } else { error })
            })?;
            // The previous holder of the lock may have replaced the file.
            let metadata = file.metadata().map_err(fail)?;
            let named = std::fs::metadata(path).map_err(fail)?;
            if (metadata.dev(), metadata.ino()) == (named.dev(), named.ino()) {
                return Ok(Self { len: metadata.len(), file, name });
            }
        }
    }
}

/// Returns whether another process has locked the file at `path` to change it.
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(errno) if io::Error::from(errno).kind() == io::ErrorKind::WouldBlock)
}

impl ReadAt for FileStore {
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

impl Store for FileStore {
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io("write", &self.name, error))
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| Error::io("cut", &self.name, error))
    }
    #[cfg(target_os = "linux")]
    fn reserve(&self, len: u64) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, len) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(Error::io("extend", &self.name, errno.into())),
            // Not supported, or another error that writing will report.
            _ => Ok(()),
        }
    }
    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.name, error))
    }
}

/// A dry run: accepts changes without writing them. Written bytes cannot be read.
#[derive(Debug)]
pub struct Rehearsal(pub FileStore);

impl ReadAt for Rehearsal {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn name(&self) -> &[u8] {
        self.0.name()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_exact_at(offset, buffer)
    }
}

impl Store for Rehearsal {
    fn write_all_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn truncate(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_writer_is_rejected_and_readers_continue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"12345").unwrap();
        let store = FileStore::open(&path).unwrap();
        assert!(is_locked(&path));
        let Err(Error::Io { action, source, .. }) = FileStore::open(&path) else { panic!("two writers") };
        assert_eq!((action, source.kind()), ("lock", io::ErrorKind::ResourceBusy));
        let source = crate::source::FileSource::open(&path).unwrap();
        store.write_all_at(5, b"67").unwrap();
        store.sync().unwrap();
        let mut bytes = [0; 7];
        source.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"1234567");
        store.truncate(2).unwrap();
        drop(store);
        assert!(!is_locked(&path));
        assert_eq!(FileStore::open(&path).unwrap().len(), 2);
    }
}
