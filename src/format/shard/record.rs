//! What an entry of a Shard file has beside name and content, as an attribute of the entry.

use crate::layout::{Compression, flags};

/// Facts of an entry. As text: number, flags, content type and tags in decimal digits, with colons between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    /// Place in the index, from 0.
    pub number: u32,
    /// Flags of the index record.
    pub flags: u16,
    /// Content type (shard.md, section 1.3).
    pub content_type: u16,
    /// One bit for each tag of the dictionary in the metadata.
    pub tags: u16,
}

impl Record {
    /// Writes the text.
    pub fn encode(&self) -> String {
        format!("{}:{}:{}:{}", self.number, self.flags, self.content_type, self.tags)
    }

    /// Reads the text; `None` when it is something else.
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

    /// Returns how the entry was compressed.
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
    fn text_is_read_back() {
        let record = Record { number: 70_000, flags: 3, content_type: 65_535, tags: 9 };
        assert_eq!(record.encode(), "70000:3:65535:9");
        assert_eq!(Record::parse(record.encode().as_bytes()), Some(record));
        assert_eq!(record.compression(), Some(Compression::Zstd));
        for text in [&b""[..], b"1:2:3", b"1:2:3:4:5", b"1:2:3:70000", b"-1:2:3:4", b"1:2:3:\xff"] {
            assert_eq!(Record::parse(text), None);
        }
    }
}
