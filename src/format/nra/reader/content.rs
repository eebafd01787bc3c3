//! Content of entries in all forms.
//!
//! Spec: nra.md, section 8.4.

use std::ops::Range;

use crate::content::{Content, EntryContent as _, Extent, Segment};
use crate::reader::NraReader;
use crate::reader::damage::undamaged;
use nra_core::archive::{Access, Archive, MAX_HOLES, Part};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::zeros::each_run;

type Sink<'s> = dyn FnMut(Part<'_>) -> Result<()> + 's;

impl NraReader {
    /// Passes the bytes in `range` of the content to `sink`.
    pub(super) fn visit(&self, entry: &Entry, range: Range<u64>, access: Access, sink: &mut Sink<'_>) -> Result<()> {
        let range = range.start..range.end.min(entry.size);
        if range.start >= range.end {
            return Ok(());
        }
        let mut segment = |segment: &Segment, part: Range<u64>| match segment {
            Segment::Hole(_) => sink(Part::Hole(part.end - part.start)),
            Segment::Data(extent) => self.with_extent(extent, part.start, part.end - part.start, |bytes| sink(Part::Data(bytes))),
        };
        match entry.content() {
            Content::None => Err(Error::usage(format!("{} has no content in this archive", entry.path))),
            Content::Uncompressed(extent, checksum) => self.visit_uncompressed(extent, *checksum, range, access, sink),
            _ => self.each_segment(entry, range, &mut segment),
        }
    }

    pub(super) fn content_holes(&self, entry: &Entry) -> Result<Vec<Range<u64>>> {
        let (mut holes, mut at): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
        let mut segment = |segment: &Segment, part: Range<u64>| {
            let end = at.saturating_add(part.end - part.start);
            if matches!(segment, Segment::Hole(_)) {
                // One hole more than the limit shows that there are too many.
                let has_room = holes.len() <= MAX_HOLES;
                match holes.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ if has_room => holes.push(at..end),
                    _ => {}
                }
            }
            at = end;
            Ok(())
        };
        self.each_segment(entry, 0..entry.size, &mut segment)?;
        if holes.len() > MAX_HOLES {
            holes.clear();
        }
        Ok(holes)
    }

    fn visit_uncompressed(
        &self,
        extent: &Extent,
        checksum: u32,
        range: Range<u64>,
        access: Access,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let (start, len) = (range.start, range.end - range.start);
        if access == Access::Sequential {
            // Damage elsewhere in the block does not affect this entry.
            if let Some(block) = undamaged(self.block(&extent.block))? {
                return sink(Part::Data(block.part(extent, start, len)?));
            }
        }
        self.with_uncompressed(extent, checksum, start, len, |bytes| sink(Part::Data(bytes)))
    }

    pub(super) fn read_content(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(entry.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let buffer = &mut buffer[..len];
        if let (Content::Uncompressed(extent, checksum), 0) = (entry.content(), offset)
            && len as u64 == extent.len
        {
            self.fill_uncompressed(extent, *checksum, buffer)?;
            return Ok(len);
        }
        let mut filled = 0;
        let copied = self.visit(entry, offset..offset.saturating_add(len as u64), Access::Random, &mut |part| {
            let rest = &mut buffer[filled..];
            match part {
                Part::Data(bytes) => {
                    rest[..bytes.len()].copy_from_slice(bytes);
                    filled += bytes.len();
                }
                Part::Hole(len) => {
                    let len = usize::try_from(len).expect("no longer than the buffer");
                    rest[..len].fill(0);
                    filled += len;
                }
            }
            Ok(())
        });
        // After an error, no bytes are returned, not even correct ones.
        copied.inspect_err(|_| buffer.fill(0))?;
        if filled < len {
            let detail = format!("the extents of {} end {} bytes before its size", entry.path, len - filled);
            return Err(Error::corrupt("entry record", entry.position().0, detail));
        }
        Ok(filled)
    }

    pub(super) fn content_digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        if entry.kind != Kind::File {
            return Ok(None);
        }
        match entry.content() {
            Content::None => return Ok(Some(Digest::of(b""))),
            // If the extent has several chunks or the block index is damaged, the digest is computed
            // from the content.
            Content::Extent(extent) | Content::Uncompressed(extent, _) => {
                if let Some(Some(digest)) = undamaged(self.chunk_digest(extent))? {
                    return Ok(Some(digest));
                }
            }
            Content::List(_, digest) | Content::Map(_, digest) => {
                if let Some(digest) = digest {
                    return Ok(Some(**digest));
                }
            }
        }
        self.computed_digest(entry).map(Some)
    }

    /// Computes the digest of the content of a file.
    pub(super) fn computed_digest(&self, entry: &Entry) -> Result<Digest> {
        let mut hasher = blake3::Hasher::new();
        self.with_content(entry, Access::Random, &mut |part| {
            each_run(part, &mut |bytes| {
                hasher.update(bytes);
                Ok(())
            })
        })?;
        Ok(hasher.finalize().into())
    }
}
