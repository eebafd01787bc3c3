//! Going through entries, leaf by leaf.

use std::sync::Arc;
use std::vec;

use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::nra::reader::NraReader;
use crate::format::nra::reader::tree::{Lost, Node, Seek, Spot, behind};

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

/// Direct children of a directory: what lies below them is skipped by descending to what follows.
pub(super) struct Children<'a> {
    reader: &'a NraReader,
    next: u64,
    end: u64,
    /// The leaf in use and the index of the next child in it.
    at: Option<(Spot, usize)>,
    error: Option<Error>,
}

impl<'a> Children<'a> {
    /// Children among the numbers `next..end`, which begin with a child.
    pub(super) fn new(reader: &'a NraReader, next: u64, end: u64) -> Self {
        Self { reader, next, end, at: None, error: None }
    }

    /// An iterator that gives an error only.
    pub(super) fn failed(reader: &'a NraReader, error: Error) -> Self {
        Self { reader, next: 0, end: 0, at: None, error: Some(error) }
    }

    /// Goes on behind everything below `directory`, which stands at `index` of `spot`.
    fn skip(&mut self, directory: &Entry, spot: Spot, index: usize) -> Result<()> {
        let key = behind(directory.path.as_bytes());
        let entries = spot.leaf().entries();
        if entries.get(index + 1).is_some_and(|next| !next.path.is_below(&directory.path)) {
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
                    if entry.kind != Kind::Directory {
                        self.at = Some((spot, index + 1));
                    } else {
                        let next = spot.end();
                        if let Err(error) = self.skip(&entry, spot, index) {
                            // Nobody knows where the next child is; the end of this leaf is as good as any.
                            self.next = next;
                            self.error = Some(error);
                        }
                    }
                    return Some(Ok(entry));
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
