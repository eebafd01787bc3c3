//! The entry tree: from numbers and paths to leaves.
//!
//! Spec: nra.md, section 9.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::content::FrameRef;
use crate::frame::FrameKind;
use crate::page::{Below, Child, InnerPage, Page, content_bytes, ends_of_inner, ends_of_leaf};
use crate::reader::damage::is_damage;
use crate::reader::key::Key;
use crate::reader::weight::weight_of_entries;
use crate::reader::{NraReader, Root, frames};
use nra_core::archive::IndexPage;
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};
use nra_core::path::compare;

/// A decoded page of the entry tree.
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// Entries in path order: those of a page, or what stands in for a damaged one.
#[derive(Clone)]
pub(super) struct Leaf {
    entries: Arc<Vec<Entry>>,
    range: Range<usize>,
    /// Sum of their sizes, bytes.
    content_bytes: u64,
    /// Entries that the tree counts here and that were not found; 0 for a page that is whole.
    pub(super) missing: u64,
    /// Offset of the damaged page that this stands in for; 0 for a page that is whole.
    place: u64,
}

/// An inner page with running sums.
pub(super) struct Inner {
    level: u8,
    children: Vec<Child>,
    /// For each child, and for the end: entries before it.
    first: Vec<u64>,
    /// For each child, and for the end: content bytes before it.
    bytes: Vec<u64>,
}

/// What a descent looks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seek<'a> {
    /// The leaf with this entry number.
    Number(u64),
    /// The leaf where this path is, or would be.
    Path(&'a [u8]),
}

/// A leaf and its place among the entries.
pub(super) struct Spot {
    /// Number of its first entry.
    pub(super) first: u64,
    /// Content bytes before it.
    pub(super) bytes: u64,
    /// Entry numbers that belong to it.
    pub(super) count: u64,
    pub(super) node: Arc<Node>,
}

/// Numbers that can't be reached, and why.
pub(super) struct Lost {
    pub(super) numbers: Range<u64>,
    pub(super) error: Error,
}

impl Leaf {
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        Self::shared(Arc::new(entries))
    }

    /// All of entries that are kept elsewhere.
    pub(super) fn shared(entries: Arc<Vec<Entry>>) -> Self {
        Self { range: 0..entries.len(), content_bytes: content_bytes(&entries), entries, missing: 0, place: 0 }
    }

    /// A part of entries that are kept elsewhere, in the place of the damaged page of `child`.
    pub(super) fn stand_in(entries: Arc<Vec<Entry>>, range: Range<usize>, child: &Child) -> Self {
        let missing = child.entries.saturating_sub(range.len() as u64);
        Self { content_bytes: content_bytes(&entries[range.clone()]), entries, range, missing, place: child.page.offset }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[self.range.clone()]
    }

    /// Index of the first entry that is not in front of `path`.
    pub(super) fn lower_bound(&self, path: &[u8]) -> usize {
        self.entries().partition_point(|entry| compare(entry.path.as_bytes(), path) == Ordering::Less)
    }

    /// Takes the entries out if nobody else holds them.
    pub(super) fn into_entries(self) -> Result<Vec<Entry>, Self> {
        if self.range != (0..self.entries.len()) {
            return Err(self);
        }
        Arc::try_unwrap(self.entries).map_err(|entries| Self { entries, ..self })
    }
}

impl Inner {
    fn new(page: InnerPage) -> Result<Self, String> {
        let running = |value: fn(&Child) -> u64| {
            let mut sums = Vec::with_capacity(page.children.len() + 1);
            let mut sum = 0u64;
            sums.push(sum);
            for child in &page.children {
                sum = sum.checked_add(value(child)).ok_or("sums over its children exceed 64 bits")?;
                sums.push(sum);
            }
            Ok::<_, String>(sums)
        };
        let (first, bytes) = (running(|child| child.entries)?, running(|child| child.content_bytes)?);
        Ok(Self { level: page.level, children: page.children, first, bytes })
    }

    /// Returns the index of the child that the search leads to; `before` = entries before this page.
    fn choose(&self, seek: Seek<'_>, before: u64) -> usize {
        let greater = match seek {
            Seek::Number(number) => {
                let number = number.saturating_sub(before);
                self.first[..self.children.len()].partition_point(|&first| first <= number)
            }
            Seek::Path(path) => self.children.partition_point(|child| compare(&child.key, path) != Ordering::Greater),
        };
        greater.saturating_sub(1)
    }
}

impl Node {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, String> {
        Ok(match Page::parse(payload)? {
            Page::Leaf(entries) => Self::Leaf(Leaf::new(entries)),
            Page::Inner(page) => Self::Inner(Inner::new(page)?),
        })
    }

    pub(super) fn weight(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => weight_of_entries(leaf.entries()),
            Self::Inner(inner) => {
                let keys = inner.children.iter().map(|child| child.key.len() as u64 + 16).sum::<u64>();
                keys + (inner.children.len() * (size_of::<Child>() + 16)) as u64
            }
        }
    }

    /// The leaf that the end of a descent is.
    pub(super) fn leaf(&self) -> &Leaf {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Inner(_) => unreachable!("descents end at leaves"),
        }
    }

    fn children(&self) -> &[Child] {
        match self {
            Self::Leaf(_) => &[],
            Self::Inner(inner) => &inner.children,
        }
    }

    fn below(&self) -> Below {
        let (entries, content_bytes) = match self {
            Self::Leaf(leaf) => (leaf.range.len() as u64, leaf.content_bytes),
            Self::Inner(Inner { first, bytes, .. }) => {
                (first.last().copied().unwrap_or_default(), bytes.last().copied().unwrap_or_default())
            }
        };
        Below { level: self.level(), entries, content_bytes }
    }

    /// First and last path, or key if it is an inner page.
    fn ends(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Leaf(leaf) => ends_of_leaf(leaf.entries()),
            Self::Inner(inner) => ends_of_inner(&inner.children),
        }
    }

    fn level(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Inner(inner) => inner.level,
        }
    }
}

impl Spot {
    pub(super) fn leaf(&self) -> &Leaf {
        self.node.leaf()
    }

    /// First number behind this leaf.
    pub(super) fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Index of an entry number. A stand-in may hold more or fewer entries than there are numbers.
    pub(super) fn index(&self, number: u64) -> usize {
        let index = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        index.min(self.leaf().entries().len())
    }

    /// Index of the end of a range of numbers.
    pub(super) fn end_index(&self, number: u64) -> usize {
        if number >= self.end() { self.leaf().entries().len() } else { self.index(number) }
    }

    /// Number of the entry at `index`.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.first + (index as u64).min(self.count)
    }

    /// The error for what is missing from this leaf.
    pub(super) fn shortage(&self) -> Option<Error> {
        let leaf = self.leaf();
        let missing = leaf.missing;
        let detail = || format!("{missing} of the {} entries below it are recorded in no directory that reads", self.count);
        (missing > 0).then(|| Error::corrupt(FrameKind::EntryPage.name(), leaf.place, detail()))
    }
}

impl NraReader {
    /// Returns the leaf that `seek` leads to; there must be entries. A leaf goes into the cache if `keep` says so.
    ///
    /// Where a page is damaged and recovering is allowed, a stand-in made of the directories of blocks is returned.
    pub(super) fn leaf(&self, seek: Seek<'_>, keep: bool) -> Result<Spot, Lost> {
        let root = match &self.root {
            Root::Page(root) => root,
            Root::Whole(node) => return Ok(Spot { first: 0, bytes: 0, count: node.below().entries, node: Arc::clone(node) }),
        };
        let (mut first, mut bytes) = (0, 0);
        let mut above: Vec<(Arc<Node>, usize)> = Vec::with_capacity(4);
        loop {
            let child = above.last().map_or(root, |(node, index)| &node.children()[*index]);
            let (count, node) = (child.entries, self.node(child, &above, keep));
            let node = node.map_err(|error| Lost { numbers: first..first + count, error })?;
            let Node::Inner(inner) = &*node else { return Ok(Spot { first, bytes, count, node }) };
            let index = inner.choose(seek, first);
            first += inner.first[index];
            bytes += inner.bytes[index];
            above.push((node, index));
        }
    }

    /// Returns the pages on the way to entry `number` that begin with it, the largest first. The leaf itself is not read.
    pub(super) fn pages_from(&self, number: u64, archive_id: [u8; 16]) -> Result<Vec<IndexPage>> {
        let Root::Page(root) = &self.root else { return Ok(Vec::new()) };
        let mut pages = Vec::new();
        let mut first = 0;
        let mut above: Vec<(Arc<Node>, usize)> = Vec::with_capacity(4);
        loop {
            let child = above.last().map_or(root, |(node, index)| &node.children()[*index]);
            if first == number {
                let numbers = first..first + child.entries;
                pages.push(IndexPage { archive_id, offset: child.page.offset, check: child.page.check, numbers });
            }
            if above.last().is_some_and(|(node, _)| node.level() == 1) {
                return Ok(pages);
            }
            let node = self.node(child, &above, true)?;
            let Node::Inner(inner) = &*node else { return Ok(pages) };
            let index = inner.choose(Seek::Number(number), first);
            first += inner.first[index];
            above.push((node, index));
        }
    }

    /// Returns where each leaf lies and which entries it has, in path order; none for entries that no pages lead to. The leaves are not read.
    pub(crate) fn leaf_pages(&self) -> Result<Vec<(FrameRef, Range<u64>)>> {
        let Root::Page(root) = &self.root else { return Ok(Vec::new()) };
        let mut leaves: Vec<(FrameRef, Range<u64>)> = Vec::new();
        let mut number = 0;
        while number < self.info.entries {
            let mut first = 0;
            let mut above: Vec<(Arc<Node>, usize)> = Vec::with_capacity(4);
            loop {
                let child = above.last().map_or(root, |(node, index)| &node.children()[*index]);
                if above.last().is_none_or(|(node, _)| node.level() > 1) {
                    let node = self.node(child, &above, true)?;
                    if let Node::Inner(inner) = &*node {
                        let index = inner.choose(Seek::Number(number), first);
                        first += inner.first[index];
                        above.push((node, index));
                        continue;
                    }
                }
                let end = first + child.entries;
                leaves.push((child.page, first..end));
                number = end.max(number + 1);
                break;
            }
        }
        Ok(leaves)
    }

    /// Returns the page of `child`, or what stands in for it.
    fn node(&self, child: &Child, above: &[(Arc<Node>, usize)], keep: bool) -> Result<Arc<Node>> {
        let level = above.last().map(|(node, _)| node.level() - 1);
        // The next key on the way up ends what belongs to this page.
        let upper = above.iter().rev().find_map(|(node, index)| Some(&*node.children().get(index + 1)?.key));
        let page = self.page(child, level, keep || level != Some(0)).and_then(|node| {
            // Not part of loading: a page may be reached on two ways, and then belongs to one of them at most.
            let misplaced = |detail| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
            child.check_place(node.ends(), node.level(), upper).map_err(misplaced)?;
            Ok(node)
        });
        match page {
            Err(error) if is_damage(&error) => {
                let Some(scan) = self.rescue()? else { return Err(error) };
                Ok(scan.stand_in(child, upper))
            }
            other => other,
        }
    }

    /// Reads the page of `child`, which is of `level` if that is known.
    fn page(&self, child: &Child, level: Option<u8>, keep: bool) -> Result<Arc<Node>> {
        let corrupt = |detail| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
        let load = || {
            let frame = frames::follow(&self.window, FrameKind::EntryPage, child.page)?;
            Node::parse(&frame.payload).map_err(corrupt)
        };
        let key = Key::frame(child.page);
        let node = match self.caches.get(&key) {
            Some(node) => node,
            None if keep => self.caches.get_or_load(key, load)?,
            None => Arc::new(load()?),
        };
        // Not part of loading: a page may be reached on two ways, and wrong numbers on one of them could lead in circles.
        child.check(node.below(), level).map_err(corrupt)?;
        Ok(node)
    }

    /// Returns the leaf where `path` is or would be, and the index there.
    pub(super) fn position(&self, path: &[u8]) -> Result<(Spot, usize)> {
        let spot = self.leaf(Seek::Path(path), true).map_err(|lost| lost.error)?;
        let index = spot.leaf().lower_bound(path);
        Ok((spot, index))
    }

    /// Returns the number of the first entry that is not in front of `path`.
    pub(super) fn lower_bound(&self, path: &[u8]) -> Result<u64> {
        if self.info.entries == 0 {
            return Ok(0);
        }
        let (spot, index) = self.position(path)?;
        Ok(if index == spot.leaf().entries().len() { spot.end() } else { spot.number(index) })
    }

    /// Returns the content bytes of all entries in front of `number`.
    pub(super) fn bytes_before(&self, number: u64) -> Result<u64> {
        if number == 0 {
            return Ok(0);
        }
        if number >= self.info.entries {
            return Ok(self.info.content_bytes);
        }
        let spot = self.leaf(Seek::Number(number), true).map_err(|lost| lost.error)?;
        let within = &spot.leaf().entries()[..spot.index(number)];
        Ok(within.iter().fold(spot.bytes, |sum, entry| sum.saturating_add(entry.size)))
    }
}

/// Returns a search key behind `directory` and all that lies below it: no byte but `/` comes before NUL in path order, and paths have none.
pub(super) fn behind(directory: &[u8]) -> Vec<u8> {
    [directory, &[0]].concat()
}
