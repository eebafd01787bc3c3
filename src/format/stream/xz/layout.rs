//! Where the blocks of an xz stream lie, as its headers and its index tell.

use crc32fast::Hasher;

/// Length of the header of a stream, and of its footer, bytes.
pub(super) const HEADER: usize = 12;
/// Longest header of a block, bytes.
pub(super) const MAX_BLOCK_HEADER: usize = 1024;
/// What lengths of blocks stay below, as the format wants it.
const MAX_LEN: u64 = 1 << 62;
const MAGIC: &[u8] = b"\xfd7zXZ\0";
/// The filter that stands last, whose property is the length of the dictionary.
const LZMA2: u64 = 0x21;

fn crc32(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// Reads a number of seven bits a byte, the lowest first.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// What the header of a stream says: how its blocks are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags([u8; 2]);

impl Flags {
    /// Reads the header of a stream; `None` for one that is none, or of which nothing more is known.
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let rest = header.get(..HEADER)?.strip_prefix(MAGIC)?;
        let flags = [rest[0], rest[1]];
        let is_known = flags[0] == 0 && matches!(flags[1], 0 | 1 | 4 | 10);
        (is_known && rest[2..] == crc32(&flags)).then_some(Self(flags))
    }

    /// Returns the header.
    pub(super) fn header(self) -> Vec<u8> {
        [MAGIC, &self.0, &crc32(&self.0)].concat()
    }

    /// Returns the length of the check behind the data of a block.
    fn check_len(self) -> u64 {
        match self.0[1] {
            0 => 0,
            1 => 4,
            4 => 8,
            _ => 32,
        }
    }
}

/// What the header of a block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// Length of the header, bytes.
    len: u64,
    /// Length of the data, bytes.
    data: u64,
    /// Length of the content, bytes.
    pub(super) raw: u64,
    /// Memory for what is looked back at, bytes.
    pub(super) dictionary: u64,
}

impl BlockHeader {
    /// Reads the header of a block; `None` for one that is none, or does not tell both lengths.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let len = (usize::from(*bytes.first().filter(|&&len| len != 0)?) + 1) * 4;
        let (header, crc) = bytes.get(..len)?.split_at(len - 4);
        if crc != crc32(header) {
            return None;
        }
        let flags = header[1];
        let mut rest = &header[2..];
        if flags & 0xc0 != 0xc0 {
            return None;
        }
        let data = take_number(&mut rest)?;
        let raw = take_number(&mut rest)?;
        let mut dictionary = None;
        for _ in 0..=flags & 3 {
            let filter = take_number(&mut rest)?;
            let properties = usize::try_from(take_number(&mut rest)?).ok()?;
            let (properties, more) = rest.split_at_checked(properties)?;
            rest = more;
            dictionary = match (filter, properties) {
                (LZMA2, &[40]) => Some(u64::from(u32::MAX)),
                (LZMA2, &[bits @ 0..40]) => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
                (LZMA2, _) => return None,
                _ => dictionary,
            };
        }
        (data < MAX_LEN && raw < MAX_LEN).then_some(Self { len: len as u64, data, raw, dictionary: dictionary? })
    }

    /// Returns the length of the block without what fills it up to a multiple of four.
    pub(super) fn unpadded(&self, flags: Flags) -> u64 {
        self.len + self.data + flags.check_len()
    }
}

/// The end of a stream: its index, which repeats the lengths of all blocks, and its footer. Both follow from the blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    blocks: u64,
    /// Length of the records, bytes, and their checksum.
    len: u64,
    records: Hasher,
    /// The last record.
    last: Vec<u8>,
}

impl Tail {
    /// Adds a block.
    pub(super) fn add(&mut self, unpadded: u64, raw: u64) {
        self.last.clear();
        put_number(unpadded, &mut self.last);
        put_number(raw, &mut self.last);
        self.records.update(&self.last);
        self.len += self.last.len() as u64;
        self.blocks += 1;
    }

    /// Returns the record of the last block.
    #[cfg(test)]
    pub(super) fn last_record(&self) -> Vec<u8> {
        self.last.clone()
    }

    /// Returns what stands in front of the records.
    fn front(&self) -> Vec<u8> {
        let mut front = vec![0];
        put_number(self.blocks, &mut front);
        front
    }

    /// Returns the length of the index without its checksum.
    pub(super) fn index_len(&self) -> u64 {
        (self.front().len() as u64 + self.len).next_multiple_of(4)
    }

    /// Returns the checksum of the index, and the footer.
    pub(super) fn end(&self, flags: Flags) -> Vec<u8> {
        let front = self.front();
        let mut crc = Hasher::new();
        crc.update(&front);
        crc.combine(&self.records);
        let padding = self.index_len() - front.len() as u64 - self.len;
        crc.update(&[0; 4][..usize::try_from(padding).expect("less than four")]);
        let size = u32::try_from(self.index_len() / 4).unwrap_or(u32::MAX).to_le_bytes();
        let footer = [&size[..], &flags.0].concat();
        [&crc.finalize().to_le_bytes()[..], &crc32(&footer), &footer, b"YZ"].concat()
    }

    /// Returns the end of a stream that has one block alone.
    pub(super) fn of_one(unpadded: u64, raw: u64, flags: Flags) -> Vec<u8> {
        let mut tail = Self::default();
        tail.add(unpadded, raw);
        let mut bytes = tail.front();
        bytes.extend_from_slice(&tail.last);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(tail.end(flags));
        bytes
    }
}

/// Returns a stream of one block whose header tells the lengths, made of one whose header does not; other ones as they are.
///
/// Programs that decode on several threads need them.
pub(crate) fn with_lengths(stream: Vec<u8>, raw: u64) -> Vec<u8> {
    made_with_lengths(&stream, raw).unwrap_or(stream)
}

fn made_with_lengths(stream: &[u8], raw: u64) -> Option<Vec<u8>> {
    let flags = Flags::parse(stream)?;
    let block = &stream[HEADER..];
    let len = (usize::from(*block.first().filter(|&&len| len != 0)?) + 1) * 4;
    let old = block.get(..len - 4)?;
    // Neither length, and one filter.
    if old[1] != 0 {
        return None;
    }
    let footer = stream.len().checked_sub(HEADER)?;
    let index_len = u64::from(u32::from_le_bytes(*stream.get(footer + 4..)?.first_chunk()?)) * 4 + 4;
    let end = footer.checked_sub(usize::try_from(index_len).ok()?)?;
    // The index tells what is data, and what fills up.
    let mut index = stream.get(end + 1..footer)?;
    if take_number(&mut index)? != 1 {
        return None;
    }
    let old_unpadded = take_number(&mut index)?;
    let data = old_unpadded.checked_sub(len as u64 + flags.check_len())?;
    let mut rest = &old[2..];
    let filter = rest;
    take_number(&mut rest)?;
    let properties = usize::try_from(take_number(&mut rest)?).ok()?;
    let filter = &filter[..filter.len() - rest.len() + properties];
    let mut header = vec![0, 0xc0];
    put_number(data, &mut header);
    put_number(raw, &mut header);
    header.extend_from_slice(filter);
    header.resize(header.len().next_multiple_of(4), 0);
    header[0] = u8::try_from(header.len() / 4).ok()?;
    header.extend(crc32(&header));
    let unpadded = header.len() as u64 + data + flags.check_len();
    Some([&flags.header(), &header, block.get(len..end - HEADER)?, &Tail::of_one(unpadded, raw, flags)].concat())
}
