//! The entry tree: from entry numbers and paths to leaf pages.
//!
//! Spec: nra.md, section 9.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::content::FrameRef;
use crate::entry_page::{Child, EntryPage, InnerPage, PageTotals, content_bytes, ends_of_inner, ends_of_leaf};
use crate::frame::FrameKind;
use crate::reader::cache_key::CacheKey;
use crate::reader::damage::is_damage;
use crate::reader::memory::weight_of_entries;
use crate::reader::{NraReader, Root, frames};
use nra_core::archive::IndexPage;
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};
use nra_core::path::compare;

/// A decoded page of the entry tree.
pub(super) enum TreePage {
    Leaf(Leaf),
    Inner(Inner),
}

/// Entries in path order: those of a leaf page, or a replacement for a damaged page.
#[derive(Clone)]
pub(super) struct Leaf {
    entries: Arc<Vec<Entry>>,
    range: Range<usize>,
    /// Sum of the sizes, bytes.
    content_bytes: u64,
    /// Entries that the tree counts here but that were not found; 0 for an undamaged page.
    pub(super) missing: u64,
    /// Offset of the damaged page that this replaces; 0 for an undamaged page.
    replaced: u64,
}

/// An inner page with prefix sums.
pub(super) struct Inner {
    level: u8,
    children: Vec<Child>,
    /// For each child and for the end: number of entries before it.
    first: Vec<u64>,
    /// For each child, and for the end: content bytes before it.
    bytes: Vec<u64>,
}

/// Target of a descent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Seek<'a> {
    /// The leaf page with this entry number.
    Number(u64),
    /// The leaf page where this path is or would be.
    Path(&'a [u8]),
}

/// A leaf page and its position among the entries.
pub(super) struct LeafPosition {
    pub(super) first: u64,
    /// Content bytes before it.
    pub(super) bytes: u64,
    /// Number of entry numbers that belong to it.
    pub(super) count: u64,
    pub(super) page: Arc<TreePage>,
}

/// A way from the root page down the tree.
struct Descent<'a> {
    root: &'a Child,
    /// The inner pages on the way, each with the index of the next child.
    above: Vec<(Arc<TreePage>, usize)>,
    /// Number of the first entry below that child.
    first: u64,
    /// Content bytes before it.
    bytes: u64,
}

impl<'a> Descent<'a> {
    fn from(root: &'a Child) -> Self {
        Self { root, above: Vec::with_capacity(4), first: 0, bytes: 0 }
    }

    /// Returns the reference to the page that the descent has reached.
    fn child(&self) -> &Child {
        self.above.last().map_or(self.root, |(page, index)| &page.children()[*index])
    }

    /// Returns the level of that page, unless it is the root page.
    fn level(&self) -> Option<u8> {
        self.above.last().map(|(page, _)| page.level() - 1)
    }

    /// Returns the next key on the way up, which limits the entries of that page.
    fn upper(&self) -> Option<&[u8]> {
        self.above.iter().rev().find_map(|(page, index)| Some(&*page.children().get(index + 1)?.key))
    }

    /// Continues below that page if it is an inner page. Returns a leaf page.
    fn enter(&mut self, page: Arc<TreePage>, seek: Seek<'_>) -> Option<Arc<TreePage>> {
        let TreePage::Inner(inner) = &*page else { return Some(page) };
        let index = inner.choose(seek, self.first);
        self.first += inner.first[index];
        self.bytes += inner.bytes[index];
        self.above.push((page, index));
        None
    }
}

/// Entry numbers that cannot be reached, and the reason.
pub(super) struct UnreachableEntries {
    pub(super) numbers: Range<u64>,
    pub(super) error: Error,
}

impl Leaf {
    /// Creates a leaf from all entries of a list.
    pub(super) fn shared(entries: Arc<Vec<Entry>>) -> Self {
        Self { range: 0..entries.len(), content_bytes: content_bytes(&entries), entries, missing: 0, replaced: 0 }
    }

    /// Creates a leaf from a part of a shared list, as a replacement for the damaged page of
    /// `child`.
    pub(super) fn replacement(entries: Arc<Vec<Entry>>, range: Range<usize>, child: &Child) -> Self {
        let missing = child.entries.saturating_sub(range.len() as u64);
        Self { content_bytes: content_bytes(&entries[range.clone()]), entries, range, missing, replaced: child.page.offset }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[self.range.clone()]
    }

    /// Returns the index of the first entry that is not less than `path`.
    pub(super) fn lower_bound(&self, path: &[u8]) -> usize {
        self.entries().partition_point(|entry| compare(entry.path.as_bytes(), path) == Ordering::Less)
    }

    /// Returns the entries without copying if nobody else holds them.
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

    /// Returns the index of the child to descend to. `before` is the number of entries before this
    /// page.
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

impl TreePage {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, String> {
        Ok(match EntryPage::parse(payload)? {
            EntryPage::Leaf(entries) => Self::Leaf(Leaf::shared(Arc::new(entries))),
            EntryPage::Inner(page) => Self::Inner(Inner::new(page)?),
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

    /// Returns the leaf at the end of a descent.
    pub(super) fn leaf(&self) -> &Leaf {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Inner(_) => unreachable!("descents end at leaf pages"),
        }
    }

    fn children(&self) -> &[Child] {
        match self {
            Self::Leaf(_) => &[],
            Self::Inner(inner) => &inner.children,
        }
    }

    fn below(&self) -> PageTotals {
        let (entries, content_bytes) = match self {
            Self::Leaf(leaf) => (leaf.range.len() as u64, leaf.content_bytes),
            Self::Inner(Inner { first, bytes, .. }) => {
                (first.last().copied().unwrap_or_default(), bytes.last().copied().unwrap_or_default())
            }
        };
        PageTotals { level: self.level(), entries, content_bytes }
    }

    /// Returns the first and last path, or key if this is an inner page.
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

impl LeafPosition {
    pub(super) fn leaf(&self) -> &Leaf {
        self.page.leaf()
    }

    /// Returns the first entry number after this leaf page.
    pub(super) fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Returns the index of an entry number. A replacement may hold more or fewer entries than
    /// there are numbers.
    pub(super) fn index(&self, number: u64) -> usize {
        let index = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        index.min(self.leaf().entries().len())
    }

    /// Returns the index of the end of a range of numbers.
    pub(super) fn end_index(&self, number: u64) -> usize {
        if number >= self.end() { self.leaf().entries().len() } else { self.index(number) }
    }

    pub(super) fn number(&self, index: usize) -> u64 {
        self.first + (index as u64).min(self.count)
    }

    /// Returns the error about entries missing from this leaf page.
    pub(super) fn shortage(&self) -> Option<Error> {
        let leaf = self.leaf();
        let missing = leaf.missing;
        let detail = || format!("{missing} of the {} entries below it are recorded in no readable block index", self.count);
        (missing > 0).then(|| FrameKind::EntryPage.corrupt(leaf.replaced, detail()))
    }
}

impl NraReader {
    /// Returns the leaf page that `seek` leads to. The archive must have entries. The page is
    /// cached if `keep` is set.
    ///
    /// If a page is damaged and recovery is allowed, a replacement made from block indexes is
    /// returned.
    pub(super) fn leaf(&self, seek: Seek<'_>, keep: bool) -> Result<LeafPosition, UnreachableEntries> {
        let root = match &self.root {
            Root::EntryPage(root) => root,
            Root::Whole(page) => {
                return Ok(LeafPosition { first: 0, bytes: 0, count: page.below().entries, page: Arc::clone(page) });
            }
        };
        let mut descent = Descent::from(root);
        loop {
            let (first, count) = (descent.first, descent.child().entries);
            let page = self.page_or_replacement(&descent, keep);
            let page = page.map_err(|error| UnreachableEntries { numbers: first..first + count, error })?;
            if let Some(page) = descent.enter(page, seek) {
                return Ok(LeafPosition { first, bytes: descent.bytes, count, page });
            }
        }
    }

    /// Returns the pages on the way to entry `number` that start with it, largest first. The leaf
    /// page itself is not read.
    pub(super) fn pages_from(&self, number: u64, archive_id: [u8; 16]) -> Result<Vec<IndexPage>> {
        let Root::EntryPage(root) = &self.root else { return Ok(Vec::new()) };
        let mut pages = Vec::new();
        let mut descent = Descent::from(root);
        loop {
            if descent.first == number {
                let Child { page: FrameRef { offset, header_checksum, .. }, entries, .. } = *descent.child();
                pages.push(IndexPage { archive_id, offset, header_checksum, numbers: number..number + entries });
            }
            if descent.level() == Some(0) {
                return Ok(pages);
            }
            let page = self.page_or_replacement(&descent, true)?;
            if descent.enter(page, Seek::Number(number)).is_some() {
                return Ok(pages);
            }
        }
    }

    /// Returns the location and entry numbers of each leaf page in path order, or nothing if the
    /// entries are not in pages. Leaf pages are not read.
    pub(crate) fn leaf_pages(&self) -> Result<Vec<(FrameRef, Range<u64>)>> {
        let Root::EntryPage(root) = &self.root else { return Ok(Vec::new()) };
        let mut leaves: Vec<(FrameRef, Range<u64>)> = Vec::new();
        let mut number = 0;
        while number < self.info.entries {
            let mut descent = Descent::from(root);
            while descent.level() != Some(0) {
                let page = self.page_or_replacement(&descent, true)?;
                if descent.enter(page, Seek::Number(number)).is_some() {
                    break;
                }
            }
            let end = descent.first + descent.child().entries;
            leaves.push((descent.child().page, descent.first..end));
            number = end.max(number + 1);
        }
        Ok(leaves)
    }

    fn page_or_replacement(&self, descent: &Descent<'_>, keep: bool) -> Result<Arc<TreePage>> {
        let (child, level, upper) = (descent.child(), descent.level(), descent.upper());
        let page = self.page(child, level, keep || level != Some(0)).and_then(|page| {
            // Checked outside of loading: a page may be reached in two ways, but can belong to one
            // of them only.
            let misplaced = |detail| FrameKind::EntryPage.corrupt(child.page.offset, detail);
            child.check_position(page.ends(), page.level(), upper).map(|()| page).map_err(misplaced)
        });
        match page {
            Err(error) if is_damage(&error) => match self.block_index_scan()? {
                Some(scan) => Ok(scan.replacement(child, upper)),
                None => Err(error),
            },
            other => other,
        }
    }

    /// Reads the page of `child`. Checks its `level` if that is known.
    fn page(&self, child: &Child, level: Option<u8>, keep: bool) -> Result<Arc<TreePage>> {
        let corrupt = |detail| FrameKind::EntryPage.corrupt(child.page.offset, detail);
        let load = || frames::parse(&self.window, FrameKind::EntryPage, child.page, TreePage::parse);
        let key = CacheKey::Page(FrameKind::EntryPage, child.page);
        let page = match self.caches.get(&key) {
            Some(page) => page,
            None if keep => self.caches.get_or_load(key, load)?,
            None => Arc::new(load()?),
        };
        // Checked outside of loading: a page may be reached in two ways, and a wrong level could
        // cause an endless descent.
        child.check(page.below(), level).map(|()| page).map_err(corrupt)
    }

    pub(super) fn leaf_at(&self, number: u64) -> Result<LeafPosition> {
        self.leaf(Seek::Number(number), true).map_err(|lost| lost.error)
    }

    /// Returns the leaf page where `path` is or would be, and the index in it.
    pub(super) fn position(&self, path: &[u8]) -> Result<(LeafPosition, usize)> {
        let position = self.leaf(Seek::Path(path), true).map_err(|lost| lost.error)?;
        let index = position.leaf().lower_bound(path);
        Ok((position, index))
    }

    /// Returns the number of the first entry that is not less than `path`.
    pub(super) fn lower_bound(&self, path: &[u8]) -> Result<u64> {
        if self.info.entries == 0 {
            return Ok(0);
        }
        let (position, index) = self.position(path)?;
        Ok(if index == position.leaf().entries().len() { position.end() } else { position.number(index) })
    }

    /// Returns the content bytes of all entries before `number`.
    pub(super) fn bytes_before(&self, number: u64) -> Result<u64> {
        if number == 0 {
            return Ok(0);
        }
        if number >= self.info.entries {
            return Ok(self.info.content_bytes);
        }
        let position = self.leaf_at(number)?;
        let within = &position.leaf().entries()[..position.index(number)];
        Ok(within.iter().fold(position.bytes, |sum, entry| sum.saturating_add(entry.size)))
    }
}

/// Returns a search key after `directory` and everything below it. In path order only `/` precedes
/// NUL, and paths contain no NUL.
pub(super) fn after_subtree(directory: &[u8]) -> Vec<u8> {
    [directory, &[0]].concat()
}
