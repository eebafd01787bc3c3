//! Recovery frames: what stands in front of the units of each.

use super::geometry::{FRONT_LEN, GEOMETRY_LEN, Geometry};
use super::group::count;
use super::view::View;
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN};
use crate::head::TAIL_LEN;
use nra_core::checksum::checksum;
use nra_core::codec::Codec;
use nra_core::error::Result;
use nra_core::progress::Monitor;
use nra_core::source::Store;

/// Writes what is in front of the units of all frames; the units are there.
pub fn write_frames(store: &dyn Store, geometry: &Geometry, monitor: &dyn Monitor) -> Result<()> {
    for frame in 0..geometry.frames() {
        monitor.check()?;
        let range = geometry.frame_range(frame);
        let mut bytes = vec![0; count(range.end - range.start)];
        if let Some(units) = bytes.get_mut(unit_start(geometry, frame)..).filter(|units| !units.is_empty()) {
            store.read_exact_at(range.end - units.len() as u64, units)?;
        }
        fill_front(geometry, frame, &mut bytes);
        store.write_all_at(range.start, &bytes[..unit_start(geometry, frame)])?;
    }
    Ok(())
}

/// Returns how many bytes of a frame are in front of its units.
fn unit_start(geometry: &Geometry, frame: u64) -> usize {
    let range = geometry.frame_range(frame);
    let first = (range.start + FRONT_LEN as u64).next_multiple_of(geometry.shard_len.into());
    count(first.min(range.end) - range.start)
}

/// Makes what is in front of the units of a frame.
pub fn fill_front(geometry: &Geometry, frame: u64, bytes: &mut [u8]) {
    let place = geometry.frame_place(frame);
    bytes[..unit_start(geometry, frame)].fill(0);
    bytes[HEADER_LEN..FRONT_LEN].copy_from_slice(&geometry.encode(frame, place + HEADER_LEN as u64));
    let payload = &bytes[HEADER_LEN..];
    debug_assert!(payload.len() >= GEOMETRY_LEN);
    let len = u32::try_from(payload.len()).expect("the units of a frame are bounded");
    let header = FrameHeader {
        kind: FrameKind::Recovery,
        codec: Codec::None,
        raw_len: len,
        stored_len: len,
        pad_len: 0,
        directory_len: 0,
        dictionary: 0,
        payload_checksum: checksum(payload, place),
        directory_checksum: 0,
        sealed: false,
        commit: geometry.commit,
    };
    bytes[..HEADER_LEN].copy_from_slice(&header.encode(place).0);
}

/// Says whether all frames have the fronts that their units need, and the tail is behind them.
pub fn are_whole(view: View<'_>, geometry: &Geometry, monitor: &dyn Monitor) -> Result<bool> {
    for frame in 0..geometry.frames() {
        monitor.check()?;
        let range = geometry.frame_range(frame);
        let mut bytes = vec![0; count(range.end - range.start)];
        if !view.read(range.start, &mut bytes)? {
            return Ok(false);
        }
        let found = bytes[..unit_start(geometry, frame)].to_vec();
        fill_front(geometry, frame, &mut bytes);
        if bytes[..found.len()] != found {
            return Ok(false);
        }
    }
    let place = geometry.tail_place();
    let mut tail = [0; TAIL_LEN];
    let there = view.read(place, &mut tail)?;
    // When that of the archive is damaged both are written again.
    Ok(there && view.tail_before(geometry.protected).is_ok_and(|own| own.encode(place) == tail))
}
