//! Decoded folders in memory.
//!
//! Small folders are decoded whole by whoever asks. Large ones are decoded in blocks by threads of their own, which go forward only: blocks
//! that one passes are kept, the oldest making room, and it waits where it is for the next reader. So reading all members in order decodes each
//! folder once. A reader that wants something far from all others begins anew, and both go on from where they are.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::decode::{Decoding, OneFolder, decode};
use super::streams::Streams;
use nra_core::cache::DecodedCache;
use nra_core::error::{Corruption, Error, Result};
use nra_core::source::ReadAt;
use nra_core::worker_pool::{JobOutput, PoolLimits, Stopped, WorkerPool};

/// Length of a decoded block, bytes.
pub(super) const BLOCK: u64 = 1 << 20;
/// Folders up to this length are decoded whole if the cache has room for four of them, bytes.
const WHOLE: u64 = 8 << 20;
/// Minimum capacity of the cache, bytes: some blocks, for readers that are near each other.
const MIN_CACHE: u64 = 4 * BLOCK;
/// Blocks that a thread decodes ahead.
const AHEAD: usize = 2;
/// Decoders that wait for readers; each has a dictionary.
const MAX_WAITING: usize = 8;

/// The folders of an archive.
pub(super) struct Folders {
    pub streams: Arc<Streams>,
    source: Arc<dyn ReadAt>,
    base: u64,
    decoding: Decoding,
    /// Blocks of folders. A folder that is decoded whole is a single block.
    decoded: DecodedCache<Key, Arc<Vec<u8>>>,
    /// Folders up to this length are decoded whole, bytes.
    whole_len: u64,
    /// A decoder that comes past within so many blocks is waited for.
    near: u64,
    shelf: Mutex<Shelf>,
    moved: Condvar,
    /// Folders that are damaged.
    broken: Mutex<HashMap<usize, Broken>>,
}

/// Where a folder can't be decoded further: that is not tried again for each member behind it.
struct Broken {
    /// Bytes before the damage.
    good: u64,
    flaw: Corruption,
}

/// A block of a folder: both numbers.
type Key = (usize, u64);

#[derive(Default)]
struct Shelf {
    /// Decoders that nobody moves, the one used last at the end.
    waiting: Vec<Walker>,
    /// Folder, first block and wanted block of those that are moved.
    moving: Vec<(usize, u64, u64)>,
}

/// A decoder that stands at the start of a block.
struct Walker {
    folder: usize,
    at: u64,
    blocks: WorkerPool<'static, OneFolder, Result<Vec<u8>>>,
}

impl Folders {
    /// Keeps up to `cache_bytes` of decoded content.
    pub fn new(streams: Arc<Streams>, source: Arc<dyn ReadAt>, base: u64, decoding: Decoding, cache_bytes: u64) -> Self {
        let cache_bytes = cache_bytes.max(MIN_CACHE);
        Self {
            streams,
            source,
            base,
            decoding,
            decoded: DecodedCache::new(cache_bytes, BLOCK),
            whole_len: WHOLE.min(cache_bytes / 4),
            near: cache_bytes / BLOCK / 4,
            shelf: Mutex::default(),
            moved: Condvar::new(),
            broken: Mutex::default(),
        }
    }

    /// Hands `len` bytes of a folder from `offset` on to `sink`.
    ///
    /// # Errors
    ///
    /// Those of decoding, and of `sink`.
    pub fn read(&self, folder: usize, offset: u64, len: u64, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let size = self.streams.folders[folder].size;
        let end = offset + len;
        if size <= self.whole_len {
            if offset == 0 && len == size {
                // It has one member.
                return self.decode(folder, sink);
            }
            let content = self.decoded.get_or_decode(&(folder, 0), || {
                let mut content = Vec::new();
                let result = self.decode(folder, &mut |bytes| {
                    content.extend_from_slice(bytes);
                    Ok(())
                });
                // Content before the damage is still served.
                match self.noted(folder, content.len() as u64, result) {
                    Ok(()) | Err(Error::Corrupt { .. }) => Ok(Arc::new(content)),
                    Err(error) => Err(error),
                }
            })?;
            return match content.get(within(offset)..within(end)) {
                Some(bytes) => sink(bytes),
                None => Err(self.damage(folder, end).unwrap_or_else(|| self.cut(folder))),
            };
        }
        let mut at = offset;
        while at < end {
            let block = self.block(folder, at / BLOCK)?;
            let start = within(at % BLOCK);
            let len = within(end - at).min(block.len().saturating_sub(start));
            if len == 0 {
                return Err(self.damage(folder, end).unwrap_or_else(|| self.cut(folder)));
            }
            sink(&block[start..start + len])?;
            at += len as u64;
        }
        Ok(())
    }

    fn cut(&self, folder: usize) -> Error {
        Error::corrupt("7z folder", self.place(folder), "it ends too early")
    }

    /// Remembers damage that comes behind so many good bytes.
    fn noted(&self, folder: usize, good: u64, result: Result<()>) -> Result<()> {
        if let Some(flaw) = result.as_ref().err().and_then(Corruption::of) {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.entry(folder).or_insert(Broken { good, flaw });
        }
        result
    }

    /// Returns the damage of a folder, if it is known and lies before `end`.
    fn damage(&self, folder: usize, end: u64) -> Option<Error> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let Broken { good, flaw } = broken.get(&folder)?;
        (end > *good).then(|| flaw.error())
    }

    /// Returns where the packed bytes of a folder begin in the file.
    pub fn place(&self, folder: usize) -> u64 {
        self.streams.place(folder, self.base)
    }

    /// Decodes a folder as a whole.
    fn decode(&self, folder: usize, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        decode(self.streams.file(&self.streams.folders[folder], &self.source, self.base), &self.decoding, sink)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, folder: usize, number: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(error) = self.damage(folder, number * BLOCK + 1) {
            return Err(error);
        }
        let mut shelf = self.shelf();
        let mut walker = loop {
            if let Some(block) = self.decoded.get(&(folder, number)) {
                return Ok(block);
            }
            let comes =
                |&(of, from, to): &(usize, u64, u64)| of == folder && from <= number && number <= to.saturating_add(self.near);
            if !shelf.moving.iter().any(comes) {
                break shelf.take(folder, number);
            }
            shelf = self.moved.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        };
        let from = walker.as_ref().map_or(0, |walker| walker.at);
        shelf.moving.push((folder, from, number));
        drop(shelf);
        let found = self.walk(&mut walker, folder, number);
        let mut shelf = self.shelf();
        if let Some(at) = shelf.moving.iter().position(|moving| *moving == (folder, from, number)) {
            shelf.moving.swap_remove(at);
        }
        if let Some(walker) = walker.filter(|_| found.is_ok()) {
            if shelf.waiting.len() == MAX_WAITING {
                shelf.waiting.remove(0);
            }
            shelf.waiting.push(walker);
        }
        self.moved.notify_all();
        found
    }

    /// Moves a decoder, or a new one, up to a block and returns that.
    fn walk(&self, walker: &mut Option<Walker>, folder: usize, number: u64) -> Result<Arc<Vec<u8>>> {
        if walker.is_none() {
            *walker = Some(self.start(folder)?);
        }
        let size = self.streams.folders[folder].size;
        loop {
            let current = walker.as_mut().expect("it was started");
            let block = match current.blocks.receive() {
                Some(Ok(block)) => Arc::new(block),
                Some(Err(error)) => {
                    let good = current.at * BLOCK;
                    return self.noted(folder, good, Err(error)).map(|()| Arc::default());
                }
                // It ended, which the lengths of the members tell.
                None => Arc::default(),
            };
            let at = current.at;
            current.at += 1;
            if current.at.saturating_mul(BLOCK) >= size {
                *walker = None;
            }
            self.decoded.insert((folder, at), Arc::clone(&block));
            if at == number || block.is_empty() || walker.is_none() {
                return Ok(if at == number { block } else { Arc::new(Vec::new()) });
            }
        }
    }

    fn start(&self, folder: usize) -> Result<Walker> {
        let decoding = self.decoding.clone();
        let new_worker = move || {
            let decoding = decoding.clone();
            move |file: OneFolder, output: JobOutput<Result<Vec<u8>>>| {
                let mut block = Vec::new();
                let full = within(BLOCK);
                let result = decode(file, &decoding, &mut |mut bytes| {
                    while !bytes.is_empty() {
                        let (head, rest) = bytes.split_at(bytes.len().min(full - block.len()));
                        block.extend_from_slice(head);
                        bytes = rest;
                        if block.len() == full {
                            let whole = std::mem::replace(&mut block, Vec::with_capacity(full));
                            output.send(Ok(whole)).map_err(|Stopped| Error::Cancelled)?;
                        }
                    }
                    Ok(())
                });
                // Content before the damage is still served. Nobody receives it if the decoder was dropped.
                if !block.is_empty() {
                    let _ = output.send(Ok(block));
                }
                if let Err(error) = result {
                    output.finish(Err(error));
                }
            }
        };
        let mut blocks = WorkerPool::new("7z folder", PoolLimits { results: AHEAD, ..PoolLimits::new(1, 1) }, new_worker);
        blocks.send(self.streams.file(&self.streams.folders[folder], &self.source, self.base), 0)?;
        Ok(Walker { folder, at: 0, blocks })
    }
}

impl Shelf {
    /// Takes the decoder that comes to a block soonest.
    fn take(&mut self, folder: usize, number: u64) -> Option<Walker> {
        let before = |walker: &&Walker| walker.folder == folder && walker.at <= number;
        let nearest = self.waiting.iter().filter(before).map(|walker| walker.at).max()?;
        let at = self.waiting.iter().position(|walker| walker.folder == folder && walker.at == nearest)?;
        Some(self.waiting.remove(at))
    }
}

fn within(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
