//! An archive written anew without what no kept commit needs.
//!
//! Each kept commit is made again on top of the one before, with its time, its message and its attributes; numbers begin with 1 and the archive
//! gets an identity of its own. Blocks of which at least half is needed move as they are stored; what is needed of the others
//! is taken out and packed again. Nothing goes around damage: an archive that does not read is refused.
//!
//! Spec: nra.md, sections 7, 13 and 17.

use crate::content::HasContent as _;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use crate::changes::{Change, each_change};
use crate::content::{BlockRef, Content, FrameRef, Segment};
use crate::head::TAIL_LEN;
use crate::parts::Parts;
use crate::reader::NraReader;
use crate::writer::{Adopted, EntryId, FromStart, NewContent, Writer, WriterOptions, WriterStats};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::crypt::Keyring;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::links::{LinkGroups, LinkKey, NO_LINK};
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Monitor, Warning};
use nra_core::source::{ReadAt, Store};

/// Alignments that a moved payload keeps, the largest first.
const ALIGNMENTS: [u32; 4] = [4_096, 64, 32, 16];

/// What compacting an archive comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// Commits that are kept.
    pub commits: u64,
    /// Commits that are dropped.
    pub dropped_commits: u64,
    /// Bytes of the archive as it is.
    pub before_bytes: u64,
    /// Bytes of the new archive; of a plan those of the present one without the content that goes: what its index loses is not known before.
    pub after_bytes: u64,
    /// Blocks that move as they are.
    pub moved_blocks: u64,
    /// Blocks of which the needed part is packed again.
    pub repacked_blocks: u64,
    /// Stored bytes of content that no kept commit needs.
    pub dropped_bytes: u64,
    /// Damage that the recovery data of the archive as it is restores, in percent; `None`: it has none. The new archive gets none here.
    pub recovery_percent: Option<u32>,
    /// It is a plan: `after_bytes` is about what comes of it.
    pub estimated: bool,
}

/// Brings the entries of an archive to a new one. Blocks of which at least half is needed move as they are stored, decrypted and encrypted again where one of the
/// archives is encrypted; what is needed of the others is taken out and packed again. `narrow` may change what is recorded of an entry, not its path and content.
///
/// # Errors
///
/// `Corrupt` when something needed is damaged; what `narrow` and writing give; `Cancelled`.
pub fn copy<W: Write + Send>(
    archive: &NraReader,
    writer: &mut Writer<W>,
    narrow: &mut dyn FnMut(&mut Entry) -> Result<()>,
    monitor: &dyn Monitor,
) -> Result<()> {
    monitor.expect(Counter::Entries, archive.entry_count());
    let mut needs = Needs::default();
    let mut entries = Vec::new();
    for entry in archive.entries(0..archive.entry_count()) {
        monitor.check()?;
        let mut entry = entry?;
        narrow(&mut entry)?;
        needs.note(archive, &entry)?;
        entries.push(entry);
    }
    let (dense, _) = needs.judge(Compaction::default(), 0);
    Mover { dense, ..Mover::default() }.add(archive, entries, Names::default(), writer, monitor)
}

/// The commits that are kept, and the blocks that they need.
struct Plan {
    /// Their numbers, the oldest first. Each is opened when its turn comes, so that memory does not follow their number.
    numbers: Vec<u64>,
    /// The keys that the archive has now.
    encryption: Option<Keyring>,
    /// Offsets of the blocks that move.
    dense: HashSet<u64>,
    compaction: Compaction,
}

/// Tells what [`compact`] would do; nothing is written.
///
/// # Errors
///
/// As [`compact`].
pub fn plan(source: &Arc<dyn ReadAt>, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    Plan::make(source, keep, options, monitor).map(|plan| Compaction { estimated: true, ..plan.compaction })
}

/// Writes what the newest `keep` commits of `source` need to a new file. `open` opens it, as it is by then: empty the first time, and then once for each commit that follows.
/// When this returns all of it will survive a failing machine. Of the options those about compression and resources count, and the keys of an encrypted archive, which
/// the new one has too.
///
/// # Errors
///
/// `Usage` when no commit is to be kept, `Unsupported` for archives that are not of NRA 5, `KeyNeeded` for one that is encrypted, `Corrupt` when something needed is damaged;
/// what writing gives; `Cancelled`.
pub fn compact(
    source: &Arc<dyn ReadAt>,
    keep: u64,
    open: &dyn Fn() -> Result<Arc<dyn Store>>,
    options: &WriterOptions,
    monitor: &dyn Monitor,
) -> Result<Compaction> {
    let Plan { numbers, encryption, dense, mut compaction } = Plan::make(source, keep, options, monitor)?;
    let mut mover = Mover { dense, ..Mover::default() };
    let mut before: Option<NraReader> = None;
    for number in numbers {
        let state = open_commit(source, Some(number), options)?;
        let info = state.info();
        let mut options = options.clone();
        options.encryption.clone_from(&encryption);
        options.time = info.time;
        options.reproducible = info.time.is_none();
        options.message.clone_from(&info.message);
        let stats = match &before {
            None => {
                options.attributes.clone_from(&info.attributes);
                let store = open()?;
                let mut writer = Writer::create(FromStart::new(Arc::clone(&store)), options)?;
                let entries = state.entries(0..state.entry_count()).collect::<Result<Vec<Entry>>>()?;
                mover.add(&state, entries, Names::default(), &mut writer, monitor)?;
                let stats = writer.finish(monitor)?.1;
                store.sync()?;
                stats
            }
            Some(before) => {
                let mut writer = Writer::append(open()?, options)?;
                // One that changed the keys alone is a commit, too.
                writer.force_commit();
                writer.set_attributes(info.attributes.clone())?;
                let mut changed = Vec::new();
                let mut last: Option<EntryPath> = None;
                each_change::<Error>(before, &state, &mut |change| {
                    match change {
                        Change::Added(entry) | Change::Changed(_, entry) => changed.push(entry),
                        // With a directory goes what is below it.
                        Change::Removed(entry) if last.as_ref().is_some_and(|last| entry.path.is_below(last)) => {}
                        Change::Removed(entry) => {
                            writer.remove(&entry.path)?;
                            last = Some(entry.path);
                        }
                    }
                    monitor.check()
                })?;
                let names = Names::of_unchanged(&state, &changed, monitor)?;
                mover.add(&state, changed, names, &mut writer, monitor)?;
                writer.finish(monitor)?.1
            }
        };
        let WriterStats { entries, content_bytes, archive_bytes, .. } = stats;
        if (entries, content_bytes) != (info.entries, info.content_bytes) {
            let detail = format!("{entries} entries came of {} of commit {:?}", info.entries, info.commit);
            return Err(Error::corrupt("entry tree", 0, detail));
        }
        compaction.after_bytes = archive_bytes;
        before = Some(state);
    }
    Ok(compaction)
}

impl Plan {
    fn make(source: &Arc<dyn ReadAt>, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Self> {
        if keep == 0 {
            return Err(Error::Usage { detail: "at least one commit has to be kept".into() });
        }
        NraReader::refuse_others(Arc::clone(source))?;
        let newest = open_commit(source, None, options)?;
        refuse_later(source, &newest, options)?;
        let mut numbers = newest.commits().map(|commit| Ok(commit?.number)).collect::<Result<Vec<u64>>>()?;
        let all = numbers.len() as u64;
        numbers.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        numbers.reverse();
        let mut needs = Needs::default();
        let mut before: Option<NraReader> = None;
        for &number in &numbers {
            let state = open_commit(source, Some(number), options)?;
            monitor.expect(Counter::Entries, state.entry_count());
            match &before {
                None => {
                    for entry in state.entries(0..state.entry_count()) {
                        monitor.check()?;
                        needs.note(&state, &entry?)?;
                    }
                }
                Some(before) => each_change::<Error>(before, &state, &mut |change| match change {
                    Change::Added(entry) | Change::Changed(_, entry) => needs.note(&state, &entry),
                    Change::Removed(_) => monitor.check(),
                })?,
            }
            before = Some(state);
        }
        let commits = numbers.len() as u64;
        let stored_bytes = newest.info().stored_bytes.unwrap_or_default();
        let before_bytes = newest.info().archive_bytes;
        let recovery_percent = newest.info().recovery.map(|recovery| recovery.percent);
        let dropped_commits = all - commits;
        let compaction = Compaction { commits, dropped_commits, before_bytes, recovery_percent, ..Compaction::default() };
        let (dense, compaction) = needs.judge(compaction, stored_bytes);
        Ok(Self { numbers, encryption: newest.keyring().cloned(), dense, compaction })
    }
}

/// Refuses an archive that has a later commit than `newest`, which lost its tail: it would not be in the new archive.
fn refuse_later(source: &Arc<dyn ReadAt>, newest: &NraReader, options: &WriterOptions) -> Result<()> {
    if !newest.has_remains() {
        return Ok(());
    }
    let open = OpenOptions { cache_bytes: options.memory_bytes / 4, recover: true, ..OpenOptions::default() };
    let last = NraReader::open_unlocked(Arc::clone(source), &open, options.encryption.as_ref())?;
    match last.info().commit.filter(|&number| Some(number) > newest.info().commit) {
        Some(number) => Err(Error::corrupt("tail", source.len() - TAIL_LEN as u64, format!("that of commit {number} is lost"))),
        None => Ok(()),
    }
}

/// Opens a commit, the newest if no number is given.
fn open_commit(source: &Arc<dyn ReadAt>, commit: Option<u64>, options: &WriterOptions) -> Result<NraReader> {
    let cache_bytes = options.memory_bytes / 4;
    let open = OpenOptions { cache_bytes, recover: false, commit, ..OpenOptions::default() };
    NraReader::open_unlocked(Arc::clone(source), &open, options.encryption.as_ref())
}

/// The parts of blocks that are needed. Its size follows the archive, not the number of names that need a part.
#[derive(Default)]
struct Needs {
    /// By offset.
    blocks: BTreeMap<u64, Need>,
    /// Roots of the extent maps that were gone through.
    maps: HashSet<FrameRef>,
}

/// A block, and the parts of its payload that are needed.
struct Need {
    block: BlockRef,
    parts: Parts,
}

impl Needs {
    fn note(&mut self, state: &NraReader, entry: &Entry) -> Result<()> {
        if let Content::Map(root, _) = entry.content()
            && !self.maps.insert(*root)
        {
            return Ok(());
        }
        state.each_segment(entry, 0..entry.size, &mut |segment, _| {
            if let Segment::Data(extent) = segment {
                let block = extent.block;
                let need = self.blocks.entry(block.offset).or_insert_with(|| Need { block, parts: Parts::default() });
                let start = u64::from(extent.offset);
                need.parts.add(start, start.saturating_add(extent.len));
            }
            Ok(())
        })
    }

    /// Returns the blocks that move, and adds what becomes of the others.
    fn judge(self, mut compaction: Compaction, stored_bytes: u64) -> (HashSet<u64>, Compaction) {
        let mut dense = HashSet::new();
        let mut kept = 0u64;
        for Need { block, parts } in self.blocks.into_values() {
            let used = parts.bytes();
            if used * 2 >= u64::from(block.raw_len) {
                dense.insert(block.offset);
                compaction.moved_blocks += 1;
                kept += u64::from(block.stored_len);
            } else {
                compaction.repacked_blocks += 1;
                kept += (u128::from(block.stored_len) * u128::from(used) / u128::from(block.raw_len.max(1)))
                    .try_into()
                    .unwrap_or(u64::MAX);
            }
        }
        compaction.dropped_bytes = stored_bytes.saturating_sub(kept);
        compaction.after_bytes = compaction.before_bytes.saturating_sub(compaction.dropped_bytes);
        (dense, compaction)
    }
}

/// What further names of a file become links to, or share the content of.
struct Names {
    links: LinkGroups,
    /// Names that did not change, of link groups in which another did.
    unchanged: HashMap<LinkKey, EntryPath>,
    /// The first that was added of those that are hard links of each other.
    added: HashMap<LinkKey, EntryId>,
    /// The first that was added of each content with an extent map, and its length.
    maps: HashMap<(Content, u64), EntryId>,
}

impl Default for Names {
    fn default() -> Self {
        Self { links: LinkGroups::exact(), unchanged: HashMap::new(), added: HashMap::new(), maps: HashMap::new() }
    }
}

impl Names {
    /// Looks for the names that did not change in the link groups of those that did.
    fn of_unchanged(state: &NraReader, changed: &[Entry], monitor: &dyn Monitor) -> Result<Self> {
        let mut names = Self::default();
        let groups: HashSet<u64> = changed.iter().map(|entry| entry.link_group).filter(|&group| group != 0).collect();
        if groups.is_empty() {
            return Ok(names);
        }
        let changed: HashSet<&EntryPath> = changed.iter().map(|entry| &entry.path).collect();
        for entry in state.entries(0..state.entry_count()) {
            monitor.check()?;
            let entry = entry?;
            if !groups.contains(&entry.link_group) || changed.contains(&entry.path) {
                continue;
            }
            if let Some(key) = names.links.key(&entry) {
                names.links.differs(key);
                names.unchanged.entry(key).or_insert(entry.path);
            }
        }
        Ok(names)
    }

    /// Tells of an entry that it is no link of the others of its group. Entries come in path order.
    fn tell(&mut self, entry: &Entry, monitor: &dyn Monitor) {
        if self.links.key(entry).is_some_and(|key| self.links.differs(key)) {
            let path = entry.path.as_bytes().to_vec();
            monitor.warn(Warning::degraded(path, NO_LINK));
        }
    }

    /// Adds an entry with its content, as a link where it is one.
    fn put<W: Write + Send>(&mut self, state: &NraReader, mut entry: Entry, writer: &mut Writer<W>) -> Result<()> {
        let key = self.links.key(&entry);
        // Links are told by their first entry: numbers of the old archive mean nothing in the new one.
        entry.link_group = 0;
        if let Some(key) = key {
            if let Some(path) = self.unchanged.remove(&key) {
                self.added.insert(key, writer.keep(&path)?);
            }
            if let Some(&first) = self.added.get(&key) {
                return writer.add_link(entry, first).map(drop);
            }
        }
        let map = matches!(entry.content(), Content::Map(..)).then(|| (entry.content().clone(), entry.size));
        let id = match map.as_ref().and_then(|map| self.maps.get(map)) {
            Some(&first) => writer.add_copy(entry, first)?,
            None => put(state, entry, writer)?,
        };
        if let Some(map) = map {
            self.maps.entry(map).or_insert(id);
        }
        if let Some(key) = key {
            self.added.insert(key, id);
        }
        Ok(())
    }
}

/// Says of what the writer refuses that it is the archive that is wrong, since everything comes from there.
fn of_archive(error: Error, path: &EntryPath) -> Error {
    match error {
        Error::Usage { detail } => Error::corrupt("entry record", 0, detail),
        Error::Limit { .. } => Error::corrupt("entry record", 0, format!("{path} cannot be stored: {error}")),
        error => error,
    }
}

/// Brings entries and their content to the new archive.
#[derive(Default)]
struct Mover {
    dense: HashSet<u64>,
    /// Blocks that are there, by their offsets in the old archive.
    moved: HashSet<u64>,
    /// Offsets of dictionaries, old and new.
    dictionaries: HashMap<u64, u64>,
}

impl Mover {
    /// Adds entries of `state`, each behind the last block that it needs.
    fn add<W: Write + Send>(
        &mut self,
        state: &NraReader,
        entries: Vec<Entry>,
        mut names: Names,
        writer: &mut Writer<W>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut blocks: BTreeMap<u64, BlockRef> = BTreeMap::new();
        let mut order: Vec<(bool, u64, Entry)> = Vec::with_capacity(entries.len());
        let mut maps: HashMap<FrameRef, (bool, u64)> = HashMap::new();
        for entry in entries {
            names.tell(&entry, monitor);
            let root = if let Content::Map(root, _) = entry.content() { Some(*root) } else { None };
            if let Some(&(mixed, last)) = root.and_then(|root| maps.get(&root)) {
                order.push((mixed, last, entry));
                continue;
            }
            let (mut mixed, mut last) = (false, 0);
            state.each_segment(&entry, 0..entry.size, &mut |segment, _| {
                if let Segment::Data(extent) = segment {
                    let offset = extent.block.offset;
                    if !self.dense.contains(&offset) {
                        mixed = true;
                    } else if !self.moved.contains(&offset) {
                        blocks.insert(offset, extent.block);
                        last = last.max(offset);
                    }
                }
                Ok(())
            })?;
            if let Some(root) = root {
                maps.insert(root, (mixed, last));
            }
            order.push((mixed, last, entry));
        }
        // The names of a file together.
        order.sort_by_key(|(mixed, last, entry)| (*mixed, *last, entry.position(), entry.link_group));
        for (mixed, last, entry) in order {
            monitor.check()?;
            monitor.add(Counter::Entries, 1);
            // What is packed again comes behind all that moves.
            let upto = if mixed { u64::MAX } else { last };
            while let Some(first) = blocks.first_entry().filter(|first| *first.key() <= upto) {
                self.bring(state, &first.remove(), writer)?;
            }
            let path = entry.path.clone();
            names.put(state, entry, writer).map_err(|error| of_archive(error, &path))?;
        }
        Ok(())
    }

    /// Moves a block, unless something in it is there already.
    fn bring<W: Write + Send>(&mut self, state: &NraReader, block: &BlockRef, writer: &mut Writer<W>) -> Result<()> {
        self.moved.insert(block.offset);
        let stored = state.stored_block(block)?;
        let mut digests = HashSet::new();
        if stored.pieces.as_slice().iter().any(|piece| !digests.insert(piece.digest) || writer.has_piece(&piece.digest)) {
            return Ok(());
        }
        let dictionary = match (stored.dictionary, self.dictionaries.get(&stored.dictionary)) {
            (0, _) => 0,
            (_, Some(&known)) => known,
            (old, None) => {
                let new = writer.adopt_dictionary(&*state.stored_dictionary(old)?)?;
                self.dictionaries.insert(old, new);
                new
            }
        };
        let align = ALIGNMENTS.into_iter().find(|&align| stored.payload % u64::from(align) == 0).unwrap_or(0);
        let (codec, raw_len) = (stored.codec, stored.raw_len);
        writer.adopt(&Adopted { codec, raw_len, stored: &stored.stored, pieces: &stored.pieces, dictionary, align })
    }
}

/// Adds an entry; pieces that are not there are read and stored.
fn put<W: Write + Send>(state: &NraReader, entry: Entry, writer: &mut Writer<W>) -> Result<EntryId> {
    let digest = match entry.content() {
        Content::None => return writer.add(entry, NewContent::None),
        Content::List(_, digest) | Content::Map(_, digest) => digest.as_deref().copied(),
        Content::Extent(_) | Content::Raw(..) => None,
    };
    debug_assert_eq!(entry.kind, Kind::File);
    writer.begin(entry.clone())?;
    let mut at = 0u64;
    let mut bytes = Vec::new();
    let done = state.each_segment(&entry, 0..entry.size, &mut |segment, _| {
        let extent = match segment {
            Segment::Hole(len) => {
                at += len;
                return writer.hole(*len);
            }
            Segment::Data(extent) => extent,
        };
        let incompressible = extent.block.raw_len == extent.block.stored_len;
        for (digest, len) in state.extent_pieces(extent)? {
            if writer.has_piece(&digest) {
                writer.known_piece(&digest)?;
            } else {
                bytes.resize(usize::try_from(len).expect("a piece fits a block"), 0);
                state.read_at(&entry, at, &mut bytes)?;
                writer.piece(&bytes, digest, incompressible)?;
            }
            at += u64::from(len);
        }
        Ok(())
    });
    done?;
    writer.end(digest)
}

#[cfg(test)]
mod tests;
