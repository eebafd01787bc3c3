//! Scanning a file frame by frame, without the index.
//!
//! Spec: nra.md, section 22.

use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SEALED_SYNC, SYNC};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::frames::FrameStart;
use crate::reader::window::Window;
use nra_core::error::Result;

/// Bytes per read in search of the next frame.
const STRIDE: usize = 1 << 20;

pub(super) enum Step {
    /// A frame with a valid header.
    Frame {
        offset: u64,
        start: FrameStart,
    },
    /// A frame with a valid header checksum that cannot be parsed: an unknown kind, or a header
    /// that breaks the rules.
    Other {
        offset: u64,
        len: u64,
    },
    Footer {
        offset: u64,
        footer: Footer,
    },
    /// Bytes that belong to no frame and no footer.
    Gap {
        offset: u64,
        len: u64,
    },
}

/// Scans from frame to frame and skips everything else.
pub(super) struct FrameWalk<'a> {
    window: &'a Window,
    position: u64,
    /// End of the scan. Frames that start there or later are not visited.
    end: u64,
    /// Bytes read in search of a frame, and their offset.
    ahead: (u64, Vec<u8>),
}

impl<'a> FrameWalk<'a> {
    /// Scans the whole file.
    pub(super) fn new(window: &'a Window) -> Self {
        Self::up_to(window, window.file_len())
    }

    /// Scans the file up to `end`.
    pub(super) fn up_to(window: &'a Window, end: u64) -> Self {
        Self { end: end.min(window.file_len()), ..Self::from(window, SUPERBLOCK_LEN as u64) }
    }

    /// Scans from `position`, a multiple of 8.
    pub(super) fn from(window: &'a Window, position: u64) -> Self {
        Self { window, position, end: window.file_len(), ahead: (0, Vec::new()) }
    }

    /// Returns the next step, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Step>> {
        let offset = self.position;
        if offset >= self.end {
            return Ok(None);
        }
        let file_len = self.window.file_len();
        let Some(bytes) = self.start_bytes(offset)? else {
            self.position = self.end;
            return Ok(Some(Step::Gap { offset, len: self.end - offset }));
        };
        if let Ok(start) = FrameStart::parse(self.window, &bytes, offset) {
            self.position = (offset + start.header.frame_len()).min(file_len);
            return Ok(Some(Step::Frame { offset, start }));
        }
        if let Some((_, len)) = peek(self.window, &bytes, offset).filter(|peeked| peeked.1 >= HEADER_LEN as u64) {
            self.position = offset.saturating_add(len).min(file_len);
            return Ok(Some(Step::Other { offset, len: self.position - offset }));
        }
        if let Some(Ok(footer)) = bytes.first_chunk().map(|bytes| Footer::parse(bytes, offset)) {
            self.position = offset + FOOTER_LEN as u64;
            return Ok(Some(Step::Footer { offset, footer }));
        }
        self.position = self.next_start(offset + ALIGNMENT)?;
        Ok(Some(Step::Gap { offset, len: self.position.min(self.end) - offset }))
    }

    /// Returns the bytes at `offset` with which a frame or footer starts, or `None` if fewer than
    /// 64 are left.
    fn start_bytes(&self, offset: u64) -> Result<Option<Vec<u8>>> {
        let left = usize::try_from(self.window.file_len().saturating_sub(offset)).unwrap_or(usize::MAX);
        if left < HEADER_LEN {
            return Ok(None);
        }
        let len = self.window.start_len().min(left);
        match self.read_ahead(offset).and_then(|bytes| bytes.get(..len)) {
            Some(bytes) => Ok(Some(bytes.to_vec())),
            None => self.window.bytes("frame header", offset, len).map(|bytes| Some(bytes.into_owned())),
        }
    }

    fn read_ahead(&self, offset: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.ahead.0)?).ok()?;
        self.ahead.1.get(from..)
    }

    /// Returns the offset of the next frame or footer from `from` (a multiple of 8), or the end of
    /// the file.
    fn next_start(&mut self, from: u64) -> Result<u64> {
        let len = self.window.file_len();
        let mut offset = from;
        while len.saturating_sub(offset) >= HEADER_LEN as u64 {
            let least = self.window.start_len().min(usize::try_from(len - offset).unwrap_or(usize::MAX));
            let Some(bytes) = self.read_ahead(offset).filter(|bytes| bytes.len() >= least) else {
                let stride = usize::try_from(len - offset).unwrap_or(usize::MAX).min(STRIDE);
                self.ahead = (offset, self.window.bytes("frame header", offset, stride)?.into_owned());
                continue;
            };
            let step = usize::try_from(ALIGNMENT).expect("it is 8");
            // At the end of the file, fewer bytes may be left than the start of a sealed frame.
            let end = offset + bytes.len() as u64 == len;
            let last = bytes.len() - if end { HEADER_LEN } else { least };
            let found = (0..=last).step_by(step).find(|&at| {
                let place = offset + at as u64;
                let bytes = &bytes[at..];
                peek(self.window, bytes, place).is_some()
                    || bytes.first_chunk().is_some_and(|bytes| Footer::parse(bytes, place).is_ok())
            });
            match found {
                Some(at) => return Ok(offset + at as u64),
                None => offset += (last / step * step + step) as u64,
            }
        }
        Ok(len)
    }
}

/// Returns kind number and frame length if `bytes` start with an authentic frame header of any
/// kind.
pub(super) fn peek(window: &Window, bytes: &[u8], offset: u64) -> Option<(u8, u64)> {
    let plain =
        bytes.starts_with(&SYNC).then(|| bytes.first_chunk()).flatten().and_then(|bytes| FrameHeader::peek(bytes, offset));
    let Some(decryptor) = window.decryptor() else { return plain };
    // In an encrypted archive, an unsealed frame of a sealed kind does not count.
    let is_plain = |kind: u8| FrameKind::from_number(kind).is_some_and(|kind| !kind.is_sealed());
    plain.filter(|peeked| is_plain(peeked.0)).or_else(|| {
        let start = bytes.first_chunk().filter(|start: &&[u8; SEALED_HEADER_LEN]| start.starts_with(&SEALED_SYNC))?;
        let (header, _) = decryptor.header(start, offset).ok()?;
        Some(FrameHeader::peek_decrypted(&header))
    })
}
