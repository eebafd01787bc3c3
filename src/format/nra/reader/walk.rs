//! Going from frame to frame, without anything that refers to them.
//!
//! Spec: nra.md, section 22.

use crate::format::error::Result;
use crate::format::nra::frame::{ALIGNMENT, FrameHeader, HEADER_LEN, SYNC};
use crate::format::nra::head::{HEAD_LEN, TAIL_LEN, Tail};
use crate::format::nra::reader::window::Window;

/// How much is read at once in search of the next frame, bytes.
const STRIDE: usize = 1 << 20;

/// What a walk through the frames meets.
pub(super) enum Step {
    /// A frame with a valid header.
    Frame { offset: u64, header: FrameHeader, check: u64 },
    /// A frame with a valid header checksum that can't be read: of a kind of a later version, or one that breaks the rules.
    Other { offset: u64, len: u64 },
    /// A tail.
    Tail { offset: u64, tail: Tail },
    /// Bytes that belong to no frame and no tail.
    Gap { offset: u64, len: u64 },
}

/// Goes from frame to frame, and over what is none.
pub(super) struct Walk<'a> {
    window: &'a Window,
    position: u64,
    /// Bytes read in search of a frame, and where they begin.
    ahead: (u64, Vec<u8>),
}

impl<'a> Walk<'a> {
    pub(super) fn new(window: &'a Window) -> Self {
        Self::from(window, HEAD_LEN as u64)
    }

    /// Begins at `position`, a multiple of 8.
    pub(super) fn from(window: &'a Window, position: u64) -> Self {
        Self { window, position, ahead: (0, Vec::new()) }
    }

    /// Returns the next step, `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Step>> {
        let offset = self.position;
        let file_len = self.window.file_len();
        let Some(bytes) = self.header_bytes(offset)? else {
            let len = file_len.saturating_sub(offset);
            self.position = file_len;
            return Ok((len > 0).then_some(Step::Gap { offset, len }));
        };
        if let Ok((header, check)) = FrameHeader::parse(&bytes, offset) {
            self.position = (offset + header.frame_len()).min(file_len);
            return Ok(Some(Step::Frame { offset, header, check }));
        }
        if let Some((_, len)) = FrameHeader::peek(&bytes, offset).filter(|peeked| peeked.1 >= HEADER_LEN as u64) {
            self.position = offset.saturating_add(len).min(file_len);
            return Ok(Some(Step::Other { offset, len: self.position - offset }));
        }
        if let Ok(tail) = Tail::parse(&bytes, offset) {
            self.position = offset + TAIL_LEN as u64;
            return Ok(Some(Step::Tail { offset, tail }));
        }
        self.position = self.next_start(offset + ALIGNMENT)?;
        Ok(Some(Step::Gap { offset, len: self.position - offset }))
    }

    /// Returns the 64 bytes at `offset` (header or tail), `None` when there are fewer.
    fn header_bytes(&self, offset: u64) -> Result<Option<[u8; HEADER_LEN]>> {
        if self.window.file_len().saturating_sub(offset) < HEADER_LEN as u64 {
            return Ok(None);
        }
        match self.read_ahead(offset).and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => Ok(Some(*bytes)),
            None => self.window.array("frame header", offset).map(Some),
        }
    }

    fn read_ahead(&self, offset: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.ahead.0)?).ok()?;
        self.ahead.1.get(from..)
    }

    /// Returns the place of the next frame or tail from `from` (a multiple of 8) on, or the end of the file.
    fn next_start(&mut self, from: u64) -> Result<u64> {
        let len = self.window.file_len();
        let mut offset = from;
        while len.saturating_sub(offset) >= HEADER_LEN as u64 {
            let Some(bytes) = self.read_ahead(offset).filter(|bytes| bytes.len() >= HEADER_LEN) else {
                let stride = usize::try_from(len - offset).unwrap_or(usize::MAX).min(STRIDE);
                self.ahead = (offset, self.window.bytes("frame header", offset, stride)?.into_owned());
                continue;
            };
            let step = usize::try_from(ALIGNMENT).expect("it is 8");
            let found = (0..=bytes.len() - HEADER_LEN).step_by(step).find(|&at| {
                let place = offset + at as u64;
                let Some(header) = bytes[at..].first_chunk::<HEADER_LEN>() else { return false };
                (header.starts_with(&SYNC) && FrameHeader::peek(header, place).is_some()) || Tail::parse(header, place).is_ok()
            });
            match found {
                Some(at) => return Ok(offset + at as u64),
                None => offset += ((bytes.len() - HEADER_LEN) / step * step + step) as u64,
            }
        }
        Ok(len)
    }
}
