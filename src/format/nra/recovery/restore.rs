//! Restoring the exact bytes of an archive.

use super::check::{Report, check_groups};
use super::frames::write_frames;
use super::group::{Group, count, write_group};
use super::view::{SECTOR, View};
use nra_core::error::{Error, Resource, Result};
use nra_core::progress::Monitor;
use nra_core::source::{ReadAt, Store};

/// Bytes copied at once.
const STRIDE: usize = 1 << 20;

/// Writes a restored copy of the archive in `source`, including its recovery data, to the empty
/// `out`, and checks the copy.
///
/// # Errors
///
/// `Beyond` if a group needs more than `memory_bytes`; `Corrupt` if the damage is more than can be
/// restored; `Cancelled`; I/O errors. After an error, `out` is useless.
pub fn restore(source: &dyn ReadAt, report: &Report, out: &dyn Store, memory_bytes: u64, monitor: &dyn Monitor) -> Result<()> {
    let layout = &report.recovery_header;
    let found = layout.restoring_bytes();
    if !report.damaged_groups.is_empty() && found > memory_bytes {
        return Err(Error::ResourceLimit { resource: Resource::Recovery, found, limit: memory_bytes });
    }
    copy_bytes(source, layout.file_len(), out, monitor)?;
    out.truncate(layout.file_len())?;
    let view = View { source: out, len: layout.file_len() };
    for &number in &report.damaged_groups {
        monitor.check()?;
        let group = Group::read(view, layout, number)?;
        group.restore_shards(out)?;
        if !group.damaged_parity.is_empty() || group.damaged_table_shards > 0 {
            write_group(out, layout, number)?;
        }
    }
    if !report.recovery_is_whole {
        write_frames(out, layout, monitor)?;
        let offset = layout.footer_offset();
        let footer = view.footer_before(layout.protected)?;
        out.write_all_at(offset, &footer.encode(offset))?;
    }
    let after = check_groups(view, *layout, monitor)?;
    if after.is_whole() {
        return out.sync();
    }
    let offset = after.damaged.first().map_or(layout.protected, |run| run.0);
    Err(Error::corrupt("archive", offset, "the restored archive fails its check"))
}

/// Copies up to `len` bytes. Unreadable bytes become zeros.
fn copy_bytes(source: &dyn ReadAt, len: u64, out: &dyn Store, monitor: &dyn Monitor) -> Result<()> {
    let view = View::new(source);
    let len = len.min(view.len);
    let mut buffer = vec![0; STRIDE];
    let mut at = 0;
    while at < len {
        monitor.check()?;
        let part = &mut buffer[..count((len - at).min(STRIDE as u64))];
        if !view.read(at, part)? {
            for (sector, offset) in part.chunks_mut(SECTOR).zip((at..).step_by(SECTOR)) {
                if !view.read(offset, sector)? {
                    sector.fill(0);
                }
            }
        }
        out.write_all_at(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}
