//! Destinations of a writer: the end of an existing archive, where new bytes count only once a
//! commit is complete, or a new file.
//!
//! Spec: nra.md, section 17.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::footer::{FOOTER_LEN, Footer};
use crate::reader::BaseCommit;
use crate::recovery::RecoveryBackup;
use crate::superblock::{COMMIT_SLOT_LEN, CommitSlot};
use nra_core::error::{Error, Result};
use nra_core::source::Store;

/// Writes after the last commit of an archive. The first write prepares the file. If it is dropped
/// before a commit is complete, it removes what was written and restores recovery data.
pub struct AppendDestination {
    store: Arc<dyn Store>,
    /// Length of the file at the last commit.
    base: u64,
    at: u64,
    /// The footer of that commit, if it must be written again.
    footer: Option<[u8; FOOTER_LEN]>,
    /// Offset and content of the commit slot to write; `None` if it is already there.
    slot: Option<(u64, CommitSlot)>,
    prepared: bool,
    /// Former content of that commit slot.
    slot_backup: Option<[u8; COMMIT_SLOT_LEN]>,
    /// Backup of recovery data that is overwritten.
    backup: Option<RecoveryBackup>,
    /// Whether a commit and its footer were written.
    committed: Arc<AtomicBool>,
}

impl AppendDestination {
    /// Prepares to write after `base`. Nothing is written yet.
    pub(super) fn new(store: Arc<dyn Store>, base: &BaseCommit, committed: Arc<AtomicBool>) -> Self {
        let (required, keys) = (base.superblock.required, base.keys);
        let (number, commit_offset, commit_length) = (base.commit.number, base.commit_ref.offset, base.commit_ref.length);
        let footer = Footer { required, commit_offset, commit_length, keys, number };
        let footer = base.lost_footer.then(|| footer.encode(base.end - FOOTER_LEN as u64));
        let slot = base.superblock.commit_slot_for(CommitSlot { number, end: base.end });
        Self { store, base: base.end, at: base.end, footer, slot, prepared: false, slot_backup: None, backup: None, committed }
    }

    /// Cuts off an unfinished append, and records in a commit slot where the archive ends.
    ///
    /// Recovery data is not cut off: as long as a third of it is left, it can restore the rest if
    /// this append fails.
    fn prepare(&mut self) -> Result<()> {
        let backup = RecoveryBackup::of(&*self.store, self.base)?;
        if let Some(footer) = self.footer {
            self.store.write_all_at(self.base - FOOTER_LEN as u64, &footer)?;
            // Must precede the commit slot that refers to it.
            self.store.sync()?;
        }
        // Until here nothing must be undone.
        (self.prepared, self.backup) = (true, backup);
        if self.store.len() > self.base && self.backup.is_none() {
            self.store.truncate(self.base)?;
        }
        if let Some((offset, slot)) = self.slot {
            let mut before = [0; COMMIT_SLOT_LEN];
            self.store.read_exact_at(offset, &mut before)?;
            self.slot_backup = Some(before);
            self.store.write_all_at(offset, &slot.encode(offset))?;
        }
        self.store.sync()
    }
}

impl Write for AppendDestination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.prepared {
            self.prepare().map_err(plain)?;
        }
        self.store.write_all_at(self.at, bytes).map_err(plain)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a new archive to an empty file, sequentially.
pub struct FileDestination {
    store: Arc<dyn Store>,
    at: u64,
}

impl FileDestination {
    /// Starts at offset 0 of an empty file.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, at: 0 }
    }
}

impl Write for FileDestination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.store.write_all_at(self.at, bytes).map_err(plain)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the cause only; the writer adds what it was doing.
fn plain(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

impl Drop for AppendDestination {
    fn drop(&mut self) {
        if !self.prepared || self.committed.load(Ordering::Relaxed) {
            return;
        }
        // Cleanup only: the archive is valid without it, and the next writer does the same.
        let is_back = self.backup.take().is_some_and(|backup| backup.restore(&*self.store).is_ok_and(|is_back| is_back));
        if is_back {
            return;
        }
        // The commit slot is needed until the file durably ends with the footer.
        let is_cut = self.store.truncate(self.base).and_then(|()| self.store.sync()).is_ok();
        if let (true, Some((offset, _)), Some(before)) = (is_cut, self.slot, self.slot_backup) {
            let _ = self.store.write_all_at(offset, &before);
        }
    }
}
