//! A backup of recovery data before it is overwritten. Short recovery data is kept in memory, so
//! that a failed append can restore it.

use super::find::{find_at, find_at_end};
use nra_core::error::Result;
use nra_core::source::Store;

/// Longest recovery data that is kept in memory, bytes.
const MAX_BACKUP: u64 = 16 << 20;

/// Recovery data and the following footer before they were overwritten.
pub(crate) struct RecoveryBackup {
    /// Offset of the recovery data.
    start: u64,
    /// The bytes; `None` if they are too long to keep.
    bytes: Option<Vec<u8>>,
}

impl RecoveryBackup {
    /// Reads the recovery data that starts at `start`, if there is any and its end is undamaged.
    pub(crate) fn of(store: &dyn Store, start: u64) -> Result<Option<Self>> {
        let Some(len) = find_at_end(store)?.filter(|layout| layout.protected == start).and(store.len().checked_sub(start)) else {
            return Ok(None);
        };
        let Some(len) = usize::try_from(len).ok().filter(|&len| len as u64 <= MAX_BACKUP) else {
            return Ok(Some(Self { start, bytes: None }));
        };
        let mut bytes = vec![0; len];
        match store.read_exact_at(start, &mut bytes) {
            Ok(()) => Ok(Some(Self { start, bytes: Some(bytes) })),
            Err(error) if error.is_unreadable() => Ok(Some(Self { start, bytes: None })),
            Err(error) => Err(error),
        }
    }

    /// Restores the file from the backup, if there is one. Returns whether the file has recovery
    /// data afterwards, even damaged.
    pub(crate) fn restore(&self, store: &dyn Store) -> Result<bool> {
        let Some(bytes) = &self.bytes else {
            // The part that was not overwritten restores the rest.
            return Ok(find_at_end(store)?.is_some() && find_at(store, self.start)?.is_some());
        };
        store.write_all_at(self.start, bytes)?;
        store.truncate(self.start + bytes.len() as u64)?;
        store.sync()?;
        Ok(true)
    }
}
