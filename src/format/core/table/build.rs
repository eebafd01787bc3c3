//! Builds a table in path order from entries in the order of the container.

use std::collections::HashMap;
use std::sync::Arc;

use super::names::{Cleaned, Remarked, clean};
use super::rows::{Extra, NO_TIME, Row, Table};
use crate::entry::{Attribute, Device, Kind, Metadata, Timestamp};
use crate::error::{Error, Result};
use crate::limits::MAX_OFFSET;
use crate::path::compare;
use crate::top::Top;

/// Which of several entries with the same path is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The first one in the container.
    KeepFirst,
    /// The last one in the container.
    KeepLast,
}

/// An entry without its name.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// Its kind.
    pub kind: Kind,
    /// Length of the content of a file, bytes.
    pub size: u64,
    /// Time of last modification, if known.
    pub modified: Option<Timestamp>,
    /// Mode, owner, attributes. Equal metadata are stored once. Passing the same `Arc` for consecutive entries saves comparisons.
    pub metadata: Arc<Metadata>,
    /// Files of the same group (other than 0) are hard links of each other: they have the same `number`, `place` and `size`.
    pub link_group: u64,
    /// Target of a symlink.
    pub target: Box<[u8]>,
    /// Numbers of a device.
    pub device: Option<Device>,
    /// The engine's number for the content: see [`ContentRef::number`](super::ContentRef::number).
    pub number: u64,
    /// Storage position of the content: see [`Entry::position`](crate::entry::Entry::position).
    pub place: (u64, u64),
}

impl TableEntry {
    /// Returns an entry of `kind` without content and with mode 0644 (directories: 0755).
    pub fn new(kind: Kind) -> Self {
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        Self::with_metadata(kind, Arc::new(Metadata { mode, ..Metadata::default() }))
    }

    /// Returns an entry of `kind` with this metadata and without content.
    pub fn with_metadata(kind: Kind, metadata: Arc<Metadata>) -> Self {
        Self {
            kind,
            size: 0,
            modified: None,
            metadata,
            link_group: 0,
            target: Box::default(),
            device: None,
            number: 0,
            place: (0, 0),
        }
    }
}

/// Collects the entries of a container.
#[derive(Debug)]
pub struct TableBuilder {
    duplicates: Duplicates,
    limit: u64,
    /// Memory of metadata and extras, bytes.
    extra_bytes: u64,
    paths: Vec<u8>,
    rows: Vec<Row>,
    metadata: Vec<Arc<Metadata>>,
    known: HashMap<Arc<Metadata>, u32>,
    extras: Vec<Extra>,
    content_bytes: u64,
    invalid: Remarked,
    absolute: Remarked,
    top: Option<Top>,
}

impl TableBuilder {
    /// Starts a table of about `limit` bytes of memory at most.
    pub fn new(duplicates: Duplicates, limit: u64) -> Self {
        Self {
            duplicates,
            limit,
            extra_bytes: 0,
            paths: Vec::new(),
            rows: Vec::new(),
            metadata: Vec::new(),
            known: HashMap::new(),
            extras: Vec::new(),
            content_bytes: 0,
            invalid: Remarked::default(),
            absolute: Remarked::default(),
            top: None,
        }
    }

    /// Adds an entry. If its name is invalid, skips the entry with a remark.
    ///
    /// # Errors
    ///
    /// `Limit` if the table exceeds its memory limit or the sum of the sizes the maximum size of a file.
    pub fn add(&mut self, name: &[u8], item: TableEntry) -> Result<()> {
        let start = self.paths.len();
        match clean(name, &mut self.paths) {
            Ok(Cleaned::Path) => {}
            Ok(Cleaned::Relative) => self.absolute.add(name),
            Ok(Cleaned::Top) => {
                match item.kind {
                    Kind::Directory => self.top = Some(Top::of_entry(&item.metadata, item.modified)),
                    // Only a directory can be the top directory.
                    _ => self.invalid.add(name),
                }
                return Ok(());
            }
            Err(_) => {
                self.invalid.add(name);
                return Ok(());
            }
        }
        let size = if item.kind == Kind::File { item.size } else { 0 };
        self.content_bytes = self.content_bytes.checked_add(size).filter(|&sum| sum <= MAX_OFFSET).ok_or(Error::Limit {
            what: "sum of the sizes",
            found: u64::MAX,
            limit: MAX_OFFSET,
        })?;
        let extra = self.extra(&item)?;
        let metadata = self.intern(item.metadata)?;
        let (seconds, nanoseconds) = item.modified.map_or((0, NO_TIME), |time| (time.seconds, time.nanoseconds.min(999_999_999)));
        self.rows.push(Row {
            start: start as u64,
            len: u16::try_from(self.paths.len() - start).expect("a path has at most 65,535 bytes"),
            kind: item.kind,
            implied: false,
            metadata,
            extra,
            nanoseconds,
            seconds,
            size,
            before: 0,
            number: item.number,
            place: item.place,
        });
        self.check_memory(self.rows.len())
    }

    /// Reserves memory for `count` more entries.
    pub fn reserve(&mut self, count: usize) {
        self.rows.reserve(count);
    }

    /// Sets the positions of all entries by their numbers, for containers that list positions last.
    pub fn set_places(&mut self, place: impl Fn(u64) -> (u64, u64)) {
        self.rows.iter_mut().for_each(|row| row.place = place(row.number));
    }

    /// Sorts the entries, resolves conflicts between them and adds missing parents.
    ///
    /// # Errors
    ///
    /// `Limit` if implied parents make the table exceed its memory limit.
    pub fn finish(mut self) -> Result<Table> {
        let (mut hidden, mut replaced) = (Remarked::default(), Remarked::default());
        let paths = std::mem::take(&mut self.paths);
        let path = |row: &Row| row.path(&paths);
        let mut rows = std::mem::take(&mut self.rows);
        // The offsets of the paths show the order of the container.
        let last_first = self.duplicates == Duplicates::KeepLast;
        rows.sort_unstable_by(|a, b| {
            let by_age = || if last_first { b.start.cmp(&a.start) } else { a.start.cmp(&b.start) };
            compare(path(a), path(b)).then_with(by_age)
        });
        rows.dedup_by(|next, kept| {
            let same = path(next) == path(kept);
            // A repeated directory deserves no remark.
            if same && !(next.kind == Kind::Directory && kept.kind == Kind::Directory) {
                hidden.add(path(next));
            }
            same
        });
        // Missing directories, each with the index of the row that follows.
        let mut missing: Vec<(usize, Row)> = Vec::new();
        // Path lengths of the last row and of the directories above it.
        let mut open: Vec<u16> = Vec::new();
        let implied = self.intern(Arc::new(Metadata { mode: 0o755, ..Metadata::default() }))?;
        let mut last: &[u8] = &[];
        for place in 0..rows.len() {
            let row = rows[place];
            let bytes = path(&row);
            while open.last().is_some_and(|&len| !is_below(bytes, &last[..usize::from(len)])) {
                open.pop();
            }
            if let Some(&len) = open.last()
                && let Some(parent) = place.checked_sub(1).map(|place| &mut rows[place])
                && parent.len == len
                && parent.kind != Kind::Directory
            {
                replaced.add(path(parent));
                *parent = parent.as_directory(implied);
            }
            let known = open.last().map_or(0, |&len| usize::from(len) + 1);
            for slash in (known..bytes.len()).filter(|&at| bytes[at] == b'/') {
                let len = u16::try_from(slash).expect("shorter than the path");
                missing.push((place, Row { len, ..row }.as_directory(implied)));
                open.push(len);
            }
            open.push(row.len);
            last = bytes;
            self.check_memory_with(&paths, rows.len().saturating_add(missing.len().saturating_mul(2)))?;
        }
        insert(&mut rows, &missing);
        drop(missing);
        let mut before = 0u64;
        for row in &mut rows {
            row.before = before;
            before = before.saturating_add(row.size);
        }
        let mut remarks = Vec::new();
        let mut remark = |names: &Remarked, one: &str, several: &str| remarks.extend(names.remark(one, several));
        remark(&self.invalid, "is skipped, because its name is invalid", "are skipped, because their names are invalid");
        remark(&replaced, "is skipped, because entries are below it", "are skipped, because entries are below them");
        remark(&self.absolute, "has an absolute name, read as relative", "have absolute names, read as relative");
        match self.duplicates {
            Duplicates::KeepFirst => {
                remark(
                    &hidden,
                    "is hidden by an earlier entry of the same name",
                    "are hidden by earlier entries of the same names",
                );
            }
            Duplicates::KeepLast => {
                remark(&hidden, "is hidden by a later entry of the same name", "are hidden by later entries of the same names");
            }
        }
        let skipped = self.invalid.count() + replaced.count();
        Ok(Table {
            paths,
            rows,
            metadata: self.metadata,
            extras: self.extras,
            content_bytes: before,
            remarks,
            skipped,
            top: self.top,
        })
    }

    /// Stores the fields that few entries have. Returns their number from 1, or 0 if all of them are empty.
    fn extra(&mut self, item: &TableEntry) -> Result<u32> {
        if item.link_group == 0 && item.target.is_empty() && item.device.is_none() {
            return Ok(0);
        }
        self.extra_bytes = self.extra_bytes.saturating_add((item.target.len() + size_of::<Extra>()) as u64);
        self.extras.push(Extra { link_group: item.link_group, target: item.target.clone(), device: item.device });
        u32::try_from(self.extras.len()).map_err(|_| self.too_large(u64::MAX))
    }

    fn intern(&mut self, metadata: Arc<Metadata>) -> Result<u32> {
        let last = self.rows.last().map(|row| row.metadata);
        if let Some(last) = last
            && Arc::ptr_eq(&self.metadata[last as usize], &metadata)
        {
            return Ok(last);
        }
        if let Some(&number) = self.known.get(&metadata) {
            return Ok(number);
        }
        let number = u32::try_from(self.metadata.len()).map_err(|_| self.too_large(u64::MAX))?;
        let attribute = |attribute: &Attribute| size_of::<Attribute>() + attribute.name.len() + attribute.value.len();
        let attributes: usize = metadata.attributes.iter().map(attribute).sum();
        self.extra_bytes = self.extra_bytes.saturating_add((attributes + 2 * size_of::<Metadata>()) as u64);
        self.metadata.push(Arc::clone(&metadata));
        self.known.insert(metadata, number);
        Ok(number)
    }

    fn check_memory(&self, rows: usize) -> Result<()> {
        self.check_memory_with(&self.paths, rows)
    }

    fn check_memory_with(&self, paths: &[u8], rows: usize) -> Result<()> {
        let found = Table::bytes(paths.len() as u64, rows as u64).saturating_add(self.extra_bytes);
        if found > self.limit { Err(self.too_large(found)) } else { Ok(()) }
    }

    fn too_large(&self, found: u64) -> Error {
        Error::Limit { what: "memory for the index", found, limit: self.limit }
    }
}

/// Inserts rows before the rows at the given indexes, which ascend.
fn insert(rows: &mut Vec<Row>, missing: &[(usize, Row)]) {
    let mut from = rows.len();
    if let Some((_, any)) = missing.first() {
        rows.reserve_exact(missing.len());
        rows.resize(from + missing.len(), *any);
    }
    // From the end, so that each row moves once.
    for (already, (place, row)) in missing.iter().enumerate().rev() {
        rows.copy_within(*place..from, place + already + 1);
        rows[place + already] = *row;
        from = *place;
    }
}

/// Returns whether `path` lies below `directory`, at any depth.
pub(super) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.len() > directory.len() && path[directory.len()] == b'/' && path.starts_with(directory)
}
