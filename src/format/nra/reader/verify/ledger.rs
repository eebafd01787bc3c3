//! What was found: damage, and the blocks with what is wrong with them.

use std::collections::HashMap;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::content::{BlockRef, Extent};
use nra_core::archive::Damage;
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;

/// Paths kept with one damage.
const MAX_PATHS: usize = 1_000;
/// Findings kept apart; what comes after them is only counted.
const MAX_FINDINGS: usize = 10_000;

/// Number of a damage.
pub(super) type DamageId = usize;

/// Something wrong at a place.
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

    /// Turns an error met at a place into a finding.
    ///
    /// # Errors
    ///
    /// The error itself when it says nothing of the file: interruption, a connection that broke.
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
pub(super) struct Ledger {
    damage: Vec<Damage>,
    known: HashMap<(&'static str, u64), DamageId>,
    /// Findings beyond [`MAX_FINDINGS`].
    further: u64,
}

impl Ledger {
    /// Adds a finding; one of the same structure at the same place is not added again.
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

    /// Notes that an entry does not read because of a damage.
    pub(super) fn entry(&mut self, id: DamageId, path: &EntryPath) {
        let damage = &mut self.damage[id];
        damage.entry_count += 1;
        if damage.entries.len() < MAX_PATHS {
            damage.entries.push(path.clone());
        }
    }

    /// Notes entries of unknown name that do not read because of a damage.
    pub(super) fn nameless(&mut self, id: DamageId, count: u64) {
        self.damage[id].entry_count += count;
    }

    pub(super) fn rename(&mut self, id: DamageId, structure: &str) {
        self.damage[id].structure = structure.into();
    }

    /// Says whether nothing is wrong so far.
    pub(super) fn is_empty(&self) -> bool {
        self.damage.is_empty()
    }

    /// Returns the damage in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Damage> {
        self.damage.sort_by_key(|damage| damage.offset);
        if self.further > 0 {
            let detail = format!("{} more findings are not listed", self.further);
            self.damage.push(Damage {
                structure: "archive".into(),
                offset: 0,
                detail,
                entries: Vec::new(),
                entry_count: 0,
                is_certain: true,
            });
        }
        self.damage
    }
}

/// What is wrong with a block, for the entries in it.
#[derive(Debug)]
pub(super) enum Corruption {
    /// Nothing in it reads.
    Lost(DamageId),
    /// Bytes of an uncompressed payload are wrong: reading tells which entries are hit.
    Doubtful(DamageId),
    /// These ranges of the raw payload are wrong.
    Ranges(DamageId, Vec<Range<u64>>),
}

/// The blocks that were met: 20 bytes for each.
#[derive(Default)]
pub(super) struct Blocks {
    /// Ascending.
    offsets: Vec<u64>,
    /// Print of what records must say of the block.
    prints: Vec<u64>,
    /// 0 = good, else index + 1 into `bad`.
    states: Vec<u32>,
    bad: Vec<Corruption>,
}

/// What a look-up of a block gives.
pub(super) enum Found<'a> {
    /// No block starts there.
    Nothing,
    /// There is one, but with another header.
    Other,
    Good,
    Flawed(&'a Corruption),
}

impl Blocks {
    /// Adds a block that lies behind those before.
    pub(super) fn add(&mut self, block: &BlockRef, flaw: Option<Corruption>) {
        self.offsets.push(block.offset);
        self.prints.push(print(block));
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

    pub(super) fn find(&self, block: &BlockRef) -> Found<'_> {
        let Ok(index) = self.offsets.binary_search(&block.offset) else { return Found::Nothing };
        if self.prints[index] != print(block) {
            return Found::Other;
        }
        match usize::try_from(self.states[index]).ok().and_then(|state| state.checked_sub(1)) {
            None => Found::Good,
            Some(bad) => Found::Flawed(&self.bad[bad]),
        }
    }
}

fn print(block: &BlockRef) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&block.check.to_le_bytes());
    bytes[8..12].copy_from_slice(&block.raw_len.to_le_bytes());
    bytes[12..16].copy_from_slice(&block.stored_len.to_le_bytes());
    bytes[16..].copy_from_slice(&block.pad_len.to_le_bytes());
    xxh3_64(&bytes)
}

/// Says whether an extent has bytes in one of the ranges.
pub(super) fn overlaps(extent: &Extent, ranges: &[Range<u64>]) -> bool {
    let (start, end) = (u64::from(extent.offset), u64::from(extent.offset) + extent.len);
    ranges.iter().any(|range| range.start < end && start < range.end)
}
