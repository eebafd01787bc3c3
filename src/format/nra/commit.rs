//! Commits and archive attributes.
//!
//! Spec: nra.md, sections 12 and 13.

use crate::format::entry::{Attribute, Timestamp};
use crate::format::nra::content::FrameRef;
use crate::format::wire::Malformed;

/// One complete state of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Commit {
    /// Same in all commits of an archive.
    pub archive_id: [u8; 16],
    /// 1 for the first.
    pub number: u64,
    /// When it was made, if that is told.
    pub time: Option<Timestamp>,
    /// Entries.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of all files.
    pub content_bytes: u64,
    /// Sum of the lengths of all pieces.
    pub piece_bytes: u64,
    /// Sum of the stored payloads of all blocks.
    pub stored_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Pieces.
    pub pieces: u64,
    /// Root of the entry tree.
    pub entry_root: Option<FrameRef>,
    /// The commit before.
    pub previous: Option<FrameRef>,
    /// Archive attributes.
    pub attributes: Option<FrameRef>,
    /// Last recovery frame.
    pub recovery: Option<FrameRef>,
    /// Roots of the chunk runs.
    pub runs: Vec<FrameRef>,
    /// Message given by the user.
    pub message: String,
}

impl Commit {
    /// Returns the payload.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }
    /// Parses a payload.
    pub(crate) fn parse(_payload: &[u8]) -> Result<Self, Malformed> {
        todo!()
    }
    /// Returns the archive id that follows from the other fields (reproducible archives; spec section 13).
    pub fn derived_id(&self) -> [u8; 16] {
        todo!()
    }
}

/// Returns the payload of an attributes frame; `attributes` are sorted and not empty.
pub fn encode_attributes(_attributes: &[Attribute]) -> Vec<u8> {
    todo!()
}

/// Parses the payload of an attributes frame.
pub(crate) fn parse_attributes(_payload: &[u8]) -> Result<Vec<Attribute>, Malformed> {
    todo!()
}
