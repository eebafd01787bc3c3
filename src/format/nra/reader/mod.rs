//! Reading NRA 5: opening, the entry tree, content, and ways around damage.
//!
//! Promises: what is returned was checked on the way to it (section 23); a cold look-up reads the window at the end of the file, pages
//! down to the leaf, and the content (section 16); memory is bounded by [`OpenOptions::cache_bytes`], except that an archive
//! whose index is damaged is served from a list of all its entries, bounded by the length of the file. Readers are shared between threads.
//!
//! Spec: nra.md, sections 9, 15, 16, 22 and 23.

mod base;
mod blocks;
mod cache;
mod content;
mod damage;
mod frames;
mod gather;
mod history;
mod iter;
mod key;
mod map;
mod moving;
mod open;
mod opener;
mod remains;
mod scan;
mod stored;
mod tree;
mod verify;
mod walk;
mod weight;
mod window;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::commit::Commit;
use crate::head::Head;
use crate::layout::SUPERBLOCK_LEN;
use crate::page::Child;
use nra_core::archive::{Access, Archive, CommitInfo, Depth, IndexPage, Info, OpenOptions, Part, Run, Totals, Verdict};
use nra_core::crypt::{KeyInfo, Keyring};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;

pub(crate) use base::{BaseState, HeldPiece};
use cache::Caches;
pub(crate) use damage::is_damage;
use iter::{Children, Entries};
use open::State;
pub(crate) use open::lost_commit;
use opener::Unlock;
pub use remains::open_remains;
use scan::Scan;
use tree::{Leaf, Node, Seek, behind};
use window::Window;

/// An opened NRA 5 archive.
pub struct NraReader {
    window: Window,
    caches: Caches,
    info: Info,
    root: Root,
    /// The commit and the length of the file at it; `None` when none was found.
    state: Option<(Commit, u64)>,
    /// `state` is the newest one of the file.
    is_newest: bool,
    /// What of the remarks is about bytes that lie behind `state`.
    remains: Option<String>,
    /// A commit later than `state` is lost.
    lost_later: bool,
    /// Something is damaged that belongs to the archive, but may not hurt `state`.
    recovered: bool,
    /// The newest keys are damaged, earlier ones were used.
    recovered_keys: bool,
    may_recover: bool,
    /// All entries by the directories of the blocks: made when the first damaged page is met. `None` in it: the file does not allow it.
    rescue: OnceLock<Option<Scan>>,
    /// Bytes that they may take however short the file is.
    memory: u64,
    /// What is wrong with the head, if that was asked for.
    head: OnceLock<Option<String>>,
    /// Held by the one that makes them.
    scanning: Mutex<()>,
}

/// Where look-ups begin. An archive without entries has a whole list of none.
enum Root {
    Page(Child),
    Whole(Arc<Node>),
}

impl NraReader {
    /// Opens `source`, which must be an NRA 5 archive. Reads its last 64 KiB, more only if its commit or attributes lie farther in front.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a feature that this version does not know, named; `KeyNeeded` and `WrongKey` for an encrypted archive; `Corrupt` when nothing leads to its entries.
    pub fn open(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Self> {
        Self::from_window(Window::read(source)?, options)
    }

    /// Returns the reader of an archive of NRA 5, whose blocks can move to another one as they are; `None` for all others.
    pub fn of(archive: &dyn Archive) -> Option<&Self> {
        archive.as_any()?.downcast_ref()
    }

    /// Opens `source` if it is, or was, an NRA 5 archive.
    pub fn probe(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<Self>> {
        let window = Window::read(source)?;
        if open::is_nra(&window)? { Self::from_window(window, options).map(Some) } else { Ok(None) }
    }

    /// As [`NraReader::open`], with keys that were unlocked before, if there are.
    pub(crate) fn open_unlocked(source: Arc<dyn ReadAt>, options: &OpenOptions, keyring: Option<&Keyring>) -> Result<Self> {
        let unlock = keyring.map_or_else(|| options.into(), |keyring| Unlock::Keyring(Some(keyring)));
        Self::with_keys(Window::read(source)?, options, unlock)
    }

    fn from_window(window: Window, options: &OpenOptions) -> Result<Self> {
        Self::with_keys(window, options, options.into())
    }

    fn with_keys(mut window: Window, options: &OpenOptions, unlock: Unlock<'_>) -> Result<Self> {
        let remark = opener::unlock(&mut window, unlock, options.recover)?;
        let mut reader = Self::unlocked(window, options, unlock)?;
        reader.recovered_keys = remark.is_some();
        reader.info.remarks.extend(remark);
        Ok(reader)
    }

    fn unlocked(mut window: Window, options: &OpenOptions, unlock: Unlock<'_>) -> Result<Self> {
        let newest = open::newest(&window, options.recover);
        if let Ok(state) = &newest {
            opener::settle(&mut window, state, unlock)?;
        }
        let cause = match (newest, options.commit) {
            (Ok(state), None) => {
                if state.place.offset < window.start() {
                    // Recovery data lies behind.
                    window.move_to(state.end)?;
                }
                return Self::with_state(window, state, options, true);
            }
            (Ok(newest), Some(number)) => {
                let last = newest.commit.number;
                let state = history::at(&window, newest, number)?;
                // What leads to the entries of a commit lies at its end.
                window.move_to(state.end)?;
                return Self::with_state(window, state, options, number == last);
            }
            (Err(cause), None) if options.recover && is_damage(&cause) => cause,
            (Err(error), _) => return Err(error),
        };
        let scan = Scan::run(&window, window.file_len(), options.cache_bytes)?;
        if scan.blocks == 0 {
            return Err(cause);
        }
        let info = open::describe_scan(&window, &scan, &cause);
        let (caches, memory) = (Caches::new(options.cache_bytes), options.cache_bytes);
        let root = Root::Whole(Arc::new(Node::Leaf(Leaf::shared(Arc::clone(&scan.entries)))));
        Ok(Self {
            window,
            caches,
            info,
            root,
            state: None,
            is_newest: true,
            remains: None,
            lost_later: false,
            recovered: true,
            recovered_keys: false,
            may_recover: true,
            rescue: OnceLock::from(Some(scan)),
            memory,
            head: OnceLock::new(),
            scanning: Mutex::default(),
        })
    }

    /// Goes by a state that was found.
    fn with_state(window: Window, state: State, options: &OpenOptions, is_newest: bool) -> Result<Self> {
        let info = open::describe(&window, &state, is_newest)?;
        let State { commit, end, remains, lost_later, recovered, .. } = state;
        let root = match commit.entry_root {
            Some(page) => {
                let (entries, content_bytes) = (commit.entries, commit.content_bytes);
                Root::Page(Child { key: Box::default(), page, entries, content_bytes })
            }
            None => Root::Whole(Arc::new(Node::Leaf(Leaf::new(Vec::new())))),
        };
        Ok(Self {
            window,
            caches: Caches::new(options.cache_bytes),
            info,
            root,
            state: Some((commit, end)),
            is_newest,
            remains,
            lost_later,
            recovered,
            recovered_keys: false,
            may_recover: options.recover,
            rescue: OnceLock::new(),
            memory: options.cache_bytes,
            head: OnceLock::new(),
            scanning: Mutex::default(),
        })
    }

    /// Says whether the index is whole, and of the newest state that there was: no entry is missing.
    pub fn is_complete(&self) -> bool {
        self.state.is_some() && !self.lost_later && !matches!(self.rescue.get(), Some(Some(_)))
    }

    /// Says whether bytes behind the newest commit belong to nothing: an append that did not finish left them, or somebody else.
    pub fn has_remains(&self) -> bool {
        self.remains().is_some()
    }

    /// Returns the one of the [remarks](Archive::remarks) that tells of bytes behind the newest commit: while somebody adds to the archive it says nothing.
    pub fn remains(&self) -> Option<&str> {
        self.remains.as_deref().filter(|_| self.is_newest)
    }

    /// Returns what there is to say of a damaged head, which nothing was read by. Slots are another matter: somebody may be writing one.
    fn head_remark(&self) -> Option<String> {
        let look = || match self.window.array::<SUPERBLOCK_LEN>("head", 0).and_then(|bytes| Head::parse(&bytes)) {
            Err(error) if self.state.is_some() && is_damage(&error) => {
                Some(format!("{error}; the archive reads without it, but can't be changed"))
            }
            _ => None,
        };
        self.head.get_or_init(look).clone()
    }

    /// Returns what can be told of the keys of `source` without opening it; `None` if it is no encrypted NRA 5 archive.
    ///
    /// # Errors
    ///
    /// `Corrupt` when no key frame reads; what reading gives.
    pub fn keys(source: Arc<dyn ReadAt>) -> Result<Option<Vec<KeyInfo>>> {
        let window = Window::read(source)?;
        if open::is_nra(&window)? { opener::list(&window) } else { Ok(None) }
    }

    /// Returns all entries by the directories of the blocks, if the caller of [`NraReader::open`] wanted that and the file allows it.
    ///
    /// # Errors
    ///
    /// What says nothing of the file; the next call tries again.
    fn rescue(&self) -> Result<Option<&Scan>> {
        if !self.may_recover {
            return Ok(None);
        }
        let _one = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if self.rescue.get().is_none() {
            let end = self.state.as_ref().map_or(self.window.file_len(), |state| state.1);
            let scan = match Scan::run(&self.window, end, self.memory) {
                Err(error) if is_damage(&error) => None,
                other => Some(other?),
            };
            let _ = self.rescue.set(scan);
        }
        Ok(self.rescue.get().and_then(Option::as_ref))
    }

    /// Resolves `directory` to the numbers below it, itself not among them.
    fn below(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let range = self.subtree(directory)?;
        let first = if directory.is_some() { (range.start + 1).min(range.end) } else { range.start };
        Ok(first..range.end)
    }
}

impl Archive for NraReader {
    fn keyring(&self) -> Option<&Keyring> {
        self.window.opener().map(opener::Opener::keyring)
    }

    fn info(&self) -> &Info {
        &self.info
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn links_share_metadata(&self) -> bool {
        true
    }

    fn is_index_damaged(&self) -> bool {
        self.recovered || self.recovered_keys || matches!(self.rescue.get(), Some(Some(_)))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.info.remarks.clone();
        if let (Some(_), Some(Some(scan))) = (&self.state, self.rescue.get()) {
            remarks
                .push("a page of the entry tree is damaged; the entries below it were found by the directories of blocks".into());
            remarks.extend(open::former_names(scan));
        }
        remarks.extend(self.head_remark());
        remarks
    }

    fn commits(&self) -> Box<dyn Iterator<Item = Result<CommitInfo>> + Send + '_> {
        match &self.state {
            Some((commit, end)) => Box::new(history::describe(&self.window, commit, *end)),
            None => Box::new(std::iter::empty()),
        }
    }

    fn entry(&self, number: u64) -> Result<Entry> {
        let none =
            || Error::Usage { detail: format!("there is no entry number {number}, the archive has {}", self.info.entries) };
        if number >= self.info.entries {
            return Err(none());
        }
        let spot = self.leaf(Seek::Number(number), true).map_err(|lost| lost.error)?;
        match spot.leaf().entries().get(spot.index(number)) {
            Some(entry) => Ok(entry.clone()),
            None => Err(spot.shortage().unwrap_or_else(none)),
        }
    }

    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>> {
        if self.info.entries == 0 {
            return Ok(None);
        }
        let (spot, index) = self.position(path)?;
        match spot.leaf().entries().get(index).filter(|entry| entry.path.as_bytes() == path) {
            Some(entry) => Ok(Some((spot.number(index), entry.clone()))),
            // It may be one of those that the damage took.
            None => spot.shortage().map_or(Ok(None), Err),
        }
    }

    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let Some(path) = directory else { return Ok(0..self.info.entries) };
        let Some((first, entry)) = self.find(path)? else { return Ok(0..0) };
        let end = if entry.kind == Kind::Directory { self.lower_bound(&behind(path))? } else { first + 1 };
        Ok(first..end.max(first))
    }

    fn totals(&self, range: Range<u64>) -> Result<Totals> {
        let end = range.end.min(self.info.entries);
        if range.start >= end {
            return Ok(Totals::default());
        }
        let (before, up_to) = (self.bytes_before(range.start)?, self.bytes_before(end)?);
        Ok(Totals { entries: end - range.start, content_bytes: up_to.saturating_sub(before) })
    }

    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(Entries::new(self, range.start, range.end.min(self.info.entries)))
    }

    fn pages_at(&self, number: u64) -> Result<Vec<IndexPage>> {
        match &self.state {
            Some((commit, _)) if number < self.info.entries && !self.is_index_damaged() => {
                self.pages_from(number, commit.archive_id)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(match self.below(directory) {
            Ok(range) => Children::new(self, directory, range.start, range.end),
            Err(error) => Children::failed(self, error),
        })
    }

    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_content(entry, offset, buffer)
    }

    fn with_range(
        &self,
        entry: &Entry,
        range: Range<u64>,
        access: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        self.visit(entry, range, access, sink)
    }

    fn with_content(&self, entry: &Entry, access: Access, sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        self.visit(entry, 0..entry.size, access, sink)
    }

    fn holes(&self, entry: &Entry) -> Result<Vec<Range<u64>>> {
        self.content_holes(entry)
    }

    fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>> {
        self.stored_share(entry).map(Some)
    }

    fn runs(&self, entry: &Entry, most: usize) -> Result<Option<(Vec<Run>, u64)>> {
        self.first_runs(entry, most).map(Some)
    }

    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        self.content_digest(entry)
    }

    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict> {
        verify::run(self, depth, select, monitor)
    }
}
