//! A cache of open handles of directories.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

/// A bounded number of open handles. The oldest one is evicted first.
#[derive(Debug)]
pub(crate) struct HandleCache<K> {
    open: Mutex<Open<K>>,
    limit: usize,
}

#[derive(Debug)]
struct Open<K> {
    by_key: HashMap<K, Arc<OwnedFd>>,
    oldest_first: VecDeque<K>,
}

impl<K: Copy + Eq + Hash> HandleCache<K> {
    /// Creates an empty cache. Its limit is a quarter of the files that the process may open, at
    /// most `max`.
    pub(crate) fn new(max: u64) -> Self {
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from((allowed / 4).clamp(1, max)).unwrap_or(usize::MAX);
        Self { open: Mutex::new(Open { by_key: HashMap::new(), oldest_first: VecDeque::new() }), limit }
    }

    /// Returns a handle.
    pub(crate) fn get(&self, key: K) -> Option<Arc<OwnedFd>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(&key).cloned()
    }

    /// Adds a handle.
    pub(crate) fn insert(&self, key: K, handle: Arc<OwnedFd>) {
        // Bound to a variable, so that the handle is closed after the lock is released: closing
        // takes longer than the rest.
        let _replaced = self.replace(key, handle);
    }

    /// Adds a handle. Returns the replaced or evicted one.
    fn replace(&self, key: K, handle: Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = open.by_key.insert(key, handle);
        if replaced.is_some() {
            return replaced;
        }
        open.oldest_first.push_back(key);
        if open.oldest_first.len() <= self.limit {
            return None;
        }
        let oldest = open.oldest_first.pop_front()?;
        open.by_key.remove(&oldest)
    }

    /// Removes the handles whose keys `keep` rejects.
    pub(crate) fn retain(&mut self, keep: impl Fn(K) -> bool) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        open.by_key.retain(|key, _| keep(*key));
        open.oldest_first.retain(|key| keep(*key));
    }
}
