//! Iterators over entries.

use std::sync::Arc;
use std::vec;

use crate::reader::NraReader;
use crate::reader::entry_tree::{LeafPosition, Seek, TreePage, UnreachableEntries, after_subtree};
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;

/// Most entries of a range whose leaf pages are cached. Longer ranges would evict pages that are
/// needed again.
const SHORT: u64 = 4_096;

/// Iterator over a range of entry numbers. Holds one leaf page.
pub(super) struct Entries<'a> {
    reader: &'a NraReader,
    next: u64,
    end: u64,
    keep: bool,
    ready: vec::IntoIter<Entry>,
    /// Returned after `ready` is exhausted.
    error: Option<Error>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(reader: &'a NraReader, next: u64, end: u64) -> Self {
        let keep = end.saturating_sub(next) <= SHORT;
        Self { reader, next, end, keep, ready: Vec::new().into_iter(), error: None }
    }

    fn load_leaf(&mut self, position: LeafPosition) {
        let range = position.index(self.next)..position.end_index(self.end);
        self.error = position.shortage();
        self.next = position.end();
        let mut entries = match Arc::try_unwrap(position.page) {
            Ok(TreePage::Leaf(leaf)) => leaf.into_entries().unwrap_or_else(|leaf| leaf.entries()[range.clone()].to_vec()),
            Ok(TreePage::Inner(_)) => unreachable!("descents end at leaf pages"),
            Err(shared) => {
                self.ready = Vec::from(&shared.leaf().entries()[range]).into_iter();
                return;
            }
        };
        if entries.len() > range.len() {
            entries.truncate(range.end);
            entries.drain(..range.start);
        }
        self.ready = entries.into_iter();
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.next() {
                return Some(Ok(entry));
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            if self.next >= self.end {
                return None;
            }
            match self.reader.leaf(Seek::Number(self.next), self.keep) {
                Ok(position) => self.load_leaf(position),
                Err(UnreachableEntries { numbers, error }) => {
                    self.next = numbers.end.max(self.next + 1);
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Iterator over the direct children of a directory. Everything below a child is skipped by a
/// descent to the next sibling. If the record of a child is lost, the entries below it are not
/// returned.
pub(super) struct Children<'a> {
    reader: &'a NraReader,
    /// Length of the path before the names of children.
    prefix_len: usize,
    next: u64,
    end: u64,
    /// The current leaf page and the index of the next child in it.
    at: Option<(LeafPosition, usize)>,
    error: Option<Error>,
}

impl<'a> Children<'a> {
    /// Creates an iterator over the children of `directory`, which lie among the numbers
    /// `next..end`.
    pub(super) fn new(reader: &'a NraReader, directory: Option<&[u8]>, next: u64, end: u64) -> Self {
        let prefix_len = directory.map_or(0, |directory| directory.len() + 1);
        Self { reader, prefix_len, next, end, at: None, error: None }
    }

    /// Creates an iterator that returns only an error.
    pub(super) fn failed(reader: &'a NraReader, error: Error) -> Self {
        Self { reader, prefix_len: 0, next: 0, end: 0, at: None, error: Some(error) }
    }

    /// Returns the child that equals `path` or is a parent of it.
    fn child_of(&self, path: &EntryPath) -> EntryPath {
        let bytes = path.as_bytes();
        let name = bytes.get(self.prefix_len..).unwrap_or_default();
        match name.iter().position(|&byte| byte == b'/') {
            Some(slash) => EntryPath::from_checked(&bytes[..self.prefix_len + slash]),
            None => path.clone(),
        }
    }

    /// Continues after everything below `directory`. The entry at `index` of `position` is
    /// `directory` or lies below it.
    fn skip(&mut self, directory: &EntryPath, position: LeafPosition, index: usize) -> Result<()> {
        let key = after_subtree(directory.as_bytes());
        let entries = position.leaf().entries();
        if entries.get(index + 1).is_some_and(|next| !next.path.is_below(directory)) {
            self.at = Some((position, index + 1));
            return Ok(());
        }
        let beyond = position.leaf().lower_bound(&key);
        if beyond < entries.len() {
            self.at = Some((position, beyond));
            return Ok(());
        }
        self.error = position.shortage();
        self.next = position.end();
        if self.next < self.end {
            self.next = self.reader.lower_bound(&key)?.max(self.next);
        }
        Ok(())
    }
}

impl Iterator for Children<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((position, index)) = self.at.take() {
                if index < position.end_index(self.end) {
                    let entry = position.leaf().entries()[index].clone();
                    let child = self.child_of(&entry.path);
                    let is_child = child == entry.path;
                    if is_child && entry.kind != Kind::Directory {
                        self.at = Some((position, index + 1));
                    } else {
                        let next = position.end();
                        if let Err(error) = self.skip(&child, position, index) {
                            // The next child cannot be located; continue at the end of this leaf
                            // page.
                            self.next = next;
                            self.error = Some(error);
                        }
                    }
                    if is_child {
                        return Some(Ok(entry));
                    }
                    continue;
                }
                self.error = position.shortage();
                self.next = position.end();
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            if self.next >= self.end {
                return None;
            }
            match self.reader.leaf(Seek::Number(self.next), true) {
                Ok(position) => {
                    let index = position.index(self.next);
                    self.at = Some((position, index));
                }
                Err(UnreachableEntries { numbers, error }) => {
                    self.next = numbers.end.max(self.next + 1);
                    return Some(Err(error));
                }
            }
        }
    }
}
