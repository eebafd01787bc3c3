//! Names of what was decoded.

use crate::content::{BlockRef, Extent, FrameRef};

/// Names a decoded structure: where it lies and the header checksum it must have (so that a reference with another one can't find it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) offset: u64,
    check: u64,
    part: u64,
}

impl Key {
    /// The frame that a reference leads to.
    pub(super) fn frame(reference: FrameRef) -> Self {
        Self { offset: reference.offset, check: reference.check, part: u64::MAX }
    }
    /// The payload, or the directory, of a block.
    pub(super) fn block(block: &BlockRef) -> Self {
        Self { offset: block.offset, check: block.check, part: u64::MAX }
    }
    /// An extent that is read without the rest of its block.
    pub(super) fn extent(extent: &Extent) -> Self {
        Self { part: extent.offset.into(), ..Self::block(&extent.block) }
    }
    /// The block at this offset, whatever its header says.
    pub(super) fn held_block(offset: u64) -> Self {
        Self { offset, check: 0, part: u64::MAX - 2 }
    }
    /// The dictionary at this offset.
    pub(super) fn dictionary(offset: u64) -> Self {
        Self { offset, check: 0, part: u64::MAX - 1 }
    }
}
