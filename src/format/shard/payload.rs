//! Content of one entry: from stored bytes to checked ones, and back.
//!
//! Specification: shard.md, sections 2 and 4.3.

use crate::layout::{Compression, Header, IndexEntry, MAX_PAYLOAD, Role, flags};
use nra_core::codec::{Codec, PREFIX_SLACK, decompress, decompress_prefix};

/// A block of a zstd frame takes four bytes at least, and gives at most 128 KiB.
const MAX_ZSTD_RATIO: u64 = (128 << 10) / 4;
/// An LZ4 block gives at most this many bytes for each of its own.
const MAX_LZ4_RATIO: u64 = 255;

/// Returns how an entry is stored, `None` = as it is.
///
/// # Errors
///
/// A sentence, when its flags contradict each other.
pub(super) fn compression(header: &Header, entry: &IndexEntry) -> Result<Option<Compression>, String> {
    if !entry.is_compressed() {
        return Ok(None);
    }
    match (entry.flags & flags::ENTRY_ZSTD != 0, entry.flags & flags::ENTRY_LZ4 != 0) {
        (true, false) => Ok(Some(Compression::Zstd)),
        (false, true) => Ok(Some(Compression::Lz4)),
        // Old writers of episodes name the codec in the header alone.
        (false, false) if header.role == Role::EPISODE => Compression::from_number(header.compression_default)
            .map(Some)
            .ok_or_else(|| format!("compressed, and the header names no codec but {}", header.compression_default)),
        (false, false) => Err("compressed without a codec".into()),
        (true, true) => Err("compressed with two codecs".into()),
    }
}

/// Returns the length of compressed content.
///
/// # Errors
///
/// A sentence, when it is longer than that may be.
pub(super) fn check_len(entry: &IndexEntry) -> Result<usize, String> {
    let len = usize::try_from(entry.content_len).ok().filter(|_| entry.content_len <= MAX_PAYLOAD);
    len.ok_or_else(|| format!("a content of {} bytes, more than the limit of {MAX_PAYLOAD}", entry.content_len))
}

/// Decompresses what is stored of an entry and checks length and checksum.
///
/// # Errors
///
/// A sentence: what was expected, what was found.
pub(super) fn unpack(header: &Header, entry: &IndexEntry, stored: Vec<u8>) -> Result<Vec<u8>, String> {
    let Some(compression) = compression(header, entry)? else {
        check_sum(header, entry, crc32c::crc32c(&stored))?;
        return Ok(stored);
    };
    let content_len = check_len(entry)?;
    let (codec, name, ratio) = match compression {
        Compression::Zstd => (Codec::Zstd, "zstd", MAX_ZSTD_RATIO),
        Compression::Lz4 => (Codec::Lz4, "LZ4", MAX_LZ4_RATIO),
    };
    // A length is a claim: memory is taken only for what the stored bytes can give.
    if entry.content_len > (stored.len() as u64).saturating_mul(ratio) {
        return Err(format!("{} {name} bytes can't hold {content_len}", stored.len()));
    }
    let content = decompress(codec, &stored, content_len, None)?;
    check_sum(header, entry, crc32c::crc32c(&content)).or_else(|wrong| {
        // Some writers of episodes took the checksum of what they stored.
        if header.role == Role::EPISODE { check_sum(header, entry, crc32c::crc32c(&stored)) } else { Err(wrong) }
    })?;
    Ok(content)
}

/// Returns how many stored bytes give the first `len` bytes of the content, at most.
///
/// # Errors
///
/// As [`compression`].
pub(super) fn needed_for_prefix(header: &Header, entry: &IndexEntry, len: usize) -> Result<usize, String> {
    Ok(if compression(header, entry)?.is_some() { len.saturating_add(PREFIX_SLACK) } else { len })
}

/// Decompresses the first `len` bytes of the content, no more than it has. No checksum covers them.
///
/// # Errors
///
/// A sentence, also when there are fewer.
pub(super) fn unpack_prefix(header: &Header, entry: &IndexEntry, stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let codec = compression(header, entry)?.map_or(Codec::None, |compression| match compression {
        Compression::Zstd => Codec::Zstd,
        Compression::Lz4 => Codec::Lz4,
    });
    let content = decompress_prefix(codec, stored, len)?;
    if content.len() < len {
        return Err(format!("{len} bytes of content expected at least, {} found", content.len()));
    }
    Ok(content)
}

/// Compares a checksum with that of the index. One of zero means none, unless the header says that all are valid.
pub(super) fn check_sum(header: &Header, entry: &IndexEntry, found: u32) -> Result<(), String> {
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
    fn checksum_of_the_specification() {
        assert_eq!(crc32c::crc32c(b"hello"), 0x9a71_bb4c);
        assert_eq!(crc32c::crc32c(b""), 0);
    }

    #[test]
    fn flags_decide_and_must_not_contradict() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let plain = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let episode = header(Role::EPISODE, flags::HAS_CHECKSUMS);
        let unpack = |header: &Header, bits| unpack(header, &entry(bits, &content, &stored), stored.clone());
        assert_eq!(unpack(&plain, 0x0005), Ok(content.to_vec()));
        assert_eq!(unpack(&plain, 0xff05), Ok(content.to_vec()), "bits without a meaning");
        assert_eq!(unpack(&plain, 0x0001).unwrap_err(), "compressed without a codec");
        assert_eq!(unpack(&plain, 0x0007).unwrap_err(), "compressed with two codecs");
        assert_eq!(unpack(&episode, 0x0001), Ok(content.to_vec()), "the header names the codec");
    }

    #[test]
    fn lengths_are_bounded_before_memory_is_taken() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let header = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let mut long = entry(0x0005, &content, &stored);
        long.content_len = MAX_PAYLOAD + 1;
        assert!(unpack(&header, &long, stored.clone()).unwrap_err().contains("more than the limit"));
        long.content_len = MAX_PAYLOAD;
        assert!(unpack(&header, &long, stored.clone()).unwrap_err().contains("can't hold"));
        long.content_len = 999;
        assert!(unpack(&header, &long, stored).is_err());
    }

    #[test]
    fn a_checksum_of_zero_counts_only_with_the_flag() {
        let with = header(Role::MODEL, flags::HAS_CHECKSUMS);
        let without = header(Role::MODEL, 0);
        let wrong = IndexEntry { checksum: 1, ..entry(0, b"hello", b"hello") };
        let none = IndexEntry { checksum: 0, ..wrong };
        assert!(unpack(&with, &none, b"hello".to_vec()).is_err());
        assert!(unpack(&without, &none, b"hello".to_vec()).is_ok());
        assert!(unpack(&without, &wrong, b"hello".to_vec()).is_err());
    }

    #[test]
    fn episodes_may_have_the_checksum_of_what_is_stored() {
        let content = [7; 1000];
        let stored = lz4_flex::block::compress(&content);
        let entry = IndexEntry { checksum: crc32c::crc32c(&stored), ..entry(0x0005, &content, &stored) };
        assert!(unpack(&header(Role::EPISODE, 0), &entry, stored.clone()).is_ok());
        assert!(unpack(&header(Role::MODEL, 0), &entry, stored).is_err());
    }
}
