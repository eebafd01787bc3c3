//! Content of members that was decoded and may be asked for again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::format::error::Result;

/// Decoded members by number, bounded in bytes. Those who ask for the same one at the same time decode it once.
pub struct Decoded(Cache<u64, Arc<Vec<u8>>, ByLength>);

#[derive(Clone)]
struct ByLength;

impl Weighter<u64, Arc<Vec<u8>>> for ByLength {
    fn weight(&self, _: &u64, content: &Arc<Vec<u8>>) -> u64 {
        // What the cache itself keeps for an item.
        const ITEM: u64 = 64;
        content.len() as u64 + ITEM
    }
}

impl Decoded {
    /// Keeps at most `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(Cache::with_weighter(256, bytes, ByLength))
    }

    /// Returns the content of a member, decoding it if it is not kept.
    ///
    /// # Errors
    ///
    /// What `decode` gives.
    pub fn get(&self, number: u64, decode: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<Vec<u8>>> {
        self.0.get_or_insert_with(&number, || decode().map(Arc::new))
    }
}
