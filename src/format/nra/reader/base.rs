//! The commit that a writer builds on: its pages and the locations of its chunks.
//!
//! This reader is strict. A tree copied from a replacement for a damaged page would make the loss
//! permanent.
//!
//! Spec: nra.md, sections 9, 11, 15 and 17.

use std::sync::Arc;

use crate::block_index::ChunkList;
use crate::chunk_run::{ChunkLocation, ChunkPage};
use crate::commit::Commit;
use crate::content::{BlockRef, FrameRef};
use crate::entry_page::{Child, EntryPage};
use crate::frame::FrameKind;
use crate::reader::cache_key::CacheKey;
use crate::reader::damage::undamaged;
use crate::reader::keys::{self, Unlock};
use crate::reader::window::Window;
use crate::reader::{NraReader, frames, open};
use crate::recovery;
use crate::superblock::Superblock;
use nra_core::archive::OpenOptions;
use nra_core::codec::Codec;
use nra_core::crypt::Keyring;
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Most chunks with equal keys that are compared, and most pages that are read for one key. Few
/// digests share 40 bits unless on purpose.
const MAX_CANDIDATES: usize = 64;

/// The commit that the next one follows.
pub(crate) struct BaseCommit {
    pub superblock: Superblock,
    pub commit: Commit,
    /// Reference to the commit frame.
    pub commit_ref: FrameRef,
    /// Offset and frame length of the key frame; zeros if the archive is not encrypted.
    pub keys: (u64, u64),
    /// Length of the file including the footer.
    pub end: u64,
    /// Whether the footer is damaged although the commit is not.
    pub lost_footer: bool,
    /// Number of bytes of an unfinished append after the footer. Recovery data does not count.
    pub trailing_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredChunk {
    pub block: BlockRef,
    pub codec: Codec,
    /// Number within the block.
    pub number: u32,
    /// Offset in the block's raw payload.
    pub offset: u32,
    pub raw_len: u32,
}

/// A cached page of a chunk run.
pub(super) struct CachedChunkPage(ChunkPage);

impl CachedChunkPage {
    pub(super) fn weight(&self) -> u64 {
        match &self.0 {
            ChunkPage::Leaf(locations) => size_of_val(&**locations) as u64,
            ChunkPage::Inner(_, children) => size_of_val(&**children) as u64,
        }
    }
}

/// A block found by its offset: its reference and its chunks.
pub(super) struct IndexedBlock {
    block: BlockRef,
    codec: Codec,
    chunks: ChunkList,
}

impl IndexedBlock {
    pub(super) fn weight(&self) -> u64 {
        self.chunks.heap_bytes() as u64
    }
}

impl NraReader {
    /// Rejects a file that is not an NRA archive, damaged or not, and therefore cannot be changed.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file has another format; I/O errors.
    pub fn reject_other_formats(source: Arc<dyn ReadAt>) -> Result<()> {
        reject_other_formats(&Window::read(source)?)
    }

    /// Opens the newest finished commit of `source` for a writer.
    pub(crate) fn base(source: Arc<dyn ReadAt>, cache_bytes: u64, keyring: Option<Keyring>) -> Result<(Self, BaseCommit)> {
        let mut window = Window::read(source)?;
        reject_other_formats(&window)?;
        let keys = Unlock::Keyring(keyring.as_ref());
        keys::unlock(&mut window, keys, false)?;
        let (found, superblock) = open::for_append(&mut window, keys)?;
        let is_protected = found.trailing_remark.is_none() || recovery::find_at(window.source(), found.end)?.is_some();
        let trailing_bytes = if is_protected { 0 } else { window.file_len().saturating_sub(found.end) };
        let (commit, commit_ref, keys, end) = (found.commit.clone(), found.commit_ref, found.keys, found.end);
        let base = BaseCommit { superblock, commit, commit_ref, keys, end, lost_footer: !found.has_footer, trailing_bytes };
        let options = OpenOptions { cache_bytes, recover: false, ..OpenOptions::default() };
        Ok((Self::open_commit(window, found, &options, true)?, base))
    }

    /// Reads a page of the entry tree. `upper` is the next key.
    pub(crate) fn entry_page(&self, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<EntryPage> {
        let page = frames::parse(&self.window, FrameKind::EntryPage, child.page, EntryPage::parse)?;
        let below = page.below();
        let checked = child.check(below, level).and_then(|()| child.check_position(page.ends(), below.level, upper));
        checked.map(|()| page).map_err(|detail| FrameKind::EntryPage.corrupt(child.page.offset, detail))
    }

    /// Finds a chunk by its digest. Damaged pages and block indexes are skipped.
    pub(crate) fn find_chunk(&self, runs: &[FrameRef], digest: &Digest) -> Result<Option<StoredChunk>> {
        for &run in runs.iter().rev() {
            if let Some(Some(found)) = undamaged(self.find_in_chunk_run(run, digest))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_in_chunk_run(&self, run: FrameRef, digest: &Digest) -> Result<Option<StoredChunk>> {
        let key = digest.key();
        let mut stack = vec![(run, None)];
        let (mut candidates, mut pages) = (0, 0);
        while let Some((page, level)) = stack.pop() {
            pages += 1;
            if pages > MAX_CANDIDATES {
                return Ok(None);
            }
            match &self.chunk_page(page, level)?.0 {
                ChunkPage::Leaf(locations) => {
                    let first = locations.partition_point(|location| location.key < key);
                    for location in locations[first..].iter().take_while(|location| location.key == key) {
                        candidates += 1;
                        if candidates > MAX_CANDIDATES {
                            return Ok(None);
                        }
                        let found = self.chunk_at(location, digest)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                }
                ChunkPage::Inner(level, children) => {
                    let end = children.partition_point(|child| child.0 <= key);
                    let first = children.partition_point(|child| child.0 < key).saturating_sub(1);
                    let pages = children.get(first..end.min(first + MAX_CANDIDATES)).unwrap_or_default();
                    stack.extend(pages.iter().rev().map(|child| (child.1, Some(level - 1))));
                }
            }
        }
        Ok(None)
    }

    fn chunk_at(&self, location: &ChunkLocation, digest: &Digest) -> Result<Option<StoredChunk>> {
        let Some(indexed) = undamaged(self.indexed_block(location.block))? else { return Ok(None) };
        let IndexedBlock { block, codec, ref chunks } = *indexed;
        let found = chunks.get(location.chunk).filter(|(_, chunk)| chunk.digest == *digest);
        Ok(found.map(|(offset, chunk)| StoredChunk { block, codec, number: location.chunk, offset, raw_len: chunk.raw_len }))
    }

    fn indexed_block(&self, offset: u64) -> Result<Arc<IndexedBlock>> {
        self.caches.get_or_load(CacheKey::IndexedBlock(offset), || {
            let start = frames::header(&self.window, FrameKind::Block, offset)?;
            let chunks = frames::chunks(&self.window, &start, offset)?;
            Ok(IndexedBlock { block: start.block_ref(offset), codec: start.header.codec, chunks })
        })
    }

    fn chunk_page(&self, page: FrameRef, level: Option<u8>) -> Result<Arc<CachedChunkPage>> {
        let node = self.caches.get_or_load(CacheKey::Page(FrameKind::ChunkPage, page), || {
            frames::parse(&self.window, FrameKind::ChunkPage, page, |payload| ChunkPage::parse(payload).map(CachedChunkPage))
        })?;
        let found = node.0.level();
        match level {
            Some(level) if level != found => {
                Err(FrameKind::ChunkPage.corrupt(page.offset, format!("its level is {found}, expected {level}")))
            }
            _ => Ok(node),
        }
    }

    /// Returns the number of chunks in a chunk run.
    pub(crate) fn run_len(&self, run: FrameRef) -> Result<u64> {
        Ok(self.chunk_page(run, None)?.0.chunk_count())
    }

    pub(crate) fn append_run(&self, run: FrameRef, locations: &mut Vec<ChunkLocation>) -> Result<()> {
        let mut stack = vec![(run, None)];
        // Each chunk has a digest in a block index, which limits their number.
        let mut room = self.run_len(run)?.min(self.window.file_len() / DIGEST_LEN as u64);
        while let Some((page, level)) = stack.pop() {
            match &self.chunk_page(page, level)?.0 {
                ChunkPage::Leaf(found) => {
                    let again = || FrameKind::ChunkPage.corrupt(page.offset, "more chunks than possible");
                    room = room.checked_sub(found.len() as u64).ok_or_else(again)?;
                    locations.extend_from_slice(found);
                }
                ChunkPage::Inner(level, children) => {
                    stack.extend(children.iter().rev().map(|child| (child.1, Some(level - 1))));
                }
            }
        }
        Ok(())
    }
}

fn reject_other_formats(window: &Window) -> Result<()> {
    if open::is_nra(window)? {
        return Ok(());
    }
    let (what, found) = ("changing", "a file that is not an NRA archive".into());
    Err(Error::Unsupported { what, found, known: "NRA 5".into() })
}
