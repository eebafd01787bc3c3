//! One member: where its bytes lie and how they are decoded.

use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use lzma_rust2::{LzmaReader, XzReader};
use zip::read::{ArchiveOffset, Config, ZipReadOptions};
use zip::result::ZipError;

use crate::crate_reader::OneMember;
use crate::record::{
    self, AES, CENTRAL_LEN, DEFLATE, LOCAL, LOCAL_LEN, LZMA, METHOD, Record, STORED, XZ, method_name, record_len, u16_at, u32_at,
};
use nra_core::crypt::Secret;
use nra_core::error::{Error, Result};
use nra_core::path::Quoted;
use nra_core::source::ReadAt;
use nra_stream::LZMA_MEMORY_KIB;

/// Bytes read from the file at once.
const STEP: usize = 128 << 10;
/// A record's variable parts have at most this length together, bytes.
const MAX_RECORD: usize = CENTRAL_LEN + 3 * 65_535;

/// Methods that the crate decodes: deflate64, bzip2, zstd.
const BY_CRATE: [u16; 3] = [9, 12, 93];
/// Length of what stands in front of lzma content: a version, the length of the properties, and these, bytes.
const LZMA_HEADER: usize = 9;
/// What the library of zstd says of a window that is longer than it takes.
const TOO_LONG: &str = "Frame requires too much memory for decoding";
/// The longest window that it takes, MiB.
const ZSTD_WINDOW: u32 = 128;

/// What is called unsupported where a member takes too much to be decoded.
pub(super) const MEMBER: &str = "zip member";

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
    pub is_encrypted: bool,
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
                Some(Secret::UserKey(_)) => Err(Error::WrongKey),
                Some(Secret::Password(password)) => self.decode_by_crate(source, Some(password), sink),
            };
        }
        match self.method {
            STORED | DEFLATE | LZMA | XZ => {
                let raw = Range { source, at: self.start, end: self.start + self.stored_len };
                self.decode_own(self.method, raw, true, sink).map(|_| ())
            }
            method if BY_CRATE.contains(&method) => self.decode_by_crate(source, None, sink),
            _ => Err(self.unsupported()),
        }
    }

    /// Decodes what nra decodes without the crate.
    fn decode_own(&self, method: u16, raw: impl Read, has_crc: bool, sink: Sink<'_>) -> Result<ControlFlow<()>> {
        let mut crc = crc32fast::Hasher::new();
        let mut checked = |bytes: &[u8]| {
            crc.update(bytes);
            sink(bytes)
        };
        let flow = match method {
            STORED => self.pump(raw, &mut checked)?,
            DEFLATE => self.pump(DeflateDecoder::new_with_buf(raw, vec![0; STEP]), &mut checked)?,
            LZMA => self.pump(self.lzma(BufReader::with_capacity(STEP, raw))?, &mut checked)?,
            _ => {
                let raw = BufReader::with_capacity(STEP, raw);
                self.pump(XzReader::new_mem_limit(raw, false, LZMA_MEMORY_KIB), &mut checked)?
            }
        };
        let found = crc.finalize();
        if has_crc && flow.is_continue() && found != self.crc {
            return Err(self.damaged(format!("CRC {:08x} expected, {found:08x} found", self.crc)));
        }
        Ok(flow)
    }

    fn unsupported(&self) -> Error {
        Error::Unsupported {
            what: "zip method",
            found: format!("{} ({})", self.method, method_name(self.method)),
            known: "stored, deflate, deflate64, bzip2, lzma, zstd, xz".into(),
        }
    }

    /// The error for content that needs more to be decoded than it may have, `limit` MiB of `what`.
    fn too_large(&self, what: &str, limit: u32) -> Error {
        Error::Unsupported {
            what: MEMBER,
            found: format!("{}, which takes more than {limit} MiB of {what} to decode,", Quoted::new(self.name())),
            known: format!("up to {limit} MiB"),
        }
    }

    /// Decodes lzma, whose header is the one of zip. The dictionary is never larger than the content.
    fn lzma<R: Read>(&self, mut raw: R) -> Result<LzmaReader<R>> {
        let mut header = [0; LZMA_HEADER];
        raw.read_exact(&mut header).map_err(|error| self.of_decoder(error))?;
        if u16_at(&header, 2) != 5 {
            return Err(self.damaged(format!("lzma properties of {} bytes, 5 expected", u16_at(&header, 2))));
        }
        let properties = header[4];
        let dictionary = u32_at(&header, 5).min(u32::try_from(self.size).unwrap_or(u32::MAX));
        // The longest ones have no memory usage that could be computed.
        let memory = lzma_rust2::lzma_get_memory_usage_by_props(dictionary & !15, properties);
        if memory.map_err(|error| self.of_decoder(error))? > LZMA_MEMORY_KIB {
            return Err(self.too_large("memory", LZMA_MEMORY_KIB >> 10));
        }
        LzmaReader::new_with_props(raw, self.size, properties, dictionary, None).map_err(|error| self.of_decoder(error))
    }

    /// Says whether the content is encrypted in the old way, which takes one of 256 wrong passwords for the right one.
    pub fn is_weakly_encrypted(&self) -> bool {
        self.is_encrypted && self.method != AES
    }

    /// Says whether a password passes for that of the member, without a look at the content.
    pub fn takes(&self, source: &Arc<dyn ReadAt>, password: &[u8]) -> bool {
        let mut as_stored = self.record.clone();
        // How the content is compressed does not matter.
        as_stored[METHOD].fill(0);
        let file = OneMember::new(Arc::clone(source), self.start + self.stored_len, &as_stored, self.shift);
        let config = Config { archive_offset: ArchiveOffset::Known(self.shift) };
        let Ok(mut archive) = zip::ZipArchive::with_config(config, file) else { return false };
        archive.by_index_with_options(0, ZipReadOptions::new().password(Some(password))).is_ok()
    }

    fn decode_by_crate(&self, source: &Arc<dyn ReadAt>, password: Option<&[u8]>, sink: Sink<'_>) -> Result<()> {
        // The crate gives lzma and xz as much memory as they ask for, so it only decrypts them.
        let sealed = password.and_then(|_| record::sealed(&self.record));
        let record = sealed.as_ref().map_or(&self.record, |sealed| &sealed.as_stored);
        let file = OneMember::new(Arc::clone(source), self.start + self.stored_len, record, self.shift);
        let config = Config { archive_offset: ArchiveOffset::Known(self.shift) };
        let mut archive = zip::ZipArchive::with_config(config, file).map_err(|error| self.of_crate(&error))?;
        let options = ZipReadOptions::new().password(password).ignore_crc32(sealed.is_some());
        let mut member = archive.by_index_with_options(0, options).map_err(|error| self.of_crate(&error))?;
        let Some(sealed) = &sealed else { return self.pump(member, sink).map(|_| ()) };
        if self.decode_own(sealed.method, &mut member, sealed.has_crc, sink)?.is_continue() {
            // Its authentication stands at the end.
            io::copy(&mut member, &mut io::sink()).map_err(|error| self.of_decoder(error))?;
        }
        Ok(())
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
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => self.too_large("memory", LZMA_MEMORY_KIB >> 10),
            Err(error) if error.to_string() == TOO_LONG => self.too_large("window", ZSTD_WINDOW),
            // Each kind of encryption takes some wrong passwords.
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
