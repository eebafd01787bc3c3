//! A cache of decoded blocks, bounded in bytes. If several threads request the same block, one decodes it and the others wait.

use std::hash::Hash;
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::error::Result;

/// Memory that the cache needs for a value beside the value itself, bytes: key, counters, allocator overhead.
const OVERHEAD: u64 = 64;

/// A value that reports its size.
pub trait Weight {
    /// Returns the memory that the value occupies, bytes.
    fn weight(&self) -> u64;
}

impl Weight for Arc<Vec<u8>> {
    fn weight(&self) -> u64 {
        self.len() as u64
    }
}

#[derive(Clone)]
struct ByWeight;

impl<K, V: Weight> Weighter<K, V> for ByWeight {
    fn weight(&self, _: &K, value: &V) -> u64 {
        value.weight() + OVERHEAD
    }
}

/// Decoded values by key.
pub struct DecodedCache<K, V: Weight>(Cache<K, V, ByWeight>);

impl<K: Hash + Eq + Clone, V: Weight + Clone> DecodedCache<K, V> {
    /// Returns a cache of at most `capacity_bytes`. `typical_bytes` is the usual size of a value.
    pub fn new(capacity_bytes: u64, typical_bytes: u64) -> Self {
        let values = usize::try_from(capacity_bytes / typical_bytes.max(1)).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            // A single shard: the capacity is divided among shards, which would lower the largest value that fits. Decoding holds no lock.
            .shards(1)
            .estimated_items_capacity(values.clamp(16, 1 << 16))
            .weight_capacity(capacity_bytes)
            // Archives are read from block to block: a new block is as likely to be needed as one that was used often.
            .hot_allocation(0.5)
            .build()
            .expect("both capacities are given");
        Self(Cache::with_options(options, ByWeight, DefaultHashBuilder::default(), DefaultLifecycle::default()))
    }

    /// Returns a value if it is cached.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    /// Returns a value, decoding it if it is not cached.
    ///
    /// # Errors
    ///
    /// Those of `decode`. Errors are not cached.
    pub fn get_or_decode(&self, key: &K, decode: impl FnOnce() -> Result<V>) -> Result<V> {
        self.0.get_or_insert_with(key, decode)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Barrier, Mutex};

    use super::*;
    use crate::error::Error;

    fn cache(capacity: u64) -> DecodedCache<u64, Arc<Vec<u8>>> {
        DecodedCache::new(capacity, 1 << 20)
    }

    #[test]
    fn value_of_half_the_capacity_is_cached() {
        let cache = cache(16 << 20);
        let decoded = AtomicU32::new(0);
        for key in 0..6 {
            for _ in 0..20 {
                let decode = || {
                    decoded.fetch_add(1, Ordering::Relaxed);
                    Ok(Arc::new(vec![0; 7 << 20]))
                };
                assert_eq!(cache.get_or_decode(&key, decode).unwrap().len(), 7 << 20);
            }
        }
        assert_eq!(decoded.into_inner(), 6);
    }

    #[test]
    fn threads_decode_a_value_once() {
        let cache = cache(16 << 20);
        let (decoded, start) = (Mutex::new(0), Barrier::new(4));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let decode = || {
                        *decoded.lock().unwrap() += 1;
                        Ok(Arc::new(vec![7]))
                    };
                    assert_eq!(*cache.get_or_decode(&1, decode).unwrap(), [7]);
                });
            }
        });
        assert_eq!(decoded.into_inner().unwrap(), 1);
    }

    #[test]
    fn errors_and_oversized_values_are_not_cached() {
        let cache = cache(1000);
        assert!(cache.get_or_decode(&1, || Err(Error::Cancelled)).is_err());
        assert!(cache.get(&1).is_none());
        assert_eq!(cache.get_or_decode(&1, || Ok(Arc::new(vec![0; 2000]))).unwrap().len(), 2000);
        assert!(cache.get(&1).is_none());
        assert_eq!(cache.get_or_decode(&1, || Ok(Arc::new(vec![0; 10]))).unwrap().len(), 10);
        assert!(cache.get(&1).is_some());
    }
}
