//! Finding recovery data, and what is damaged.

use super::View;
use super::geometry::{FRONT_LEN, GEOMETRY_LEN, Geometry};
use super::group::{Group, count};
use super::protect::{begins_other_frame, fill_front, tail_before, unit_start};
use crate::format::error::{Error, Result};
use crate::format::nra::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_SYNC, SYNC};
use crate::format::nra::head::{TAIL_LEN, TAIL_MAGIC, Tail};
use crate::format::nra::layout::HEAD_LEN;
use crate::format::progress::{Counter, Monitor};
use crate::format::source::ReadAt;

/// How much is read at once in search of a recovery frame, bytes.
const STRIDE: u64 = 1 << 20;
/// What is left out when it does not read, bytes.
pub(super) const SECTOR: usize = 4 << 10;
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
        Ok(last) if last.is_begun || !is_other_frame(View::new(source), last.tail.archive_end())? => Ok(last.recovery),
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
    let tail = tail_before(view, view.len)?;
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
    let has_tail = tail_before(view, view.len).is_ok();
    let mut end = view.len - view.len % 8;
    let mut bytes = Vec::new();
    while end > HEAD_LEN as u64 {
        monitor.check()?;
        let start = end.saturating_sub(STRIDE).max(HEAD_LEN as u64);
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
                } else if is_other_frame(view, place)? {
                    return Ok(None);
                }
            }
        }
        end = start;
    }
    Ok(None)
}

/// Says whether a frame that is no recovery data begins at `place`.
pub(super) fn is_other_frame(view: View<'_>, place: u64) -> Result<bool> {
    let mut header = [0; HEADER_LEN];
    Ok(view.read(place, &mut header)? && begins_other_frame(&header, place))
}

/// Says whether frames lead from what is protected to a later commit. Those of an encrypted archive do not tell where they end, but there nobody can choose
/// what is stored: the tail of a later commit is one.
fn is_followed(view: View<'_>, geometry: &Geometry, monitor: &dyn Monitor) -> Result<bool> {
    let mut place = geometry.protected;
    let mut header = [0; HEADER_LEN];
    while view.read(place, &mut header)? {
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
            if tail_before(view, end).is_ok_and(|tail| tail.number > commit && tail.archive_end() == end) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the geometry of the recovery frame that begins at `place`, if there is one. Where an append writes over it stands the header of a frame of its own;
/// what is behind that may be content of somebody's choice.
fn frame_at(view: View<'_>, place: u64) -> Result<Option<Geometry>> {
    let mut header = [0; HEADER_LEN];
    let is_header = view.read(place, &mut header)?
        && FrameHeader::peek(&header, place).is_some_and(|(kind, _)| kind == FrameKind::Recovery as u8);
    if is_header { at(view, place) } else { Ok(None) }
}

/// Returns the geometry that stands where a recovery frame at `place` has it. Its own checksum proves it: that of the frame covers the units, too.
fn at(view: View<'_>, place: u64) -> Result<Option<Geometry>> {
    let mut bytes = [0; GEOMETRY_LEN];
    let place = place + HEADER_LEN as u64;
    Ok(if view.read(place, &mut bytes)? { Geometry::parse(&bytes, place).ok() } else { None })
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
    report.recovery_is_whole = report.recovery_is_whole && frames_are_whole(view, &geometry, monitor)?;
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

/// Says whether all frames have the fronts that their units need, and the tail is behind them.
fn frames_are_whole(view: View<'_>, geometry: &Geometry, monitor: &dyn Monitor) -> Result<bool> {
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
    Ok(there && tail_before(view, geometry.protected).is_ok_and(|own| own.encode(place) == tail))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::archive::{Archive, OpenOptions};
    use crate::format::digest::Digest;
    use crate::format::entry::{Entry, Kind};
    use crate::format::nra::compact::plan;
    use crate::format::nra::reader::NraReader;
    use crate::format::nra::recovery::group::write_group;
    use crate::format::nra::recovery::protect::{protect, write_frames};
    use crate::format::nra::writer::{NewContent, Writer, WriterOptions};
    use crate::format::path::EntryPath;
    use crate::format::progress::Recorder;
    use crate::format::source::{FileStore, MemorySource, MemoryStore, Store};

    /// Where recovery data of somebody's making lies in the file, and where the content that holds it does.
    const FORGED: usize = 40_000;
    const CONTENT: usize = HEAD_LEN + HEADER_LEN;

    /// Recovery data for whatever is in front of it, without a tail.
    fn forged() -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let store = FileStore::open(file.path()).unwrap();
        store.truncate(FORGED as u64).unwrap();
        let geometry = Geometry::choose(FORGED as u64, 100, 1, 256 << 20).unwrap();
        (0..geometry.groups).for_each(|group| write_group(&store, &geometry, group).unwrap());
        write_frames(&store, &geometry, &Recorder::default()).unwrap();
        std::fs::read(file.path()).unwrap()
    }

    fn add<W: std::io::Write + Send>(writer: &mut Writer<W>, name: &str, bytes: &[u8]) {
        let whole = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: true };
        writer.add(Entry::new(EntryPath::try_from(name).unwrap(), Kind::File), whole).unwrap();
    }

    /// Two commits, the second with a file of this content, and the end of recovery data that would begin behind the first.
    fn with_forged_end(second: &dyn Fn(&Geometry, &[u8]) -> Vec<u8>) -> (MemoryStore, Geometry) {
        let store = MemoryStore::default();
        let options = || WriterOptions { threads: 1, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options()).unwrap();
        add(&mut writer, "old", &[1; 40_000]);
        let first = writer.finish(&Recorder::default()).unwrap().0;
        store.write_all_at(0, &first).unwrap();
        let geometry = Geometry::choose(first.len() as u64, 100, 1, 1 << 20).unwrap();
        let mut writer = Writer::append(Arc::new(store.open()), options()).unwrap();
        add(&mut writer, "new", &second(&geometry, &first));
        writer.finish(&Recorder::default()).unwrap();
        let mut front = vec![0; FRONT_LEN];
        fill_front(&geometry, geometry.frames() - 1, &mut front);
        let place = geometry.tail_place() - FRONT_LEN as u64;
        assert!(store.open().len() < place);
        store.write_all_at(place, &front).unwrap();
        let tail = tail_before(View::new(&MemorySource::new(first.clone())), first.len() as u64).unwrap();
        store.write_all_at(geometry.tail_place(), &tail.encode(geometry.tail_place())).unwrap();
        (store.open(), geometry)
    }

    fn bytes_of(store: &MemoryStore) -> Vec<u8> {
        let store = store.open();
        let mut bytes = vec![0; count(store.len())];
        store.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    fn assert_commit_2_stays(store: &MemoryStore) {
        let bytes = bytes_of(store);
        let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(bytes.clone()));
        let reader = NraReader::open(Arc::clone(&source), &OpenOptions::default()).unwrap();
        assert!(reader.find(b"new").unwrap().is_some() && reader.info().commit == Some(2));
        assert!(reader.remarks()[0].contains("belong to nothing"), "{:?}", reader.remarks());
        assert!(reader.info().recovery.is_none() && standing(&*source).unwrap().is_none());
        assert!(matches!(protect(store, 10, 1 << 20, &Recorder::default()), Err(Error::Corrupt { .. })));
        assert!(bytes_of(store) == bytes);
        assert_eq!(find(&*source, &Recorder::default()).unwrap(), None);
        let planned = plan(&source, 9, &WriterOptions::balanced(), &Recorder::default()).unwrap();
        assert_eq!((planned.commits, planned.dropped_commits, planned.recovery_percent), (2, 0, None));
        // Nor does it go where its tail is damaged, too.
        let mut damaged = bytes.clone();
        let is_tail = |window: &[u8]| window.starts_with(b"NRATAIL\n") && window[48] == 2;
        let tail = damaged.windows(TAIL_LEN).position(is_tail).unwrap();
        damaged[tail + 9] ^= 1;
        let source: Arc<dyn ReadAt> = Arc::new(MemorySource::new(damaged));
        let refused = plan(&source, 9, &WriterOptions::balanced(), &Recorder::default());
        assert!(refused.unwrap_err().to_string().contains("that of commit 2 is lost"));
        // An append cuts what belongs to nothing, and nothing else.
        let mut writer = Writer::append(Arc::new(store.open()), WriterOptions::balanced()).unwrap();
        add(&mut writer, "newer", b"newer");
        assert_eq!(writer.finish(&Recorder::default()).unwrap().1.entries, 3);
    }

    #[test]
    fn a_forged_end_does_not_hide_a_later_commit() {
        let (store, geometry) = with_forged_end(&|_, _| b"new".to_vec());
        assert_eq!(end(&store).ok().and_then(|end| end.recovery), Some(geometry));
        assert_commit_2_stays(&store);
    }

    #[test]
    fn content_behind_a_commit_is_no_recovery_data() {
        let content = |geometry: &Geometry, _: &[u8]| {
            let mut content = geometry.encode(0, geometry.protected + HEADER_LEN as u64).to_vec();
            content.extend([7; 3_000]);
            content
        };
        let (store, geometry) = with_forged_end(&content);
        // All but the header is there.
        assert_eq!(at(View::new(&store), geometry.protected).unwrap(), Some(geometry));
        assert_eq!(begins(&store, geometry.protected).unwrap(), None);
        assert_commit_2_stays(&store);
    }

    #[test]
    fn recovery_data_of_an_earlier_commit_that_is_content_restores_nothing() {
        let content = |geometry: &Geometry, first: &[u8]| {
            let store = MemoryStore::default();
            store.write_all_at(0, first).unwrap();
            assert_eq!(protect(&store.open(), 100, 1 << 20, &Recorder::default()).unwrap(), *geometry);
            let bytes = bytes_of(&store);
            bytes[first.len() + HEADER_LEN..first.len() + (bytes.len() - first.len()) / 2].to_vec()
        };
        let (store, geometry) = with_forged_end(&content);
        // It would make the file what it was at the first commit.
        let report = survey(View::new(&store), geometry, &Recorder::default()).unwrap();
        assert!(report.damaged_shards == 0 && report.is_restorable() && !report.is_whole());
        assert_commit_2_stays(&store);
    }

    #[test]
    fn content_that_looks_like_recovery_data_is_none() {
        let file = forged();
        assert!(find(&MemorySource::new(file.clone()), &Recorder::default()).unwrap().is_some());
        let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::balanced() }).unwrap();
        add(&mut writer, "a", &[&file[CONTENT..], &[1; 999]].concat());
        let archive = writer.finish(&Recorder::default()).unwrap().0;
        assert!(archive[FORGED..].starts_with(&file[FORGED..]));
        for len in [archive.len(), archive.len() - 1, archive.len() - TAIL_LEN] {
            let found = find(&MemorySource::new(archive[..len].to_vec()), &Recorder::default()).unwrap();
            assert_eq!(found, None, "{len} of {} bytes", archive.len());
        }
    }
}
