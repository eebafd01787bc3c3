//! What a tar archive serves once its index is made: plain ones are read where they lie, compressed ones are decoded block by block.

use std::ops::Range;
use std::sync::Arc;

use nra_core::archive::{Access, ContentSink, Damage, Depth, MAX_HOLES, Part};
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;
use nra_core::table::{ContentRef, TableBackend};
use nra_stream::{BLOCK, Blocks};

/// Bytes read at a time from a plain archive.
const READ: usize = 256 << 10;

/// Where the bytes of the archive are.
pub(super) enum Bytes {
    Plain(Arc<dyn ReadAt>),
    Compressed(Box<Blocks>),
}

/// The content of the entries of a tar archive, or of the one file in a compressed stream.
pub struct TarMembers {
    pub(super) bytes: Bytes,
    /// Maps of sparse files; [`ContentRef::number`] − 1 is the place here.
    pub(super) maps: Vec<Box<[(u64, u64)]>>,
    pub(super) damage: Vec<Damage>,
    pub(super) omits: bool,
    /// Entries that are not in the table.
    pub(super) omitted: u64,
}

impl TarMembers {
    /// Hands bytes of the archive from `offset` on to `sink`.
    fn data(&self, offset: u64, len: u64, sink: ContentSink<'_>) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = offset;
        match &self.bytes {
            Bytes::Plain(source) => {
                let mut buffer = vec![0; usize::try_from(len).unwrap_or(READ).min(READ)];
                while at < end {
                    let len = usize::try_from(end - at).unwrap_or(READ).min(READ);
                    source.read_exact_at(at, &mut buffer[..len])?;
                    sink(Part::Data(&buffer[..len]))?;
                    at += len as u64;
                }
            }
            Bytes::Compressed(blocks) => {
                while at < end {
                    let block = blocks.block(at / BLOCK as u64)?;
                    let start = usize::try_from(at % BLOCK as u64).expect("less than a block");
                    let len = usize::try_from(end - at).unwrap_or(BLOCK).min(block.len().saturating_sub(start));
                    if len == 0 {
                        return Err(Error::corrupt("tar archive", at, "truncated: unexpected end of the input"));
                    }
                    sink(Part::Data(&block[start..start + len]))?;
                    at += len as u64;
                }
            }
        }
        Ok(())
    }
}

impl TableBackend for TarMembers {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, _access: Access, sink: ContentSink<'_>) -> Result<()> {
        let data = member.place.1;
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        let Some(map) = map else { return self.data(data.saturating_add(range.start), range.end - range.start, sink) };
        let mut at = range.start;
        let mut stored = data;
        for &(offset, len) in map {
            let end = offset.saturating_add(len);
            if end > at && offset < range.end {
                if offset > at {
                    sink(Part::Hole(offset - at))?;
                    at = offset;
                }
                let until = end.min(range.end);
                self.data(stored.saturating_add(at - offset), until - at, sink)?;
                at = until;
            }
            stored = stored.saturating_add(len);
        }
        if at < range.end { sink(Part::Hole(range.end - at)) } else { Ok(()) }
    }

    fn check_container(&self, _depth: Depth, _blocks: &mut u64, _monitor: &dyn Monitor) -> Result<Vec<Damage>> {
        Ok(self.damage.clone())
    }

    fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    fn skips_entries(&self) -> bool {
        self.omits
    }

    fn skipped_entries(&self) -> u64 {
        self.omitted
    }

    fn reads_ranges(&self, _: &ContentRef) -> bool {
        matches!(self.bytes, Bytes::Plain(_))
    }

    fn is_sequential(&self) -> bool {
        matches!(self.bytes, Bytes::Compressed(_))
    }

    fn holes(&self, member: &ContentRef) -> Vec<Range<u64>> {
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        let Some(map) = map else { return Vec::new() };
        let ends = map.iter().map(|&(offset, len)| offset.saturating_add(len));
        let starts = map.iter().map(|&(offset, _)| offset).chain([member.size]);
        let holes: Vec<Range<u64>> =
            [0].into_iter().chain(ends).zip(starts).map(|(start, end)| start..end).filter(|hole| hole.start < hole.end).collect();
        if holes.len() > MAX_HOLES { Vec::new() } else { holes }
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        let map = usize::try_from(member.number).ok().and_then(|number| self.maps.get(number.checked_sub(1)?));
        match (&self.bytes, map) {
            (Bytes::Compressed(_), _) => None,
            (Bytes::Plain(_), None) => Some(member.size),
            (Bytes::Plain(_), Some(map)) => Some(map.iter().map(|(_, len)| len).sum()),
        }
    }
}
