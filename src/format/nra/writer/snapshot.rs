//! Snapshots of the current entries. Other threads can query them while the writer continues.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use crate::reader::NraReader;
use crate::writer::Writer;
use crate::writer::append::{is_removed, no_base};
use nra_core::archive::Archive;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::path::EntryPath;

/// The entries of an archive under change at one moment: those of the base without removed ones,
/// and the new ones.
pub struct Snapshot {
    base: Arc<NraReader>,
    removals: BTreeSet<EntryPath>,
    new: BTreeMap<EntryPath, Entry>,
}

impl<W: Write + Send> Writer<W> {
    /// Returns a snapshot of the current entries.
    ///
    /// # Errors
    ///
    /// `Usage` for a new archive; errors of reading the base.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        // Without new entries, changes need not be tracked.
        if !self.index.entries.is_empty() {
            self.track_changes()?;
        }
        let base = self.base.as_ref().ok_or_else(no_base)?;
        let new = base.changes.added().map(|(path, id)| (path.clone(), self.index.entry(id).entry.clone())).collect();
        Ok(Snapshot { base: Arc::clone(&base.reader), removals: base.changes.removals.clone(), new })
    }
}

impl Snapshot {
    /// Returns the entry at a path.
    ///
    /// # Errors
    ///
    /// Errors of reading the archive.
    pub fn find(&self, path: &EntryPath) -> Result<Option<Entry>> {
        if let Some(entry) = self.new.get(path) {
            return Ok(Some(entry.clone()));
        }
        let is_hidden = |above: EntryPath| self.new.get(&above).is_some_and(|entry| entry.kind != Kind::Directory);
        if is_removed(&self.removals, path) || !self.new.is_empty() && path.above().any(is_hidden) {
            return Ok(None);
        }
        Ok(self.base.find(path.as_bytes())?.map(|(_, entry)| entry))
    }
}
