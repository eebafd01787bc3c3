//! Pages of chunk runs: where pieces are, by digest.
//!
//! Spec: nra.md, section 11.

use crate::format::nra::content::FrameRef;
use crate::format::wire::Malformed;

/// Where a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkPlace {
    /// Key of its digest ([`Digest::key`](crate::format::digest::Digest::key)), 40 bits.
    pub key: u64,
    /// Offset of its block.
    pub block: u64,
    /// Number within the block, from 0.
    pub piece: u32,
}

/// A node of a chunk run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChunkPage {
    /// Pieces by key, then place.
    Leaf(Vec<ChunkPlace>),
    /// Level, then children: first key, page, pieces below.
    Inner(u8, Vec<(u64, FrameRef, u64)>),
}

impl ChunkPage {
    /// Returns the raw payload of the page.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
    /// Parses the raw payload of a page.
    pub(crate) fn parse(_payload: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }
}
