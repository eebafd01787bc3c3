//! The state of an archive that a writer adds to: its pages, and where its pieces are.
//!
//! Nothing here goes around damage: a tree that is copied from what stands in for it would make the loss final.
//!
//! Spec: nra.md, sections 9, 11, 15 and 17.

use std::sync::Arc;

use crate::chunks::{ChunkPage, ChunkPlace};
use crate::commit::Commit;
use crate::content::{BlockRef, FrameRef};
use crate::directory::Pieces;
use crate::frame::FrameKind;
use crate::head::Head;
use crate::page::{Child, Page};
use crate::reader::damage::is_damage;
use crate::reader::key::Key;
use crate::reader::opener::{self, Unlock};
use crate::reader::window::Window;
use crate::reader::{NraReader, frames, open};
use crate::recovery;
use nra_core::archive::OpenOptions;
use nra_core::codec::Codec;
use nra_core::crypt::Keyring;
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Pieces of one key that are looked at, and pages: 40 bits of a digest are rarely shared, and never by many unless on purpose.
const MAX_CANDIDATES: usize = 64;

/// The state that the next commit follows.
pub(crate) struct BaseState {
    pub head: Head,
    pub commit: Commit,
    /// The frame of that commit.
    pub place: FrameRef,
    /// Offset and length of its key frame; zeros when the archive is not encrypted.
    pub keys: (u64, u64),
    /// Length of the file up to and with its tail.
    pub end: u64,
    /// The tail is damaged, the commit is not.
    pub lost_tail: bool,
    /// Bytes behind it that are no recovery data: remains of an append that did not finish.
    pub remains: u64,
}

/// A piece that an archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldPiece {
    pub block: BlockRef,
    pub codec: Codec,
    /// Number within the block.
    pub number: u32,
    /// Offset in the block's raw payload.
    pub offset: u32,
    pub raw_len: u32,
}

/// A page of a chunk run, decoded.
pub(super) struct ChunkNode(ChunkPage);

impl ChunkNode {
    pub(super) fn weight(&self) -> u64 {
        match &self.0 {
            ChunkPage::Leaf(places) => size_of_val(&**places) as u64,
            ChunkPage::Inner(_, children) => size_of_val(&**children) as u64,
        }
    }
}

/// A block that was found by its offset: how to refer to it, and its pieces.
pub(super) struct HeldBlock {
    block: BlockRef,
    codec: Codec,
    pieces: Pieces,
}

impl HeldBlock {
    pub(super) fn weight(&self) -> u64 {
        self.pieces.heap_bytes() as u64
    }
}

impl NraReader {
    /// Refuses what is no NRA archive, damaged or not, and so can't be changed.
    ///
    /// # Errors
    ///
    /// `Unsupported` when it is something else; what reading gives.
    pub fn refuse_others(source: Arc<dyn ReadAt>) -> Result<()> {
        refuse_others(&Window::read(source)?)
    }

    /// Opens the newest finished state of `source` for a writer.
    pub(crate) fn base(source: Arc<dyn ReadAt>, cache_bytes: u64, keyring: Option<Keyring>) -> Result<(Self, BaseState)> {
        let mut window = Window::read(source)?;
        refuse_others(&window)?;
        let keys = Unlock::Keyring(keyring.as_ref());
        opener::unlock(&mut window, keys, false)?;
        let (state, head) = open::for_append(&mut window, keys)?;
        let is_protected = state.remains.is_none() || recovery::begins(window.source(), state.end)?.is_some();
        let remains = if is_protected { 0 } else { window.file_len().saturating_sub(state.end) };
        let (commit, place, keys, end) = (state.commit.clone(), state.place, state.keys, state.end);
        let base = BaseState { head, commit, place, keys, end, lost_tail: !state.has_tail, remains };
        let options = OpenOptions { cache_bytes, recover: false, ..OpenOptions::default() };
        Ok((Self::with_state(window, state, &options, true)?, base))
    }

    /// Reads a page of the entry tree; `upper` is the next key on the way to it.
    pub(crate) fn entry_page(&self, child: &Child, level: Option<u8>, upper: Option<&[u8]>) -> Result<Page> {
        let corrupt = |detail: String| Error::corrupt(FrameKind::EntryPage.name(), child.page.offset, detail);
        let frame = frames::follow(&self.window, FrameKind::EntryPage, child.page)?;
        let page = Page::parse(&frame.payload).map_err(corrupt)?;
        let below = page.below();
        child.check(below, level).and_then(|()| child.check_place(page.ends(), below.level, upper)).map_err(corrupt)?;
        Ok(page)
    }

    /// Looks for a piece by its digest. Pages and directories that are damaged count as if the piece were not there.
    pub(crate) fn find_piece(&self, runs: &[FrameRef], digest: &Digest) -> Result<Option<HeldPiece>> {
        for &run in runs.iter().rev() {
            match self.find_in_run(run, digest) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn find_in_run(&self, run: FrameRef, digest: &Digest) -> Result<Option<HeldPiece>> {
        let key = digest.key();
        let mut stack = vec![(run, None)];
        let (mut candidates, mut pages) = (0, 0);
        while let Some((page, level)) = stack.pop() {
            pages += 1;
            if pages > MAX_CANDIDATES {
                return Ok(None);
            }
            match &self.chunk_node(page, level)?.0 {
                ChunkPage::Leaf(places) => {
                    let first = places.partition_point(|place| place.key < key);
                    for place in places[first..].iter().take_while(|place| place.key == key) {
                        candidates += 1;
                        if candidates > MAX_CANDIDATES {
                            return Ok(None);
                        }
                        let found = self.held_piece(place, digest)?;
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

    fn held_piece(&self, place: &ChunkPlace, digest: &Digest) -> Result<Option<HeldPiece>> {
        let held = match self.held_block(place.block) {
            Err(error) if is_damage(&error) => return Ok(None),
            held => held?,
        };
        Ok(held.pieces.get(place.piece).filter(|(_, piece)| piece.digest == *digest).map(|(offset, piece)| HeldPiece {
            block: held.block,
            codec: held.codec,
            number: place.piece,
            offset,
            raw_len: piece.raw_len,
        }))
    }

    fn held_block(&self, offset: u64) -> Result<Arc<HeldBlock>> {
        self.caches.get_or_load(Key::held_block(offset), || {
            let start = frames::header(&self.window, FrameKind::Block, offset)?;
            let pieces = frames::pieces(&self.window, &start, offset)?;
            let (header, check) = (start.header, start.check);
            let (raw_len, stored_len, pad_len) = (header.raw_len, header.stored_len, header.pad_len);
            Ok(HeldBlock { block: BlockRef { offset, raw_len, stored_len, pad_len, check }, codec: header.codec, pieces })
        })
    }

    fn chunk_node(&self, page: FrameRef, level: Option<u8>) -> Result<Arc<ChunkNode>> {
        let corrupt = |detail| Error::corrupt(FrameKind::ChunkPage.name(), page.offset, detail);
        let node = self.caches.get_or_load(Key::frame(page), || {
            let frame = frames::follow(&self.window, FrameKind::ChunkPage, page)?;
            ChunkPage::parse(&frame.payload).map(ChunkNode).map_err(corrupt)
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

    /// Returns the number of pieces of a chunk run.
    pub(crate) fn run_len(&self, run: FrameRef) -> Result<u64> {
        Ok(match &self.chunk_node(run, None)?.0 {
            ChunkPage::Leaf(places) => places.len() as u64,
            ChunkPage::Inner(_, children) => children.iter().map(|child| child.2).sum(),
        })
    }

    /// Adds all pieces of a chunk run to `places`.
    pub(crate) fn run_places(&self, run: FrameRef, places: &mut Vec<ChunkPlace>) -> Result<()> {
        let mut stack = vec![(run, None)];
        // Each has its digest in the directory of a block.
        let mut room = self.run_len(run)?.min(self.window.file_len() / DIGEST_LEN as u64);
        while let Some((page, level)) = stack.pop() {
            match &self.chunk_node(page, level)?.0 {
                ChunkPage::Leaf(found) => {
                    let again = || Error::corrupt(FrameKind::ChunkPage.name(), page.offset, "more pieces than there can be");
                    room = room.checked_sub(found.len() as u64).ok_or_else(again)?;
                    places.extend_from_slice(found);
                }
                ChunkPage::Inner(level, children) => {
                    stack.extend(children.iter().rev().map(|child| (child.1, Some(level - 1))));
                }
            }
        }
        Ok(())
    }
}

fn refuse_others(window: &Window) -> Result<()> {
    if open::is_nra(window)? {
        return Ok(());
    }
    let (what, found) = ("changing", "a file that is no NRA archive".into());
    Err(Error::Unsupported { what, found, known: "NRA 5".into() })
}
