//! Writes archives that the tools of NRA 4.5 read.
//!
//! Blocks are written as they fill, then the manifest. The header is written last; until then it is 32
//! zero bytes, so that an unfinished file does not open. Chunk boundaries and hashes are those of
//! earlier versions, so that their tools can append to the archive and deduplicate against it.
//!
//! Metadata that earlier versions have no field for is stored where they skip it.
//! [`Writer::hidden_reason`] tells which entries their tools do not see.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use std::thread::available_parallelism;

use fastcdc::v2020::FastCDC;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;
use zstd_safe::CCtx;

use super::block_codec::tag;
use super::cipher::Cipher;
use super::extra_metadata::{EXTRA_ENTRIES, ExtraRecord};
use super::header::{HEADER_LEN, Header};
use super::manifest::MESSAGEPACK_PREFIX;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result, Subject};
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};
use nra_core::zeros::each_zero;

/// Raw length from which a block is full, bytes.
const BLOCK_RAW_LEN: usize = 4 << 20;
/// Minimum length of a chunk, bytes.
const MIN_CHUNK_LEN: usize = 2 << 10;
const AVERAGE_CHUNK_LEN: usize = 8 << 10;
/// Maximum length of a chunk, bytes.
const MAX_CHUNK_LEN: usize = 64 << 10;
/// Length of the content that is collected before it is split into chunks, bytes.
const CONTENT_BUFFER_LEN: usize = 1 << 20;
const MANIFEST_VERSION: &str = "3.0.0-beta";

/// The compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Zstandard at this level.
    Zstd(i32),
    /// LZ4.
    Lz4,
}

/// Options for writing an archive.
#[derive(Clone)]
pub struct WriterOptions {
    /// Name of the archive, for display.
    pub name: String,
    /// Compression of blocks.
    pub codec: Codec,
    /// Key to encrypt the blocks with. Names and sizes remain readable.
    pub key: Option<Zeroizing<[u8; 32]>>,
    /// Number of threads that compress blocks.
    pub threads: usize,
    /// Memory for content that waits to be compressed and written, bytes.
    pub memory_bytes: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        let threads = available_parallelism().map_or(1, std::num::NonZero::get);
        Self { name: "NRA".into(), codec: Codec::Zstd(3), key: None, threads, memory_bytes: 256 << 20 }
    }
}

/// Totals of a written archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Number of entries.
    pub entries: u64,
    /// Number of files that earlier versions see.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Length of the archive, bytes.
    pub archive_bytes: u64,
}

/// A writer for one archive.
pub struct Writer<W> {
    out: W,
    options: WriterOptions,
    is_encrypted: bool,
    /// Offset at which the next block is written.
    position: u64,
    /// Content of the current block.
    block: Vec<u8>,
    /// Hashes and ranges of the chunks in the current block.
    chunks: Vec<(blake3::Hash, Range<usize>)>,
    /// Threads that encode full blocks.
    pool: WorkerPool<'static, FullBlock, Result<EncodedBlock>>,
    /// Hashes of all chunks so far.
    known_hashes: HashSet<blake3::Hash>,
    chunk_table: RecordList,
    files: RecordList,
    /// Entries that earlier versions have no record for.
    extra_entries: RecordList,
    stored_bytes: u64,
    raw_bytes: u64,
    stats: WriterStats,
    open_entry: Option<OpenEntry>,
}

struct FullBlock {
    content: Vec<u8>,
    chunks: Vec<(blake3::Hash, Range<usize>)>,
}

/// A full block as stored.
struct EncodedBlock {
    stored: Vec<u8>,
    chunks: Vec<(blake3::Hash, Range<usize>)>,
}

/// The entry that is being written.
struct OpenEntry {
    entry: Entry,
    size: u64,
    /// Content that is not split into chunks yet.
    pending: Vec<u8>,
    recipe: Vec<blake3::Hash>,
}

/// Records of a MessagePack array, encoded as they are added.
#[derive(Default)]
struct RecordList {
    count: u32,
    bytes: Vec<u8>,
}

/// The record of a file, encoded as a map. Earlier versions skip the last field.
#[derive(Serialize)]
struct FileRecord<'a> {
    id: &'a str,
    original_size: u64,
    chunks: Hashes<'a>,
    nra5: &'a ExtraRecord,
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

impl RecordList {
    fn increment_count(&mut self) -> Result<()> {
        let limit = u64::from(u32::MAX);
        self.count = self.count.checked_add(1).ok_or(Error::Limit { what: "number of records", found: limit + 1, limit })?;
        Ok(())
    }

    /// Adds a record as an array.
    fn push(&mut self, record: &impl Serialize) -> Result<()> {
        self.increment_count()?;
        rmp_serde::encode::write(&mut self.bytes, record).map_err(encode_error)
    }

    fn push_map(&mut self, record: &FileRecord<'_>) -> Result<()> {
        self.increment_count()?;
        let mut serializer = rmp_serde::Serializer::new(&mut self.bytes).with_struct_map();
        record.serialize(&mut serializer).map_err(encode_error)
    }

    fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(0xdd);
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&self.bytes);
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Creates an archive at the start of `out`.
    ///
    /// # Errors
    ///
    /// `Usage` for an invalid zstd level; `Io` if `out` cannot be written.
    pub fn create(mut out: W, mut options: WriterOptions) -> Result<Self> {
        let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
        if let Codec::Zstd(level) = options.codec
            && !levels.contains(&level)
        {
            return Err(Error::usage(format!("invalid zstd level {level} (valid: {} to {})", levels.start(), levels.end())));
        }
        out.write_all(&[0; HEADER_LEN as usize]).map_err(write_error)?;
        // Only the cipher keeps the key.
        let cipher = options.key.take().map(|key| Arc::new(Cipher::new(&key)));
        let (is_encrypted, codec) = (cipher.is_some(), options.codec);
        let new_worker = move || {
            let cipher = cipher.clone();
            move |FullBlock { content, chunks }, output: JobOutput<Result<EncodedBlock>>| {
                output.finish(encode(&content, codec, cipher.as_deref()).map(|stored| EncodedBlock { stored, chunks }));
            }
        };
        let limits = PoolLimits::new(options.threads, options.threads.saturating_mul(2));
        let limits = PoolLimits { bytes: options.memory_bytes, ..limits };
        Ok(Self {
            out,
            is_encrypted,
            options,
            position: HEADER_LEN,
            block: Vec::new(),
            chunks: Vec::new(),
            pool: WorkerPool::new("compress", limits, new_worker),
            known_hashes: HashSet::new(),
            chunk_table: RecordList::default(),
            files: RecordList::default(),
            extra_entries: RecordList::default(),
            stored_bytes: 0,
            raw_bytes: 0,
            stats: WriterStats::default(),
            open_entry: None,
        })
    }

    /// Returns the reason why earlier versions do not see an entry, or `None` if they do.
    pub fn hidden_reason(entry: &Entry) -> Option<&'static str> {
        match entry.kind {
            Kind::File if std::str::from_utf8(entry.path.as_bytes()).is_err() => Some("its name is not UTF-8"),
            Kind::File => None,
            Kind::Directory => Some("it is an empty directory"),
            Kind::Symlink => Some("it is a symlink"),
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => Some("it is neither a file nor a directory"),
        }
    }

    /// Starts an entry. If it is a file, its content follows.
    ///
    /// If two entries have the same path, earlier versions see the first.
    ///
    /// # Errors
    ///
    /// `Usage` if the previous entry is not finished.
    pub fn start_entry(&mut self, entry: &Entry) -> Result<()> {
        if self.open_entry.is_some() {
            return Err(Error::usage(format!("cannot start entry {}: the previous entry is not finished", entry.path)));
        }
        self.open_entry = Some(OpenEntry { entry: entry.clone(), size: 0, pending: Vec::new(), recipe: Vec::new() });
        Ok(())
    }

    /// Appends content to the current file.
    ///
    /// # Errors
    ///
    /// `Usage` if no file was started; `Io` if the archive cannot be written.
    pub fn write(&mut self, mut content: &[u8]) -> Result<()> {
        while !content.is_empty() {
            let file = self.open_entry.as_mut().filter(|file| file.entry.kind == Kind::File);
            let file = file.ok_or_else(|| Error::usage("cannot write content: no file was started"))?;
            let (now, later) = content.split_at(content.len().min(CONTENT_BUFFER_LEN - file.pending.len()));
            file.pending.extend_from_slice(now);
            file.size += now.len() as u64;
            content = later;
            if file.pending.len() == CONTENT_BUFFER_LEN {
                self.split_into_chunks(false)?;
            }
        }
        Ok(())
    }

    /// Appends `len` zero bytes to the current file: this version has no holes.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`].
    pub fn write_hole(&mut self, len: u64) -> Result<()> {
        each_zero(len, |bytes| self.write(bytes))
    }

    /// Finishes the current entry.
    ///
    /// # Errors
    ///
    /// `Usage` if no entry was started; `Io` if the archive cannot be written.
    pub fn finish_entry(&mut self) -> Result<()> {
        self.split_into_chunks(true)?;
        let Some(OpenEntry { entry, size, recipe, .. }) = self.open_entry.take() else {
            return Err(Error::usage("cannot finish an entry: none was started"));
        };
        self.stats.entries += 1;
        self.stats.content_bytes += size;
        let name = std::str::from_utf8(entry.path.as_bytes());
        let record = FileRecord {
            id: name.unwrap_or_default(),
            original_size: size,
            chunks: Hashes(&recipe),
            nra5: &ExtraRecord::of(&entry),
        };
        if name.is_ok() && entry.kind == Kind::File {
            self.stats.files += 1;
            self.files.push_map(&record)
        } else {
            self.extra_entries.push_map(&record)
        }
    }

    /// Discards the current entry.
    pub fn abandon_entry(&mut self) {
        self.open_entry = None;
    }

    /// Writes the remaining blocks, the manifest and the header. Returns `out`, positioned at its end.
    ///
    /// # Errors
    ///
    /// `Usage` if an entry is not finished; `Io` if `out` cannot be written.
    pub fn finish(mut self) -> Result<(W, WriterStats)> {
        if self.open_entry.is_some() {
            return Err(Error::usage("cannot finish the archive: an entry is not finished"));
        }
        self.close_block()?;
        while self.write_next_block()? {}
        let ratio = if self.raw_bytes == 0 { 1.0 } else { self.stats.content_bytes as f64 / self.raw_bytes as f64 };
        let summary = (
            &self.options.name,
            self.stats.files,
            self.chunk_table.count,
            ratio,
            self.stats.content_bytes,
            self.stored_bytes,
            self.is_encrypted,
        );
        let mut manifest = MESSAGEPACK_PREFIX.to_vec();
        manifest.push(0x95);
        rmp_serde::encode::write(&mut manifest, &MANIFEST_VERSION).map_err(encode_error)?;
        rmp_serde::encode::write(&mut manifest, &summary).map_err(encode_error)?;
        self.chunk_table.append_to(&mut manifest);
        self.files.append_to(&mut manifest);
        manifest.push(0xc0);
        if self.extra_entries.count > 0 {
            rmp_serde::encode::write(&mut manifest, EXTRA_ENTRIES).map_err(encode_error)?;
            self.extra_entries.append_to(&mut manifest);
        }
        self.out.write_all(&manifest).map_err(write_error)?;
        let header = Header { manifest_offset: self.position, manifest_len: manifest.len() as u64 };
        self.out.seek(SeekFrom::Start(0)).map_err(write_error)?;
        self.out.write_all(&header.encode(HEADER_LEN)).map_err(write_error)?;
        self.out.seek(SeekFrom::End(0)).map_err(write_error)?;
        self.out.flush().map_err(write_error)?;
        let archive_bytes = header.manifest_offset + header.manifest_len;
        Ok((self.out, WriterStats { archive_bytes, ..self.stats }))
    }

    /// Splits the pending content of the current file into chunks.
    ///
    /// Unless this is the last content, the end is left pending: more content could change the boundaries.
    fn split_into_chunks(&mut self, is_last: bool) -> Result<()> {
        let Some(file) = self.open_entry.as_mut() else { return Ok(()) };
        let pending = std::mem::take(&mut file.pending);
        let mut start = 0;
        let chunker = FastCDC::new(&pending, MIN_CHUNK_LEN, AVERAGE_CHUNK_LEN, MAX_CHUNK_LEN);
        while start < pending.len() && (is_last || pending.len() - start >= MAX_CHUNK_LEN) {
            let end = chunker.cut(start, pending.len() - start).1;
            let chunk = &pending[start..end];
            let hash = blake3::hash(chunk);
            if self.known_hashes.insert(hash) {
                self.chunks.push((hash, self.block.len()..self.block.len() + chunk.len()));
                self.block.extend_from_slice(chunk);
                self.raw_bytes += chunk.len() as u64;
            }
            if let Some(file) = &mut self.open_entry {
                file.recipe.push(hash);
            }
            start = end;
            if self.block.len() >= BLOCK_RAW_LEN {
                self.close_block()?;
            }
        }
        if let Some(file) = &mut self.open_entry {
            file.pending = pending;
            file.pending.drain(..start);
        }
        Ok(())
    }

    /// Sets the number of chunk records to its limit.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn fill_table(&mut self) {
        self.chunk_table.count = u32::MAX;
    }

    /// Has the current block encoded, and writes preceding ones if too many are pending.
    fn close_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (content, chunks) = (std::mem::take(&mut self.block), std::mem::take(&mut self.chunks));
        let bytes = content.len() as u64;
        self.pool.send(FullBlock { content, chunks }, bytes)?;
        while !self.pool.has_room(bytes) {
            self.write_next_block()?;
        }
        Ok(())
    }

    /// Writes the next encoded block. Returns whether there was one.
    fn write_next_block(&mut self) -> Result<bool> {
        let Some(encoded) = self.pool.receive() else { return Ok(false) };
        let EncodedBlock { stored, chunks } = encoded?;
        let (len, crc) = (stored.len() as u64, crc32fast::hash(&stored));
        self.out.write_all(&stored).map_err(write_error)?;
        for (hash, range) in chunks {
            self.chunk_table.push(&(hash.to_hex().as_str(), self.position, len, range.len(), range.start, crc))?;
        }
        self.position += len;
        self.stored_bytes += len;
        Ok(true)
    }
}

fn encode(content: &[u8], codec: Codec, cipher: Option<&Cipher>) -> Result<Vec<u8>> {
    let stored = match codec {
        Codec::Zstd(level) => {
            let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
            let mut context = CCtx::try_create().ok_or_else(|| write_error(io::ErrorKind::OutOfMemory.into()))?;
            let compressed = context.compress(&mut frame, content, level);
            compressed.map_err(|code| write_error(io::Error::other(zstd_safe::get_error_name(code))))?;
            [&[tag::ZSTD], &frame[..]].concat()
        }
        Codec::Lz4 => [&[tag::LZ4], &lz4_flex::block::compress_prepend_size(content)[..]].concat(),
    };
    match cipher {
        Some(cipher) => cipher.encrypt(&stored),
        None => Ok(stored),
    }
}

fn write_error(error: io::Error) -> Error {
    Error::io("write", Subject::Output, error)
}

fn encode_error(error: rmp_serde::encode::Error) -> Error {
    write_error(io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use nra_core::path::EntryPath;

    #[test]
    fn memory_limits_the_pending_blocks() {
        let memory_bytes = 2 * (BLOCK_RAW_LEN + MAX_CHUNK_LEN) as u64;
        let options = WriterOptions { threads: usize::MAX, memory_bytes, ..WriterOptions::default() };
        let mut writer = Writer::create(Cursor::new(Vec::new()), options).unwrap();
        writer.start_entry(&Entry::new(EntryPath::new(&b"file"[..]).unwrap(), Kind::File)).unwrap();
        let mut noise = vec![0; 6 * BLOCK_RAW_LEN];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        writer.write(&noise).unwrap();
        assert!(writer.position > HEADER_LEN + 3 * BLOCK_RAW_LEN as u64, "{}", writer.position);
    }
}
