//! A cache of decoded values, bounded in bytes. If several threads request the same value, one
//! decodes it and the others wait.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::error::{Corruption, Result};

/// Memory that the cache needs for a value beside the value itself, bytes: key, counters, allocator
/// overhead.
const OVERHEAD: u64 = 128;
/// Number of large values that are kept whatever their size: a file may use two by turns.
const MIN_LARGE: usize = 2;

/// A value that reports its size.
pub trait Weight {
    /// Returns the memory that the value occupies, bytes.
    fn weight(&self) -> u64;
}

impl<T: Weight> Weight for Arc<T> {
    fn weight(&self) -> u64 {
        T::weight(self)
    }
}

impl Weight for Vec<u8> {
    fn weight(&self) -> u64 {
        self.capacity() as u64
    }
}

/// A value, or the damage that prevents decoding it. A damaged value is read only once.
type Decoded<V> = std::result::Result<V, Arc<Corruption>>;

#[derive(Clone)]
struct ByWeight;

impl<K, V: Weight> Weighter<K, Decoded<V>> for ByWeight {
    fn weight(&self, _: &K, decoded: &Decoded<V>) -> u64 {
        OVERHEAD + decoded.as_ref().map_or_else(|damage| damage.heap_bytes() as u64, Weight::weight)
    }
}

/// Decoded values by key.
pub struct DecodedCache<K, V: Weight> {
    values: Cache<K, Decoded<V>, ByWeight>,
    /// Weight above which a value is large, bytes.
    large_bytes: u64,
    /// Large values; the last one was used last.
    large: Mutex<VecDeque<(K, V)>>,
}

impl<K: Hash + Eq + Clone, V: Weight + Clone> DecodedCache<K, V> {
    /// Returns a cache of at most `capacity_bytes`. `typical_bytes` is the usual size of a value.
    ///
    /// Content is read from block to block: a new block is as likely to be needed as one that was
    /// used often.
    pub fn new(capacity_bytes: u64, typical_bytes: u64) -> Self {
        Self::with_hot_share(capacity_bytes, typical_bytes, 0.5)
    }

    /// Returns a cache as [`DecodedCache::new`] does that prefers frequently used values.
    pub fn for_random_access(capacity_bytes: u64, typical_bytes: u64) -> Self {
        Self::with_hot_share(capacity_bytes, typical_bytes, 0.8)
    }

    /// Returns a cache with `hot_share` of its capacity for frequently used values. A value larger
    /// than that is not cached.
    fn with_hot_share(capacity_bytes: u64, typical_bytes: u64, hot_share: f64) -> Self {
        let values = usize::try_from(capacity_bytes / typical_bytes.max(1)).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            // A single shard: the capacity is divided among shards, which would lower the largest
            // value that fits. Decoding holds no lock.
            .shards(1)
            .estimated_items_capacity(values.clamp(16, 1 << 16))
            .weight_capacity(capacity_bytes)
            .hot_allocation(hot_share)
            .build()
            .expect("both capacities are given");
        let values = Cache::with_options(options, ByWeight, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { values, large_bytes: u64::MAX, large: Mutex::default() }
    }

    /// Also keeps large values, from an eighth of the capacity on: the last two, and more up to the
    /// capacity. Otherwise, reading the entries of a large block one after another would decode it
    /// for each entry.
    #[must_use]
    pub fn with_large_values(self) -> Self {
        let large_bytes = self.values.capacity() / 8;
        Self { large_bytes, ..self }
    }

    /// Returns a value if it is cached.
    pub fn get(&self, key: &K) -> Option<V> {
        self.values.get(key).and_then(std::result::Result::ok).or_else(|| self.get_large(key))
    }

    /// Adds a value.
    pub fn insert(&self, key: K, value: V) {
        self.values.insert(key, Ok(value));
    }

    /// Returns a value, decoding it if it is not cached.
    ///
    /// # Errors
    ///
    /// Those of `decode`. `Corrupt` errors are cached, others are not.
    pub fn get_or_decode(&self, key: &K, decode: impl FnOnce() -> Result<V>) -> Result<V> {
        let decoded = self.values.get_or_insert_with(key, || match self.get_large(key).map_or_else(decode, Ok) {
            Ok(value) => {
                // Threads that wait for a value find it even if it exceeds the capacity.
                self.keep_large(key, &value);
                Ok(Ok(value))
            }
            Err(error) => Corruption::of(&error).map(|damage| Err(Arc::new(damage))).ok_or(error),
        })?;
        let value = decoded.map_err(|damage| damage.error())?;
        self.keep_large(key, &value);
        Ok(value)
    }

    fn large(&self) -> MutexGuard<'_, VecDeque<(K, V)>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_large(&self, key: &K) -> Option<V> {
        if self.large_bytes == u64::MAX {
            return None;
        }
        self.large().iter().find(|(of, _)| of == key).map(|(_, value)| value.clone())
    }

    /// Keeps a value, if it is large, until others take its place.
    fn keep_large(&self, key: &K, value: &V) {
        if value.weight() <= self.large_bytes {
            return;
        }
        let mut large = self.large();
        large.retain(|(of, _)| of != key);
        large.push_back((key.clone(), value.clone()));
        let mut bytes: u64 = large.iter().map(|(_, value)| value.weight()).sum();
        while large.len() > MIN_LARGE && bytes > self.values.capacity() {
            bytes -= large.pop_front().map_or(0, |(_, value)| value.weight());
        }
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
    fn last_large_values_are_kept_on_request() {
        let keys = [1, 1, 2, 1, 2, 3, 2, 1, 3];
        let with = |capacity: u64| cache(capacity).with_large_values();
        for (cache, expected) in [
            (cache(1 << 20), &keys[..]),
            // Two values whatever their size.
            (with(1 << 20), &[1, 2, 3, 1, 3]),
            // All values up to the capacity.
            (with(16 << 20), &[1, 2, 3]),
        ] {
            let mut decoded = Vec::new();
            for key in keys {
                let decode = || {
                    decoded.push(key);
                    Ok(Arc::new(vec![0; 3 << 20]))
                };
                cache.get_or_decode(&key, decode).unwrap();
            }
            assert_eq!(decoded, expected);
        }
    }

    #[test]
    fn large_values_are_bounded_and_shared_by_threads() {
        let cache = cache(8 << 20).with_large_values();
        let decoded = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let decode = || {
                        decoded.fetch_add(1, Ordering::Relaxed);
                        Ok(Arc::new(vec![0; 7 << 20]))
                    };
                    cache.get_or_decode(&0, decode).unwrap();
                });
            }
        });
        for key in 1..20 {
            cache.get_or_decode(&key, || Ok(Arc::new(vec![0; 2 << 20]))).unwrap();
        }
        let large = cache.large();
        assert_eq!(large.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [16, 17, 18, 19]);
        assert_eq!(decoded.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn damage_is_cached() {
        let cache = cache(1000);
        let damaged = |detail: &'static str| cache.get_or_decode(&1, || Err(Error::corrupt("block", 9, detail))).unwrap_err();
        assert_eq!(damaged("first").to_string(), "block at offset 9 is damaged: first");
        assert_eq!(damaged("second").to_string(), "block at offset 9 is damaged: first");
        assert!(cache.get(&1).is_none());
    }

    #[test]
    fn other_errors_and_oversized_values_are_not_cached() {
        let cache = cache(1000);
        assert!(cache.get_or_decode(&1, || Err(Error::Cancelled)).is_err());
        assert!(cache.get(&1).is_none());
        assert_eq!(cache.get_or_decode(&1, || Ok(Arc::new(vec![0; 2000]))).unwrap().len(), 2000);
        assert!(cache.get(&1).is_none());
        assert_eq!(cache.get_or_decode(&1, || Ok(Arc::new(vec![0; 10]))).unwrap().len(), 10);
        assert!(cache.get(&1).is_some());
    }
}
