//! Which pieces there are, and where they lie.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use nra_core::digest::Digest;
use nra_core::error::{Error, Result};

/// Number of a piece, in the order of arrival.
pub(super) type PieceId = u32;

/// Number of a run, from 1; 0 = none.
pub(super) type RunId = u32;

/// Where a piece lies, as far as that is settled.
#[derive(Debug, Clone, Copy)]
pub(super) struct PiecePlace {
    /// Run that the piece was put in.
    pub run: RunId,
    /// Length, bytes.
    pub raw_len: u32,
    /// Number of its block among those of the archive; valid once the run is placed, as are the next fields.
    pub block: u32,
    /// Offset in the block's raw payload.
    pub offset: u32,
    /// Number within the block.
    pub number: u32,
    /// Content checksum; only of pieces in blocks that are not compressed.
    pub checksum: u32,
}

/// A hasher for what is a hash already.
#[derive(Debug, Default)]
pub(super) struct Prehashed(u64);

impl Hasher for Prehashed {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(front) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*front);
        }
    }

    // The length of the digest, always the same.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// All pieces of the archive.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    by_digest: HashMap<Digest, PieceId, BuildHasherDefault<Prehashed>>,
    places: Vec<PiecePlace>,
}

impl Pieces {
    /// Adds a piece that is put in `run`; there is none with this digest.
    pub fn insert(&mut self, digest: Digest, raw_len: u32, run: RunId) -> Result<PieceId> {
        let next = self.places.len();
        let id = PieceId::try_from(next).map_err(|_| Error::Limit {
            what: "number of pieces",
            found: next as u64,
            limit: PieceId::MAX.into(),
        })?;
        self.by_digest.insert(digest, id);
        self.places.push(PiecePlace { run, raw_len, block: u32::MAX, offset: 0, number: 0, checksum: 0 });
        Ok(id)
    }

    /// Returns the piece with `digest`, if there is one.
    pub fn find(&self, digest: &Digest) -> Option<PieceId> {
        self.by_digest.get(digest).copied()
    }

    pub fn place(&self, id: PieceId) -> &PiecePlace {
        &self.places[id as usize]
    }

    pub fn place_mut(&mut self, id: PieceId) -> &mut PiecePlace {
        &mut self.places[id as usize]
    }

    /// Iterates over digests and places, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Digest, &PiecePlace)> {
        self.by_digest.iter().map(|(digest, &id)| (digest, &self.places[id as usize]))
    }
}
