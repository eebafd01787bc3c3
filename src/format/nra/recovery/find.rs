//! Which recovery data a file has, whatever has become of it.

use super::geometry::{FRONT_LEN, GEOMETRY_LEN, Geometry};
use super::group::count;
use super::view::{SECTOR, View};
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_SYNC, SYNC};
use crate::head::{TAIL_LEN, TAIL_MAGIC, Tail};
use crate::layout::SUPERBLOCK_LEN;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;

/// How much is read at once in search of a recovery frame, bytes.
const STRIDE: u64 = 1 << 20;

/// Returns the recovery data that the file ends with, if its end is not damaged: one read.
///
/// Whatever is written last may look so. It is the archive's own only if it protects the state that is open.
///
/// # Errors
///
/// What reading gives.
pub fn present(source: &dyn ReadAt) -> Result<Option<Geometry>> {
    let view = View::new(source);
    match view.len.checked_sub((FRONT_LEN + TAIL_LEN) as u64) {
        Some(place) => frame_at(view, place),
        None => Ok(None),
    }
}

/// Returns the recovery data behind the newest commit, as far as that is told without a key: none if an append has begun to write over it.
///
/// # Errors
///
/// What reading gives.
pub fn standing(source: &dyn ReadAt) -> Result<Option<Geometry>> {
    match end(source) {
        Ok(last) if last.is_begun || !View::new(source).begins_other_frame(last.tail.archive_end())? => Ok(last.recovery),
        Ok(_) | Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the recovery data that begins at `end`, whatever has become of the rest of it: one read.
///
/// # Errors
///
/// What reading gives.
pub fn begins(source: &dyn ReadAt, end: u64) -> Result<Option<Geometry>> {
    Ok(frame_at(View::new(source), end)?.filter(|geometry| geometry.protected == end))
}

/// The end of a file that is whole.
pub struct End {
    /// Its last tail.
    pub tail: Tail,
    /// The recovery data between the commit and that tail.
    pub recovery: Option<Geometry>,
    /// The recovery data begins as it should. Else an append may have begun to write over it.
    pub is_begun: bool,
}

/// Returns what the file ends with: one read, or two where recovery data is long.
///
/// # Errors
///
/// `Unsupported` for another version; `Corrupt` when there is no tail, or when what lies between it and its commit is no recovery data: then it is the tail of an
/// earlier commit, which got there by accident or on purpose. What reading gives.
pub fn end(source: &dyn ReadAt) -> Result<End> {
    let view = View::new(source);
    if view.len < TAIL_LEN as u64 {
        return Err(Error::corrupt("tail", 0, format!("the file has only {} bytes", view.len)));
    }
    let tail = view.tail_before(view.len)?;
    let end = tail.archive_end();
    if end == view.len {
        return Ok(End { tail, recovery: None, is_begun: true });
    }
    let fits = |geometry: &Geometry| (geometry.protected, geometry.commit, geometry.file_len()) == (end, tail.number, view.len);
    if let Some(geometry) = frame_at(view, end)?.filter(fits) {
        return Ok(End { tail, recovery: Some(geometry), is_begun: true });
    }
    match present(source)?.filter(fits) {
        Some(geometry) => Ok(End { tail, recovery: Some(geometry), is_begun: false }),
        None => Err(foreign(&tail, view.len)),
    }
}

/// The damage that a tail at the end of a file of `len` bytes is which belongs to a commit farther in front.
pub fn foreign(tail: &Tail, len: u64) -> Error {
    let detail = format!("it is that of commit {}, and what lies between them is no recovery data", tail.number);
    Error::corrupt("tail", len.saturating_sub(TAIL_LEN as u64), detail)
}

/// Looks for recovery data in all of `source`, also when head, tail and most of the recovery data are lost.
///
/// Content that is stored as it is may look like recovery data, even on purpose. So the search ends at a frame of another kind: nothing
/// but recovery data lies behind what they protect. And where the tail at the end of the file is whole, they end with it. What a later commit follows
/// is none, since an append cuts recovery data before it writes its commit.
///
/// # Errors
///
/// What reading gives, `Cancelled`.
pub fn find(source: &dyn ReadAt, monitor: &dyn Monitor) -> Result<Option<Geometry>> {
    let view = View::new(source);
    if let Some(geometry) = present(source)? {
        return Ok((!is_followed(view, &geometry, monitor)?).then_some(geometry));
    }
    // Every frame tells it, and the last ones are the nearest.
    let has_tail = view.tail_before(view.len).is_ok();
    let mut end = view.len - view.len % 8;
    let mut bytes = Vec::new();
    while end > SUPERBLOCK_LEN as u64 {
        monitor.check()?;
        let start = end.saturating_sub(STRIDE).max(SUPERBLOCK_LEN as u64);
        bytes.resize(count(end - start), 0);
        // Where a stretch does not read as a whole, parts of it may.
        let whole = view.read(start, &mut bytes)?;
        for (number, part) in bytes.chunks_mut(SECTOR).enumerate().rev() {
            let first = start + (number * SECTOR) as u64;
            if !whole && !view.read(first, part)? {
                continue;
            }
            let starts = part.chunks_exact(8).enumerate().rev().filter(|(_, bytes)| bytes.starts_with(&SYNC));
            for (place, bytes) in starts.map(|(number, bytes)| (first + (number * 8) as u64, bytes)) {
                if bytes[SYNC.len()] == FrameKind::Recovery as u8 {
                    let found = at(view, place)?.filter(|geometry| !has_tail || geometry.file_len() == view.len);
                    if let Some(geometry) = found {
                        return Ok((!is_followed(view, &geometry, monitor)?).then_some(geometry));
                    }
                } else if view.begins_other_frame(place)? {
                    return Ok(None);
                }
            }
        }
        end = start;
    }
    Ok(None)
}

/// Says whether frames lead from what is protected to a later commit. Those of an encrypted archive do not tell where they end, but there nobody can choose
/// what is stored: the tail of a later commit is one.
fn is_followed(view: View<'_>, geometry: &Geometry, monitor: &dyn Monitor) -> Result<bool> {
    let mut place = geometry.protected;
    while let Some(header) = view.header(place)? {
        monitor.check()?;
        if header.starts_with(&SEALED_SYNC) {
            return has_later_tail(view, place, geometry.commit, monitor);
        }
        let Some((kind, len)) = FrameHeader::peek(&header, place) else { return Ok(false) };
        if kind == FrameKind::Commit as u8 {
            return Ok(FrameHeader::parse(&header, place).is_ok_and(|(header, _)| header.commit > geometry.commit));
        }
        place = place.saturating_add(len);
    }
    Ok(false)
}

/// Says whether a commit behind `start` that is later than number `commit` has its tail.
fn has_later_tail(view: View<'_>, start: u64, commit: u64, monitor: &dyn Monitor) -> Result<bool> {
    let mut bytes = Vec::new();
    for first in (start..view.len).step_by(count(STRIDE)) {
        monitor.check()?;
        bytes.resize(count((view.len - first).min(STRIDE)), 0);
        if !view.read(first, &mut bytes)? {
            continue;
        }
        let places = bytes.chunks_exact(8).zip((first..).step_by(8)).filter(|(bytes, _)| *bytes == TAIL_MAGIC);
        for end in places.map(|(_, place)| place + TAIL_LEN as u64) {
            if view.tail_before(end).is_ok_and(|tail| tail.number > commit && tail.archive_end() == end) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the geometry of the recovery frame that begins at `place`, if there is one. Where an append writes over it stands the header of a frame of its own;
/// what is behind that may be content of somebody's choice.
fn frame_at(view: View<'_>, place: u64) -> Result<Option<Geometry>> {
    let header = view.header(place)?.and_then(|header| FrameHeader::peek(&header, place));
    if header.is_some_and(|(kind, _)| kind == FrameKind::Recovery as u8) { at(view, place) } else { Ok(None) }
}

/// Returns the geometry that stands where a recovery frame at `place` has it. Its own checksum proves it: that of the frame covers the units, too.
pub(super) fn at(view: View<'_>, place: u64) -> Result<Option<Geometry>> {
    let mut bytes = [0; GEOMETRY_LEN];
    let place = place + HEADER_LEN as u64;
    Ok(if view.read(place, &mut bytes)? { Geometry::parse(&bytes, place).ok() } else { None })
}
