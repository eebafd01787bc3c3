//! Stored content, for copying blocks to another file.
//!
//! Spec: nra.md, sections 6 to 8.

use crate::block_index::ChunkList;
use crate::content::{BlockRef, Extent};
use crate::frame::FrameKind;
use crate::reader::{NraReader, frames};
use nra_core::codec::Codec;
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};

/// A block with valid checksums, not decompressed.
pub(crate) struct StoredBlock {
    pub codec: Codec,
    pub raw_len: u32,
    pub stored: Vec<u8>,
    pub chunks: ChunkList,
    /// Offset of its dictionary, 0 = none.
    pub dictionary: u64,
    /// Offset of the payload in the file.
    pub payload: u64,
}

impl NraReader {
    pub(crate) fn stored_block(&self, block: &BlockRef) -> Result<StoredBlock> {
        let offset = block.offset;
        let start = frames::header(&self.window, FrameKind::Block, offset)?;
        let header = &start.header;
        if start.header_checksum != block.header_checksum || header.raw_len != block.raw_len {
            return Err(FrameKind::Block.corrupt(offset, "its header contradicts the records"));
        }
        let len = header.payload_start() + header.payload_span();
        let len = usize::try_from(len).expect("limited with the header");
        let bytes = self.window.bytes(FrameKind::Block.name(), offset, len)?;
        let stored = start.stored_payload(&bytes, offset)?.into_owned();
        let chunks = frames::chunks(&self.window, &start, offset)?;
        let payload = offset + header.payload_start();
        Ok(StoredBlock { codec: header.codec, raw_len: header.raw_len, stored, chunks, dictionary: header.dictionary, payload })
    }

    pub(crate) fn extent_chunks(&self, extent: &Extent) -> Result<Vec<(Digest, u32)>> {
        let start = u64::from(extent.offset);
        let chunks = self.chunks(&extent.block)?;
        let found: Vec<(Digest, u32)> =
            chunks.within(start..start + extent.len).map(|(_, chunk)| (chunk.digest, chunk.raw_len)).collect();
        let sum: u64 = found.iter().map(|chunk| u64::from(chunk.1)).sum();
        if sum != extent.len {
            let detail = format!("an extent of {} bytes covers chunks of {sum} bytes", extent.len);
            return Err(Error::corrupt("block index", extent.block.offset, detail));
        }
        Ok(found)
    }
}
