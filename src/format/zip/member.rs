//! One member: where its bytes lie and how they are decoded.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use crate::format::crypt::Secret;
use crate::format::error::{Error, Result};
use crate::format::path::Quoted;
use crate::format::source::ReadAt;
use crate::format::zip::crate_reader::OneMember;
use crate::format::zip::record::{CENTRAL_LEN, DEFLATE, LOCAL, LOCAL_LEN, Record, STORED, method_name, record_len, u16_at};

/// Bytes read from the file at once.
const STEP: usize = 128 << 10;
/// A record's variable parts have at most this length together, bytes.
const MAX_RECORD: usize = CENTRAL_LEN + 3 * 65_535;

/// Methods that the crate decodes: deflate64, bzip2, lzma, zstd, xz.
const BY_CRATE: [u16; 5] = [9, 12, 14, 93, 95];

/// Takes decoded bytes, and says whether it wants more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>>;

/// A member whose place in the file is known.
pub(super) struct Located {
    /// Its record of the central directory.
    record: Vec<u8>,
    /// Where the stored content starts.
    pub start: u64,
    /// Its length as stored, bytes.
    pub stored_len: u64,
    /// Its length, bytes.
    pub size: u64,
    pub method: u16,
    crc: u32,
    is_encrypted: bool,
    local: u64,
    shift: u64,
}

/// Reads the record at `place` of a directory that ends at `end`, and the local header that it leads to.
pub(super) fn locate(source: &dyn ReadAt, place: u64, end: u64, shift: u64) -> Result<Located> {
    // Most records are short, so one read does.
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(place)).unwrap_or(usize::MAX).min(256)];
    source.read_exact_at(place, &mut bytes)?;
    let damaged = |detail: &str| Error::corrupt("zip directory", place, detail);
    let len = record_len(&bytes).filter(|&len| len <= MAX_RECORD && len as u64 <= end - place);
    let len = len.ok_or_else(|| damaged("no record of a member there"))?;
    let have = bytes.len().min(len);
    bytes.resize(len, 0);
    source.read_exact_at(place + have as u64, &mut bytes[have..])?;
    let record = Record::parse(&bytes).ok_or_else(|| damaged("no record of a member there"))?;
    let member = |detail: String| damaged_member(record.name, record.local_offset, &detail);
    let local = record.local_offset.checked_add(shift).filter(|&local| local <= source.len());
    let local = local.ok_or_else(|| member("it starts behind the end of the file".into()))?;
    let mut header = [0; LOCAL_LEN];
    if source.len() - local < LOCAL_LEN as u64 {
        return Err(member("the file ends within its header".into()));
    }
    source.read_exact_at(local, &mut header)?;
    if !header.starts_with(&LOCAL) {
        return Err(member("no member starts there".into()));
    }
    let start = local + (LOCAL_LEN + usize::from(u16_at(&header, 26)) + usize::from(u16_at(&header, 28))) as u64;
    if start.checked_add(record.stored_len).is_none_or(|end| end > source.len()) {
        return Err(member(format!(
            "{} stored bytes at {start} run past the end of the file, {}",
            record.stored_len,
            source.len()
        )));
    }
    let Record { stored_len, size, method, crc, .. } = record;
    let is_encrypted = record.is_encrypted();
    Ok(Located { start, stored_len, size, method, crc, is_encrypted, local, shift, record: bytes })
}

impl Located {
    /// Says whether the content stands in the file as it is.
    pub fn is_plain(&self) -> bool {
        self.method == STORED && !self.is_encrypted
    }

    /// Hands the content to `sink`, in order, and compares its length and checksum with those of the record, unless `sink` has enough before
    /// the end. `key` opens encrypted members.
    pub fn decode(&self, source: &Arc<dyn ReadAt>, key: Option<&Secret>, sink: Sink<'_>) -> Result<()> {
        if self.is_encrypted {
            return match key {
                None => Err(Error::KeyNeeded),
                Some(Secret::Raw(_)) => Err(Error::WrongKey),
                Some(Secret::Password(password)) => self.decode_by_crate(source, Some(password), sink),
            };
        }
        match self.method {
            STORED | DEFLATE => {
                let raw = Range { source, at: self.start, end: self.start + self.stored_len };
                let mut crc = crc32fast::Hasher::new();
                let mut checked = |bytes: &[u8]| {
                    crc.update(bytes);
                    sink(bytes)
                };
                let flow = if self.method == STORED {
                    self.pump(raw, &mut checked)?
                } else {
                    self.pump(DeflateDecoder::new_with_buf(raw, vec![0; STEP]), &mut checked)?
                };
                if flow.is_break() {
                    return Ok(());
                }
                let found = crc.finalize();
                if found != self.crc {
                    return Err(self.damaged(format!("CRC {:08x} expected, {found:08x} found", self.crc)));
                }
                Ok(())
            }
            method if BY_CRATE.contains(&method) => self.decode_by_crate(source, None, sink),
            _ => Err(self.unsupported()),
        }
    }

    fn unsupported(&self) -> Error {
        Error::Unsupported {
            what: "zip method",
            found: format!("{} ({}) of {}", self.method, method_name(self.method), Quoted::new(self.name())),
            known: "stored, deflate, deflate64, bzip2, lzma, zstd, xz".into(),
        }
    }

    fn decode_by_crate(&self, source: &Arc<dyn ReadAt>, password: Option<&[u8]>, sink: Sink<'_>) -> Result<()> {
        let body = self.start + self.stored_len;
        let file = OneMember::new(Arc::clone(source), body, &self.record, self.shift);
        let config = Config { archive_offset: ArchiveOffset::Known(self.shift) };
        let mut archive = zip::ZipArchive::with_config(config, file).map_err(|error| self.of_crate(&error))?;
        let member = match password {
            Some(password) => archive.by_index_decrypt(0, password),
            None => archive.by_index(0),
        };
        self.pump(member.map_err(|error| self.of_crate(&error))?, sink).map(|_| ())
    }

    /// Reads all of a decoder, which must give exactly the bytes of the record, or as much as `sink` wants.
    fn pump(&self, mut decoder: impl Read, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let mut buffer = vec![0; STEP.min(usize::try_from(self.size).unwrap_or(STEP)) + 1];
        let mut left = self.size;
        loop {
            let len = match decoder.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.of_decoder(error)),
            };
            left = left
                .checked_sub(len as u64)
                .ok_or_else(|| self.damaged(format!("it has more than the {} bytes that its record tells", self.size)))?;
            if sink(&buffer[..len])?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if left > 0 {
            return Err(self.damaged(format!("{} bytes expected, {} found", self.size, self.size - left)));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn name(&self) -> &[u8] {
        Record::parse(&self.record).map_or(&[], |record| record.name)
    }

    fn damaged(&self, detail: String) -> Error {
        damaged_member(self.name(), self.local, &detail)
    }

    /// An error of the source goes through as it is, one of the decoder is about this member.
    fn of_decoder(&self, error: io::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(error) => error,
            // The old encryption tells a wrong password only in 255 of 256 cases.
            Err(error) if self.is_encrypted => self.damaged(format!("{error}, or the password is wrong")),
            Err(error) => self.damaged(error.to_string()),
        }
    }

    fn of_crate(&self, error: &ZipError) -> Error {
        match error {
            ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => self.unsupported(),
            ZipError::InvalidPassword => Error::WrongKey,
            error => self.damaged(error.to_string()),
        }
    }
}

fn damaged_member(name: &[u8], offset: u64, detail: &str) -> Error {
    Error::corrupt("zip member", offset, format!("{}: {detail}", Quoted::new(name)))
}

/// A part of a source as a stream.
struct Range<'a> {
    source: &'a Arc<dyn ReadAt>,
    at: u64,
    end: u64,
}

impl Read for Range<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        self.source.read_exact_at(self.at, &mut buffer[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}
