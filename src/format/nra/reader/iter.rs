//! Going through entries, leaf by leaf.

use std::sync::Arc;
use std::vec;

use crate::reader::NraReader;
use crate::reader::tree::{Lost, Node, Seek, Spot, behind};
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::EntryPath;

/// Ranges of up to this many entries leave their leaves in the cache; longer ones would only push out what is needed again.
const SHORT: u64 = 4_096;

/// Entries of a range of numbers. Holds one leaf.
pub(super) struct Entries<'a> {
    reader: &'a NraReader,
    next: u64,
    end: u64,
    keep: bool,
    ready: vec::IntoIter<Entry>,
    /// Given when `ready` is used up.
    error: Option<Error>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(reader: &'a NraReader, next: u64, end: u64) -> Self {
        let keep = end.saturating_sub(next) <= SHORT;
        Self { reader, next, end, keep, ready: Vec::new().into_iter(), error: None }
    }

    fn take(&mut self, spot: Spot) {
        let range = spot.index(self.next)..spot.end_index(self.end);
        self.error = spot.shortage();
        self.next = spot.end();
        let mut entries = match Arc::try_unwrap(spot.node) {
            Ok(Node::Leaf(leaf)) => leaf.into_entries().unwrap_or_else(|leaf| leaf.entries()[range.clone()].to_vec()),
            Ok(Node::Inner(_)) => unreachable!("descents end at leaves"),
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
                Ok(spot) => self.take(spot),
                Err(Lost { numbers, error }) => {
                    self.next = numbers.end.max(self.next + 1);
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Direct children of a directory: what lies below them is skipped by descending to what follows. Where the record of a child is lost,
/// so is what lies below it.
pub(super) struct Children<'a> {
    reader: &'a NraReader,
    /// Bytes in front of the names of children.
    prefix_len: usize,
    next: u64,
    end: u64,
    /// The leaf in use and the index of the next child in it.
    at: Option<(Spot, usize)>,
    error: Option<Error>,
}

impl<'a> Children<'a> {
    /// Children of `directory` among the numbers `next..end`, which lie below it.
    pub(super) fn new(reader: &'a NraReader, directory: Option<&[u8]>, next: u64, end: u64) -> Self {
        let prefix_len = directory.map_or(0, |directory| directory.len() + 1);
        Self { reader, prefix_len, next, end, at: None, error: None }
    }

    /// An iterator that gives an error only.
    pub(super) fn failed(reader: &'a NraReader, error: Error) -> Self {
        Self { reader, prefix_len: 0, next: 0, end: 0, at: None, error: Some(error) }
    }

    /// Returns the child that is `path` or above it.
    fn child_of(&self, path: &EntryPath) -> EntryPath {
        let bytes = path.as_bytes();
        let name = bytes.get(self.prefix_len..).unwrap_or_default();
        match name.iter().position(|&byte| byte == b'/') {
            Some(slash) => EntryPath::from_checked(&bytes[..self.prefix_len + slash]),
            None => path.clone(),
        }
    }

    /// Goes on behind everything below `directory`, which stands, or something below it does, at `index` of `spot`.
    fn skip(&mut self, directory: &EntryPath, spot: Spot, index: usize) -> Result<()> {
        let key = behind(directory.as_bytes());
        let entries = spot.leaf().entries();
        if entries.get(index + 1).is_some_and(|next| !next.path.is_below(directory)) {
            self.at = Some((spot, index + 1));
            return Ok(());
        }
        let beyond = spot.leaf().lower_bound(&key);
        if beyond < entries.len() {
            self.at = Some((spot, beyond));
            return Ok(());
        }
        self.error = spot.shortage();
        self.next = spot.end();
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
            if let Some((spot, index)) = self.at.take() {
                if index < spot.end_index(self.end) {
                    let entry = spot.leaf().entries()[index].clone();
                    let child = self.child_of(&entry.path);
                    let is_child = child == entry.path;
                    if is_child && entry.kind != Kind::Directory {
                        self.at = Some((spot, index + 1));
                    } else {
                        let next = spot.end();
                        if let Err(error) = self.skip(&child, spot, index) {
                            // Nobody knows where the next child is; the end of this leaf is as good as any.
                            self.next = next;
                            self.error = Some(error);
                        }
                    }
                    if is_child {
                        return Some(Ok(entry));
                    }
                    continue;
                }
                self.error = spot.shortage();
                self.next = spot.end();
            }
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            if self.next >= self.end {
                return None;
            }
            match self.reader.leaf(Seek::Number(self.next), true) {
                Ok(spot) => {
                    let index = spot.index(self.next);
                    self.at = Some((spot, index));
                }
                Err(Lost { numbers, error }) => {
                    self.next = numbers.end.max(self.next + 1);
                    return Some(Err(error));
                }
            }
        }
    }
}
