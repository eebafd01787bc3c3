//! Head, slots and tail: the fixed places of a file.
//!
//! Spec: nra.md, sections 4, 5, 14 and 21.

use crate::frame::{ALIGNMENT, HEADER_LEN, is_place};
use crate::layout::{Field, SUPERBLOCK_LEN, commit_slot, footer, superblock};
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::wire::Malformed;

/// Length of a slot.
pub const SLOT_LEN: usize = 64;
/// Length of a tail.
pub const TAIL_LEN: usize = 64;

/// First bytes of a file.
pub const MAGIC: [u8; 4] = *b"NRA\0";
/// Version of the format.
pub const VERSION: u16 = 5;
/// First bytes of a slot.
pub const SLOT_MAGIC: [u8; 8] = *b"NRASLOT\n";
/// First bytes of a tail.
pub const TAIL_MAGIC: [u8; 8] = *b"NRATAIL\n";

/// Bit in `required`: frames are sealed.
pub const REQUIRED_ENCRYPTION: u32 = 1 << 0;
/// Features with a name: field, bit, name.
pub const FEATURES: &[(&str, u32, &str)] = &[("required", 0, "encryption")];

/// Where the slots lie in the head.
const SLOTS: [Field<SLOT_LEN>; 2] = [superblock::COMMIT_SLOT_A, superblock::COMMIT_SLOT_B];

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
    pub fn encode(&self) -> [u8; SUPERBLOCK_LEN] {
        let mut bytes = [0; SUPERBLOCK_LEN];
        superblock::MAGIC.put(&mut bytes, MAGIC);
        superblock::VERSION.put(&mut bytes, VERSION.to_le_bytes());
        superblock::REQUIRED.put(&mut bytes, self.required.to_le_bytes());
        superblock::OPTIONAL.put(&mut bytes, self.optional.to_le_bytes());
        superblock::KEY_FRAME_OFFSET.put(&mut bytes, self.keys.0.to_le_bytes());
        superblock::KEY_FRAME_LENGTH.put(&mut bytes, self.keys.1.to_le_bytes());
        let sum = checksum(&bytes[..superblock::CHECKSUM.offset], 0);
        superblock::CHECKSUM.put(&mut bytes, sum.to_le_bytes());
        for (field, slot) in SLOTS.into_iter().zip(&self.slots) {
            field.put(&mut bytes, slot.as_ref().map_or([0; SLOT_LEN], |slot| slot.encode(field.offset as u64)));
        }
        bytes
    }

    /// Parses the first bytes of a file. A damaged slot is read as empty and listed in the second value (0 = a, 1 = b).
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version, `Corrupt` otherwise.
    pub fn parse(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<(Self, Vec<usize>)> {
        let corrupt = |detail: String| Error::corrupt("head", 0, detail);
        if superblock::MAGIC.get(bytes) != MAGIC {
            return Err(corrupt("not an NRA file".into()));
        }
        // Before the checksum: earlier files have none in this place.
        check_version(u16::from_le_bytes(superblock::VERSION.get(bytes)))?;
        check_sum(&bytes[..superblock::CHECKSUM.offset], 0, superblock::CHECKSUM.get(bytes)).map_err(corrupt)?;
        if !(superblock::RESERVED_A.is_zero(bytes)
            && superblock::RESERVED_B.is_zero(bytes)
            && superblock::RESERVED_C.is_zero(bytes))
        {
            return Err(corrupt("reserved bytes are not zero".into()));
        }
        let required = u32::from_le_bytes(superblock::REQUIRED.get(bytes));
        let keys = (
            u64::from_le_bytes(superblock::KEY_FRAME_OFFSET.get(bytes)),
            u64::from_le_bytes(superblock::KEY_FRAME_LENGTH.get(bytes)),
        );
        check_keys(required, keys).map_err(corrupt)?;
        if keys.0 != 0 && keys.0 != SUPERBLOCK_LEN as u64 {
            return Err(corrupt(format!("first key frame at offset {}", keys.0)));
        }
        let mut damaged = Vec::new();
        let mut slots = [None; 2];
        for (i, (field, slot)) in SLOTS.into_iter().zip(&mut slots).enumerate() {
            match Slot::parse(&field.get(bytes), field.offset as u64) {
                Ok(parsed) => *slot = parsed,
                Err(_) => damaged.push(i),
            }
        }
        Ok((Self { required, optional: u32::from_le_bytes(superblock::OPTIONAL.get(bytes)), keys, slots }, damaged))
    }

    /// Returns the place for `slot`, which is an empty one, one that leads nowhere, or the older one; `None` if it is there already.
    pub(crate) fn slot_for(&self, slot: Slot) -> Option<(u64, Slot)> {
        if self.slots.contains(&Some(slot)) {
            return None;
        }
        let age = |index: &usize| match self.slots[*index] {
            Some(other) if other.number < slot.number && other.end < slot.end => other.number,
            _ => 0,
        };
        let index = (0..self.slots.len()).min_by_key(age).expect("there are two slots");
        Some((Slot::place(index), slot))
    }
}

impl Slot {
    /// Returns the bytes of a slot at file offset `place`.
    pub fn encode(&self, place: u64) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        commit_slot::MAGIC.put(&mut bytes, SLOT_MAGIC);
        commit_slot::NUMBER.put(&mut bytes, self.number.to_le_bytes());
        commit_slot::END.put(&mut bytes, self.end.to_le_bytes());
        let sum = checksum(&bytes[..commit_slot::CHECKSUM.offset], place);
        commit_slot::CHECKSUM.put(&mut bytes, sum.to_le_bytes());
        bytes
    }

    /// Parses the slot at file offset `place`; an empty one is `None`.
    pub(crate) fn parse(bytes: &[u8; SLOT_LEN], place: u64) -> Result<Option<Self>, Malformed> {
        if *bytes == [0; SLOT_LEN] {
            return Ok(None);
        }
        if commit_slot::MAGIC.get(bytes) != SLOT_MAGIC {
            return Err("not a slot".into());
        }
        check_sum(&bytes[..commit_slot::CHECKSUM.offset], place, commit_slot::CHECKSUM.get(bytes))?;
        if !commit_slot::RESERVED.is_zero(bytes) {
            return Err("reserved bytes are not zero".into());
        }
        let number = u64::from_le_bytes(commit_slot::NUMBER.get(bytes));
        let end = u64::from_le_bytes(commit_slot::END.get(bytes));
        // A commit frame and its tail lie between the head and the end.
        let least = (SUPERBLOCK_LEN + HEADER_LEN + TAIL_LEN) as u64;
        if number == 0 || end < least || end > MAX_OFFSET || !end.is_multiple_of(ALIGNMENT) {
            return Err(format!("commit {number} ends at offset {end}"));
        }
        Ok(Some(Self { number, end }))
    }

    /// File offset of slot `index` (0 = a, 1 = b).
    ///
    /// # Panics
    ///
    /// When there is no such slot.
    pub fn place(index: usize) -> u64 {
        SLOTS[index].offset as u64
    }
}

impl Tail {
    /// Length of the archive that it ends: its commit, and this tail directly behind that. Recovery data and this tail once more may follow.
    pub fn archive_end(&self) -> u64 {
        self.commit_offset + self.commit_length + TAIL_LEN as u64
    }

    /// Returns the bytes of a tail at file offset `place`.
    pub fn encode(&self, place: u64) -> [u8; TAIL_LEN] {
        let mut bytes = [0; TAIL_LEN];
        footer::MAGIC.put(&mut bytes, TAIL_MAGIC);
        footer::VERSION.put(&mut bytes, VERSION.to_le_bytes());
        footer::REQUIRED.put(&mut bytes, self.required.to_le_bytes());
        footer::COMMIT_OFFSET.put(&mut bytes, self.commit_offset.to_le_bytes());
        footer::COMMIT_LENGTH.put(&mut bytes, self.commit_length.to_le_bytes());
        footer::KEY_FRAME_OFFSET.put(&mut bytes, self.keys.0.to_le_bytes());
        footer::KEY_FRAME_LENGTH.put(&mut bytes, self.keys.1.to_le_bytes());
        footer::NUMBER.put(&mut bytes, self.number.to_le_bytes());
        let sum = checksum(&bytes[..footer::CHECKSUM.offset], place);
        footer::CHECKSUM.put(&mut bytes, sum.to_le_bytes());
        bytes
    }

    /// Parses a tail at file offset `place`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version, `Corrupt` otherwise.
    pub fn parse(bytes: &[u8; TAIL_LEN], place: u64) -> Result<Self> {
        let corrupt = |detail: String| Error::corrupt("tail", place, detail);
        if footer::MAGIC.get(bytes) != TAIL_MAGIC {
            return Err(corrupt("no tail is here".into()));
        }
        check_sum(&bytes[..footer::CHECKSUM.offset], place, footer::CHECKSUM.get(bytes)).map_err(corrupt)?;
        check_version(u16::from_le_bytes(footer::VERSION.get(bytes)))?;
        if !footer::RESERVED_A.is_zero(bytes) {
            return Err(corrupt("reserved bytes are not zero".into()));
        }
        let u64_of = |field: Field<8>| u64::from_le_bytes(field.get(bytes));
        let parsed = Self {
            required: u32::from_le_bytes(footer::REQUIRED.get(bytes)),
            commit_offset: u64_of(footer::COMMIT_OFFSET),
            commit_length: u64_of(footer::COMMIT_LENGTH),
            keys: (u64_of(footer::KEY_FRAME_OFFSET), u64_of(footer::KEY_FRAME_LENGTH)),
            number: u64_of(footer::NUMBER),
        };
        check_keys(parsed.required, parsed.keys).map_err(corrupt)?;
        let fits = is_place(parsed.commit_offset)
            && parsed.commit_length >= HEADER_LEN as u64
            // Recovery data may lie between the two.
            && parsed.commit_offset.checked_add(parsed.commit_length).is_some_and(|end| end <= place)
            && place <= MAX_OFFSET
            && parsed.keys.0.saturating_add(parsed.keys.1) <= parsed.commit_offset
            && parsed.number != 0;
        if fits { Ok(parsed) } else { Err(corrupt(format!("it does not lie behind a commit: {parsed:?}"))) }
    }
}

/// Refuses features that this version of nra can't read.
///
/// # Errors
///
/// `Unsupported` names the first unknown bit.
pub fn check_required(required: u32, supported: u32) -> Result<()> {
    check_features("required", "required feature", required, supported)
}

/// Refuses optional features that this version of nra does not know: it must not write to such an archive.
///
/// # Errors
///
/// `Unsupported` names the first unknown bit.
pub fn check_optional(optional: u32, supported: u32) -> Result<()> {
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

fn check_version(version: u16) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::Unsupported { what: "NRA version", found: version.to_string(), known: VERSION.to_string() })
}

fn check_sum(bytes: &[u8], place: u64, found: [u8; 8]) -> Result<(), Malformed> {
    let (expected, found) = (checksum(bytes, place), u64::from_le_bytes(found));
    if expected == found { Ok(()) } else { Err(format!("checksum is {found:016x}, expected {expected:016x}")) }
}

/// Key frames are named if and only if the archive is encrypted.
fn check_keys(required: u32, keys: (u64, u64)) -> Result<(), Malformed> {
    let good = if required & REQUIRED_ENCRYPTION == 0 {
        keys == (0, 0)
    } else {
        is_place(keys.0) && keys.1 >= HEADER_LEN as u64 && keys.1.is_multiple_of(ALIGNMENT) && keys.1 <= MAX_OFFSET
    };
    if good { Ok(()) } else { Err(format!("key frame of {} bytes at offset {}", keys.1, keys.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: Tail = Tail { required: 0, commit_offset: 256, commit_length: 272, keys: (0, 0), number: 1 };

    fn full_head() -> Head {
        let slots = [Some(Slot { number: 1, end: 592 }), Some(Slot { number: 2, end: 4096 })];
        Head { required: REQUIRED_ENCRYPTION, optional: 1 << 7, keys: (256, 200), slots }
    }

    #[test]
    fn heads_come_back() {
        for head in [Head::default(), full_head()] {
            assert_eq!(Head::parse(&head.encode()).unwrap(), (head, vec![]));
        }
    }

    #[test]
    fn each_changed_byte_of_the_head_is_noticed() {
        let head = full_head();
        for at in 0..SUPERBLOCK_LEN {
            let mut bytes = head.encode();
            bytes[at] ^= 1;
            match (Head::parse(&bytes), at) {
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
    fn a_slot_holds_in_its_own_place_only() {
        let slot = Slot { number: 1, end: 592 };
        assert_eq!(Slot::parse(&slot.encode(64), 64), Ok(Some(slot)));
        assert!(Slot::parse(&slot.encode(64), 128).is_err());
        for bad in
            [Slot { number: 0, ..slot }, Slot { end: 376, ..slot }, Slot { end: 593, ..slot }, Slot { end: 1 << 63, ..slot }]
        {
            assert!(Slot::parse(&bad.encode(64), 64).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_changed_byte_of_the_tail_is_noticed() {
        let sealed = Tail { required: REQUIRED_ENCRYPTION, commit_offset: 456, commit_length: 72, keys: (256, 200), ..TAIL };
        for tail in [TAIL, sealed] {
            let bytes = tail.encode(528);
            assert_eq!(Tail::parse(&bytes, 528).unwrap(), tail);
            assert!(Tail::parse(&bytes, 536).is_err());
            for at in 0..TAIL_LEN {
                let mut bytes = bytes;
                bytes[at] ^= 0x10;
                assert!(matches!(Tail::parse(&bytes, 528), Err(Error::Corrupt { .. })), "byte {at}");
            }
        }
    }

    #[test]
    fn tails_that_lead_nowhere_are_refused() {
        for (why, bad) in [
            ("length", Tail { commit_length: 280, ..TAIL }),
            ("offset", Tail { commit_offset: 0, commit_length: 528, ..TAIL }),
            ("number", Tail { number: 0, ..TAIL }),
            ("keys without encryption", Tail { keys: (256, 64), ..TAIL }),
            ("encryption without keys", Tail { required: 1, ..TAIL }),
            ("keys behind the commit", Tail { required: 1, keys: (256, 200), ..TAIL }),
        ] {
            assert!(matches!(Tail::parse(&bad.encode(528), 528), Err(Error::Corrupt { .. })), "{why}");
        }
    }

    #[test]
    fn unknown_features_are_named() {
        assert!(check_required(0, 0).is_ok());
        assert!(check_required(1, REQUIRED_ENCRYPTION).is_ok());
        let text = |required, supported| check_required(required, supported).unwrap_err().to_string();
        assert_eq!(text(1, 0), "required feature encryption is not supported (known: none)");
        assert_eq!(text(0b1001, 1), "required feature bit 3 is not supported (known: encryption)");
    }
}
