//! What was decoded and may be needed again, bounded in bytes. Readers of one thing at one time decode it once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::directory::Pieces;
use crate::reader::base::{ChunkNode, HeldBlock};
use crate::reader::blocks::{Block, Fetched};
use crate::reader::key::Key;
use crate::reader::map::MapNode;
use crate::reader::tree::Node;
use nra_core::codec::Dictionary;
use nra_core::error::{Error, Result};

/// Decoded structures other than content.
#[derive(Clone)]
pub(super) enum Structure {
    Node(Arc<Node>),
    MapNode(Arc<MapNode>),
    Pieces(Arc<Pieces>),
    Dictionary(Arc<Dictionary>),
    ChunkNode(Arc<ChunkNode>),
    HeldBlock(Arc<HeldBlock>),
}

/// Memory beside the value itself, bytes: key, counters, heads of allocations.
const ITEM: u64 = 128;

#[derive(Clone)]
pub(super) struct Weigh;

impl Weighter<Key, Structure> for Weigh {
    fn weight(&self, _: &Key, structure: &Structure) -> u64 {
        ITEM + match structure {
            Structure::Node(node) => node.weight(),
            Structure::MapNode(node) => node.weight(),
            Structure::Pieces(pieces) => pieces.heap_bytes() as u64,
            Structure::ChunkNode(node) => node.weight(),
            Structure::HeldBlock(block) => block.weight(),
            // The decoding tables take about as much again.
            Structure::Dictionary(dictionary) => 2 * dictionary.as_bytes().len() as u64 + (32 << 10),
        }
    }
}

impl Weighter<Key, Fetched> for Weigh {
    fn weight(&self, _: &Key, content: &Fetched) -> u64 {
        ITEM + match content {
            Fetched::Good(block) => block.weight(),
            Fetched::Damaged(flaw) => flaw.heap_bytes() as u64,
        }
    }
}

/// One kind of decoded structure.
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

decoded!(Node, MapNode, Pieces, Dictionary, ChunkNode, HeldBlock);

/// Large blocks kept at most.
const MAX_LARGE: usize = 8;

/// The caches of one reader.
pub(super) struct Caches {
    parts: Cache<Key, Structure, Weigh>,
    pub(super) contents: Cache<Key, Fetched, Weigh>,
    /// Raw length from which on `contents` may not keep a block, bytes.
    large_len: u64,
    /// The last such block of each thread. Going through its entries would otherwise decode it for each of them.
    large: Mutex<VecDeque<(ThreadId, Key, Arc<Block>)>>,
}

impl Caches {
    /// Creates caches that together hold up to `bytes`: a quarter for pages, the rest for content.
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

    /// Says whether a block of this raw length is kept by [`Caches::keep_large`].
    pub(super) fn is_large(&self, raw_len: u32) -> bool {
        u64::from(raw_len) > self.large_len
    }

    /// Returns a large block that a thread has read last.
    pub(super) fn large(&self, key: &Key) -> Option<Arc<Block>> {
        let large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        large.iter().find(|(_, of, _)| of == key).map(|(_, _, block)| Arc::clone(block))
    }

    /// Keeps a large block until this thread reads another one.
    pub(super) fn keep_large(&self, key: Key, block: &Arc<Block>) {
        let thread = std::thread::current().id();
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        large.retain(|(by, _, _)| *by != thread);
        if large.len() >= MAX_LARGE {
            large.pop_front();
        }
        large.push_back((thread, key, Arc::clone(block)));
    }

    /// Returns what is kept under `key`.
    pub(super) fn get<T: Decoded>(&self, key: &Key) -> Option<Arc<T>> {
        self.parts.get(key).and_then(T::unwrap)
    }

    /// Returns what is kept under `key`, or loads and keeps it, once for all who want it.
    pub(super) fn get_or_load<T: Decoded>(&self, key: Key, load: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let part = self.parts.get_or_insert_with(&key, || load().map(|decoded| T::wrap(Arc::new(decoded))))?;
        T::unwrap(part).ok_or_else(|| Error::corrupt("frame", key.offset, "it is referred to as two different structures"))
    }

    /// Returns content that is kept under `key`, if it is good.
    pub(super) fn good(&self, key: &Key) -> Option<Arc<Block>> {
        self.contents.get(key).and_then(|content| if let Fetched::Good(block) = content { Some(block) } else { None })
    }
}

fn cache<V: Clone>(bytes: u64, usual: u64) -> Cache<Key, V, Weigh>
where
    Weigh: Weighter<Key, V>,
{
    let options = OptionsBuilder::new()
        // One shard: each more would lower the largest value that fits. Hits only take a shared lock.
        .shards(1)
        .estimated_items_capacity(usize::try_from(bytes / usual).unwrap_or(usize::MAX).max(16))
        .weight_capacity(bytes)
        // Extraction goes on from block to block: what is new counts as much as what was used often.
        .hot_allocation(0.8)
        .build()
        .expect("both capacities are given");
    Cache::with_options(options, Weigh, DefaultHashBuilder::default(), DefaultLifecycle::default())
}
