//! Decoding a folder, by the crate `sevenz-rust2`.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use sevenz_rust2::{BlockDecoder, Password};

use super::start::{SIGNATURE, START_LEN};
use super::streams::Folder;
use nra_core::crypt::Secret;
use nra_core::error::{Error, Resource, Result};
use nra_core::source::ReadAt;

/// Decoded bytes handed out at once.
const RUN: usize = 256 << 10;

/// How folders are decoded.
#[derive(Clone)]
pub(super) struct Decoding {
    /// Memory that dictionaries of a folder may take, bytes.
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

/// An archive with one folder and one member: a start, the bytes of the source as they are, and a header.
pub(super) struct OneFolder {
    source: Arc<dyn ReadAt>,
    base: u64,
    start: Vec<u8>,
    /// Where the bytes of the source end.
    body: u64,
    header: Vec<u8>,
    position: u64,
    /// Where the folder's packed bytes begin in the source.
    place: u64,
    is_encrypted: bool,
    memory: u64,
}

impl OneFolder {
    /// Shows what lies up to `end` behind the start of the archive at `base`, and `header` behind it.
    pub fn new(source: Arc<dyn ReadAt>, (base, end): (u64, u64), header: Vec<u8>, place: u64, folder: &Folder) -> Self {
        let mut numbers = Vec::with_capacity(20);
        numbers.extend(end.to_le_bytes());
        numbers.extend((header.len() as u64).to_le_bytes());
        numbers.extend(crc32fast::hash(&header).to_le_bytes());
        let mut start = SIGNATURE.to_vec();
        start.extend([0, 4]);
        start.extend(crc32fast::hash(&numbers).to_le_bytes());
        start.extend(numbers);
        Self {
            source,
            base,
            start,
            body: START_LEN + end,
            header,
            position: 0,
            place,
            is_encrypted: folder.is_encrypted,
            memory: folder.memory,
        }
    }
}

impl Read for OneFolder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let copied = |bytes: &[u8], at: u64, buffer: &mut [u8]| {
            let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            len
        };
        let len = if self.position < START_LEN {
            copied(&self.start, self.position, buffer)
        } else if self.position < self.body {
            let len = usize::try_from(self.body - self.position).unwrap_or(usize::MAX).min(buffer.len());
            self.source.read_exact_at(self.base + self.position, &mut buffer[..len]).map_err(io::Error::other)?;
            len
        } else {
            copied(&self.header, self.position - self.body, buffer)
        };
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for OneFolder {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.body + self.header.len() as u64;
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => len.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Hands the content of a folder to `sink`, run by run. Errors of `sink` end the work.
///
/// # Errors
///
/// `Corrupt` when it can't be decoded, `Unsupported` for a method that is not known, `ResourceLimit` for dictionaries that take too much memory,
/// `KeyNeeded`.
pub(super) fn decode(mut file: OneFolder, decoding: &Decoding, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (place, is_encrypted) = (file.place, file.is_encrypted);
    let password = decoding.password(is_encrypted)?;
    if file.memory > decoding.memory {
        return Err(Error::ResourceLimit { resource: Resource::Dictionaries, found: file.memory, limit: decoding.memory });
    }
    let limit = usize::try_from(decoding.memory / 1024).unwrap_or(usize::MAX);
    let of_crate = |error| of_crate(error, place, decoding.memory);
    let archive = sevenz_rust2::Archive::read_with_memory_limit(&mut file, &password, limit).map_err(of_crate)?;
    if archive.blocks.len() != 1 {
        return Err(Error::corrupt("7z folder", place, "its description is not that of one folder"));
    }
    let mut failed = None;
    let mut buffer = vec![0; RUN];
    let mut buffered = Buffered { file: &mut file, bytes: vec![0; RUN], start: 0, end: 0 };
    let decoder = BlockDecoder::new_with_memory_limit(1, limit, 0, &archive, &password, &mut buffered);
    let result = decoder.for_each_entries(&mut |_, reader| {
        loop {
            let len = match reader.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if let Err(error) = sink(&buffer[..len]) {
                failed = Some(error);
                return Ok(false);
            }
        }
    });
    match (failed, result) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(of_crate(error)),
        (None, Ok(_)) => Ok(()),
    }
}

/// A file behind a buffer: decoders ask for few bytes at a time, and for each they seek.
struct Buffered<'a> {
    file: &'a mut OneFolder,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Read for Buffered<'_> {
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

impl Seek for Buffered<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = self.file.position - (self.end - self.start) as u64;
        if let SeekFrom::Start(wanted) = to {
            // Nearby: within what is in the buffer.
            let first = self.file.position - self.end as u64;
            if let Some(at) = wanted.checked_sub(first).and_then(|at| usize::try_from(at).ok()).filter(|&at| at <= self.end) {
                self.start = at;
                return Ok(wanted);
            }
        }
        (self.start, self.end) = (0, 0);
        match to {
            SeekFrom::Current(distance) => {
                let wanted = position.checked_add_signed(distance).ok_or(io::ErrorKind::InvalidInput)?;
                self.file.seek(SeekFrom::Start(wanted))
            }
            to => self.file.seek(to),
        }
    }
}

/// Makes an error of one of the crate, about the folder at `place`.
fn of_crate(error: sevenz_rust2::Error, place: u64, limit: u64) -> Error {
    use sevenz_rust2::Error as Theirs;
    let damaged = |detail: String| Error::corrupt("7z folder", place, detail);
    match error {
        Theirs::Io(error, _) | Theirs::MaybeBadPassword(error) => match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => match error.downcast::<Theirs>() {
                Ok(error) => of_crate(error, place, limit),
                Err(error) => damaged(error.to_string()),
            },
        },
        Theirs::UnsupportedCompressionMethod(found) => Error::Unsupported {
            what: "7z method",
            found,
            known: "copy, LZMA, LZMA2, PPMd, bzip2, deflate, zstd, lz4, brotli, BCJ, BCJ2, delta, AES".into(),
        },
        Theirs::Unsupported(found) => Error::Unsupported {
            what: "7z folder with",
            found: found.into_owned(),
            known: "BCJ2 alone has several inputs".into(),
        },
        Theirs::MaxMemLimited { actaul_kb, .. } => {
            Error::ResourceLimit { resource: Resource::Dictionaries, found: (actaul_kb as u64).saturating_mul(1024), limit }
        }
        Theirs::PasswordRequired => Error::KeyNeeded,
        Theirs::ChecksumVerificationFailed => damaged("its CRC is wrong".into()),
        Theirs::Other(detail) => damaged(detail.into_owned()),
        error => damaged(error.to_string()),
    }
}
