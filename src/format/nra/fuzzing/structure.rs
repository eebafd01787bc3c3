//! Single structures: parse, and what was accepted encoded again.

use crate::chunks::ChunkPage;
use crate::commit::{Commit, encode_attributes, parse_attributes};
use crate::content::FrameRef;
use crate::directory::Directory;
use crate::extents::ExtentPage;
use crate::frame::{FrameHeader, HEADER_LEN, REFERENCE_LEN};
use crate::head::{Head, SLOT_LEN, Slot, TAIL_LEN, Tail};
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::{Field, commit_slot, footer, frame, superblock};
use crate::page::Page;
use crate::records::{self, Holder, RecordList};
use nra_core::checksum::checksum;
use nra_core::codec::{Codec, decompress};
use nra_core::digest::DIGEST_LEN;
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Where structures that know their place stand.
const PLACE: u64 = 4096;

/// A structure of the format that is parsed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Structure {
    Head,
    Tail,
    FrameHeader,
    Reference,
    /// In any order, as in the directory of a block.
    RecordList,
    EntryPage,
    /// Preceded by the raw length of the block, u32.
    Directory,
    ExtentPage,
    ChunkPage,
    Commit,
    Attributes,
}

impl Structure {
    /// All structures.
    pub const ALL: [Self; 11] = [
        Self::Head,
        Self::Tail,
        Self::FrameHeader,
        Self::Reference,
        Self::RecordList,
        Self::EntryPage,
        Self::Directory,
        Self::ExtentPage,
        Self::ChunkPage,
        Self::Commit,
        Self::Attributes,
    ];
}

/// Sets the checksums inside `bytes` right, so that a parser gets past them. Bytes of another length than that of the structure stay as they are.
pub fn seal(structure: Structure, bytes: &mut [u8]) {
    match (structure, bytes.len()) {
        (Structure::Head, SUPERBLOCK_LEN) => {
            put_sum(superblock::CHECKSUM, bytes, 0);
            for (index, field) in [superblock::COMMIT_SLOT_A, superblock::COMMIT_SLOT_B].into_iter().enumerate() {
                let slot = &mut bytes[field.offset..field.offset + SLOT_LEN];
                if slot.iter().any(|&byte| byte != 0) {
                    put_sum(commit_slot::CHECKSUM, slot, Slot::place(index));
                }
            }
        }
        (Structure::Tail, TAIL_LEN) => put_sum(footer::CHECKSUM, bytes, tail_place(bytes)),
        (Structure::FrameHeader, HEADER_LEN) => put_sum(frame::HEADER_CHECKSUM, bytes, PLACE),
        _ => {}
    }
}

/// Sets a checksum that ends the part of a structure which it covers.
pub(super) fn put_sum(field: Field<8>, bytes: &mut [u8], place: u64) {
    let sum = checksum(&bytes[..field.offset], place);
    field.put(bytes, sum.to_le_bytes());
}

/// A tail lies behind its commit, wherever that is.
fn tail_place(bytes: &[u8]) -> u64 {
    let number = |field: Field<8>| u64::from_le_bytes(field.get(bytes));
    number(footer::COMMIT_OFFSET).saturating_add(number(footer::COMMIT_LENGTH))
}

/// Parses `bytes` as `structure`. Returns what the encoder makes of the result, which must be `bytes` again, or `None` if they were refused.
pub fn reencode(structure: Structure, bytes: &[u8]) -> Option<Vec<u8>> {
    match structure {
        Structure::Head => match Head::parse(bytes.try_into().ok()?).ok()? {
            (head, damaged) if damaged.is_empty() => Some(head.encode().into()),
            // Read as empty: it can't come back.
            _ => None,
        },
        Structure::Tail => {
            let place = tail_place(bytes.get(..TAIL_LEN)?);
            Some(Tail::parse(bytes.try_into().ok()?, place).ok()?.encode(place).into())
        }
        Structure::FrameHeader => {
            let bytes: &[u8; HEADER_LEN] = bytes.try_into().ok()?;
            let (header, check) = FrameHeader::parse(bytes, PLACE).ok()?;
            let (again, check_again) = header.encode(PLACE);
            assert_eq!(check, check_again);
            assert_eq!(FrameHeader::peek(bytes, PLACE), Some((header.kind as u8, header.frame_len())));
            Some(again.into())
        }
        Structure::Reference => {
            let bytes: &[u8; REFERENCE_LEN] = bytes.try_into().ok()?;
            Some(FrameRef::encode(FrameRef::parse(bytes).ok()?.as_ref()).into())
        }
        Structure::RecordList => {
            let mut list = RecordList::new(Holder::Leaf);
            records::parse(Cursor::new(bytes), None).ok()?.iter().for_each(|entry| list.push(entry));
            let mut again = Vec::new();
            list.finish(&mut again);
            Some(again)
        }
        Structure::EntryPage => Some(Page::parse(bytes).ok()?.encode()),
        Structure::Directory => {
            let (raw_len, bytes) = bytes.split_first_chunk()?;
            let directory = Directory::parse(bytes, PLACE, u32::from_le_bytes(*raw_len)).ok()?;
            let plain = encode_plain(&directory);
            // Compressed bytes may differ, what they stand for may not.
            let again = if decompressed(bytes).is_some_and(|found| found == plain) { bytes } else { &plain };
            Some([raw_len, again].concat())
        }
        Structure::ExtentPage => Some(ExtentPage::parse(bytes).ok()?.encode()),
        Structure::ChunkPage => Some(ChunkPage::parse(bytes).ok()?.encode()),
        Structure::Commit => Some(Commit::parse(bytes).ok()?.encode()),
        Structure::Attributes => Some(encode_attributes(&parse_attributes(bytes).ok()?)),
    }
}

/// Returns the bytes of a directory whose rest is not compressed.
pub(super) fn encode_plain(directory: &Directory) -> Vec<u8> {
    let mut list = RecordList::new(Holder::Directory);
    directory.entries.iter().for_each(|entry| list.push(entry));
    let (mut bytes, mut rest) = (Vec::new(), Vec::new());
    put_uv(&mut bytes, directory.pieces.len() as u64);
    for piece in &directory.pieces {
        bytes.extend_from_slice(&piece.digest.0);
        put_uv(&mut rest, piece.raw_len.into());
    }
    directory.pieces.iter().for_each(|piece| put_uv(&mut rest, piece.gap.into()));
    if list.count() > 0 {
        list.finish(&mut rest);
    }
    bytes.push(Codec::None as u8);
    put_uv(&mut bytes, rest.len() as u64);
    bytes.extend_from_slice(&rest);
    bytes
}

/// Decompresses the rest of a directory that was accepted. `None` if it is not compressed.
fn decompressed(directory: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(directory);
    let mut parts = || {
        let count = usize::try_from(cursor.uv()?).expect("accepted by the parser");
        cursor.take(count * DIGEST_LEN)?;
        let front = directory.len() - cursor.remaining();
        Ok::<_, Malformed>((front, cursor.u8()?, cursor.uv()?, cursor.take(cursor.remaining())?))
    };
    let (front, codec, len, stored) = parts().expect("accepted by the parser");
    if codec == Codec::None as u8 {
        return None;
    }
    let len_bytes = usize::try_from(len).expect("accepted by the parser");
    let rest = decompress(Codec::Zstd, stored, len_bytes, None).expect("accepted by the parser");
    let mut plain = directory[..front].to_vec();
    plain.push(Codec::None as u8);
    put_uv(&mut plain, len);
    plain.extend_from_slice(&rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Piece;
    use nra_core::digest::Digest;

    #[test]
    fn sealed_structures_come_back() {
        let head = Head { slots: [None, Some(Slot { number: 1, end: 1024 })], ..Head::default() };
        let tail = Tail { required: 0, commit_offset: 256, commit_length: 272, keys: (0, 0), number: 1 };
        let mut bytes = head.encode().to_vec();
        bytes[superblock::CHECKSUM.offset] ^= 1;
        bytes[superblock::COMMIT_SLOT_B.offset + commit_slot::CHECKSUM.offset] ^= 1;
        assert_eq!(reencode(Structure::Head, &bytes), None);
        seal(Structure::Head, &mut bytes);
        assert_eq!(bytes, head.encode());
        assert_eq!(reencode(Structure::Head, &bytes).as_ref(), Some(&bytes));
        let mut bytes = tail.encode(528).to_vec();
        bytes[footer::CHECKSUM.offset] ^= 1;
        assert_eq!(reencode(Structure::Tail, &bytes), None);
        seal(Structure::Tail, &mut bytes);
        assert_eq!(reencode(Structure::Tail, &bytes).as_ref(), Some(&bytes));
    }

    #[test]
    fn directories_come_back_compressed_and_plain() {
        let piece = |n: u8| Piece { gap: 0, raw_len: 100, digest: Digest::of(&[n]) };
        let directory = Directory { pieces: (0..100).map(piece).collect(), entries: vec![] };
        let raw_len = 10_000u32.to_le_bytes();
        for bytes in [directory.encode().unwrap(), encode_plain(&directory)] {
            let bytes = [&raw_len[..], &bytes].concat();
            assert_eq!(reencode(Structure::Directory, &bytes).as_ref(), Some(&bytes));
        }
        assert_eq!(decompressed(&directory.encode().unwrap()), Some(encode_plain(&directory)));
    }

    #[test]
    fn short_bytes_are_refused() {
        for structure in Structure::ALL {
            for len in 0..5 {
                let mut bytes = vec![0xff; len];
                seal(structure, &mut bytes);
                assert_eq!(reencode(structure, &bytes), None, "{structure:?}");
            }
        }
    }
}
