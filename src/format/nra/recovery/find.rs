//! Finding recovery data, even if it is damaged.

use super::group::count;
use super::header::{FRAME_START_LEN, RECOVERY_HEADER_LEN, RecoveryHeader};
use super::view::{SECTOR, View};
use crate::footer::{FOOTER_LEN, FOOTER_MAGIC, Footer};
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_SYNC, SYNC};
use crate::layout::SUPERBLOCK_LEN;
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;

/// Bytes per read in search of a recovery frame.
const STRIDE: u64 = 1 << 20;

/// Returns the recovery data at the end of the file, if its end is undamaged. Needs one read.
///
/// Stored content can imitate recovery data. It is the archive's own only if it protects the open
/// commit.
///
/// # Errors
///
/// I/O errors.
pub fn find_at_end(source: &dyn ReadAt) -> Result<Option<RecoveryHeader>> {
    let view = View::new(source);
    match view.len.checked_sub((FRAME_START_LEN + FOOTER_LEN) as u64) {
        Some(offset) => header_at(view, offset),
        None => Ok(None),
    }
}

/// Returns the recovery data of the newest commit, as far as that can be determined without a key.
/// Returns `None` if an append has started to overwrite it.
///
/// # Errors
///
/// I/O errors.
pub fn find_current(source: &dyn ReadAt) -> Result<Option<RecoveryHeader>> {
    match read_end(source) {
        Ok(last) if last.starts_with_header || !View::new(source).begins_other_frame(last.footer.archive_end())? => {
            Ok(last.recovery)
        }
        Ok(_) | Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the recovery data that starts at `end`, even if the rest of it is damaged. Needs one
/// read.
pub(crate) fn find_at(source: &dyn ReadAt, end: u64) -> Result<Option<RecoveryHeader>> {
    Ok(header_at(View::new(source), end)?.filter(|layout| layout.protected == end))
}

/// The end of an undamaged file.
pub(crate) struct End {
    /// The last footer.
    pub footer: Footer,
    /// The recovery data between the commit and that footer.
    pub recovery: Option<RecoveryHeader>,
    /// Whether the first recovery frame is intact. Otherwise an append may have started to
    /// overwrite it.
    pub starts_with_header: bool,
}

/// Reads the end of the file. Needs one read, or two if the recovery data is long.
pub(crate) fn read_end(source: &dyn ReadAt) -> Result<End> {
    let view = View::new(source);
    if view.len < FOOTER_LEN as u64 {
        return Err(Error::corrupt("footer", 0, format!("the file has only {} bytes", view.len)));
    }
    let footer = view.footer_before(view.len)?;
    let end = footer.archive_end();
    if end == view.len {
        return Ok(End { footer, recovery: None, starts_with_header: true });
    }
    let fits = |layout: &RecoveryHeader| (layout.protected, layout.commit, layout.file_len()) == (end, footer.number, view.len);
    if let Some(layout) = header_at(view, end)?.filter(fits) {
        return Ok(End { footer, recovery: Some(layout), starts_with_header: true });
    }
    match find_at_end(source)?.filter(fits) {
        Some(layout) => Ok(End { footer, recovery: Some(layout), starts_with_header: false }),
        None => Err(stray_footer(&footer, view.len)),
    }
}

/// Returns the error for a footer at the end of a file of `len` bytes that belongs to an earlier
/// commit.
pub(crate) fn stray_footer(footer: &Footer, len: u64) -> Error {
    let detail = format!("it belongs to commit {}, and the bytes in between are not recovery data", footer.number);
    Error::corrupt("footer", len.saturating_sub(FOOTER_LEN as u64), detail)
}

/// Searches all of `source` for recovery data, even if superblock, footer and most of the recovery
/// data are lost.
///
/// Uncompressed content can imitate recovery data on purpose. The search therefore stops at a frame
/// of another kind, since only recovery data follows the protected bytes. If the footer at the end
/// of the file is intact, the recovery data must end there. Recovery data that a later commit
/// follows does not count, since an append removes recovery data before it writes its commit.
pub(crate) fn search(source: &dyn ReadAt, monitor: &dyn Monitor) -> Result<Option<RecoveryHeader>> {
    let view = View::new(source);
    if let Some(layout) = find_at_end(source)? {
        return Ok((!has_later_commit(view, &layout, monitor)?).then_some(layout));
    }
    // Every recovery frame has a header; the last frames are the nearest.
    let has_footer = view.footer_before(view.len).is_ok();
    let mut end = view.len - view.len % 8;
    let mut bytes = Vec::new();
    while end > SUPERBLOCK_LEN as u64 {
        monitor.check()?;
        let start = end.saturating_sub(STRIDE).max(SUPERBLOCK_LEN as u64);
        bytes.resize(count(end - start), 0);
        // If a range is unreadable as a whole, parts of it may be readable.
        let whole = view.read(start, &mut bytes)?;
        for (number, part) in bytes.chunks_mut(SECTOR).enumerate().rev() {
            let first = start + (number * SECTOR) as u64;
            if !whole && !view.read(first, part)? {
                continue;
            }
            let starts = part.chunks_exact(8).enumerate().rev().filter(|(_, bytes)| bytes.starts_with(&SYNC));
            for (offset, bytes) in starts.map(|(number, bytes)| (first + (number * 8) as u64, bytes)) {
                if bytes[SYNC.len()] == FrameKind::Recovery as u8 {
                    let found = at(view, offset)?.filter(|layout| !has_footer || layout.file_len() == view.len);
                    if let Some(layout) = found {
                        return Ok((!has_later_commit(view, &layout, monitor)?).then_some(layout));
                    }
                } else if view.begins_other_frame(offset)? {
                    return Ok(None);
                }
            }
        }
        end = start;
    }
    Ok(None)
}

/// Returns whether frames lead from the protected bytes to a later commit. Sealed frames do not
/// show where they end, but nobody can forge content in an encrypted archive, so the footer of a
/// later commit is proof.
fn has_later_commit(view: View<'_>, layout: &RecoveryHeader, monitor: &dyn Monitor) -> Result<bool> {
    let mut offset = layout.protected;
    while let Some(header) = view.header(offset)? {
        monitor.check()?;
        if header.starts_with(&SEALED_SYNC) {
            return has_later_footer(view, offset, layout.commit, monitor);
        }
        let Some((kind, len)) = FrameHeader::peek(&header, offset) else { return Ok(false) };
        if kind == FrameKind::Commit as u8 {
            return Ok(FrameHeader::parse(&header, offset).is_ok_and(|(header, _)| header.commit > layout.commit));
        }
        offset = offset.saturating_add(len);
    }
    Ok(false)
}

/// Returns whether a commit after `start` that is later than number `commit` has a footer.
fn has_later_footer(view: View<'_>, start: u64, commit: u64, monitor: &dyn Monitor) -> Result<bool> {
    let mut bytes = Vec::new();
    for first in (start..view.len).step_by(count(STRIDE)) {
        monitor.check()?;
        bytes.resize(count((view.len - first).min(STRIDE)), 0);
        if !view.read(first, &mut bytes)? {
            continue;
        }
        let places = bytes.chunks_exact(8).zip((first..).step_by(8)).filter(|(bytes, _)| *bytes == FOOTER_MAGIC);
        for end in places.map(|(_, offset)| offset + FOOTER_LEN as u64) {
            if view.footer_before(end).is_ok_and(|footer| footer.number > commit && footer.archive_end() == end) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the header of the recovery frame that starts at `offset`, if there is one. An append
/// that overwrites recovery data puts its own frame header there, and the following bytes may be
/// arbitrary content.
fn header_at(view: View<'_>, offset: u64) -> Result<Option<RecoveryHeader>> {
    let header = view.header(offset)?.and_then(|header| FrameHeader::peek(&header, offset));
    if header.is_some_and(|(kind, _)| kind == FrameKind::Recovery as u8) { at(view, offset) } else { Ok(None) }
}

/// Returns the recovery header of a recovery frame at `offset`. Its own checksum is enough: that of
/// the frame covers the units, too.
pub(super) fn at(view: View<'_>, offset: u64) -> Result<Option<RecoveryHeader>> {
    let mut bytes = [0; RECOVERY_HEADER_LEN];
    let offset = offset + HEADER_LEN as u64;
    Ok(if view.read(offset, &mut bytes)? { RecoveryHeader::parse(&bytes, offset).ok() } else { None })
}
