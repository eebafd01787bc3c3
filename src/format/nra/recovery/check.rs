//! Damage of an archive, and whether recovery data restores it.

use super::find::search;
use super::frames;
use super::group::Group;
use super::header::RecoveryHeader;
use super::view::View;
use nra_core::error::Result;
use nra_core::progress::{Counter, Monitor};
use nra_core::source::ReadAt;

/// Most damaged shards that are located.
const MAX_LOCATED_SHARDS: usize = 1 << 20;
/// Most damaged ranges that are reported.
const MAX_REPORTED_RANGES: usize = 1_000;

/// The result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Layout of the recovery data.
    pub recovery_header: RecoveryHeader,
    /// Damaged ranges of the protected bytes, in whole shards: offset and length. At most 1,000.
    pub damaged: Vec<(u64, u64)>,
    /// Number of damaged shards of the protected bytes.
    pub damaged_shards: u64,
    /// Bytes in damaged shards.
    pub damaged_bytes: u64,
    /// Number of damaged parity shards.
    pub damaged_parity_shards: u64,
    /// Whether the recovery data and the following footer are undamaged.
    pub recovery_is_whole: bool,
    /// Bytes after the second footer.
    pub trailing_bytes: u64,
    /// Groups with more damaged shards than usable parity shards.
    pub lost_groups: u64,
    /// The most damaged group: damaged shards, usable parity shards.
    pub worst_group: (u64, u64),
    pub(super) damaged_groups: Vec<u32>,
}

impl Report {
    /// Returns whether every byte is as it was written.
    pub fn is_whole(&self) -> bool {
        self.damaged_shards == 0 && self.recovery_is_whole && self.trailing_bytes == 0
    }

    /// Returns whether all damage can be restored.
    pub fn is_restorable(&self) -> bool {
        self.lost_groups == 0
    }
}

/// Checks the archive in `source` against its recovery data. Returns `None` if it has none.
///
/// # Errors
///
/// `Cancelled`; I/O errors, except that unreadable bytes count as damage.
pub fn check(source: &dyn ReadAt, monitor: &dyn Monitor) -> Result<Option<Report>> {
    match search(source, monitor)? {
        Some(layout) => check_groups(View::new(source), layout, monitor).map(Some),
        None => Ok(None),
    }
}

pub(super) fn check_groups(view: View<'_>, layout: RecoveryHeader, monitor: &dyn Monitor) -> Result<Report> {
    let mut report = Report {
        recovery_header: layout,
        damaged: Vec::new(),
        damaged_shards: 0,
        damaged_bytes: 0,
        damaged_parity_shards: 0,
        recovery_is_whole: true,
        trailing_bytes: view.len.saturating_sub(layout.file_len()),
        lost_groups: 0,
        worst_group: (0, layout.parity_shards.into()),
        damaged_groups: Vec::new(),
    };
    let mut shards = Vec::new();
    monitor.expect(Counter::Bytes, layout.protected);
    for number in 0..layout.groups {
        monitor.check()?;
        let group = Group::read(view, &layout, number)?;
        report.add_group(&group, number);
        let bad = group.damaged_shards.iter().map(|index| layout.shard_of(number, *index));
        shards.extend(bad.clone().take(MAX_LOCATED_SHARDS - shards.len()));
        report.damaged_bytes += bad.map(|shard| layout.shard_range(shard)).map(|range| range.end - range.start).sum::<u64>();
        monitor.add(Counter::Bytes, layout.protected / u64::from(layout.groups));
    }
    shards.sort_unstable();
    for range in shards.into_iter().map(|shard| layout.shard_range(shard)) {
        let len = range.end - range.start;
        match report.damaged.last_mut() {
            Some(last) if last.0 + last.1 == range.start => last.1 += len,
            _ => report.damaged.push((range.start, len)),
        }
        if report.damaged.len() > MAX_REPORTED_RANGES {
            report.damaged.pop();
            break;
        }
    }
    report.recovery_is_whole = report.recovery_is_whole && frames::are_whole(view, &layout, monitor)?;
    Ok(report)
}

impl Report {
    fn add_group(&mut self, group: &Group<'_>, number: u32) {
        let (lost, usable_parity) = (group.damaged_shards.len() as u64, group.usable_parity());
        self.damaged_shards += lost;
        self.damaged_parity_shards += group.damaged_parity.len() as u64;
        self.recovery_is_whole &= group.damaged_parity.is_empty() && group.damaged_table_shards == 0;
        self.lost_groups += u64::from(lost > usable_parity);
        // The group that lacks most, or has the least to spare.
        if lost + self.worst_group.1 > self.worst_group.0 + usable_parity {
            self.worst_group = (lost, usable_parity);
        }
        if !group.is_whole() {
            self.damaged_groups.push(number);
        }
    }
}
