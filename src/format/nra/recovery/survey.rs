//! What is damaged, and whether recovery data restores it.

use super::find::find;
use super::frames;
use super::geometry::Geometry;
use super::group::Group;
use super::view::View;
use nra_core::error::Result;
use nra_core::progress::{Counter, Monitor};
use nra_core::source::ReadAt;

/// Damaged shards of which the place is told.
const NOTED: usize = 1 << 20;
/// Runs of damage that are told.
const TOLD: usize = 1_000;

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Division of the recovery data.
    pub geometry: Geometry,
    /// Damaged runs of the protected bytes, in whole shards: offset and length, the first 1,000.
    pub damaged: Vec<(u64, u64)>,
    /// Damaged shards of the protected bytes.
    pub damaged_shards: u64,
    /// Bytes of these.
    pub damaged_bytes: u64,
    /// Damaged parities.
    pub damaged_parities: u64,
    /// Recovery data and the tail behind it are as they were written.
    pub recovery_is_whole: bool,
    /// Bytes behind all that, which belong to nothing.
    pub behind: u64,
    /// Groups with more damaged shards than parities that are left.
    pub lost_groups: u64,
    /// The most damaged group: damaged shards, and parities left.
    pub worst: (u64, u64),
    /// Groups in which something is damaged.
    pub(super) hurt: Vec<u32>,
}

impl Report {
    /// Says whether every byte is as it was written.
    pub fn is_whole(&self) -> bool {
        self.damaged_shards == 0 && self.recovery_is_whole && self.behind == 0
    }

    /// Says whether all that is damaged can be restored.
    pub fn is_restorable(&self) -> bool {
        self.lost_groups == 0
    }
}

/// Checks the archive in `source` by its recovery data: `None` if it has none.
///
/// # Errors
///
/// What reading gives, but that bytes that don't read are damage; `Cancelled`.
pub fn check(source: &dyn ReadAt, monitor: &dyn Monitor) -> Result<Option<Report>> {
    match find(source, monitor)? {
        Some(geometry) => survey(View::new(source), geometry, monitor).map(Some),
        None => Ok(None),
    }
}

/// Looks at all that the recovery data of this division protects.
pub(super) fn survey(view: View<'_>, geometry: Geometry, monitor: &dyn Monitor) -> Result<Report> {
    let mut report = Report {
        geometry,
        damaged: Vec::new(),
        damaged_shards: 0,
        damaged_bytes: 0,
        damaged_parities: 0,
        recovery_is_whole: true,
        behind: view.len.saturating_sub(geometry.file_len()),
        lost_groups: 0,
        worst: (0, geometry.parities.into()),
        hurt: Vec::new(),
    };
    let mut shards = Vec::new();
    monitor.expect(Counter::Bytes, geometry.protected);
    for number in 0..geometry.groups {
        monitor.check()?;
        let group = Group::survey(view, &geometry, number)?;
        report.take_in(&group, number);
        let bad = group.bad_shards.iter().map(|index| geometry.shard_of(number, *index));
        shards.extend(bad.clone().take(NOTED - shards.len()));
        report.damaged_bytes += bad.map(|shard| geometry.shard_range(shard)).map(|range| range.end - range.start).sum::<u64>();
        monitor.add(Counter::Bytes, geometry.protected / u64::from(geometry.groups));
    }
    shards.sort_unstable();
    for range in shards.into_iter().map(|shard| geometry.shard_range(shard)) {
        let len = range.end - range.start;
        match report.damaged.last_mut() {
            Some(last) if last.0 + last.1 == range.start => last.1 += len,
            _ => report.damaged.push((range.start, len)),
        }
        if report.damaged.len() > TOLD {
            report.damaged.pop();
            break;
        }
    }
    report.recovery_is_whole = report.recovery_is_whole && frames::are_whole(view, &geometry, monitor)?;
    Ok(report)
}

impl Report {
    fn take_in(&mut self, group: &Group<'_>, number: u32) {
        let (lost, left) = (group.bad_shards.len() as u64, group.left());
        self.damaged_shards += lost;
        self.damaged_parities += group.bad_parities.len() as u64;
        self.recovery_is_whole &= group.bad_parities.is_empty() && group.bad_pieces == 0;
        self.lost_groups += u64::from(lost > left);
        // The one that lacks most, or has least to spare.
        if lost + self.worst.1 > self.worst.0 + left {
            self.worst = (lost, left);
        }
        if !group.is_whole() {
            self.hurt.push(number);
        }
    }
}
