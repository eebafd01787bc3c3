//! Directories of blocks: what makes content survive the loss of the index.
//!
//! Spec: nra.md, section 7.

use crate::format::digest::Digest;
use crate::format::entry::Entry;
use crate::format::wire::Malformed;

/// One piece of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Zero bytes in front of it.
    pub gap: u32,
    /// Raw length, 1 or more.
    pub raw_len: u32,
    /// Digest of its bytes.
    pub digest: Digest,
}

/// The directory of a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directory {
    /// Pieces in the order in which they lie in the payload.
    pub pieces: Vec<Piece>,
    /// Entries finished with this block.
    pub entries: Vec<Entry>,
}

impl Directory {
    /// Returns the bytes of the directory.
    pub fn encode(&self) -> crate::format::Result<Vec<u8>> {
        todo!()
    }
    /// Parses the directory of the block at `block` with a payload of `raw_len` raw bytes.
    pub(crate) fn parse(_bytes: &[u8], _block: u64, _raw_len: u32) -> Result<Self, Malformed> {
        todo!()
    }
}
