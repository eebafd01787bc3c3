//! Content of an entry as a stream.

use std::io::{self, Read, Seek, SeekFrom};

use crate::archive::Archive;
use crate::entry::Entry;
use crate::error::Error;

/// Reads the content of one entry, from any position.
pub struct EntryReader<'a> {
    archive: &'a dyn Archive,
    entry: Entry,
    position: u64,
}

/// Returns a stream over the content of `entry`, at its start.
pub fn reader(archive: &dyn Archive, entry: Entry) -> EntryReader<'_> {
    EntryReader { archive, entry, position: 0 }
}

impl EntryReader<'_> {
    /// Returns the entry that is read.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Read for EntryReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read_at(&self.entry, self.position, buffer).map_err(into_io)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for EntryReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.entry.size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Wraps an error so that its kind survives.
fn into_io(error: Error) -> io::Error {
    let kind = match &error {
        Error::Io { source, .. } => source.kind(),
        Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } => io::ErrorKind::InvalidData,
        Error::Unsupported { .. } | Error::NotAnArchive { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
