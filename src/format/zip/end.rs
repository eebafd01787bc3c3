//! Finds the central directory through the end record.

use crate::record::{CENTRAL, u16_at, u32_at, u64_at};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Signature of the end record.
pub(super) const END: [u8; 4] = *b"PK\x05\x06";
/// Length of the end record without its comment, bytes.
const END_LEN: usize = 22;
/// Signature of the zip64 locator, which precedes the end record.
pub(super) const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_LEN: u64 = 20;
/// Signature of the zip64 end record.
pub(super) const ZIP64_END: [u8; 4] = *b"PK\x06\x06";
const ZIP64_END_LEN: usize = 56;
/// Bytes at the end of the file that are searched for the end record: the longest comment, and some
/// trailing data.
const SEARCH_LEN: u64 = 65_535 + END_LEN as u64 + 4_096;

/// The location of the central directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Directory {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset of its end.
    pub end: u64,
    /// Added to the offsets in it: the length of data that precedes the archive and is not counted
    /// in offsets.
    pub shift: u64,
    /// Number of members in the end record.
    pub count: u64,
    /// There is a zip64 end record. Without one, the count is modulo 65,536.
    pub is_zip64: bool,
    /// Offset of the comment.
    pub comment: u64,
    /// Length of the comment, bytes.
    pub comment_len: u16,
    /// Number of bytes after the comment.
    pub trailing: u64,
}

/// Finds the central directory. Returns `None` if there is no end record.
///
/// # Errors
///
/// `Corrupt` if it is not where the end record says, `Unsupported` for a part of a split archive.
pub(super) fn find(source: &dyn ReadAt) -> Result<Option<Directory>> {
    let len = source.len();
    let base = len.saturating_sub(SEARCH_LEN);
    let mut bytes = vec![0; usize::try_from(len - base).expect("SEARCH_LEN is small")];
    source.read_exact_at(base, &mut bytes)?;
    let positions = (0..bytes.len().saturating_sub(END_LEN - 1)).rev().filter(|&at| bytes[at..].starts_with(&END));
    let comment_end = |at: usize| at + END_LEN + usize::from(u16_at(&bytes, at + 20));
    // A record whose comment ends with the file comes first: others may be part of its comment.
    let (exact, other): (Vec<usize>, Vec<usize>) = positions.partition(|&at| comment_end(at) == bytes.len());
    let mut first_error = None;
    for at in exact.into_iter().chain(other) {
        let trailing = bytes.len().saturating_sub(comment_end(at)) as u64;
        match directory(source, base + at as u64, &bytes[at..at + END_LEN]) {
            Ok(directory) => {
                let comment = base + (at + END_LEN) as u64;
                let comment_len = u16::try_from(bytes.len() - at - END_LEN).unwrap_or(u16::MAX).min(u16_at(&bytes, at + 20));
                return Ok(Some(Directory { comment, comment_len, trailing, ..directory }));
            }
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    first_error.map_or(Ok(None), Err)
}

/// Parses an end record, and the zip64 end record if there is one.
fn directory(source: &dyn ReadAt, at: u64, end: &[u8]) -> Result<Directory> {
    let (disk, first_disk) = (u16_at(end, 4), u16_at(end, 6));
    let mut count = u64::from(u16_at(end, 10));
    let mut len = u64::from(u32_at(end, 12));
    let mut offset = u64::from(u32_at(end, 16));
    let mut directory_end = at;
    let saturated = count == 0xffff || len == u64::from(u32::MAX) || offset == u64::from(u32::MAX);
    let zip64 = zip64_end(source, at)?.filter(|_| saturated);
    if let Some((start, record)) = &zip64 {
        (count, len, offset) = (u64_at(record, 32), u64_at(record, 40), u64_at(record, 48));
        directory_end = *start;
    }
    let is_split = match &zip64 {
        Some((_, record)) => u32_at(record, 16) != 0,
        None => [disk, first_disk].iter().any(|disk| ![0, 0xffff].contains(disk)),
    };
    if is_split {
        let (found, known) = ("split over several disks".into(), "archives in one file".into());
        return Err(Error::Unsupported { what: "zip archive", found, known });
    }
    // The directory normally ends where the end record starts. Data in between is not part of it.
    let damaged = |detail: String| Error::corrupt("zip end record", at, detail);
    let written_end = offset.checked_add(len).filter(|&end| end <= directory_end);
    let no_room = || damaged(format!("a directory of {len} bytes at {offset} does not fit before it"));
    let slack = directory_end - written_end.ok_or_else(no_room)?;
    let starts = |start: u64| -> Result<bool> {
        let mut first = [0; 4];
        if len == 0 {
            return Ok(true);
        }
        source.read_exact_at(start, &mut first)?;
        Ok(first == CENTRAL)
    };
    // The slack is usually data before the archive, but may be a signature after the directory.
    for shift in [slack, 0] {
        if starts(offset + shift)? {
            let (start, end) = (offset + shift, offset + shift + len);
            let is_zip64 = zip64.is_some();
            return Ok(Directory { start, end, shift, count, is_zip64, comment: at, comment_len: 0, trailing: 0 });
        }
    }
    Err(damaged(format!("no central directory at {offset}")))
}

/// Returns the zip64 end record and its offset if its locator precedes the end record at `at`.
fn zip64_end(source: &dyn ReadAt, at: u64) -> Result<Option<(u64, [u8; ZIP64_END_LEN])>> {
    let Some(locator_start) = at.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let mut locator = [0; LOCATOR_LEN as usize];
    source.read_exact_at(locator_start, &mut locator)?;
    if !locator.starts_with(&LOCATOR) {
        return Ok(None);
    }
    // It is at the offset in the locator or, if data precedes the archive, directly before the
    // locator.
    for start in [Some(u64_at(&locator, 8)), locator_start.checked_sub(ZIP64_END_LEN as u64)].into_iter().flatten() {
        let mut record = [0; ZIP64_END_LEN];
        if start.checked_add(ZIP64_END_LEN as u64).is_some_and(|end| end <= locator_start) {
            source.read_exact_at(start, &mut record)?;
            if record.starts_with(&ZIP64_END) {
                return Ok(Some((start, record)));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn end(count: u16, len: u32, offset: u32, comment: &[u8]) -> Vec<u8> {
        let mut bytes = END.to_vec();
        bytes.extend([0; 6]);
        bytes.extend(count.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(u16::try_from(comment.len()).unwrap().to_le_bytes());
        bytes.extend(comment);
        bytes
    }

    fn found(parts: &[&[u8]]) -> Result<Directory> {
        find(&MemorySource::new(parts.concat())).map(|found| found.expect("there is an end record"))
    }

    #[test]
    fn data_before_the_archive_shifts_offsets() {
        let directory = [&CENTRAL[..], &[0; 42]].concat();
        let plain = found(&[&directory, &end(1, 46, 0, b"")]).unwrap();
        assert_eq!((plain.start, plain.end, plain.shift, plain.count, plain.trailing), (0, 46, 0, 1, 0));
        let shifted = found(&[b"#!/bin/sh\n", &directory, &end(1, 46, 0, b"")]).unwrap();
        assert_eq!((shifted.start, shifted.shift), (10, 10));
        let counted = found(&[b"#!/bin/sh\n", &directory, &end(1, 46, 10, b"")]).unwrap();
        assert_eq!((counted.start, counted.shift), (10, 0));
    }

    #[test]
    fn comments_and_trailing_data_are_told_apart() {
        let directory = [&CENTRAL[..], &[0; 42]].concat();
        let inner = end(9, 46, 0, b"");
        let commented = found(&[&directory, &end(1, 46, 0, &[&inner[..], b"x"].concat())]).unwrap();
        assert_eq!(commented.count, 1);
        let trailing = found(&[&directory, &end(1, 46, 0, b""), b"junk"]).unwrap();
        assert_eq!((trailing.count, trailing.trailing), (1, 4));
    }

    #[test]
    fn invalid_and_split_archives_are_rejected() {
        let directory = [&CENTRAL[..], &[0; 42]].concat();
        assert_eq!(find(&MemorySource::new(directory.clone())).unwrap(), None);
        assert!(found(&[&directory, &end(1, u32::MAX - 1, 0, b"")]).unwrap_err().to_string().contains("does not fit"));
        assert!(found(&[&[0; 46], &end(1, 46, 0, b"")]).unwrap_err().to_string().contains("no central directory"));
        let mut split = end(1, 46, 0, b"");
        split[4] = 3;
        assert!(found(&[&directory, &split]).unwrap_err().to_string().contains("split"));
        assert_eq!(found(&[&end(0, 0, 0, b"")]).unwrap().count, 0);
    }
}
