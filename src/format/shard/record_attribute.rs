//! The attribute that keeps the index record of an entry.

use crate::layout::{Compression, flags};

/// The fields of an index record that are kept as an attribute.
///
/// As text: number, flags, content type and tags in decimal digits, separated by colons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordAttribute {
    /// Number in the index, from 0.
    pub number: u32,
    /// Flags of the index record.
    pub flags: u16,
    /// Content type (shard.md, section 1.3).
    pub content_type: u16,
    /// One bit for each tag of the dictionary in the metadata.
    pub tags: u16,
}

impl RecordAttribute {
    /// Returns the text.
    pub fn encode(&self) -> String {
        format!("{}:{}:{}:{}", self.number, self.flags, self.content_type, self.tags)
    }

    /// Parses the text. Returns `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split(':');
        let mut next = || parts.next();
        let record = Self {
            number: next()?.parse().ok()?,
            flags: next()?.parse().ok()?,
            content_type: next()?.parse().ok()?,
            tags: next()?.parse().ok()?,
        };
        next().is_none().then_some(record)
    }

    /// Returns the compression of the entry.
    pub fn compression(&self) -> Option<Compression> {
        match self.flags & (flags::ENTRY_ZSTD | flags::ENTRY_LZ4) {
            flags::ENTRY_ZSTD => Some(Compression::Zstd),
            flags::ENTRY_LZ4 => Some(Compression::Lz4),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_restores_encoded_records_and_rejects_others() {
        let record = RecordAttribute { number: 70_000, flags: 3, content_type: 65_535, tags: 9 };
        assert_eq!(record.encode(), "70000:3:65535:9");
        assert_eq!(RecordAttribute::parse(record.encode().as_bytes()), Some(record));
        assert_eq!(record.compression(), Some(Compression::Zstd));
        for text in [&b""[..], b"1:2:3", b"1:2:3:4:5", b"1:2:3:70000", b"-1:2:3:4", b"1:2:3:\xff"] {
            assert_eq!(RecordAttribute::parse(text), None);
        }
    }
}
