//! Output of frames, sealed if the archive is encrypted.

use std::io::{BufWriter, Write};

use crate::content::FrameRef;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SEALED_SYNC, start_len};
use crate::layout::sealed;
use crate::superblock::REQUIRED_ENCRYPTION;
use nra_core::checksum::checksum;
use nra_core::codec::{Codec, Dictionary};
use nra_core::crypt::{FrameKey, FramePart, KeyPlace, Keyring, SEGMENT, Session};
use nra_core::error::{Error, Result, Subject};
use nra_core::limits::to_u32;
use nra_core::zeros::each_zero;

/// Length of buffered writes, bytes. Longer parts are written directly.
const BUFFER: usize = 128 << 10;

#[derive(Debug, Clone, Copy)]
pub(super) struct NewFrame<'a> {
    pub kind: FrameKind,
    pub codec: Codec,
    pub raw_len: u32,
    pub pad_len: u32,
    pub stored: &'a [u8],
    pub block_index: &'a [u8],
    /// Offset of the dictionary frame, 0 = none.
    pub dictionary: u64,
}

impl<'a> NewFrame<'a> {
    /// Returns a frame that consists of a payload only.
    pub fn payload(kind: FrameKind, codec: Codec, raw_len: u32, stored: &'a [u8]) -> Self {
        Self { kind, codec, raw_len, pad_len: 0, stored, block_index: &[], dictionary: 0 }
    }

    /// Returns a frame that consists of an uncompressed payload only.
    pub fn uncompressed(kind: FrameKind, payload: &'a [u8]) -> Self {
        Self::payload(kind, Codec::None, u32::try_from(payload.len()).expect("such payloads are bounded"), payload)
    }
}

#[derive(Debug)]
pub(super) struct Output<W: Write> {
    out: BufWriter<W>,
    offset: u64,
    commit: u64,
    seal: Option<Seal>,
}

/// Seals frames. Each writer has its own salt, so bytes rewritten at an offset have another key.
#[derive(Debug)]
struct Seal {
    keyring: Keyring,
    session: Session,
    segment: Vec<u8>,
}

impl<W: Write> Output<W> {
    /// Starts at offset `offset`, where `out` is. Frames belong to commit number `commit`. They are
    /// sealed with `keyring`.
    pub fn new(out: W, offset: u64, commit: u64, keyring: Option<Keyring>) -> Result<Self> {
        let seal = |keyring: Keyring| Ok(Seal { session: keyring.session()?, keyring, segment: Vec::new() });
        let seal = keyring.map(seal).transpose()?;
        Ok(Self { out: BufWriter::with_capacity(BUFFER, out), offset, commit, seal })
    }

    /// Returns the keys of an encrypted archive: those of the next key frame.
    pub fn keyring(&mut self) -> Option<&mut Keyring> {
        self.seal.as_mut().map(|seal| &mut seal.keyring)
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the padding that aligns the payload of the next frame to `align`.
    pub fn padding(&self, align: u32) -> u32 {
        match u64::from(align) {
            0 | 1 => 0,
            align => {
                let start = self.offset + start_len(self.seal.is_some()) as u64;
                u32::try_from(start.next_multiple_of(align) - start).expect("less than the alignment")
            }
        }
    }

    /// Writes bytes that are not a frame.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(fail)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Returns the length of the frame that [`Self::keys`] writes, bytes; 0 if the archive is not
    /// encrypted.
    pub fn keys_len(&self) -> u64 {
        self.seal.as_ref().map_or(0, |seal| ((HEADER_LEN + seal.keyring.frame_len()) as u64).next_multiple_of(ALIGNMENT))
    }

    /// Writes a key frame if the archive is encrypted. Returns its offset and length, otherwise
    /// zeros.
    pub fn keys(&mut self) -> Result<(u64, u64)> {
        let Some(seal) = &self.seal else { return Ok((0, 0)) };
        let payload = seal.keyring.frame(*seal.session.salt(), KeyPlace { offset: self.offset, commit: self.commit });
        let frame = self.frame(NewFrame::uncompressed(FrameKind::Keys, &payload))?;
        Ok((frame.offset, frame.length))
    }

    /// Writes a dictionary frame and returns its offset.
    pub fn dictionary(&mut self, dictionary: &Dictionary) -> Result<u64> {
        Ok(self.frame(NewFrame::uncompressed(FrameKind::Dictionary, dictionary.as_bytes()))?.offset)
    }

    /// Writes a frame and returns the reference to it.
    pub fn frame(&mut self, frame: NewFrame<'_>) -> Result<FrameRef> {
        let offset = self.offset;
        let header = FrameHeader {
            kind: frame.kind,
            codec: frame.codec,
            raw_len: frame.raw_len,
            stored_len: to_u32("stored payload", frame.stored.len() as u64)?,
            pad_len: frame.pad_len,
            block_index_len: to_u32("block index", frame.block_index.len() as u64)?,
            dictionary: frame.dictionary,
            payload_checksum: checksum(frame.stored, offset),
            block_index_checksum: if frame.block_index.is_empty() { 0 } else { checksum(frame.block_index, offset) },
            commit: self.commit,
            sealed: self.seal.is_some() && frame.kind.is_sealed(),
        };
        header.check(offset)?;
        let length = header.frame_len();
        let header_checksum = match self.seal.take() {
            Some(mut seal) if header.sealed => {
                let written = self.sealed(&header, &frame, &mut seal);
                self.seal = Some(seal);
                written?
            }
            seal => {
                self.seal = seal;
                let (bytes, header_checksum) = header.encode(offset);
                self.write(&bytes)?;
                self.zeros(u64::from(frame.pad_len))?;
                self.write(frame.stored)?;
                self.write(frame.block_index)?;
                header_checksum
            }
        };
        self.zeros(offset + length - self.offset)?;
        Ok(FrameRef { offset, length, header_checksum })
    }

    /// Writes a sealed frame up to its last tag and returns the frame MAC.
    fn sealed(&mut self, header: &FrameHeader, frame: &NewFrame<'_>, seal: &mut Seal) -> Result<u64> {
        let key = seal.session.frame_key(self.offset, REQUIRED_ENCRYPTION);
        let mut plain = header.encode_with(key.mac);
        let tag = key.seal(FramePart::Header, 0, &mut plain);
        let mut start = [0; SEALED_HEADER_LEN];
        start[..SEALED_SYNC.len()].copy_from_slice(&SEALED_SYNC);
        sealed::SALT.put(&mut start, *seal.session.salt());
        sealed::HEADER.put(&mut start, plain);
        sealed::TAG.put(&mut start, tag);
        self.write(&start)?;
        self.zeros(u64::from(header.pad_len))?;
        self.segments(&key, FramePart::Payload, frame.stored, &mut seal.segment)?;
        self.segments(&key, FramePart::BlockIndex, frame.block_index, &mut seal.segment)?;
        Ok(key.mac)
    }

    fn segments(&mut self, key: &FrameKey, part: FramePart, bytes: &[u8], segment: &mut Vec<u8>) -> Result<()> {
        for (number, bytes) in (0u64..).zip(bytes.chunks(SEGMENT as usize)) {
            segment.clear();
            segment.extend_from_slice(bytes);
            let tag = key.seal(part, number, segment);
            segment.extend_from_slice(&tag);
            self.write(segment)?;
        }
        Ok(())
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(fail)
    }

    /// Flushes the buffer. Returns the inner writer and the length of the file.
    pub fn finish(mut self) -> Result<(W, u64)> {
        self.flush()?;
        let out = self.out.into_inner().map_err(|error| fail(error.into_error()))?;
        Ok((out, self.offset))
    }

    fn zeros(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.write(bytes))
    }
}

fn fail(source: std::io::Error) -> Error {
    Error::io("write", Subject::Output, source)
}
