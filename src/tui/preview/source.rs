//! The content of an entry as a byte source.

use std::sync::Arc;

use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::source::ReadAt;

/// An entry that can be read at any offset.
pub struct EntrySource {
    archive: Arc<dyn Archive>,
    entry: Entry,
}

impl EntrySource {
    pub fn new(archive: &Arc<dyn Archive>, entry: &Entry) -> Self {
        Self { archive: Arc::clone(archive), entry: entry.clone() }
    }
}

impl ReadAt for EntrySource {
    fn len(&self) -> u64 {
        self.entry.size
    }

    fn name(&self) -> &[u8] {
        self.entry.path.as_bytes()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.archive.read_at(&self.entry, offset, buffer)?;
        if read < buffer.len() {
            return Err(Error::io("read", self.name(), std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }
}
