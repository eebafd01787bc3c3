//! Caches decoded folders.
//!
//! Small folders are decoded whole by the calling thread. Large folders are decoded in blocks by
//! threads of their own. Such a decoder only moves forward: its blocks are cached, and then it
//! waits for the next reader. So reading all members in order decodes each folder once. A reader
//! far from all decoders starts a new one.

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
const MAX_WHOLE_LEN: u64 = 8 << 20;
/// Minimum capacity of the cache, bytes: some blocks, for readers that are near each other.
const MIN_CACHE: u64 = 4 * BLOCK;
/// Blocks that a thread decodes ahead.
const AHEAD: usize = 2;
/// Most idle decoders; each has a dictionary.
const MAX_IDLE: usize = 8;

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
    /// A reader waits for a decoder that is at most this number of blocks away.
    near: u64,
    decoders: Mutex<Decoders>,
    /// Signals that a decoder has stopped moving.
    stopped: Condvar,
    damaged: Mutex<HashMap<usize, DamagedFolder>>,
}

/// The damage of a folder. Its content past the damage is not decoded again.
struct DamagedFolder {
    /// Bytes before the damage.
    valid: u64,
    corruption: Corruption,
}

/// Numbers of a folder and of a block in it.
type Key = (usize, u64);

#[derive(Default)]
struct Decoders {
    /// Decoders that wait for a reader; the last one was used last.
    idle: Vec<FolderDecoder>,
    /// Folder, first block and requested block of the moving decoders.
    moving: Vec<(usize, u64, u64)>,
}

/// A decoder that moves. When it is dropped, also by a panic, the waiting readers continue.
struct Moving<'a> {
    folders: &'a Folders,
    path: (usize, u64, u64),
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut decoders = self.folders.decoders();
        if let Some(at) = decoders.moving.iter().position(|path| *path == self.path) {
            decoders.moving.swap_remove(at);
        }
        self.folders.stopped.notify_all();
    }
}

/// A decoder at the start of block `at`.
struct FolderDecoder {
    folder: usize,
    at: u64,
    blocks: WorkerPool<'static, OneFolder, Result<Vec<u8>>>,
}

impl Folders {
    /// Returns the folders of an archive with a cache of `cache_bytes`.
    pub fn new(streams: Arc<Streams>, source: Arc<dyn ReadAt>, base: u64, decoding: Decoding, cache_bytes: u64) -> Self {
        let cache_bytes = cache_bytes.max(MIN_CACHE);
        Self {
            streams,
            source,
            base,
            decoding,
            decoded: DecodedCache::new(cache_bytes, BLOCK),
            whole_len: MAX_WHOLE_LEN.min(cache_bytes / 4),
            near: cache_bytes / BLOCK / 4,
            decoders: Mutex::default(),
            stopped: Condvar::new(),
            damaged: Mutex::default(),
        }
    }

    /// Passes `len` bytes of a folder from `offset` to `sink`.
    pub fn read(&self, folder: usize, offset: u64, len: u64, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let size = self.streams.folders[folder].size;
        let end = offset + len;
        if size <= self.whole_len {
            if offset == 0 && len == size {
                // The folder has a single member.
                return self.decode(folder, sink);
            }
            let content = self.decoded.get_or_decode(&(folder, 0), || {
                let mut content = Vec::new();
                let result = self.decode(folder, &mut |bytes| {
                    content.extend_from_slice(bytes);
                    Ok(())
                });
                // Content before the damage is served.
                match self.record_damage(folder, content.len() as u64, result) {
                    Ok(()) | Err(Error::Corrupt { .. }) => Ok(Arc::new(content)),
                    Err(error) => Err(error),
                }
            })?;
            return match content.get(to_usize(offset)..to_usize(end)) {
                Some(bytes) => sink(bytes),
                None => Err(self.damage(folder, end).unwrap_or_else(|| self.truncated(folder))),
            };
        }
        let mut at = offset;
        while at < end {
            let block = self.block(folder, at / BLOCK)?;
            let start = to_usize(at % BLOCK);
            let len = to_usize(end - at).min(block.len().saturating_sub(start));
            if len == 0 {
                return Err(self.damage(folder, end).unwrap_or_else(|| self.truncated(folder)));
            }
            sink(&block[start..start + len])?;
            at += len as u64;
        }
        Ok(())
    }

    fn truncated(&self, folder: usize) -> Error {
        Error::corrupt("7z folder", self.place(folder), "it is truncated")
    }

    /// Records damage that follows `valid` bytes.
    fn record_damage(&self, folder: usize, valid: u64, result: Result<()>) -> Result<()> {
        if let Some(corruption) = result.as_ref().err().and_then(Corruption::of) {
            let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
            damaged.entry(folder).or_insert(DamagedFolder { valid, corruption });
        }
        result
    }

    /// Returns the known damage of a folder before `end`.
    fn damage(&self, folder: usize, end: u64) -> Option<Error> {
        let damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        let DamagedFolder { valid, corruption } = damaged.get(&folder)?;
        (end > *valid).then(|| corruption.error())
    }

    /// Returns the offset of a folder's packed streams in the file.
    pub fn place(&self, folder: usize) -> u64 {
        self.streams.place(folder, self.base)
    }

    /// Decodes a whole folder.
    fn decode(&self, folder: usize, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        decode(self.streams.file(&self.streams.folders[folder], &self.source, self.base), &self.decoding, sink)
    }

    fn decoders(&self) -> MutexGuard<'_, Decoders> {
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, folder: usize, number: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(error) = self.damage(folder, number * BLOCK + 1) {
            return Err(error);
        }
        let mut decoders = self.decoders();
        let mut decoder = loop {
            if let Some(block) = self.decoded.get(&(folder, number)) {
                return Ok(block);
            }
            let is_near =
                |&(of, from, to): &(usize, u64, u64)| of == folder && from <= number && number <= to.saturating_add(self.near);
            if !decoders.moving.iter().any(is_near) {
                break decoders.take_nearest(folder, number);
            }
            decoders = self.stopped.wait(decoders).unwrap_or_else(PoisonError::into_inner);
        };
        let from = decoder.as_ref().map_or(0, |decoder| decoder.at);
        let path = (folder, from, number);
        decoders.moving.push(path);
        drop(decoders);
        let _moving = Moving { folders: self, path };
        let found = self.move_to(&mut decoder, folder, number);
        if let Some(decoder) = decoder.filter(|_| found.is_ok()) {
            let mut decoders = self.decoders();
            if decoders.idle.len() == MAX_IDLE {
                decoders.idle.remove(0);
            }
            decoders.idle.push(decoder);
        }
        found
    }

    /// Moves a decoder, or a new one, past a block and returns that block.
    fn move_to(&self, decoder: &mut Option<FolderDecoder>, folder: usize, number: u64) -> Result<Arc<Vec<u8>>> {
        if decoder.is_none() {
            *decoder = Some(self.start(folder)?);
        }
        let size = self.streams.folders[folder].size;
        loop {
            let current = decoder.as_mut().expect("it was started");
            let block = match current.blocks.receive() {
                Some(Ok(block)) => Arc::new(block),
                Some(Err(error)) => {
                    let valid = current.at * BLOCK;
                    return self.record_damage(folder, valid, Err(error)).map(|()| Arc::default());
                }
                // The folder is shorter than declared; the reader reports it.
                None => Arc::default(),
            };
            let at = current.at;
            current.at += 1;
            if current.at.saturating_mul(BLOCK) >= size {
                *decoder = None;
            }
            self.decoded.insert((folder, at), Arc::clone(&block));
            if at == number || block.is_empty() || decoder.is_none() {
                return Ok(if at == number { block } else { Arc::new(Vec::new()) });
            }
        }
    }

    fn start(&self, folder: usize) -> Result<FolderDecoder> {
        let decoding = self.decoding.clone();
        let new_worker = move || {
            let decoding = decoding.clone();
            move |file: OneFolder, output: JobOutput<Result<Vec<u8>>>| {
                let mut block = Vec::new();
                let full = to_usize(BLOCK);
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
                // Content before the damage is served. The receiver is gone if the decoder was dropped.
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
        Ok(FolderDecoder { folder, at: 0, blocks })
    }
}

impl Decoders {
    /// Takes the idle decoder that is nearest to a block.
    fn take_nearest(&mut self, folder: usize, number: u64) -> Option<FolderDecoder> {
        let precedes = |decoder: &&FolderDecoder| decoder.folder == folder && decoder.at <= number;
        let nearest = self.idle.iter().filter(precedes).map(|decoder| decoder.at).max()?;
        let at = self.idle.iter().position(|decoder| decoder.folder == folder && decoder.at == nearest)?;
        Some(self.idle.remove(at))
    }
}

fn to_usize(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::put_number;
    use nra_core::wire::Cursor;

    /// A source on which decoders panic, as they may on hostile input.
    struct Panicking;

    impl ReadAt for Panicking {
        fn len(&self) -> u64 {
            1 << 30
        }

        fn name(&self) -> &[u8] {
            b"panicking"
        }

        fn read_exact_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("expected by this test")
        }
    }

    /// Returns the only folder of an archive: `len` bytes without compression.
    fn folders(source: Arc<dyn ReadAt>, len: u64) -> Folders {
        let mut text = vec![6, 0, 1, 9];
        put_number(&mut text, len);
        text.extend([0, 7, 0x0b, 1, 0, 1, 1, 0, 0x0c]);
        put_number(&mut text, len);
        text.extend([0, 0]);
        let streams = Streams::parse(&mut Cursor::new(&text), &text, len).ok().unwrap();
        Folders::new(Arc::new(streams), source, 0, Decoding { memory: 1 << 20, key: None }, MIN_CACHE)
    }

    fn assert_damaged(folders: &Folders, offset: u64) {
        let error = folders.read(0, offset, 10, &mut |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Corrupt { structure: "7z folder", .. }), "{error}");
    }

    #[test]
    fn panic_of_a_decoder_is_damage_for_all_readers() {
        for len in [BLOCK / 2, 3 * BLOCK] {
            let (folders, start) = (folders(Arc::new(Panicking), len), Barrier::new(2));
            std::thread::scope(|scope| {
                for offset in [0, len / 3] {
                    let (folders, start) = (&folders, &start);
                    scope.spawn(move || {
                        start.wait();
                        assert_damaged(folders, offset);
                    });
                }
            });
            assert_damaged(&folders, 0);
        }
    }

    #[test]
    fn panic_of_a_reader_ends_its_move() {
        let folders = folders(Arc::new(Panicking), 3 * BLOCK);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            folders.decoders().moving.push((0, 0, 2));
            let _moving = Moving { folders: &folders, path: (0, 0, 2) };
            panic!("expected by this test");
        }));
        assert!(panic.is_err());
        assert_damaged(&folders, 0);
    }
}
