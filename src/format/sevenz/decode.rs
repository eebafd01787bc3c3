//! Decodes a folder with the crate `sevenz-rust2`.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use sevenz_rust2::{BlockDecoder, Password};

use super::start::SIGNATURE;
use super::streams::Folder;
use nra_core::crypt::Secret;
use nra_core::error::{Error, Resource, Result};
use nra_core::source::{ReadAt, SourceReader, Spliced};

/// Decoded bytes passed to the sink at once.
const BUFFER_LEN: usize = 256 << 10;

/// Options for decoding folders.
#[derive(Clone)]
pub(super) struct Decoding {
    /// Memory for the dictionaries of a folder, bytes.
    pub memory: u64,
    /// Password of encrypted folders.
    pub key: Option<Secret>,
}

impl Decoding {
    fn password(&self, is_encrypted: bool) -> Result<Password> {
        match &self.key {
            _ if !is_encrypted => Ok(Password::empty()),
            None => Err(Error::KeyNeeded),
            Some(Secret::UserKey(_)) => Err(Error::WrongKey),
            Some(Secret::Password(bytes)) => match std::str::from_utf8(bytes) {
                Ok("") => Err(Error::KeyNeeded),
                Ok(password) => Ok(Password::new(password)),
                // Passwords are text in this format.
                Err(_) => Err(Error::WrongKey),
            },
        }
    }
}

/// An archive with a single folder that has a single member.
pub(super) struct OneFolder {
    file: SourceReader<Spliced>,
    /// Offset of the packed streams in the source.
    offset: u64,
    is_encrypted: bool,
    memory: u64,
}

impl OneFolder {
    /// Returns an archive of the packed streams in `range` of `source` and this header. The packed
    /// streams of `folder` start at `offset`.
    pub fn new(source: Arc<dyn ReadAt>, range: Range<u64>, header: Vec<u8>, offset: u64, folder: &Folder) -> Self {
        let mut numbers = Vec::with_capacity(20);
        numbers.extend((range.end - range.start).to_le_bytes());
        numbers.extend((header.len() as u64).to_le_bytes());
        numbers.extend(crc32fast::hash(&header).to_le_bytes());
        let start = [&SIGNATURE[..], &[0, 4], &crc32fast::hash(&numbers).to_le_bytes(), &numbers].concat();
        let file = SourceReader::new(Spliced::new(start, source, range, header), 0);
        Self { file, offset, is_encrypted: folder.is_encrypted, memory: folder.memory }
    }
}

/// Passes the content of a folder to `sink`. Errors of `sink` end the work.
///
/// # Errors
///
/// `Corrupt` if it cannot be decoded or its decoder panics, `Unsupported` for an unknown method, `ResourceLimit` if
/// dictionaries need too much memory, `KeyNeeded`.
pub(super) fn decode(folder: OneFolder, decoding: &Decoding, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let OneFolder { mut file, offset, is_encrypted, memory } = folder;
    let password = decoding.password(is_encrypted)?;
    if memory > decoding.memory {
        return Err(Error::ResourceLimit { resource: Resource::Dictionaries, found: memory, limit: decoding.memory });
    }
    let limit = usize::try_from(decoding.memory / 1024).unwrap_or(usize::MAX);
    let (mut failed, mut in_sink) = (None, false);
    let decode_all = AssertUnwindSafe(|| {
        let archive = sevenz_rust2::Archive::read_with_memory_limit(&mut file, &password, limit)?;
        if archive.blocks.len() != 1 {
            return Err(sevenz_rust2::Error::Other("its description is not that of one folder".into()));
        }
        let mut buffer = vec![0; BUFFER_LEN];
        let mut buffered = Buffered { file, bytes: vec![0; BUFFER_LEN], start: 0, end: 0 };
        let decoder = BlockDecoder::new_with_memory_limit(1, limit, 0, &archive, &password, &mut buffered);
        decoder.for_each_entries(&mut |_, reader| {
            loop {
                let len = match reader.read(&mut buffer) {
                    Ok(0) => return Ok(true),
                    Ok(len) => len,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error.into()),
                };
                in_sink = true;
                let passed_on = sink(&buffer[..len]);
                in_sink = false;
                if let Err(error) = passed_on {
                    failed = Some(error);
                    return Ok(false);
                }
            }
        })
    });
    match (catch_unwind(decode_all), failed) {
        (Ok(_), Some(error)) => Err(error),
        (Ok(Err(error)), None) => Err(convert_error(error, offset, decoding.memory)),
        (Ok(Ok(_)), None) => Ok(()),
        (Err(panic), _) if in_sink => resume_unwind(panic),
        // Only hostile input makes a decoder of the crate panic.
        (Err(_), _) => Err(Error::corrupt("7z folder", offset, "its decoder failed")),
    }
}

/// A buffered file. Unlike `BufReader`, it keeps the buffer when seeking within it: decoders seek
/// before each short read.
struct Buffered {
    file: SourceReader<Spliced>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Read for Buffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            if buffer.len() >= self.bytes.len() {
                return self.file.read(buffer);
            }
            (self.start, self.end) = (0, self.file.read(&mut self.bytes)?);
        }
        let len = (self.end - self.start).min(buffer.len());
        buffer[..len].copy_from_slice(&self.bytes[self.start..self.start + len]);
        self.start += len;
        Ok(len)
    }
}

impl Seek for Buffered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = self.file.position() - (self.end - self.start) as u64;
        if let SeekFrom::Start(wanted) = to {
            let first = self.file.position() - self.end as u64;
            if let Some(at) = wanted.checked_sub(first).and_then(|at| usize::try_from(at).ok()).filter(|&at| at <= self.end) {
                self.start = at;
                return Ok(wanted);
            }
        }
        (self.start, self.end) = (0, 0);
        let to = match to {
            SeekFrom::Current(distance) => {
                SeekFrom::Start(position.checked_add_signed(distance).ok_or(io::ErrorKind::InvalidInput)?)
            }
            to => to,
        };
        self.file.seek(to)
    }
}

/// Converts an error of the crate that concerns the folder at `offset`.
fn convert_error(error: sevenz_rust2::Error, offset: u64, limit: u64) -> Error {
    use sevenz_rust2::Error as Theirs;
    let damaged = |detail: String| Error::corrupt("7z folder", offset, detail);
    match error {
        Theirs::Io(error, _) | Theirs::MaybeBadPassword(error) => match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => match error.downcast::<Theirs>() {
                Ok(error) => convert_error(error, offset, limit),
                Err(error) => damaged(error.to_string()),
            },
        },
        Theirs::UnsupportedCompressionMethod(found) => Error::Unsupported {
            what: "7z method",
            found,
            known: "copy, LZMA, LZMA2, PPMd, bzip2, deflate, zstd, lz4, brotli, BCJ, BCJ2, delta, AES".into(),
        },
        Theirs::Unsupported(found) => {
            Error::Unsupported { what: "7z folder with", found: found.into_owned(), known: "several inputs only for BCJ2".into() }
        }
        Theirs::MaxMemLimited { actaul_kb, .. } => {
            Error::ResourceLimit { resource: Resource::Dictionaries, found: (actaul_kb as u64).saturating_mul(1024), limit }
        }
        Theirs::PasswordRequired => Error::KeyNeeded,
        Theirs::ChecksumVerificationFailed => damaged("its checksum does not match".into()),
        Theirs::Other(detail) => damaged(detail.into_owned()),
        error => damaged(error.to_string()),
    }
}
