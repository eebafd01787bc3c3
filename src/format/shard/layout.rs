//! Header and index records: encoding and parsing of fixed layouts, without I/O.
//!
//! Specification: shard.md, sections 1 and 4.1.

pub use nra_core::container::Role;
use nra_core::error::{Error, Result};
use nra_core::layout::Field;
use nra_core::{limits, stored_numbers};

/// First bytes of a file.
pub(crate) const MAGIC: [u8; 4] = *b"SHRD";
const VERSION: u8 = 2;
/// Length of the header, bytes.
pub const HEADER_LEN: usize = 64;
/// Length of an index record, bytes.
pub const INDEX_ENTRY_LEN: usize = 48;
/// Largest number of entries in a file.
pub const MAX_ENTRIES: u32 = 10_000_000;
/// Largest length of the names and their padding, bytes.
pub const MAX_NAMES_LEN: u64 = 100 << 20;
/// Longest content of a compressed entry, bytes.
pub const MAX_CONTENT_LEN: u64 = 1 << 30;

/// Bits of [`Header::flags`] and [`IndexEntry::flags`].
pub mod flags {
    /// Header: some entries are compressed (informative).
    pub const COMPRESSED: u16 = 0x0001;
    /// Header: numbers are little-endian (informative: they always are).
    pub const LITTLE_ENDIAN: u16 = 0x0002;
    /// Header: metadata follow the content.
    pub const HAS_METADATA: u16 = 0x0010;
    /// Header: the checksums of the index are valid.
    pub const HAS_CHECKSUMS: u16 = 0x0020;
    /// Header: written by a streaming writer.
    pub const STREAMING: u16 = 0x0040;
    /// Header: some entries have a content type.
    pub const HAS_CONTENT_TYPES: u16 = 0x0080;

    /// Entry: compressed.
    pub const ENTRY_COMPRESSED: u16 = 0x0001;
    /// Entry: one zstd frame.
    pub const ENTRY_ZSTD: u16 = 0x0002;
    /// Entry: one LZ4 block.
    pub const ENTRY_LZ4: u16 = 0x0004;
    /// Entry: all flags about compression.
    pub const ENTRY_STORED: u16 = ENTRY_COMPRESSED | ENTRY_ZSTD | ENTRY_LZ4;
}

/// The compression of an entry. The numbers are those of the default in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// One zstd frame.
    Zstd = 1,
    /// One LZ4 block without a length prefix.
    Lz4 = 2,
}

impl Compression {
    /// Returns the flags of an entry with this compression.
    pub fn entry_flags(self) -> u16 {
        flags::ENTRY_COMPRESSED
            | match self {
                Self::Zstd => flags::ENTRY_ZSTD,
                Self::Lz4 => flags::ENTRY_LZ4,
            }
    }

    /// Returns the compression with this number in the header.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Zstd),
            2 => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// The header: the first 64 bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Profile.
    pub role: Role,
    /// Flags, see [`flags`].
    pub flags: u16,
    /// Alignment of the entries, bytes; 0 = none.
    pub alignment: u8,
    /// Number of the default compression (informative).
    pub compression_default: u8,
    /// Number of entries.
    pub entry_count: u32,
    /// Offset of the names.
    pub names_offset: u64,
    /// Offset of the content.
    pub data_offset: u64,
    /// Offset of the metadata; 0 = none.
    pub metadata_offset: u64,
    /// Length of the file, bytes.
    pub file_len: u64,
    /// Reserved bytes, normally zero.
    pub reserved: [u8; 16],
}

/// Field of the header: length of an index record.
const RECORD_LEN: Field<2> = Field { offset: 10 };

stored_numbers!(Header (role, reserved) {
    flags: 6,
    alignment: 8,
    compression_default: 9,
    entry_count: 12,
    names_offset: 16,
    data_offset: 24,
    metadata_offset: 32,
    file_len: 40,
});

impl Header {
    /// Parses the header of a file of `file_len` bytes and checks it as far as possible without the rest.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version; `Corrupt` or `Limit` for an invalid header.
    pub fn parse(bytes: &[u8; HEADER_LEN], file_len: u64) -> Result<Self> {
        let damaged = |detail: String| Err(Error::corrupt("Shard header", 0, detail));
        if bytes[..4] != MAGIC {
            return damaged(format!("magic is {:02x?}", &bytes[..4]));
        }
        if bytes[4] != VERSION {
            return Err(Error::Unsupported { what: "Shard version", found: bytes[4].to_string(), known: VERSION.to_string() });
        }
        let reserved = *bytes.last_chunk().expect("the header is longer");
        let mut header = Self { role: Role(bytes[5]), reserved, ..Self::default() };
        header.get_numbers(bytes);
        let record_len = RECORD_LEN.number::<u16>(bytes);
        if usize::from(record_len) != INDEX_ENTRY_LEN {
            return damaged(format!("index records of {record_len} bytes, {INDEX_ENTRY_LEN} expected"));
        }
        check_count(header.entry_count)?;
        if header.file_len != file_len {
            return damaged(format!("a length of {} bytes expected, the file has {file_len}", header.file_len));
        }
        if header.index_end() > file_len {
            return damaged(format!("an index of {} entries does not fit into {file_len} bytes", header.entry_count));
        }
        if header.names_offset < header.index_end() || header.names_offset > header.data_offset || header.data_offset > file_len {
            return damaged(format!(
                "names at {} and data at {}; between the end of the index, {}, and that of the file, {file_len}, expected in this order",
                header.names_offset,
                header.data_offset,
                header.index_end()
            ));
        }
        check_names_len(header.data_offset - header.names_offset)?;
        Ok(header)
    }

    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.role.0;
        RECORD_LEN.put_number(&mut bytes, INDEX_ENTRY_LEN as u16);
        self.put_numbers(&mut bytes);
        bytes[48..].copy_from_slice(&self.reserved);
        bytes
    }

    /// Returns the offset at which the index ends.
    pub fn index_end(&self) -> u64 {
        index_end(self.entry_count)
    }

    /// Returns whether a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Returns the offset at which an index of `count` entries ends.
pub(crate) fn index_end(count: u32) -> u64 {
    HEADER_LEN as u64 + u64::from(count) * INDEX_ENTRY_LEN as u64
}

/// Rounds `offset` up to a multiple of `alignment`, where 0 is like 1. Returns `None` on overflow.
pub(crate) fn aligned(offset: u64, alignment: u8) -> Option<u64> {
    offset.checked_next_multiple_of(u64::from(alignment.max(1)))
}

/// One record of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexEntry {
    /// Stored xxHash64 (seed 0) of the name.
    pub name_hash: u64,
    /// Offset of the name, relative to [`Header::names_offset`].
    pub name_offset: u32,
    /// Length of the name, bytes.
    pub name_len: u16,
    /// Flags, see [`flags`].
    pub flags: u16,
    /// Offset of the content.
    pub data_offset: u64,
    /// Length of the stored content, bytes.
    pub stored_len: u64,
    /// Length of the content, bytes.
    pub content_len: u64,
    /// CRC-32C of the content.
    pub checksum: u32,
    /// Content type (section 1.3).
    pub content_type: u16,
    /// One bit for each tag of the dictionary in the metadata.
    pub tags: u16,
}

stored_numbers!(IndexEntry () {
    name_hash: 0,
    name_offset: 8,
    name_len: 12,
    flags: 14,
    data_offset: 16,
    stored_len: 24,
    content_len: 32,
    checksum: 40,
    content_type: 44,
    tags: 46,
});

impl IndexEntry {
    /// Parses a record.
    pub fn parse(bytes: &[u8; INDEX_ENTRY_LEN]) -> Self {
        let mut entry = Self::default();
        entry.get_numbers(bytes);
        entry
    }

    /// Returns the bytes of the record.
    pub fn encode(&self) -> [u8; INDEX_ENTRY_LEN] {
        let mut bytes = [0; INDEX_ENTRY_LEN];
        self.put_numbers(&mut bytes);
        bytes
    }

    /// Returns whether the content is compressed.
    pub fn is_compressed(&self) -> bool {
        self.flags & flags::ENTRY_COMPRESSED != 0
    }

    /// Returns the offset at which the stored content ends, or `None` on overflow.
    pub fn data_end(&self) -> Option<u64> {
        self.data_offset.checked_add(self.stored_len)
    }
}

pub(crate) fn check_count(entries: u32) -> Result<()> {
    limits::check("number of entries", entries.into(), MAX_ENTRIES.into())
}

pub(crate) fn check_names_len(len: u64) -> Result<()> {
    limits::check("length of the names", len, MAX_NAMES_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header and first record of an example file.
    const EXAMPLE: [u8; 112] = {
        let mut bytes = [0; 112];
        let header = *b"SHRD\x02\x01\xa2\x00\x00\x00\x30\x00\x02\x00\x00\x00\xa0";
        let mut at = 0;
        while at < header.len() {
            bytes[at] = header[at];
            at += 1;
        }
        bytes[24] = 0xa4;
        bytes[40] = 0xb0;
        let record = *b"\x23\x11\x04\x83\x96\xc0\x80\x5c\0\0\0\0\x01\0\0\0\xa4\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x8e\x77\xdc\xf1\x0a\0\0\0";
        let mut at = 0;
        while at < record.len() {
            bytes[64 + at] = record[at];
            at += 1;
        }
        bytes
    };

    #[test]
    fn header_of_example_is_parsed_and_encoded() {
        let bytes: [u8; HEADER_LEN] = *EXAMPLE.first_chunk().unwrap();
        let header = Header::parse(&bytes, 176).unwrap();
        let expected = Header {
            role: Role::MODEL,
            flags: 0xa2,
            alignment: 0,
            compression_default: 0,
            entry_count: 2,
            names_offset: 160,
            data_offset: 164,
            metadata_offset: 0,
            file_len: 176,
            reserved: [0; 16],
        };
        assert_eq!(header, expected);
        assert_eq!(header.encode(), bytes);
        assert!(header.has(flags::HAS_CHECKSUMS) && !header.has(flags::STREAMING));
    }

    #[test]
    fn index_record_of_example_is_parsed_and_encoded() {
        let bytes: [u8; INDEX_ENTRY_LEN] = *EXAMPLE[64..].first_chunk().unwrap();
        let entry = IndexEntry::parse(&bytes);
        assert_eq!((entry.name_hash, entry.name_offset, entry.name_len), (0x5c80_c096_8304_1123, 0, 1));
        assert_eq!((entry.data_offset, entry.stored_len, entry.content_len), (164, 4, 4));
        assert_eq!((entry.checksum, entry.content_type, entry.tags), (0xf1dc_778e, 10, 0));
        assert_eq!(entry.encode(), bytes);
        assert_eq!(IndexEntry { stored_len: u64::MAX, ..entry }.data_end(), None);
    }

    #[test]
    fn aligned_rounds_up_and_detects_overflow() {
        for (offset, alignment, expected) in
            [(5, 0, Some(5)), (5, 1, Some(5)), (5, 16, Some(16)), (64, 64, Some(64)), (15, 7, Some(21)), (u64::MAX, 64, None)]
        {
            assert_eq!(aligned(offset, alignment), expected);
        }
    }
}
