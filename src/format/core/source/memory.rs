//! Bytes in memory.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::source::{ReadAt, Store};

/// An archive held in memory.
#[derive(Debug, Clone)]
pub struct MemorySource {
    bytes: Vec<u8>,
    name: Vec<u8>,
}

impl MemorySource {
    /// Wraps `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self::named(bytes, "(memory)")
    }

    /// Wraps `bytes`. `name` is their name in messages.
    pub fn named(bytes: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Self {
        Self { bytes: bytes.into(), name: name.as_ref().to_vec() }
    }
}

impl ReadAt for MemorySource {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn name(&self) -> &[u8] {
        &self.name
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read(&self.bytes, offset, buffer).ok_or_else(|| Error::io("read", self.name(), io::ErrorKind::UnexpectedEof.into()))
    }
}

fn read(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> Option<()> {
    let start = usize::try_from(offset).ok()?;
    buffer.copy_from_slice(bytes.get(start..start.checked_add(buffer.len())?)?);
    Some(())
}

/// A file in memory that can be written, for dry runs.
#[derive(Debug, Default)]
pub struct MemoryStore {
    bytes: Arc<Mutex<Vec<u8>>>,
    len: u64,
}

impl MemoryStore {
    /// Returns another handle of the same file, with its current length.
    pub fn open(&self) -> Self {
        let bytes = Arc::clone(&self.bytes);
        let len = bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        Self { bytes, len }
    }

    fn too_long(&self) -> Error {
        Error::io("write", self.name(), io::ErrorKind::OutOfMemory.into())
    }
}

impl ReadAt for MemoryStore {
    fn len(&self) -> u64 {
        self.len
    }
    fn name(&self) -> &[u8] {
        b"(memory)"
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        read(&bytes, offset, buffer).ok_or_else(|| Error::io("read", self.name(), io::ErrorKind::UnexpectedEof.into()))
    }
}

impl Store for MemoryStore {
    fn write_all_at(&self, offset: u64, written: &[u8]) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| self.too_long())?;
        let end = start.checked_add(written.len()).ok_or_else(|| self.too_long())?;
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(written);
        Ok(())
    }
    fn truncate(&self, len: u64) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| self.too_long())?;
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
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
    fn memory_store_grows_and_truncates() {
        let store = MemoryStore::default();
        store.write_all_at(3, b"abc").unwrap();
        assert_eq!((store.len(), store.open().len()), (0, 6));
        store.truncate(5).unwrap();
        let mut bytes = [9; 5];
        store.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!((&bytes, store.open().len()), (b"\0\0\0ab", 5));
        assert!(store.read_exact_at(1, &mut bytes).is_err());
    }
}
