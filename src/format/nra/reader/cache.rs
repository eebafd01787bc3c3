//! Caches of decoded structures, limited in bytes. Concurrent readers of a structure decode it
//! once.

use std::sync::Arc;

use crate::block_index::ChunkList;
use crate::reader::base::{CachedChunkPage, IndexedBlock};
use crate::reader::blocks::Block;
use crate::reader::cache_key::CacheKey;
use crate::reader::entry_tree::TreePage;
use crate::reader::extent_map::CachedMapPage;
use nra_core::cache::{DecodedCache, Weight};
use nra_core::codec::Dictionary;
use nra_core::error::Result;

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

impl Weight for Structure {
    fn weight(&self) -> u64 {
        match self {
            Self::TreePage(node) => node.weight(),
            Self::CachedMapPage(node) => node.weight(),
            Self::ChunkList(chunks) => chunks.heap_bytes() as u64,
            Self::CachedChunkPage(node) => node.weight(),
            Self::IndexedBlock(block) => block.weight(),
            // The decoding tables take about the same memory again.
            Self::Dictionary(dictionary) => 2 * dictionary.as_bytes().len() as u64 + (32 << 10),
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

/// The caches of one reader.
pub(super) struct Caches {
    structures: DecodedCache<CacheKey, Structure>,
    pub(super) contents: DecodedCache<CacheKey, Arc<Block>>,
}

impl Caches {
    /// Creates caches for `bytes` in total: a quarter for structures, the rest for content.
    pub(super) fn new(bytes: u64) -> Self {
        let structures = bytes / 4;
        Self {
            structures: DecodedCache::for_random_access(structures, 64 << 10),
            contents: DecodedCache::for_random_access(bytes - structures, 256 << 10).with_large_values(),
        }
    }

    /// Returns the cached structure, if there is one.
    pub(super) fn get<T: Decoded>(&self, key: &CacheKey) -> Option<Arc<T>> {
        self.structures.get(key).and_then(T::unwrap)
    }

    /// Returns the cached structure, or loads it once for all threads that need it.
    pub(super) fn get_or_load<T: Decoded>(&self, key: CacheKey, load: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let structure = self.structures.get_or_decode(&key, || load().map(|decoded| T::wrap(Arc::new(decoded))))?;
        Ok(T::unwrap(structure).expect("the key determines the type"))
    }
}
