//! Copying blocks of another archive without compressing them again.
//!
//! A copied block gets a new block index: the same chunks, and the records of entries that were
//! completed since the preceding block. Spec: nra.md, section 7.

use std::io::Write;

use crate::block_index::ChunkList;
use crate::writer::index::ChunkOrHole;
use crate::writer::{Writer, checked_size, no_open_file};
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};

pub(crate) struct CopiedBlock<'a> {
    pub codec: Codec,
    pub raw_len: u32,
    /// Stored payload.
    pub stored: &'a [u8],
    pub chunks: &'a ChunkList,
    /// Offset of its dictionary in this archive, 0 = none.
    pub dictionary: u64,
    /// The payload starts at a multiple of this, bytes.
    pub align: u32,
}

impl<W: Write + Send> Writer<W> {
    pub(crate) fn has_chunk(&self, digest: &Digest) -> bool {
        self.index.chunks.find(digest).is_some()
    }

    /// Writes a dictionary for copied blocks and returns its offset.
    pub(crate) fn copy_dictionary(&mut self, dictionary: &Dictionary) -> Result<u64> {
        self.flush_buffers()?;
        self.block_writer.output.dictionary(dictionary)
    }

    /// Writes a block as stored. None of its chunks may be present ([`Writer::has_chunk`]).
    pub(crate) fn copy_block(&mut self, block: &CopiedBlock<'_>) -> Result<()> {
        self.flush_buffers()?;
        let buffer = self.next_buffer_id();
        let contentless = self.take_contentless();
        self.block_writer.copy_block(block, buffer, &contentless, &mut self.index)
    }

    /// Adds a chunk that is already present to the open file.
    pub(crate) fn add_known_chunk(&mut self, digest: &Digest) -> Result<()> {
        let unknown = || Error::usage("a chunk that is not in the archive was added by its digest");
        let id = self.index.chunks.find(digest).ok_or_else(unknown)?;
        let placement = self.index.chunks.placement(id);
        let mut open_file = self.open_file.take().ok_or_else(no_open_file)?;
        open_file.size = checked_size(open_file.size, placement.raw_len.into())?;
        self.given_bytes = self.given_bytes.saturating_add(placement.raw_len.into());
        self.add_buffer(placement.buffer, &mut open_file.buffers);
        open_file.parts.push(ChunkOrHole::Chunk(id));
        self.open_file = Some(open_file);
        Ok(())
    }

    /// Writes everything in the queue, so that the result does not depend on the timing of workers.
    fn flush_buffers(&mut self) -> Result<()> {
        if !self.incompressible_chunks.is_empty() || !self.compressible_chunks.is_empty() {
            self.close_incompressible()?;
            self.close_compressible()?;
        }
        self.block_writer.write_ready(&mut self.index, 0, &mut |_| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::WriterOptions;
    use nra_core::entry::{Entry, Kind};
    use nra_core::path::EntryPath;

    #[test]
    fn unknown_chunk_is_rejected() {
        let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
        writer.begin_file(Entry::new(EntryPath::try_from("a").unwrap(), Kind::File)).unwrap();
        let (known, unknown) = (Digest::of(b"known"), Digest::of(b"unknown"));
        writer.add_chunk(b"known", known, false).unwrap();
        assert!(matches!(writer.add_known_chunk(&unknown), Err(Error::Usage { .. })));
        // The open file is unchanged.
        writer.add_known_chunk(&known).unwrap();
        writer.end_file(None).unwrap();
    }
}
