//! Extents: from offsets in a file to locations in blocks, through the extent map of a large file.
//!
//! Spec: nra.md, sections 8.4 and 10.

use std::ops::Range;
use std::sync::Arc;

use crate::content::{Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::extent_map::ExtentPage;
use crate::frame::FrameKind;
use crate::reader::cache_key::CacheKey;
use crate::reader::{NraReader, frames};
use nra_core::entry::Entry;
use nra_core::error::Result;

/// A cached page of an extent map.
pub(super) struct CachedMapPage {
    page: ExtentPage,
    /// For each segment or child and for the end: content bytes before it within this page.
    starts: Vec<u64>,
}

impl CachedMapPage {
    fn parse(payload: &[u8]) -> Result<Self, String> {
        let page = ExtentPage::parse(payload)?;
        let lengths: Vec<u64> = match &page {
            ExtentPage::Leaf(segments) => segments.iter().map(Segment::len).collect(),
            ExtentPage::Inner(_, children) => children.iter().map(|child| child.1).collect(),
        };
        let mut starts = vec![0u64];
        let mut sum = 0u64;
        for len in lengths {
            sum = sum.checked_add(len).ok_or("the sum of its lengths exceeds 64 bits")?;
            starts.push(sum);
        }
        Ok(Self { page, starts })
    }

    pub(super) fn weight(&self) -> u64 {
        (self.starts.len() * (size_of::<Segment>() + size_of::<u64>())) as u64
    }

    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }
}

/// Checks level and content bytes of a page. The level of a root page is not known.
pub(super) fn check_totals(found: (u8, u64), level: Option<u8>, len: u64) -> Result<(), String> {
    match level {
        Some(level) if level != found.0 => Err(format!("level {level} expected, {} found", found.0)),
        _ if len != found.1 => Err(format!("{len} content bytes expected below it, {} found", found.1)),
        _ => Ok(()),
    }
}

impl NraReader {
    /// Calls `visit` for each extent and hole of an entry that overlaps `range` of the content,
    /// with the overlapping part.
    pub(crate) fn each_segment(
        &self,
        entry: &Entry,
        range: Range<u64>,
        visit: &mut dyn FnMut(&Segment, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        match entry.content() {
            Content::None => Ok(()),
            Content::Extent(extent) | Content::Uncompressed(extent, _) => within(&[Segment::Data(*extent)], range, visit),
            Content::List(segments, _) => within(segments, range, visit),
            Content::Map(root, _) => self.map_segments(*root, entry.size, range, visit),
        }
    }

    /// Calls `visit` for each extent of an entry in order.
    pub(crate) fn each_extent(&self, entry: &Entry, visit: &mut dyn FnMut(&Extent) -> Result<()>) -> Result<()> {
        self.each_segment(entry, 0..entry.size, &mut |segment, _| match segment {
            Segment::Data(extent) => visit(extent),
            Segment::Hole(_) => Ok(()),
        })
    }

    /// Calls `visit` for each segment of the map that overlaps `range`, with the overlapping part.
    fn map_segments(
        &self,
        root: FrameRef,
        size: u64,
        range: Range<u64>,
        visit: &mut dyn FnMut(&Segment, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut position = range.start;
        let mut order = LeafOrder::default();
        while position < range.end {
            let (leaf, place, start) = self.map_leaf(root, size, position)?;
            order.follow(place)?;
            let ExtentPage::Leaf(segments) = &leaf.page else { unreachable!("descents end at leaf pages") };
            within(segments, position - start..range.end - start, visit)?;
            position = start + leaf.len();
        }
        Ok(())
    }

    /// Returns the leaf page that holds `position` of the content, its file offset, and its start
    /// in the content.
    fn map_leaf(&self, root: FrameRef, size: u64, position: u64) -> Result<(Arc<CachedMapPage>, u64, u64)> {
        let (mut page, mut len, mut start) = (root, size, 0);
        let mut node = self.map_page(page, None, len)?;
        while let ExtentPage::Inner(level, children) = &node.page {
            let child = node.starts[..children.len()].partition_point(|&first| first <= position - start).saturating_sub(1);
            start += node.starts[child];
            (page, len) = children[child];
            node = self.map_page(page, Some(level.saturating_sub(1)), len)?;
        }
        Ok((node, page.offset, start))
    }

    /// Returns a page with the expected level and `len` content bytes below it.
    fn map_page(&self, page: FrameRef, level: Option<u8>, len: u64) -> Result<Arc<CachedMapPage>> {
        let load = || frames::parse(&self.window, FrameKind::ExtentPage, page, CachedMapPage::parse);
        let node = self.caches.get_or_load(CacheKey::Page(FrameKind::ExtentPage, page), load)?;
        let checked = check_totals((node.page.level(), node.len()), level, len);
        checked.map(|()| node).map_err(|detail| FrameKind::ExtentPage.corrupt(page.offset, detail))
    }
}

/// Checks that each leaf page of a map follows the preceding one in the file.
#[derive(Default)]
pub(super) struct LeafOrder(Option<u64>);

impl LeafOrder {
    /// Continues with the leaf page at this file offset.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it does not follow the last one. A page with many parents would turn a small
    /// file into endless content.
    pub(super) fn follow(&mut self, place: u64) -> Result<()> {
        if self.0.replace(place).is_some_and(|last| place <= last) {
            let detail = "a leaf page that does not follow the preceding one";
            return Err(FrameKind::ExtentPage.corrupt(place, detail));
        }
        Ok(())
    }
}

/// Calls `visit` for each of `segments` that overlaps `range`, with the overlapping part.
fn within(segments: &[Segment], range: Range<u64>, visit: &mut dyn FnMut(&Segment, Range<u64>) -> Result<()>) -> Result<()> {
    let mut start = 0u64;
    for segment in segments {
        if start >= range.end {
            break;
        }
        let end = start.saturating_add(segment.len());
        let part = range.start.max(start)..range.end.min(end);
        if part.start < part.end {
            visit(segment, part.start - start..part.end - start)?;
        }
        start = end;
    }
    Ok(())
}
