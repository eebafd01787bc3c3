//! Puts frames one behind the other.

use std::io::{BufWriter, Write};

use crate::format::checksum::checksum;
use crate::format::codec::Codec;
use crate::format::error::{Error, Result};
use crate::format::nra::content::FrameRef;
use crate::format::nra::frame::{FrameHeader, FrameKind, HEADER_LEN};

/// Small parts are gathered to writes of about this length, bytes; longer ones go through as they are.
const BUFFER: usize = 128 << 10;

/// A frame as it is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFrame<'a> {
    pub kind: FrameKind,
    pub codec: Codec,
    pub raw_len: u32,
    pub pad_len: u32,
    pub stored: &'a [u8],
    pub directory: &'a [u8],
    /// Offset of the dictionary frame, 0 = none.
    pub dictionary: u64,
}

impl<'a> NewFrame<'a> {
    /// Returns a frame with a payload alone.
    pub fn payload(kind: FrameKind, codec: Codec, raw_len: u32, stored: &'a [u8]) -> Self {
        Self { kind, codec, raw_len, pad_len: 0, stored, directory: &[], dictionary: 0 }
    }
}

/// The file that is written.
#[derive(Debug)]
pub(super) struct Output<W: Write> {
    out: BufWriter<W>,
    place: u64,
    commit: u64,
}

impl<W: Write> Output<W> {
    /// Starts at offset `place` of a file, where `out` stands; frames belong to the commit of number `commit`.
    pub fn new(out: W, place: u64, commit: u64) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER, out), place, commit }
    }

    /// Returns the offset at which the next byte is written.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Returns how many zero bytes make the payload of the next frame start at a multiple of `align`.
    pub fn padding(&self, align: u32) -> u32 {
        match u64::from(align) {
            0 | 1 => 0,
            align => {
                let start = self.place + HEADER_LEN as u64;
                u32::try_from(start.next_multiple_of(align) - start).expect("less than the alignment")
            }
        }
    }

    /// Writes bytes that are no frame.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(fail)?;
        self.place += bytes.len() as u64;
        Ok(())
    }

    /// Writes a frame and returns the reference to it.
    pub fn frame(&mut self, frame: NewFrame<'_>) -> Result<FrameRef> {
        let offset = self.place;
        let header = FrameHeader {
            kind: frame.kind,
            codec: frame.codec,
            raw_len: frame.raw_len,
            stored_len: length("stored payload", frame.stored)?,
            pad_len: frame.pad_len,
            directory_len: length("directory of a block", frame.directory)?,
            dictionary: frame.dictionary,
            payload_checksum: checksum(frame.stored, offset),
            directory_checksum: if frame.directory.is_empty() { 0 } else { checksum(frame.directory, offset) },
            commit: self.commit,
        };
        header.check(offset)?;
        let (bytes, check) = header.encode(offset);
        let length = header.frame_len();
        self.write(&bytes)?;
        self.zeros(u64::from(frame.pad_len))?;
        self.write(frame.stored)?;
        self.write(frame.directory)?;
        self.zeros(offset + length - self.place)?;
        Ok(FrameRef { offset, length, check })
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(fail)
    }

    /// Writes what is buffered and returns the inner writer and the length of the file.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.flush()?;
        let out = self.out.into_inner().map_err(|error| fail(error.into_error()))?;
        Ok((out, self.place))
    }

    fn zeros(&mut self, mut len: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while len > 0 {
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
            self.write(&ZEROS[..part])?;
            len -= part as u64;
        }
        Ok(())
    }
}

fn length(what: &'static str, bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| Error::Limit { what, found: bytes.len() as u64, limit: u32::MAX.into() })
}

fn fail(source: std::io::Error) -> Error {
    Error::io("write", "the archive", source)
}
