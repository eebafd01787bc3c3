//! Caches of decoded structures, limited in bytes. Concurrent readers of a structure decode it
//! once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::block_index::ChunkList;
use crate::reader::base::{CachedChunkPage, IndexedBlock};
use crate::reader::blocks::{Block, Fetched};
use crate::reader::cache_key::CacheKey;
use crate::reader::entry_tree::TreePage;
use crate::reader::extent_map::CachedMapPage;
use nra_core::codec::Dictionary;
use nra_core::error::{Error, Result};

/// Decoded structures other than content.
#[derive(Clone)]
pub(super) enum Structure {
    TreePage(Arc<TreePage>),
    CachedMapPage(Arc<CachedMapPage>),
    ChunkList(Arc<ChunkList>),
    Dictionary(Arc<Dictionary>),
    CachedChunkPage(Arc<CachedChunkPage>),
    IndexedBlock(Arc<IndexedBlock>),
}

/// Memory per cached value in addition to the value itself, bytes: key, counters, allocator
/// overhead.
const ITEM: u64 = 128;

#[derive(Clone)]
pub(super) struct Weigh;

impl Weighter<CacheKey, Structure> for Weigh {
    fn weight(&self, _: &CacheKey, structure: &Structure) -> u64 {
        ITEM + match structure {
            Structure::TreePage(node) => node.weight(),
            Structure::CachedMapPage(node) => node.weight(),
            Structure::ChunkList(chunks) => chunks.heap_bytes() as u64,
            Structure::CachedChunkPage(node) => node.weight(),
            Structure::IndexedBlock(block) => block.weight(),
            // The decoding tables take about the same memory again.
            Structure::Dictionary(dictionary) => 2 * dictionary.as_bytes().len() as u64 + (32 << 10),
        }
    }
}

impl Weighter<CacheKey, Fetched> for Weigh {
    fn weight(&self, _: &CacheKey, content: &Fetched) -> u64 {
        ITEM + match content {
            Fetched::Good(block) => block.weight(),
            Fetched::Damaged(flaw) => flaw.heap_bytes() as u64,
        }
    }
}

/// A type of decoded structure.
pub(super) trait Decoded: Sized {
    fn wrap(decoded: Arc<Self>) -> Structure;
    fn unwrap(part: Structure) -> Option<Arc<Self>>;
}

macro_rules! decoded {
    ($($kind:ident),*) => {$(
        impl Decoded for $kind {
            fn wrap(decoded: Arc<Self>) -> Structure {
                Structure::$kind(decoded)
            }
            fn unwrap(part: Structure) -> Option<Arc<Self>> {
                if let Structure::$kind(decoded) = part { Some(decoded) } else { None }
            }
        }
    )*};
}

decoded!(TreePage, CachedMapPage, ChunkList, Dictionary, CachedChunkPage, IndexedBlock);

/// Most large blocks that are kept.
const MAX_LARGE: usize = 8;

/// The caches of one reader.
pub(super) struct Caches {
    parts: Cache<CacheKey, Structure, Weigh>,
    pub(super) contents: Cache<CacheKey, Fetched, Weigh>,
    /// Raw length above which `contents` may not keep a block, bytes.
    large_len: u64,
    /// The last large block of each thread. Without it, reading the entries of such a block would
    /// decode it for each entry.
    large: Mutex<VecDeque<(ThreadId, CacheKey, Arc<Block>)>>,
}

impl Caches {
    /// Creates caches for `bytes` in total: a quarter for pages, the rest for content.
    pub(super) fn new(bytes: u64) -> Self {
        let parts = bytes / 4;
        let contents = bytes - parts;
        Self {
            parts: cache(parts, 64 << 10),
            contents: cache(contents, 256 << 10),
            large_len: contents / 8,
            large: Mutex::default(),
        }
    }

    /// Returns whether a block of this raw length is kept by [`Caches::keep_large`].
    pub(super) fn is_large(&self, raw_len: u32) -> bool {
        u64::from(raw_len) > self.large_len
    }

    /// Returns a large block that any thread read last.
    pub(super) fn large(&self, key: &CacheKey) -> Option<Arc<Block>> {
        let large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        large.iter().find(|(_, of, _)| of == key).map(|(_, _, block)| Arc::clone(block))
    }

    /// Keeps a large block until this thread reads another large one.
    pub(super) fn keep_large(&self, key: CacheKey, block: &Arc<Block>) {
        let thread = std::thread::current().id();
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        large.retain(|(by, _, _)| *by != thread);
        if large.len() >= MAX_LARGE {
            large.pop_front();
        }
        large.push_back((thread, key, Arc::clone(block)));
    }

    /// Returns the cached structure, if there is one.
    pub(super) fn get<T: Decoded>(&self, key: &CacheKey) -> Option<Arc<T>> {
        self.parts.get(key).and_then(T::unwrap)
    }

    /// Returns the cached structure, or loads it once for all threads that need it.
    pub(super) fn get_or_load<T: Decoded>(&self, key: CacheKey, load: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let part = self.parts.get_or_insert_with(&key, || load().map(|decoded| T::wrap(Arc::new(decoded))))?;
        T::unwrap(part).ok_or_else(|| Error::corrupt("frame", key.offset, "it is referred to as two different structures"))
    }

    /// Returns cached content, if it is undamaged.
    pub(super) fn good(&self, key: &CacheKey) -> Option<Arc<Block>> {
        self.contents.get(key).and_then(|content| if let Fetched::Good(block) = content { Some(block) } else { None })
    }
}

fn cache<V: Clone>(bytes: u64, usual: u64) -> Cache<CacheKey, V, Weigh>
where
    Weigh: Weighter<CacheKey, V>,
{
    let options = OptionsBuilder::new()
        // One shard: several would lower the size of the largest value that fits. A hit only takes
        // a shared lock.
        .shards(1)
        .estimated_items_capacity(usize::try_from(bytes / usual).unwrap_or(usize::MAX).max(16))
        .weight_capacity(bytes)
        // Extraction proceeds from block to block, so new values count as much as frequently used
        // ones.
        .hot_allocation(0.8)
        .build()
        .expect("both capacities are given");
    Cache::with_options(options, Weigh, DefaultHashBuilder::default(), DefaultLifecycle::default())
}
