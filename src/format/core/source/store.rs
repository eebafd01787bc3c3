//! A file that is changed in place: what appending to an archive needs of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::error::{Error, Result};
use crate::source::ReadAt;

/// A source that can be written, cut and made durable. Whoever holds one is its only writer.
pub trait Store: ReadAt {
    /// Writes all of `bytes` from `offset`; the file grows as needed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; some of the bytes may be written then.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes the file `len` bytes long.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    fn truncate(&self, len: u64) -> Result<()>;

    /// Makes sure that the file can become `len` bytes long, as far as the system can do that. Its length stays.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when there is no space for that.
    fn reserve(&self, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Returns when everything written before will survive a failing machine.
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
    /// [`Error::Io`] when it can't be opened, is not a regular file, or another process holds the lock (of kind
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy), action `lock`).
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, path.as_os_str().as_bytes())
    }

    /// Opens it under another name for messages.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_as(path: &Path, name: &[u8]) -> Result<Self> {
        let name = name.to_vec();
        let fail = |error| Error::io("open", &name, error);
        // A fifo would wait for the other end before it could be refused.
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
            // The one that held the lock may have put a new file in its place.
            let metadata = file.metadata().map_err(fail)?;
            let named = std::fs::metadata(path).map_err(fail)?;
            if (metadata.dev(), metadata.ino()) == (named.dev(), named.ino()) {
                return Ok(Self { len: metadata.len(), file, name });
            }
        }
    }
}

/// Says whether another process is changing the file at `path`.
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
            // File systems that can't do it, and whatever else: writing will tell.
            _ => Ok(()),
        }
    }
    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.name, error))
    }
}

/// A file that can be changed, and stays as it is: what a change comes to is found out by making it. Nothing that was written can be read.
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
    fn a_second_writer_is_refused_and_readers_go_on() {
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
