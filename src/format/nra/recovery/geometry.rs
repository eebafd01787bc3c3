//! Where everything of the recovery data lies: known as soon as the front of one of its frames is found whole.
//!
//! Spec: nra.md, section 19.

use std::ops::Range;

use crate::frame::{ALIGNMENT, HEADER_LEN};
use crate::head::TAIL_LEN;
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::{Field, recovery as field};
use nra_core::archive::Recovery;
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::wire::Malformed;

/// Length of what each frame tells about all of them.
pub const GEOMETRY_LEN: usize = 64;
/// Length of a checksum.
pub(super) const SUM_LEN: usize = 8;
/// Header and geometry: what a frame begins with.
pub(super) const FRONT_LEN: usize = HEADER_LEN + GEOMETRY_LEN;
/// Sections that the table of a group is divided into.
const SECTIONS: u64 = 3;
/// Shortest and longest shard, bytes.
const SHARD_LENS: [u32; 2] = [256, 64 << 10];
/// Bound of the bytes of a group, and of its parities.
const MAX_GROUP: u64 = 128 << 20;
/// Bound of the shards of a group, and of its parities.
const MAX_SHARDS: u64 = 32_768;

/// Bytes of a group that a writer aims at, if memory allows.
const GROUP_BYTES: u64 = 64 << 20;
/// Shortest group, bytes.
const MIN_GROUP_BYTES: u64 = 64 << 10;
/// Memory that restoring a group takes, in lengths of the group, whatever the percentage.
const WORK: u64 = 4;
/// Longest shard of a writer: what disks lose as a whole.
const SECTOR: u64 = 4 << 10;
/// Shards of a short archive, about.
const FEW_SHARDS: u64 = 1_024;
/// Units of a frame take about this many bytes.
const FRAME_BYTES: u32 = 1 << 20;
/// Frames that the units are spread over at least: each tells the geometry.
const MIN_FRAMES: u64 = 8;

/// Extent and division of recovery data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Length of what is protected: the archive up to and with its tail. Recovery frames begin here.
    pub protected: u64,
    /// Bytes of a shard.
    pub shard_len: u32,
    /// Groups that the shards are dealt out to in turn.
    pub groups: u32,
    /// Parities of each group.
    pub parities: u32,
    /// Units of each frame but the last ones.
    pub frame_units: u32,
    /// Damage that can be restored wherever it is, in percent of the protected bytes.
    pub percent: u32,
    /// Commit whose tail ends the protected bytes.
    pub commit: u64,
}

impl Geometry {
    /// Divides `protected` bytes into groups that can be written and restored with `memory_bytes`.
    ///
    /// # Errors
    ///
    /// `Usage` for a percentage that is none, `Limit` for more than can be divided.
    pub fn choose(protected: u64, percent: u32, commit: u64, memory_bytes: u64) -> Result<Self> {
        if !(1..=100).contains(&percent) {
            return Err(Error::Usage { detail: format!("recovery data of {percent} % (possible: 1 to 100)") });
        }
        let least = u64::from(SHARD_LENS[0]);
        let shard = (protected / FEW_SHARDS).clamp(least, SECTOR).next_power_of_two();
        let shards = protected.div_ceil(shard);
        // The code works on powers of two.
        let share = (memory_bytes / WORK).clamp(MIN_GROUP_BYTES, GROUP_BYTES);
        let group_bytes = 1 << share.ilog2();
        let groups = shards.div_ceil(group_bytes / shard).max(1);
        let in_group = shards.div_ceil(groups);
        // A run of damage touches two shards more at its ends than it fills. Scattered damage falls unevenly: five standard deviations.
        let uneven =
            if groups == 1 { 0 } else { (in_group * u64::from(percent) * u64::from(100 - percent) * 25).isqrt() / 100 + 1 };
        let parities = (in_group * u64::from(percent)).div_ceil(100) + 2 + uneven;
        let small = |number: u64| {
            u32::try_from(number).map_err(|_| Error::Limit {
                what: "groups of recovery data",
                found: number,
                limit: u32::MAX.into(),
            })
        };
        let mut geometry = Self {
            protected,
            shard_len: small(shard)?,
            groups: small(groups)?,
            parities: small(parities)?,
            frame_units: 1,
            percent,
            commit,
        };
        let most = u64::from(FRAME_BYTES / geometry.shard_len);
        geometry.frame_units = small(geometry.units().div_ceil(MIN_FRAMES).clamp(1, most))?;
        geometry.check().map_err(|detail| Error::Usage { detail: format!("recovery data: {detail}") })?;
        Ok(geometry)
    }

    fn check(&self) -> Result<(), Malformed> {
        let shard = u64::from(self.shard_len);
        let sound = self.protected >= (SUPERBLOCK_LEN + HEADER_LEN + TAIL_LEN) as u64
            && self.protected.is_multiple_of(ALIGNMENT)
            // Whatever is computed from this stays far below the bound of offsets.
            && self.protected <= MAX_OFFSET / 64
            && (SHARD_LENS[0]..=SHARD_LENS[1]).contains(&self.shard_len)
            && self.shard_len.is_power_of_two()
            && self.groups >= 1
            && self.parities >= 1
            && (1..=100).contains(&self.percent)
            && self.frame_units >= 1
            && u64::from(self.frame_units) * shard <= MAX_GROUP / 2
            && self.commit >= 1
            && u64::from(self.groups) <= self.shards();
        if !sound {
            return Err(format!("a division that can't be: {self:?}"));
        }
        let (in_group, parities) = (self.in_group(), u64::from(self.parities));
        if in_group > MAX_SHARDS
            || parities > MAX_SHARDS
            || in_group * shard > MAX_GROUP
            || parities * shard > MAX_GROUP
            || parities > 2 * in_group + 2
        {
            return Err(format!("groups that can't be: {self:?}"));
        }
        Ok(())
    }

    /// Returns the bytes for frame number `frame`, at offset `place` of the file.
    pub(super) fn encode(&self, frame: u64, place: u64) -> [u8; GEOMETRY_LEN] {
        let mut bytes = [0; GEOMETRY_LEN];
        field::PROTECTED.put(&mut bytes, self.protected.to_le_bytes());
        field::SHARD_LEN.put(&mut bytes, self.shard_len.to_le_bytes());
        field::GROUPS.put(&mut bytes, self.groups.to_le_bytes());
        field::PARITIES.put(&mut bytes, self.parities.to_le_bytes());
        field::FRAME_UNITS.put(&mut bytes, self.frame_units.to_le_bytes());
        field::PERCENT.put(&mut bytes, self.percent.to_le_bytes());
        field::COMMIT.put(&mut bytes, self.commit.to_le_bytes());
        field::FRAME.put(&mut bytes, frame.to_le_bytes());
        let sum = checksum(&bytes[..field::CHECKSUM.offset], place);
        field::CHECKSUM.put(&mut bytes, sum.to_le_bytes());
        bytes
    }

    /// Parses what stands at offset `place` of the file, in the frame that it says.
    pub(super) fn parse(bytes: &[u8; GEOMETRY_LEN], place: u64) -> Result<Self, Malformed> {
        let sum = u64::from_le_bytes(field::CHECKSUM.get(bytes));
        if sum != checksum(&bytes[..field::CHECKSUM.offset], place) {
            return Err("the checksum of its division is wrong".into());
        }
        if !field::RESERVED_A.is_zero(bytes) || !field::RESERVED_B.is_zero(bytes) {
            return Err("reserved bytes are not zero".into());
        }
        let u32_of = |field: Field<4>| u32::from_le_bytes(field.get(bytes));
        let u64_of = |field: Field<8>| u64::from_le_bytes(field.get(bytes));
        let geometry = Self {
            protected: u64_of(field::PROTECTED),
            shard_len: u32_of(field::SHARD_LEN),
            groups: u32_of(field::GROUPS),
            parities: u32_of(field::PARITIES),
            frame_units: u32_of(field::FRAME_UNITS),
            percent: u32_of(field::PERCENT),
            commit: u64_of(field::COMMIT),
        };
        geometry.check()?;
        let frame = u64_of(field::FRAME);
        if frame >= geometry.frames() || geometry.frame_place(frame) + HEADER_LEN as u64 != place {
            return Err(format!("frame {frame} of its recovery data does not lie here"));
        }
        Ok(geometry)
    }

    /// Returns what users are told of it.
    pub fn summary(&self) -> Recovery {
        Recovery { percent: self.percent, bytes: self.file_len() - self.protected, groups: self.groups }
    }

    /// Returns the memory that restoring one group takes, bytes.
    pub fn restoring_bytes(&self) -> u64 {
        let (one, other) = (self.in_group(), u64::from(self.parities));
        let rounded = |padded: u64, plain: u64| (padded.next_power_of_two() + plain).next_power_of_two();
        rounded(one, other).max(rounded(other, one)) * u64::from(self.shard_len)
    }

    /// Returns the number of shards of the protected bytes.
    pub fn shards(&self) -> u64 {
        self.protected.div_ceil(self.shard_len.into())
    }

    /// Returns the number of shards of a group; in some groups the last is beyond the end and counts as zeros.
    pub fn in_group(&self) -> u64 {
        self.shards().div_ceil(self.groups.into())
    }

    /// Returns the number of checksums that a piece of a table holds.
    pub(super) fn piece_sums(&self) -> u64 {
        u64::from(self.shard_len) / SUM_LEN as u64 - 1
    }

    /// Returns the number of pieces that hold the checksums of a group. Twice as many are their parities.
    pub(super) fn pieces(&self) -> u64 {
        (self.in_group() + u64::from(self.parities)).div_ceil(self.piece_sums())
    }

    /// Returns the number of pieces of a group's table with their parities.
    pub(super) fn all_pieces(&self) -> u64 {
        SECTIONS * self.pieces()
    }

    fn units(&self) -> u64 {
        (self.all_pieces() + u64::from(self.parities)) * u64::from(self.groups)
    }

    /// Returns the number of frames, the last of which has no units.
    pub(super) fn frames(&self) -> u64 {
        self.units().div_ceil(self.frame_units.into()) + 1
    }

    /// Returns the units of a frame.
    fn frame_units(&self, frame: u64) -> Range<u64> {
        let place = |frame: u64| (frame * u64::from(self.frame_units)).min(self.units());
        place(frame)..place(frame + 1)
    }

    /// Returns the offset of the units of a frame: a multiple of the length of a shard.
    fn units_place(&self, frame: u64) -> u64 {
        let shard = u64::from(self.shard_len);
        let first = (self.protected + FRONT_LEN as u64).next_multiple_of(shard);
        first + (frame + self.frame_units(frame).start) * shard
    }

    /// Returns the offset of a frame. Each but the first fills one shard with what is in front of its units.
    pub(super) fn frame_place(&self, frame: u64) -> u64 {
        if frame == 0 { self.protected } else { self.units_place(frame) - u64::from(self.shard_len) }
    }

    /// Returns the bytes of a frame.
    pub(super) fn frame_range(&self, frame: u64) -> Range<u64> {
        let start = self.frame_place(frame);
        let units = self.frame_units(frame);
        if units.is_empty() {
            return start..start + FRONT_LEN as u64;
        }
        start..self.units_place(frame) + (units.end - units.start) * u64::from(self.shard_len)
    }

    /// Returns the offset of the tail behind the recovery frames.
    pub(super) fn tail_place(&self) -> u64 {
        self.frame_range(self.frames() - 1).end
    }

    /// Returns the length of the file with recovery data.
    pub fn file_len(&self) -> u64 {
        self.tail_place() + TAIL_LEN as u64
    }

    fn unit_place(&self, unit: u64) -> u64 {
        let frame = unit / u64::from(self.frame_units);
        self.units_place(frame) + unit % u64::from(self.frame_units) * u64::from(self.shard_len)
    }

    /// Returns the offset of a parity of a group. Between the halves of all parities lies a section of the tables.
    pub(super) fn parity_place(&self, group: u32, number: u64) -> u64 {
        let sections = if number < self.half() { 1 } else { 2 };
        let groups = u64::from(self.groups);
        self.unit_place((sections * self.pieces() + number) * groups + u64::from(group))
    }

    /// Returns the offset of a piece of the table of a group.
    pub(super) fn piece_place(&self, group: u32, number: u64) -> u64 {
        let parities = [0, self.half(), u64::from(self.parities)];
        let before = usize::try_from(number / self.pieces()).ok().and_then(|section| parities.get(section));
        let before = before.copied().unwrap_or_default();
        self.unit_place((before + number) * u64::from(self.groups) + u64::from(group))
    }

    fn half(&self) -> u64 {
        u64::from(self.parities) / 2
    }

    /// Returns the number that the shard `index` of a group has in the file.
    pub(super) fn shard_of(&self, group: u32, index: u64) -> u64 {
        index * u64::from(self.groups) + u64::from(group)
    }

    /// Returns the bytes of the file that a shard stands for.
    pub(super) fn shard_range(&self, shard: u64) -> Range<u64> {
        let start = shard * u64::from(self.shard_len);
        start.min(self.protected)..(start + u64::from(self.shard_len)).min(self.protected)
    }

    pub(super) fn shard_size(&self) -> usize {
        usize::try_from(self.shard_len).expect("at most 64 KiB")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const MEMORY: u64 = 256 << 20;

    fn all_places(geometry: &Geometry) -> BTreeSet<u64> {
        let mut places = BTreeSet::new();
        for group in 0..geometry.groups {
            places.extend((0..geometry.all_pieces()).map(|piece| geometry.piece_place(group, piece)));
            places.extend((0..geometry.parities.into()).map(|parity| geometry.parity_place(group, parity)));
        }
        places
    }

    #[test]
    fn groups_fit_into_the_memory() {
        for percent in [1, 5, 50, 100] {
            let groups = [32u64, 100, 256, 4_096].map(|memory| {
                let geometry = Geometry::choose(1 << 34, percent, 1, memory << 20).unwrap();
                assert!(geometry.restoring_bytes() <= memory << 20, "{percent} %, {memory} MiB: {geometry:?}");
                geometry.groups
            });
            assert_eq!(groups, [2_048, 1_024, 256, 256]);
        }
    }

    proptest! {
        #[test]
        fn units_lie_in_the_frames_and_nowhere_twice(blocks in 48u64..1 << 24, percent in 1u32..=100, groups in 1u32..4) {
            let mut geometry = Geometry::choose(blocks * 8, percent, 1, MEMORY).unwrap();
            geometry.groups = groups.min(u32::try_from(geometry.shards()).unwrap());
            let shard = u64::from(geometry.shard_len);
            let places = all_places(&geometry);
            prop_assert_eq!(places.len() as u64, geometry.units());
            let mut framed = BTreeSet::new();
            let mut end = geometry.protected;
            for frame in 0..geometry.frames() {
                let range = geometry.frame_range(frame);
                prop_assert_eq!(range.start, end);
                prop_assert!(range.start + FRONT_LEN as u64 <= geometry.units_place(frame) || geometry.frame_units(frame).is_empty());
                framed.extend(geometry.frame_units(frame).map(|unit| geometry.unit_place(unit)));
                end = range.end;
            }
            prop_assert_eq!(end, geometry.tail_place());
            prop_assert!(places.iter().all(|place| place % shard == 0));
            prop_assert_eq!(framed, places);
        }

        #[test]
        fn what_is_chosen_parses_and_holds_its_promise(blocks in 48u64..1 << 36, percent in 1u32..=100) {
            let protected = blocks * 8;
            let geometry = Geometry::choose(protected, percent, 7, MEMORY).unwrap();
            for frame in [0, 1, geometry.frames() / 2, geometry.frames() - 1] {
                let place = geometry.frame_place(frame) + HEADER_LEN as u64;
                let bytes = geometry.encode(frame, place);
                prop_assert_eq!(Geometry::parse(&bytes, place), Ok(geometry));
                prop_assert!(Geometry::parse(&bytes, place + 8).is_err());
            }
            let parities = u128::from(geometry.parities) * u128::from(geometry.groups) * u128::from(geometry.shard_len);
            prop_assert!(parities * 100 >= u128::from(protected) * u128::from(percent));
            prop_assert!(geometry.in_group() * u64::from(geometry.shard_len) <= GROUP_BYTES);
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 64), few in any::<bool>()) {
            if few {
                bytes[4..8].fill(0);
                bytes[28..56].fill(0);
                bytes[32] = 1;
            }
            let sum = checksum(&bytes[..field::CHECKSUM.offset], 640);
            bytes[field::CHECKSUM.offset..].copy_from_slice(&sum.to_le_bytes());
            let bytes: [u8; 64] = bytes.try_into().unwrap();
            if let Ok(geometry) = Geometry::parse(&bytes, 640) {
                prop_assert!(geometry.file_len() > geometry.protected);
            }
        }
    }

    #[test]
    fn percentages_that_are_none_are_refused() {
        for percent in [0, 101] {
            assert!(matches!(Geometry::choose(4096, percent, 1, MEMORY), Err(Error::Usage { .. })));
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        let good = Geometry::choose(1 << 30, 10, 1, MEMORY).unwrap();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Geometry { protected: 8, ..good },
            Geometry { protected: u64::MAX - 7, ..good },
            Geometry { protected: good.protected + 1, ..good },
            Geometry { shard_len: 0, ..good },
            Geometry { shard_len: 128, ..good },
            Geometry { shard_len: 4097, ..good },
            Geometry { shard_len: 1 << 31, ..good },
            Geometry { groups: 0, ..good },
            Geometry { groups: 1, ..good },
            Geometry { groups: u32::MAX, ..good },
            Geometry { parities: 0, ..good },
            Geometry { parities: 40_000, ..good },
            Geometry { frame_units: 0, ..good },
            Geometry { frame_units: u32::MAX, ..good },
            Geometry { percent: 0, ..good },
            Geometry { commit: 0, ..good },
        ];
        for geometry in bad {
            assert!(geometry.check().is_err(), "{geometry:?}");
        }
    }
}
