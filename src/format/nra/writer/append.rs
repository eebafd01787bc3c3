//! Changing an archive that is there: what comes and what goes, on top of the state that is appended to.
//!
//! Spec: nra.md, section 17.

use crate::content::HasContent as _;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::content::Content;
use crate::reader::{BaseState, NraReader};
use crate::records;
use crate::writer::index::{Source, weight};
use crate::writer::output::Output;
use crate::writer::pieces::{PieceId, RunId};
use crate::writer::{EntryId, MAX_RECORD, StoreEnd, Writer, WriterOptions, refused};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::checksum::content_checksum;
use nra_core::codec::Codec;
use nra_core::crypt::Keyring;
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::path::{EntryPath, Quoted};
use nra_core::source::Store;

/// The state that is appended to.
pub(super) struct Base {
    pub reader: Arc<NraReader>,
    pub state: BaseState,
    pub store: Arc<dyn Store>,
    /// Attributes of the archive there.
    pub attributes: Vec<Attribute>,
    pub changes: Changes,
    /// Tells the end of the file that there is a commit.
    pub kept: Arc<AtomicBool>,
}

/// What goes, and what of the new entries holds.
#[derive(Default)]
pub(super) struct Changes {
    /// Paths of the base that are removed with all below them.
    pub cuts: BTreeSet<EntryPath>,
    /// The new entry of each path, directories above included; `None` until something is asked of the state so far.
    latest: Option<BTreeMap<EntryPath, EntryId>>,
    /// Entries that are in there, or were.
    entered: usize,
    /// A commit is made even if nothing else changes.
    pub forced: bool,
}

/// An entry of the state so far.
enum Now {
    /// It was added.
    New(EntryId),
    /// It is in the base.
    Old(Box<Entry>),
}

impl Changes {
    /// Returns the new entries that are in the state so far.
    pub fn added(&self) -> impl Iterator<Item = (&EntryPath, EntryId)> {
        self.latest.iter().flatten().map(|(path, &id)| (path, id))
    }
}

/// Says whether a path of the base is removed.
pub(super) fn is_cut(cuts: &BTreeSet<EntryPath>, path: &EntryPath) -> bool {
    !cuts.is_empty() && (cuts.contains(path) || path.above().any(|above| cuts.contains(&above)))
}

impl Base {
    /// Says whether the base has a directory of this path that is not removed.
    pub fn has_directory(&self, path: &EntryPath) -> Result<bool> {
        let found = if is_cut(&self.changes.cuts, path) { None } else { self.reader.find(path.as_bytes())? };
        Ok(found.is_some_and(|(_, entry)| entry.kind == Kind::Directory))
    }
}

impl Writer<StoreEnd> {
    /// Begins a commit on top of the newest one of the archive in `store`: a new state made of the present one, of what is added
    /// from here on, and without what is removed. Until [`Writer::finish`] has returned the archive is what it was, and it stays so
    /// if the writer is dropped; readers are not disturbed. A new entry takes the place of one with the same path; if it is no
    /// directory, also of all that lies below that, and if it lies below what is no directory, of that.
    ///
    /// Attributes in the options are added to those of the archive, of which they replace those of the same name. A commit without
    /// changes is not written.
    ///
    /// An append that did not finish is cut off when something is written; one that did finish and only lost its tail gets it back.
    ///
    /// # Errors
    ///
    /// `Usage` for options that make no sense, `Unsupported` for a file that is no NRA 5 archive or has features that this version
    /// does not know, `KeyNeeded` and `WrongKey` for an encrypted one without its keys in the options, `Corrupt` when head or commit
    /// are damaged.
    pub fn append(store: Arc<dyn Store>, mut options: WriterOptions) -> Result<Self> {
        options.check()?;
        let source: Arc<dyn nra_core::source::ReadAt> = Arc::new(Arc::clone(&store));
        // A reader keeps that part of its memory for pages and directories; content is hardly read.
        let (reader, state) = NraReader::base(source, options.memory_bytes, options.encryption.take())?;
        options.share_memory();
        let kept = Arc::new(AtomicBool::new(false));
        let end = StoreEnd::new(Arc::clone(&store), &state, Arc::clone(&kept));
        let attributes = reader.info().attributes.clone();
        let given = std::mem::take(&mut options.attributes);
        options.attributes = attributes.clone();
        given.into_iter().for_each(|attribute| attribute.insert_into(&mut options.attributes));
        options.check()?;
        let number = state.commit.number.checked_add(1);
        let number = number.ok_or_else(|| Error::corrupt("commit", state.place.offset, "no number is left for a next one"))?;
        // The keys as the file has them now: another writer may have changed them since the caller unlocked it.
        let output = Output::new(end, state.end, number, reader.keyring().cloned())?;
        let base = Base { reader: Arc::new(reader), state, store, attributes, changes: Changes::default(), kept };
        Self::with_output(output, options, Some(base))
    }
}

impl<W: Write + Send> Writer<W> {
    /// Returns the archive as it was before the first change; `None` for a new one.
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
    /// `Limit` when it is too long.
    pub fn set_message(&mut self, message: String) -> Result<()> {
        let mut options = WriterOptions { message, ..self.options.clone() };
        options.check()?;
        self.options = options;
        Ok(())
    }

    /// Returns the attributes that the archive will have.
    pub fn attributes(&self) -> &[Attribute] {
        &self.options.attributes
    }

    /// Sets all attributes of the archive.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for attributes that the format can't hold.
    pub fn set_attributes(&mut self, attributes: Vec<Attribute>) -> Result<()> {
        let mut options = WriterOptions { attributes, ..self.options.clone() };
        options.check()?;
        self.options = options;
        Ok(())
    }

    /// Changes the keys of an encrypted archive: the commit will have those that `change` leaves. The archive key stays, so nothing
    /// is encrypted again; earlier key frames stay in the file too, until it is written anew.
    ///
    /// # Errors
    ///
    /// `Usage` when the archive is not encrypted or new; what `change` gives.
    pub fn change_keys(&mut self, change: impl FnOnce(&mut Keyring) -> Result<()>) -> Result<()> {
        let Some(base) = &mut self.base else { return Err(no_base()) };
        let not_encrypted = || Error::Usage { detail: "the archive is not encrypted".into() };
        change(self.placing.output.keyring().ok_or_else(not_encrypted)?)?;
        base.changes.forced = true;
        Ok(())
    }

    /// Makes a commit even if nothing changes: whoever makes commits again counts on their number.
    pub(crate) fn force_commit(&mut self) {
        if let Some(base) = &mut self.base {
            base.changes.forced = true;
        }
    }

    /// Removes the entry at `path`, with all below it if it is a directory.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none; `Usage` for a new archive; what reading the base gives.
    pub fn remove(&mut self, path: &EntryPath) -> Result<()> {
        self.settle_state()?;
        let new: Vec<EntryId> = self.new_at(path).into_iter().map(|(_, id)| id).collect();
        let old = self.old_at(path)?.is_some();
        if !old && new.is_empty() {
            return Err(not_found(path));
        }
        new.into_iter().for_each(|id| self.drop_new(id));
        if old {
            self.changes()?.cuts.insert(path.clone());
        }
        Ok(())
    }

    /// Gives the entry at `from`, and all below it, a path at `to`, where nothing may be. Directories above it are added as needed.
    ///
    /// # Errors
    ///
    /// `NotFound` when nothing is at `from`; `Usage` when something is at `to` or it lies below `from` or below what is no
    /// directory, and for a new archive; `Limit` for a path that gets too long; what reading the base gives. Nothing is changed then.
    pub fn rename(&mut self, from: &EntryPath, to: &EntryPath) -> Result<()> {
        self.settle_state()?;
        let moved = self.subtree(from)?;
        if moved.is_empty() {
            return Err(not_found(from));
        }
        let refuse = |why: String| Err(Error::Usage { detail: format!("{from} cannot become {to}: {why}") });
        if to == from {
            return refuse("that is its path already".into());
        }
        if to.is_below(from) {
            return refuse("that lies below it".into());
        }
        if self.current(to)?.is_some() {
            return refuse("that exists".into());
        }
        for above in to.above() {
            if let Some(now) = self.current(&above)? {
                if self.entry_of(&now).kind != Kind::Directory {
                    return refuse(format!("{above} is no directory"));
                }
                break;
            }
        }
        let mut renamed = Vec::with_capacity(moved.len());
        for now in moved {
            let mut entry = self.entry_of(&now).clone();
            let path = [to.as_bytes(), &entry.path.as_bytes()[from.as_bytes().len()..]].concat();
            entry.path = EntryPath::new(path).map_err(|error| Error::Usage {
                detail: format!("{} cannot go below {to}: {error}", Quoted::new(entry.path.as_bytes())),
            })?;
            check_record(&entry)?;
            renamed.push((now, entry));
        }
        self.remove(from)?;
        renamed.into_iter().try_for_each(|(now, entry)| self.put(&now, entry).map(drop))
    }

    /// Changes metadata and time of the entry at `path`; what `change` does to other fields is ignored. The entry leaves its
    /// link group, if it has one: its other names stay as they are.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none; `Usage` for values that the format can't hold, and for a new archive; what reading the base gives.
    pub fn change(&mut self, path: &EntryPath, change: impl FnOnce(&mut Entry)) -> Result<EntryId> {
        self.settle_state()?;
        let now = self.current(path)?.ok_or_else(|| not_found(path))?;
        let mut entry = self.entry_of(&now).clone();
        let mut wanted = entry.clone();
        change(&mut wanted);
        if (&wanted.metadata, wanted.modified) != (&entry.metadata, entry.modified) {
            (entry.metadata, entry.modified, entry.implied) = (wanted.metadata, wanted.modified, false);
            entry.link_group = 0;
        }
        check_record(&entry)?;
        self.put(&now, entry)
    }

    /// Names the entry at `path` of the state so far, so that a hard link to it can be added.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none; `Usage` for a new archive; what reading the base gives.
    pub fn keep(&mut self, path: &EntryPath) -> Result<EntryId> {
        self.settle_state()?;
        match self.current(path)?.ok_or_else(|| not_found(path))? {
            Now::New(id) => Ok(id),
            Now::Old(entry) => self.put(&Now::Old(entry.clone()), *entry),
        }
    }

    /// Opens an earlier commit of the archive that is changed.
    ///
    /// # Errors
    ///
    /// `Usage` when there is no such commit, and for a new archive; what opening gives.
    pub(crate) fn earlier(&self, number: u64) -> Result<NraReader> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        // A share of the memory that is left for compressing: what comes back is not compressed again.
        let cache_bytes = self.options.memory_bytes / 4;
        let options = OpenOptions { commit: Some(number), recover: false, cache_bytes, ..OpenOptions::default() };
        NraReader::open_unlocked(Arc::new(Arc::clone(&base.store)), &options, base.reader.keyring())
    }

    /// Puts an entry of an earlier commit of this archive back where it was; its content is in the file, and its link group holds on.
    pub(crate) fn put_back(&mut self, entry: Entry) -> Result<EntryId> {
        self.settle_state()?;
        let group = entry.link_group;
        self.insert_in_group(entry, Source::Settled, [0; 3], group)
    }

    /// Returns the piece of the base with this digest, if there is one.
    pub(super) fn held(&mut self, bytes: &[u8], digest: Digest) -> Result<Option<PieceId>> {
        let Some(base) = &self.base else { return Ok(None) };
        let held = base.reader.find_piece(&base.state.commit.runs, &digest)?;
        let Some(held) = held.filter(|held| usize::try_from(held.raw_len) == Ok(bytes.len())) else { return Ok(None) };
        let checksum = if held.codec == Codec::None { content_checksum(bytes) } else { 0 };
        self.index.hold(digest, held, checksum).map(Some)
    }

    /// Makes sure that the state so far can be asked for.
    pub(super) fn settle_state(&mut self) -> Result<()> {
        if self.current.is_some() {
            return Err(Error::Usage { detail: "the archive was to be changed before the file that was begun has ended".into() });
        }
        self.changes()?.latest.get_or_insert_default();
        self.enter_new()
    }

    /// Brings the state so far up to what was added, in the order in which it came, if it was asked for before.
    pub(super) fn enter_new(&mut self) -> Result<()> {
        if self.latest().is_none() {
            return Ok(());
        }
        while let number = self.changes()?.entered
            && number < self.index.entries.len()
        {
            self.changes()?.entered += 1;
            if !self.index.entries[number].gone {
                self.enter(EntryId::new(number)?)?;
            }
        }
        Ok(())
    }

    /// Enters a new entry: it takes the place of one with its path, and of all below that if it is no directory.
    fn enter(&mut self, id: EntryId) -> Result<()> {
        let entry = &self.index.entry(id).entry;
        let (path, is_directory) = (entry.path.clone(), entry.kind == Kind::Directory);
        for (at, earlier) in self.new_at(&path) {
            if earlier != id && (at == path || !is_directory) {
                self.supersede(earlier)?;
            }
        }
        for directory in path.above() {
            match self.latest().and_then(|latest| latest.get(&directory)).copied() {
                Some(there) if self.index.entry(there).entry.kind == Kind::Directory => break,
                Some(file) => self.supersede(file)?,
                None if self.old_at(&directory)?.is_some_and(|old| old.kind == Kind::Directory) => break,
                None => {}
            }
            let mut entry = Entry::new(directory.clone(), Kind::Directory);
            entry.implied = true;
            let implied = self.insert_in_group(entry, Source::Settled, [0; 3], 0)?;
            self.set_latest(directory, implied)?;
        }
        self.set_latest(path, id)
    }

    fn set_latest(&mut self, path: EntryPath, id: EntryId) -> Result<()> {
        let earlier = self.changes()?.latest.get_or_insert_default().insert(path, id);
        debug_assert!(earlier.is_none_or(|earlier| earlier == id), "it was dropped before");
        Ok(())
    }

    /// Drops an entry in whose place another one comes. What it hid of the base stays away.
    fn supersede(&mut self, id: EntryId) -> Result<()> {
        let entry = &self.index.entry(id).entry;
        if entry.kind != Kind::Directory {
            let path = entry.path.clone();
            self.changes()?.cuts.insert(path);
        }
        self.drop_new(id);
        Ok(())
    }

    fn changes(&mut self) -> Result<&mut Changes> {
        self.base.as_mut().map(|base| &mut base.changes).ok_or_else(no_base)
    }

    fn latest(&self) -> Option<&BTreeMap<EntryPath, EntryId>> {
        self.base.as_ref()?.changes.latest.as_ref()
    }

    /// Returns the new entries at a path and below it.
    fn new_at(&self, path: &EntryPath) -> Vec<(EntryPath, EntryId)> {
        let Some(latest) = self.latest() else { return Vec::new() };
        let range = latest.range(path.clone()..).take_while(|(at, _)| *at == path || at.is_below(path));
        range.map(|(path, &id)| (path.clone(), id)).collect()
    }

    /// Says whether a new entry hides what the base has at a path: one that is no directory hides what is below it.
    fn is_hidden(&self, path: &EntryPath) -> bool {
        let Some(latest) = self.latest().filter(|latest| !latest.is_empty()) else { return false };
        let file = |above: EntryPath| latest.get(&above).is_some_and(|&id| self.index.entry(id).entry.kind != Kind::Directory);
        path.above().any(file)
    }

    /// Returns what the base has at a path, if it is neither removed nor hidden; it may be replaced.
    fn old_at(&self, path: &EntryPath) -> Result<Option<Entry>> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        if is_cut(&base.changes.cuts, path) || self.is_hidden(path) {
            return Ok(None);
        }
        Ok(base.reader.find(path.as_bytes())?.map(|(_, entry)| entry))
    }

    /// Returns the entry at a path of the state so far.
    fn current(&self, path: &EntryPath) -> Result<Option<Now>> {
        match self.latest().and_then(|latest| latest.get(path)) {
            Some(&id) => Ok(Some(Now::New(id))),
            None => Ok(self.old_at(path)?.map(|entry| Now::Old(Box::new(entry)))),
        }
    }

    /// Returns the entry at a path of the state so far and all below it, directories in front of what they hold.
    fn subtree(&self, path: &EntryPath) -> Result<Vec<Now>> {
        let base = self.base.as_ref().ok_or_else(no_base)?;
        let new = self.new_at(path);
        let mut found: Vec<Now> = Vec::new();
        for entry in base.reader.entries(base.reader.subtree(Some(path.as_bytes()))?) {
            let entry = entry?;
            let replaced = self.latest().is_some_and(|latest| latest.contains_key(&entry.path));
            if !replaced && !is_cut(&base.changes.cuts, &entry.path) && !self.is_hidden(&entry.path) {
                found.push(Now::Old(Box::new(entry)));
            }
        }
        found.extend(new.into_iter().map(|(_, id)| Now::New(id)));
        Ok(found)
    }

    fn entry_of<'a>(&'a self, now: &'a Now) -> &'a Entry {
        match now {
            Now::New(id) => &self.index.entry(*id).entry,
            Now::Old(entry) => entry,
        }
    }

    /// Adds an entry with the content of one that is there.
    fn put(&mut self, now: &Now, mut entry: Entry) -> Result<EntryId> {
        match now {
            Now::Old(_) => {
                let group = entry.link_group;
                self.insert_in_group(entry, Source::Settled, [0; 3], group)
            }
            Now::New(id) => {
                let added = self.index.entry(*id);
                let group = if entry.link_group == 0 { 0 } else { added.group };
                let touched: [RunId; 3] = added.touched;
                let source = match added.source {
                    Source::Settled => {
                        *entry.content_mut() = added.entry.content().clone();
                        Source::Settled
                    }
                    _ => Source::Same(*id),
                };
                self.insert_in_group(entry, source, touched, group)
            }
        }
    }

    /// Takes a new entry off the list again.
    fn drop_new(&mut self, id: EntryId) {
        self.index.entry_mut(id).gone = true;
        self.index.leave_group(id);
        let path = self.index.entry(id).entry.path.clone();
        if let Some(latest) = self.base.as_mut().and_then(|base| base.changes.latest.as_mut()) {
            latest.remove(&path);
        }
    }
}

/// Refuses an entry whose record the format can't hold.
fn check_record(entry: &Entry) -> Result<()> {
    // Its content is there already, or on its way.
    let mut bare = Entry { size: 0, ..entry.clone() };
    *bare.content_mut() = Content::None;
    records::check(&bare).map_err(|detail| refused(entry, &detail))?;
    let found = weight(entry, 0);
    if found > MAX_RECORD {
        return Err(Error::Limit { what: "length of a record", found: found as u64, limit: MAX_RECORD as u64 });
    }
    Ok(())
}

fn not_found(path: &EntryPath) -> Error {
    Error::NotFound { path: path.as_bytes().to_vec() }
}

pub(crate) fn no_base() -> Error {
    Error::Usage { detail: "entries are removed, renamed and changed in an archive that is there, not in a new one".into() }
}
