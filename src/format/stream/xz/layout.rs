//! Parses and builds the headers and the index of xz streams.

use crc32fast::Hasher;
use nra_core::wire::{Cursor, put_uv};

/// Length of a stream header and of a stream footer, bytes.
pub(super) const HEADER: usize = 12;
/// Longest block header, bytes.
pub(super) const MAX_BLOCK_HEADER: usize = 1024;
/// Limit of block lengths in the format.
const MAX_LEN: u64 = 1 << 62;
const MAGIC: &[u8] = b"\xfd7zXZ\0";
/// The last filter of a chain, whose property is the length of the dictionary.
const LZMA2: u64 = 0x21;

fn crc32(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// The stream header's flags, which give the type of the block checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags([u8; 2]);

impl Flags {
    /// Parses a stream header. Returns `None` if it is invalid or its flags are unknown.
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let rest = header.get(..HEADER)?.strip_prefix(MAGIC)?;
        let flags = [rest[0], rest[1]];
        let is_known = flags[0] == 0 && matches!(flags[1], 0 | 1 | 4 | 10);
        (is_known && rest[2..] == crc32(&flags)).then_some(Self(flags))
    }

    /// Returns the stream header.
    pub(super) fn header(self) -> Vec<u8> {
        [MAGIC, &self.0, &crc32(&self.0)].concat()
    }

    /// Returns the length of a block checksum.
    fn checksum_len(self) -> u64 {
        match self.0[1] {
            0 => 0,
            1 => 4,
            4 => 8,
            _ => 32,
        }
    }
}

/// A block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// Length of the header, bytes.
    len: u64,
    /// Length of the compressed data, bytes.
    data: u64,
    /// Length of the content, bytes.
    pub(super) raw: u64,
    /// Memory for the dictionary, bytes.
    pub(super) dictionary: u64,
}

impl BlockHeader {
    /// Parses a block header. Returns `None` if it is invalid or does not contain both lengths.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let len = (usize::from(*bytes.first().filter(|&&len| len != 0)?) + 1) * 4;
        let (header, crc) = bytes.get(..len)?.split_at(len - 4);
        if crc != crc32(header) {
            return None;
        }
        let flags = header[1];
        let mut rest = Cursor::new(&header[2..]);
        if flags & 0xc0 != 0xc0 {
            return None;
        }
        let data = rest.uv().ok()?;
        let raw = rest.uv().ok()?;
        let mut dictionary = None;
        for _ in 0..=flags & 3 {
            let filter = rest.uv().ok()?;
            let properties_len = usize::try_from(rest.uv().ok()?).ok()?;
            let properties = rest.take(properties_len).ok()?;
            dictionary = match (filter, properties) {
                (LZMA2, &[40]) => Some(u64::from(u32::MAX)),
                (LZMA2, &[bits @ 0..40]) => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
                (LZMA2, _) => return None,
                _ => dictionary,
            };
        }
        (data < MAX_LEN && raw < MAX_LEN).then_some(Self { len: len as u64, data, raw, dictionary: dictionary? })
    }

    /// Returns the length of the block without its padding to a multiple of four.
    pub(super) fn unpadded(&self, flags: Flags) -> u64 {
        self.len + self.data + flags.checksum_len()
    }
}

/// The end of a stream: the index, which repeats the lengths of all blocks, and the footer. Both
/// follow from the blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamEnd {
    blocks: u64,
    /// Length of the records, bytes, and their checksum.
    len: u64,
    records: Hasher,
    /// The last record.
    last: Vec<u8>,
}

impl StreamEnd {
    /// Adds a block.
    pub(super) fn add(&mut self, unpadded: u64, raw: u64) {
        self.last.clear();
        put_uv(&mut self.last, unpadded);
        put_uv(&mut self.last, raw);
        self.records.update(&self.last);
        self.len += self.last.len() as u64;
        self.blocks += 1;
    }

    /// Returns the record of the last block.
    #[cfg(test)]
    pub(super) fn last_record(&self) -> Vec<u8> {
        self.last.clone()
    }

    /// Returns the start of the index, before the records.
    fn index_start(&self) -> Vec<u8> {
        let mut start = vec![0];
        put_uv(&mut start, self.blocks);
        start
    }

    /// Returns the length of the index without its checksum.
    pub(super) fn index_len(&self) -> u64 {
        (self.index_start().len() as u64 + self.len).next_multiple_of(4)
    }

    /// Returns the checksum of the index, and the footer.
    pub(super) fn checksum_and_footer(&self, flags: Flags) -> Vec<u8> {
        let start = self.index_start();
        let mut crc = Hasher::new();
        crc.update(&start);
        crc.combine(&self.records);
        let padding = self.index_len() - start.len() as u64 - self.len;
        crc.update(&[0; 4][..usize::try_from(padding).expect("less than four")]);
        let size = u32::try_from(self.index_len() / 4).unwrap_or(u32::MAX).to_le_bytes();
        let footer = [&size[..], &flags.0].concat();
        [&crc.finalize().to_le_bytes()[..], &crc32(&footer), &footer, b"YZ"].concat()
    }

    /// Returns the end of a stream with a single block.
    pub(super) fn of_block(unpadded: u64, raw: u64, flags: Flags) -> Vec<u8> {
        let mut end = Self::default();
        end.add(unpadded, raw);
        let mut bytes = end.index_start();
        bytes.extend_from_slice(&end.last);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(end.checksum_and_footer(flags));
        bytes
    }
}

/// Adds the lengths to the block header of a stream with a single block. Other streams are returned
/// unchanged.
///
/// Programs that decode on several threads need the lengths.
pub(crate) fn with_lengths(stream: Vec<u8>, raw: u64) -> Vec<u8> {
    try_with_lengths(&stream, raw).unwrap_or(stream)
}

fn try_with_lengths(stream: &[u8], raw: u64) -> Option<Vec<u8>> {
    let flags = Flags::parse(stream)?;
    let block = &stream[HEADER..];
    let len = (usize::from(*block.first().filter(|&&len| len != 0)?) + 1) * 4;
    let old = block.get(..len - 4)?;
    // No lengths and a single filter.
    if old[1] != 0 {
        return None;
    }
    let footer = stream.len().checked_sub(HEADER)?;
    let index_len = u64::from(u32::from_le_bytes(*stream.get(footer + 4..)?.first_chunk()?)) * 4 + 4;
    let end = footer.checked_sub(usize::try_from(index_len).ok()?)?;
    // The index distinguishes data and padding.
    let mut index = Cursor::new(stream.get(end + 1..footer)?);
    if index.uv().ok()? != 1 {
        return None;
    }
    let old_unpadded = index.uv().ok()?;
    let data = old_unpadded.checked_sub(len as u64 + flags.checksum_len())?;
    let start = Cursor::new(&old[2..]);
    let mut rest = start;
    rest.uv().ok()?;
    let properties_len = usize::try_from(rest.uv().ok()?).ok()?;
    rest.take(properties_len).ok()?;
    let filter = start.until(&rest);
    let mut header = vec![0, 0xc0];
    put_uv(&mut header, data);
    put_uv(&mut header, raw);
    header.extend_from_slice(filter);
    header.resize(header.len().next_multiple_of(4), 0);
    header[0] = u8::try_from(header.len() / 4).ok()?;
    header.extend(crc32(&header));
    let unpadded = header.len() as u64 + data + flags.checksum_len();
    Some([&flags.header(), &header, block.get(len..end - HEADER)?, &StreamEnd::of_block(unpadded, raw, flags)].concat())
}
