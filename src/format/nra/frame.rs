//! Frames: the self-delimiting unit of a file.
//!
//! Spec: nra.md, section 6.

use crate::format::codec::Codec;
use crate::format::error::Result;

/// Length of a frame header.
pub const HEADER_LEN: usize = 64;
/// First bytes of a frame.
pub const SYNC: [u8; 4] = [0x8a, 0x4e, 0x0d, 0x0a];

/// What a frame holds. The numbers are those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FrameKind {
    Block = 1,
    Dictionary = 2,
    EntryPage = 3,
    ExtentPage = 4,
    ChunkPage = 5,
    Attributes = 6,
    Commit = 7,
    Keys = 8,
    Recovery = 9,
}

/// Header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the frame holds.
    pub kind: FrameKind,
    /// How the payload is compressed.
    pub codec: Codec,
    /// Length of the payload after decompression.
    pub raw_len: u32,
    /// Length of the payload as stored.
    pub stored_len: u32,
    /// Zero bytes between header and payload.
    pub pad_len: u32,
    /// Length of the directory.
    pub directory_len: u32,
    /// Offset of the dictionary frame, 0 = none.
    pub dictionary: u64,
    /// Checksum of the stored payload.
    pub payload_checksum: u64,
    /// Checksum of the directory, 0 when there is none.
    pub directory_checksum: u64,
    /// Number of the commit the frame was written for.
    pub commit: u64,
}

impl FrameHeader {
    /// Whole length of the frame.
    pub fn frame_len(&self) -> u64 {
        todo!()
    }
    /// Returns the bytes of the header at file offset `place`, and the header checksum.
    pub fn encode(&self, _place: u64) -> ([u8; HEADER_LEN], u64) {
        todo!()
    }
    /// Parses the header of the frame at file offset `place`: checksum, reserved bytes, limits by kind, and the rules of section 6. Returns the header checksum too.
    ///
    /// # Errors
    ///
    /// `Corrupt`, or `Limit`.
    pub fn parse(_bytes: &[u8; HEADER_LEN], _place: u64) -> Result<(Self, u64)> {
        todo!()
    }
}
