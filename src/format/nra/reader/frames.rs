//! Frames as a reader meets them: read whole, checked, decompressed.
//!
//! Spec: nra.md, sections 2 (references) and 6.

use std::borrow::Cow;

use crate::format::checksum::checksum;
use crate::format::codec::{Dictionary, decompress};
use crate::format::error::{Error, Result};
use crate::format::nra::content::FrameRef;
use crate::format::nra::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::format::nra::reader::window::Window;

/// A frame that was read whole.
pub(super) struct Frame {
    pub(super) reference: FrameRef,
    pub(super) header: FrameHeader,
    /// The payload after decompression.
    pub(super) payload: Vec<u8>,
}

/// Reads the header at `offset` and checks its kind; returns the header checksum too.
pub(super) fn header(window: &Window, kind: FrameKind, offset: u64) -> Result<(FrameHeader, u64)> {
    parse_header(&window.bytes(kind.name(), offset, HEADER_LEN)?, kind, offset)
}

/// Reads the frame that `reference` leads to, which is no block, in one read.
pub(super) fn follow(window: &Window, kind: FrameKind, reference: FrameRef) -> Result<Frame> {
    let FrameRef { offset, length, check } = reference;
    let limit = HEADER_LEN as u64 + u64::from(kind.max_raw_len()) + ALIGNMENT;
    let len = usize::try_from(length).ok().filter(|_| length <= limit);
    let len = len.ok_or(Error::Limit { what: "length of a frame", found: length, limit })?;
    let bytes = window.bytes(kind.name(), offset, len)?;
    let (header, found) = parse_header(&bytes, kind, offset)?;
    if found != check {
        return Err(Error::corrupt(
            kind.name(),
            offset,
            format!("header checksum is {found:016x}, its reference says {check:016x}"),
        ));
    }
    if header.frame_len() != length {
        return Err(Error::corrupt(
            kind.name(),
            offset,
            format!("it has {} bytes, its reference says {length}", header.frame_len()),
        ));
    }
    let payload = decode(&header, stored_payload(&header, &bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header, payload })
}

/// Reads the frame at `offset`, which is no block, when nobody tells its length; `guess` bytes are read at first.
pub(super) fn at(window: &Window, kind: FrameKind, offset: u64, guess: usize) -> Result<Frame> {
    let left = usize::try_from(window.file_len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = window.bytes(kind.name(), offset, guess.max(HEADER_LEN).min(left))?;
    let (header, check) = parse_header(&bytes, kind, offset)?;
    let reference = FrameRef { offset, length: header.frame_len(), check };
    if reference.length > bytes.len() as u64 {
        let len = usize::try_from(reference.length).expect("limited with the header");
        bytes = window.bytes(kind.name(), offset, len)?;
    }
    let payload = decode(&header, stored_payload(&header, &bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header, payload })
}

/// Parses the header at the start of `bytes` and checks its kind.
pub(super) fn parse_header(bytes: &[u8], kind: FrameKind, offset: u64) -> Result<(FrameHeader, u64)> {
    let Some(first) = bytes.first_chunk() else {
        return Err(Error::corrupt(kind.name(), offset, format!("{HEADER_LEN} bytes expected, {} found", bytes.len())));
    };
    let (header, check) = FrameHeader::parse(first, offset)?;
    if header.kind != kind {
        return Err(Error::corrupt(kind.name(), offset, format!("a frame of kind {} is in its place", header.kind.name())));
    }
    Ok((header, check))
}

/// Returns the stored payload in `bytes`, which begin with the header, after comparing its checksum.
pub(super) fn stored_payload<'a>(header: &FrameHeader, bytes: &'a [u8], offset: u64) -> Result<&'a [u8]> {
    let from = usize::try_from(header.payload_start()).expect("limited with the header");
    let to = from + usize::try_from(header.stored_len).expect("limited with the header");
    let stored = bytes.get(from..to).ok_or_else(|| {
        Error::corrupt(
            header.kind.name(),
            offset,
            format!("{to} bytes expected up to the end of its payload, {} found", bytes.len()),
        )
    })?;
    let (expected, found) = (header.payload_checksum, checksum(stored, offset));
    if found != expected {
        return Err(Error::corrupt(
            header.kind.name(),
            offset,
            format!("payload checksum is {found:016x}, expected {expected:016x}"),
        ));
    }
    Ok(stored)
}

/// Decompresses a payload whose checksum is right.
pub(super) fn decode(header: &FrameHeader, stored: &[u8], dictionary: Option<&Dictionary>, offset: u64) -> Result<Vec<u8>> {
    let raw_len = usize::try_from(header.raw_len).expect("limited with the header");
    decompress(header.codec, stored, raw_len, dictionary).map_err(|detail| Error::corrupt(header.kind.name(), offset, detail))
}

/// Reads and checks the directory of the block at `offset`; no bytes when it has none.
pub(super) fn directory<'a>(window: &'a Window, header: &FrameHeader, offset: u64) -> Result<Cow<'a, [u8]>> {
    const STRUCTURE: &str = "block directory";
    if header.directory_len == 0 {
        return Ok(Cow::Borrowed(&[]));
    }
    let place = offset + header.directory_start();
    let bytes = window.bytes(STRUCTURE, place, usize::try_from(header.directory_len).expect("limited with the header"))?;
    let (expected, found) = (header.directory_checksum, checksum(&bytes, offset));
    if found != expected {
        return Err(Error::corrupt(STRUCTURE, place, format!("checksum is {found:016x}, expected {expected:016x}")));
    }
    Ok(bytes)
}
