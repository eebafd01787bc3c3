//! Finds the central directory from the end of the file.

use crate::record::{CENTRAL, u16_at, u32_at, u64_at};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// First bytes of the record at the end.
pub(super) const END: [u8; 4] = *b"PK\x05\x06";
/// Its length without the comment, bytes.
const END_LEN: usize = 22;
/// First bytes of the locator in front of it, when there is a wide end record.
pub(super) const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_LEN: u64 = 20;
/// First bytes of the wide end record.
pub(super) const WIDE: [u8; 4] = *b"PK\x06\x06";
const WIDE_LEN: usize = 56;
/// How far from the end of the file the end record is looked for, bytes: the longest comment, and a little of what does not belong there.
const REACH: u64 = 65_535 + END_LEN as u64 + 4_096;

/// Where the central directory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Directory {
    /// Its first byte in the file.
    pub start: u64,
    /// One behind its last.
    pub end: u64,
    /// What has to be added to offsets in it: bytes in front of the archive that its writer did not count.
    pub shift: u64,
    /// How many members the end record counts.
    pub count: u64,
    /// The count is kept modulo 65,536.
    pub is_narrow: bool,
    /// Where the comment begins in the file.
    pub comment: u64,
    /// Its length, bytes.
    pub comment_len: u16,
    /// Bytes behind the end record that do not belong to it.
    pub trailing: u64,
}

/// Returns where the central directory lies; `None` when there is no end record.
///
/// # Errors
///
/// `Corrupt` when it does not lie where the end record says, `Unsupported` for a part of a split archive.
pub(super) fn find(source: &dyn ReadAt) -> Result<Option<Directory>> {
    let len = source.len();
    let base = len.saturating_sub(REACH);
    let mut bytes = vec![0; usize::try_from(len - base).expect("the reach is small")];
    source.read_exact_at(base, &mut bytes)?;
    let places: Vec<usize> =
        (0..bytes.len().saturating_sub(END_LEN - 1)).rev().filter(|&at| bytes[at..].starts_with(&END)).collect();
    let comment_end = |at: usize| at + END_LEN + usize::from(u16_at(&bytes, at + 20));
    // One whose comment ends with the file is meant; another one may stand in that comment.
    let (exact, other): (Vec<usize>, Vec<usize>) = places.iter().partition(|&&at| comment_end(at) == bytes.len());
    let mut wrong = None;
    for at in exact.into_iter().chain(other) {
        let trailing = bytes.len().saturating_sub(comment_end(at)) as u64;
        match directory(source, base + at as u64, &bytes[at..at + END_LEN]) {
            Ok(directory) => {
                let comment = base + (at + END_LEN) as u64;
                let comment_len = u16::try_from(bytes.len() - at - END_LEN).unwrap_or(u16::MAX).min(u16_at(&bytes, at + 20));
                return Ok(Some(Directory { comment, comment_len, trailing, ..directory }));
            }
            Err(error) => _ = wrong.get_or_insert(error),
        }
    }
    wrong.map_or(Ok(None), Err)
}

/// Reads an end record, and the wide one if there is one.
fn directory(source: &dyn ReadAt, at: u64, end: &[u8]) -> Result<Directory> {
    let (disk, first_disk) = (u16_at(end, 4), u16_at(end, 6));
    let mut count = u64::from(u16_at(end, 10));
    let mut len = u64::from(u32_at(end, 12));
    let mut offset = u64::from(u32_at(end, 16));
    let mut directory_end = at;
    let mut is_narrow = true;
    let saturated = count == 0xffff || len == u64::from(u32::MAX) || offset == u64::from(u32::MAX);
    if let Some((place, wide)) = wide_end(source, at)?.filter(|_| saturated) {
        (count, len, offset) = (u64_at(&wide, 32), u64_at(&wide, 40), u64_at(&wide, 48));
        directory_end = place;
        is_narrow = false;
        if u32_at(&wide, 16) != 0 {
            return Err(split());
        }
    } else if (disk != 0 && disk != 0xffff) || (first_disk != 0 && first_disk != 0xffff) {
        return Err(split());
    }
    // The directory ends where the end record starts; what lies in between is not part of it.
    let damaged = |detail: String| Error::corrupt("zip end record", at, detail);
    let written = offset.checked_add(len).filter(|&written| written <= directory_end);
    let slack = directory_end
        - written.ok_or_else(|| damaged(format!("a directory of {len} bytes at {offset} does not fit in front of it")))?;
    let starts = |start: u64| -> Result<bool> {
        let mut first = [0; 4];
        if len == 0 {
            return Ok(true);
        }
        source.read_exact_at(start, &mut first)?;
        Ok(first == CENTRAL)
    };
    // Usually the slack is data in front of the archive, but it may be a signature behind the directory.
    for shift in [slack, 0] {
        if starts(offset + shift)? {
            let (start, end) = (offset + shift, offset + shift + len);
            return Ok(Directory { start, end, shift, count, is_narrow, comment: at, comment_len: 0, trailing: 0 });
        }
    }
    Err(damaged(format!("no central directory at {offset}")))
}

/// Returns the wide end record and its place, if its locator stands in front of the end record at `at`.
fn wide_end(source: &dyn ReadAt, at: u64) -> Result<Option<(u64, [u8; WIDE_LEN])>> {
    let Some(place) = at.checked_sub(LOCATOR_LEN) else { return Ok(None) };
    let mut locator = [0; LOCATOR_LEN as usize];
    source.read_exact_at(place, &mut locator)?;
    if !locator.starts_with(&LOCATOR) {
        return Ok(None);
    }
    // Where it is said to be, or, with data in front of the archive, right before the locator.
    for start in [Some(u64_at(&locator, 8)), place.checked_sub(WIDE_LEN as u64)].into_iter().flatten() {
        let mut wide = [0; WIDE_LEN];
        if start.checked_add(WIDE_LEN as u64).is_some_and(|end| end <= place) {
            source.read_exact_at(start, &mut wide)?;
            if wide.starts_with(&WIDE) {
                return Ok(Some((start, wide)));
            }
        }
    }
    Ok(None)
}

fn split() -> Error {
    Error::Unsupported { what: "zip archive", found: "split over several disks".into(), known: "archives in one file".into() }
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
    fn data_in_front_is_noticed() {
        let directory = [&CENTRAL[..], &[0; 42]].concat();
        let plain = found(&[&directory, &end(1, 46, 0, b"")]).unwrap();
        assert_eq!((plain.start, plain.end, plain.shift, plain.count, plain.trailing), (0, 46, 0, 1, 0));
        let shifted = found(&[b"#!/bin/sh\n", &directory, &end(1, 46, 0, b"")]).unwrap();
        assert_eq!((shifted.start, shifted.shift), (10, 10));
        let counted = found(&[b"#!/bin/sh\n", &directory, &end(1, 46, 10, b"")]).unwrap();
        assert_eq!((counted.start, counted.shift), (10, 0));
    }

    #[test]
    fn comments_and_what_trails() {
        let directory = [&CENTRAL[..], &[0; 42]].concat();
        let inner = end(9, 46, 0, b"");
        let commented = found(&[&directory, &end(1, 46, 0, &[&inner[..], b"x"].concat())]).unwrap();
        assert_eq!(commented.count, 1);
        let trailing = found(&[&directory, &end(1, 46, 0, b""), b"junk"]).unwrap();
        assert_eq!((trailing.count, trailing.trailing), (1, 4));
    }

    #[test]
    fn what_is_not_whole_is_refused() {
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
