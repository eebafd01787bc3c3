//! Findings, and the state of all blocks.

use std::collections::HashMap;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::content::{BlockRef, Extent};
use nra_core::archive::Damage;
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;

/// Most paths that are kept per damage.
const MAX_PATHS: usize = 1_000;
/// Most findings that are listed. Further ones are only counted.
const MAX_FINDINGS: usize = 10_000;

/// Index of a damage in the list.
pub(super) type DamageId = usize;

/// A fault at an offset.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) structure: &'static str,
    pub(super) offset: u64,
    pub(super) detail: String,
}

impl Finding {
    pub(super) fn new(structure: &'static str, offset: u64, detail: impl Into<String>) -> Self {
        Self { structure, offset, detail: detail.into() }
    }

    /// Converts an error at an offset to a finding.
    ///
    /// # Errors
    ///
    /// The error itself if it is not about the file, such as a cancellation or a lost connection.
    pub(super) fn from_error(error: Error, structure: &'static str, offset: u64) -> Result<Self> {
        match error {
            Error::Corrupt { structure, offset, detail } => Ok(Self { structure, offset, detail }),
            Error::Limit { .. } => Ok(Self::new(structure, offset, error.to_string())),
            Error::Io { ref source, .. } if error.is_unreadable() => {
                Ok(Self::new(structure, offset, format!("cannot be read: {source}")))
            }
            other => Err(other),
        }
    }
}

/// All damage so far.
#[derive(Default)]
pub(super) struct DamageList {
    damage: Vec<Damage>,
    known: HashMap<(&'static str, u64), DamageId>,
    /// Number of findings beyond [`MAX_FINDINGS`].
    further: u64,
}

impl DamageList {
    /// Adds a finding. One structure at one offset is added only once.
    pub(super) fn add(&mut self, finding: Finding) -> DamageId {
        let Finding { structure, offset, detail } = finding;
        if let Some(&id) = self.known.get(&(structure, offset)) {
            return id;
        }
        if self.damage.len() >= MAX_FINDINGS {
            self.further += 1;
            return self.damage.len() - 1;
        }
        let id = self.damage.len();
        self.known.insert((structure, offset), id);
        self.damage.push(Damage::new(structure, offset, detail));
        id
    }

    /// As [`Self::add`], from the parts of a finding.
    pub(super) fn report(&mut self, structure: &'static str, offset: u64, detail: impl Into<String>) -> DamageId {
        self.add(Finding::new(structure, offset, detail))
    }

    /// As [`Self::add`], from an error: see [`Finding::from_error`].
    pub(super) fn report_error(&mut self, error: Error, structure: &'static str, offset: u64) -> Result<DamageId> {
        Finding::from_error(error, structure, offset).map(|finding| self.add(finding))
    }

    /// Records that a damage makes an entry unreadable.
    pub(super) fn add_entry(&mut self, id: DamageId, path: &EntryPath) {
        let damage = &mut self.damage[id];
        damage.entry_count += 1;
        if damage.entries.len() < MAX_PATHS {
            damage.entries.push(path.clone());
        }
    }

    /// Records that a damage makes entries with unknown names unreadable.
    pub(super) fn add_unnamed_entries(&mut self, id: DamageId, count: u64) {
        self.damage[id].entry_count += count;
    }

    pub(super) fn set_structure(&mut self, id: DamageId, structure: &str) {
        self.damage[id].structure = structure.into();
    }

    /// Returns whether there is no damage so far.
    pub(super) fn is_empty(&self) -> bool {
        self.damage.is_empty()
    }

    /// Returns the damage in file order.
    pub(super) fn finish(mut self) -> Vec<Damage> {
        self.damage.sort_by_key(|damage| damage.offset);
        if self.further > 0 {
            self.damage.push(Damage::new("archive", 0, format!("{} more findings are not listed", self.further)));
        }
        self.damage
    }
}

/// Damage of a block as its entries see it.
#[derive(Debug)]
pub(super) enum BlockDamage {
    /// Nothing in the block is readable.
    Lost(DamageId),
    /// Bytes of an uncompressed payload are wrong. Reading shows which entries are affected.
    Doubtful(DamageId),
    /// These ranges of the raw payload are wrong.
    Ranges(DamageId, Vec<Range<u64>>),
}

/// The blocks of the file. Each takes 20 bytes.
#[derive(Default)]
pub(super) struct BlockTable {
    /// Ascending.
    offsets: Vec<u64>,
    /// Fingerprints of the fields that records must repeat.
    fingerprints: Vec<u64>,
    /// 0 = undamaged, otherwise index + 1 in `bad`.
    states: Vec<u32>,
    bad: Vec<BlockDamage>,
}

/// Result of looking up a block.
pub(super) enum BlockLookup<'a> {
    /// No block starts at this offset.
    Nothing,
    /// A block with another header starts there.
    Other,
    Good,
    Flawed(&'a BlockDamage),
}

impl BlockTable {
    /// Adds a block. Blocks come in file order.
    pub(super) fn add(&mut self, block: &BlockRef, flaw: Option<BlockDamage>) {
        self.offsets.push(block.offset);
        self.fingerprints.push(fingerprint(block));
        let state = match flaw {
            None => 0,
            Some(flaw) => {
                self.bad.push(flaw);
                u32::try_from(self.bad.len()).expect("a file of 2^63 bytes has fewer damaged blocks")
            }
        };
        self.states.push(state);
    }

    pub(super) fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    pub(super) fn find(&self, block: &BlockRef) -> BlockLookup<'_> {
        let Ok(index) = self.offsets.binary_search(&block.offset) else { return BlockLookup::Nothing };
        if self.fingerprints[index] != fingerprint(block) {
            return BlockLookup::Other;
        }
        match usize::try_from(self.states[index]).ok().and_then(|state| state.checked_sub(1)) {
            None => BlockLookup::Good,
            Some(bad) => BlockLookup::Flawed(&self.bad[bad]),
        }
    }
}

fn fingerprint(block: &BlockRef) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&block.header_checksum.to_le_bytes());
    bytes[8..12].copy_from_slice(&block.raw_len.to_le_bytes());
    bytes[12..16].copy_from_slice(&block.stored_len.to_le_bytes());
    bytes[16..].copy_from_slice(&block.pad_len.to_le_bytes());
    xxh3_64(&bytes)
}

pub(super) fn overlaps(extent: &Extent, ranges: &[Range<u64>]) -> bool {
    let (start, end) = (u64::from(extent.offset), u64::from(extent.offset) + extent.len);
    ranges.iter().any(|range| range.start < end && start < range.end)
}
