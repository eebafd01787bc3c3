//! Head, slots and tail: the fixed places of a file.
//!
//! Spec: nra.md, sections 4, 5 and 14.

use crate::format::error::Result;

/// Length of the head.
pub const HEAD_LEN: usize = 256;
/// Length of a slot.
pub const SLOT_LEN: usize = 64;
/// Length of a tail.
pub const TAIL_LEN: usize = 64;

/// The first bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Features a reader must know.
    pub required: u32,
    /// Features a reader may ignore.
    pub optional: u32,
    /// Offset and whole length of the first key frame; zeros when not encrypted.
    pub keys: (u64, u64),
    /// The two slots; `None` = empty.
    pub slots: [Option<Slot>; 2],
}

/// Where the file ended at some commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Number of the commit.
    pub number: u64,
    /// Length of the file at that commit.
    pub end: u64,
}

/// The 64 bytes behind a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Features a reader must know.
    pub required: u32,
    /// Offset of the commit frame.
    pub commit_offset: u64,
    /// Its whole length.
    pub commit_length: u64,
    /// Offset and whole length of the newest key frame; zeros when not encrypted.
    pub keys: (u64, u64),
    /// Number of the commit.
    pub number: u64,
}

impl Head {
    /// Returns the bytes of the head.
    pub fn encode(&self) -> [u8; HEAD_LEN] {
        todo!()
    }
    /// Parses the first bytes of a file. A damaged slot is read as empty and listed in the second value (0 = a, 1 = b).
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version, `Corrupt` otherwise.
    pub fn parse(_bytes: &[u8; HEAD_LEN]) -> Result<(Self, Vec<usize>)> {
        todo!()
    }
}

impl Tail {
    /// Returns the bytes of a tail at file offset `place`.
    pub fn encode(&self, _place: u64) -> [u8; TAIL_LEN] {
        todo!()
    }
    /// Parses a tail at file offset `place`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version, `Corrupt` otherwise.
    pub fn parse(_bytes: &[u8; TAIL_LEN], _place: u64) -> Result<Self> {
        todo!()
    }
}
