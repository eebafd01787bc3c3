//! Reading frames: decrypted if sealed, checked and decompressed.
//!
//! Spec: nra.md, sections 2 (references), 6 and 18.

use std::borrow::Cow;

use crate::block_index::ChunkList;
use crate::content::{BlockRef, FrameRef};
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SYNC, span};
use crate::layout::sealed;
use crate::reader::decrypt;
use crate::reader::window::Window;
use nra_core::checksum::checksum;
use nra_core::codec::{Dictionary, decompress};
use nra_core::crypt::{FrameKey, FramePart, SALT_LEN};
use nra_core::error::{Error, Result};
use nra_core::limits::to_len;
use nra_core::wire::Malformed;

/// A frame that was read completely.
pub(super) struct Frame {
    pub(super) reference: FrameRef,
    pub(super) header: FrameHeader,
    /// Salt of a sealed frame.
    pub(super) salt: Option<[u8; SALT_LEN]>,
    /// The payload after decompression.
    pub(super) payload: Vec<u8>,
}

/// The start of a frame: its header, and the key of a sealed frame.
pub(super) struct FrameStart {
    pub(super) header: FrameHeader,
    /// Value that references to the frame must have: the header checksum, or the frame MAC of a
    /// sealed frame.
    pub(super) header_checksum: u64,
    key: Option<Box<FrameKey>>,
    /// Salt of a sealed frame.
    pub(super) salt: Option<[u8; SALT_LEN]>,
}

impl FrameStart {
    /// Parses the start of the frame at `offset`. `bytes` may be longer than that.
    pub(super) fn parse(window: &Window, bytes: &[u8], offset: u64) -> Result<Self> {
        let short = |len: usize| Error::corrupt("frame header", offset, format!("{len} bytes expected, {} found", bytes.len()));
        let plain = || bytes.first_chunk().ok_or_else(|| short(HEADER_LEN));
        let Some(decryptor) = window.decryptor() else {
            let (header, header_checksum) = FrameHeader::parse(plain()?, offset)?;
            return Ok(Self { header, header_checksum, key: None, salt: None });
        };
        if bytes.starts_with(&SYNC) {
            let (header, header_checksum) = decrypt::parse_plain_header(plain()?, offset)?;
            return Ok(Self { header, header_checksum, key: None, salt: None });
        }
        let start = bytes.first_chunk().ok_or_else(|| short(SEALED_HEADER_LEN))?;
        let (opened, key) = decryptor.header(start, offset)?;
        let header = FrameHeader::parse_decrypted(&opened, offset, key.mac)?;
        Ok(Self { header, header_checksum: key.mac, key: Some(Box::new(key)), salt: Some(sealed::SALT.get(start)) })
    }

    /// Parses the start of a frame and checks its kind.
    pub(super) fn of_kind(window: &Window, bytes: &[u8], kind: FrameKind, offset: u64) -> Result<Self> {
        Self::parse(window, bytes, offset)?.expect_kind(kind, offset)
    }

    fn expect_kind(self, kind: FrameKind, offset: u64) -> Result<Self> {
        if self.header.kind == kind {
            return Ok(self);
        }
        Err(kind.corrupt(offset, format!("found a frame of kind {}", self.header.kind.name())))
    }

    /// Returns the reference to the block that starts at `offset`.
    pub(super) fn block_ref(&self, offset: u64) -> BlockRef {
        let FrameHeader { raw_len, stored_len, pad_len, .. } = self.header;
        BlockRef { offset, raw_len, stored_len, pad_len, header_checksum: self.header_checksum }
    }

    /// Returns the stored payload after checking its checksum. `bytes` start with the frame.
    pub(super) fn stored_payload<'a>(&self, bytes: &'a [u8], offset: u64) -> Result<Cow<'a, [u8]>> {
        let header = &self.header;
        let from = usize::try_from(header.payload_start()).expect("limited with the header");
        let to = from + usize::try_from(header.payload_span()).expect("limited with the header");
        let span = bytes.get(from..to).ok_or_else(|| {
            let detail = format!("{to} bytes expected up to the end of its payload, {} found", bytes.len());
            header.kind.corrupt(offset, detail)
        })?;
        let (stored, whole) = self.open(FramePart::Payload, span);
        whole
            .and_then(|()| compare("payload checksum", header.payload_checksum, &stored, offset))
            .map_err(|detail| header.kind.corrupt(offset, detail))?;
        Ok(stored)
    }

    /// Decrypts a part if the frame is sealed. Segments that fail authentication become zeros and
    /// cause an error.
    pub(super) fn open<'a>(&self, part: FramePart, span: &'a [u8]) -> (Cow<'a, [u8]>, Result<(), String>) {
        let Some(key) = &self.key else { return (Cow::Borrowed(span), Ok(())) };
        let (bytes, whole) = key.open_segments(part, 0, span);
        let whole = if whole { Ok(()) } else { Err("authentication failed: it was changed".into()) };
        (Cow::Owned(bytes), whole)
    }
}

/// Compares the checksum of a part of the frame at `offset`.
pub(super) fn compare(what: &str, expected: u64, bytes: &[u8], offset: u64) -> Result<(), String> {
    let found = checksum(bytes, offset);
    if found == expected { Ok(()) } else { Err(format!("{what} is {found:016x}, expected {expected:016x}")) }
}

/// Reads the start of the frame at `offset`, of any kind.
pub(super) fn start(window: &Window, name: &'static str, offset: u64) -> Result<FrameStart> {
    let left = window.file_len().saturating_sub(offset);
    // A plain frame at the end of an encrypted archive may be shorter than the start of a sealed
    // one.
    let len = window.start_len().min(usize::try_from(left).unwrap_or(usize::MAX)).max(HEADER_LEN);
    FrameStart::parse(window, &window.bytes(name, offset, len)?, offset)
}

/// Reads the start of the frame at `offset` and checks its kind.
pub(super) fn header(window: &Window, kind: FrameKind, offset: u64) -> Result<FrameStart> {
    start(window, kind.name(), offset)?.expect_kind(kind, offset)
}

/// Reads the frame that `reference` locates with one read. It must not be a block.
pub(super) fn follow(window: &Window, kind: FrameKind, reference: FrameRef) -> Result<Frame> {
    let FrameRef { offset, length, header_checksum } = reference;
    let limit = window.start_len() as u64 + span(window.is_sealed(), kind.max_raw_len()) + ALIGNMENT;
    let bytes = window.bytes(kind.name(), offset, to_len("length of a frame", length, limit)?)?;
    let start = FrameStart::of_kind(window, &bytes, kind, offset)?;
    if start.header_checksum != header_checksum {
        let detail = format!("header checksum is {:016x}, expected {header_checksum:016x}", start.header_checksum);
        return Err(kind.corrupt(offset, detail));
    }
    if start.header.frame_len() != length {
        let detail = format!("frame length is {}, expected {length}", start.header.frame_len());
        return Err(kind.corrupt(offset, detail));
    }
    let payload = decode(&start.header, &start.stored_payload(&bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header: start.header, salt: start.salt, payload })
}

/// Reads the frame that `reference` locates and parses its payload.
pub(super) fn parse<T>(
    window: &Window,
    kind: FrameKind,
    reference: FrameRef,
    parse: impl FnOnce(&[u8]) -> Result<T, Malformed>,
) -> Result<T> {
    parse(&follow(window, kind, reference)?.payload).map_err(|detail| kind.corrupt(reference.offset, detail))
}

/// Reads the frame at `offset`, whose length is unknown. It must not be a block. `guess` bytes are
/// read at first.
pub(super) fn at(window: &Window, kind: FrameKind, offset: u64, guess: usize) -> Result<Frame> {
    let left = usize::try_from(window.file_len().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = window.bytes(kind.name(), offset, guess.max(window.start_len()).min(left))?;
    let start = FrameStart::of_kind(window, &bytes, kind, offset)?;
    let reference = FrameRef { offset, length: start.header.frame_len(), header_checksum: start.header_checksum };
    if reference.length > bytes.len() as u64 {
        let len = usize::try_from(reference.length).expect("limited with the header");
        bytes = window.bytes(kind.name(), offset, len)?;
    }
    let payload = decode(&start.header, &start.stored_payload(&bytes, offset)?, None, offset)?;
    Ok(Frame { reference, header: start.header, salt: start.salt, payload })
}

pub(super) fn dictionary(window: &Window, offset: u64) -> Result<Dictionary> {
    /// Bytes read at first. Writers do not create longer dictionaries.
    const GUESS: usize = HEADER_LEN + (32 << 10);
    let frame = at(window, FrameKind::Dictionary, offset, GUESS)?;
    Dictionary::new(frame.payload).map_err(|detail| FrameKind::Dictionary.corrupt(offset, detail))
}

/// Decompresses a payload with a valid checksum.
pub(super) fn decode(header: &FrameHeader, stored: &[u8], dictionary: Option<&Dictionary>, offset: u64) -> Result<Vec<u8>> {
    let raw_len = usize::try_from(header.raw_len).expect("limited with the header");
    decompress(header.codec, stored, raw_len, dictionary).map_err(|detail| header.kind.corrupt(offset, detail))
}

/// Reads the chunks of the block at `offset` from its block index.
pub(super) fn chunks(window: &Window, start: &FrameStart, offset: u64) -> Result<ChunkList> {
    let header = &start.header;
    let corrupt = |detail| Error::corrupt("block index", offset + header.block_index_start(), detail);
    ChunkList::parse(&block_index(window, start, offset)?, header.raw_len).map_err(corrupt)
}

/// Reads and checks the block index of the block at `offset`.
pub(super) fn block_index<'a>(window: &'a Window, start: &FrameStart, offset: u64) -> Result<Cow<'a, [u8]>> {
    const STRUCTURE: &str = "block index";
    let header = &start.header;
    let place = offset + header.block_index_start();
    let len = usize::try_from(header.block_index_span()).expect("limited with the header");
    let corrupt = |detail| Error::corrupt(STRUCTURE, place, detail);
    let (bytes, whole) = match window.bytes(STRUCTURE, place, len)? {
        Cow::Borrowed(span) => start.open(FramePart::BlockIndex, span),
        Cow::Owned(span) => {
            let (bytes, whole) = start.open(FramePart::BlockIndex, &span);
            (Cow::Owned(bytes.into_owned()), whole)
        }
    };
    whole.and_then(|()| compare("checksum", header.block_index_checksum, &bytes, offset)).map_err(corrupt)?;
    Ok(bytes)
}
