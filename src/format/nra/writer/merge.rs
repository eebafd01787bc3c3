//! The entry tree of the next commit: changes merged into the tree of the one before, which stays where it is.
//!
//! Only leaves with changes and the pages above them are read and written. Keys of pages that stay separate as before: new paths go
//! where the old keys lead. Leaves that got small join their neighbours, long ones are split evenly.
//!
//! Spec: nra.md, sections 9 and 17.

use std::io::Write;

use crate::content::FrameRef;
use crate::frame::FrameKind;
use crate::page::{Child, InnerPage, Page, encode_leaf, separator};
use crate::reader::NraReader;
use crate::records::{Holder, RecordList};
use crate::writer::EntryId;
use crate::writer::index::Index;
use crate::writer::placing::Placing;
use crate::writer::trees::{write_inner, write_levels, write_page};
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::path::{EntryPath, compare};
use nra_core::progress::Monitor;

/// Entries of leaves side by side that wait to be written together.
const MAX_PENDING: usize = 1 << 16;

/// What an append comes to.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Delta {
    /// Entries that are new; those that took the place of another one; those that are gone.
    pub added: u64,
    pub replaced: u64,
    pub removed: u64,
    pub files_added: u64,
    pub files_removed: u64,
}

/// A tree that was merged.
pub(super) struct Merged {
    pub root: Option<FrameRef>,
    pub entries: u64,
    pub content_bytes: u64,
    pub delta: Delta,
}

/// Merges `puts` (new entries in path order) and `cuts` (paths removed with all below) into the tree under `root`.
pub(super) fn merge<W: Write>(
    reader: &NraReader,
    root: Option<Child>,
    index: &Index,
    puts: &[EntryId],
    cuts: &[EntryPath],
    placing: &mut Placing<W>,
    monitor: &dyn Monitor,
) -> Result<Merged> {
    let mut merge = Merge { reader, index, puts, cuts, gone: None, delta: Delta::default(), placing, monitor };
    let (mut node, level) = match &root {
        Some(root) => merge.open(root, None, None)?,
        None => {
            let mut pending = Pending::default();
            merge.take_until(None, &mut pending);
            (Node::Pages(merge.write_leaves(&mut pending)?), 0)
        }
    };
    merge.clear_first_key(&mut node, level)?;
    for at in 1..level {
        merge.write_level(&mut node, at)?;
    }
    let children = node.into_children();
    let entries = children.iter().map(|child| child.entries).sum();
    let content_bytes = children.iter().map(|child| child.content_bytes).sum();
    let below = level.saturating_sub(1);
    let sizes = merge.placing.sizes;
    let root = write_levels(&mut merge.placing.output, merge.placing.bench.pages()?, children, below, sizes)?;
    Ok(Merged { root, entries, content_bytes, delta: merge.delta })
}

/// A part of the tree in the making.
enum Node {
    /// A page that stays.
    Kept(Child),
    /// What a page became: pages of its level, or none.
    Pages(Vec<Child>),
    /// An inner page with changes below it.
    Open { level: u8, children: Vec<Node> },
}

impl Node {
    /// Says whether nothing is left.
    fn is_empty(&self) -> bool {
        match self {
            Self::Kept(_) => false,
            Self::Pages(children) => children.is_empty(),
            Self::Open { children, .. } => children.iter().all(Self::is_empty),
        }
    }

    /// Returns the children of the page, all of which are written.
    fn into_children(self) -> Vec<Child> {
        match self {
            Self::Kept(child) => vec![child],
            Self::Pages(children) => children,
            Self::Open { children, .. } => children.into_iter().flat_map(Self::into_children).collect(),
        }
    }
}

/// Entries of leaves side by side, on their way to new leaves.
#[derive(Default)]
struct Pending {
    /// Key that led to the first of these leaves.
    key: Box<[u8]>,
    entries: Vec<Item>,
}

enum Item {
    Old(Box<Entry>),
    New(EntryId),
}

fn entry_of<'a>(item: &'a Item, index: &'a Index) -> &'a Entry {
    match item {
        Item::Old(entry) => entry,
        Item::New(id) => &index.entry(*id).entry,
    }
}

struct Merge<'a, W: Write> {
    reader: &'a NraReader,
    index: &'a Index,
    /// Those that were not met yet.
    puts: &'a [EntryId],
    cuts: &'a [EntryPath],
    /// What lies below this path, of the entries that were there, is gone.
    gone: Option<EntryPath>,
    delta: Delta,
    placing: &'a mut Placing<W>,
    monitor: &'a dyn Monitor,
}

impl<W: Write> Merge<'_, W> {
    /// Merges the changes below a page; returns what became of it and its level.
    fn open(&mut self, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<(Node, u8)> {
        self.monitor.check()?;
        match self.reader.entry_page(child, level, upper)? {
            Page::Leaf(entries) => {
                let mut pending = Pending { key: child.key.clone(), entries: Vec::new() };
                self.merge_leaf(entries, upper, &mut pending);
                Ok((Node::Pages(self.write_leaves(&mut pending)?), 0))
            }
            Page::Inner(page) => {
                let level = page.level;
                Ok((Node::Open { level, children: self.merge_inner(&page, upper)? }, level))
            }
        }
    }

    fn merge_inner(&mut self, page: &InnerPage, upper: Option<&[u8]>) -> Result<Vec<Node>> {
        let mut nodes = Vec::with_capacity(page.children.len() + 1);
        let mut pending = Pending::default();
        for (i, child) in page.children.iter().enumerate() {
            let upper = page.children.get(i + 1).map(|next| &*next.key).or(upper);
            let touched = self.is_touched(&child.key, upper);
            if page.level > 1 {
                nodes.push(if touched { self.open(child, Some(page.level - 1), upper)?.0 } else { Node::Kept(child.clone()) });
                continue;
            }
            if touched || (1..self.placing.sizes.few).contains(&pending.entries.len()) {
                self.monitor.check()?;
                let Page::Leaf(entries) = self.reader.entry_page(child, Some(0), upper)? else { unreachable!("its level is 0") };
                if pending.entries.is_empty() {
                    pending.key = child.key.clone();
                }
                self.merge_leaf(entries, upper, &mut pending);
                if pending.entries.len() >= MAX_PENDING {
                    nodes.push(Node::Pages(self.write_leaves(&mut pending)?));
                }
            } else {
                nodes.push(Node::Pages(self.write_leaves(&mut pending)?));
                nodes.push(Node::Kept(child.clone()));
            }
        }
        nodes.push(Node::Pages(self.write_leaves(&mut pending)?));
        Ok(nodes)
    }

    /// Says whether something changes among the paths from `key` up to `upper`.
    fn is_touched(&self, key: &[u8], upper: Option<&[u8]>) -> bool {
        let is_before = |path: &EntryPath| upper.is_none_or(|upper| compare(path.as_bytes(), upper).is_lt());
        // The key lies behind `gone`, so it is in the range of what lies below that if and only if it begins with it.
        let below = |gone: &EntryPath| {
            let rest = key.strip_prefix(gone.as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        self.puts.first().is_some_and(|&id| is_before(&self.index.entry(id).entry.path))
            || self.cuts.first().is_some_and(is_before)
            || self.gone.as_ref().is_some_and(below)
    }

    /// Merges the changes in front of `upper` with the entries of a leaf.
    fn merge_leaf(&mut self, entries: Vec<Entry>, upper: Option<&[u8]>, pending: &mut Pending) {
        for entry in entries {
            self.take_until(Some(entry.path.as_bytes()), pending);
            let cut = self.cuts.first().is_some_and(|cut| *cut == entry.path);
            if cut {
                self.cuts = &self.cuts[1..];
                self.set_gone(&entry.path);
            }
            let is_gone = cut || self.gone.as_ref().is_some_and(|gone| entry.path.is_below(gone));
            let put = self.puts.first().copied().filter(|&id| self.index.entry(id).entry.path == entry.path);
            if put.is_some() || is_gone {
                self.delta.files_removed += u64::from(entry.kind == Kind::File);
            }
            match put {
                Some(id) => {
                    self.take_put(id, pending);
                    self.delta.replaced += 1;
                }
                None if is_gone => self.delta.removed += 1,
                None => pending.entries.push(Item::Old(Box::new(entry))),
            }
        }
        self.take_until(upper, pending);
    }

    /// Takes the changes in front of `path`, all if there is none.
    fn take_until(&mut self, path: Option<&[u8]>, pending: &mut Pending) {
        let is_before = |at: &EntryPath| path.is_none_or(|path| compare(at.as_bytes(), path).is_lt());
        loop {
            let index = self.index;
            let put = self.puts.first().copied().filter(|&id| is_before(&index.entry(id).entry.path));
            let cut = self.cuts.first().filter(|cut| is_before(cut));
            match (put, cut) {
                (put, Some(cut)) if put.is_none_or(|id| *cut <= index.entry(id).entry.path) => {
                    self.cuts = &self.cuts[1..];
                    self.set_gone(cut);
                }
                (Some(id), _) => {
                    self.take_put(id, pending);
                    self.delta.added += 1;
                }
                (None, _) => return,
            }
        }
    }

    fn take_put(&mut self, id: EntryId, pending: &mut Pending) {
        let entry = &self.index.entry(id).entry;
        self.puts = &self.puts[1..];
        self.delta.files_added += u64::from(entry.kind == Kind::File);
        if entry.kind != Kind::Directory {
            self.set_gone(&entry.path);
        }
        pending.entries.push(Item::New(id));
    }

    /// Notes that what the base has below `path` is gone.
    fn set_gone(&mut self, path: &EntryPath) {
        if !self.gone.as_ref().is_some_and(|gone| path.is_below(gone) || path == gone) {
            self.gone = Some(path.clone());
        }
    }

    /// Writes leaves of the pending entries.
    fn write_leaves(&mut self, pending: &mut Pending) -> Result<Vec<Child>> {
        let entries = std::mem::take(&mut pending.entries);
        let mut key = std::mem::take(&mut pending.key);
        let (index, leaf_bytes) = (self.index, self.placing.sizes.leaf);
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
                // More than one leaf: all of about the usual length.
                let leaves = (rest.len() * list.raw_len() / taken).div_ceil(leaf_bytes).max(2);
                limit = rest.len().div_ceil(leaves);
                continue;
            }
            let (now, later) = rest.split_at(taken);
            let content_bytes = now.iter().map(|item| entry(item).size).sum();
            let page =
                write_page(&mut self.placing.output, FrameKind::EntryPage, &encode_leaf(list), self.placing.bench.pages()?)?;
            let own = std::mem::take(&mut key);
            if let Some(first) = later.first() {
                key = separator(entry(&now[taken - 1]).path.as_bytes(), entry(first).path.as_bytes()).into();
            }
            leaves.push(Child { key: own, page, entries: taken as u64, content_bytes });
            rest = later;
        }
        Ok(leaves)
    }

    /// Gives the first page of each level the empty key.
    fn clear_first_key(&mut self, node: &mut Node, level: u8) -> Result<()> {
        match node {
            Node::Pages(children) => {
                if let Some(first) = children.first_mut() {
                    first.key = Box::default();
                }
            }
            Node::Kept(child) if level == 0 || child.key.is_empty() => child.key = Box::default(),
            Node::Kept(child) => {
                // Its own first key must be the empty one, too: it is read without knowing what follows, which was checked before.
                let Page::Inner(page) = self.reader.entry_page(child, Some(level), None)? else {
                    unreachable!("its level is not 0")
                };
                let children = page.children.into_iter().map(Node::Kept).collect();
                *node = Node::Open { level, children };
                self.clear_first_key(node, level)?;
            }
            Node::Open { children, .. } => {
                children.retain(|child| !child.is_empty());
                if let Some(first) = children.first_mut() {
                    self.clear_first_key(first, level - 1)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the inner pages of a level that lie below `node`.
    fn write_level(&mut self, node: &mut Node, at: u8) -> Result<()> {
        let Node::Open { level, children } = node else { return Ok(()) };
        if *level > at {
            return children.iter_mut().try_for_each(|child| self.write_level(child, at));
        }
        let children = std::mem::replace(node, Node::Pages(Vec::new())).into_children();
        let pages = write_inner(&mut self.placing.output, self.placing.bench.pages()?, children, at, self.placing.sizes)?;
        *node = Node::Pages(pages);
        Ok(())
    }
}
