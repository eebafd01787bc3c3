//! For tests: records the keys and nonces with which content is encrypted, across all writers and
//! threads.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use crate::crypt::{KEY_LEN, Keyring};

/// The uses of an archive key.
#[derive(Debug, Default)]
pub struct Sealed {
    /// Pairs of frame key and nonce.
    pairs: HashSet<([u8; 32], [u8; 12])>,
    /// Number of repeated pairs.
    pub repeats: u64,
}

impl Sealed {
    /// Returns the number of distinct pairs.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }
}

/// Records by the digest of the archive key.
static WATCHED: Mutex<Option<HashMap<[u8; 32], Sealed>>> = Mutex::new(None);

/// Digests of the keys of a frame.
#[derive(Clone)]
pub(super) struct Mark {
    archive: [u8; 32],
    frame: [u8; 32],
}

impl Mark {
    pub(super) fn new(archive: &[u8; KEY_LEN], frame: &[u8]) -> Self {
        Self { archive: *blake3::hash(archive).as_bytes(), frame: *blake3::hash(frame).as_bytes() }
    }

    /// Records a use.
    pub(super) fn seal(&self, nonce: [u8; 12]) {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sealed) = watched.as_mut().and_then(|watched| watched.get_mut(&self.archive)) {
            sealed.repeats += u64::from(!sealed.pairs.insert((self.frame, nonce)));
        }
    }
}

/// Starts to record uses of these keys.
pub fn begin(keyring: &Keyring) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.get_or_insert_default().insert(*blake3::hash(&**keyring.archive_key()).as_bytes(), Sealed::default());
}

/// Stops recording and returns the uses.
pub fn end(keyring: &Keyring) -> Sealed {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.get_or_insert_default().remove(blake3::hash(&**keyring.archive_key()).as_bytes()).unwrap_or_default()
}
