//! Locates and decodes a member.

use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use lzma_rust2::{LzmaReader, XzReader};
use zip::read::{ArchiveOffset, Config, ZipReadOptions};
use zip::result::ZipError;

use crate::encode;
use crate::record::{
    self, AES, CENTRAL_LEN, DEFLATE, LOCAL, LOCAL_LEN, LZMA, METHOD, Record, STORED, XZ, method_name, record_len, u16_at, u32_at,
};
use nra_core::crypt::Secret;
use nra_core::error::{Error, Result};
use nra_core::path::Quoted;
use nra_core::source::{ReadAt, SourceReader, Spliced};
use nra_stream::LZMA_MEMORY_KIB;

/// Bytes read from the file at once.
const STEP: usize = 128 << 10;
/// Longest record, bytes.
const MAX_RECORD: usize = CENTRAL_LEN + 3 * 65_535;

/// Methods that the crate `zip` decodes: deflate64, bzip2, zstd.
const BY_CRATE: [u16; 3] = [9, 12, 93];
/// Length of the header of lzma content, bytes: a version, the length of the properties, and the
/// properties.
const LZMA_HEADER: usize = 9;
/// The zstd library's error for a window that is too long.
const TOO_LONG: &str = "Frame requires too much memory for decoding";
/// The longest window that the zstd library accepts, MiB.
const ZSTD_WINDOW: u32 = 128;

/// The subject of errors about members that need too much memory.
pub(super) const MEMBER: &str = "zip member";

/// Receives decoded bytes, and returns whether decoding continues.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>>;

/// A member whose position in the file is known.
pub(super) struct Located {
    /// Its record in the central directory.
    record: Vec<u8>,
    /// Offset of the stored content.
    pub start: u64,
    /// Length of the stored content, bytes.
    pub stored_len: u64,
    /// Length of the decoded content, bytes.
    pub size: u64,
    pub method: u16,
    crc: u32,
    pub is_encrypted: bool,
    local: u64,
    shift: u64,
}

/// Reads the record at `place` of a directory that ends at `end`, and its local header.
pub(super) fn locate(source: &dyn ReadAt, place: u64, end: u64, shift: u64) -> Result<Located> {
    // Most records are short, so one read suffices.
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(place)).unwrap_or(usize::MAX).min(256)];
    source.read_exact_at(place, &mut bytes)?;
    let damaged = |detail: &str| Error::corrupt("zip directory", place, detail);
    let len = record_len(&bytes).filter(|&len| len <= MAX_RECORD && len as u64 <= end - place);
    let len = len.ok_or_else(|| damaged("a record was expected"))?;
    let have = bytes.len().min(len);
    bytes.resize(len, 0);
    source.read_exact_at(place + have as u64, &mut bytes[have..])?;
    let record = Record::parse(&bytes).ok_or_else(|| damaged("a record was expected"))?;
    let member = |detail: String| damaged_member(record.name, record.local_offset, &detail);
    let local = record.local_offset.checked_add(shift).filter(|&local| local <= source.len());
    let local = local.ok_or_else(|| member("its header is past the end of the file".into()))?;
    let mut header = [0; LOCAL_LEN];
    if source.len() - local < LOCAL_LEN as u64 {
        return Err(member("the file ends within its header".into()));
    }
    source.read_exact_at(local, &mut header)?;
    if !header.starts_with(&LOCAL) {
        return Err(member("its local header is missing".into()));
    }
    let start = local + (LOCAL_LEN + usize::from(u16_at(&header, 26)) + usize::from(u16_at(&header, 28))) as u64;
    if start.checked_add(record.stored_len).is_none_or(|end| end > source.len()) {
        let Record { stored_len, .. } = record;
        return Err(member(format!("{stored_len} stored bytes at {start} exceed the file of {} bytes", source.len())));
    }
    let Record { stored_len, size, method, crc, .. } = record;
    let is_encrypted = record.is_encrypted();
    Ok(Located { start, stored_len, size, method, crc, is_encrypted, local, shift, record: bytes })
}

impl Located {
    /// Returns whether the content is stored without compression or encryption.
    pub fn is_stored(&self) -> bool {
        self.method == STORED && !self.is_encrypted
    }

    /// Passes the content to `sink` in order, and compares its length and checksum with the record
    /// unless `sink` stops before the end. `key` decrypts encrypted members.
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
                let raw = SourceReader::new(Arc::clone(source), self.start).take(self.stored_len);
                self.decode_own(self.method, raw, true, sink).map(|_| ())
            }
            method if BY_CRATE.contains(&method) => self.decode_by_crate(source, None, sink),
            _ => Err(self.unsupported()),
        }
    }

    /// Decodes a method that nra supports without the crate `zip`.
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

    /// Returns the error for content whose decoding needs more than `limit` MiB of `what`.
    fn too_large(&self, what: &str, limit: u32) -> Error {
        Error::Unsupported {
            what: MEMBER,
            found: format!("{}, which needs more than {limit} MiB of {what} to decode,", Quoted::new(self.name())),
            known: format!("up to {limit} MiB"),
        }
    }

    /// Decodes lzma content with zip's header. The dictionary need not be larger than the content.
    fn lzma<R: Read>(&self, mut raw: R) -> Result<LzmaReader<R>> {
        let mut header = [0; LZMA_HEADER];
        raw.read_exact(&mut header).map_err(|error| self.of_decoder(error))?;
        if u16_at(&header, 2) != 5 {
            return Err(self.damaged(format!("the lzma properties have {} bytes instead of 5", u16_at(&header, 2))));
        }
        let properties = header[4];
        let dictionary = u32_at(&header, 5).min(u32::try_from(self.size).unwrap_or(u32::MAX));
        // The memory of the longest dictionaries overflows.
        let memory = lzma_rust2::lzma_get_memory_usage_by_props(dictionary & !15, properties);
        if memory.map_err(|error| self.of_decoder(error))? > LZMA_MEMORY_KIB {
            return Err(self.too_large("memory", LZMA_MEMORY_KIB >> 10));
        }
        LzmaReader::new_with_props(raw, self.size, properties, dictionary, None).map_err(|error| self.of_decoder(error))
    }

    /// Returns whether the content has the weak encryption, which accepts one in 256 wrong
    /// passwords.
    pub fn is_weakly_encrypted(&self) -> bool {
        self.is_encrypted && self.method != AES
    }

    /// Returns whether the member accepts a password, without reading its content.
    pub fn accepts(&self, source: &Arc<dyn ReadAt>, password: &[u8]) -> bool {
        let mut as_stored = self.record.clone();
        // The compression does not matter.
        as_stored[METHOD].fill(0);
        let file = one_member(source, self.start + self.stored_len, &as_stored, self.shift);
        let config = Config { archive_offset: ArchiveOffset::Known(self.shift) };
        let Ok(mut archive) = zip::ZipArchive::with_config(config, file) else { return false };
        archive.by_index_with_options(0, ZipReadOptions::new().password(Some(password))).is_ok()
    }

    fn decode_by_crate(&self, source: &Arc<dyn ReadAt>, password: Option<&[u8]>, sink: Sink<'_>) -> Result<()> {
        // The crate does not limit the memory of lzma and xz, so it only decrypts them.
        let encrypted = password.and_then(|_| record::encrypted_content(&self.record));
        let record = encrypted.as_ref().map_or(&self.record, |encrypted| &encrypted.stored_record);
        let file = one_member(source, self.start + self.stored_len, record, self.shift);
        let config = Config { archive_offset: ArchiveOffset::Known(self.shift) };
        let mut archive = zip::ZipArchive::with_config(config, file).map_err(|error| self.of_crate(&error))?;
        let options = ZipReadOptions::new().password(password).ignore_crc32(encrypted.is_some());
        let mut member = archive.by_index_with_options(0, options).map_err(|error| self.of_crate(&error))?;
        let Some(encrypted) = &encrypted else { return self.pump(member, sink).map(|_| ()) };
        if self.decode_own(encrypted.method, &mut member, encrypted.has_crc, sink)?.is_continue() {
            // The authentication code is at the end.
            io::copy(&mut member, &mut io::sink()).map_err(|error| self.of_decoder(error))?;
        }
        Ok(())
    }

    /// Passes the output of a decoder to `sink`. The output must have the declared length unless
    /// `sink` stops it.
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
                .ok_or_else(|| self.damaged(format!("its content exceeds the {} bytes of its record", self.size)))?;
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

    /// Returns errors of the source unchanged. Others become errors of this member.
    fn of_decoder(&self, error: io::Error) -> Error {
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => self.too_large("memory", LZMA_MEMORY_KIB >> 10),
            Err(error) if error.to_string() == TOO_LONG => self.too_large("window", ZSTD_WINDOW),
            // Each kind of encryption accepts some wrong passwords.
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

/// Returns a file that contains a single member: the source up to `end`, the end of the member, and
/// a directory of its `record`. The crate `zip` uses half a kilobyte for each member of a file.
fn one_member(source: &Arc<dyn ReadAt>, end: u64, record: &[u8], shift: u64) -> SourceReader<Spliced> {
    let mut directory = record.to_vec();
    encode::end(1, end - shift, record.len() as u64, b"", &mut directory);
    SourceReader::new(Spliced::new(Vec::new(), Arc::clone(source), 0..end, directory), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Header, Method, Packed};
    use nra_core::entry::Kind;

    /// Bytes that follow 5 GiB of zero bytes.
    struct AfterHole(Vec<u8>);

    const HOLE: u64 = 5 << 30;

    impl ReadAt for AfterHole {
        fn len(&self) -> u64 {
            HOLE + self.0.len() as u64
        }
        fn name(&self) -> &[u8] {
            b"test"
        }
        fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            for (byte, at) in buffer.iter_mut().zip(offset..) {
                *byte = at.checked_sub(HOLE).map_or(0, |at| self.0[usize::try_from(at).unwrap()]);
            }
            Ok(())
        }
    }

    #[test]
    fn crate_reads_a_member_past_4_gib() {
        let packed = Packed { crc: crc32fast::hash(b"hello"), stored_len: 5 };
        let header = Header {
            name: b"n",
            kind: Kind::File,
            mode: 0o644,
            owner: None,
            modified: None,
            method: Method::Stored,
            size: 5,
            packed: Some(packed),
        };
        let (mut bytes, mut record) = (Vec::new(), Vec::new());
        header.local(&mut bytes);
        bytes.extend(b"hello");
        header.central(packed, HOLE, &mut record);
        let source: Arc<dyn ReadAt> = Arc::new(AfterHole(bytes));
        let mut archive = zip::ZipArchive::new(one_member(&source, source.len(), &record, 0)).unwrap();
        let mut content = String::new();
        archive.by_index(0).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "hello");
    }
}
