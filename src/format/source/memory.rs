//! Bytes in memory.

use std::io;

use crate::format::error::{Error, Result};
use crate::format::source::ReadAt;

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

    /// Wraps `bytes`; `name` says in messages where they came from.
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
        let start = usize::try_from(offset).ok();
        let end = start.and_then(|start| start.checked_add(buffer.len()));
        match start.zip(end).and_then(|(start, end)| self.bytes.get(start..end)) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(Error::io("read", self.name(), io::ErrorKind::UnexpectedEof.into())),
        }
    }
}
