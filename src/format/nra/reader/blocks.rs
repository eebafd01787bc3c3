//! Blocks: payloads, directories and the dictionaries they need.
//!
//! Spec: nra.md, sections 6 and 7.

use std::borrow::Cow;
use std::sync::Arc;

use crate::content::{BlockRef, Extent};
use crate::directory::Pieces;
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, span, start_len};
use crate::layout::sealed;
use crate::reader::damage::is_damage;
use crate::reader::frames::Start;
use crate::reader::key::Key;
use crate::reader::opener::Opener;
use crate::reader::{NraReader, frames};
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::crypt::{FramePart, SEGMENT, segments_of};
use nra_core::digest::Digest;
use nra_core::error::{Corruption, Error, Result};
use nra_core::limits::{MAX_BLOCK_RAW, MAX_PAD};

/// How much is read of a dictionary whose length nobody tells, bytes: writers make none that is longer.
const DICTIONARY_GUESS: usize = HEADER_LEN + (32 << 10);

/// Raw bytes of a block, or of an extent that was read without the rest of its block.
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Where the raw bytes begin: an uncompressed payload stays where it was read.
    from: usize,
    /// `None` when the header was not read.
    header: Option<FrameHeader>,
}

impl Block {
    fn raw(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    pub(super) fn weight(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Returns `len` bytes from `start` of an extent of this whole block.
    pub(super) fn part(&self, extent: &Extent, start: u64, len: u64) -> Result<&[u8]> {
        self.slice(extent.block.offset, u64::from(extent.offset).saturating_add(start), len)
    }

    /// Returns `len` raw bytes from `start`.
    fn slice(&self, place: u64, start: u64, len: u64) -> Result<&[u8]> {
        let from = usize::try_from(start).ok();
        let to = from.zip(usize::try_from(len).ok()).and_then(|(from, len)| from.checked_add(len));
        from.zip(to).and_then(|(from, to)| self.raw().get(from..to)).ok_or_else(|| {
            let detail = format!("{len} bytes at {start} of its raw payload expected, it has {}", self.raw().len());
            Error::corrupt(FrameKind::Block.name(), place, detail)
        })
    }
}

/// Content, or why there is none: entries of a damaged block don't read it again and again.
#[derive(Clone)]
pub(super) enum Fetched {
    Good(Arc<Block>),
    Damaged(Arc<Corruption>),
}

/// Refuses a block whose header says something else than the record that led to it.
fn compare(header: &FrameHeader, check: u64, block: &BlockRef) -> Result<()> {
    let found = (check, header.raw_len, header.stored_len, header.pad_len);
    let expected = (block.check, block.raw_len, block.stored_len, block.pad_len);
    if found == expected {
        return Ok(());
    }
    let show =
        |(check, raw, stored, pad): (u64, u32, u32, u32)| format!("{check:016x} (raw {raw}, stored {stored}, padding {pad})");
    let detail = format!("header checksum is {}, the record says {}", show(found), show(expected));
    Err(Error::corrupt(FrameKind::Block.name(), block.offset, detail))
}

/// Length of header, padding and stored payload in the file.
fn fetch_len(block: &BlockRef, sealed: bool) -> Result<usize> {
    let limit = |what, found: u32, limit: u32| {
        if found > limit { Err(Error::Limit { what, found: found.into(), limit: limit.into() }) } else { Ok(()) }
    };
    limit("raw length of a block", block.raw_len, MAX_BLOCK_RAW)?;
    limit("stored length of a block", block.stored_len, block.raw_len)?;
    limit("padding of a block", block.pad_len, MAX_PAD)?;
    let behind = u64::from(block.pad_len) + span(sealed, block.stored_len);
    Ok(start_len(sealed) + usize::try_from(behind).expect("limited above"))
}

impl NraReader {
    /// Returns the raw payload of a block, from the cache or by one read.
    pub(super) fn block(&self, block: &BlockRef) -> Result<Arc<Block>> {
        let key = Key::block(block);
        let large = self.caches.is_large(block.raw_len);
        let content = match large.then(|| self.caches.large(&key)).flatten() {
            Some(content) => content,
            None => self.content(key, || self.load_block(block))?,
        };
        if let Some(header) = &content.header {
            compare(header, block.check, block)?;
        }
        if large {
            self.caches.keep_large(key, &content);
        }
        Ok(content)
    }

    /// Returns content from the cache or loads it, once for all who want it. Damage is kept too.
    fn content(&self, key: Key, load: impl FnOnce() -> Result<Block>) -> Result<Arc<Block>> {
        let content = self.caches.contents.get_or_insert_with(&key, || match load() {
            Ok(block) => Ok(Fetched::Good(Arc::new(block))),
            Err(error) => Corruption::of(&error).map(|flaw| Fetched::Damaged(Arc::new(flaw))).ok_or(error),
        })?;
        match content {
            Fetched::Good(block) => Ok(block),
            Fetched::Damaged(flaw) => Err(flaw.error()),
        }
    }

    fn load_block(&self, block: &BlockRef) -> Result<Block> {
        let offset = block.offset;
        let bytes = self.window.bytes(FrameKind::Block.name(), offset, fetch_len(block, self.window.is_sealed())?)?;
        let start = Start::of_kind(&self.window, &bytes, FrameKind::Block, offset)?;
        let header = start.header;
        compare(&header, start.check, block)?;
        let stored = start.stored_payload(&bytes, offset)?;
        if header.codec == Codec::None {
            let (bytes, from) = match stored {
                Cow::Owned(stored) => (stored, 0),
                Cow::Borrowed(stored) => {
                    let from = bytes.len() - stored.len();
                    (bytes.into_owned(), from)
                }
            };
            return Ok(Block { bytes, from, header: Some(header) });
        }
        let dictionary = (header.dictionary != 0).then(|| self.dictionary(header.dictionary)).transpose()?;
        let raw = frames::decode(&header, &stored, dictionary.as_deref(), offset)?;
        Ok(Block { bytes: raw, from: 0, header: Some(header) })
    }

    pub(super) fn dictionary(&self, offset: u64) -> Result<Arc<Dictionary>> {
        let load = || {
            let frame = frames::at(&self.window, FrameKind::Dictionary, offset, DICTIONARY_GUESS)?;
            Dictionary::new(frame.payload).map_err(|detail| Error::corrupt(FrameKind::Dictionary.name(), offset, detail))
        };
        self.caches.get_or_load(Key::dictionary(offset), load)
    }

    /// Returns the pieces of a block: reads its header and directory, not its payload.
    pub(super) fn pieces(&self, block: &BlockRef) -> Result<Arc<Pieces>> {
        let load = || {
            let offset = block.offset;
            let start = frames::header(&self.window, FrameKind::Block, offset)?;
            compare(&start.header, start.check, block)?;
            frames::pieces(&self.window, &start, offset)
        };
        self.caches.get_or_load(Key::block(block), load)
    }

    /// Returns the digest of the piece that `extent` is; `None` if it is not exactly one.
    pub(super) fn piece_digest(&self, extent: &Extent) -> Result<Option<Digest>> {
        Ok(self.pieces(&extent.block)?.digest(extent))
    }

    /// Hands out `len` bytes from `start` of an extent, by way of its whole block.
    pub(super) fn with_extent<T>(
        &self,
        extent: &Extent,
        start: u64,
        len: u64,
        use_bytes: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        match self.block(&extent.block) {
            Ok(block) => use_bytes(block.part(extent, start, len)?),
            // Somewhere in a payload that is stored as it is a byte is wrong: the digests tell whether it is one of these.
            Err(Error::Corrupt { structure, offset, detail }) if extent.block.raw_len == extent.block.stored_len => {
                let damage = move || Error::corrupt(structure, offset, detail.clone());
                use_bytes(&self.by_pieces(extent, start, len, &damage)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads `len` bytes from `start` of an extent of a block of codec 0 with a damaged payload, by way of the pieces they lie in.
    fn by_pieces(&self, extent: &Extent, start: u64, len: u64, damage: &dyn Fn() -> Error) -> Result<Vec<u8>> {
        let from = u64::from(extent.offset).saturating_add(start);
        let to = from.saturating_add(len);
        let pieces = match self.pieces(&extent.block) {
            Err(error) if is_damage(&error) => return Err(damage()),
            other => other?,
        };
        let mut bytes = Vec::new();
        let mut at = from;
        for (offset, piece) in pieces.within(from..to) {
            let begin = u64::from(offset);
            // Bytes between pieces have no digest, and belong to no entry.
            let skipped = at.checked_sub(begin).ok_or_else(damage)?;
            let part = Extent { block: extent.block, offset, len: piece.raw_len.into() };
            let content = self.content(Key::extent(&part), || {
                let content = self.load_extent(&part)?;
                if Digest::of(content.raw()) == piece.digest { Ok(content) } else { Err(damage()) }
            })?;
            let wanted = to.min(begin + part.len) - at;
            bytes.extend_from_slice(content.slice(extent.block.offset, skipped, wanted)?);
            at += wanted;
        }
        if at == to { Ok(bytes) } else { Err(damage()) }
    }

    /// Hands out `len` bytes from `start` of an extent that has a checksum of its own (form 2), without reading the rest of its block.
    pub(super) fn with_raw<T>(
        &self,
        extent: &Extent,
        checksum: u32,
        start: u64,
        len: u64,
        use_bytes: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let load = || {
            let content = self.load_extent(extent)?;
            check_content(content.raw(), checksum, self.raw_place(extent)?)?;
            Ok(content)
        };
        if let Some(block) = self.caches.good(&Key::block(&extent.block)) {
            return use_bytes(block.part(extent, start, len)?);
        }
        if len == extent.len {
            return use_bytes(load()?.raw());
        }
        use_bytes(self.content(Key::extent(extent), load)?.slice(extent.block.offset, start, len)?)
    }

    /// Reads an extent of form 2 that fills `buffer` exactly.
    pub(super) fn fill_raw(&self, extent: &Extent, checksum: u32, buffer: &mut [u8]) -> Result<()> {
        let place = self.raw_place(extent)?;
        if self.window.is_sealed() {
            buffer.copy_from_slice(self.load_extent(extent)?.raw());
        } else {
            self.window.fill("raw content", place, buffer)?;
        }
        check_content(buffer, checksum, place).inspect_err(|_| buffer.fill(0))
    }

    /// Reads the bytes of an extent of a block of codec 0, unchecked (those of a sealed block are authentic).
    fn load_extent(&self, extent: &Extent) -> Result<Block> {
        let limit = u64::from(MAX_BLOCK_RAW);
        let len = usize::try_from(extent.len).ok().filter(|_| extent.len <= limit);
        let len = len.ok_or(Error::Limit { what: "length of an extent", found: extent.len, limit })?;
        if let Some(opener) = self.window.opener() {
            return self.load_sealed_extent(opener, extent, len);
        }
        Ok(Block { bytes: self.window.bytes("raw content", self.raw_place(extent)?, len)?.into_owned(), from: 0, header: None })
    }

    /// Reads the segments that an extent lies in. The check of the block tells its key; the header is not needed.
    fn load_sealed_extent(&self, opener: &Opener, extent: &Extent, len: usize) -> Result<Block> {
        let BlockRef { offset, stored_len, pad_len, check, .. } = extent.block;
        let corrupt = |detail: &str| Error::corrupt("raw content", offset, detail);
        let key = match opener.key_by_check(offset, check) {
            Some(key) => key,
            None => {
                let start = self.window.array::<SEALED_HEADER_LEN>("frame header", offset)?;
                let key = opener.key(offset, sealed::SALT.get(&start));
                if key.check != check {
                    return Err(corrupt("the frame there is not the one that the record says"));
                }
                key
            }
        };
        let range = u64::from(extent.offset)..u64::from(extent.offset).saturating_add(extent.len);
        if range.end > u64::from(stored_len) {
            return Err(corrupt("an extent beyond the end of its block"));
        }
        let (first, span) = segments_of(range.clone(), stored_len);
        let start = offset.checked_add(SEALED_HEADER_LEN as u64 + u64::from(pad_len) + span.start);
        let start = start.ok_or_else(|| corrupt("its place is beyond 64 bits"))?;
        let span_len = usize::try_from(span.end - span.start).expect("no longer than a block");
        let (mut bytes, whole) =
            key.open_segments(FramePart::Payload, first, &self.window.bytes("raw content", start, span_len)?);
        if !whole {
            return Err(Error::corrupt("raw content", start, "it does not open: it was changed"));
        }
        let from = usize::try_from(range.start - first * u64::from(SEGMENT)).expect("within a segment");
        bytes.truncate(from.saturating_add(len));
        Ok(Block { bytes, from, header: None })
    }

    /// File offset of the bytes of an extent of a block of codec 0 (spec section 7.1), or where they would begin without tags.
    fn raw_place(&self, extent: &Extent) -> Result<u64> {
        let within = self.window.start_len() as u64 + u64::from(extent.block.pad_len) + u64::from(extent.offset);
        let place = extent.block.offset.checked_add(within);
        place.ok_or_else(|| Error::corrupt("raw content", extent.block.offset, "its place is beyond 64 bits"))
    }
}

fn check_content(bytes: &[u8], expected: u32, place: u64) -> Result<()> {
    let found = content_checksum(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt("raw content", place, format!("content checksum is {found:08x}, expected {expected:08x}")))
}
