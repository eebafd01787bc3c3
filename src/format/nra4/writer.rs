//! Writing archives of NRA 4.5 that the tools of that version read.
//!
//! Blocks go out as they fill, the manifest comes last, and the header, until then 32 zero bytes, at the very end: an archive that was not
//! finished is no archive. Content is cut and named as earlier versions did, so that they can append to the archive and find what is there.
//! What they have no field for is kept where they skip it; [`Writer::hides`] tells which entries they will not see.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use fastcdc::v2020::FastCDC;
use rayon::prelude::*;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;
use zstd_safe::CCtx;

use super::block::tag;
use super::cipher::Cipher;
use super::extra::{Extra, MARK};
use super::header::{HEADER_LEN, Header};
use super::manifest::PREFIX;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result, Subject};
use nra_core::zeros::each_zero;

/// Raw length from which a block is full.
const BLOCK: usize = 4 << 20;
/// Lengths of chunks: shortest, aimed at, longest.
const CHUNK: (usize, usize, usize) = (2 << 10, 8 << 10, 64 << 10);
/// Content that is collected before it is cut.
const BUFFER: usize = 1 << 20;
/// Version that manifests name.
const VERSION: &str = "3.0.0-beta";

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Zstandard at this level.
    Zstd(i32),
    /// LZ4.
    Lz4,
}

/// How an archive is written.
#[derive(Clone)]
pub struct WriterOptions {
    /// Name of the archive, for people.
    pub name: String,
    /// Compression of blocks.
    pub codec: Codec,
    /// Encrypts the blocks with this key; names and sizes stay readable.
    pub key: Option<Zeroizing<[u8; 32]>>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { name: "NRA".into(), codec: Codec::Zstd(3), key: None }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Entries.
    pub entries: u64,
    /// Files that earlier versions see.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Length of the archive, bytes.
    pub archive_bytes: u64,
}

/// Writes one archive.
pub struct Writer<W> {
    out: W,
    options: WriterOptions,
    cipher: Option<Cipher>,
    place: u64,
    /// Content of the block in work.
    block: Vec<u8>,
    /// Its chunks: name, and where they lie.
    chunks: Vec<(blake3::Hash, Range<usize>)>,
    /// Full blocks that wait for being compressed together.
    full: Vec<Raw>,
    known: HashSet<blake3::Hash>,
    table: List,
    files: List,
    /// Entries without a record.
    others: List,
    stored_bytes: u64,
    raw_bytes: u64,
    stats: WriterStats,
    file: Option<Open>,
}

/// A full block.
struct Raw {
    content: Vec<u8>,
    chunks: Vec<(blake3::Hash, Range<usize>)>,
}

/// A file in work.
struct Open {
    entry: Entry,
    size: u64,
    uncut: Vec<u8>,
    recipe: Vec<blake3::Hash>,
}

/// Elements of a MessagePack array, encoded one after the other.
#[derive(Default)]
struct List {
    count: u32,
    bytes: Vec<u8>,
}

/// The record of a file, encoded as a map: readers of earlier versions skip the last field.
#[derive(Serialize)]
struct FileRecord<'a> {
    id: &'a str,
    original_size: u64,
    chunks: Hashes<'a>,
    nra5: &'a Extra,
}

struct Hashes<'a>(&'a [blake3::Hash]);

impl Serialize for Hashes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for hash in self.0 {
            list.serialize_element(hash.to_hex().as_str())?;
        }
        list.end()
    }
}

impl List {
    fn count(&mut self) -> Result<()> {
        let limit = u64::from(u32::MAX);
        self.count = self.count.checked_add(1).ok_or(Error::Limit { what: "number of records", found: limit + 1, limit })?;
        Ok(())
    }

    /// Adds a record as an array.
    fn push(&mut self, record: &impl Serialize) -> Result<()> {
        self.count()?;
        rmp_serde::encode::write(&mut self.bytes, record).map_err(unwritable)
    }

    /// Adds a record as a map.
    fn push_map(&mut self, record: &FileRecord<'_>) -> Result<()> {
        self.count()?;
        let mut serializer = rmp_serde::Serializer::new(&mut self.bytes).with_struct_map();
        record.serialize(&mut serializer).map_err(unwritable)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(0xdd);
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&self.bytes);
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Begins an archive at the start of `out`.
    ///
    /// # Errors
    ///
    /// `Usage` for a level that zstd does not have; `Io` when `out` can't be written.
    pub fn create(mut out: W, mut options: WriterOptions) -> Result<Self> {
        let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
        if let Codec::Zstd(level) = options.codec
            && !levels.contains(&level)
        {
            let detail = format!("zstd has no level {level} (levels: {} to {})", levels.start(), levels.end());
            return Err(Error::Usage { detail });
        }
        out.write_all(&[0; HEADER_LEN as usize]).map_err(failed)?;
        Ok(Self {
            out,
            // The cipher is all that knows it from here on.
            cipher: options.key.take().map(|key| Cipher::new(&key)),
            options,
            place: HEADER_LEN,
            block: Vec::new(),
            chunks: Vec::new(),
            full: Vec::new(),
            known: HashSet::new(),
            table: List::default(),
            files: List::default(),
            others: List::default(),
            stored_bytes: 0,
            raw_bytes: 0,
            stats: WriterStats::default(),
            file: None,
        })
    }

    /// Says why earlier versions will not see an entry; nothing for those that they see.
    pub fn hides(entry: &Entry) -> Option<&'static str> {
        match entry.kind {
            Kind::File if std::str::from_utf8(entry.path.as_bytes()).is_err() => Some("its name is not UTF-8"),
            Kind::File => None,
            Kind::Directory => Some("it is an empty directory"),
            Kind::Symlink => Some("it is a symlink"),
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => Some("it is neither file nor directory"),
        }
    }

    /// Begins an entry; its content follows if it is a file. Of two of the same path earlier versions see the first.
    ///
    /// # Errors
    ///
    /// `Usage` while another one is in work.
    pub fn begin(&mut self, entry: &Entry) -> Result<()> {
        if self.file.is_some() {
            return Err(Error::Usage { detail: format!("{} is begun before another entry is ended", entry.path) });
        }
        self.file = Some(Open { entry: entry.clone(), size: 0, uncut: Vec::new(), recipe: Vec::new() });
        Ok(())
    }

    /// Takes the next content of the file in work.
    ///
    /// # Errors
    ///
    /// `Usage` when no file is in work; `Io` when the archive can't be written.
    pub fn write(&mut self, mut content: &[u8]) -> Result<()> {
        while !content.is_empty() {
            let file = self.file.as_mut().filter(|file| file.entry.kind == Kind::File);
            let file = file.ok_or_else(|| Error::Usage { detail: "content belongs to a file that was begun".into() })?;
            let (now, later) = content.split_at(content.len().min(BUFFER - file.uncut.len()));
            file.uncut.extend_from_slice(now);
            file.size += now.len() as u64;
            content = later;
            if file.uncut.len() == BUFFER {
                self.cut(false)?;
            }
        }
        Ok(())
    }

    /// Takes `len` zero bytes: this version has no holes.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn hole(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.write(bytes))
    }

    /// Ends the entry in work.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn end(&mut self) -> Result<()> {
        self.cut(true)?;
        let Some(Open { entry, size, recipe, .. }) = self.file.take() else {
            return Err(Error::Usage { detail: "no entry is in work".into() });
        };
        self.stats.entries += 1;
        self.stats.content_bytes += size;
        let name = std::str::from_utf8(entry.path.as_bytes());
        let record =
            FileRecord { id: name.unwrap_or_default(), original_size: size, chunks: Hashes(&recipe), nra5: &Extra::of(&entry) };
        if name.is_ok() && entry.kind == Kind::File {
            self.stats.files += 1;
            self.files.push_map(&record)
        } else {
            self.others.push_map(&record)
        }
    }

    /// Gives up the entry in work.
    pub fn abandon(&mut self) {
        self.file = None;
    }

    /// Writes what is left, the manifest and the header, and returns `out` at its end.
    ///
    /// # Errors
    ///
    /// `Usage` while an entry is in work; `Io` when `out` can't be written.
    pub fn finish(mut self) -> Result<(W, WriterStats)> {
        if self.file.is_some() {
            return Err(Error::Usage { detail: "an entry is not ended".into() });
        }
        self.close_block();
        self.write_blocks()?;
        let ratio = if self.raw_bytes == 0 { 1.0 } else { self.stats.content_bytes as f64 / self.raw_bytes as f64 };
        let summary = (
            &self.options.name,
            self.stats.files,
            self.table.count,
            ratio,
            self.stats.content_bytes,
            self.stored_bytes,
            self.cipher.is_some(),
        );
        let mut manifest = PREFIX.to_vec();
        manifest.push(0x95);
        rmp_serde::encode::write(&mut manifest, &VERSION).map_err(unwritable)?;
        rmp_serde::encode::write(&mut manifest, &summary).map_err(unwritable)?;
        self.table.append_to(&mut manifest);
        self.files.append_to(&mut manifest);
        manifest.push(0xc0);
        if self.others.count > 0 {
            rmp_serde::encode::write(&mut manifest, MARK).map_err(unwritable)?;
            self.others.append_to(&mut manifest);
        }
        self.out.write_all(&manifest).map_err(failed)?;
        let header = Header { manifest_offset: self.place, manifest_len: manifest.len() as u64 };
        self.out.seek(SeekFrom::Start(0)).map_err(failed)?;
        self.out.write_all(&header.encode(HEADER_LEN)).map_err(failed)?;
        self.out.seek(SeekFrom::End(0)).map_err(failed)?;
        self.out.flush().map_err(failed)?;
        let archive_bytes = header.manifest_offset + header.manifest_len;
        Ok((self.out, WriterStats { archive_bytes, ..self.stats }))
    }

    /// Cuts what was collected of the file in work, up to where more content could move the cuts.
    fn cut(&mut self, last: bool) -> Result<()> {
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        let uncut = std::mem::take(&mut file.uncut);
        let mut start = 0;
        let chunker = FastCDC::new(&uncut, CHUNK.0, CHUNK.1, CHUNK.2);
        while start < uncut.len() && (last || uncut.len() - start >= CHUNK.2) {
            let end = chunker.cut(start, uncut.len() - start).1;
            let chunk = &uncut[start..end];
            let hash = blake3::hash(chunk);
            if self.known.insert(hash) {
                self.chunks.push((hash, self.block.len()..self.block.len() + chunk.len()));
                self.block.extend_from_slice(chunk);
                self.raw_bytes += chunk.len() as u64;
            }
            if let Some(file) = &mut self.file {
                file.recipe.push(hash);
            }
            start = end;
            if self.block.len() >= BLOCK {
                self.close_block();
                if self.full.len() >= rayon::current_num_threads() * 2 {
                    self.write_blocks()?;
                }
            }
        }
        if let Some(file) = &mut self.file {
            file.uncut = uncut;
            file.uncut.drain(..start);
        }
        Ok(())
    }

    /// Leaves no room for records of chunks.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn fill_table(&mut self) {
        self.table.count = u32::MAX;
    }

    fn close_block(&mut self) {
        if !self.block.is_empty() {
            let (content, chunks) = (std::mem::take(&mut self.block), std::mem::take(&mut self.chunks));
            self.full.push(Raw { content, chunks });
        }
    }

    /// Compresses the full blocks side by side and writes them in order.
    fn write_blocks(&mut self) -> Result<()> {
        let full = std::mem::take(&mut self.full);
        let encode = |raw: &Raw| encode(&raw.content, self.options.codec, self.cipher.as_ref());
        let stored: Vec<Vec<u8>> = full.par_iter().map(encode).collect::<Result<_>>()?;
        for (raw, stored) in full.iter().zip(stored) {
            let (len, crc) = (stored.len() as u64, crc32fast::hash(&stored));
            self.out.write_all(&stored).map_err(failed)?;
            for (hash, range) in &raw.chunks {
                self.table.push(&(hash.to_hex().as_str(), self.place, len, range.len(), range.start, crc))?;
            }
            self.place += len;
            self.stored_bytes += len;
        }
        Ok(())
    }
}

/// Encodes the content of a block.
fn encode(content: &[u8], codec: Codec, cipher: Option<&Cipher>) -> Result<Vec<u8>> {
    let mut stored = match codec {
        Codec::Zstd(_) => vec![tag::ZSTD],
        Codec::Lz4 => vec![tag::LZ4],
    };
    match codec {
        Codec::Zstd(level) => {
            let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
            let mut context = CCtx::try_create().ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
            let compressed = context.compress(&mut frame, content, level);
            compressed.map_err(|code| failed(io::Error::other(zstd_safe::get_error_name(code))))?;
            stored.extend_from_slice(&frame);
        }
        Codec::Lz4 => stored.extend_from_slice(&lz4_flex::block::compress_prepend_size(content)),
    }
    match cipher {
        Some(cipher) => cipher.seal(&stored),
        None => Ok(stored),
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("write", Subject::Output, error)
}

fn unwritable(error: rmp_serde::encode::Error) -> Error {
    failed(io::Error::other(error.to_string()))
}
