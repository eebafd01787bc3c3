//! Where a writer writes to: the end of an archive that is appended to, where nothing is part of the archive until a commit says so, or a new file.
//!
//! Spec: nra.md, section 17.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::head::{SLOT_LEN, Slot, TAIL_LEN, Tail};
use crate::reader::BaseState;
use crate::recovery::Trailer;
use nra_core::error::{Error, Result};
use nra_core::source::Store;

/// Writes behind the last commit of an archive. The first write makes the file ready for that; unless a commit came of it,
/// dropping this takes away what was written, and puts back what recovery data was there.
pub struct StoreEnd {
    store: Arc<dyn Store>,
    /// Length of the file at the last commit.
    base: u64,
    at: u64,
    /// The tail of that commit, if it has to be written again.
    tail: Option<[u8; TAIL_LEN]>,
    /// Where the slot goes, and what it is; `None` if it is there.
    slot: Option<(u64, Slot)>,
    begun: bool,
    /// What was there before the slot was written.
    before_slot: Option<[u8; SLOT_LEN]>,
    /// Recovery data that is written over.
    trailer: Option<Trailer>,
    /// A commit and its tail are behind what was written.
    kept: Arc<AtomicBool>,
}

impl std::fmt::Debug for StoreEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreEnd").field("base", &self.base).field("at", &self.at).field("begun", &self.begun).finish()
    }
}

impl StoreEnd {
    /// Stands behind `base`; nothing is written yet.
    pub(super) fn new(store: Arc<dyn Store>, base: &BaseState, kept: Arc<AtomicBool>) -> Self {
        let (required, keys) = (base.head.required, base.keys);
        let (number, commit_offset, commit_length) = (base.commit.number, base.place.offset, base.place.length);
        let tail = Tail { required, commit_offset, commit_length, keys, number };
        let tail = base.lost_tail.then(|| tail.encode(base.end - TAIL_LEN as u64));
        let slot = base.head.slot_for(Slot { number, end: base.end });
        Self { store, base: base.end, at: base.end, tail, slot, begun: false, before_slot: None, trailer: None, kept }
    }

    /// Cuts what an append left that did not finish, and notes where the archive ends.
    ///
    /// Recovery data is not cut: as long as a third of it is left, it restores the rest, should this come to nothing.
    fn begin(&mut self) -> Result<()> {
        let trailer = Trailer::of(&*self.store, self.base)?;
        if let Some(tail) = self.tail {
            self.store.write_all_at(self.base - TAIL_LEN as u64, &tail)?;
            // Before the slot that leads to it.
            self.store.sync()?;
        }
        // Up to here there is nothing to take back.
        (self.begun, self.trailer) = (true, trailer);
        if self.store.len() > self.base && self.trailer.is_none() {
            self.store.truncate(self.base)?;
        }
        if let Some((place, slot)) = self.slot {
            let mut before = [0; SLOT_LEN];
            self.store.read_exact_at(place, &mut before)?;
            self.before_slot = Some(before);
            self.store.write_all_at(place, &slot.encode(place))?;
        }
        self.store.sync()
    }
}

impl Write for StoreEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin().map_err(plain)?;
        }
        self.store.write_all_at(self.at, bytes).map_err(plain)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a new archive to an empty file, one byte after the other.
pub struct FromStart {
    store: Arc<dyn Store>,
    at: u64,
}

impl std::fmt::Debug for FromStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FromStart").field("at", &self.at).finish()
    }
}

impl FromStart {
    /// Stands at the beginning of an empty file.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, at: 0 }
    }
}

impl Write for FromStart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.store.write_all_at(self.at, bytes).map_err(plain)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the cause alone; the writer says what it was doing.
fn plain(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl Drop for StoreEnd {
    fn drop(&mut self) {
        if !self.begun || self.kept.load(Ordering::Relaxed) {
            return;
        }
        // A tidy end; the archive is whole without it, and the next writer does it anyway.
        let is_back = self.trailer.take().is_some_and(|trailer| trailer.put_back(&*self.store).is_ok_and(|is_back| is_back));
        if is_back {
            return;
        }
        // The slot is needed until the tail is the last thing of the file for good.
        let is_cut = self.store.truncate(self.base).and_then(|()| self.store.sync()).is_ok();
        if let (true, Some((place, _)), Some(before)) = (is_cut, self.slot, self.before_slot) {
            let _ = self.store.write_all_at(place, &before);
        }
    }
}
