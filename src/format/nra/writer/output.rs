//! Puts frames one behind the other, sealed if the archive is encrypted.

use std::io::{BufWriter, Write};

use crate::content::FrameRef;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SEALED_HEADER_LEN, SEALED_SYNC, start_len};
use crate::head::REQUIRED_ENCRYPTION;
use crate::layout::sealed;
use nra_core::checksum::checksum;
use nra_core::codec::Codec;
use nra_core::crypt::{FrameKey, FramePart, KeyPlace, Keyring, SEGMENT, Session};
use nra_core::error::{Error, Result, Subject};
use nra_core::zeros::each_zero;

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
    seal: Option<Seal>,
}

/// What seals frames. One writer makes one, with a salt of its own: whoever writes to a place again does it with another key.
#[derive(Debug)]
struct Seal {
    keyring: Keyring,
    session: Session,
    segment: Vec<u8>,
}

impl<W: Write> Output<W> {
    /// Starts at offset `place` of a file, where `out` stands; frames belong to the commit of number `commit`. With `keyring` they
    /// are sealed.
    ///
    /// # Errors
    ///
    /// `Io` when the system gives no random bytes.
    pub fn new(out: W, place: u64, commit: u64, keyring: Option<Keyring>) -> Result<Self> {
        let seal = |keyring: Keyring| Ok(Seal { session: keyring.session()?, keyring, segment: Vec::new() });
        let seal = keyring.map(seal).transpose()?;
        Ok(Self { out: BufWriter::with_capacity(BUFFER, out), place, commit, seal })
    }

    /// The keys of an encrypted archive: those that the next key frame holds.
    pub fn keyring(&mut self) -> Option<&mut Keyring> {
        self.seal.as_mut().map(|seal| &mut seal.keyring)
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
                let start = self.place + start_len(self.seal.is_some()) as u64;
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

    /// Length of the frame that [`Self::keys`] writes, bytes; 0 when the archive is not encrypted.
    pub fn keys_len(&self) -> u64 {
        self.seal.as_ref().map_or(0, |seal| ((HEADER_LEN + seal.keyring.frame_len()) as u64).next_multiple_of(ALIGNMENT))
    }

    /// Writes a key frame if the archive is encrypted, and returns its offset and length, else zeros.
    pub fn keys(&mut self) -> Result<(u64, u64)> {
        let Some(seal) = &self.seal else { return Ok((0, 0)) };
        let payload = seal.keyring.frame(*seal.session.salt(), KeyPlace { offset: self.place, commit: self.commit });
        let raw_len = u32::try_from(payload.len()).expect("the number of slots is limited");
        let frame = self.frame(NewFrame::payload(FrameKind::Keys, Codec::None, raw_len, &payload))?;
        Ok((frame.offset, frame.length))
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
            sealed: self.seal.is_some() && frame.kind.is_sealed(),
        };
        header.check(offset)?;
        let length = header.frame_len();
        let check = match self.seal.take() {
            Some(mut seal) if header.sealed => {
                let written = self.sealed(&header, &frame, &mut seal);
                self.seal = Some(seal);
                written?
            }
            seal => {
                self.seal = seal;
                let (bytes, check) = header.encode(offset);
                self.write(&bytes)?;
                self.zeros(u64::from(frame.pad_len))?;
                self.write(frame.stored)?;
                self.write(frame.directory)?;
                check
            }
        };
        self.zeros(offset + length - self.place)?;
        Ok(FrameRef { offset, length, check })
    }

    /// Writes a sealed frame up to its last tag, and returns its check.
    fn sealed(&mut self, header: &FrameHeader, frame: &NewFrame<'_>, seal: &mut Seal) -> Result<u64> {
        let key = seal.session.frame_key(self.place, REQUIRED_ENCRYPTION);
        let mut plain = header.encode_with(key.check);
        let tag = key.seal(FramePart::Header, 0, &mut plain);
        let mut start = [0; SEALED_HEADER_LEN];
        start[..SEALED_SYNC.len()].copy_from_slice(&SEALED_SYNC);
        sealed::SALT.put(&mut start, *seal.session.salt());
        sealed::HEADER.put(&mut start, plain);
        sealed::TAG.put(&mut start, tag);
        self.write(&start)?;
        self.zeros(u64::from(header.pad_len))?;
        self.segments(&key, FramePart::Payload, frame.stored, &mut seal.segment)?;
        self.segments(&key, FramePart::Directory, frame.directory, &mut seal.segment)?;
        Ok(key.check)
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

    fn zeros(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.write(bytes))
    }
}

fn length(what: &'static str, bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| Error::Limit { what, found: bytes.len() as u64, limit: u32::MAX.into() })
}

fn fail(source: std::io::Error) -> Error {
    Error::io("write", Subject::Output, source)
}
