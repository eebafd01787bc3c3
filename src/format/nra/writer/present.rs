//! The state so far of an archive in change, for many threads to look things up in while it goes on being changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;

use crate::reader::NraReader;
use crate::writer::Writer;
use crate::writer::append::{is_cut, no_base};
use nra_core::archive::Archive;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::path::EntryPath;

/// The entries of an archive in change as they are at one moment: those of its newest commit, but for what was removed, and what was added since.
pub struct Present {
    base: Arc<NraReader>,
    cuts: BTreeSet<EntryPath>,
    new: BTreeMap<EntryPath, Entry>,
}

impl<W: Write + Send> Writer<W> {
    /// Returns the state so far.
    ///
    /// # Errors
    ///
    /// `Usage` for a new archive; what reading the base gives.
    pub fn present(&mut self) -> Result<Present> {
        // What was not asked for so far need not be followed from here on, either.
        if !self.index.entries.is_empty() {
            self.settle_state()?;
        }
        let base = self.base.as_ref().ok_or_else(no_base)?;
        let new = base.changes.added().map(|(path, id)| (path.clone(), self.index.entry(id).entry.clone())).collect();
        Ok(Present { base: Arc::clone(&base.reader), cuts: base.changes.cuts.clone(), new })
    }
}

impl Present {
    /// Returns the entry at a path.
    ///
    /// # Errors
    ///
    /// What reading the archive gives.
    pub fn find(&self, path: &EntryPath) -> Result<Option<Entry>> {
        if let Some(entry) = self.new.get(path) {
            return Ok(Some(entry.clone()));
        }
        let is_hidden = |above: EntryPath| self.new.get(&above).is_some_and(|entry| entry.kind != Kind::Directory);
        if is_cut(&self.cuts, path) || !self.new.is_empty() && path.above().any(is_hidden) {
            return Ok(None);
        }
        Ok(self.base.find(path.as_bytes())?.map(|(_, entry)| entry))
    }
}
