//! Merging changes into the entry tree of the base, whose pages stay unchanged.
//!
//! Only leaf pages with changes and the pages above them are read and written. The keys of other
//! pages stay valid: new paths go where the old keys lead. Small leaf pages are merged with their
//! neighbors, and long ones are split evenly.
//!
//! Spec: nra.md, sections 9 and 17.

use std::io::Write;

use crate::content::FrameRef;
use crate::entry_page::{Child, EntryPage, InnerPage, encode_leaf, separator};
use crate::frame::FrameKind;
use crate::reader::NraReader;
use crate::records::{Holder, RecordList};
use crate::writer::append::Base;
use crate::writer::block_writer::BlockWriter;
use crate::writer::index::Index;
use crate::writer::{EntryId, WriterStats};
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::path::{EntryPath, compare};
use nra_core::progress::Monitor;

/// Entries of adjacent leaf pages that are collected before they are written.
const MAX_PENDING: usize = 1 << 16;

/// Merges `additions` (new entries in path order) and the removals of `base` into its tree. Returns
/// the new root page, and updates `stats`, which holds the totals of the base.
pub(super) fn merge<W: Write>(
    base: &Base,
    index: &Index,
    additions: &[EntryId],
    block_writer: &mut BlockWriter<W>,
    stats: &mut WriterStats,
    monitor: &dyn Monitor,
) -> Result<Option<FrameRef>> {
    let removals: Vec<EntryPath> = base.changes.removals.iter().cloned().collect();
    let (reader, removals) = (&*base.reader, &removals[..]);
    let mut merge = Merge { reader, index, additions, removals, removed_below: None, stats, block_writer, monitor };
    let (mut node, level) = match base.newest.commit.root() {
        Some(root) => merge.open(&root, None, None)?,
        None => {
            let mut pending = Pending::default();
            merge.apply_until(None, &mut pending);
            (MergedPage::Pages(merge.write_leaves(&mut pending)?), 0)
        }
    };
    merge.clear_first_key(&mut node, level)?;
    for at in 1..level {
        merge.write_level(&mut node, at)?;
    }
    let children = node.into_children();
    merge.stats.entries = children.iter().map(|child| child.entries).sum();
    merge.stats.content_bytes = children.iter().map(|child| child.content_bytes).sum();
    merge.block_writer.pages()?.write_levels(children, level.saturating_sub(1))
}

/// A part of the new tree.
enum MergedPage {
    /// An unchanged page.
    Kept(Child),
    /// Pages that replace a page, of the same level; may be empty.
    Pages(Vec<Child>),
    /// An inner page with changes below it.
    Open { level: u8, children: Vec<MergedPage> },
}

impl MergedPage {
    /// Returns whether no pages are left.
    fn is_empty(&self) -> bool {
        match self {
            Self::Kept(_) => false,
            Self::Pages(children) => children.is_empty(),
            Self::Open { children, .. } => children.iter().all(Self::is_empty),
        }
    }

    /// Returns the children of the page. All of them are written.
    fn into_children(self) -> Vec<Child> {
        match self {
            Self::Kept(child) => vec![child],
            Self::Pages(children) => children,
            Self::Open { children, .. } => children.into_iter().flat_map(Self::into_children).collect(),
        }
    }
}

/// Entries of adjacent leaf pages that will be written to new ones.
#[derive(Default)]
struct Pending {
    /// Key of the first of these leaf pages.
    key: Box<[u8]>,
    entries: Vec<PendingEntry>,
}

enum PendingEntry {
    Old(Box<Entry>),
    New(EntryId),
}

fn entry_of<'a>(item: &'a PendingEntry, index: &'a Index) -> &'a Entry {
    match item {
        PendingEntry::Old(entry) => entry,
        PendingEntry::New(id) => &index.entry(*id).entry,
    }
}

struct Merge<'a, W: Write> {
    reader: &'a NraReader,
    index: &'a Index,
    /// Additions that are not merged yet.
    additions: &'a [EntryId],
    removals: &'a [EntryPath],
    /// Entries of the base below this path are removed.
    removed_below: Option<EntryPath>,
    stats: &'a mut WriterStats,
    block_writer: &'a mut BlockWriter<W>,
    monitor: &'a dyn Monitor,
}

impl<W: Write> Merge<'_, W> {
    /// Merges the changes below a page. Returns the result and its level.
    fn open(&mut self, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<(MergedPage, u8)> {
        self.monitor.check()?;
        match self.reader.entry_page(child, level, upper)? {
            EntryPage::Leaf(entries) => {
                let mut pending = Pending { key: child.key.clone(), entries: Vec::new() };
                self.merge_leaf(entries, upper, &mut pending);
                Ok((MergedPage::Pages(self.write_leaves(&mut pending)?), 0))
            }
            EntryPage::Inner(page) => {
                let level = page.level;
                Ok((MergedPage::Open { level, children: self.merge_inner(&page, upper)? }, level))
            }
        }
    }

    fn merge_inner(&mut self, page: &InnerPage, upper: Option<&[u8]>) -> Result<Vec<MergedPage>> {
        let mut nodes = Vec::with_capacity(page.children.len() + 1);
        let mut pending = Pending::default();
        for (i, child) in page.children.iter().enumerate() {
            let upper = page.children.get(i + 1).map(|next| &*next.key).or(upper);
            let touched = self.is_touched(&child.key, upper);
            if page.level > 1 {
                nodes.push(if touched {
                    self.open(child, Some(page.level - 1), upper)?.0
                } else {
                    MergedPage::Kept(child.clone())
                });
                continue;
            }
            if touched || (1..self.block_writer.sizes.few).contains(&pending.entries.len()) {
                self.monitor.check()?;
                let EntryPage::Leaf(entries) = self.reader.entry_page(child, Some(0), upper)? else {
                    unreachable!("its level is 0")
                };
                if pending.entries.is_empty() {
                    pending.key = child.key.clone();
                }
                self.merge_leaf(entries, upper, &mut pending);
                if pending.entries.len() >= MAX_PENDING {
                    nodes.push(MergedPage::Pages(self.write_leaves(&mut pending)?));
                }
            } else {
                nodes.push(MergedPage::Pages(self.write_leaves(&mut pending)?));
                nodes.push(MergedPage::Kept(child.clone()));
            }
        }
        nodes.push(MergedPage::Pages(self.write_leaves(&mut pending)?));
        Ok(nodes)
    }

    /// Returns whether there are changes among the paths from `key` up to `upper`.
    fn is_touched(&self, key: &[u8], upper: Option<&[u8]>) -> bool {
        let is_before = |path: &EntryPath| upper.is_none_or(|upper| compare(path.as_bytes(), upper).is_lt());
        // The key follows `removed_below`, so it is in that range if and only if it starts with
        // that path.
        let below = |removed_below: &EntryPath| {
            let rest = key.strip_prefix(removed_below.as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        self.additions.first().is_some_and(|&id| is_before(&self.index.entry(id).entry.path))
            || self.removals.first().is_some_and(is_before)
            || self.removed_below.as_ref().is_some_and(below)
    }

    /// Merges the changes before `upper` with the entries of a leaf page.
    fn merge_leaf(&mut self, entries: Vec<Entry>, upper: Option<&[u8]>, pending: &mut Pending) {
        for entry in entries {
            self.apply_until(Some(entry.path.as_bytes()), pending);
            let removal = self.removals.first().is_some_and(|removal| *removal == entry.path);
            if removal {
                self.removals = &self.removals[1..];
                self.set_removed_below(&entry.path);
            }
            let is_removed =
                removal || self.removed_below.as_ref().is_some_and(|removed_below| entry.path.is_below(removed_below));
            let addition = self.additions.first().copied().filter(|&id| self.index.entry(id).entry.path == entry.path);
            if addition.is_some() || is_removed {
                self.stats.files = self.stats.files.saturating_sub(u64::from(entry.kind == Kind::File));
            }
            match addition {
                Some(id) => {
                    self.apply_put(id, pending);
                    self.stats.replaced += 1;
                }
                None if is_removed => self.stats.removed += 1,
                None => pending.entries.push(PendingEntry::Old(Box::new(entry))),
            }
        }
        self.apply_until(upper, pending);
    }

    /// Applies the changes before `path`, or all changes if there is no path.
    fn apply_until(&mut self, path: Option<&[u8]>, pending: &mut Pending) {
        let is_before = |at: &EntryPath| path.is_none_or(|path| compare(at.as_bytes(), path).is_lt());
        loop {
            let index = self.index;
            let addition = self.additions.first().copied().filter(|&id| is_before(&index.entry(id).entry.path));
            let removal = self.removals.first().filter(|removal| is_before(removal));
            match (addition, removal) {
                (addition, Some(removal)) if addition.is_none_or(|id| *removal <= index.entry(id).entry.path) => {
                    self.removals = &self.removals[1..];
                    self.set_removed_below(removal);
                }
                (Some(id), _) => {
                    self.apply_put(id, pending);
                    self.stats.added += 1;
                }
                (None, _) => return,
            }
        }
    }

    fn apply_put(&mut self, id: EntryId, pending: &mut Pending) {
        let entry = &self.index.entry(id).entry;
        self.additions = &self.additions[1..];
        self.stats.files += u64::from(entry.kind == Kind::File);
        if entry.kind != Kind::Directory {
            self.set_removed_below(&entry.path);
        }
        pending.entries.push(PendingEntry::New(id));
    }

    /// Records that entries of the base below `path` are removed.
    fn set_removed_below(&mut self, path: &EntryPath) {
        if !self.removed_below.as_ref().is_some_and(|removed_below| path.is_below(removed_below) || path == removed_below) {
            self.removed_below = Some(path.clone());
        }
    }

    /// Writes leaf pages with the collected entries.
    fn write_leaves(&mut self, pending: &mut Pending) -> Result<Vec<Child>> {
        let entries = std::mem::take(&mut pending.entries);
        let mut key = std::mem::take(&mut pending.key);
        let (index, leaf_bytes) = (self.index, self.block_writer.sizes.leaf);
        let entry = |item| entry_of(item, index);
        let mut leaves = Vec::new();
        let mut rest = &entries[..];
        let mut limit = usize::MAX;
        while !rest.is_empty() {
            let (mut list, mut taken) = (RecordList::new(Holder::Leaf), 0);
            while taken < rest.len().min(limit) && !list.is_full() && (taken == 0 || list.raw_len() < 2 * leaf_bytes) {
                list.push(entry(&rest[taken]));
                taken += 1;
            }
            if limit == usize::MAX && taken < rest.len() {
                // Several leaf pages: all of about the usual length.
                let leaves = (rest.len() * list.raw_len() / taken).div_ceil(leaf_bytes).max(2);
                limit = rest.len().div_ceil(leaves);
                continue;
            }
            let (now, later) = rest.split_at(taken);
            let content_bytes = now.iter().map(|item| entry(item).size).sum();
            let page = self.block_writer.pages()?.write(FrameKind::EntryPage, &encode_leaf(list))?;
            let own = std::mem::take(&mut key);
            if let Some(first) = later.first() {
                key = separator(entry(&now[taken - 1]).path.as_bytes(), entry(first).path.as_bytes()).into();
            }
            leaves.push(Child { key: own, page, entries: taken as u64, content_bytes });
            rest = later;
        }
        Ok(leaves)
    }

    /// Sets the empty key on the first page of each level.
    fn clear_first_key(&mut self, node: &mut MergedPage, level: u8) -> Result<()> {
        match node {
            MergedPage::Pages(children) => {
                if let Some(first) = children.first_mut() {
                    first.key = Box::default();
                }
            }
            MergedPage::Kept(child) if level == 0 || child.key.is_empty() => child.key = Box::default(),
            MergedPage::Kept(child) => {
                // Its own first key must be empty, too. It is read without an upper key, which was
                // checked before.
                let EntryPage::Inner(page) = self.reader.entry_page(child, Some(level), None)? else {
                    unreachable!("its level is not 0")
                };
                let children = page.children.into_iter().map(MergedPage::Kept).collect();
                *node = MergedPage::Open { level, children };
                self.clear_first_key(node, level)?;
            }
            MergedPage::Open { children, .. } => {
                children.retain(|child| !child.is_empty());
                if let Some(first) = children.first_mut() {
                    self.clear_first_key(first, level - 1)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the inner pages of a level below `node`.
    fn write_level(&mut self, node: &mut MergedPage, at: u8) -> Result<()> {
        let MergedPage::Open { level, children } = node else { return Ok(()) };
        if *level > at {
            return children.iter_mut().try_for_each(|child| self.write_level(child, at));
        }
        let children = std::mem::replace(node, MergedPage::Pages(Vec::new())).into_children();
        *node = MergedPage::Pages(self.block_writer.pages()?.write_inner(children, at)?);
        Ok(())
    }
}
