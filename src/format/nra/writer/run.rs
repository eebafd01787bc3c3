//! Runs: pieces on their way to blocks.

use crate::writer::EntryId;
use crate::writer::pieces::{PieceId, RunId};
use nra_core::digest::Digest;

/// Most pieces of a run, and so of a block.
pub(super) const MAX_PIECES: usize = 32_768;
/// Most entries that wait for one run.
pub(super) const MAX_WAITING: usize = 16_384;
/// Bytes of records, estimated, at which no more entries wait for the same run.
pub(super) const MAX_WEIGHT: usize = 8 << 20;

/// A piece of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPiece {
    pub id: PieceId,
    pub raw_len: u32,
    pub digest: Digest,
    /// Content checksum; 0 in runs that are to be compressed.
    pub checksum: u32,
}

/// Bytes of pieces that go to the same block or blocks, and the entries that wait for them.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub id: RunId,
    /// The pieces, with gaps for alignment in a run of raw content.
    pub bytes: Vec<u8>,
    pub pieces: Vec<RunPiece>,
    /// Entries that wait, each with the number of pieces of this run that must be placed; ascending.
    pub waiting: Vec<(usize, EntryId)>,
    /// Estimated length of the records of these entries, bytes.
    pub weight: usize,
    /// Length of the pieces without gaps, bytes.
    pub content_bytes: u64,
}

impl Run {
    pub fn new(id: RunId, bytes: Vec<u8>) -> Self {
        Self { id, bytes, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends a piece at the next multiple of `align`.
    pub fn push(&mut self, piece: RunPiece, bytes: &[u8], align: u32) {
        let start = aligned(self.bytes.len(), align);
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(bytes);
        self.content_bytes += bytes.len() as u64;
        self.pieces.push(piece);
    }

    /// Lets an entry wait for all pieces so far.
    pub fn wait(&mut self, entry: EntryId, weight: usize) {
        self.waiting.push((self.pieces.len(), entry));
        self.weight += weight;
    }

    /// Says whether the run has as many pieces or entries as it may.
    pub fn is_crowded(&self) -> bool {
        self.pieces.len() >= MAX_PIECES || self.waiting.len() >= MAX_WAITING || self.weight >= MAX_WEIGHT
    }
}

/// Returns the first multiple of `align` (0 = any number) that is not less than `len`.
pub(super) fn aligned(len: usize, align: u32) -> usize {
    if align <= 1 { len } else { len.next_multiple_of(align as usize) }
}
