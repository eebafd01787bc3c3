//! Block indexes: the chunks of a block and the entries completed with it. They let content survive
//! the loss of the entry tree.
//!
//! Spec: nra.md, section 7.

use std::ops::Range;

use crate::content::Extent;
use crate::records::{self, RecordList};
use nra_core::codec::{Codec, Compressor, Method, decompress};
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::limits::{self, MAX_BLOCK_INDEX};
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Compression of the body. The body is small, and only appending and recovery read it.
pub(crate) const METHOD: Method = Method::zstd(3);

/// A chunk of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Zero bytes before the chunk.
    pub gap: u32,
    /// Raw length, at least 1.
    pub raw_len: u32,
    /// Digest of the bytes.
    pub digest: Digest,
}

/// The chunks of a block with their offsets in its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkList {
    chunks: Vec<Chunk>,
    /// Offset of each chunk in the raw payload.
    starts: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlockIndex {
    /// Chunks in the order of the payload.
    pub chunks: Vec<Chunk>,
    /// Entries that were completed with this block.
    pub entries: Vec<Entry>,
}

impl BlockIndex {
    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut list = RecordList::new(records::Holder::BlockIndex);
        self.entries.iter().for_each(|entry| list.push(entry));
        encode(&self.chunks, list, &mut Compressor::new(METHOD).unwrap()).unwrap()
    }

    /// Parses the index of the block at offset `block`, whose payload has `raw_len` raw bytes.
    pub(crate) fn parse(bytes: &[u8], block: u64, raw_len: u32) -> Result<Self, Malformed> {
        let (chunks, records) = parse_parts(bytes, raw_len)?;
        let entries = match records.as_slice() {
            [] => Vec::new(),
            records => records::parse(Cursor::new(records), Some(block))?,
        };
        Ok(Self { chunks, entries })
    }
}

/// Returns the bytes of a block index. `records` may be empty; `compressor` compresses with
/// [`METHOD`].
pub(crate) fn encode(chunks: &[Chunk], records: RecordList, compressor: &mut Compressor) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    put_uv(&mut out, chunks.len() as u64);
    let mut body = Vec::new();
    for chunk in chunks {
        out.extend_from_slice(&chunk.digest.0);
        put_uv(&mut body, chunk.raw_len.into());
    }
    chunks.iter().for_each(|chunk| put_uv(&mut body, chunk.gap.into()));
    if records.count() > 0 {
        records.finish(&mut body);
    }
    let mut stored = Vec::new();
    let codec = compressor.compress(&body, None, &mut stored)?;
    out.push(codec as u8);
    put_uv(&mut out, body.len() as u64);
    out.extend_from_slice(&stored);
    limits::check("length of a block index", out.len().max(body.len()) as u64, MAX_BLOCK_INDEX.into())?;
    Ok(out)
}

impl ChunkList {
    /// Parses the chunks in the index of a block whose payload has `raw_len` raw bytes. The records
    /// are not parsed.
    pub(crate) fn parse(bytes: &[u8], raw_len: u32) -> Result<Self, Malformed> {
        let (chunks, _) = parse_parts(bytes, raw_len)?;
        // Cannot overflow: the sum is the length of the payload.
        let mut end = 0u32;
        let starts = chunks.iter().map(|chunk| {
            let start = end.saturating_add(chunk.gap);
            end = start.saturating_add(chunk.raw_len);
            start
        });
        Ok(Self { starts: starts.collect(), chunks })
    }

    /// Returns the heap memory of the list, bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.chunks) + size_of_val(&*self.starts)
    }

    pub(crate) fn as_slice(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Returns the chunk with this number and its offset in the raw payload.
    pub(crate) fn get(&self, number: u32) -> Option<(u32, &Chunk)> {
        let index = usize::try_from(number).ok()?;
        Some((*self.starts.get(index)?, self.chunks.get(index)?))
    }

    /// Returns the chunks that overlap a range of the raw payload, each with its offset.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u32, &Chunk)> {
        let first = self.starts.partition_point(|&start| u64::from(start) <= range.start).saturating_sub(1);
        let from_first = self.starts[first..].iter().copied().zip(&self.chunks[first..]);
        let end = |(start, chunk): (u32, &Chunk)| u64::from(start) + u64::from(chunk.raw_len);
        from_first.skip_while(move |&item| end(item) <= range.start).take_while(move |item| u64::from(item.0) < range.end)
    }

    /// Returns the digest of `extent` if the extent is exactly one chunk.
    pub(crate) fn digest(&self, extent: &Extent) -> Option<Digest> {
        let chunk = &self.chunks[self.starts.binary_search(&extent.offset).ok()?];
        (u64::from(chunk.raw_len) == extent.len).then_some(chunk.digest)
    }
}

fn parse_parts(bytes: &[u8], raw_len: u32) -> Result<(Vec<Chunk>, Vec<u8>), Malformed> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count("chunks", bytes.len() / DIGEST_LEN)?;
    let digests = cursor.take(count * DIGEST_LEN)?;
    let number = cursor.u8()?;
    let codec = Codec::from_number(number).filter(|&codec| codec != Codec::Lz4);
    let codec = codec.ok_or_else(|| format!("records with codec {number}"))?;
    let len = cursor.uv_max("raw length of the body", MAX_BLOCK_INDEX.into())?;
    let len = usize::try_from(len).expect("not more than the limit, 32 bits");
    if cursor.remaining() > len || codec != Codec::None && cursor.remaining() == len {
        return Err(format!("{} stored bytes for {len} raw ones", cursor.remaining()));
    }
    let mut body = decompress(codec, cursor.take(cursor.remaining())?, len, None)?;
    let mut cursor = Cursor::new(&body);
    let mut chunks = Vec::with_capacity(count);
    let mut sum = 0u64;
    for digest in digests.chunks_exact(DIGEST_LEN) {
        let mut bytes = [0; DIGEST_LEN];
        bytes.copy_from_slice(digest);
        let len = u32::try_from(cursor.uv_max("length of a chunk", raw_len.into())?).expect("not more than 32 bits");
        if len == 0 {
            return Err("a chunk of 0 bytes".into());
        }
        sum += u64::from(len);
        chunks.push(Chunk { gap: 0, raw_len: len, digest: Digest(bytes) });
    }
    for chunk in &mut chunks {
        chunk.gap = u32::try_from(cursor.uv_max("gap", raw_len.into())?).expect("not more than 32 bits");
        sum += u64::from(chunk.gap);
    }
    if sum != u64::from(raw_len) {
        return Err(format!("chunks and gaps of {sum} bytes in a block of {raw_len}"));
    }
    let read = body.len() - cursor.remaining();
    body.drain(..read);
    Ok((chunks, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::{any_entries, without_raw};
    use proptest::prelude::*;

    const BLOCK: u64 = 1 << 41;

    prop_compose! {
        fn any_chunks()(chunks in prop::collection::vec((0u32..70, 1u32..100_000), 0..30)) -> Vec<Chunk> {
            chunks.into_iter().map(|(gap, raw_len)| Chunk { gap, raw_len, digest: Digest::of(&raw_len.to_le_bytes()) }).collect()
        }
    }

    fn raw_len(chunks: &[Chunk]) -> u32 {
        chunks.iter().map(|chunk| chunk.gap + chunk.raw_len).sum()
    }

    proptest! {
        #[test]
        fn block_indexes_round_trip(chunks in any_chunks(), entries in any_entries(), with_entries: bool) {
            let entries = if with_entries { without_raw(entries) } else { vec![] };
            let raw_len = raw_len(&chunks);
            let block_index = BlockIndex { chunks, entries };
            let bytes = block_index.encode();
            let chunks = ChunkList::parse(&bytes, raw_len).unwrap();
            prop_assert_eq!(chunks.as_slice(), &block_index.chunks[..]);
            let mut at = 0;
            for (number, chunk) in (0..).zip(&block_index.chunks) {
                prop_assert_eq!(chunks.get(number), Some((at + chunk.gap, chunk)));
                at += chunk.gap + chunk.raw_len;
            }
            prop_assert_eq!(chunks.within(0..u64::MAX).count(), block_index.chunks.len());
            prop_assert!(BlockIndex::parse(&bytes, BLOCK, raw_len + 1).is_err());
            prop_assert_eq!(BlockIndex::parse(&bytes, BLOCK, raw_len), Ok(block_index));
            prop_assert!(BlockIndex::parse(&bytes[..bytes.len() - 1], BLOCK, raw_len).is_err());
        }

        #[test]
        fn changed_bytes_do_not_panic(chunks in any_chunks(), entries in any_entries(), at in any::<prop::sample::Index>(), to: u8) {
            let raw_len = raw_len(&chunks);
            let mut bytes = BlockIndex { chunks, entries }.encode();
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = BlockIndex::parse(&bytes, BLOCK, raw_len);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), raw_len in 0u32..300) {
            let _ = BlockIndex::parse(&bytes, BLOCK, raw_len);
        }
    }

    #[test]
    fn broken_block_indexes_are_rejected() {
        let chunk = |raw_len| Chunk { gap: 0, raw_len, digest: Digest::of(b"x") };
        let good = BlockIndex { chunks: vec![chunk(5), chunk(6)], entries: vec![] }.encode();
        let at = 1 + 2 * DIGEST_LEN;
        assert_eq!(good[at..], [0, 4, 5, 6, 0, 0]);
        assert!(BlockIndex::parse(&good, BLOCK, 11).is_ok());
        assert_eq!(BlockIndex::parse(&[0, 0, 0], BLOCK, 0), Ok(BlockIndex::default()));
        let with = |footer: &[u8]| [&good[..at], footer].concat();
        for (why, bytes) in [
            ("nothing", vec![]),
            ("more chunks than bytes", vec![3]),
            ("lz4", with(&[2, 4, 5, 6, 0, 0])),
            ("unknown codec", with(&[3, 4, 5, 6, 0, 0])),
            ("body too short", with(&[0, 3, 5, 6, 0])),
            ("left over", with(&[0, 4, 5, 6, 0, 0, 0])),
            ("chunk of 0 bytes", with(&[0, 4, 0, 11, 0, 0])),
            ("sum", with(&[0, 4, 5, 6, 0, 1])),
            ("body longer than a block index may be", with(&[1, 0x81, 0x80, 0x80, 0x20])),
            ("a record list without entries", with(&[0, 5, 5, 6, 0, 0, 0])),
        ] {
            assert!(BlockIndex::parse(&bytes, BLOCK, 11).is_err(), "{why}");
        }
    }
}
