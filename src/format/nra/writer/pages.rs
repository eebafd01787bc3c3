//! Writing trees of pages, leaves first.

use std::io::Write;

use crate::chunk_run::{ChunkLocation, ChunkPage};
use crate::content::{FrameRef, Segment};
use crate::entry_page::{Child, EntryPage, INNER_TARGET, InnerPage, LEAF_TARGET, PageTotals, encode_leaf, separator};
use crate::extent_map::ExtentPage;
use crate::frame::FrameKind;
use crate::records::{Holder, RecordList};
use crate::writer::EntryId;
use crate::writer::chunk_table::ChunkPlacement;
use crate::writer::compressors::Compressors;
use crate::writer::index::Index;
use crate::writer::output::{NewFrame, Output};
use nra_core::codec::{Codec, Compressor};
use nra_core::digest::Digest;
use nra_core::error::Result;
use nra_core::limits::{self, MAX_LEVEL, MAX_LIST_EXTENTS};

/// Chunks in a leaf page of a chunk run: about 25 KiB. An append reads one leaf page per lookup.
const CHUNK_LEAF: usize = 4_096;

/// Length of the pages of the entry tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSizes {
    /// Raw payload at which a leaf page is closed, bytes.
    pub leaf: usize,
    /// Raw payload at which an inner page is closed, bytes.
    pub inner: usize,
    /// A rewritten leaf page with fewer entries is merged with its neighbor.
    pub few: usize,
}

impl Default for PageSizes {
    fn default() -> Self {
        Self { leaf: LEAF_TARGET, inner: INNER_TARGET, few: 16 }
    }
}

/// Most children of an inner page of a chunk run or extent map.
const FANOUT: usize = 1_024;

/// A compressed page to write.
#[derive(Debug)]
pub(super) struct PackedPage {
    codec: Codec,
    raw_len: u32,
    stored: Vec<u8>,
}

impl PackedPage {
    fn new(payload: &[u8], compressor: &mut Compressor) -> Result<Self> {
        let mut stored = Vec::new();
        let codec = compressor.compress(payload, None, &mut stored)?;
        Ok(Self { codec, raw_len: u32::try_from(payload.len()).expect("pages are bounded"), stored })
    }

    pub fn write<W: Write>(&self, output: &mut Output<W>, kind: FrameKind) -> Result<FrameRef> {
        output.frame(NewFrame::payload(kind, self.codec, self.raw_len, &self.stored))
    }
}

/// A leaf page of the entry tree to write.
#[derive(Debug)]
pub(super) struct NewLeaf {
    pub page: PackedPage,
    /// Key in the parent page.
    pub key: Box<[u8]>,
    pub entries: u64,
    pub content_bytes: u64,
}

/// Builds the leaf pages of `ids[range]`, a part of the entries in path order.
pub(super) fn leaves(
    index: &Index,
    ids: &[EntryId],
    range: std::ops::Range<usize>,
    leaf_bytes: usize,
    compressors: &mut Compressors,
) -> Result<Vec<NewLeaf>> {
    let compressor = compressors.pages()?;
    let mut leaves = Vec::new();
    let path = |at: usize| index.entry(ids[at]).entry.path.as_bytes();
    let mut at = range.start;
    while at < range.end {
        let first = at;
        let mut list = RecordList::new(Holder::Leaf);
        let mut content_bytes = 0;
        while at < range.end && !list.is_full() && (at == first || list.raw_len() < leaf_bytes) {
            let entry = &index.entry(ids[at]).entry;
            list.push(entry);
            content_bytes += entry.size;
            at += 1;
        }
        let payload = encode_leaf(list);
        let key = if first == 0 { Box::default() } else { separator(path(first - 1), path(first)).into() };
        leaves.push(NewLeaf { page: PackedPage::new(&payload, compressor)?, key, entries: (at - first) as u64, content_bytes });
    }
    Ok(leaves)
}

/// Returns the locations of the chunks that were written.
pub(super) fn new_locations(index: &Index) -> Vec<ChunkLocation> {
    let new = index.chunks.iter().filter(|(_, placement)| placement.buffer != 0);
    let placement = |(digest, placement): (&Digest, &ChunkPlacement)| ChunkLocation {
        key: digest.key(),
        block: index.blocks[placement.block as usize].reference.offset,
        chunk: placement.number,
    };
    new.map(placement).collect()
}

pub(super) struct PageWriter<'a, W: Write> {
    pub output: &'a mut Output<W>,
    pub compressor: &'a mut Compressor,
    pub sizes: PageSizes,
}

impl<W: Write> PageWriter<'_, W> {
    /// Compresses a page and writes it.
    pub fn write(&mut self, kind: FrameKind, payload: &[u8]) -> Result<FrameRef> {
        PackedPage::new(payload, self.compressor)?.write(self.output, kind)
    }

    /// Writes the inner pages above `children`, which have level `level`. Returns the root page.
    pub fn write_levels(&mut self, mut children: Vec<Child>, mut level: u8) -> Result<Option<FrameRef>> {
        while children.len() > 1 {
            level = next_level(level)?;
            children = self.write_inner(children, level)?;
        }
        Ok(children.pop().map(|root| root.page))
    }

    /// Writes the inner pages of level `level` that hold `children`: one, or several of about the
    /// same length.
    pub fn write_inner(&mut self, children: Vec<Child>, level: u8) -> Result<Vec<Child>> {
        // Offset, length, header checksum and counts take about 24 bytes.
        let raw_len = |child: &Child| child.key.len() + 24;
        let total: usize = children.iter().map(raw_len).sum();
        // A slightly longer page is better than a second one.
        let usual = self.sizes.inner;
        let goal = if total <= usual + usual / 2 { total } else { total.div_ceil(total.div_ceil(usual)) };
        let mut pages = Vec::new();
        let mut rest = children.into_iter().peekable();
        while rest.peek().is_some() {
            let mut page = InnerPage { level, children: Vec::new() };
            let mut len = 0;
            while let Some(child) = rest.next_if(|_| page.children.len() < 2 || len < goal) {
                len += raw_len(&child);
                page.children.push(child);
            }
            let key = page.children[0].key.clone();
            let page = EntryPage::Inner(page);
            let PageTotals { entries, content_bytes, .. } = page.below();
            let page = self.write(FrameKind::EntryPage, &page.encode())?;
            pages.push(Child { key, page, entries, content_bytes });
        }
        Ok(pages)
    }

    /// Writes the extent map of a file and returns its root page.
    pub fn write_extent_map(&mut self, segments: &[Segment]) -> Result<FrameRef> {
        let mut children = Vec::new();
        for part in segments.chunks(MAX_LIST_EXTENTS) {
            let page = self.write(FrameKind::ExtentPage, &ExtentPage::Leaf(part.to_vec()).encode())?;
            children.push((page, part.iter().map(Segment::len).sum::<u64>()));
        }
        let inner = |level, part| ExtentPage::Inner(level, part).encode();
        let parent = |part: &[(FrameRef, u64)], page| (page, part.iter().map(|child| child.1).sum());
        let root = self.write_above(FrameKind::ExtentPage, children, inner, parent)?;
        Ok(root.expect("a map has extents").0)
    }

    /// Writes a chunk run and returns its root page, or `None` if there are no chunks.
    pub fn write_chunk_run(&mut self, mut locations: Vec<ChunkLocation>) -> Result<Option<FrameRef>> {
        locations.sort_unstable();
        let mut children = Vec::new();
        for part in locations.chunks(CHUNK_LEAF) {
            let page = self.write(FrameKind::ChunkPage, &ChunkPage::Leaf(part.to_vec()).encode())?;
            children.push((part[0].key, page, part.len() as u64));
        }
        let inner = |level, part| ChunkPage::Inner(level, part).encode();
        let parent = |part: &[(u64, FrameRef, u64)], page| (part[0].0, page, part.iter().map(|child| child.2).sum());
        let root = self.write_above(FrameKind::ChunkPage, children, inner, parent)?;
        Ok(root.map(|root| root.1))
    }

    /// Writes the inner pages above the leaf pages `children`, `FANOUT` per page. Returns the root
    /// page as a child, or `None` if there are no leaf pages. `inner` encodes a page of a level;
    /// `parent` makes a child from the children of a page and its reference.
    fn write_above<C: Clone>(
        &mut self,
        kind: FrameKind,
        mut children: Vec<C>,
        inner: impl Fn(u8, Vec<C>) -> Vec<u8>,
        parent: impl Fn(&[C], FrameRef) -> C,
    ) -> Result<Option<C>> {
        let mut level = 0;
        while children.len() > 1 {
            level = next_level(level)?;
            let mut write = |part: &[C]| Ok(parent(part, self.write(kind, &inner(level, part.to_vec()))?));
            children = children.chunks(FANOUT).map(&mut write).collect::<Result<_>>()?;
        }
        Ok(children.pop())
    }
}

fn next_level(level: u8) -> Result<u8> {
    limits::check("level of a page", u64::from(level) + 1, MAX_LEVEL.into()).map(|()| level + 1)
}
