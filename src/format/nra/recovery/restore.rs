//! Restoring the exact bytes.

use super::frames::write_frames;
use super::group::{Group, count, write_group};
use super::survey::{Report, survey};
use super::view::{SECTOR, View};
use nra_core::error::{Error, Resource, Result};
use nra_core::progress::Monitor;
use nra_core::source::{ReadAt, Store};

/// How much is copied at once, bytes.
const STRIDE: usize = 1 << 20;

/// Writes the archive in `source` to the empty `out` as it was before the damage that `report` tells, with its recovery data, and
/// checks that it is so.
///
/// # Errors
///
/// `ResourceLimit` when the groups take more than `memory_bytes`, `Corrupt` when there is more damage than can be restored; what reading and writing give; `Cancelled`. What is in `out` is of no use
/// then.
pub fn restore(source: &dyn ReadAt, report: &Report, out: &dyn Store, memory_bytes: u64, monitor: &dyn Monitor) -> Result<()> {
    let geometry = &report.geometry;
    let found = geometry.restoring_bytes();
    if !report.hurt.is_empty() && found > memory_bytes {
        return Err(Error::ResourceLimit { resource: Resource::Recovery, found, limit: memory_bytes });
    }
    copy(source, geometry.file_len(), out, monitor)?;
    out.truncate(geometry.file_len())?;
    let view = View { source: out, len: geometry.file_len() };
    for &number in &report.hurt {
        monitor.check()?;
        let group = Group::survey(view, geometry, number)?;
        group.restore_shards(out)?;
        if !group.bad_parities.is_empty() || group.bad_pieces > 0 {
            write_group(out, geometry, number)?;
        }
    }
    if !report.recovery_is_whole {
        write_frames(out, geometry, monitor)?;
        let place = geometry.tail_place();
        let tail = view.tail_before(geometry.protected)?;
        out.write_all_at(place, &tail.encode(place))?;
    }
    let after = survey(view, *geometry, monitor)?;
    if after.is_whole() {
        return out.sync();
    }
    let place = after.damaged.first().map_or(geometry.protected, |run| run.0);
    Err(Error::corrupt("archive", place, "what the recovery data gives is not what was there"))
}

/// Copies up to `len` bytes; those that don't read become zeros.
fn copy(source: &dyn ReadAt, len: u64, out: &dyn Store, monitor: &dyn Monitor) -> Result<()> {
    let view = View::new(source);
    let len = len.min(view.len);
    let mut buffer = vec![0; STRIDE];
    let mut at = 0;
    while at < len {
        monitor.check()?;
        let part = &mut buffer[..count((len - at).min(STRIDE as u64))];
        if !view.read(at, part)? {
            for (sector, place) in part.chunks_mut(SECTOR).zip((at..).step_by(SECTOR)) {
                if !view.read(place, sector)? {
                    sector.fill(0);
                }
            }
        }
        out.write_all_at(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}
