//! Keys of cached structures.

use crate::content::{BlockRef, Extent, FrameRef};
use crate::frame::FrameKind;

/// Identifies a decoded structure by everything that is compared when it is loaded. So a false
/// reference neither finds the structure nor makes it unreadable for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CacheKey {
    /// A page.
    Page(FrameKind, FrameRef),
    /// The payload or block index of a block.
    Block(BlockRef),
    /// A chunk that is read without the rest of its block.
    Chunk(Extent),
    /// An uncompressed entry with this checksum that is read without the rest of its block.
    Uncompressed(Extent, u32),
    /// The block at this offset, whatever its header checksum.
    IndexedBlock(u64),
    /// The dictionary at this offset.
    Dictionary(u64),
}
