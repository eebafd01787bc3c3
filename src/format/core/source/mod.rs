//! Byte sources: positional reads, shared between threads.

mod directory;
mod file;
mod memory;
mod record;
mod spliced;
mod store;

pub use directory::sync_directory;
pub use file::FileSource;
pub use memory::{MemorySource, MemoryStore};
pub use record::RecordingSource;
pub use spliced::{SourceReader, Spliced};
pub use store::{FileStore, Rehearsal, Store, is_locked};

use crate::error::Result;

/// A byte source of known length that any thread can read at any offset.
pub trait ReadAt: Send + Sync {
    /// Returns the length when the source was opened, bytes.
    fn len(&self) -> u64;

    /// Returns whether the source is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name for messages.
    fn name(&self) -> &[u8];

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::error::Error::Io) if the source fails or ends before the buffer is full.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

impl<T: ReadAt + ?Sized> ReadAt for std::sync::Arc<T> {
    fn len(&self) -> u64 {
        (**self).len()
    }
    fn name(&self) -> &[u8] {
        (**self).name()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        (**self).read_exact_at(offset, buffer)
    }
}

/// Returns whether all bytes from `offset` to the end are zero, which is padding.
///
/// # Errors
///
/// Those of the source.
pub fn is_zero_from(source: &dyn ReadAt, mut offset: u64) -> Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    while offset < source.len() {
        let len = usize::try_from(source.len() - offset).unwrap_or(usize::MAX).min(buffer.len());
        source.read_exact_at(offset, &mut buffer[..len])?;
        if buffer[..len].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        offset += len as u64;
    }
    Ok(true)
}
