//! Rows in path order: finds the rows before and after a number without reading those in between.

use std::ops::Range;

use crate::rows::{self, Anchor, MAX_NAMES, Page, Row, Scope};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::path::EntryPath;

/// Maximum number of consecutive unreadable entries. A list ends there and shows the rows found so
/// far.
const MAX_LOST: u64 = 20_000;

/// Rows in path order.
pub struct Walk<'a> {
    archive: &'a dyn Archive,
    scope: &'a Scope,
    below: Range<u64>,
    awaited: &'a dyn Fn() -> bool,
    /// Number of unreadable entries.
    lost: u64,
    /// Number of unreadable entries since the last readable one.
    in_a_row: u64,
}

impl<'a> Walk<'a> {
    /// Walks the entries of a range of numbers. Stops when `awaited` returns false.
    pub fn new(archive: &'a dyn Archive, scope: &'a Scope, below: Range<u64>, awaited: &'a dyn Fn() -> bool) -> Self {
        Self { archive, scope, below, awaited, lost: 0, in_a_row: 0 }
    }

    /// Fetches up to `count` rows.
    pub fn page(mut self, anchor: &Anchor, count: usize) -> Result<Page> {
        let mut page = Page { below: self.below.clone(), ..Page::default() };
        match anchor {
            Anchor::Start => {
                (page.rows, page.last) = self.forward(self.below.start, count)?;
                page.first = true;
            }
            Anchor::End => {
                (page.rows, page.first) = self.backward(self.below.end, count)?;
                page.last = true;
                page.at = page.rows.len().saturating_sub(1);
            }
            Anchor::After(place) => {
                let next = self.next(*place)?;
                (page.rows, page.last) = self.forward(next, count)?;
            }
            Anchor::Before(place) => (page.rows, page.first) = self.backward(*place, count)?,
            Anchor::Around(place) => self.around(*place, count, &mut page)?,
            Anchor::AroundPath(path) => {
                let place = self.place_of(path)?;
                self.around(place, count, &mut page)?;
            }
        }
        page.lost = self.lost;
        Ok(page)
    }

    fn around(&mut self, place: u64, count: usize, page: &mut Page) -> Result<()> {
        let place = place.clamp(self.below.start, self.below.end.saturating_sub(1).max(self.below.start));
        let (mut rows, first) = self.backward(place, count / 2)?;
        page.at = rows.len();
        page.first = first;
        let (later, last) = self.forward(place, count - rows.len())?;
        rows.extend(later);
        page.last = last;
        page.rows = rows;
        page.at = page.at.min(page.rows.len().saturating_sub(1));
        Ok(())
    }

    /// Returns the place of the row for `path`, or of its nearest visible ancestor.
    fn place_of(&self, path: &EntryPath) -> Result<u64> {
        let mut path = Some(self.row_of(path));
        while let Some(candidate) = path {
            if let Some((number, _)) = self.find(&candidate)? {
                return Ok(number);
            }
            path = candidate.parent();
        }
        Ok(self.below.start)
    }

    /// Returns up to `count` rows from number `from` on, and whether they are the last ones.
    fn forward(&mut self, from: u64, count: usize) -> Result<(Vec<Row>, bool)> {
        let (mut rows, mut names) = (Vec::with_capacity(count.min(1024)), 0);
        let mut next = from.max(self.below.start);
        while next < self.below.end && self.in_a_row < MAX_LOST {
            if rows.len() >= count || names >= MAX_NAMES {
                return Ok((rows, false));
            }
            let Some(entry) = self.entry(next)? else {
                next += 1;
                continue;
            };
            let row = self.row_of(&entry.path);
            if row != entry.path {
                // Inside a collapsed directory. If its own record is lost, it has no row.
                next = self.end_of(&row, next)?;
                continue;
            }
            let place = next;
            next = self.after(place, &entry)?;
            let row = self.row(place, entry);
            names += row.names();
            rows.push(row);
        }
        Ok((rows, true))
    }

    /// Returns up to `count` rows before number `to`, in order, and whether they are the first
    /// ones.
    fn backward(&mut self, to: u64, count: usize) -> Result<(Vec<Row>, bool)> {
        let (mut rows, mut names) = (Vec::with_capacity(count.min(1024)), 0);
        let mut before = to.min(self.below.end);
        while before > self.below.start && rows.len() < count && names < MAX_NAMES && self.in_a_row < MAX_LOST {
            let Some(entry) = self.entry(before - 1)? else {
                before -= 1;
                continue;
            };
            let shown = self.row_of(&entry.path);
            let found = if shown == entry.path { Some((before - 1, entry)) } else { self.find(&shown)? };
            match found.filter(|(number, _)| (self.below.start..before).contains(number)) {
                Some((number, entry)) => {
                    before = number;
                    let row = self.row(number, entry);
                    names += row.names();
                    rows.push(row);
                }
                None => before -= 1,
            }
        }
        rows.reverse();
        Ok((rows, before <= self.below.start || self.in_a_row >= MAX_LOST))
    }

    /// Returns the number from which to search for the row after `place`.
    fn next(&mut self, place: u64) -> Result<u64> {
        match self.entry(place)? {
            Some(entry) => self.after(place, &entry),
            None => Ok(place + 1),
        }
    }

    /// Returns the number after an entry and the collapsed entries below it.
    fn after(&self, place: u64, entry: &Entry) -> Result<u64> {
        if entry.kind != Kind::Directory || self.scope.open.contains(&entry.path) {
            return Ok(place + 1);
        }
        self.end_of(&entry.path, place)
    }

    fn end_of(&self, directory: &EntryPath, place: u64) -> Result<u64> {
        Ok(rows::subtree(self.archive, directory, self.awaited)?.end.max(place + 1))
    }

    /// Finds a path. Returns `None` if it does not exist or its index page is damaged.
    fn find(&self, path: &EntryPath) -> Result<Option<(u64, Entry)>> {
        match self.archive.find(path.as_bytes()) {
            Err(Error::Corrupt { .. }) => Ok(None),
            found => found,
        }
    }

    /// Reads an entry. Returns `None` if it is damaged.
    fn entry(&mut self, number: u64) -> Result<Option<Entry>> {
        if !(self.awaited)() {
            return Err(Error::Cancelled);
        }
        match self.archive.entry(number) {
            Ok(entry) => {
                self.in_a_row = 0;
                Ok(Some(entry))
            }
            Err(Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. }) => {
                self.lost += 1;
                self.in_a_row += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the row that shows `path`: the path itself or its topmost collapsed
    /// ancestor.
    fn row_of(&self, path: &EntryPath) -> EntryPath {
        let bytes = path.as_bytes();
        let mut from = self.scope.directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1);
        while let Some(slash) = bytes.get(from..).and_then(|rest| rest.iter().position(|&byte| byte == b'/')) {
            let directory = EntryPath::from_checked(&bytes[..from + slash]);
            if !self.scope.open.contains(&directory) {
                return directory;
            }
            from += slash + 1;
        }
        path.clone()
    }

    fn row(&self, number: u64, entry: Entry) -> Row {
        Row { place: number, number, depth: self.scope.depth(&entry.path), entry }
    }
}
