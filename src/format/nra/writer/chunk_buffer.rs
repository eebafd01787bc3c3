//! Chunk buffers: chunks that wait to become blocks.

use crate::writer::EntryId;
use crate::writer::chunk_table::{BufferId, ChunkId};
use nra_core::digest::Digest;

/// Most chunks of a buffer, and so of a block.
pub(super) const MAX_CHUNKS: usize = 32_768;
/// Most entries that wait for one buffer.
pub(super) const MAX_WAITING: usize = 16_384;
/// Estimated bytes of records at which a buffer is closed.
pub(super) const MAX_WEIGHT: usize = 8 << 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct BufferedChunk {
    pub id: ChunkId,
    pub raw_len: u32,
    pub digest: Digest,
    /// Content checksum; 0 in buffers of compressible chunks.
    pub checksum: u32,
}

/// Chunks for the same block or blocks, and the entries that wait for them.
#[derive(Debug, Default)]
pub(super) struct ChunkBuffer {
    pub id: BufferId,
    /// The chunks, with gaps for alignment in a buffer of incompressible chunks.
    pub bytes: Vec<u8>,
    pub chunks: Vec<BufferedChunk>,
    /// Waiting entries, each with the number of chunks that must be written first; ascending.
    pub waiting: Vec<(usize, EntryId)>,
    /// Estimated length of the records of these entries, bytes.
    pub weight: usize,
    /// Length of the chunks without gaps, bytes.
    pub content_bytes: u64,
}

impl ChunkBuffer {
    pub fn new(id: BufferId, bytes: Vec<u8>) -> Self {
        Self { id, bytes, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Appends a chunk at the next multiple of `align`.
    pub fn push(&mut self, chunk: BufferedChunk, bytes: &[u8], align: u32) {
        let start = aligned(self.bytes.len(), align);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(bytes);
        self.content_bytes += bytes.len() as u64;
        self.chunks.push(chunk);
    }

    /// Makes an entry wait for all chunks so far.
    pub fn wait(&mut self, entry: EntryId, weight: usize) {
        self.waiting.push((self.chunks.len(), entry));
        self.weight += weight;
    }

    /// Returns whether the buffer holds as many chunks or entries as allowed.
    pub fn is_crowded(&self) -> bool {
        self.chunks.len() >= MAX_CHUNKS || self.waiting.len() >= MAX_WAITING || self.weight >= MAX_WEIGHT
    }
}

/// Returns the first multiple of `align` that is not less than `len`. Alignment 0 stands for 1.
pub(super) fn aligned(len: usize, align: u32) -> usize {
    if align <= 1 { len } else { len.next_multiple_of(align as usize) }
}
