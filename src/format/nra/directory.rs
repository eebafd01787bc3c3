//! Directories of blocks: what makes content survive the loss of the index.
//!
//! Spec: nra.md, section 7.

use std::ops::Range;

use crate::content::Extent;
use crate::records::{self, Holder, RecordList};
use nra_core::codec::{Codec, Compressor, Method, decompress};
use nra_core::digest::{DIGEST_LEN, Digest};
use nra_core::entry::Entry;
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_DIRECTORY;
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Level at which the rest is compressed; it is small and read only to append or to rescue.
pub(crate) const METHOD: Method = Method::zstd(3);

/// One piece of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Zero bytes in front of it.
    pub gap: u32,
    /// Raw length, 1 or more.
    pub raw_len: u32,
    /// Digest of its bytes.
    pub digest: Digest,
}

/// The pieces of a block with their places in its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    /// Where each of them begins in the raw payload.
    starts: Vec<u32>,
}

/// The directory of a block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Directory {
    /// Pieces in the order in which they lie in the payload.
    pub pieces: Vec<Piece>,
    /// Entries finished with this block.
    pub entries: Vec<Entry>,
}

impl Directory {
    /// Returns the bytes of the directory.
    ///
    /// # Errors
    ///
    /// `Limit` when it is longer than a directory may be; `Io` when there is no memory to compress it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut list = RecordList::new(Holder::Directory);
        self.entries.iter().for_each(|entry| list.push(entry));
        encode(&self.pieces, list, &mut Compressor::new(METHOD)?)
    }

    /// Parses the directory of the block at `block` with a payload of `raw_len` raw bytes.
    pub(crate) fn parse(bytes: &[u8], block: u64, raw_len: u32) -> Result<Self, Malformed> {
        let (pieces, records) = parse_parts(bytes, raw_len)?;
        let entries = match records.as_slice() {
            [] => Vec::new(),
            records => records::parse(Cursor::new(records), Some(block))?,
        };
        Ok(Self { pieces, entries })
    }
}

/// Returns the bytes of a directory; `records` may be empty. The compressor is one for [`METHOD`].
///
/// # Errors
///
/// `Limit` when it is longer than a directory may be; `Io` when there is no memory to compress it.
pub(crate) fn encode(pieces: &[Piece], records: RecordList, compressor: &mut Compressor) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    put_uv(&mut out, pieces.len() as u64);
    let mut rest = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&piece.digest.0);
        put_uv(&mut rest, piece.raw_len.into());
    }
    pieces.iter().for_each(|piece| put_uv(&mut rest, piece.gap.into()));
    if records.count() > 0 {
        records.finish(&mut rest);
    }
    let mut stored = Vec::new();
    let codec = compressor.compress(&rest, None, &mut stored)?;
    out.push(codec as u8);
    put_uv(&mut out, rest.len() as u64);
    out.extend_from_slice(&stored);
    let (found, limit) = (out.len().max(rest.len()) as u64, MAX_DIRECTORY.into());
    if found > limit {
        return Err(Error::Limit { what: "length of the directory of a block", found, limit });
    }
    Ok(out)
}

impl Pieces {
    /// Parses the pieces of the directory of a block with a payload of `raw_len` raw bytes, without looking at the records.
    pub(crate) fn parse(bytes: &[u8], raw_len: u32) -> Result<Self, Malformed> {
        let (pieces, _) = parse_parts(bytes, raw_len)?;
        // Their sum is the length of the payload.
        let mut end = 0u32;
        let starts = pieces.iter().map(|piece| {
            let start = end.saturating_add(piece.gap);
            end = start.saturating_add(piece.raw_len);
            start
        });
        Ok(Self { starts: starts.collect(), pieces })
    }

    /// Memory that they take, bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.pieces) + size_of_val(&*self.starts)
    }

    /// The pieces in order.
    pub(crate) fn as_slice(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the piece of this number, with its place in the raw payload.
    pub(crate) fn get(&self, number: u32) -> Option<(u32, &Piece)> {
        let index = usize::try_from(number).ok()?;
        Some((*self.starts.get(index)?, self.pieces.get(index)?))
    }

    /// Returns the pieces with bytes in a range of the raw payload, each with its place there.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u32, &Piece)> {
        let first = self.starts.partition_point(|&start| u64::from(start) <= range.start).saturating_sub(1);
        let from_first = self.starts[first..].iter().copied().zip(&self.pieces[first..]);
        let end = |(start, piece): (u32, &Piece)| u64::from(start) + u64::from(piece.raw_len);
        from_first.skip_while(move |&item| end(item) <= range.start).take_while(move |item| u64::from(item.0) < range.end)
    }

    /// Returns the digest of the piece that `extent` is, if it is exactly one.
    pub(crate) fn digest(&self, extent: &Extent) -> Option<Digest> {
        let piece = &self.pieces[self.starts.binary_search(&extent.offset).ok()?];
        (u64::from(piece.raw_len) == extent.len).then_some(piece.digest)
    }
}

/// Returns the pieces and the bytes of the record list.
fn parse_parts(bytes: &[u8], raw_len: u32) -> Result<(Vec<Piece>, Vec<u8>), Malformed> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count("pieces", bytes.len() / DIGEST_LEN)?;
    let digests = cursor.take(count * DIGEST_LEN)?;
    let number = cursor.u8()?;
    let codec = Codec::from_number(number).filter(|&codec| codec != Codec::Lz4);
    let codec = codec.ok_or_else(|| format!("records with codec {number}"))?;
    let len = cursor.uv_max("raw length of the rest", MAX_DIRECTORY.into())?;
    let len = usize::try_from(len).expect("not more than the limit, 32 bits");
    if cursor.remaining() > len || codec != Codec::None && cursor.remaining() == len {
        return Err(format!("{} stored bytes for {len} raw ones", cursor.remaining()));
    }
    let mut rest = decompress(codec, cursor.take(cursor.remaining())?, len, None)?;
    let mut cursor = Cursor::new(&rest);
    let mut pieces = Vec::with_capacity(count);
    let mut sum = 0u64;
    for digest in digests.chunks_exact(DIGEST_LEN) {
        let mut bytes = [0; DIGEST_LEN];
        bytes.copy_from_slice(digest);
        let len = u32::try_from(cursor.uv_max("length of a piece", raw_len.into())?).expect("not more than 32 bits");
        if len == 0 {
            return Err("a piece of 0 bytes".into());
        }
        sum += u64::from(len);
        pieces.push(Piece { gap: 0, raw_len: len, digest: Digest(bytes) });
    }
    for piece in &mut pieces {
        piece.gap = u32::try_from(cursor.uv_max("gap", raw_len.into())?).expect("not more than 32 bits");
        sum += u64::from(piece.gap);
    }
    if sum != u64::from(raw_len) {
        return Err(format!("pieces and gaps of {sum} bytes in a block of {raw_len}"));
    }
    let read = rest.len() - cursor.remaining();
    rest.drain(..read);
    Ok((pieces, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::{any_entries, without_raw};
    use proptest::prelude::*;

    const BLOCK: u64 = 1 << 41;

    prop_compose! {
        fn any_pieces()(pieces in prop::collection::vec((0u32..70, 1u32..100_000), 0..30)) -> Vec<Piece> {
            pieces.into_iter().map(|(gap, raw_len)| Piece { gap, raw_len, digest: Digest::of(&raw_len.to_le_bytes()) }).collect()
        }
    }

    fn raw_len(pieces: &[Piece]) -> u32 {
        pieces.iter().map(|piece| piece.gap + piece.raw_len).sum()
    }

    proptest! {
        #[test]
        fn directories_come_back(pieces in any_pieces(), entries in any_entries(), with_entries: bool) {
            let entries = if with_entries { without_raw(entries) } else { vec![] };
            let raw_len = raw_len(&pieces);
            let directory = Directory { pieces, entries };
            let bytes = directory.encode().unwrap();
            let pieces = Pieces::parse(&bytes, raw_len).unwrap();
            prop_assert_eq!(pieces.as_slice(), &directory.pieces[..]);
            let mut at = 0;
            for (number, piece) in (0..).zip(&directory.pieces) {
                prop_assert_eq!(pieces.get(number), Some((at + piece.gap, piece)));
                at += piece.gap + piece.raw_len;
            }
            prop_assert_eq!(pieces.within(0..u64::MAX).count(), directory.pieces.len());
            prop_assert!(Directory::parse(&bytes, BLOCK, raw_len + 1).is_err());
            prop_assert_eq!(Directory::parse(&bytes, BLOCK, raw_len), Ok(directory));
            prop_assert!(Directory::parse(&bytes[..bytes.len() - 1], BLOCK, raw_len).is_err());
        }

        #[test]
        fn changed_bytes_do_no_harm(pieces in any_pieces(), entries in any_entries(), at in any::<prop::sample::Index>(), to: u8) {
            let raw_len = raw_len(&pieces);
            let mut bytes = Directory { pieces, entries }.encode().unwrap();
            let at = at.index(bytes.len());
            bytes[at] = to;
            let _ = Directory::parse(&bytes, BLOCK, raw_len);
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..100), raw_len in 0u32..300) {
            let _ = Directory::parse(&bytes, BLOCK, raw_len);
        }
    }

    #[test]
    fn broken_directories_are_refused() {
        let piece = |raw_len| Piece { gap: 0, raw_len, digest: Digest::of(b"x") };
        let good = Directory { pieces: vec![piece(5), piece(6)], entries: vec![] }.encode().unwrap();
        let at = 1 + 2 * DIGEST_LEN;
        assert_eq!(good[at..], [0, 4, 5, 6, 0, 0]);
        assert!(Directory::parse(&good, BLOCK, 11).is_ok());
        assert_eq!(Directory::parse(&[0, 0, 0], BLOCK, 0), Ok(Directory::default()));
        let with = |tail: &[u8]| [&good[..at], tail].concat();
        for (why, bytes) in [
            ("nothing", vec![]),
            ("more pieces than bytes", vec![3]),
            ("lz4", with(&[2, 4, 5, 6, 0, 0])),
            ("unknown codec", with(&[3, 4, 5, 6, 0, 0])),
            ("rest too short", with(&[0, 3, 5, 6, 0])),
            ("left over", with(&[0, 4, 5, 6, 0, 0, 0])),
            ("piece of 0 bytes", with(&[0, 4, 0, 11, 0, 0])),
            ("sum", with(&[0, 4, 5, 6, 0, 1])),
            ("rest longer than a directory may be", with(&[1, 0x81, 0x80, 0x80, 0x20])),
            ("a record list without entries", with(&[0, 5, 5, 6, 0, 0, 0])),
        ] {
            assert!(Directory::parse(&bytes, BLOCK, 11).is_err(), "{why}");
        }
    }
}
