//! Writes an archive in one pass to anything that takes bytes in order, or the next commit of one that is there.
//!
//! [`Writer::create`] begins a new archive. [`Writer::append`] begins a commit on top of the newest one of a [`Store`], a file that is locked
//! ([`FileStore::open`]); both give the same type, which is fed in the same way. On top of an archive [`Writer::remove`], [`Writer::rename`],
//! [`Writer::change`] and [`Writer::keep`] act on the state so far: that of the archive with what was done since. [`Writer::base`] reads the
//! archive as it was. What is added is deduplicated against it. The cost is that of what is new and of the pages above it: nothing is in proportion
//! to the archive.
//!
//! ```
//! # fn main() -> nra_core::Result<()> {
//! use std::sync::Arc;
//!
//! use nra_core::archive::Archive;
//! use nra_core::entry::{Entry, Kind};
//! use nra_nra5::writer::{NewContent, Writer, WriterOptions};
//! use nra_nra5::reader::NraReader;
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
//! let (end, stats) = writer.finish(&Recorder::default())?;
//! drop(end); // unlocks
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
//! The thread that owns the [`Writer`] deduplicates, places frames and writes; worker threads compress. The bytes depend on
//! the entries, their order and the options, never on the number of threads. Spec: nra.md, sections 3, 7 and 17.

mod adopt;
mod append;
mod cutter;
mod dictionary;
mod end;
mod finish;
mod index;
mod intake;
mod merge;
mod options;
mod output;
mod pieces;
mod placing;
mod present;
mod run;
#[cfg(test)]
mod tests;
mod trees;
mod workers;

use std::io::Write;
use std::sync::Arc;

pub(crate) use adopt::Adopted;
pub(crate) use append::no_base;
pub use end::{FromStart, StoreEnd};
pub use options::{BlockPolicy, DictionaryPolicy, WriterOptions, WriterStats};
pub use present::Present;

use crate::head::{Head, REQUIRED_ENCRYPTION};
use crate::layout::SUPERBLOCK_LEN;
use append::Base;
use cutter::CutPolicy;
use index::{Index, PieceOrHole, Source};
use nra_core::codec::{Codec, Dictionary};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_OFFSET;
use nra_core::path::Quoted;
use nra_core::progress::Monitor;
use output::Output;
use pieces::RunId;
use placing::{Item, Placing};
use run::Run;

/// Content of an entry that is added in one call.
#[derive(Debug, Clone, Copy)]
pub enum NewContent<'a> {
    /// None: an empty file, or an entry that is not a file.
    None,
    /// The whole of a small file: it becomes one piece.
    Whole {
        /// The bytes, up to `MAX_BLOCK_RAW`.
        bytes: &'a [u8],
        /// Their digest.
        digest: Digest,
        /// What [`looks_incompressible`](nra_core::codec::looks_incompressible) says of them.
        incompressible: bool,
    },
}

/// Names an entry that was added to a [`Writer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(u32);

impl EntryId {
    fn new(index: usize) -> Result<Self> {
        let limit = u32::MAX.into();
        u32::try_from(index).map(Self).map_err(|_| Error::Limit { what: "number of entries", found: index as u64, limit })
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bounds of the length of a run of compressible content, bytes: long enough that its last block does not matter, short enough
/// that all workers have something to do.
const RUN_BYTES: std::ops::RangeInclusive<usize> = 4 << 20..=8 << 20;
/// A record longer than this does not fit a page with room to spare.
const MAX_RECORD: usize = 8 << 20;

/// Writes an archive. Dropping it without [`Writer::finish`] leaves an archive that does not open.
pub struct Writer<W: Write> {
    options: WriterOptions,
    policy: CutPolicy,
    run_bytes: usize,
    placing: Placing<W>,
    index: Index,
    /// Open run of content that does not shrink.
    raw: Run,
    /// Open run of content that is to be compressed.
    packed: Run,
    last_run: RunId,
    /// Entries without new content, which are recorded with the run that is closed next.
    loose: Vec<EntryId>,
    loose_weight: usize,
    loose_batch: RunId,
    /// A dictionary is still to be thought of.
    undecided: bool,
    current: Option<Current>,
    deduplicated_bytes: u64,
    /// Content that was given, holes too.
    given_bytes: u64,
    /// What is appended to.
    base: Option<Base>,
}

/// A file whose content is given in pieces.
struct Current {
    entry: Entry,
    parts: Vec<PieceOrHole>,
    touched: [RunId; 3],
    size: u64,
    /// What [`Writer::deduplicated_bytes`] was before: content of a file that is given up does not count.
    deduplicated_before: u64,
}

impl<W: Write + Send> Writer<W> {
    /// Begins an archive: `out` stands at its first byte.
    ///
    /// # Errors
    ///
    /// `Usage` for options that make no sense, and what writing the head gives.
    pub fn create(out: W, mut options: WriterOptions) -> Result<Self> {
        options.check()?;
        let mut output = Output::new(out, 0, 1, options.encryption.take())?;
        let mut head = Head::default();
        if output.keyring().is_some() {
            head.required = REQUIRED_ENCRYPTION;
            head.keys = (SUPERBLOCK_LEN as u64, output.keys_len());
        }
        output.write(&head.encode())?;
        output.keys()?;
        Self::with_output(output, options, None)
    }

    /// Begins with options that were checked.
    fn with_output(output: Output<W>, options: WriterOptions, base: Option<Base>) -> Result<Self> {
        let policy = CutPolicy { method: options.method, block: options.block, align: options.align };
        let last_group = base.as_ref().map_or(0, |base| base.state.commit.link_groups);
        let mut writer = Self {
            policy,
            run_bytes: (2 * options.block.max_raw_bytes as usize).clamp(*RUN_BYTES.start(), *RUN_BYTES.end()),
            placing: Placing::new(output, policy, options.threads.max(1), options.memory_bytes),
            index: Index::above(last_group),
            raw: Run::new(1, Vec::new()),
            packed: Run::new(2, Vec::new()),
            last_run: 2,
            loose: Vec::new(),
            loose_weight: 0,
            loose_batch: 1,
            undecided: options.dictionary == DictionaryPolicy::Auto && options.method.codec == Codec::Zstd,
            current: None,
            deduplicated_bytes: 0,
            given_bytes: 0,
            base,
            options,
        };
        if let DictionaryPolicy::Given(bytes) = &writer.options.dictionary {
            let dictionary =
                Dictionary::new(bytes.clone()).map_err(|detail| Error::Usage { detail: format!("dictionary: {detail}") })?;
            writer.placing.push(Item::Dictionary(Arc::new(dictionary)), &mut writer.index)?;
        }
        Ok(writer)
    }

    /// Adds an entry and all of its content. Its fields `size` and `content` are set by the writer; entries with the same
    /// `link_group` other than 0 are hard links of each other (the caller's numbers are replaced).
    ///
    /// An entry with the path of an earlier one takes its place.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for an entry that the format cannot hold (the writer goes on as if it had not been given), and what
    /// writing gives.
    pub fn add(&mut self, entry: Entry, content: NewContent<'_>) -> Result<EntryId> {
        let mut entry = self.admit(entry)?;
        match content {
            NewContent::Whole { bytes, digest, incompressible } if !bytes.is_empty() => {
                if entry.kind != Kind::File {
                    return Err(refused(&entry, "content, although it is no file"));
                }
                let mut touched = [0; 3];
                entry.size = bytes.len() as u64;
                let piece = self.store(bytes, digest, incompressible, &mut touched)?;
                self.insert(entry, Source::Piece(piece), touched)
            }
            NewContent::None | NewContent::Whole { .. } => self.insert(entry, Source::Settled, [0; 3]),
        }
    }

    /// Begins a file whose content is given in pieces.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn begin(&mut self, entry: Entry) -> Result<()> {
        let entry = self.admit(entry)?;
        if entry.kind != Kind::File {
            return Err(refused(&entry, "content, although it is no file"));
        }
        let deduplicated_before = self.deduplicated_bytes;
        self.current = Some(Current { entry, parts: Vec::new(), touched: [0; 3], size: 0, deduplicated_before });
        Ok(())
    }

    /// Adds the next bytes of the file that was begun: one piece.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn piece(&mut self, bytes: &[u8], digest: Digest, incompressible: bool) -> Result<()> {
        let mut current = self.current.take().ok_or_else(nothing_begun)?;
        if !bytes.is_empty() {
            current.size = grown(current.size, bytes.len() as u64)?;
            let piece = self.store(bytes, digest, incompressible, &mut current.touched)?;
            current.parts.push(PieceOrHole::Piece(piece));
        }
        self.current = Some(current);
        Ok(())
    }

    /// Adds `len` zero bytes that are not stored to the file that was begun.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn hole(&mut self, len: u64) -> Result<()> {
        let current = self.current.as_mut().ok_or_else(nothing_begun)?;
        if len > 0 {
            current.size = grown(current.size, len)?;
            current.parts.push(PieceOrHole::Hole(len));
            self.given_bytes = self.given_bytes.saturating_add(len);
        }
        Ok(())
    }

    /// Ends the file that was begun; `digest` is that of its whole content, if known.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn end(&mut self, digest: Option<Digest>) -> Result<EntryId> {
        let Current { mut entry, parts, touched, size, .. } = self.current.take().ok_or_else(nothing_begun)?;
        entry.size = size;
        let source = match &parts[..] {
            [] => Source::Settled,
            [PieceOrHole::Piece(piece)] => Source::Piece(*piece),
            _ => Source::Parts(parts.into(), digest.map(Box::new)),
        };
        self.insert(entry, source, touched)
    }

    /// Gives up the file that was begun; what was stored of it stays and may serve later files.
    pub fn abandon(&mut self) {
        if let Some(current) = self.current.take() {
            self.deduplicated_bytes = current.deduplicated_before;
        }
    }

    /// Adds a hard link: an entry with the content, metadata and time of an earlier file and in the same link group.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`]; `Usage` when the earlier entry is no file.
    pub fn add_link(&mut self, entry: Entry, earlier: EntryId) -> Result<EntryId> {
        let mut entry = self.admit(entry)?;
        let target = self.index.entry(earlier);
        if entry.kind != Kind::File || target.entry.kind != Kind::File {
            return Err(refused(&entry, "a link to something that is no file"));
        }
        entry.size = target.entry.size;
        entry.metadata = target.entry.metadata.clone();
        entry.modified = target.entry.modified;
        let (touched, mut group) = (target.touched, target.group);
        if group == 0 {
            group = self.index.new_group();
            self.index.join_group(group);
            let is_open = self.is_open(&touched);
            let target = self.index.entry_mut(earlier);
            target.group = group;
            if is_open {
                target.entry.link_group = group;
            } else {
                // Its record may be written already, without the group.
                self.placing.push(Item::Link(earlier, group), &mut self.index)?;
            }
        }
        let source = if entry.size == 0 { Source::Settled } else { Source::Same(earlier) };
        entry.link_group = 0;
        self.insert_in_group(entry, source, touched, group)
    }

    /// Adds an entry with the content of an earlier file, and in no link group.
    ///
    /// # Errors
    ///
    /// As [`Writer::add_link`].
    pub fn add_copy(&mut self, entry: Entry, earlier: EntryId) -> Result<EntryId> {
        let mut entry = self.admit(entry)?;
        let target = self.index.entry(earlier);
        if entry.kind != Kind::File || target.entry.kind != Kind::File {
            return Err(refused(&entry, "the content of something that is no file"));
        }
        entry.size = target.entry.size;
        let touched = target.touched;
        let source = if entry.size == 0 { Source::Settled } else { Source::Same(earlier) };
        self.insert_in_group(entry, source, touched, 0)
    }

    /// Returns how much of the content that was given is compressed or needs no more work, bytes. [`Writer::finish`] counts the rest.
    pub fn done_bytes(&self) -> u64 {
        let waiting = self.raw.content_bytes + self.packed.content_bytes + self.placing.waiting_bytes();
        self.given_bytes.saturating_sub(waiting)
    }

    /// Writes what is left, the index and the commit; returns `out` (flushed) and what was written. Content that was waiting to be
    /// compressed is counted at the monitor (see [`Writer::done_bytes`]).
    ///
    /// # Errors
    ///
    /// What compressing and writing give; `Cancelled` when the monitor says so.
    pub fn finish(mut self, monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
        if self.current.is_some() {
            return Err(Error::Usage { detail: "a file was begun and not ended".into() });
        }
        self.enter_new()?;
        self.close_raw()?;
        self.close_packed()?;
        self.close_loose()?;
        self.placing.drain(&mut self.index, monitor)?;
        finish::finish(self, monitor)
    }
}

fn refused(entry: &Entry, what: &str) -> Error {
    Error::Usage { detail: format!("{} cannot be stored: it has {what}", Quoted::new(entry.path.as_bytes())) }
}

fn nothing_begun() -> Error {
    Error::Usage { detail: "no file was begun".into() }
}

fn grown(size: u64, by: u64) -> Result<u64> {
    size.checked_add(by).filter(|&size| size <= MAX_OFFSET).ok_or(Error::Limit {
        what: "size of a file",
        found: u64::MAX,
        limit: MAX_OFFSET,
    })
}
