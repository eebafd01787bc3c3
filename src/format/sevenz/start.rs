//! Where the archive begins in its file, and its header.

use std::sync::Arc;

use super::decode::{Decoding, decode};
use super::streams::Streams;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;
use nra_core::wire::Cursor;

/// First bytes of an archive.
pub(super) const SIGNATURE: [u8; 6] = *b"7z\xbc\xaf\x27\x1c";
/// Length of what every archive begins with, bytes.
pub(super) const START_LEN: u64 = 32;
/// First bytes of programs that extract what is behind them.
const PROGRAMS: [&[u8]; 3] = [b"MZ", b"\x7fELF", b"#!"];
/// How far behind the start of a program the archive begins, bytes: more than any known one has.
const MAX_PROGRAM: u64 = 4 << 20;
/// Ids of a header, and of one that is compressed.
const HEADER: u8 = 1;
const ENCODED: u8 = 0x17;
/// How often a header may be compressed.
const MAX_ENCODED: usize = 4;

/// A header that was read.
pub(super) struct Header {
    /// Bytes behind [`START_LEN`] that the archive has, up to its header.
    pub body: u64,
    /// The header behind its first id; nothing for an archive without entries.
    pub bytes: Vec<u8>,
    pub is_encrypted: bool,
    /// Bytes behind the header.
    pub trailing: u64,
}

/// Finds the start of an archive.
///
/// # Errors
///
/// `Io`.
pub(super) fn find(source: &dyn ReadAt) -> Result<Option<u64>> {
    let mut first = [0; 6];
    if source.len() < START_LEN {
        return Ok(None);
    }
    source.read_exact_at(0, &mut first)?;
    if first == SIGNATURE {
        return Ok(Some(0));
    }
    if !PROGRAMS.iter().any(|program| first.starts_with(program)) {
        return Ok(None);
    }
    let len = usize::try_from(source.len().min(MAX_PROGRAM)).expect("at most 4 MiB");
    let mut program = vec![0; len];
    source.read_exact_at(0, &mut program)?;
    // A program that knows the signature has it in itself, too.
    let is_start = |start: &[u8]| start.starts_with(&SIGNATURE) && checked(start).is_some();
    let found = program.windows(START_LEN as usize).position(is_start);
    Ok(found.map(|found| found as u64))
}

/// Returns what the start says of the header (offset, length, checksum), if the checksum of that is right.
fn checked(start: &[u8]) -> Option<(u64, u64, u32)> {
    let mut cursor = Cursor::new(start.get(8..32)?);
    let check = cursor.u32().ok()?;
    if crc32fast::hash(&start[12..32]) != check {
        return None;
    }
    Some((cursor.u64().ok()?, cursor.u64().ok()?, cursor.u32().ok()?))
}

/// Reads the header of the archive at `base`.
///
/// # Errors
///
/// `Corrupt`, `Unsupported`; `Limit` when it is longer than `limit`; `KeyNeeded` and `WrongKey` when it is encrypted.
pub(super) fn read(source: &Arc<dyn ReadAt>, base: u64, limit: u64, decoding: &Decoding) -> Result<Header> {
    let mut start = [0; 32];
    source.read_exact_at(base, &mut start)?;
    if start[6] != 0 {
        let found = format!("{}.{}", start[6], start[7]);
        return Err(Error::Unsupported { what: "7z version", found, known: "0.x".into() });
    }
    let damaged = |detail: &str| Error::corrupt("7z start header", base, detail);
    let (offset, len, check) = checked(&start).ok_or_else(|| damaged("its CRC is wrong"))?;
    let left = source.len() - base - START_LEN;
    let end = offset.checked_add(len).filter(|&end| end <= left).ok_or_else(|| {
        damaged(&format!(
            "truncated: the header at {offset} of {len} bytes ends behind the end of the file, {left} bytes behind it"
        ))
    })?;
    let mut header = Header { body: offset, bytes: Vec::new(), is_encrypted: false, trailing: left - end };
    if len == 0 {
        return Ok(header);
    }
    let place = base + START_LEN + offset;
    let within = usize::try_from(len).ok().filter(|_| len <= limit);
    let mut bytes = vec![0; within.ok_or(Error::Limit { what: "length of the 7z header", found: len, limit })?];
    source.read_exact_at(place, &mut bytes)?;
    if crc32fast::hash(&bytes) != check {
        return Err(Error::corrupt("7z header", place, "its CRC is wrong"));
    }
    for _ in 0..=MAX_ENCODED {
        match bytes.first() {
            Some(&HEADER) => {
                bytes.remove(0);
                header.bytes = bytes;
                return Ok(header);
            }
            Some(&ENCODED) => {
                let streams = Streams::parse(&mut Cursor::new(&bytes[1..]), &bytes[1..], offset);
                let streams = streams.map_err(|error| error.at(place))?;
                let folder = streams.folders.first();
                let folder =
                    folder.ok_or_else(|| Error::corrupt("7z header", place, "it is compressed, and there is no content"))?;
                if folder.size > limit {
                    return Err(Error::Limit { what: "length of the 7z header", found: folder.size, limit });
                }
                header.is_encrypted |= folder.is_encrypted;
                let mut decoded = Vec::new();
                let file = streams.file(folder, source, base);
                let result = decode(file, decoding, &mut |bytes| {
                    decoded.extend_from_slice(bytes);
                    Ok(())
                });
                let wrong = match result {
                    Ok(()) if folder.crc.is_none_or(|crc| crc == crc32fast::hash(&decoded)) => None,
                    Ok(()) => Some(Error::corrupt("7z header", place, "its CRC is wrong")),
                    Err(error) => Some(error),
                };
                match wrong {
                    None => {}
                    // What the wrong key gives is no header.
                    Some(Error::Corrupt { .. }) if folder.is_encrypted => return Err(Error::WrongKey),
                    Some(error) => return Err(error),
                }
                bytes = decoded;
            }
            _ => break,
        }
    }
    if header.is_encrypted {
        return Err(Error::WrongKey);
    }
    Err(Error::corrupt("7z header", place, "it is no header"))
}
