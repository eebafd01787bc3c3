//! The recovery header. One intact header of any recovery frame locates all recovery data.
//!
//! Spec: nra.md, section 19.

use std::ops::Range;

use crate::footer::FOOTER_LEN;
use crate::frame::{ALIGNMENT, HEADER_LEN};
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::recovery as field;
use nra_core::archive::Recovery;
use nra_core::checksum::checksum;
use nra_core::error::{Error, Result};
use nra_core::limits::{self, MAX_OFFSET};
use nra_core::wire::Malformed;

/// Length of a recovery header, bytes.
pub const RECOVERY_HEADER_LEN: usize = 64;
/// Length of a checksum, bytes.
pub(super) const CHECKSUM_LEN: usize = 8;
/// Length of the start of a recovery frame: frame header and recovery header, bytes.
pub(super) const FRAME_START_LEN: usize = HEADER_LEN + RECOVERY_HEADER_LEN;
/// Number of sections of the table of a group.
const SECTIONS: u64 = 3;
/// Shortest and longest shard, bytes.
const SHARD_LENS: [u32; 2] = [256, 64 << 10];
/// Limit of the bytes of a group, and of its parity shards.
const MAX_GROUP: u64 = 128 << 20;
/// Limit of the number of shards of a group, and of its parity shards.
const MAX_SHARDS: u64 = 32_768;

/// Length of a group that a writer aims at, if memory allows, bytes.
const GROUP_BYTES: u64 = 64 << 20;
/// Shortest group, bytes.
const MIN_GROUP_BYTES: u64 = 64 << 10;
/// Memory for restoring a group, as a multiple of its length, for any percentage.
const MEMORY_FACTOR: u64 = 4;
/// Longest shard of a writer, bytes: disks lose whole sectors.
const MAX_SHARD: u64 = 4 << 10;
/// Approximate number of shards of a short archive.
const SHORT_ARCHIVE_SHARDS: u64 = 1_024;
/// Approximate length of the units of a frame, bytes.
const FRAME_UNIT_BYTES: u32 = 1 << 20;
/// Least number of frames. Each holds a recovery header.
const MIN_FRAMES: u64 = 8;

/// Layout of recovery data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryHeader {
    /// Length of the protected bytes: the archive including its footer. Recovery frames start at
    /// this offset.
    pub protected: u64,
    /// Length of a shard, bytes.
    pub shard_len: u32,
    /// Number of groups. Shards are assigned to groups in turn.
    pub groups: u32,
    /// Parity shards per group.
    pub parity_shards: u32,
    /// Units per frame, except in the last frames.
    pub frame_units: u32,
    /// Damage that can be restored wherever it is, in percent of the protected bytes.
    pub percent: u32,
    /// Number of the commit whose footer ends the protected bytes.
    pub commit: u64,
}

nra_core::stored_numbers!(RecoveryHeader () {
    protected: field::PROTECTED.offset,
    shard_len: field::SHARD_LEN.offset,
    groups: field::GROUPS.offset,
    parity_shards: field::PARITIES.offset,
    frame_units: field::FRAME_UNITS.offset,
    percent: field::PERCENT.offset,
    commit: field::COMMIT.offset,
});

impl RecoveryHeader {
    /// Divides `protected` bytes into groups that can be written and restored with `memory_bytes`.
    pub(crate) fn choose(protected: u64, percent: u32, commit: u64, memory_bytes: u64) -> Result<Self> {
        if !(1..=100).contains(&percent) {
            return Err(Error::usage(format!("recovery data of {percent} % (possible: 1 to 100)")));
        }
        let least = u64::from(SHARD_LENS[0]);
        let shard = (protected / SHORT_ARCHIVE_SHARDS).clamp(least, MAX_SHARD).next_power_of_two();
        let shards = protected.div_ceil(shard);
        // The erasure code works on powers of two.
        let share = (memory_bytes / MEMORY_FACTOR).clamp(MIN_GROUP_BYTES, GROUP_BYTES);
        let group_bytes = 1 << share.ilog2();
        let groups = shards.div_ceil(group_bytes / shard).max(1);
        let in_group = shards.div_ceil(groups);
        // A burst touches up to two more shards than it fills. Scattered damage is distributed
        // unevenly: five standard deviations.
        let uneven =
            if groups == 1 { 0 } else { (in_group * u64::from(percent) * u64::from(100 - percent) * 25).isqrt() / 100 + 1 };
        let parity_shards = (in_group * u64::from(percent)).div_ceil(100) + 2 + uneven;
        let to_u32 = |number| limits::to_u32("groups of recovery data", number);
        let mut layout = Self {
            protected,
            shard_len: to_u32(shard)?,
            groups: to_u32(groups)?,
            parity_shards: to_u32(parity_shards)?,
            frame_units: 1,
            percent,
            commit,
        };
        let most = u64::from(FRAME_UNIT_BYTES / layout.shard_len);
        layout.frame_units = to_u32(layout.units().div_ceil(MIN_FRAMES).clamp(1, most))?;
        layout.check().map_err(|detail| Error::usage(format!("recovery data: {detail}")))?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), Malformed> {
        let shard = u64::from(self.shard_len);
        let sound = self.protected >= (SUPERBLOCK_LEN + HEADER_LEN + FOOTER_LEN) as u64
            && self.protected.is_multiple_of(ALIGNMENT)
            // Keeps all derived values far below the limit of offsets.
            && self.protected <= MAX_OFFSET / 64
            && (SHARD_LENS[0]..=SHARD_LENS[1]).contains(&self.shard_len)
            && self.shard_len.is_power_of_two()
            && self.groups >= 1
            && self.parity_shards >= 1
            && (1..=100).contains(&self.percent)
            && self.frame_units >= 1
            && u64::from(self.frame_units) * shard <= MAX_GROUP / 2
            && self.commit >= 1
            && u64::from(self.groups) <= self.shards();
        if !sound {
            return Err(format!("invalid layout: {self:?}"));
        }
        let (in_group, parity_shards) = (self.in_group(), u64::from(self.parity_shards));
        if in_group > MAX_SHARDS
            || parity_shards > MAX_SHARDS
            || in_group * shard > MAX_GROUP
            || parity_shards * shard > MAX_GROUP
            || parity_shards > 2 * in_group + 2
        {
            return Err(format!("invalid groups: {self:?}"));
        }
        Ok(())
    }

    /// Returns the bytes of the header of frame number `frame`, at file offset `offset`.
    pub(super) fn encode(&self, frame: u64, offset: u64) -> [u8; RECOVERY_HEADER_LEN] {
        let mut bytes = [0; RECOVERY_HEADER_LEN];
        self.put_numbers(&mut bytes);
        field::FRAME.put_number(&mut bytes, frame);
        let sum = checksum(&bytes[..field::CHECKSUM.offset], offset);
        field::CHECKSUM.put_number(&mut bytes, sum);
        bytes
    }

    /// Parses the header at file offset `offset`. It must belong to a frame at that offset.
    pub(super) fn parse(bytes: &[u8; RECOVERY_HEADER_LEN], offset: u64) -> Result<Self, Malformed> {
        if field::CHECKSUM.number::<u64>(bytes) != checksum(&bytes[..field::CHECKSUM.offset], offset) {
            return Err("checksum mismatch in the recovery header".into());
        }
        if !field::RESERVED_A.is_zero(bytes) || !field::RESERVED_B.is_zero(bytes) {
            return Err("reserved bytes are not zero".into());
        }
        let mut layout = Self::default();
        layout.get_numbers(bytes);
        layout.check()?;
        let frame: u64 = field::FRAME.number(bytes);
        if frame >= layout.frames() || layout.frame_offset(frame) + HEADER_LEN as u64 != offset {
            return Err(format!("recovery frame {frame} is at another offset"));
        }
        Ok(layout)
    }

    /// Returns the summary for users.
    pub fn summary(&self) -> Recovery {
        Recovery { percent: self.percent, bytes: self.file_len() - self.protected, groups: self.groups }
    }

    /// Returns the memory needed to restore one group, bytes.
    pub(crate) fn restoring_bytes(&self) -> u64 {
        let (one, other) = (self.in_group(), u64::from(self.parity_shards));
        let rounded = |padded: u64, plain: u64| (padded.next_power_of_two() + plain).next_power_of_two();
        rounded(one, other).max(rounded(other, one)) * u64::from(self.shard_len)
    }

    /// Returns the number of shards of the protected bytes.
    pub(crate) fn shards(&self) -> u64 {
        self.protected.div_ceil(self.shard_len.into())
    }

    /// Returns the number of shards of a group. In some groups the last shard is past the end and
    /// counts as zeros.
    pub(crate) fn in_group(&self) -> u64 {
        self.shards().div_ceil(self.groups.into())
    }

    pub(super) fn checksums_per_table_shard(&self) -> u64 {
        u64::from(self.shard_len) / CHECKSUM_LEN as u64 - 1
    }

    /// Returns the number of table shards that hold the checksums of a group. Twice as many hold
    /// their parity.
    pub(super) fn table_shards(&self) -> u64 {
        (self.in_group() + u64::from(self.parity_shards)).div_ceil(self.checksums_per_table_shard())
    }

    /// Returns the number of table shards of a group including their parity.
    pub(super) fn all_table_shards(&self) -> u64 {
        SECTIONS * self.table_shards()
    }

    fn units(&self) -> u64 {
        (self.all_table_shards() + u64::from(self.parity_shards)) * u64::from(self.groups)
    }

    /// Returns the number of frames. The last one has no units.
    pub(super) fn frames(&self) -> u64 {
        self.units().div_ceil(self.frame_units.into()) + 1
    }

    fn frame_units(&self, frame: u64) -> Range<u64> {
        let offset = |frame: u64| (frame * u64::from(self.frame_units)).min(self.units());
        offset(frame)..offset(frame + 1)
    }

    /// Returns the offset of the units of a frame, a multiple of the shard length.
    fn units_offset(&self, frame: u64) -> u64 {
        let shard = u64::from(self.shard_len);
        let first = (self.protected + FRAME_START_LEN as u64).next_multiple_of(shard);
        first + (frame + self.frame_units(frame).start) * shard
    }

    /// Returns the offset of a frame. In each frame except the first, one shard precedes the units.
    pub(super) fn frame_offset(&self, frame: u64) -> u64 {
        if frame == 0 { self.protected } else { self.units_offset(frame) - u64::from(self.shard_len) }
    }

    pub(super) fn frame_range(&self, frame: u64) -> Range<u64> {
        let start = self.frame_offset(frame);
        let units = self.frame_units(frame);
        if units.is_empty() {
            return start..start + FRAME_START_LEN as u64;
        }
        start..self.units_offset(frame) + (units.end - units.start) * u64::from(self.shard_len)
    }

    /// Returns the offset of the footer after the recovery frames.
    pub(super) fn footer_offset(&self) -> u64 {
        self.frame_range(self.frames() - 1).end
    }

    /// Returns the length of the file including recovery data.
    pub fn file_len(&self) -> u64 {
        self.footer_offset() + FOOTER_LEN as u64
    }

    fn unit_offset(&self, unit: u64) -> u64 {
        let frame = unit / u64::from(self.frame_units);
        self.units_offset(frame) + unit % u64::from(self.frame_units) * u64::from(self.shard_len)
    }

    /// Returns the offset of a parity shard of a group. One section of the tables lies between the
    /// two halves of all parity shards.
    pub(super) fn parity_shard_offset(&self, group: u32, number: u64) -> u64 {
        let sections = if number < self.half() { 1 } else { 2 };
        let groups = u64::from(self.groups);
        self.unit_offset((sections * self.table_shards() + number) * groups + u64::from(group))
    }

    pub(super) fn table_shard_offset(&self, group: u32, number: u64) -> u64 {
        let parity_shards = [0, self.half(), u64::from(self.parity_shards)];
        let before = usize::try_from(number / self.table_shards()).ok().and_then(|section| parity_shards.get(section));
        let before = before.copied().unwrap_or_default();
        self.unit_offset((before + number) * u64::from(self.groups) + u64::from(group))
    }

    fn half(&self) -> u64 {
        u64::from(self.parity_shards) / 2
    }

    /// Returns the file-wide number of shard `index` of a group.
    pub(super) fn shard_of(&self, group: u32, index: u64) -> u64 {
        index * u64::from(self.groups) + u64::from(group)
    }

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

    fn all_places(recovery_header: &RecoveryHeader) -> BTreeSet<u64> {
        let mut places = BTreeSet::new();
        for group in 0..recovery_header.groups {
            places.extend(
                (0..recovery_header.all_table_shards()).map(|table_shard| recovery_header.table_shard_offset(group, table_shard)),
            );
            places.extend(
                (0..recovery_header.parity_shards.into())
                    .map(|parity_shard| recovery_header.parity_shard_offset(group, parity_shard)),
            );
        }
        places
    }

    #[test]
    fn groups_fit_into_memory_limit() {
        for percent in [1, 5, 50, 100] {
            let groups = [32u64, 100, 256, 4_096].map(|memory| {
                let recovery_header = RecoveryHeader::choose(1 << 34, percent, 1, memory << 20).unwrap();
                assert!(recovery_header.restoring_bytes() <= memory << 20, "{percent} %, {memory} MiB: {recovery_header:?}");
                recovery_header.groups
            });
            assert_eq!(groups, [2_048, 1_024, 256, 256]);
        }
    }

    proptest! {
        #[test]
        fn units_lie_in_frames_and_do_not_overlap(blocks in 48u64..1 << 24, percent in 1u32..=100, groups in 1u32..4) {
            let mut recovery_header = RecoveryHeader::choose(blocks * 8, percent, 1, MEMORY).unwrap();
            recovery_header.groups = groups.min(u32::try_from(recovery_header.shards()).unwrap());
            let shard = u64::from(recovery_header.shard_len);
            let places = all_places(&recovery_header);
            prop_assert_eq!(places.len() as u64, recovery_header.units());
            let mut framed = BTreeSet::new();
            let mut end = recovery_header.protected;
            for frame in 0..recovery_header.frames() {
                let range = recovery_header.frame_range(frame);
                prop_assert_eq!(range.start, end);
                prop_assert!(range.start + FRAME_START_LEN as u64 <= recovery_header.units_offset(frame) || recovery_header.frame_units(frame).is_empty());
                framed.extend(recovery_header.frame_units(frame).map(|unit| recovery_header.unit_offset(unit)));
                end = range.end;
            }
            prop_assert_eq!(end, recovery_header.footer_offset());
            prop_assert!(places.iter().all(|offset| offset % shard == 0));
            prop_assert_eq!(framed, places);
        }

        #[test]
        fn chosen_header_parses_and_covers_the_percentage(blocks in 48u64..1 << 36, percent in 1u32..=100) {
            let protected = blocks * 8;
            let recovery_header = RecoveryHeader::choose(protected, percent, 7, MEMORY).unwrap();
            for frame in [0, 1, recovery_header.frames() / 2, recovery_header.frames() - 1] {
                let offset = recovery_header.frame_offset(frame) + HEADER_LEN as u64;
                let bytes = recovery_header.encode(frame, offset);
                prop_assert_eq!(RecoveryHeader::parse(&bytes, offset), Ok(recovery_header));
                prop_assert!(RecoveryHeader::parse(&bytes, offset + 8).is_err());
            }
            let parity_shards = u128::from(recovery_header.parity_shards) * u128::from(recovery_header.groups) * u128::from(recovery_header.shard_len);
            prop_assert!(parity_shards * 100 >= u128::from(protected) * u128::from(percent));
            prop_assert!(recovery_header.in_group() * u64::from(recovery_header.shard_len) <= GROUP_BYTES);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 64), few in any::<bool>()) {
            if few {
                bytes[4..8].fill(0);
                bytes[28..56].fill(0);
                bytes[32] = 1;
            }
            let sum = checksum(&bytes[..field::CHECKSUM.offset], 640);
            bytes[field::CHECKSUM.offset..].copy_from_slice(&sum.to_le_bytes());
            let bytes: [u8; 64] = bytes.try_into().unwrap();
            if let Ok(recovery_header) = RecoveryHeader::parse(&bytes, 640) {
                prop_assert!(recovery_header.file_len() > recovery_header.protected);
            }
        }
    }

    #[test]
    fn invalid_percentages_are_rejected() {
        for percent in [0, 101] {
            assert!(matches!(RecoveryHeader::choose(4096, percent, 1, MEMORY), Err(Error::Usage { .. })));
        }
    }

    #[test]
    fn fields_out_of_range_are_rejected() {
        let good = RecoveryHeader::choose(1 << 30, 10, 1, MEMORY).unwrap();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            RecoveryHeader { protected: 8, ..good },
            RecoveryHeader { protected: u64::MAX - 7, ..good },
            RecoveryHeader { protected: good.protected + 1, ..good },
            RecoveryHeader { shard_len: 0, ..good },
            RecoveryHeader { shard_len: 128, ..good },
            RecoveryHeader { shard_len: 4097, ..good },
            RecoveryHeader { shard_len: 1 << 31, ..good },
            RecoveryHeader { groups: 0, ..good },
            RecoveryHeader { groups: 1, ..good },
            RecoveryHeader { groups: u32::MAX, ..good },
            RecoveryHeader { parity_shards: 0, ..good },
            RecoveryHeader { parity_shards: 40_000, ..good },
            RecoveryHeader { frame_units: 0, ..good },
            RecoveryHeader { frame_units: u32::MAX, ..good },
            RecoveryHeader { percent: 0, ..good },
            RecoveryHeader { commit: 0, ..good },
        ];
        for recovery_header in bad {
            assert!(recovery_header.check().is_err(), "{recovery_header:?}");
        }
    }
}
