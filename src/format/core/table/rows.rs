//! The finished table: entries in path order, found by binary search.

use std::ops::Range;
use std::sync::Arc;

use super::build::is_below;
use crate::archive::Totals;
use crate::entry::{Device, Entry, Kind, Location, Metadata, Timestamp};
use crate::path::{EntryPath, compare};
use crate::top::Top;

/// Nanoseconds of an entry whose time is unknown.
pub(super) const NO_TIME: u32 = u32::MAX;

/// An entry. Its path is in the arena; metadata and rare fields are in separate lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Sum of the sizes of the preceding rows.
    pub(super) before: u64,
    pub(super) number: u64,
    pub(super) place: (u64, u64),
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
    pub(super) metadata: u32,
    /// Number of its extra from 1; 0 for none.
    pub(super) extra: u32,
    pub(super) len: u16,
    pub(super) kind: Kind,
    pub(super) implied: bool,
}

impl Row {
    pub(super) fn path<'a>(&self, paths: &'a [u8]) -> &'a [u8] {
        let start = usize::try_from(self.start).expect("an offset in memory");
        &paths[start..start + usize::from(self.len)]
    }

    /// Returns an implied directory with the same path.
    pub(super) fn as_directory(&self, metadata: u32) -> Self {
        let (size, number, place, extra) = (0, 0, (0, 0), 0);
        Self {
            size,
            number,
            place,
            extra,
            metadata,
            seconds: 0,
            nanoseconds: NO_TIME,
            kind: Kind::Directory,
            implied: true,
            ..*self
        }
    }
}

/// Fields that few entries have.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) link_group: u64,
    pub(super) target: Box<[u8]>,
    pub(super) device: Option<Device>,
}

/// All entries of a container, numbered from 0 in path order.
#[derive(Debug)]
pub struct Table {
    pub(super) paths: Vec<u8>,
    pub(super) rows: Vec<Row>,
    pub(super) metadata: Vec<Arc<Metadata>>,
    pub(super) extras: Vec<Extra>,
    pub(super) content_bytes: u64,
    pub(super) remarks: Vec<String>,
    /// Number of skipped entries.
    pub(super) skipped: u64,
    /// The top directory, if the container has an entry for it.
    pub(super) top: Option<Top>,
}

impl Table {
    /// Returns the memory needed for paths of this total length and this number of entries, bytes.
    pub fn bytes(paths: u64, entries: u64) -> u64 {
        paths.saturating_add(entries.saturating_mul(size_of::<Row>() as u64))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        self.rows.iter().filter(|row| row.kind == Kind::File).count() as u64
    }

    /// Returns the sum of the sizes of the files.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns remarks about names.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns whether entries were skipped because of invalid names.
    pub fn skips_entries(&self) -> bool {
        self.skipped > 0
    }

    /// Returns the number of skipped entries.
    pub fn skipped_entries(&self) -> u64 {
        self.skipped
    }

    /// Returns an entry by number.
    pub fn entry(&self, number: usize) -> Option<Entry> {
        let row = self.rows.get(number)?;
        let extra = row.extra.checked_sub(1).map(|index| &self.extras[index as usize]);
        let modified = (row.nanoseconds != NO_TIME).then_some(Timestamp { seconds: row.seconds, nanoseconds: row.nanoseconds });
        Some(Entry {
            path: EntryPath::from_checked(self.path(number)),
            kind: row.kind,
            metadata: Arc::clone(&self.metadata[row.metadata as usize]),
            modified,
            size: row.size,
            link_group: extra.map_or(0, |extra| extra.link_group),
            target: extra.map_or_else(Box::default, |extra| extra.target.clone()),
            device: extra.and_then(|extra| extra.device),
            implied: row.implied,
            location: Location::numbered(row.number, row.place),
        })
    }

    /// Returns all entries, in path order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.rows.len()).filter_map(|number| self.entry(number))
    }

    /// Returns the storage position of a row.
    pub(super) fn place(&self, number: usize) -> (u64, u64) {
        self.rows[number].place
    }

    /// Returns the path of entry `number`, which must exist.
    pub(super) fn path(&self, number: usize) -> &[u8] {
        self.rows[number].path(&self.paths)
    }

    /// Looks up a path.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        self.rows.binary_search_by(|row| compare(row.path(&self.paths), path)).ok()
    }

    /// Returns the numbers of `directory` and all entries below it; `None` = the whole table.
    pub fn subtree(&self, directory: Option<&[u8]>) -> Range<usize> {
        match directory {
            None => 0..self.rows.len(),
            Some(path) => self.find(path).map_or(0..0, |number| number..self.behind(number)),
        }
    }

    /// Returns the number of the first entry after those below entry `number`. Searches nearby first.
    pub(super) fn behind(&self, number: usize) -> usize {
        let directory = self.path(number);
        let below = |at: usize| is_below(self.path(at), directory);
        let (mut start, mut step) = (number + 1, 1);
        while start + step <= self.rows.len() && below(start + step - 1) {
            start += step;
            step *= 2;
        }
        let end = (start + step).min(self.rows.len());
        let rest = self.rows[start..end].partition_point(|row| is_below(row.path(&self.paths), directory));
        start + rest
    }

    /// Returns the totals of a range of numbers.
    pub fn totals(&self, range: Range<usize>) -> Totals {
        let before = |number: usize| self.rows.get(number).map_or(self.content_bytes, |row| row.before);
        let end = range.end.min(self.rows.len());
        if range.start >= end {
            return Totals::default();
        }
        Totals { entries: (end - range.start) as u64, content_bytes: before(end) - before(range.start) }
    }
}
