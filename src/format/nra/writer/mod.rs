//! Writes an archive in one pass to anything that takes bytes in order, or the next commit of one that is there.
//!
//! [`Writer::create`] begins a new archive. [`Writer::append`] begins a commit on top of the newest one of a [`Store`], a file that is locked
//! ([`FileStore::open`]); both give the same type, which is fed in the same way. On top of an archive [`Writer::remove`], [`Writer::rename`],
//! [`Writer::change`] and [`Writer::keep`] act on the state so far: that of the archive with what was done since. [`Writer::base`] reads the
//! archive as it was. What is added is deduplicated against it. The cost is that of what is new and of the pages above it: nothing is in proportion
//! to the archive.
//!
//! ```
//! # fn main() -> nra::format::Result<()> {
//! use std::sync::Arc;
//!
//! use nra::format::archive::{Archive, open_path};
//! use nra::format::entry::{Entry, Kind};
//! use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
//! use nra::format::path::EntryPath;
//! use nra::format::progress::Recorder;
//! use nra::format::source::FileStore;
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
//! assert!(open_path(&file, &Default::default())?.find(b"texts/final")?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! [`Store`]: crate::format::source::Store
//! [`FileStore::open`]: crate::format::source::FileStore::open
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

pub(in crate::format::nra) use adopt::Adopted;
pub use end::{FromStart, StoreEnd};
pub use options::{BlockPolicy, DictionaryPolicy, WriterOptions, WriterStats};
pub use present::Present;

use crate::format::checksum::content_checksum;
use crate::format::codec::{Codec, Dictionary};
use crate::format::digest::Digest;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::limits::{MAX_BLOCK_RAW, MAX_LIST_EXTENTS, MAX_OFFSET};
use crate::format::nra::content::Content;
use crate::format::nra::head::{Head, REQUIRED_ENCRYPTION};
use crate::format::nra::layout::HEAD_LEN;
use crate::format::nra::records;
use crate::format::path::Quoted;
use crate::format::progress::Monitor;
use append::Base;
use cutter::{CutPolicy, MAX_RAW_BLOCK};
use index::{Added, Index, PieceOrHole, Source, weight};
use output::Output;
use pieces::{PieceId, RunId};
use placing::{Item, Placing};
use run::{MAX_WAITING, MAX_WEIGHT, Run, RunPiece, aligned};

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
        /// What [`looks_incompressible`](crate::format::codec::looks_incompressible) says of them.
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
            head.keys = (HEAD_LEN as u64, output.keys_len());
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

    /// Checks a new entry and takes off what the writer sets.
    fn admit(&self, mut entry: Entry) -> Result<Entry> {
        if self.current.is_some() {
            return Err(Error::Usage { detail: "an entry was added before the file that was begun has ended".into() });
        }
        entry.size = 0;
        *entry.content_mut() = Content::None;
        records::check(&entry).map_err(|detail| refused(&entry, &detail))?;
        let weight = weight(&entry, 0);
        if weight > MAX_RECORD {
            let limit = MAX_RECORD as u64;
            return Err(Error::Limit { what: "length of a record", found: weight as u64, limit });
        }
        Ok(entry)
    }

    /// Stores a piece unless it is there, and notes the open run that it is in.
    fn store(&mut self, bytes: &[u8], digest: Digest, incompressible: bool, touched: &mut [RunId; 3]) -> Result<PieceId> {
        let limit = MAX_BLOCK_RAW.into();
        let raw_len = u32::try_from(bytes.len()).ok().filter(|&len| len <= MAX_BLOCK_RAW).ok_or(Error::Limit {
            what: "length of a piece",
            found: bytes.len() as u64,
            limit,
        })?;
        self.given_bytes = self.given_bytes.saturating_add(raw_len.into());
        let known = match self.index.pieces.find(&digest) {
            None => self.held(bytes, digest)?,
            known => known,
        };
        let id = match known {
            Some(id) => {
                self.deduplicated_bytes += u64::from(raw_len);
                id
            }
            None if incompressible || self.policy.method.codec == Codec::None => {
                if !self.raw.is_empty() && aligned(self.raw.bytes.len(), self.policy.align) + bytes.len() > MAX_RAW_BLOCK {
                    self.close_raw()?;
                }
                let id = self.index.pieces.insert(digest, raw_len, self.raw.id)?;
                let piece = RunPiece { id, raw_len, digest, checksum: content_checksum(bytes) };
                self.raw.push(piece, bytes, self.policy.align);
                id
            }
            None => {
                if !self.packed.is_empty() && self.packed.bytes.len() + bytes.len() > self.run_bytes {
                    self.close_packed()?;
                }
                let id = self.index.pieces.insert(digest, raw_len, self.packed.id)?;
                self.packed.push(RunPiece { id, raw_len, digest, checksum: 0 }, bytes, 0);
                id
            }
        };
        let place = self.index.pieces.place(id);
        if place.raw_len != raw_len {
            return Err(Error::Usage { detail: format!("digest {digest} was given for contents of different lengths") });
        }
        if place.run == self.raw.id {
            touched[0] = place.run;
        } else if place.run == self.packed.id {
            touched[1] = place.run;
        }
        Ok(id)
    }

    /// Gives an entry that waits for its block a link group, true or not.
    #[cfg(test)]
    pub(crate) fn force_group(&mut self, id: EntryId, group: u64) {
        self.index.entry_mut(id).entry.link_group = group;
    }

    fn insert(&mut self, mut entry: Entry, source: Source, touched: [RunId; 3]) -> Result<EntryId> {
        let group = self.index.group(std::mem::take(&mut entry.link_group));
        if !self.index.fits_group(group, &entry, &source) {
            return Err(refused(&entry, "the link group of an entry with other content or metadata"));
        }
        let id = EntryId::new(self.index.entries.len())?;
        let first = self.index.first_of_group(group, id);
        // So that an extent map is written once, and all names say the same of it.
        let source = if matches!(source, Source::Parts(..)) && first != id { Source::Same(first) } else { source };
        self.insert_in_group(entry, source, touched, group)
    }

    /// Adds an entry and lets it wait for the open runs that its content is in.
    fn insert_in_group(&mut self, mut entry: Entry, source: Source, mut touched: [RunId; 3], group: u64) -> Result<EntryId> {
        let id = EntryId::new(self.index.entries.len())?;
        self.index.join_group(group);
        entry.link_group = group;
        let (parts, held) = if let Source::Parts(parts, _) = &source { (parts.len(), size_of_val(&**parts)) } else { (1, 0) };
        // The parts of an extent map are held until its blocks are placed, though its record is short.
        let weight = weight(&entry, parts) + if parts > MAX_LIST_EXTENTS { held } else { 0 };
        let mut waits = 0;
        for (run, touched) in [&mut self.raw, &mut self.packed].into_iter().zip(touched) {
            if touched == run.id && !run.is_empty() {
                run.wait(id, weight);
                waits += 1;
            }
        }
        if waits == 0 {
            self.loose.push(id);
            self.loose_weight += weight;
            touched[2] = self.loose_batch;
        }
        self.index.entries.push(Added { entry, source, touched, group, waits, gone: false });
        if self.raw.is_crowded() {
            self.close_raw()?;
        }
        if self.packed.is_crowded() {
            self.close_packed()?;
        }
        if self.loose.len() >= MAX_WAITING || self.loose_weight >= MAX_WEIGHT {
            self.close_loose()?;
        }
        Ok(id)
    }

    /// Says whether an entry that touched these runs waits for one that is open.
    fn is_open(&self, touched: &[RunId; 3]) -> bool {
        touched[0] == self.raw.id && !self.raw.is_empty()
            || touched[1] == self.packed.id && !self.packed.is_empty()
            || touched[2] == self.loose_batch
    }

    fn close_raw(&mut self) -> Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let next = self.next_run();
        let mut run = std::mem::replace(&mut self.raw, next);
        self.attach_loose(&mut run);
        self.placing.push(Item::Raw(run), &mut self.index)
    }

    fn close_packed(&mut self) -> Result<()> {
        if self.packed.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.undecided)
            && let Some(dictionary) = dictionary::train(&self.packed, self.policy, &mut self.placing.bench)?
        {
            self.placing.push(Item::Dictionary(Arc::new(dictionary)), &mut self.index)?;
        }
        let next = self.next_run();
        let mut run = std::mem::replace(&mut self.packed, next);
        self.attach_loose(&mut run);
        self.placing.push(Item::Packed { run, cut: None }, &mut self.index)
    }

    fn close_loose(&mut self) -> Result<()> {
        let entries = std::mem::take(&mut self.loose);
        self.loose_weight = 0;
        self.loose_batch += 1;
        if entries.is_empty() { Ok(()) } else { self.placing.push(Item::Entries(entries), &mut self.index) }
    }

    /// Lets the entries without new content wait for a run that is closed.
    fn attach_loose(&mut self, run: &mut Run) {
        for id in self.loose.drain(..) {
            run.wait(id, 0);
            self.index.entry_mut(id).waits = 1;
        }
        self.loose_weight = 0;
        self.loose_batch += 1;
    }

    fn next_run(&mut self) -> Run {
        let id = self.next_run_id();
        Run::new(id, self.placing.take_spare())
    }

    fn next_run_id(&mut self) -> RunId {
        self.last_run += 1;
        self.last_run
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
