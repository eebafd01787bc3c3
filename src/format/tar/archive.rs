//! Reads the contents of an indexed tar archive: uncompressed archives directly, compressed ones by
//! decoding blocks.

use std::ops::Range;
use std::sync::Arc;

use nra_core::archive::{Access, ContentSink, MAX_HOLES, Part};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;
use nra_core::table::{ContentRef, TableBackend};
use nra_stream::{BLOCK, Blocks};

use super::sparse::Segment;

/// Bytes read at a time from an uncompressed archive.
const READ_LEN: usize = 256 << 10;

/// The bytes of an archive.
pub(super) enum Bytes {
    Plain(Arc<dyn ReadAt>),
    Compressed(Box<Blocks>),
}

/// The contents of a tar archive, or of a single compressed file.
pub struct TarBackend {
    pub(super) bytes: Bytes,
    /// Maps of sparse files; a file's [`ContentRef::number`] − 1 is the index of its map.
    pub(super) maps: Vec<Box<[Segment]>>,
}

impl TarBackend {
    /// Returns the map of a sparse file.
    fn map(&self, member: &ContentRef) -> Option<&[Segment]> {
        let index = usize::try_from(member.number).ok()?.checked_sub(1)?;
        self.maps.get(index).map(|map| &**map)
    }

    /// Passes bytes of the archive from `offset` on to `sink`.
    fn read(&self, offset: u64, len: u64, sink: ContentSink<'_>) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = offset;
        match &self.bytes {
            Bytes::Plain(source) => {
                let mut buffer = vec![0; usize::try_from(len).unwrap_or(READ_LEN).min(READ_LEN)];
                while at < end {
                    let len = usize::try_from(end - at).unwrap_or(READ_LEN).min(READ_LEN);
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

impl TableBackend for TarBackend {
    fn with_range(&self, member: &ContentRef, range: Range<u64>, _access: Access, sink: ContentSink<'_>) -> Result<()> {
        let data = member.place.1;
        let Some(map) = self.map(member) else {
            return self.read(data.saturating_add(range.start), range.end - range.start, sink);
        };
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
                self.read(stored.saturating_add(at - offset), until - at, sink)?;
                at = until;
            }
            stored = stored.saturating_add(len);
        }
        if at < range.end { sink(Part::Hole(range.end - at)) } else { Ok(()) }
    }

    fn reads_ranges(&self, _: &ContentRef) -> bool {
        matches!(self.bytes, Bytes::Plain(_))
    }

    fn is_sequential(&self) -> bool {
        matches!(self.bytes, Bytes::Compressed(_))
    }

    fn holes(&self, member: &ContentRef) -> Vec<Range<u64>> {
        let Some(map) = self.map(member) else { return Vec::new() };
        let ends = map.iter().map(|&(offset, len)| offset.saturating_add(len));
        let starts = map.iter().map(|&(offset, _)| offset).chain([member.size]);
        let holes: Vec<Range<u64>> =
            [0].into_iter().chain(ends).zip(starts).map(|(start, end)| start..end).filter(|hole| hole.start < hole.end).collect();
        if holes.len() > MAX_HOLES { Vec::new() } else { holes }
    }

    fn stored_bytes(&self, member: &ContentRef) -> Option<u64> {
        match (&self.bytes, self.map(member)) {
            (Bytes::Compressed(_), _) => None,
            (Bytes::Plain(_), None) => Some(member.size),
            (Bytes::Plain(_), Some(map)) => Some(map.iter().map(|(_, len)| len).sum()),
        }
    }
}
