//! The entry tree: from numbers and paths to leaves.
//!
//! Spec: nra.md, section 9.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::format::archive::IndexPage;
use crate::format::entry::Entry;
use crate::format::error::{Error, Result};
use crate::format::nra::frame::FrameKind;
use crate::format::nra::page::{Child, InnerPage, Page};
use crate::format::nra::reader::cache::{Key, weight_of_entries};
use crate::format::nra::reader::{NraReader, Root, frames};
use crate::format::path::compare;

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
        Self { range: 0..entries.len(), entries: Arc::new(entries), missing: 0, place: 0 }
    }

    /// All of entries that are kept elsewhere.
    pub(super) fn shared(entries: Arc<Vec<Entry>>) -> Self {
        Self { range: 0..entries.len(), entries, missing: 0, place: 0 }
    }

    /// A part of entries that are kept elsewhere, in the place of the damaged page of `child`.
    pub(super) fn stand_in(entries: Arc<Vec<Entry>>, range: Range<usize>, child: &Child) -> Self {
        let missing = child.entries.saturating_sub(range.len() as u64);
        Self { entries, range, missing, place: child.page.offset }
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
        let Self { entries, range, missing, place } = self;
        Arc::try_unwrap(entries).map_err(|entries| Self { entries, range, missing, place })
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

    /// Checks that `page` is what the way to it promises: the level if that is known, counts, and the keys around it.
    pub(super) fn check(page: &Page, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<(), String> {
        let (found, entries, bytes, first, last) = match page {
            Page::Leaf(entries) => {
                let bytes = entries.iter().fold(0, |sum, entry| entry.size.saturating_add(sum));
                (0, entries.len() as u64, bytes, entries.first().map(path), entries.last().map(path))
            }
            Page::Inner(page) => {
                let children = &page.children;
                (
                    page.level,
                    // Parsing has added them up.
                    children.iter().map(|child| child.entries).sum(),
                    children.iter().map(|child| child.content_bytes).sum(),
                    children.first().map(|child| &*child.key),
                    children.last().map(|child| &*child.key),
                )
            }
        };
        if level.is_some_and(|level| level != found) {
            return Err(format!("its level is {found}, expected {}", level.unwrap_or_default()));
        }
        if (entries, bytes) != (child.entries, child.content_bytes) {
            let (told, told_bytes) = (child.entries, child.content_bytes);
            return Err(format!("{entries} entries and {bytes} content bytes below it, {told} and {told_bytes} expected"));
        }
        let first = first.ok_or("it is empty")?;
        let last = last.ok_or("it is empty")?;
        check_place(first, last, found > 0, &child.key, upper).map_err(str::to_owned)
    }

    /// Checks that the page belongs between the key that led to it and that of what follows, `None` at the end of the tree.
    fn check_place(&self, key: &[u8], upper: Option<&[u8]>) -> Result<(), &'static str> {
        let (first, last) = match self {
            Self::Leaf(leaf) => {
                let Some((first, last)) = leaf.entries().first().zip(leaf.entries().last()) else { return Ok(()) };
                (first.path.as_bytes(), last.path.as_bytes())
            }
            Self::Inner(inner) => {
                let Some((first, last)) = inner.children.first().zip(inner.children.last()) else { return Ok(()) };
                (&*first.key, &*last.key)
            }
        };
        check_place(first, last, self.level() > 0, key, upper)
    }

    fn children(&self) -> &[Child] {
        match self {
            Self::Leaf(_) => &[],
            Self::Inner(inner) => &inner.children,
        }
    }

    /// Sum of the sizes of the files below this page.
    fn content_bytes(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.entries().iter().fold(0, |sum, entry| entry.size.saturating_add(sum)),
            Self::Inner(inner) => inner.bytes.last().copied().unwrap_or_default(),
        }
    }

    fn level(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Inner(inner) => inner.level,
        }
    }

    /// Entries below this page.
    fn count(&self) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.entries().len() as u64,
            Self::Inner(inner) => inner.first.last().copied().unwrap_or_default(),
        }
    }
}

fn path(entry: &Entry) -> &[u8] {
    entry.path.as_bytes()
}

/// Checks that a page with these first and last paths (or keys, if it is an inner one) belongs between two keys.
///
/// So no two ways lead to one leaf, and a small file can't list the same entries without end.
fn check_place(first: &[u8], last: &[u8], is_inner: bool, key: &[u8], upper: Option<&[u8]>) -> Result<(), &'static str> {
    if is_inner && first != key {
        return Err("its first key is not the one that led to it");
    }
    if compare(first, key) == Ordering::Less {
        return Err("it begins in front of the key that led to it");
    }
    match upper {
        Some(upper) if compare(last, upper) != Ordering::Less => Err("it does not end in front of the next key"),
        _ => Ok(()),
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
            Root::Whole(node) => return Ok(Spot { first: 0, bytes: 0, count: node.count(), node: Arc::clone(node) }),
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

    /// Returns the page of `child`, or what stands in for it.
    fn node(&self, child: &Child, above: &[(Arc<Node>, usize)], keep: bool) -> Result<Arc<Node>> {
        let level = above.last().map(|(node, _)| node.level() - 1);
        // The next key on the way up ends what belongs to this page.
        let upper = above.iter().rev().find_map(|(node, index)| Some(&*node.children().get(index + 1)?.key));
        let page = self.page(child, level, keep || level != Some(0)).and_then(|node| {
            // Not part of loading: a page may be reached on two ways, and then belongs to one of them at most.
            let misplaced = |detail| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
            node.check_place(&child.key, upper).map_err(|detail| misplaced(detail.to_owned()))?;
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
        let load = || {
            let frame = frames::follow(&self.window, FrameKind::EntryPage, child.page)?;
            let corrupt = |detail| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
            let node = Node::parse(&frame.payload).map_err(corrupt)?;
            if node.content_bytes() != child.content_bytes {
                let detail = format!("{} content bytes below it, {} expected", node.content_bytes(), child.content_bytes);
                return Err(corrupt(detail));
            }
            Ok(node)
        };
        let key = Key::frame(child.page);
        let node = match self.caches.get(&key) {
            Some(node) => node,
            None if keep => self.caches.get_or_load(key, load)?,
            None => Arc::new(load()?),
        };
        // Not part of loading: a page may be reached on two ways, and wrong numbers on one of them could lead in circles.
        let detail = match level {
            Some(level) if level != node.level() => format!("its level is {}, expected {level}", node.level()),
            _ if node.count() != child.entries => format!("{} entries below it, {} expected", node.count(), child.entries),
            _ => return Ok(node),
        };
        Err(Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail))
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

/// Says whether the bytes of the file are at fault, so that another way may lead to the entries.
pub(in crate::format::nra) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Limit { .. })
}

/// Returns a search key behind `directory` and all that lies below it: no byte but `/` comes before NUL in path order, and paths have none.
pub(super) fn behind(directory: &[u8]) -> Vec<u8> {
    [directory, &[0]].concat()
}
