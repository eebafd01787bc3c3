//! Recovery data that something else is written over: kept in memory if it is short, so that a failure can put it back.

use super::find::{begins, present};
use nra_core::error::Result;
use nra_core::source::Store;

/// The longest recovery data that is kept in memory, bytes.
const MOST_KEPT: u64 = 16 << 20;

/// Recovery data, and the tail behind it, as they were.
pub struct Trailer {
    /// Where it begins.
    start: u64,
    /// `None`: too long.
    bytes: Option<Vec<u8>>,
}

impl Trailer {
    /// Takes the recovery data that begins at `start`, if there is any and its end is whole.
    ///
    /// # Errors
    ///
    /// What reading gives, but that bytes which the medium does not give are not kept.
    pub fn of(store: &dyn Store, start: u64) -> Result<Option<Self>> {
        let Some(len) = present(store)?.filter(|geometry| geometry.protected == start).and(store.len().checked_sub(start)) else {
            return Ok(None);
        };
        let Some(len) = usize::try_from(len).ok().filter(|&len| len as u64 <= MOST_KEPT) else {
            return Ok(Some(Self { start, bytes: None }));
        };
        let mut bytes = vec![0; len];
        match store.read_exact_at(start, &mut bytes) {
            Ok(()) => Ok(Some(Self { start, bytes: Some(bytes) })),
            Err(error) if error.is_unreadable() => Ok(Some(Self { start, bytes: None })),
            Err(error) => Err(error),
        }
    }

    /// Makes the file again what it was, if that was kept. Returns whether it has recovery data now, be it damaged.
    ///
    /// # Errors
    ///
    /// What reading and writing give.
    pub fn put_back(&self, store: &dyn Store) -> Result<bool> {
        let Some(bytes) = &self.bytes else {
            // What was not written over restores the rest.
            return Ok(present(store)?.is_some() && begins(store, self.start)?.is_some());
        };
        store.write_all_at(self.start, bytes)?;
        store.truncate(self.start + bytes.len() as u64)?;
        store.sync()?;
        Ok(true)
    }
}
