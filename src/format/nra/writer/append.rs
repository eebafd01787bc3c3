//! Changes to an existing archive, on top of the base commit.
//!
//! Spec: nra.md, section 17.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::content::{Content, EntryContent as _};
use crate::reader::{BaseCommit, NraReader};
use crate::records;
use crate::writer::chunk_table::{BufferId, ChunkId};
use crate::writer::index::{ContentSource, weight};
use crate::writer::output::Output;
use crate::writer::{AppendDestination, EntryId, MAX_RECORD, Writer, WriterOptions, cannot_store};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::checksum::content_checksum;
use nra_core::codec::Codec;
use nra_core::crypt::Keyring;
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::limits;
use nra_core::path::{EntryPath, Quoted};
use nra_core::source::Store;

/// The base: the commit that is appended to.
pub(super) struct Base {
    pub reader: Arc<NraReader>,
    /// The newest commit, on which the next one is based.
    pub newest: BaseCommit,
    pub store: Arc<dyn Store>,
    /// Attributes of the base.
    pub attributes: Vec<Attribute>,
    pub changes: Changes,
    /// Tells the destination that the commit is complete.
    pub committed: Arc<AtomicBool>,
}

/// Removals, and the new entries that are in effect.
#[derive(Default)]
pub(super) struct Changes {
    /// Paths of the base that are removed with everything below them.
    pub removals: BTreeSet<EntryPath>,
    /// The new entry at each path, including implied directories; `None` until the current entries
    /// are queried.
    newest_by_path: Option<BTreeMap<EntryPath, EntryId>>,
    /// Number of new entries that were applied to `newest_by_path`.
    applied: usize,
    /// Whether a commit is written even without changes.
    pub forced: bool,
}

/// A current entry: one of the next commit as it is so far.
enum CurrentEntry {
    New(EntryId),
    Base(Box<Entry>),
}

impl Changes {
    /// Returns the new entries that are in effect.
    pub fn added(&self) -> impl Iterator<Item = (&EntryPath, EntryId)> {
        self.newest_by_path.iter().flatten().map(|(path, &id)| (path, id))
    }
}

/// Returns whether a path of the base is removed.
pub(super) fn is_removed(removals: &BTreeSet<EntryPath>, path: &EntryPath) -> bool {
    !removals.is_empty() && (removals.contains(path) || path.above().any(|above| removals.contains(&above)))
}

impl Base {
    /// Returns whether the base has a directory at this path that is not removed.
    pub fn has_directory(&self, path: &EntryPath) -> Result<bool> {
        let found = if is_removed(&self.changes.removals, path) { None } else { self.reader.find(path.as_bytes())? };
        Ok(found.is_some_and(|(_, entry)| entry.kind == Kind::Directory))
    }
}

impl Writer<AppendDestination> {
    /// Begins a commit on top of the newest one of the archive in `store`.
    ///
    /// The archive stays unchanged until [`Writer::finish`] returns, and for good if the writer is
    /// dropped. Readers are not disturbed. A new entry replaces an entry with the same path. If it
    /// is not a directory, it also replaces everything below its path. An entry above it that is
    /// not a directory is replaced, too.
    ///
    /// Attributes in the options are added to those of the archive and replace attributes of the
    /// same name. A commit without changes is not written.
    ///
    /// The first write cuts off an unfinished append. A finished append that lost its footer gets
    /// it back.
    ///
    /// # Errors
    ///
    /// `Usage` for inconsistent options; `Unsupported` if the file is not an NRA 5 archive or has
    /// unknown features; `KeyNeeded` or `WrongKey` if the options lack the keys of an encrypted
    /// archive; `Corrupt` if superblock or commit are damaged.
    pub fn append(store: Arc<dyn Store>, mut options: WriterOptions) -> Result<Self> {
        options.check()?;
        let source: Arc<dyn nra_core::source::ReadAt> = Arc::new(Arc::clone(&store));
        // The reader keeps that part of its memory for pages and block indexes. Content is rarely
        // read.
        let (reader, newest) = NraReader::base(source, options.memory_bytes, options.encryption.take())?;
        options.share_memory();
        let committed = Arc::new(AtomicBool::new(false));
        let end = AppendDestination::new(Arc::clone(&store), &newest, Arc::clone(&committed));
        let attributes = reader.info().attributes.clone();
        let given = std::mem::take(&mut options.attributes);
        options.attributes = attributes.clone();
        given.into_iter().for_each(|attribute| attribute.insert_into(&mut options.attributes));
        options.check()?;
        let number = newest.commit.number.checked_add(1);
        let number = number.ok_or_else(|| Error::corrupt("commit", newest.commit_ref.offset, "no commit number is left"))?;
        // The current keys of the file: another writer may have changed them since the caller
        // unlocked it.
        let output = Output::new(end, newest.end, number, reader.keyring().cloned())?;
        let base = Base { reader: Arc::new(reader), newest, store, attributes, changes: Changes::default(), committed };
        Self::with_output(output, options, Some(base))
    }
}

impl<W: Write + Send> Writer<W> {
    /// Returns the archive as it was before the first change, or `None` for a new archive.
    pub fn base(&self) -> Option<&Arc<NraReader>> {
        self.base.as_ref().map(|base| &base.reader)
    }

    /// Returns the message that the commit will have.
    pub fn message(&self) -> &str {
        &self.options.message
    }

    /// Sets the message of the commit.
    ///
    /// # Errors
    ///
    /// `Limit` if it is too long.
    pub fn set_message(&mut self, message: String) -> Result<()> {
        self.set_options(WriterOptions { message, ..self.options.clone() })
    }

    /// Returns the attributes that the archive will have.
    pub fn attributes(&self) -> &[Attribute] {
        &self.options.attributes
    }

    /// Sets all attributes of the archive.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for attributes that the format does not allow.
    pub fn set_attributes(&mut self, attributes: Vec<Attribute>) -> Result<()> {
        self.set_options(WriterOptions { attributes, ..self.options.clone() })
    }

    fn set_options(&mut self, mut options: WriterOptions) -> Result<()> {
        options.check()?;
        self.options = options;
        Ok(())
    }

    /// Changes the keys of an encrypted archive: the commit will have the keys that `change`
    /// leaves. The archive key stays the same, so nothing is encrypted again. Earlier key frames
    /// stay in the file until it is compacted.
    ///
    /// # Errors
    ///
    /// `Usage` if the archive is new or not encrypted; errors of `change`.
    pub fn change_keys(&mut self, change: impl FnOnce(&mut Keyring) -> Result<()>) -> Result<()> {
        let Some(base) = &mut self.base else { return Err(no_base()) };
        let not_encrypted = || Error::usage("the archive is not encrypted");
        change(self.block_writer.output.keyring().ok_or_else(not_encrypted)?)?;
        base.changes.forced = true;
        Ok(())
    }

    /// Writes a commit even without changes. Compaction relies on the number of commits.
    pub(crate) fn force_commit(&mut self) {
        if let Some(base) = &mut self.base {
            base.changes.forced = true;
        }
    }

    /// Removes the entry at `path`, and everything below it.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry; `Usage` for a new archive; errors of reading the base.
    pub fn remove(&mut self, path: &EntryPath) -> Result<()> {
        self.track_changes()?;
        let new: Vec<EntryId> = self.new_entries_at(path).into_iter().map(|(_, id)| id).collect();
        let old = self.base_entry(path)?.is_some();
        if !old && new.is_empty() {
            return Err(not_found(path));
        }
        new.into_iter().for_each(|id| self.drop_new_entry(id));
        if old {
            self.changes()?.removals.insert(path.clone());
        }
        Ok(())
    }

    /// Renames the entry at `from`, with everything below it, to `to`. Nothing may exist at `to`;
    /// its parent directories are added as needed.
    ///
    /// # Errors
    ///
    /// `NotFound` if `from` does not exist. `Usage` if `to` exists, lies below `from` or below an
    /// entry that is not a directory, and for a new archive. `Limit` if a path becomes too long.
    /// Errors of reading the base. After an error, nothing has changed.
    pub fn rename(&mut self, from: &EntryPath, to: &EntryPath) -> Result<()> {
        self.track_changes()?;
        let moved = self.subtree(from)?;
        if moved.is_empty() {
            return Err(not_found(from));
        }
        let refuse = |why: String| Err(Error::usage(format!("{from} cannot become {to}: {why}")));
        if to == from {
            return refuse("that is its path".into());
        }
        if to.is_below(from) {
            return refuse("that lies below it".into());
        }
        if self.current_entry_at(to)?.is_some() {
            return refuse("that exists".into());
        }
        for above in to.above() {
            if let Some(current) = self.current_entry_at(&above)? {
                if self.entry_of(&current).kind != Kind::Directory {
                    return refuse(format!("{above} is not a directory"));
                }
                break;
            }
        }
        let mut renamed = Vec::with_capacity(moved.len());
        for current in moved {
            let mut entry = self.entry_of(&current).clone();
            let path = [to.as_bytes(), &entry.path.as_bytes()[from.as_bytes().len()..]].concat();
            entry.path = EntryPath::new(path).map_err(|error| {
                Error::usage(format!("{} cannot be moved below {to}: {error}", Quoted::new(entry.path.as_bytes())))
            })?;
            check_record(&entry)?;
            renamed.push((current, entry));
        }
        self.remove(from)?;
        renamed.into_iter().try_for_each(|(current, entry)| self.put(&current, entry).map(drop))
    }

    /// Changes metadata and time of the entry at `path`. Changes of other fields are ignored. The
    /// entry leaves its link group; its other names stay unchanged.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry; `Usage` for values that the format does not allow, and
    /// for a new archive; errors of reading the base.
    pub fn change(&mut self, path: &EntryPath, change: impl FnOnce(&mut Entry)) -> Result<EntryId> {
        self.track_changes()?;
        let current = self.current_entry_at(path)?.ok_or_else(|| not_found(path))?;
        let mut entry = self.entry_of(&current).clone();
        let mut wanted = entry.clone();
        change(&mut wanted);
        if (&wanted.metadata, wanted.modified) != (&entry.metadata, entry.modified) {
            (entry.metadata, entry.modified, entry.implied) = (wanted.metadata, wanted.modified, false);
            entry.link_group = 0;
        }
        check_record(&entry)?;
        self.put(&current, entry)
    }

    /// Returns the ID of the entry at `path`, so that hard links to it can be added.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such entry; `Usage` for a new archive; errors of reading the base.
    pub fn reference_entry(&mut self, path: &EntryPath) -> Result<EntryId> {
        self.track_changes()?;
        match self.current_entry_at(path)?.ok_or_else(|| not_found(path))? {
            CurrentEntry::New(id) => Ok(id),
            CurrentEntry::Base(entry) => self.put(&CurrentEntry::Base(entry.clone()), *entry),
        }
    }

    /// Opens an earlier commit of the base archive.
    pub(crate) fn open_earlier_commit(&self, number: u64) -> Result<NraReader> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        // Part of the memory for compression: restored content is not compressed again.
        let cache_bytes = self.options.memory_bytes / 4;
        let options = OpenOptions { commit: Some(number), recover: false, cache_bytes, ..OpenOptions::default() };
        NraReader::open_unlocked(Arc::new(Arc::clone(&base.store)), &options, base.reader.keyring())
    }

    /// Restores an entry of an earlier commit. Its content is in the file, and it keeps its link
    /// group.
    pub(crate) fn restore_entry(&mut self, entry: Entry) -> Result<EntryId> {
        self.track_changes()?;
        let group = entry.link_group;
        self.insert_in_group(entry, ContentSource::Resolved, [0; 3], group)
    }

    pub(super) fn find_in_base(&mut self, bytes: &[u8], digest: Digest) -> Result<Option<ChunkId>> {
        let Some(base) = &self.base else { return Ok(None) };
        let found = base.reader.find_chunk(&base.newest.commit.runs, &digest)?;
        let Some(found) = found.filter(|found| usize::try_from(found.raw_len) == Ok(bytes.len())) else {
            return Ok(None);
        };
        let checksum = if found.codec == Codec::None { content_checksum(bytes) } else { 0 };
        self.index.add_base_chunk(digest, found, checksum).map(Some)
    }

    /// Ensures that the current entries can be queried.
    pub(super) fn track_changes(&mut self) -> Result<()> {
        if self.open_file.is_some() {
            return Err(Error::usage("the archive was changed before the open file was ended"));
        }
        self.changes()?.newest_by_path.get_or_insert_default();
        self.apply_new()
    }

    /// Applies new entries in the order of arrival, if current entries were queried before.
    pub(super) fn apply_new(&mut self) -> Result<()> {
        if self.newest_by_path().is_none() {
            return Ok(());
        }
        while let number = self.changes()?.applied
            && number < self.index.entries.len()
        {
            self.changes()?.applied += 1;
            if !self.index.entries[number].removed {
                self.apply(EntryId::new(number)?)?;
            }
        }
        Ok(())
    }

    /// Applies a new entry: it replaces one with its path, and everything below its path unless it
    /// is a directory.
    fn apply(&mut self, id: EntryId) -> Result<()> {
        let entry = &self.index.entry(id).entry;
        let (path, is_directory) = (entry.path.clone(), entry.kind == Kind::Directory);
        for (at, earlier) in self.new_entries_at(&path) {
            if earlier != id && (at == path || !is_directory) {
                self.replace(earlier)?;
            }
        }
        for directory in path.above() {
            match self.newest_by_path().and_then(|newest| newest.get(&directory)).copied() {
                Some(there) if self.index.entry(there).entry.kind == Kind::Directory => break,
                Some(file) => self.replace(file)?,
                None if self.base_entry(&directory)?.is_some_and(|old| old.kind == Kind::Directory) => break,
                None => {}
            }
            let mut entry = Entry::new(directory.clone(), Kind::Directory);
            entry.implied = true;
            let implied = self.insert_in_group(entry, ContentSource::Resolved, [0; 3], 0)?;
            self.set_latest(directory, implied)?;
        }
        self.set_latest(path, id)
    }

    fn set_latest(&mut self, path: EntryPath, id: EntryId) -> Result<()> {
        let earlier = self.changes()?.newest_by_path.get_or_insert_default().insert(path, id);
        debug_assert!(earlier.is_none_or(|earlier| earlier == id), "the earlier entry was dropped");
        Ok(())
    }

    /// Drops a new entry that another one replaces. Entries of the base that it hid stay removed.
    fn replace(&mut self, id: EntryId) -> Result<()> {
        let entry = &self.index.entry(id).entry;
        if entry.kind != Kind::Directory {
            let path = entry.path.clone();
            self.changes()?.removals.insert(path);
        }
        self.drop_new_entry(id);
        Ok(())
    }

    fn changes(&mut self) -> Result<&mut Changes> {
        self.base.as_mut().map(|base| &mut base.changes).ok_or_else(no_base)
    }

    fn newest_by_path(&self) -> Option<&BTreeMap<EntryPath, EntryId>> {
        self.base.as_ref()?.changes.newest_by_path.as_ref()
    }

    /// Returns the new entries at a path and below it.
    fn new_entries_at(&self, path: &EntryPath) -> Vec<(EntryPath, EntryId)> {
        let Some(newest) = self.newest_by_path() else { return Vec::new() };
        let range = newest.range(path.clone()..).take_while(|(at, _)| *at == path || at.is_below(path));
        range.map(|(path, &id)| (path.clone(), id)).collect()
    }

    /// Returns whether a new entry that is not a directory hides this path of the base.
    fn is_hidden(&self, path: &EntryPath) -> bool {
        let Some(newest) = self.newest_by_path().filter(|newest| !newest.is_empty()) else {
            return false;
        };
        let file = |above: EntryPath| newest.get(&above).is_some_and(|&id| self.index.entry(id).entry.kind != Kind::Directory);
        path.above().any(file)
    }

    /// Returns the entry of the base at a path, unless it is removed or hidden. A new entry may
    /// replace it.
    fn base_entry(&self, path: &EntryPath) -> Result<Option<Entry>> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        if is_removed(&base.changes.removals, path) || self.is_hidden(path) {
            return Ok(None);
        }
        Ok(base.reader.find(path.as_bytes())?.map(|(_, entry)| entry))
    }

    fn current_entry_at(&self, path: &EntryPath) -> Result<Option<CurrentEntry>> {
        match self.newest_by_path().and_then(|newest| newest.get(path)) {
            Some(&id) => Ok(Some(CurrentEntry::New(id))),
            None => Ok(self.base_entry(path)?.map(|entry| CurrentEntry::Base(Box::new(entry)))),
        }
    }

    /// Returns the current entry at a path and everything below it, parents first.
    fn subtree(&self, path: &EntryPath) -> Result<Vec<CurrentEntry>> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        let new = self.new_entries_at(path);
        let mut found: Vec<CurrentEntry> = Vec::new();
        for entry in base.reader.entries(base.reader.subtree(Some(path.as_bytes()))?) {
            let entry = entry?;
            let replaced = self.newest_by_path().is_some_and(|newest| newest.contains_key(&entry.path));
            if !replaced && !is_removed(&base.changes.removals, &entry.path) && !self.is_hidden(&entry.path) {
                found.push(CurrentEntry::Base(Box::new(entry)));
            }
        }
        found.extend(new.into_iter().map(|(_, id)| CurrentEntry::New(id)));
        Ok(found)
    }

    fn entry_of<'a>(&'a self, current: &'a CurrentEntry) -> &'a Entry {
        match current {
            CurrentEntry::New(id) => &self.index.entry(*id).entry,
            CurrentEntry::Base(entry) => entry,
        }
    }

    /// Adds an entry with the content of a current one.
    fn put(&mut self, current: &CurrentEntry, mut entry: Entry) -> Result<EntryId> {
        match current {
            CurrentEntry::Base(_) => {
                let group = entry.link_group;
                self.insert_in_group(entry, ContentSource::Resolved, [0; 3], group)
            }
            CurrentEntry::New(id) => {
                let added = self.index.entry(*id);
                let group = if entry.link_group == 0 { 0 } else { added.group };
                let buffers: [BufferId; 3] = added.buffers;
                let source = match added.source {
                    ContentSource::Resolved => {
                        *entry.content_mut() = added.entry.content().clone();
                        ContentSource::Resolved
                    }
                    _ => ContentSource::Same(*id),
                };
                self.insert_in_group(entry, source, buffers, group)
            }
        }
    }

    fn drop_new_entry(&mut self, id: EntryId) {
        self.index.entry_mut(id).removed = true;
        self.index.leave_group(id);
        let path = self.index.entry(id).entry.path.clone();
        if let Some(newest) = self.base.as_mut().and_then(|base| base.changes.newest_by_path.as_mut()) {
            newest.remove(&path);
        }
    }
}

/// Rejects an entry whose record the format does not allow.
pub(super) fn check_record(entry: &Entry) -> Result<()> {
    // The content is stored already or will be.
    let mut bare = Entry { size: 0, ..entry.clone() };
    *bare.content_mut() = Content::None;
    records::check(&bare).map_err(|detail| cannot_store(entry, &detail))?;
    limits::check("length of a record", weight(entry, 0) as u64, MAX_RECORD)
}

fn not_found(path: &EntryPath) -> Error {
    Error::NotFound { path: path.as_bytes().to_vec() }
}

pub(crate) fn no_base() -> Error {
    Error::usage("a new archive has no entries to remove, rename or change")
}
