//! Locations of content in an NRA file.
//!
//! Spec: nra.md, section 8.4.

use std::hash::{Hash, Hasher};

use nra_core::digest::Digest;
use nra_core::entry::{EngineLocation, Entry, Location};

/// Reference to a frame: offset, frame length and expected header checksum. Spec: nra.md, section
/// 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameRef {
    /// File offset of the frame.
    pub offset: u64,
    /// Frame length, bytes.
    pub length: u64,
    pub header_checksum: u64,
}

/// A block as a record list describes it: enough to read and check header and payload with one
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockRef {
    /// File offset of the block's frame.
    pub offset: u64,
    /// Length of the payload after decompression.
    pub raw_len: u32,
    /// Length of the payload as stored.
    pub stored_len: u32,
    /// Zero bytes between header and payload.
    pub pad_len: u32,
    /// Header checksum; 0 in the block's own index, where it is not yet known.
    pub header_checksum: u64,
}

/// A range of bytes in the raw payload of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    pub block: BlockRef,
    /// Offset in the raw payload.
    pub offset: u32,
    /// Length, bytes.
    pub len: u64,
}

/// An element of an extent list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Stored bytes.
    Data(Extent),
    /// Zero bytes that are not stored.
    Hole(u64),
}

impl BlockRef {
    /// Sets the header checksum if this is the block at `offset`, whose own index lacks the checksum.
    fn complete(&mut self, offset: u64, header_checksum: u64) {
        if self.offset == offset && self.header_checksum == 0 {
            self.header_checksum = header_checksum;
        }
    }
}

/// Sets the header checksum of the block at `offset`, whose own index lacks the checksum.
pub(crate) fn complete_segments(segments: &mut [Segment], offset: u64, header_checksum: u64) {
    for segment in segments {
        if let Segment::Data(extent) = segment {
            extent.block.complete(offset, header_checksum);
        }
    }
}

impl Segment {
    /// Returns the length of the content, bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Data(extent) => extent.len,
            Self::Hole(len) => *len,
        }
    }
}

/// Content of an entry, in the forms of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Content {
    /// Form 0: no content.
    #[default]
    None,
    /// Form 1: one extent.
    Extent(Extent),
    /// Form 2: one whole chunk of a block of codec 0, and the checksum of its bytes.
    Uncompressed(Extent, u32),
    /// Form 3: extents and holes in order; digest of the whole content, if known.
    List(Box<[Segment]>, Option<Box<Digest>>),
    /// Form 4: root page of an extent map; digest of the whole content, if known.
    Map(FrameRef, Option<Box<Digest>>),
}

impl Content {
    /// Sets the header checksum of the block at `offset`, whose own index lacks the checksum.
    pub(crate) fn complete(&mut self, offset: u64, header_checksum: u64) {
        match self {
            Self::None | Self::Map(..) => {}
            Self::Extent(extent) | Self::Uncompressed(extent, _) => extent.block.complete(offset, header_checksum),
            Self::List(segments, _) => complete_segments(segments, offset, header_checksum),
        }
    }
}

impl EngineLocation for Content {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns the file offset of the first block, and the offset in its raw payload.
    fn position(&self) -> (u64, u64) {
        match self {
            Self::None => (0, 0),
            Self::Extent(extent) | Self::Uncompressed(extent, _) => (extent.block.offset, extent.offset.into()),
            Self::List(segments, _) => segments
                .iter()
                .find_map(|segment| match segment {
                    Segment::Data(extent) => Some((extent.block.offset, extent.offset.into())),
                    Segment::Hole(_) => None,
                })
                .unwrap_or((0, 0)),
            Self::Map(root, _) => (root.offset, 0),
        }
    }

    fn is_same(&self, other: &dyn EngineLocation) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn heap_bytes(&self) -> usize {
        let heap = match self {
            Self::List(segments, digest) => size_of_val(&**segments) + digest.as_deref().map_or(0, size_of_val),
            Self::Map(_, digest) => digest.as_deref().map_or(0, size_of_val),
            Self::None | Self::Extent(_) | Self::Uncompressed(..) => 0,
        };
        size_of::<Self>() + heap
    }

    fn hash_into(&self, mut state: &mut dyn Hasher) {
        self.hash(&mut state);
    }
}

impl From<Content> for Location {
    fn from(content: Content) -> Self {
        if content == Content::None { Self::NONE } else { Self::engine(content) }
    }
}

/// Content of entries of this engine.
pub trait EntryContent {
    /// Returns the content; [`Content::None`] for entries of other engines.
    fn content(&self) -> &Content;

    fn content_mut(&mut self) -> &mut Content;
}

impl EntryContent for Entry {
    fn content(&self) -> &Content {
        self.location.downcast().unwrap_or(&Content::None)
    }

    fn content_mut(&mut self) -> &mut Content {
        self.location.downcast_mut()
    }
}
