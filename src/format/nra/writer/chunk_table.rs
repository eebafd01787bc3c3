//! The table of chunks and their locations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use nra_core::digest::Digest;
use nra_core::error::Result;
use nra_core::limits::to_u32;

/// Number of a chunk, in the order of arrival.
pub(super) type ChunkId = u32;

/// Number of a chunk buffer, from 1; 0 = none.
pub(super) type BufferId = u32;

/// Location of a chunk, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkPlacement {
    /// Buffer that the chunk was added to.
    pub buffer: BufferId,
    /// Length, bytes.
    pub raw_len: u32,
    /// Index of its block; like the following fields, valid once the buffer is written.
    pub block: u32,
    /// Offset in the block's raw payload.
    pub offset: u32,
    /// Number within the block.
    pub number: u32,
    /// Content checksum; only for chunks in uncompressed blocks.
    pub checksum: u32,
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct Prehashed(u64);

impl Hasher for Prehashed {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(front) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*front);
        }
    }

    // The length of the digest is constant.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Debug, Default)]
pub(super) struct ChunkTable {
    by_digest: HashMap<Digest, ChunkId, BuildHasherDefault<Prehashed>>,
    placements: Vec<ChunkPlacement>,
}

impl ChunkTable {
    /// Adds a chunk in `buffer`. Its digest must be new.
    pub fn insert(&mut self, digest: Digest, raw_len: u32, buffer: BufferId) -> Result<ChunkId> {
        let id = to_u32("number of chunks", self.placements.len() as u64)?;
        self.by_digest.insert(digest, id);
        self.placements.push(ChunkPlacement { buffer, raw_len, block: u32::MAX, offset: 0, number: 0, checksum: 0 });
        Ok(id)
    }

    pub fn find(&self, digest: &Digest) -> Option<ChunkId> {
        self.by_digest.get(digest).copied()
    }

    pub fn placement(&self, id: ChunkId) -> &ChunkPlacement {
        &self.placements[id as usize]
    }

    pub fn placement_mut(&mut self, id: ChunkId) -> &mut ChunkPlacement {
        &mut self.placements[id as usize]
    }

    /// Iterates over digests and locations in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &ChunkPlacement)> {
        self.by_digest.iter().map(|(digest, &id)| (digest, &self.placements[id as usize]))
    }
}
