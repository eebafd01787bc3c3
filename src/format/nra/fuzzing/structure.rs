//! Single structures: parsed, and encoded again if accepted.

use crate::block_index::BlockIndex;
use crate::chunk_run::ChunkPage;
use crate::commit::{Commit, encode_attributes, parse_attributes};
use crate::content::FrameRef;
use crate::entry_page::EntryPage;
use crate::extent_map::ExtentPage;
use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{FrameHeader, HEADER_LEN, REFERENCE_LEN};
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::{Field, commit_slot, footer, frame, superblock};
use crate::records::{self, Holder, RecordList};
use crate::superblock::{COMMIT_SLOT_LEN, CommitSlot, Superblock};
use nra_core::checksum::checksum;
use nra_core::codec::{Codec, decompress};
use nra_core::digest::DIGEST_LEN;
use nra_core::wire::{Cursor, Malformed, put_uv};

/// Offset of structures whose checksum depends on their offset.
const PLACE: u64 = 4096;

/// A structure of the format that is parsed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Structure {
    Superblock,
    Footer,
    FrameHeader,
    Reference,
    /// In any order, as in a block index.
    RecordList,
    EntryPage,
    /// Preceded by the raw length of the block, u32.
    BlockIndex,
    ExtentPage,
    ChunkPage,
    Commit,
    Attributes,
}

impl Structure {
    /// All structures.
    pub const ALL: [Self; 11] = [
        Self::Superblock,
        Self::Footer,
        Self::FrameHeader,
        Self::Reference,
        Self::RecordList,
        Self::EntryPage,
        Self::BlockIndex,
        Self::ExtentPage,
        Self::ChunkPage,
        Self::Commit,
        Self::Attributes,
    ];
}

/// Corrects the checksums in `bytes` so that a parser accepts them. Bytes of the wrong length stay
/// unchanged.
pub fn seal(structure: Structure, bytes: &mut [u8]) {
    match (structure, bytes.len()) {
        (Structure::Superblock, SUPERBLOCK_LEN) => {
            put_sum(superblock::CHECKSUM, bytes, 0);
            for (index, field) in [superblock::COMMIT_SLOT_A, superblock::COMMIT_SLOT_B].into_iter().enumerate() {
                let slot = &mut bytes[field.offset..field.offset + COMMIT_SLOT_LEN];
                if slot.iter().any(|&byte| byte != 0) {
                    put_sum(commit_slot::CHECKSUM, slot, CommitSlot::offset(index));
                }
            }
        }
        (Structure::Footer, FOOTER_LEN) => put_sum(footer::CHECKSUM, bytes, footer_offset(bytes)),
        (Structure::FrameHeader, HEADER_LEN) => put_sum(frame::HEADER_CHECKSUM, bytes, PLACE),
        _ => {}
    }
}

/// Writes a checksum at the end of the part that it covers.
pub(super) fn put_sum(field: Field<8>, bytes: &mut [u8], place: u64) {
    let sum = checksum(&bytes[..field.offset], place);
    field.put(bytes, sum.to_le_bytes());
}

/// Returns where a footer directly follows its commit.
fn footer_offset(bytes: &[u8]) -> u64 {
    let number = |field: Field<8>| u64::from_le_bytes(field.get(bytes));
    number(footer::COMMIT_OFFSET).saturating_add(number(footer::COMMIT_LENGTH))
}

/// Parses `bytes` as `structure` and returns the encoded result, which must equal `bytes`. Returns
/// `None` if they are rejected.
pub fn reencode(structure: Structure, bytes: &[u8]) -> Option<Vec<u8>> {
    match structure {
        Structure::Superblock => match Superblock::parse(bytes.try_into().ok()?).ok()? {
            (superblock, damaged) if damaged.is_empty() => Some(superblock.encode().into()),
            // A damaged commit slot is parsed as empty and cannot round-trip.
            _ => None,
        },
        Structure::Footer => {
            let place = footer_offset(bytes.get(..FOOTER_LEN)?);
            Some(Footer::parse(bytes.try_into().ok()?, place).ok()?.encode(place).into())
        }
        Structure::FrameHeader => {
            let bytes: &[u8; HEADER_LEN] = bytes.try_into().ok()?;
            let (header, header_checksum) = FrameHeader::parse(bytes, PLACE).ok()?;
            let (again, check_again) = header.encode(PLACE);
            assert_eq!(header_checksum, check_again);
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
        Structure::EntryPage => Some(EntryPage::parse(bytes).ok()?.encode()),
        Structure::BlockIndex => {
            let (raw_len, bytes) = bytes.split_first_chunk()?;
            let block_index = BlockIndex::parse(bytes, PLACE, u32::from_le_bytes(*raw_len)).ok()?;
            let plain = encode_plain(&block_index);
            // Compressed bytes may differ, but not their content.
            let again = if decompressed(bytes).is_some_and(|found| found == plain) { bytes } else { &plain };
            Some([raw_len, again].concat())
        }
        Structure::ExtentPage => Some(ExtentPage::parse(bytes).ok()?.encode()),
        Structure::ChunkPage => Some(ChunkPage::parse(bytes).ok()?.encode()),
        Structure::Commit => Some(Commit::parse(bytes).ok()?.encode()),
        Structure::Attributes => Some(encode_attributes(&parse_attributes(bytes).ok()?)),
    }
}

/// Returns the bytes of a block index with an uncompressed body.
pub(super) fn encode_plain(block_index: &BlockIndex) -> Vec<u8> {
    let mut list = RecordList::new(Holder::BlockIndex);
    block_index.entries.iter().for_each(|entry| list.push(entry));
    let (mut bytes, mut rest) = (Vec::new(), Vec::new());
    put_uv(&mut bytes, block_index.chunks.len() as u64);
    for chunk in &block_index.chunks {
        bytes.extend_from_slice(&chunk.digest.0);
        put_uv(&mut rest, chunk.raw_len.into());
    }
    block_index.chunks.iter().for_each(|chunk| put_uv(&mut rest, chunk.gap.into()));
    if list.count() > 0 {
        list.finish(&mut rest);
    }
    bytes.push(Codec::None as u8);
    put_uv(&mut bytes, rest.len() as u64);
    bytes.extend_from_slice(&rest);
    bytes
}

/// Decompresses the body of an accepted block index. Returns `None` if it is not compressed.
fn decompressed(block_index: &[u8]) -> Option<Vec<u8>> {
    let mut cursor = Cursor::new(block_index);
    let mut parts = || {
        let count = usize::try_from(cursor.uv()?).expect("accepted by the parser");
        cursor.take(count * DIGEST_LEN)?;
        let front = block_index.len() - cursor.remaining();
        Ok::<_, Malformed>((front, cursor.u8()?, cursor.uv()?, cursor.take(cursor.remaining())?))
    };
    let (front, codec, len, stored) = parts().expect("accepted by the parser");
    if codec == Codec::None as u8 {
        return None;
    }
    let len_bytes = usize::try_from(len).expect("accepted by the parser");
    let rest = decompress(Codec::Zstd, stored, len_bytes, None).expect("accepted by the parser");
    let mut plain = block_index[..front].to_vec();
    plain.push(Codec::None as u8);
    put_uv(&mut plain, len);
    plain.extend_from_slice(&rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_index::Chunk;
    use nra_core::digest::Digest;

    #[test]
    fn resealed_structures_round_trip() {
        let superblock = Superblock { slots: [None, Some(CommitSlot { number: 1, end: 1024 })], ..Superblock::default() };
        let footer = Footer { required: 0, commit_offset: 256, commit_length: 272, keys: (0, 0), number: 1 };
        let mut bytes = superblock.encode().to_vec();
        bytes[superblock::CHECKSUM.offset] ^= 1;
        bytes[superblock::COMMIT_SLOT_B.offset + commit_slot::CHECKSUM.offset] ^= 1;
        assert_eq!(reencode(Structure::Superblock, &bytes), None);
        seal(Structure::Superblock, &mut bytes);
        assert_eq!(bytes, superblock.encode());
        assert_eq!(reencode(Structure::Superblock, &bytes).as_ref(), Some(&bytes));
        let mut bytes = footer.encode(528).to_vec();
        bytes[footer::CHECKSUM.offset] ^= 1;
        assert_eq!(reencode(Structure::Footer, &bytes), None);
        seal(Structure::Footer, &mut bytes);
        assert_eq!(reencode(Structure::Footer, &bytes).as_ref(), Some(&bytes));
    }

    #[test]
    fn block_indexes_round_trip_compressed_and_uncompressed() {
        let chunk = |n: u8| Chunk { gap: 0, raw_len: 100, digest: Digest::of(&[n]) };
        let block_index = BlockIndex { chunks: (0..100).map(chunk).collect(), entries: vec![] };
        let raw_len = 10_000u32.to_le_bytes();
        for bytes in [block_index.encode(), encode_plain(&block_index)] {
            let bytes = [&raw_len[..], &bytes].concat();
            assert_eq!(reencode(Structure::BlockIndex, &bytes).as_ref(), Some(&bytes));
        }
        assert_eq!(decompressed(&block_index.encode()), Some(encode_plain(&block_index)));
    }

    #[test]
    fn short_input_is_rejected() {
        for structure in Structure::ALL {
            for len in 0..5 {
                let mut bytes = vec![0xff; len];
                seal(structure, &mut bytes);
                assert_eq!(reencode(structure, &bytes), None, "{structure:?}");
            }
        }
    }
}
