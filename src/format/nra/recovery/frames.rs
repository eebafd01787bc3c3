//! Recovery frames: the bytes before the units of each.

use super::group::count;
use super::header::{FRAME_START_LEN, RECOVERY_HEADER_LEN, RecoveryHeader};
use super::view::View;
use crate::footer::FOOTER_LEN;
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN};
use nra_core::checksum::checksum;
use nra_core::error::Result;
use nra_core::progress::Monitor;
use nra_core::source::Store;

/// Writes the bytes before the units of all frames. The units have been written.
pub fn write_frames(store: &dyn Store, layout: &RecoveryHeader, monitor: &dyn Monitor) -> Result<()> {
    for frame in 0..layout.frames() {
        monitor.check()?;
        let range = layout.frame_range(frame);
        let mut bytes = vec![0; count(range.end - range.start)];
        if let Some(units) = bytes.get_mut(unit_start(layout, frame)..).filter(|units| !units.is_empty()) {
            store.read_exact_at(range.end - units.len() as u64, units)?;
        }
        fill_frame_start(layout, frame, &mut bytes);
        store.write_all_at(range.start, &bytes[..unit_start(layout, frame)])?;
    }
    Ok(())
}

/// Returns how many bytes of a frame precede its units.
fn unit_start(layout: &RecoveryHeader, frame: u64) -> usize {
    let range = layout.frame_range(frame);
    let first = (range.start + FRAME_START_LEN as u64).next_multiple_of(layout.shard_len.into());
    count(first.min(range.end) - range.start)
}

/// Builds the bytes before the units of a frame.
pub fn fill_frame_start(layout: &RecoveryHeader, frame: u64, bytes: &mut [u8]) {
    let offset = layout.frame_offset(frame);
    bytes[..unit_start(layout, frame)].fill(0);
    bytes[HEADER_LEN..FRAME_START_LEN].copy_from_slice(&layout.encode(frame, offset + HEADER_LEN as u64));
    let payload = &bytes[HEADER_LEN..];
    debug_assert!(payload.len() >= RECOVERY_HEADER_LEN);
    let len = u32::try_from(payload.len()).expect("the units of a frame are bounded");
    let header = FrameHeader {
        raw_len: len,
        stored_len: len,
        payload_checksum: checksum(payload, offset),
        kind: FrameKind::Recovery,
        commit: layout.commit,
        ..FrameHeader::default()
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode(offset).0);
}

/// Returns whether all frames match their units and the footer follows them.
pub fn are_whole(view: View<'_>, layout: &RecoveryHeader, monitor: &dyn Monitor) -> Result<bool> {
    for frame in 0..layout.frames() {
        monitor.check()?;
        let range = layout.frame_range(frame);
        let mut bytes = vec![0; count(range.end - range.start)];
        if !view.read(range.start, &mut bytes)? {
            return Ok(false);
        }
        let found = bytes[..unit_start(layout, frame)].to_vec();
        fill_frame_start(layout, frame, &mut bytes);
        if bytes[..found.len()] != found {
            return Ok(false);
        }
    }
    let offset = layout.footer_offset();
    let mut footer = [0; FOOTER_LEN];
    let there = view.read(offset, &mut footer)?;
    // If the footer of the archive is damaged, both footers are written again.
    Ok(there && view.footer_before(layout.protected).is_ok_and(|own| own.encode(offset) == footer))
}
