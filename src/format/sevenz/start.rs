//! Finds the start of an archive and reads its header.

use std::sync::Arc;

use super::decode::{Decoding, decode};
use super::streams::Streams;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;
use nra_core::wire::Cursor;

/// Signature of an archive.
pub(super) const SIGNATURE: [u8; 6] = *b"7z\xbc\xaf\x27\x1c";
/// Length of the start header, bytes.
pub(super) const START_LEN: u64 = 32;
/// First bytes of self-extracting programs.
const PROGRAMS: [&[u8]; 3] = [b"MZ", b"\x7fELF", b"#!"];
/// Longest self-extracting program, bytes: more than any known one.
const MAX_PROGRAM_LEN: u64 = 4 << 20;
/// IDs of a header and of a compressed header.
const HEADER: u8 = 1;
const ENCODED: u8 = 0x17;
/// Most times that a header is compressed.
const MAX_NESTING: usize = 4;

/// The header of an archive.
pub(super) struct Header {
    /// Length of the packed streams between start header and header, bytes.
    pub body: u64,
    /// The header after its first ID; empty for an archive without entries.
    pub bytes: Vec<u8>,
    pub is_encrypted: bool,
    /// Bytes after the header.
    pub trailing: u64,
}

/// Finds the start of an archive.
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
    let len = usize::try_from(source.len().min(MAX_PROGRAM_LEN)).expect("at most 4 MiB");
    let mut program = vec![0; len];
    source.read_exact_at(0, &mut program)?;
    // The program may contain the signature itself.
    let is_start = |start: &[u8]| start.starts_with(&SIGNATURE) && parse_start(start).is_some();
    let found = program.windows(START_LEN as usize).position(is_start);
    Ok(found.map(|found| found as u64))
}

/// Returns offset, length and checksum of the header if the checksum of the start header matches.
fn parse_start(start: &[u8]) -> Option<(u64, u64, u32)> {
    let mut cursor = Cursor::new(start.get(8..32)?);
    let crc = cursor.u32().ok()?;
    if crc32fast::hash(&start[12..32]) != crc {
        return None;
    }
    Some((cursor.u64().ok()?, cursor.u64().ok()?, cursor.u32().ok()?))
}

/// Reads the header of the archive at `base`.
///
/// # Errors
///
/// `Corrupt`, `Unsupported`; `Limit` if it is longer than `limit`; `KeyNeeded` and `WrongKey` if it
/// is encrypted.
pub(super) fn read(source: &Arc<dyn ReadAt>, base: u64, limit: u64, decoding: &Decoding) -> Result<Header> {
    let mut start = [0; 32];
    source.read_exact_at(base, &mut start)?;
    if start[6] != 0 {
        let found = format!("{}.{}", start[6], start[7]);
        return Err(Error::Unsupported { what: "7z version", found, known: "0.x".into() });
    }
    let damaged = |detail: &str| Error::corrupt("7z start header", base, detail);
    let (offset, len, crc) = parse_start(&start).ok_or_else(|| damaged("its checksum does not match"))?;
    let left = source.len() - base - START_LEN;
    let end = offset.checked_add(len).filter(|&end| end <= left).ok_or_else(|| {
        damaged(&format!("truncated: the header of {len} bytes at {offset} ends past the end of the file, at {left}"))
    })?;
    let mut header = Header { body: offset, bytes: Vec::new(), is_encrypted: false, trailing: left - end };
    if len == 0 {
        return Ok(header);
    }
    let header_offset = base + START_LEN + offset;
    let buffer_len = usize::try_from(len).ok().filter(|_| len <= limit);
    let mut bytes = vec![0; buffer_len.ok_or(Error::Limit { what: "length of the 7z header", found: len, limit })?];
    let corrupt = |detail: &str| Error::corrupt("7z header", header_offset, detail);
    source.read_exact_at(header_offset, &mut bytes)?;
    if crc32fast::hash(&bytes) != crc {
        return Err(corrupt("its checksum does not match"));
    }
    for _ in 0..=MAX_NESTING {
        match bytes.first() {
            Some(&HEADER) => {
                bytes.remove(0);
                header.bytes = bytes;
                return Ok(header);
            }
            Some(&ENCODED) => {
                let streams = Streams::parse(&mut Cursor::new(&bytes[1..]), &bytes[1..], offset);
                let streams = streams.map_err(|error| error.at(header_offset))?;
                let folder = streams.folders.first();
                let folder = folder.ok_or_else(|| corrupt("it is compressed, but there are no streams"))?;
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
                let checked = result.and_then(|()| match folder.crc {
                    Some(crc) if crc != crc32fast::hash(&decoded) => Err(corrupt("its checksum does not match")),
                    _ => Ok(()),
                });
                match checked {
                    // A wrong key yields an invalid header.
                    Err(Error::Corrupt { .. }) if folder.is_encrypted => return Err(Error::WrongKey),
                    checked => checked?,
                }
                bytes = decoded;
            }
            _ => break,
        }
    }
    if header.is_encrypted { Err(Error::WrongKey) } else { Err(corrupt("it is not a header")) }
}
