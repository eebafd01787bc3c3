//! Frames as a reader meets them: read whole, opened if they are sealed, checked, decompressed.
//!
//! Spec: nra.md, sections 2 (references), 6 and 18.

use std::borrow::Cow;

use crate::content::FrameRef;
use crate::directory::Pieces;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SYNC, span};
use crate::layout::sealed;
use crate::reader::opener;
use crate::reader::window::Window;
use nra_core::checksum::checksum;
use nra_core::codec::{Dictionary, decompress};
use nra_core::crypt::{FrameKey, FramePart, SALT_LEN};
use nra_core::error::{Error, Result};

/// A frame that was read whole.
pub(super) struct Frame {
    pub(super) reference: FrameRef,
    pub(super) header: FrameHeader,
    /// Salt of a sealed frame.
    pub(super) salt: Option<[u8; SALT_LEN]>,
    /// The payload after decompression.
    pub(super) payload: Vec<u8>,
}

/// The beginning of a frame: its header, and what opens the rest if it is sealed.
pub(super) struct Start {
    pub(super) header: FrameHeader,
    /// What references to it say: the header checksum, or what the key of a sealed frame gives.
    pub(super) check: u64,
    key: Option<Box<FrameKey>>,
    /// Salt of a sealed frame.
    pub(super) salt: Option<[u8; SALT_LEN]>,
}

impl Start {
    /// Parses the beginning of the frame at `offset`; `bytes` may go on behind it.
    pub(super) fn parse(window: &Window, bytes: &[u8], offset: u64) -> Result<Self> {
        let short = |len: usize| Error::corrupt("frame header", offset, format!("{len} bytes expected, {} found", bytes.len()));
        let plain = || bytes.first_chunk().ok_or_else(|| short(HEADER_LEN));
        let Some(opener) = window.opener() else {
            let (header, check) = FrameHeader::parse(plain()?, offset)?;
            return Ok(Self { header, check, key: None, salt: None });
        };
        if bytes.starts_with(&SYNC) {
            let (header, check) = opener::plain_header(plain()?, offset)?;
            return Ok(Self { header, check, key: None, salt: None });
        }
        let start = bytes.first_chunk().ok_or_else(|| short(SEALED_HEADER_LEN))?;
        let (opened, key) = opener.header(start, offset)?;
        let header = FrameHeader::parse_opened(&opened, offset, key.check)?;
        Ok(Self { header, check: key.check, key: Some(Box::new(key)), salt: Some(sealed::SALT.get(start)) })
    }

    /// Parses the beginning and checks the kind.
    pub(super) fn of_kind(window: &Window, bytes: &[u8], kind: FrameKind, offset: u64) -> Result<Self> {
        let start = Self::parse(window, bytes, offset)?;
        if start.header.kind != kind {
            let detail = format!("a frame of kind {} is in its place", start.header.kind.name());
            return Err(Error::corrupt(kind.name(), offset, detail));
        }
        Ok(start)
    }

    /// Returns the payload as it was stored in `bytes`, which begin with the frame, after comparing its checksum.
    pub(super) fn stored_payload<'a>(&self, bytes: &'a [u8], offset: u64) -> Result<Cow<'a, [u8]>> {
        let header = &self.header;
        let from = usize::try_from(header.payload_start()).expect("limited with the header");
        let to = from + usize::try_from(header.payload_span()).expect("limited with the header");
        let span = bytes.get(from..to).ok_or_else(|| {
            let detail = format!("{to} bytes expected up to the end of its payload, {} found", bytes.len());
            Error::corrupt(header.kind.name(), offset, detail)
        })?;
        let (stored, whole) = self.open(FramePart::Payload, span);
        whole
            .and_then(|()| compare("payload checksum", header.payload_checksum, &stored, offset))
            .map_err(|detail| Error::corrupt(header.kind.name(), offset, detail))?;
        Ok(stored)
    }

    /// Opens a part if the frame is sealed. What does not open reads as zeros, and is told.
    pub(super) fn open<'a>(&self, part: FramePart, span: &'a [u8]) -> (Cow<'a, [u8]>, Result<(), String>) {
        let Some(key) = &self.key else { return (Cow::Borrowed(span), Ok(())) };
        let (bytes, whole) = key.open_segments(part, 0, span);
        let whole = if whole { Ok(()) } else { Err("it does not open: it was changed".into()) };
        (Cow::Owned(bytes), whole)
    }
}

/// Compares the checksum of a part of the frame at `offset`.
pub(super) fn compare(what: &str, expected: u64, bytes: &[u8], offset: u64) -> Result<(), String> {
    let found = checksum(bytes, offset);
    if found == expected { Ok(()) } else { Err(format!("{what} is {found:016x}, expected {expected:016x}")) }
}

/// Reads the beginning of the frame at `offset`, of whatever kind.
pub(super) fn start(window: &Window, name: &'static str, offset: u64) -> Result<Start> {
    let left = window.file_len().saturating_sub(offset);
    // A plain frame at the end of an encrypted archive may be shorter than the beginning of a sealed one.
    let len = window.start_len().min(usize::try_from(left).unwrap_or(usize::MAX)).max(HEADER_LEN);
    Start::parse(window, &window.bytes(name, offset, len)?, offset)
}

/// Reads the beginning of the frame at `offset` and checks its kind.
pub(super) fn header(window: &Window, kind: FrameKind, offset: u64) -> Result<Start> {
    let start = start(window, kind.name(), offset)?;
    if start.header.kind == kind {
        return Ok(start);
    }
    Err(Error::corrupt(kind.name(), offset, format!("a frame of kind {} is in its place", start.header.kind.name())))
}

/// Reads the frame that `reference` leads to, which is no block, in one read.
pub(super) fn follow(window: &Window, kind: FrameKind, reference: FrameRef) -> Result<Frame> {
    let FrameRef { offset, length, check } = reference;
    let limit = window.start_len() as u64 + span(window.is_sealed(), kind.max_raw_len()) + ALIGNMENT;
    let len = usize::try_from(length).ok().filter(|_| length <= limit);
    let len = len.ok_or(Error::Limit { what: "length of a frame", found: length, limit })?;
    let bytes = window.bytes(kind.name(), offset, len)?;
    let start = Start::of_kind(window, &bytes, kind, offset)?;
    if start.check != check {
        let detail = format!("header checksum is {:016x}, its reference says {check:016x}", start.check);
        return Err(Error::corrupt(kind.name(), offset, detail));
    }
    if start.header.frame_len() != length {
        let detail = format!("it has {} bytes, its reference says {length}", start.header.frame_len());
        return Err(Error::corrupt(kind.name(), offset, detail));
    }
    let payload = decode(&start.header, &start.stored_payload(&bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header: start.header, salt: start.salt, payload })
}

/// Reads the frame at `offset`, which is no block, when nobody tells its length; `guess` bytes are read at first.
pub(super) fn at(window: &Window, kind: FrameKind, offset: u64, guess: usize) -> Result<Frame> {
    let left = usize::try_from(window.file_len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = window.bytes(kind.name(), offset, guess.max(window.start_len()).min(left))?;
    let start = Start::of_kind(window, &bytes, kind, offset)?;
    let reference = FrameRef { offset, length: start.header.frame_len(), check: start.check };
    if reference.length > bytes.len() as u64 {
        let len = usize::try_from(reference.length).expect("limited with the header");
        bytes = window.bytes(kind.name(), offset, len)?;
    }
    let payload = decode(&start.header, &start.stored_payload(&bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header: start.header, salt: start.salt, payload })
}

/// Decompresses a payload whose checksum is right.
pub(super) fn decode(header: &FrameHeader, stored: &[u8], dictionary: Option<&Dictionary>, offset: u64) -> Result<Vec<u8>> {
    let raw_len = usize::try_from(header.raw_len).expect("limited with the header");
    decompress(header.codec, stored, raw_len, dictionary).map_err(|detail| Error::corrupt(header.kind.name(), offset, detail))
}

/// Reads the pieces of the block at `offset` from its directory.
pub(super) fn pieces(window: &Window, start: &Start, offset: u64) -> Result<Pieces> {
    let header = &start.header;
    let corrupt = |detail| Error::corrupt("block directory", offset + header.directory_start(), detail);
    Pieces::parse(&directory(window, start, offset)?, header.raw_len).map_err(corrupt)
}

/// Reads and checks the directory of the block at `offset`.
pub(super) fn directory<'a>(window: &'a Window, start: &Start, offset: u64) -> Result<Cow<'a, [u8]>> {
    const STRUCTURE: &str = "block directory";
    let header = &start.header;
    let place = offset + header.directory_start();
    let len = usize::try_from(header.directory_span()).expect("limited with the header");
    let corrupt = |detail| Error::corrupt(STRUCTURE, place, detail);
    let (bytes, whole) = match window.bytes(STRUCTURE, place, len)? {
        Cow::Borrowed(span) => start.open(FramePart::Directory, span),
        Cow::Owned(span) => {
            let (bytes, whole) = start.open(FramePart::Directory, &span);
            (Cow::Owned(bytes.into_owned()), whole)
        }
    };
    whole.and_then(|()| compare("checksum", header.directory_checksum, &bytes, offset)).map_err(corrupt)?;
    Ok(bytes)
}
