//! Blocks: payloads, block indexes and dictionaries.
//!
//! Spec: nra.md, sections 6 and 7.

use std::borrow::Cow;
use std::sync::Arc;

use crate::block_index::ChunkList;
use crate::content::{BlockRef, Extent};
use crate::frame::{FrameHeader, FrameKind, SEALED_HEADER_LEN, span, start_len};
use crate::layout::sealed;
use crate::reader::cache_key::CacheKey;
use crate::reader::damage::undamaged;
use crate::reader::decrypt::FrameDecryptor;
use crate::reader::frames::FrameStart;
use crate::reader::{NraReader, frames};
use nra_core::cache::Weight;
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::crypt::{FramePart, SEGMENT, segments_of};
use nra_core::digest::Digest;
use nra_core::error::{Error, Result};
use nra_core::limits::{self, MAX_BLOCK_RAW, MAX_PAD};

/// Raw bytes of a block, or of an extent that was read alone.
pub(super) struct Block {
    bytes: Vec<u8>,
    /// Where the raw bytes start. An uncompressed payload is not moved after reading.
    from: usize,
}

impl Block {
    fn raw(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    /// Returns `len` bytes from `start` of an extent of this block.
    pub(super) fn part(&self, extent: &Extent, start: u64, len: u64) -> Result<&[u8]> {
        self.slice(extent.block.offset, u64::from(extent.offset).saturating_add(start), len)
    }

    /// Returns `len` raw bytes from `start`.
    fn slice(&self, place: u64, start: u64, len: u64) -> Result<&[u8]> {
        let from = usize::try_from(start).ok();
        let to = from.zip(usize::try_from(len).ok()).and_then(|(from, len)| from.checked_add(len));
        from.zip(to).and_then(|(from, to)| self.raw().get(from..to)).ok_or_else(|| {
            let detail = format!("{len} bytes at {start} of its raw payload expected, it has {}", self.raw().len());
            FrameKind::Block.corrupt(place, detail)
        })
    }
}

impl Weight for Block {
    fn weight(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

/// Rejects a block whose header contradicts the record.
fn compare(header: &FrameHeader, header_checksum: u64, block: &BlockRef) -> Result<()> {
    let found = (header_checksum, header.raw_len, header.stored_len, header.pad_len);
    let expected = (block.header_checksum, block.raw_len, block.stored_len, block.pad_len);
    if found == expected {
        return Ok(());
    }
    let show = |(header_checksum, raw, stored, pad): (u64, u32, u32, u32)| {
        format!("{header_checksum:016x} (raw {raw}, stored {stored}, padding {pad})")
    };
    let detail = format!("header checksum is {}, expected {}", show(found), show(expected));
    Err(FrameKind::Block.corrupt(block.offset, detail))
}

/// Returns the length of header, padding and stored payload in the file.
fn fetch_len(block: &BlockRef, sealed: bool) -> Result<usize> {
    limits::check("raw length of a block", block.raw_len.into(), MAX_BLOCK_RAW.into())?;
    limits::check("stored length of a block", block.stored_len.into(), block.raw_len.into())?;
    limits::check("padding of a block", block.pad_len.into(), MAX_PAD.into())?;
    let rest = u64::from(block.pad_len) + span(sealed, block.stored_len);
    Ok(start_len(sealed) + usize::try_from(rest).expect("limited above"))
}

impl NraReader {
    /// Returns the raw payload of a block, from the cache or with one read.
    pub(super) fn block(&self, block: &BlockRef) -> Result<Arc<Block>> {
        self.caches.contents.get_or_decode(&CacheKey::Block(*block), || self.load_block(block).map(Arc::new))
    }

    fn load_block(&self, block: &BlockRef) -> Result<Block> {
        let offset = block.offset;
        let bytes = self.window.bytes(FrameKind::Block.name(), offset, fetch_len(block, self.window.is_sealed())?)?;
        let start = FrameStart::of_kind(&self.window, &bytes, FrameKind::Block, offset)?;
        let header = start.header;
        compare(&header, start.header_checksum, block)?;
        let stored = start.stored_payload(&bytes, offset)?;
        if header.codec == Codec::None {
            let (bytes, from) = match stored {
                Cow::Owned(stored) => (stored, 0),
                Cow::Borrowed(stored) => {
                    let from = bytes.len() - stored.len();
                    (bytes.into_owned(), from)
                }
            };
            return Ok(Block { bytes, from });
        }
        let dictionary = (header.dictionary != 0).then(|| self.dictionary(header.dictionary)).transpose()?;
        let raw = frames::decode(&header, &stored, dictionary.as_deref(), offset)?;
        Ok(Block { bytes: raw, from: 0 })
    }

    pub(crate) fn dictionary(&self, offset: u64) -> Result<Arc<Dictionary>> {
        self.caches.get_or_load(CacheKey::Dictionary(offset), || frames::dictionary(&self.window, offset))
    }

    /// Returns the chunks of a block. Reads its header and block index, not its payload.
    pub(super) fn chunks(&self, block: &BlockRef) -> Result<Arc<ChunkList>> {
        let load = || {
            let offset = block.offset;
            let start = frames::header(&self.window, FrameKind::Block, offset)?;
            compare(&start.header, start.header_checksum, block)?;
            frames::chunks(&self.window, &start, offset)
        };
        self.caches.get_or_load(CacheKey::Block(*block), load)
    }

    /// Returns the digest of `extent`, or `None` if the extent is not exactly one chunk.
    pub(super) fn chunk_digest(&self, extent: &Extent) -> Result<Option<Digest>> {
        Ok(self.chunks(&extent.block)?.digest(extent))
    }

    /// Passes `len` bytes from `start` of an extent to `use_bytes`. Reads the whole block.
    pub(super) fn with_extent<T>(
        &self,
        extent: &Extent,
        start: u64,
        len: u64,
        use_bytes: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        match self.block(&extent.block) {
            Ok(block) => use_bytes(block.part(extent, start, len)?),
            // One byte of an uncompressed payload is wrong. The digests show whether this extent is
            // affected.
            Err(Error::Corrupt { structure, offset, detail }) if extent.block.raw_len == extent.block.stored_len => {
                let damage = move || Error::corrupt(structure, offset, detail.clone());
                use_bytes(&self.read_by_chunks(extent, start, len, &damage)?)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads `len` bytes from `start` of an extent in a damaged block of codec 0, chunk by chunk.
    fn read_by_chunks(&self, extent: &Extent, start: u64, len: u64, damage: &dyn Fn() -> Error) -> Result<Vec<u8>> {
        let from = u64::from(extent.offset).saturating_add(start);
        let to = from.saturating_add(len);
        let chunks = undamaged(self.chunks(&extent.block))?.ok_or_else(damage)?;
        let mut bytes = Vec::new();
        let mut at = from;
        for (offset, chunk) in chunks.within(from..to) {
            let begin = u64::from(offset);
            // Bytes between chunks have no digest and belong to no entry.
            let skipped = at.checked_sub(begin).ok_or_else(damage)?;
            let part = Extent { block: extent.block, offset, len: chunk.raw_len.into() };
            let content = self.caches.contents.get_or_decode(&CacheKey::Chunk(part), || {
                let content = self.load_extent(&part)?;
                if Digest::of(content.raw()) == chunk.digest { Ok(Arc::new(content)) } else { Err(damage()) }
            })?;
            let wanted = to.min(begin + part.len) - at;
            bytes.extend_from_slice(content.slice(extent.block.offset, skipped, wanted)?);
            at += wanted;
        }
        if at == to { Ok(bytes) } else { Err(damage()) }
    }

    /// Passes `len` bytes from `start` of an uncompressed entry (form 2) to `use_bytes`. Does not
    /// read the rest of the block.
    pub(super) fn with_uncompressed<T>(
        &self,
        extent: &Extent,
        checksum: u32,
        start: u64,
        len: u64,
        use_bytes: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let load = || {
            let content = self.load_extent(extent)?;
            check_content(content.raw(), checksum, self.uncompressed_offset(extent)?)?;
            Ok(content)
        };
        if let Some(block) = self.caches.contents.get(&CacheKey::Block(extent.block)) {
            return use_bytes(block.part(extent, start, len)?);
        }
        if len == extent.len {
            return use_bytes(load()?.raw());
        }
        let key = CacheKey::Uncompressed(*extent, checksum);
        let content = self.caches.contents.get_or_decode(&key, || load().map(Arc::new))?;
        use_bytes(content.slice(extent.block.offset, start, len)?)
    }

    /// Reads an uncompressed entry (form 2) that fills `buffer` exactly.
    pub(super) fn fill_uncompressed(&self, extent: &Extent, checksum: u32, buffer: &mut [u8]) -> Result<()> {
        let place = self.uncompressed_offset(extent)?;
        if self.window.is_sealed() {
            buffer.copy_from_slice(self.load_extent(extent)?.raw());
        } else {
            self.window.fill("uncompressed content", place, buffer)?;
        }
        check_content(buffer, checksum, place).inspect_err(|_| buffer.fill(0))
    }

    /// Reads the bytes of an extent of a block of codec 0 without checking them. Bytes of a sealed
    /// block are authenticated.
    fn load_extent(&self, extent: &Extent) -> Result<Block> {
        let len = limits::to_len("length of an extent", extent.len, MAX_BLOCK_RAW.into())?;
        if let Some(decryptor) = self.window.decryptor() {
            return self.load_sealed_extent(decryptor, extent, len);
        }
        Ok(Block {
            bytes: self.window.bytes("uncompressed content", self.uncompressed_offset(extent)?, len)?.into_owned(),
            from: 0,
        })
    }

    /// Reads the segments that hold an extent. The frame MAC in the reference identifies the key,
    /// so the header is not needed.
    fn load_sealed_extent(&self, decryptor: &FrameDecryptor, extent: &Extent, len: usize) -> Result<Block> {
        let BlockRef { offset, stored_len, pad_len, header_checksum, .. } = extent.block;
        let corrupt = |detail: &str| Error::corrupt("uncompressed content", offset, detail);
        let key = match decryptor.key_by_mac(offset, header_checksum) {
            Some(key) => key,
            None => {
                let start = self.window.array::<SEALED_HEADER_LEN>("frame header", offset)?;
                let key = decryptor.key(offset, sealed::SALT.get(&start));
                if key.mac != header_checksum {
                    return Err(corrupt("another frame is at this offset"));
                }
                key
            }
        };
        let range = u64::from(extent.offset)..u64::from(extent.offset).saturating_add(extent.len);
        if range.end > u64::from(stored_len) {
            return Err(corrupt("an extent past the end of its block"));
        }
        let (first, span) = segments_of(range.clone(), stored_len);
        let start = offset.checked_add(SEALED_HEADER_LEN as u64 + u64::from(pad_len) + span.start);
        let start = start.ok_or_else(|| corrupt("its offset exceeds 64 bits"))?;
        let span_len = usize::try_from(span.end - span.start).expect("no longer than a block");
        let (mut bytes, whole) =
            key.open_segments(FramePart::Payload, first, &self.window.bytes("uncompressed content", start, span_len)?);
        if !whole {
            return Err(Error::corrupt("uncompressed content", start, "authentication failed: it was changed"));
        }
        let from = usize::try_from(range.start - first * u64::from(SEGMENT)).expect("within a segment");
        bytes.truncate(from.saturating_add(len));
        Ok(Block { bytes, from })
    }

    /// Returns the file offset of the bytes of an extent of a block of codec 0 (section 7.1). In a
    /// sealed block, tags are not counted.
    fn uncompressed_offset(&self, extent: &Extent) -> Result<u64> {
        let within = self.window.start_len() as u64 + u64::from(extent.block.pad_len) + u64::from(extent.offset);
        let place = extent.block.offset.checked_add(within);
        place.ok_or_else(|| Error::corrupt("uncompressed content", extent.block.offset, "its offset exceeds 64 bits"))
    }
}

fn check_content(bytes: &[u8], expected: u32, place: u64) -> Result<()> {
    let found = content_checksum(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt("uncompressed content", place, format!("content checksum is {found:08x}, expected {expected:08x}")))
}
