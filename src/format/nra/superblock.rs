//! The superblock and its commit slots, and feature flags.
//!
//! Spec: nra.md, sections 4, 5 and 21.

use crate::footer::FOOTER_LEN;
use crate::frame::{ALIGNMENT, HEADER_LEN, is_frame_offset};
use crate::layout::{Field, SUPERBLOCK_LEN, commit_slot, superblock};
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::wire::Malformed;

/// Length of a commit slot, bytes.
pub const COMMIT_SLOT_LEN: usize = 64;

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"NRA\0";
/// Version of the format.
pub const VERSION: u16 = 5;
/// First bytes of a commit slot.
pub const COMMIT_SLOT_MAGIC: [u8; 8] = *b"NRASLOT\n";

/// Bit in `required`: frames are sealed.
pub const REQUIRED_ENCRYPTION: u32 = 1 << 0;
/// Named features: field, bit, name.
pub const FEATURES: &[(&str, u32, &str)] = &[("required", 0, "encryption")];

const COMMIT_SLOTS: [Field<COMMIT_SLOT_LEN>; 2] = [superblock::COMMIT_SLOT_A, superblock::COMMIT_SLOT_B];

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Superblock {
    /// Features that a reader must support.
    pub required: u32,
    /// Features that a reader may ignore.
    pub optional: u32,
    /// Offset and frame length of the first key frame; zeros if the archive is not encrypted.
    pub keys: (u64, u64),
    /// The two commit slots; `None` = empty.
    pub slots: [Option<CommitSlot>; 2],
}

/// A commit slot: where the file ended at some commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommitSlot {
    pub number: u64,
    /// Length of the file at that commit.
    pub end: u64,
}

impl Superblock {
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        let mut bytes = [0; SUPERBLOCK_LEN];
        superblock::MAGIC.put(&mut bytes, MAGIC);
        superblock::VERSION.put_number(&mut bytes, VERSION);
        superblock::REQUIRED.put_number(&mut bytes, self.required);
        superblock::OPTIONAL.put_number(&mut bytes, self.optional);
        superblock::KEY_FRAME_OFFSET.put_number(&mut bytes, self.keys.0);
        superblock::KEY_FRAME_LENGTH.put_number(&mut bytes, self.keys.1);
        let sum = checksum(&bytes[..superblock::CHECKSUM.offset], 0);
        superblock::CHECKSUM.put_number(&mut bytes, sum);
        for (field, slot) in COMMIT_SLOTS.into_iter().zip(&self.slots) {
            field.put(&mut bytes, slot.as_ref().map_or([0; COMMIT_SLOT_LEN], |slot| slot.encode(field.offset as u64)));
        }
        bytes
    }

    /// Parses a superblock. A damaged commit slot is returned as empty, and its index (0 = a, 1 =
    /// b) is listed in the second value.
    pub(crate) fn parse(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<(Self, Vec<usize>)> {
        let corrupt = |detail: String| Error::corrupt("superblock", 0, detail);
        if superblock::MAGIC.get(bytes) != MAGIC {
            return Err(corrupt("not an NRA file".into()));
        }
        // The version comes first: earlier formats have no checksum at this offset.
        check_version(superblock::VERSION.number(bytes))?;
        check_sum(&bytes[..superblock::CHECKSUM.offset], 0, superblock::CHECKSUM.number(bytes)).map_err(corrupt)?;
        let (a, b, c) = (superblock::RESERVED_A, superblock::RESERVED_B, superblock::RESERVED_C);
        if !(a.is_zero(bytes) && b.is_zero(bytes) && c.is_zero(bytes)) {
            return Err(corrupt("reserved bytes are not zero".into()));
        }
        let required = superblock::REQUIRED.number(bytes);
        let keys = (superblock::KEY_FRAME_OFFSET.number(bytes), superblock::KEY_FRAME_LENGTH.number(bytes));
        check_keys(required, keys).map_err(corrupt)?;
        if keys.0 != 0 && keys.0 != SUPERBLOCK_LEN as u64 {
            return Err(corrupt(format!("first key frame at offset {}", keys.0)));
        }
        let mut damaged = Vec::new();
        let mut slots = [None; 2];
        for (i, (field, slot)) in COMMIT_SLOTS.into_iter().zip(&mut slots).enumerate() {
            match CommitSlot::parse(&field.get(bytes), field.offset as u64) {
                Ok(parsed) => *slot = parsed,
                Err(_) => damaged.push(i),
            }
        }
        Ok((Self { required, optional: superblock::OPTIONAL.number(bytes), keys, slots }, damaged))
    }

    /// Returns where to write `slot`: an empty commit slot, an invalid one, or the older one.
    /// Returns `None` if it is already there.
    pub(crate) fn commit_slot_for(&self, slot: CommitSlot) -> Option<(u64, CommitSlot)> {
        if self.slots.contains(&Some(slot)) {
            return None;
        }
        let age = |index: &usize| match self.slots[*index] {
            Some(other) if other.number < slot.number && other.end < slot.end => other.number,
            _ => 0,
        };
        let index = (0..self.slots.len()).min_by_key(age).expect("there are two commit slots");
        Some((CommitSlot::offset(index), slot))
    }
}

impl CommitSlot {
    pub fn encode(&self, offset: u64) -> [u8; COMMIT_SLOT_LEN] {
        let mut bytes = [0; COMMIT_SLOT_LEN];
        commit_slot::MAGIC.put(&mut bytes, COMMIT_SLOT_MAGIC);
        commit_slot::NUMBER.put_number(&mut bytes, self.number);
        commit_slot::END.put_number(&mut bytes, self.end);
        let sum = checksum(&bytes[..commit_slot::CHECKSUM.offset], offset);
        commit_slot::CHECKSUM.put_number(&mut bytes, sum);
        bytes
    }

    /// Parses the commit slot at file offset `offset`. An empty one is `None`.
    pub(crate) fn parse(bytes: &[u8; COMMIT_SLOT_LEN], offset: u64) -> Result<Option<Self>, Malformed> {
        if *bytes == [0; COMMIT_SLOT_LEN] {
            return Ok(None);
        }
        if commit_slot::MAGIC.get(bytes) != COMMIT_SLOT_MAGIC {
            return Err("not a commit slot".into());
        }
        check_sum(&bytes[..commit_slot::CHECKSUM.offset], offset, commit_slot::CHECKSUM.number(bytes))?;
        if !commit_slot::RESERVED.is_zero(bytes) {
            return Err("reserved bytes are not zero".into());
        }
        let (number, end): (u64, u64) = (commit_slot::NUMBER.number(bytes), commit_slot::END.number(bytes));
        // A commit frame and its footer lie between the superblock and the end.
        let least = (SUPERBLOCK_LEN + HEADER_LEN + FOOTER_LEN) as u64;
        if number == 0 || end < least || end > MAX_OFFSET || !end.is_multiple_of(ALIGNMENT) {
            return Err(format!("commit {number} ends at offset {end}"));
        }
        Ok(Some(Self { number, end }))
    }

    /// Returns the file offset of commit slot `index` (0 = a, 1 = b).
    ///
    /// # Panics
    ///
    /// If there is no such commit slot.
    pub(crate) fn offset(index: usize) -> u64 {
        COMMIT_SLOTS[index].offset as u64
    }
}

/// Rejects required features that this version of nra does not support.
pub(crate) fn check_required(required: u32, supported: u32) -> Result<()> {
    check_features("required", "required feature", required, supported)
}

/// Rejects optional features that this version of nra does not know. It must not write to such an
/// archive.
pub(crate) fn check_optional(optional: u32, supported: u32) -> Result<()> {
    check_features("optional", "writing to an archive with the optional feature", optional, supported)
}

fn check_features(field: &str, what: &'static str, features: u32, supported: u32) -> Result<()> {
    let unknown = features & !supported;
    if unknown == 0 {
        return Ok(());
    }
    let bit = unknown.trailing_zeros();
    let name = |bit: u32| FEATURES.iter().find(|f| f.0 == field && f.1 == bit).map(|f| f.2.to_owned());
    let known: Vec<String> = (0..u32::BITS).filter(|bit| supported >> bit & 1 == 1).filter_map(name).collect();
    Err(Error::Unsupported {
        what,
        found: name(bit).unwrap_or_else(|| format!("bit {bit}")),
        known: if known.is_empty() { "none".into() } else { known.join(", ") },
    })
}

pub(crate) fn check_version(version: u16) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Unsupported { what: "NRA version", found: version.to_string(), known: VERSION.to_string() })
}

pub(crate) fn check_sum(bytes: &[u8], offset: u64, found: u64) -> Result<(), Malformed> {
    let expected = checksum(bytes, offset);
    if expected == found { Ok(()) } else { Err(format!("checksum is {found:016x}, expected {expected:016x}")) }
}

/// Checks that a key frame is named if and only if the archive is encrypted.
pub(crate) fn check_keys(required: u32, keys: (u64, u64)) -> Result<(), Malformed> {
    let good = if required & REQUIRED_ENCRYPTION == 0 {
        keys == (0, 0)
    } else {
        is_frame_offset(keys.0) && keys.1 >= HEADER_LEN as u64 && keys.1.is_multiple_of(ALIGNMENT) && keys.1 <= MAX_OFFSET
    };
    if good { Ok(()) } else { Err(format!("key frame of {} bytes at offset {}", keys.1, keys.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_superblock() -> Superblock {
        let slots = [Some(CommitSlot { number: 1, end: 592 }), Some(CommitSlot { number: 2, end: 4096 })];
        Superblock { required: REQUIRED_ENCRYPTION, optional: 1 << 7, keys: (256, 200), slots }
    }

    #[test]
    fn superblocks_round_trip() {
        for superblock in [Superblock::default(), full_superblock()] {
            assert_eq!(Superblock::parse(&superblock.encode()).unwrap(), (superblock, vec![]));
        }
    }

    #[test]
    fn every_changed_byte_of_the_superblock_is_detected() {
        let superblock = full_superblock();
        for at in 0..SUPERBLOCK_LEN {
            let mut bytes = superblock.encode();
            bytes[at] ^= 1;
            match (Superblock::parse(&bytes), at) {
                (Err(Error::Unsupported { .. }), 4..6) => {}
                (Err(Error::Corrupt { .. }), 0..4 | 6..64 | 192..) => {}
                (Ok((parsed, damaged)), 64..192) => {
                    assert_eq!(damaged, [(at - 64) / 64]);
                    assert_eq!(parsed.slots[damaged[0]], None);
                }
                (other, _) => panic!("byte {at}: {other:?}"),
            }
        }
    }

    #[test]
    fn commit_slot_is_valid_only_at_its_own_offset() {
        let slot = CommitSlot { number: 1, end: 592 };
        assert_eq!(CommitSlot::parse(&slot.encode(64), 64), Ok(Some(slot)));
        assert!(CommitSlot::parse(&slot.encode(64), 128).is_err());
        for bad in [
            CommitSlot { number: 0, ..slot },
            CommitSlot { end: 376, ..slot },
            CommitSlot { end: 593, ..slot },
            CommitSlot { end: 1 << 63, ..slot },
        ] {
            assert!(CommitSlot::parse(&bad.encode(64), 64).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn unknown_features_are_reported_by_name() {
        assert!(check_required(0, 0).is_ok());
        assert!(check_required(1, REQUIRED_ENCRYPTION).is_ok());
        let text = |required, supported| check_required(required, supported).unwrap_err().to_string();
        assert_eq!(text(1, 0), "required feature encryption is not supported (known: none)");
        assert_eq!(text(0b1001, 1), "required feature bit 3 is not supported (known: encryption)");
    }
}
