//! Writing recovery data.

use super::backup::RecoveryBackup;
use super::find::{find_at, find_at_end, read_end};
use super::frames::write_frames;
use super::group::write_group;
use super::header::RecoveryHeader;
use super::view::View;
use crate::footer::{FOOTER_LEN, Footer};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::lost_commit_error;
use crate::superblock::{CommitSlot, REQUIRED_ENCRYPTION, Superblock, check_optional, check_required};
use nra_core::error::{Error, Result};
use nra_core::progress::{Counter, Monitor, Warning};
use nra_core::source::{ReadAt, Store};

/// Writes recovery data for damage of up to `percent` of the bytes of the archive in `store`.
/// Existing recovery data is replaced.
///
/// If the function is interrupted, the archive stays unchanged. If it fails, previous recovery data
/// of up to 16 MiB is restored as well. No key is needed. With less than 256 MiB of `memory_bytes`,
/// groups are shorter and recovery data is slightly longer.
///
/// # Errors
///
/// `Usage` for an invalid percentage; `Unsupported` for a version or features that this writer does
/// not support; `Corrupt` if superblock or footer are damaged or something other than recovery data
/// follows the archive; `Cancelled`; I/O errors.
pub fn protect(store: &dyn Store, percent: u32, memory_bytes: u64, monitor: &dyn Monitor) -> Result<RecoveryHeader> {
    let Plan { superblock, footer, end, layout } = plan_of(store, percent, memory_bytes)?;
    let is_own = find_at_end(store)?.is_some_and(|last| last.protected == end) || find_at(store, end)?.is_some();
    if store.len() > end && !is_own {
        let (bytes, number) = (store.len() - end, footer.number);
        let message = format!("{bytes} bytes of an unfinished append after commit {number} are cut off");
        monitor.warn(Warning::remark([], message));
    }
    monitor.expect(Counter::Bytes, layout.protected);
    // A full disk is detected before anything changes.
    store.reserve(layout.file_len())?;
    // A commit slot that names this commit keeps the archive valid without the new bytes.
    if let Some((offset, slot)) = superblock.commit_slot_for(CommitSlot { number: footer.number, end }) {
        store.write_all_at(offset, &slot.encode(offset))?;
        store.sync()?;
    }
    let before = RecoveryBackup::of(store, end)?;
    store.truncate(end)?;
    // New bytes must not be taken for a part of the previous recovery data.
    store.sync()?;
    let written = write(store, &layout, &footer, monitor);
    if written.is_err() {
        // Cleanup only: the archive is valid without it.
        let _ = store.truncate(end);
        let _ = before.map(|before| before.restore(store));
    }
    written.map(|()| layout)
}

/// Returns the layout that [`protect`] would write.
///
/// # Errors
///
/// As [`protect`].
pub fn plan(source: &dyn ReadAt, percent: u32, memory_bytes: u64) -> Result<RecoveryHeader> {
    plan_of(source, percent, memory_bytes).map(|plan| plan.layout)
}

/// What is protected, and the layout.
struct Plan {
    superblock: Superblock,
    /// The newest footer and its end.
    footer: Footer,
    end: u64,
    layout: RecoveryHeader,
}

fn plan_of(source: &dyn ReadAt, percent: u32, memory_bytes: u64) -> Result<Plan> {
    let mut superblock = [0; SUPERBLOCK_LEN];
    source.read_exact_at(0, &mut superblock)?;
    let (superblock, _) = Superblock::parse(&superblock)?;
    check_required(superblock.required, REQUIRED_ENCRYPTION)?;
    check_optional(superblock.optional, 0)?;
    let (footer, end) = newest_footer(source, &superblock)?;
    if let Some(error) = lost_commit_error(superblock.slots, footer.number) {
        return Err(error);
    }
    let layout = RecoveryHeader::choose(end, percent, footer.number, memory_bytes)?;
    Ok(Plan { superblock, footer, end, layout })
}

fn write(store: &dyn Store, layout: &RecoveryHeader, footer: &Footer, monitor: &dyn Monitor) -> Result<()> {
    for group in 0..layout.groups {
        monitor.check()?;
        write_group(store, layout, group)?;
        monitor.add(Counter::Bytes, layout.protected / u64::from(layout.groups));
    }
    write_frames(store, layout, monitor)?;
    // The footer shows that the recovery data is complete.
    store.sync()?;
    let offset = layout.footer_offset();
    store.write_all_at(offset, &footer.encode(offset))?;
    store.sync()
}

/// Returns the footer of the newest commit and its end. Without a key, an unfinished append cannot
/// be told from a finished one. It is therefore not cut off.
fn newest_footer(source: &dyn ReadAt, superblock: &Superblock) -> Result<(Footer, u64)> {
    let view = View::new(source);
    let len = view.len;
    match read_end(source) {
        Ok(last) => {
            let end = last.footer.archive_end();
            if !last.starts_with_header && view.begins_other_frame(end)? {
                return Err(unfinished(len));
            }
            view.footer_before(end).map(|footer| (footer, end))
        }
        Err(lost @ Error::Corrupt { .. }) => {
            let mut slots: Vec<CommitSlot> = superblock.slots.into_iter().flatten().filter(|slot| slot.end <= len).collect();
            slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
            let known = |slot: &CommitSlot| view.footer_before(slot.end).ok().filter(|footer| footer.number == slot.number);
            let Some((footer, end)) = slots.iter().find_map(|slot| known(slot).map(|footer| (footer, slot.end))) else {
                return Err(lost);
            };
            if view.begins_other_frame(end)? { Err(unfinished(len)) } else { Ok((footer, end)) }
        }
        Err(error) => Err(error),
    }
}

fn unfinished(len: u64) -> Error {
    Error::corrupt("footer", len - FOOTER_LEN as u64, "frames after the last commit have no footer")
}
