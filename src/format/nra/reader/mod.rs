//! The reader: opening, the entry tree, content, and access to damaged archives.
//!
//! Guarantees:
//! - Everything that is returned was checked on the way to it (section 23).
//! - A cold lookup reads the window at the end of the file, the pages down to the leaf page, and
//!   the content (section 16).
//! - Memory is limited by [`OpenOptions::cache_bytes`]. If the index is damaged, a list of all
//!   entries is kept in memory; its size is limited by the length of the file.
//!
//! Readers can be shared between threads.
//!
//! Spec: nra.md, sections 9, 15, 16, 22 and 23.

mod base;
mod blocks;
mod cache;
mod cache_key;
mod content;
mod damage;
mod decrypt;
mod entries;
mod entry_tree;
mod extent_map;
mod found_commit;
mod frame_walk;
mod frames;
mod history;
mod keys;
mod memory;
mod open;
mod recorded_entries;
mod salvage;
mod scan;
mod stored_block;
mod stored_size;
mod verify;
mod window;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::commit::Commit;
use crate::entry_page::Child;
use crate::frame::FrameKind;
use nra_core::archive::{
    Access, Archive, CommitInfo, ContentSink, Damage, Depth, IndexPage, Info, OpenOptions, Run, Totals, Verdict,
};
use nra_core::crypt::{KeyInfo, Keyring};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::progress::Monitor;
use nra_core::source::ReadAt;

pub(crate) use base::{BaseCommit, StoredChunk};
use cache::Caches;
pub(crate) use damage::is_damage;
use damage::undamaged;
use entries::{Children, Entries};
use entry_tree::{Leaf, TreePage, after_subtree};
use found_commit::FoundCommit;
use keys::Unlock;
pub(crate) use open::lost_commit_error;
pub use salvage::open_for_salvage;
use scan::Scan;
use window::Window;

/// An opened NRA 5 archive.
pub struct NraReader {
    window: Window,
    caches: Caches,
    info: Info,
    root: Root,
    /// The open commit and the length of the file at it; `None` if none was found.
    commit: Option<(Commit, u64)>,
    /// Whether it is the newest commit of the file.
    is_newest: bool,
    /// The remark about bytes after it, if there are any.
    trailing_remark: Option<String>,
    lost_later: bool,
    /// Whether something in the archive is damaged. The open commit may be unaffected.
    recovered: bool,
    /// Whether the newest keys are damaged and earlier ones were used.
    recovered_keys: bool,
    may_recover: bool,
    /// All entries found in block indexes. The scan runs when the first damaged page is met. The
    /// inner `None` means that the file cannot be scanned.
    block_index_scan: OnceLock<Option<Scan>>,
    /// Memory that the scan may use regardless of the file length, bytes.
    memory: u64,
    /// The remark about a damaged superblock, once it was requested.
    superblock: OnceLock<Option<String>>,
    /// Held during the scan.
    scanning: Mutex<()>,
}

/// Where lookups start. An archive without entries has an empty list.
enum Root {
    EntryPage(Child),
    Whole(Arc<TreePage>),
}

impl Root {
    fn of_entries(entries: Arc<Vec<Entry>>) -> Self {
        Self::Whole(Arc::new(TreePage::Leaf(Leaf::shared(entries))))
    }
}

impl NraReader {
    /// Opens `source`, which must be an NRA 5 archive. Reads the last 64 KiB, and more only if
    /// commit or attributes lie before them.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the name of an unknown feature; `KeyNeeded` or `WrongKey` for an
    /// encrypted archive; `Corrupt` if no way leads to the entries.
    pub fn open(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Self> {
        Self::open_window(Window::read(source)?, options)
    }

    /// Returns the reader if `archive` is an NRA 5 archive, whose blocks can be copied as stored.
    pub fn downcast(archive: &dyn Archive) -> Option<&Self> {
        archive.as_any()?.downcast_ref()
    }

    /// Opens `source` if it is, or was, an NRA 5 archive.
    pub fn open_if_nra(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<Option<Self>> {
        let window = Window::read(source)?;
        if open::is_nra(&window)? { Self::open_window(window, options).map(Some) } else { Ok(None) }
    }

    /// Opens `source` as [`NraReader::open`] does, with keys that were unlocked before.
    pub(crate) fn open_unlocked(source: Arc<dyn ReadAt>, options: &OpenOptions, keyring: Option<&Keyring>) -> Result<Self> {
        let unlock = keyring.map_or_else(|| options.into(), |keyring| Unlock::Keyring(Some(keyring)));
        Self::open_and_unlock(Window::read(source)?, options, unlock)
    }

    fn open_window(window: Window, options: &OpenOptions) -> Result<Self> {
        Self::open_and_unlock(window, options, options.into())
    }

    fn open_and_unlock(mut window: Window, options: &OpenOptions, unlock: Unlock<'_>) -> Result<Self> {
        let remark = keys::unlock(&mut window, unlock, options.recover)?;
        let mut reader = Self::open_with_keys(window, options, unlock)?;
        reader.recovered_keys = remark.is_some();
        reader.info.remarks.extend(remark);
        Ok(reader)
    }

    fn open_with_keys(mut window: Window, options: &OpenOptions, unlock: Unlock<'_>) -> Result<Self> {
        let newest = open::find_newest(&window, options.recover);
        if let Ok(newest) = &newest {
            keys::switch_keys(&mut window, newest, unlock)?;
        }
        let cause = match (newest, options.commit) {
            (Ok(newest), None) => {
                if newest.commit_ref.offset < window.start() {
                    // Recovery data follows the commit.
                    window.move_to(newest.end)?;
                }
                return Self::open_commit(window, newest, options, true);
            }
            (Ok(newest), Some(number)) => {
                let last = newest.commit.number;
                let found = history::at(&window, newest, number)?;
                // The pages of a commit lie near its end.
                window.move_to(found.end)?;
                return Self::open_commit(window, found, options, number == last);
            }
            (Err(cause), None) if options.recover && is_damage(&cause) => cause,
            (Err(error), _) => return Err(error),
        };
        let scan = Scan::run(&window, window.file_len(), options.cache_bytes)?;
        if scan.blocks == 0 {
            return Err(cause);
        }
        let info = open::describe_scan(&window, &scan, &cause);
        let root = Root::of_entries(Arc::clone(&scan.entries));
        let reader = Self::new(window, info, root, options);
        Ok(Self { recovered: true, block_index_scan: OnceLock::from(Some(scan)), ..reader })
    }

    /// Creates the reader of a commit that was found.
    fn open_commit(window: Window, found: FoundCommit, options: &OpenOptions, is_newest: bool) -> Result<Self> {
        let info = open::describe(&window, &found, is_newest)?;
        let FoundCommit { commit, end, trailing_remark, lost_later, recovered, .. } = found;
        let root = commit.root().map_or_else(|| Root::of_entries(Arc::default()), Root::EntryPage);
        let reader = Self::new(window, info, root, options);
        Ok(Self { commit: Some((commit, end)), is_newest, trailing_remark, lost_later, recovered, ..reader })
    }

    /// Creates a reader without a commit.
    fn new(window: Window, info: Info, root: Root, options: &OpenOptions) -> Self {
        Self {
            window,
            caches: Caches::new(options.cache_bytes),
            info,
            root,
            commit: None,
            is_newest: true,
            trailing_remark: None,
            lost_later: false,
            recovered: false,
            recovered_keys: false,
            may_recover: options.recover,
            block_index_scan: OnceLock::new(),
            memory: options.cache_bytes,
            superblock: OnceLock::new(),
            scanning: Mutex::default(),
        }
    }

    /// Returns whether the index is undamaged and belongs to the newest commit, so no entry is
    /// missing.
    pub fn is_complete(&self) -> bool {
        self.commit.is_some() && !self.lost_later && !matches!(self.block_index_scan.get(), Some(Some(_)))
    }

    /// Returns whether bytes after the newest commit belong to no commit, for example those of an
    /// unfinished append.
    pub fn has_trailing_bytes(&self) -> bool {
        self.trailing_remark().is_some()
    }

    /// Returns the [remark](Archive::remarks) about bytes after the newest commit. It means nothing
    /// while somebody appends to the archive.
    pub fn trailing_remark(&self) -> Option<&str> {
        self.trailing_remark.as_deref().filter(|_| self.is_newest)
    }

    /// Returns the [remarks](Archive::remarks) without the one about bytes after the newest commit, for an
    /// archive that another process is changing.
    pub fn remarks_during_append(&self) -> Vec<String> {
        let trailing = self.trailing_remark();
        self.remarks().into_iter().filter(|remark| Some(remark.as_str()) != trailing).collect()
    }

    /// Returns whether damage found by [`verify`](Archive::verify) affects only the recovery data.
    pub fn is_recovery_damage(damage: &Damage) -> bool {
        damage.structure == FrameKind::Recovery.name()
    }

    /// Returns the remark about a damaged superblock that was not needed for reading. Commit slots
    /// are not checked: somebody may be writing one.
    fn superblock_remark(&self) -> Option<String> {
        let check = || {
            let error = self.window.superblock().err().filter(|error| self.commit.is_some() && is_damage(error))?;
            Some(format!("{error}; the archive is readable, but cannot be changed"))
        };
        self.superblock.get_or_init(check).clone()
    }

    /// Returns the keys of `source` without unlocking it, or `None` if it is not an encrypted NRA 5
    /// archive.
    ///
    /// # Errors
    ///
    /// `Corrupt` if no key frame is valid; I/O errors.
    pub fn keys(source: Arc<dyn ReadAt>) -> Result<Option<Vec<KeyInfo>>> {
        let window = Window::read(source)?;
        if open::is_nra(&window)? { keys::list(&window) } else { Ok(None) }
    }

    /// Returns all entries found in block indexes, if the options allow recovery and the file can
    /// be scanned. After an error that is not damage, the next call scans again.
    fn block_index_scan(&self) -> Result<Option<&Scan>> {
        if !self.may_recover {
            return Ok(None);
        }
        let _one = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if self.block_index_scan.get().is_none() {
            let end = self.commit.as_ref().map_or(self.window.file_len(), |(_, end)| *end);
            let _ = self.block_index_scan.set(undamaged(Scan::run(&self.window, end, self.memory))?);
        }
        Ok(self.block_index_scan.get().and_then(Option::as_ref))
    }

    /// Returns the numbers of the entries below `directory`, without the directory itself.
    fn below_directory(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let range = self.subtree(directory)?;
        let first = if directory.is_some() { (range.start + 1).min(range.end) } else { range.start };
        Ok(first..range.end)
    }
}

impl Archive for NraReader {
    fn keyring(&self) -> Option<&Keyring> {
        self.window.decryptor().map(decrypt::FrameDecryptor::keyring)
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
        self.recovered || self.recovered_keys || matches!(self.block_index_scan.get(), Some(Some(_)))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.info.remarks.clone();
        if let (Some(_), Some(Some(scan))) = (&self.commit, self.block_index_scan.get()) {
            remarks.push("a page of the entry tree is damaged; the entries below it were found in block indexes".into());
            remarks.extend(open::former_names(scan));
        }
        remarks.extend(self.superblock_remark());
        remarks
    }

    fn commits(&self) -> Box<dyn Iterator<Item = Result<CommitInfo>> + Send + '_> {
        match &self.commit {
            Some((commit, end)) => Box::new(history::describe(&self.window, commit, *end)),
            None => Box::new(std::iter::empty()),
        }
    }

    fn entry(&self, number: u64) -> Result<Entry> {
        let none = || Error::usage(format!("there is no entry number {number}; the archive has {}", self.info.entries));
        if number >= self.info.entries {
            return Err(none());
        }
        let position = self.leaf_at(number)?;
        let entry = position.leaf().entries().get(position.index(number)).cloned();
        entry.ok_or_else(|| position.shortage().unwrap_or_else(none))
    }

    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>> {
        if self.info.entries == 0 {
            return Ok(None);
        }
        let (position, index) = self.position(path)?;
        match position.leaf().entries().get(index).filter(|entry| entry.path.as_bytes() == path) {
            Some(entry) => Ok(Some((position.number(index), entry.clone()))),
            // The entry may be one of those lost to damage.
            None => position.shortage().map_or(Ok(None), Err),
        }
    }

    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        let Some(path) = directory else { return Ok(0..self.info.entries) };
        let Some((first, entry)) = self.find(path)? else { return Ok(0..0) };
        let end = if entry.kind == Kind::Directory { self.lower_bound(&after_subtree(path))? } else { first + 1 };
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
        match &self.commit {
            Some((commit, _)) if number < self.info.entries && !self.is_index_damaged() => {
                self.pages_from(number, commit.archive_id)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        Box::new(match self.below_directory(directory) {
            Ok(range) => Children::new(self, directory, range.start, range.end),
            Err(error) => Children::failed(self, error),
        })
    }

    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_content(entry, offset, buffer)
    }

    fn with_range(&self, entry: &Entry, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()> {
        self.visit(entry, range, access, sink)
    }

    fn with_content(&self, entry: &Entry, access: Access, sink: ContentSink<'_>) -> Result<()> {
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
