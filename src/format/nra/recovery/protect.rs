//! Writing recovery data.

use super::find::{begins, end, present};
use super::frames::write_frames;
use super::geometry::Geometry;
use super::group::write_group;
use super::trailer::Trailer;
use super::view::View;
use crate::head::{Head, REQUIRED_ENCRYPTION, Slot, TAIL_LEN, Tail, check_optional, check_required};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::lost_commit;
use nra_core::error::{Error, Result};
use nra_core::progress::{Counter, Monitor, Warning};
use nra_core::source::{ReadAt, Store};

/// Writes recovery data for damage of `percent` of its bytes behind the archive in `store`, in place of what recovery data it has.
///
/// Until it has returned, and whenever it is stopped, the archive is what it was; when it fails, so is the recovery data that it had, if that takes
/// 16 MiB at most. No key is needed. With less than 256 MiB of `memory_bytes` groups are shorter and recovery
/// data takes a bit more.
///
/// # Errors
///
/// `Usage` for a percentage that is none; `Unsupported` for a version or features that this writer does not know; `Corrupt` when head or tail are damaged or
/// behind the archive is something else than recovery data; what reading and writing give; `Cancelled`.
pub fn protect(store: &dyn Store, percent: u32, memory_bytes: u64, monitor: &dyn Monitor) -> Result<Geometry> {
    let Plan { head, tail, end, geometry } = plan_of(store, percent, memory_bytes)?;
    let is_own = present(store)?.is_some_and(|last| last.protected == end) || begins(store, end)?.is_some();
    if store.len() > end && !is_own {
        let (bytes, number) = (store.len() - end, tail.number);
        let message = format!("{bytes} bytes behind commit {number}, the remains of an append that did not finish, are cut off");
        monitor.warn(Warning::remark([], message));
    }
    monitor.expect(Counter::Bytes, geometry.protected);
    // On a full disk nothing is begun.
    store.reserve(geometry.file_len())?;
    // With a slot that leads to it the archive is whole without what is written now.
    if let Some((place, slot)) = head.slot_for(Slot { number: tail.number, end }) {
        store.write_all_at(place, &slot.encode(place))?;
        store.sync()?;
    }
    let before = Trailer::of(store, end)?;
    store.truncate(end)?;
    // What is written next must not be taken for a part of earlier recovery data.
    store.sync()?;
    let written = write(store, &geometry, &tail, monitor);
    if written.is_err() {
        // A tidy end; the archive is whole without it.
        let _ = store.truncate(end);
        let _ = before.map(|before| before.put_back(store));
    }
    written.map(|()| geometry)
}

/// Says what [`protect`] would write.
///
/// # Errors
///
/// As [`protect`].
pub fn plan(source: &dyn ReadAt, percent: u32, memory_bytes: u64) -> Result<Geometry> {
    plan_of(source, percent, memory_bytes).map(|plan| plan.geometry)
}

/// What is protected, and how.
struct Plan {
    head: Head,
    /// The newest tail, and where it ends.
    tail: Tail,
    end: u64,
    geometry: Geometry,
}

fn plan_of(source: &dyn ReadAt, percent: u32, memory_bytes: u64) -> Result<Plan> {
    let mut head = [0; SUPERBLOCK_LEN];
    source.read_exact_at(0, &mut head)?;
    let (head, _) = Head::parse(&head)?;
    check_required(head.required, REQUIRED_ENCRYPTION)?;
    check_optional(head.optional, 0)?;
    let (tail, end) = newest_tail(source, &head)?;
    if let Some(error) = lost_commit(head.slots, tail.number) {
        return Err(error);
    }
    let geometry = Geometry::choose(end, percent, tail.number, memory_bytes)?;
    Ok(Plan { head, tail, end, geometry })
}

fn write(store: &dyn Store, geometry: &Geometry, tail: &Tail, monitor: &dyn Monitor) -> Result<()> {
    for group in 0..geometry.groups {
        monitor.check()?;
        write_group(store, geometry, group)?;
        monitor.add(Counter::Bytes, geometry.protected / u64::from(geometry.groups));
    }
    write_frames(store, geometry, monitor)?;
    // The tail says that all is there.
    store.sync()?;
    let place = geometry.tail_place();
    store.write_all_at(place, &tail.encode(place))?;
    store.sync()
}

/// Returns the tail of the newest commit, and where it ends. Without a key nobody can tell whether an append behind it did finish: that is not cut.
fn newest_tail(source: &dyn ReadAt, head: &Head) -> Result<(Tail, u64)> {
    let view = View::new(source);
    let len = view.len;
    match end(source) {
        Ok(last) => {
            let end = last.tail.archive_end();
            if !last.is_begun && view.begins_other_frame(end)? {
                return Err(unfinished(len));
            }
            view.tail_before(end).map(|tail| (tail, end))
        }
        Err(lost @ Error::Corrupt { .. }) => {
            let mut slots: Vec<Slot> = head.slots.into_iter().flatten().filter(|slot| slot.end <= len).collect();
            slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
            let known = |slot: &Slot| view.tail_before(slot.end).ok().filter(|tail| tail.number == slot.number);
            let Some((tail, end)) = slots.iter().find_map(|slot| known(slot).map(|tail| (tail, slot.end))) else {
                return Err(lost);
            };
            if view.begins_other_frame(end)? { Err(unfinished(len)) } else { Ok((tail, end)) }
        }
        Err(error) => Err(error),
    }
}

fn unfinished(len: u64) -> Error {
    Error::corrupt("tail", len - TAIL_LEN as u64, "frames that are behind the last commit have no tail")
}
