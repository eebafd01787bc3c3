//! Content of members that was decoded and may be asked for again.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::error::Result;

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
        let options = OptionsBuilder::new()
            // One shard: each more would lower the largest member that fits. Decoding takes no lock.
            .shards(1)
            .estimated_items_capacity(256)
            .weight_capacity(bytes)
            // Whoever goes from member to member needs the new one more than those behind.
            .hot_allocation(0.5)
            .build()
            .expect("both capacities are given");
        Self(Cache::with_options(options, ByLength, DefaultHashBuilder::default(), DefaultLifecycle::default()))
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_half_as_long_as_all_there_is_is_kept() {
        let decoded = Decoded::new(16 << 20);
        let count = Cell::new(0);
        for number in 0..6 {
            for _ in 0..20 {
                let decode = || {
                    count.set(count.get() + 1);
                    Ok(vec![0; 7 << 20])
                };
                assert_eq!(decoded.get(number, decode).unwrap().len(), 7 << 20);
            }
        }
        assert_eq!(count.get(), 6);
    }
}
