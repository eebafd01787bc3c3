//! The writer: creates an archive in one pass, or appends a commit to an existing one.
//!
//! [`Writer::create`] begins a new archive on any sequential output. [`Writer::append`] begins a
//! commit on top of the newest one in a [`Store`], a locked file ([`FileStore::open`]). Both return
//! the same type.
//!
//! On an existing archive, [`Writer::remove`], [`Writer::rename`], [`Writer::change`] and
//! [`Writer::reference_entry`] act on the current entries: those of the archive with all changes so
//! far. [`Writer::base`] reads the archive as it was. New content is deduplicated against it. The
//! cost depends on the new data and the pages above it, not on the size of the archive.
//!
//! ```
//! # fn main() -> nra_core::Result<()> {
//! use std::sync::Arc;
//!
//! use nra_core::archive::Archive;
//! use nra_core::entry::{Entry, Kind};
//! use nra_nra5::writer::{NewContent, Writer, WriterOptions};
//! use nra_nra5::reader::NraReader;
//! use nra_core::path::EntryPath;
//! use nra_core::progress::Recorder;
//! use nra_core::source::{FileSource, FileStore};
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let file = folder.path().join("a.nra");
//! # let path = |text: &str| EntryPath::try_from(text).expect("valid");
//! # let mut writer = Writer::create(Vec::new(), WriterOptions::balanced())?;
//! # writer.add(Entry::new(path("old"), Kind::File), NewContent::None)?;
//! # writer.add(Entry::new(path("draft"), Kind::File), NewContent::None)?;
//! # std::fs::write(&file, writer.finish(&Recorder::default())?.0).expect("written");
//!
//! let store = Arc::new(FileStore::open(&file)?);
//! let options = WriterOptions { message: "tidy up".into(), ..WriterOptions::balanced() };
//! let mut writer = Writer::append(store, options)?;
//! writer.remove(&path("old"))?;
//! writer.rename(&path("draft"), &path("texts/final"))?;
//! writer.add(Entry::new(path("new"), Kind::Directory), NewContent::None)?;
//! let (destination, stats) = writer.finish(&Recorder::default())?;
//! drop(destination); // unlocks
//!
//! assert_eq!((stats.commit, stats.entries), (2, 3));
//! assert!(NraReader::open(Arc::new(FileSource::open(&file)?), &Default::default())?.find(b"texts/final")?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! [`Store`]: nra_core::source::Store
//! [`FileStore::open`]: nra_core::source::FileStore::open
//!
//! The thread that owns the [`Writer`] deduplicates and writes; worker threads compress. The bytes
//! depend on the entries, their order and the options, never on the number of threads.
//!
//! Data flow: `buffering` collects chunks in `chunk_buffer`s, `block_writer` writes blocks, `pages`
//! and `merge` write the trees, `finish` writes commit frame and footer. Spec: nra.md, sections 3,
//! 7 and 17.

mod append;
mod block_writer;
mod buffering;
mod chunk_buffer;
mod chunk_table;
mod compressors;
mod copy_block;
mod cut;
mod destination;
mod dictionary;
mod finish;
mod index;
mod merge;
mod options;
mod output;
mod pages;
mod snapshot;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;

pub(crate) use append::no_base;
pub(crate) use copy_block::CopiedBlock;
pub use destination::{AppendDestination, FileDestination};
pub use options::{BlockPolicy, DictionaryPolicy, WriterOptions, WriterStats};
pub use snapshot::Snapshot;

use crate::layout::SUPERBLOCK_LEN;
use crate::superblock::{REQUIRED_ENCRYPTION, Superblock};
use append::Base;
use block_writer::{BlockWriter, QueueItem};
use chunk_buffer::ChunkBuffer;
use chunk_table::BufferId;
use cut::CutPolicy;
use index::{ChunkOrHole, ContentSource, Index};
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::limits::{self, MAX_OFFSET, to_u32};
use nra_core::path::Quoted;
use nra_core::progress::Monitor;
use output::Output;

/// Content of an entry that is added in one call.
#[derive(Debug, Clone, Copy)]
pub enum NewContent<'a> {
    /// No content: an empty file, or an entry that is not a file.
    None,
    /// The whole content of a small file, which becomes one chunk.
    Whole {
        /// The bytes, up to `MAX_BLOCK_RAW`.
        bytes: &'a [u8],
        /// Their digest.
        digest: Digest,
        /// Result of [`looks_incompressible`](nra_core::codec::looks_incompressible).
        incompressible: bool,
    },
}

/// Identifies an entry that was added to a [`Writer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(u32);

impl EntryId {
    fn new(index: usize) -> Result<Self> {
        to_u32("number of entries", index as u64).map(Self)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Limits of the length of a buffer of compressible chunks, bytes: long enough that its short last
/// block does not matter, short enough to keep all workers busy.
const RUN_BYTES: std::ops::RangeInclusive<usize> = 4 << 20..=8 << 20;
/// Longest record, bytes. A page holds it with room to spare.
const MAX_RECORD: u64 = 8 << 20;

/// Writes an archive. If it is dropped without [`Writer::finish`], a new archive does not open.
pub struct Writer<W: Write> {
    options: WriterOptions,
    policy: CutPolicy,
    buffer_bytes: usize,
    block_writer: BlockWriter<W>,
    index: Index,
    incompressible_chunks: ChunkBuffer,
    compressible_chunks: ChunkBuffer,
    last_buffer: BufferId,
    /// Entries without new content. They are recorded with the buffer that is closed next.
    contentless: Vec<EntryId>,
    contentless_weight: usize,
    contentless_batch: BufferId,
    /// Whether to consider training a dictionary.
    dictionary_undecided: bool,
    open_file: Option<OpenFile>,
    deduplicated_bytes: u64,
    /// Content added so far, including holes.
    given_bytes: u64,
    /// The base, if this writer appends.
    base: Option<Base>,
}

/// A file whose content is added in chunks.
struct OpenFile {
    entry: Entry,
    parts: Vec<ChunkOrHole>,
    buffers: [BufferId; 3],
    size: u64,
    /// Deduplicated bytes before this file. Content of an abandoned file does not count.
    deduplicated_before: u64,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a new archive. `out` is at its first byte.
    ///
    /// # Errors
    ///
    /// `Usage` for inconsistent options; errors of writing the superblock.
    pub fn create(out: W, mut options: WriterOptions) -> Result<Self> {
        options.check()?;
        let mut output = Output::new(out, 0, 1, options.encryption.take())?;
        let mut superblock = Superblock::default();
        if output.keyring().is_some() {
            superblock.required = REQUIRED_ENCRYPTION;
            superblock.keys = (SUPERBLOCK_LEN as u64, output.keys_len());
        }
        output.write(&superblock.encode())?;
        output.keys()?;
        Self::with_output(output, options, None)
    }

    /// Creates a writer with checked options.
    fn with_output(output: Output<W>, options: WriterOptions, base: Option<Base>) -> Result<Self> {
        let policy = CutPolicy { method: options.method, block: options.block, align: options.align };
        let last_group = base.as_ref().map_or(0, |base| base.newest.commit.link_groups);
        let mut writer = Self {
            policy,
            buffer_bytes: (2 * options.block.max_raw_bytes as usize).clamp(*RUN_BYTES.start(), *RUN_BYTES.end()),
            block_writer: BlockWriter::new(output, policy, options.threads.max(1), options.memory_bytes),
            index: Index::above(last_group),
            incompressible_chunks: ChunkBuffer::new(1, Vec::new()),
            compressible_chunks: ChunkBuffer::new(2, Vec::new()),
            last_buffer: 2,
            contentless: Vec::new(),
            contentless_weight: 0,
            contentless_batch: 1,
            dictionary_undecided: options.dictionary == DictionaryPolicy::Auto && options.method.codec == Codec::Zstd,
            open_file: None,
            deduplicated_bytes: 0,
            given_bytes: 0,
            base,
            options,
        };
        if let DictionaryPolicy::Given(bytes) = &writer.options.dictionary {
            let dictionary = Dictionary::new(bytes.clone()).map_err(|detail| Error::usage(format!("dictionary: {detail}")))?;
            writer.block_writer.push(QueueItem::Dictionary(Arc::new(dictionary)), &mut writer.index)?;
        }
        Ok(writer)
    }

    /// Adds an entry with all of its content. The writer sets the fields `size` and `content`.
    /// Entries with the same `link_group` other than 0 are hard links of each other; the numbers
    /// are replaced.
    ///
    /// An entry replaces an earlier one with the same path.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for an entry that the format does not allow, which is then ignored;
    /// errors of writing.
    pub fn add(&mut self, entry: Entry, content: NewContent<'_>) -> Result<EntryId> {
        let mut entry = self.check_new_entry(entry)?;
        match content {
            NewContent::Whole { bytes, digest, incompressible } if !bytes.is_empty() => {
                if entry.kind != Kind::File {
                    return Err(cannot_store(&entry, "content although it is not a file"));
                }
                let mut buffers = [0; 3];
                entry.size = bytes.len() as u64;
                let chunk = self.store_chunk(bytes, digest, incompressible, &mut buffers)?;
                self.insert(entry, ContentSource::Chunk(chunk), buffers)
            }
            NewContent::None | NewContent::Whole { .. } => self.insert(entry, ContentSource::Resolved, [0; 3]),
        }
    }

    /// Begins a file whose content is added in chunks.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn begin_file(&mut self, entry: Entry) -> Result<()> {
        let entry = self.check_new_entry(entry)?;
        if entry.kind != Kind::File {
            return Err(cannot_store(&entry, "content although it is not a file"));
        }
        let deduplicated_before = self.deduplicated_bytes;
        self.open_file = Some(OpenFile { entry, parts: Vec::new(), buffers: [0; 3], size: 0, deduplicated_before });
        Ok(())
    }

    /// Adds the next chunk of the open file.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn add_chunk(&mut self, bytes: &[u8], digest: Digest, incompressible: bool) -> Result<()> {
        let mut open_file = self.open_file.take().ok_or_else(no_open_file)?;
        if !bytes.is_empty() {
            open_file.size = checked_size(open_file.size, bytes.len() as u64)?;
            let chunk = self.store_chunk(bytes, digest, incompressible, &mut open_file.buffers)?;
            open_file.parts.push(ChunkOrHole::Chunk(chunk));
        }
        self.open_file = Some(open_file);
        Ok(())
    }

    /// Adds a hole of `len` zero bytes to the open file. They are not stored.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn add_hole(&mut self, len: u64) -> Result<()> {
        let open_file = self.open_file.as_mut().ok_or_else(no_open_file)?;
        if len > 0 {
            open_file.size = checked_size(open_file.size, len)?;
            open_file.parts.push(ChunkOrHole::Hole(len));
            self.given_bytes = self.given_bytes.saturating_add(len);
        }
        Ok(())
    }

    /// Ends the open file. `digest` is the digest of its whole content, if known.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn end_file(&mut self, digest: Option<Digest>) -> Result<EntryId> {
        let OpenFile { mut entry, parts, buffers, size, .. } = self.open_file.take().ok_or_else(no_open_file)?;
        entry.size = size;
        let source = match &parts[..] {
            [] => ContentSource::Resolved,
            [ChunkOrHole::Chunk(chunk)] => ContentSource::Chunk(*chunk),
            _ => ContentSource::Parts(parts.into(), digest.map(Box::new)),
        };
        self.insert(entry, source, buffers)
    }

    /// Abandons the open file. Its stored chunks remain and may serve later files.
    pub fn abandon_file(&mut self) {
        if let Some(open_file) = self.open_file.take() {
            self.deduplicated_bytes = open_file.deduplicated_before;
        }
    }

    /// Adds a hard link: an entry with the content, metadata, time and link group of an earlier
    /// file.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`]; `Usage` if the earlier entry is not a file.
    pub fn add_link(&mut self, entry: Entry, earlier: EntryId) -> Result<EntryId> {
        let mut entry = self.check_new_entry(entry)?;
        let target = self.index.entry(earlier);
        if entry.kind != Kind::File || target.entry.kind != Kind::File {
            return Err(cannot_store(&entry, "a link to an entry that is not a file"));
        }
        entry.size = target.entry.size;
        entry.metadata = target.entry.metadata.clone();
        entry.modified = target.entry.modified;
        let (buffers, mut group) = (target.buffers, target.group);
        if group == 0 {
            group = self.index.new_group();
            self.index.join_group(group);
            let is_buffered = self.is_buffered(&buffers);
            let target = self.index.entry_mut(earlier);
            target.group = group;
            if is_buffered {
                target.entry.link_group = group;
            } else {
                // The record may have been written without the group.
                self.block_writer.push(QueueItem::Link(earlier, group), &mut self.index)?;
            }
        }
        let source = if entry.size == 0 { ContentSource::Resolved } else { ContentSource::Same(earlier) };
        entry.link_group = 0;
        self.insert_in_group(entry, source, buffers, group)
    }

    /// Adds an entry with the content of an earlier file, in no link group.
    ///
    /// # Errors
    ///
    /// As [`Writer::add_link`].
    pub fn add_copy(&mut self, entry: Entry, earlier: EntryId) -> Result<EntryId> {
        let mut entry = self.check_new_entry(entry)?;
        let target = self.index.entry(earlier);
        if entry.kind != Kind::File || target.entry.kind != Kind::File {
            return Err(cannot_store(&entry, "the content of an entry that is not a file"));
        }
        entry.size = target.entry.size;
        let buffers = target.buffers;
        let source = if entry.size == 0 { ContentSource::Resolved } else { ContentSource::Same(earlier) };
        self.insert_in_group(entry, source, buffers, 0)
    }

    /// Returns how much of the added content is compressed or deduplicated, bytes.
    /// [`Writer::finish`] counts the rest.
    pub fn done_bytes(&self) -> u64 {
        let waiting =
            self.incompressible_chunks.content_bytes + self.compressible_chunks.content_bytes + self.block_writer.waiting_bytes();
        self.given_bytes.saturating_sub(waiting)
    }

    /// Writes the rest, the index and the commit. Returns `out` (flushed) and statistics. Content
    /// that was waiting for compression is counted at the monitor (see [`Writer::done_bytes`]).
    ///
    /// # Errors
    ///
    /// `Cancelled`; errors of compressing and writing.
    pub fn finish(mut self, monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
        if self.open_file.is_some() {
            return Err(Error::usage("the open file was not ended"));
        }
        self.apply_new()?;
        self.close_incompressible()?;
        self.close_compressible()?;
        self.close_contentless()?;
        self.block_writer.drain(&mut self.index, monitor)?;
        finish::finish(self, monitor)
    }
}

fn cannot_store(entry: &Entry, what: &str) -> Error {
    Error::usage(format!("{} cannot be stored: it has {what}", Quoted::new(entry.path.as_bytes())))
}

fn no_open_file() -> Error {
    Error::usage("no file is open")
}

fn checked_size(size: u64, by: u64) -> Result<u64> {
    let size = size.saturating_add(by);
    limits::check("size of a file", size, MAX_OFFSET).map(|()| size)
}
