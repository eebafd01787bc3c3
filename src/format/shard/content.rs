//! The content of an entry: decompression and verification.
//!
//! Specification: shard.md, sections 2 and 4.

use crate::layout::{Compression, Header, IndexEntry, MAX_CONTENT_LEN, Role, flags};
use nra_core::codec::{Codec, PREFIX_SLACK, decompress, decompress_prefix};

/// Highest ratio of zstd: a block takes at least four bytes and decompresses to at most 128 KiB.
const MAX_ZSTD_RATIO: u64 = (128 << 10) / 4;
/// Highest ratio of LZ4.
const MAX_LZ4_RATIO: u64 = 255;

/// Returns the compression of an entry, or `None` if it is uncompressed.
pub(super) fn compression(header: &Header, entry: &IndexEntry) -> Result<Option<Compression>, String> {
    if !entry.is_compressed() {
        return Ok(None);
    }
    match (entry.flags & flags::ENTRY_ZSTD != 0, entry.flags & flags::ENTRY_LZ4 != 0) {
        (true, false) => Ok(Some(Compression::Zstd)),
        (false, true) => Ok(Some(Compression::Lz4)),
        // Early writers of episodes name the codec only in the header.
        (false, false) if header.role == Role::EPISODE => {
            Compression::from_number(header.compression_default).map(Some).ok_or_else(|| {
                format!("compressed, but the header has no default codec (compression default {})", header.compression_default)
            })
        }
        (false, false) => Err("compressed without a codec".into()),
        (true, true) => Err("compressed with two codecs".into()),
    }
}

/// Returns the length of compressed content.
pub(super) fn checked_len(entry: &IndexEntry) -> Result<usize, String> {
    let len = usize::try_from(entry.content_len).ok().filter(|_| entry.content_len <= MAX_CONTENT_LEN);
    len.ok_or_else(|| format!("{} bytes of content, more than the limit of {MAX_CONTENT_LEN}", entry.content_len))
}

/// Decompresses the stored bytes of an entry and checks length and checksum.
pub(super) fn decompress_entry(header: &Header, entry: &IndexEntry, stored: Vec<u8>) -> Result<Vec<u8>, String> {
    let Some(compression) = compression(header, entry)? else {
        check_checksum(header, entry, crc32c::crc32c(&stored))?;
        return Ok(stored);
    };
    let content_len = checked_len(entry)?;
    let (codec, name, ratio) = match compression {
        Compression::Zstd => (Codec::Zstd, "zstd", MAX_ZSTD_RATIO),
        Compression::Lz4 => (Codec::Lz4, "LZ4", MAX_LZ4_RATIO),
    };
    // Memory is only allocated for a length that the stored bytes can decompress to.
    if entry.content_len > (stored.len() as u64).saturating_mul(ratio) {
        return Err(format!("{} bytes of {name} cannot decompress to {content_len} bytes", stored.len()));
    }
    let content = decompress(codec, &stored, content_len, None)?;
    check_checksum(header, entry, crc32c::crc32c(&content)).or_else(|wrong| {
        // Some writers of episodes store the checksum of the stored bytes.
        if header.role == Role::EPISODE { check_checksum(header, entry, crc32c::crc32c(&stored)) } else { Err(wrong) }
    })?;
    Ok(content)
}

/// Returns an upper bound for the stored bytes that the first `len` bytes of the content need.
pub(super) fn stored_len_for_prefix(header: &Header, entry: &IndexEntry, len: usize) -> Result<usize, String> {
    Ok(if compression(header, entry)?.is_some() { len.saturating_add(PREFIX_SLACK) } else { len })
}

/// Decompresses the first `len` bytes of the content, which must have as many. No checksum is compared.
pub(super) fn decompress_prefix_of_entry(
    header: &Header,
    entry: &IndexEntry,
    stored: &[u8],
    len: usize,
) -> Result<Vec<u8>, String> {
    let codec = compression(header, entry)?.map_or(Codec::None, |compression| match compression {
        Compression::Zstd => Codec::Zstd,
        Compression::Lz4 => Codec::Lz4,
    });
    let content = decompress_prefix(codec, stored, len)?;
    if content.len() < len {
        return Err(format!("at least {len} bytes of content expected, {} found", content.len()));
    }
    Ok(content)
}

/// Compares a checksum with that in the index, where zero means none unless the header marks all as valid.
pub(super) fn check_checksum(header: &Header, entry: &IndexEntry, found: u32) -> Result<(), String> {
    if found == entry.checksum || (entry.checksum == 0 && !header.has(flags::HAS_CHECKSUMS)) {
        return Ok(());
    }
    Err(format!("checksum {:08x} expected, {found:08x} found", entry.checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(role: Role, flags: u16) -> Header {
        Header {
            role,
            flags,
            alignment: 0,
            compression_default: 2,
            entry_count: 1,
            names_offset: 112,
            data_offset: 112,
            metadata_offset: 0,
            file_len: 112,
            reserved: [0; 16],
        }
    }

    fn entry(flags: u16, content: &[u8], stored: &[u8]) -> IndexEntry {
        IndexEntry {
            name_hash: 0,
            name_offset: 0,
            name_len: 0,
            flags,
            data_offset: 112,
            stored_len: stored.len() as u64,
            content_len: content.len() as u64,
            checksum: crc32c::crc32c(content),
            content_type: 0,
            tags: 0,
        }
    }

    #[test]
    fn checksum_is_crc32c() {
        assert_eq!(crc32c::crc32c(b"hello"), 0x9a71_bb4c);
        assert_eq!(crc32c::crc32c(b""), 0);
    }

    #[test]
    fn flags_determine_the_codec_and_must_not_contradict() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let plain = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let episode = header(Role::EPISODE, flags::HAS_CHECKSUMS);
        let read = |header: &Header, bits| decompress_entry(header, &entry(bits, &content, &stored), stored.clone());
        assert_eq!(read(&plain, 0x0005), Ok(content.to_vec()));
        assert_eq!(read(&plain, 0xff05), Ok(content.to_vec()), "undefined flags");
        assert_eq!(read(&plain, 0x0001).unwrap_err(), "compressed without a codec");
        assert_eq!(read(&plain, 0x0007).unwrap_err(), "compressed with two codecs");
        assert_eq!(read(&episode, 0x0001), Ok(content.to_vec()), "the header names the codec");
    }

    #[test]
    fn lengths_are_checked_before_allocation() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let header = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let mut long = entry(0x0005, &content, &stored);
        long.content_len = MAX_CONTENT_LEN + 1;
        assert!(decompress_entry(&header, &long, stored.clone()).unwrap_err().contains("more than the limit"));
        long.content_len = MAX_CONTENT_LEN;
        assert!(decompress_entry(&header, &long, stored.clone()).unwrap_err().contains("cannot decompress"));
        long.content_len = 999;
        assert!(decompress_entry(&header, &long, stored).is_err());
    }

    #[test]
    fn zero_checksum_is_compared_only_if_the_header_flag_is_set() {
        let with = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let without = header(Role::MODEL, 0);
        let wrong = IndexEntry { checksum: 1, ..entry(0, b"hello", b"hello") };
        let none = IndexEntry { checksum: 0, ..wrong };
        assert!(decompress_entry(&with, &none, b"hello".to_vec()).is_err());
        assert!(decompress_entry(&without, &none, b"hello".to_vec()).is_ok());
        assert!(decompress_entry(&without, &wrong, b"hello".to_vec()).is_err());
    }

    #[test]
    fn episodes_may_have_the_checksum_of_stored_bytes() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let entry = IndexEntry { checksum: crc32c::crc32c(&stored), ..entry(0x0005, &content, &stored) };
        assert!(decompress_entry(&header(Role::EPISODE, 0), &entry, stored.clone()).is_ok());
        assert!(decompress_entry(&header(Role::MODEL, 0), &entry, stored).is_err());
    }
}
