//! A file in memory that can be changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nra::format::error::{Error, Result};
use nra::format::source::{ReadAt, Store};

/// A file in memory.
pub struct Disk {
    len: u64,
    bytes: Mutex<Vec<u8>>,
}

impl Disk {
    /// Returns a file with this content.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, bytes: Mutex::new(bytes) }
    }

    /// Returns its current content.
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("files are small")
}

impl ReadAt for Disk {
    fn len(&self) -> u64 {
        self.len
    }
    fn name(&self) -> &[u8] {
        b"disk"
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = self.lock();
        let found = bytes.get(place(offset)..).and_then(|bytes| bytes.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or_else(|| Error::io("read", "disk", std::io::ErrorKind::UnexpectedEof.into()))?);
        Ok(())
    }
}

impl Store for Disk {
    fn write_all_at(&self, offset: u64, new: &[u8]) -> Result<()> {
        let (mut bytes, start) = (self.lock(), place(offset));
        assert!(start <= bytes.len(), "a hole would be left at {}", bytes.len());
        let end = (start + new.len()).max(bytes.len());
        bytes.resize(end, 0);
        bytes[start..start + new.len()].copy_from_slice(new);
        Ok(())
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.lock().truncate(place(len));
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
