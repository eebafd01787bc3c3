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
use crate::reader::damage::is_damage;
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

/// A chunk that the archive stores.
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
        let (state, superblock) = open::for_append(&mut window, keys)?;
        let is_protected = state.trailing_remark.is_none() || recovery::find_at(window.source(), state.end)?.is_some();
        let trailing_bytes = if is_protected { 0 } else { window.file_len().saturating_sub(state.end) };
        let (commit, commit_ref, keys, end) = (state.commit.clone(), state.commit_ref, state.keys, state.end);
        let base = BaseCommit { superblock, commit, commit_ref, keys, end, lost_footer: !state.has_footer, trailing_bytes };
        let options = OpenOptions { cache_bytes, recover: false, ..OpenOptions::default() };
        Ok((Self::open_commit(window, state, &options, true)?, base))
    }

    /// Reads a page of the entry tree. `upper` is the next key.
    pub(crate) fn entry_page(&self, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<EntryPage> {
        let corrupt = |detail: String| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
        let frame = frames::follow(&self.window, FrameKind::EntryPage, child.page)?;
        let page = EntryPage::parse(&frame.payload).map_err(corrupt)?;
        let below = page.below();
        child.check(below, level).and_then(|()| child.check_position(page.ends(), below.level, upper)).map_err(corrupt)?;
        Ok(page)
    }

    /// Finds a chunk by its digest. Damaged pages and block indexes are skipped.
    pub(crate) fn find_chunk(&self, runs: &[FrameRef], digest: &Digest) -> Result<Option<StoredChunk>> {
        for &run in runs.iter().rev() {
            match self.find_in_chunk_run(run, digest) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
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
                    let first = locations.partition_point(|commit_ref| commit_ref.key < key);
                    for commit_ref in locations[first..].iter().take_while(|commit_ref| commit_ref.key == key) {
                        candidates += 1;
                        if candidates > MAX_CANDIDATES {
                            return Ok(None);
                        }
                        let found = self.chunk_at(commit_ref, digest)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                }
                ChunkPage::Inner(level, children) => {
                    let behind = children.partition_point(|child| child.0 <= key);
                    let first = children.partition_point(|child| child.0 < key).saturating_sub(1);
                    let pages = children.get(first..behind.min(first + MAX_CANDIDATES)).unwrap_or_default();
                    stack.extend(pages.iter().rev().map(|child| (child.1, Some(level - 1))));
                }
            }
        }
        Ok(None)
    }

    fn chunk_at(&self, commit_ref: &ChunkLocation, digest: &Digest) -> Result<Option<StoredChunk>> {
        let indexed = match self.indexed_block(commit_ref.block) {
            Err(error) if is_damage(&error) => return Ok(None),
            indexed => indexed?,
        };
        Ok(indexed.chunks.get(commit_ref.chunk).filter(|(_, chunk)| chunk.digest == *digest).map(|(offset, chunk)| StoredChunk {
            block: indexed.block,
            codec: indexed.codec,
            number: commit_ref.chunk,
            offset,
            raw_len: chunk.raw_len,
        }))
    }

    fn indexed_block(&self, offset: u64) -> Result<Arc<IndexedBlock>> {
        self.caches.get_or_load(CacheKey::indexed_block(offset), || {
            let start = frames::header(&self.window, FrameKind::Block, offset)?;
            let chunks = frames::chunks(&self.window, &start, offset)?;
            let (header, header_checksum) = (start.header, start.header_checksum);
            let (raw_len, stored_len, pad_len) = (header.raw_len, header.stored_len, header.pad_len);
            Ok(IndexedBlock {
                block: BlockRef { offset, raw_len, stored_len, pad_len, header_checksum },
                codec: header.codec,
                chunks,
            })
        })
    }

    fn chunk_page(&self, page: FrameRef, level: Option<u8>) -> Result<Arc<CachedChunkPage>> {
        let corrupt = |detail| Error::corrupt(FrameKind::ChunkPage.name(), page.offset, detail);
        let node = self.caches.get_or_load(CacheKey::frame(page), || {
            let frame = frames::follow(&self.window, FrameKind::ChunkPage, page)?;
            ChunkPage::parse(&frame.payload).map(CachedChunkPage).map_err(corrupt)
        })?;
        let found = match &node.0 {
            ChunkPage::Leaf(_) => 0,
            ChunkPage::Inner(level, _) => *level,
        };
        match level {
            Some(level) if level != found => Err(corrupt(format!("its level is {found}, expected {level}"))),
            _ => Ok(node),
        }
    }

    /// Returns the number of chunks in a chunk run.
    pub(crate) fn run_len(&self, run: FrameRef) -> Result<u64> {
        Ok(match &self.chunk_page(run, None)?.0 {
            ChunkPage::Leaf(locations) => locations.len() as u64,
            ChunkPage::Inner(_, children) => children.iter().map(|child| child.2).sum(),
        })
    }

    /// Appends all chunks of a chunk run to `locations`.
    pub(crate) fn append_run(&self, run: FrameRef, locations: &mut Vec<ChunkLocation>) -> Result<()> {
        let mut stack = vec![(run, None)];
        // Each chunk has a digest in a block index, which limits their number.
        let mut room = self.run_len(run)?.min(self.window.file_len() / DIGEST_LEN as u64);
        while let Some((page, level)) = stack.pop() {
            match &self.chunk_page(page, level)?.0 {
                ChunkPage::Leaf(found) => {
                    let again = || Error::corrupt(FrameKind::ChunkPage.name(), page.offset, "more chunks than possible");
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
