//! Keys of cached structures.

use crate::content::{BlockRef, Extent, FrameRef};

/// Identifies a decoded structure by its offset and expected header checksum. A reference with
/// another checksum does not find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheKey {
    pub(super) offset: u64,
    header_checksum: u64,
    part: u64,
}

impl CacheKey {
    /// Returns the key of the frame that a reference locates.
    pub(super) fn frame(reference: FrameRef) -> Self {
        Self { offset: reference.offset, header_checksum: reference.header_checksum, part: u64::MAX }
    }
    /// Returns the key of the payload or block index of a block.
    pub(super) fn block(block: &BlockRef) -> Self {
        Self { offset: block.offset, header_checksum: block.header_checksum, part: u64::MAX }
    }
    /// Returns the key of an extent that is read without the rest of its block.
    pub(super) fn extent(extent: &Extent) -> Self {
        Self { part: extent.offset.into(), ..Self::block(&extent.block) }
    }
    /// Returns the key of the block at this offset, whatever its header checksum.
    pub(super) fn indexed_block(offset: u64) -> Self {
        Self { offset, header_checksum: 0, part: u64::MAX - 2 }
    }
    /// Returns the key of the dictionary at this offset.
    pub(super) fn dictionary(offset: u64) -> Self {
        Self { offset, header_checksum: 0, part: u64::MAX - 1 }
    }
}
