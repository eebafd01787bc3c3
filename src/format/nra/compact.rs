//! An archive written anew without what no kept commit needs.
//!
//! Each kept commit is made again on top of the one before, with its time, its message and its attributes; numbers begin with 1 and the archive
//! gets an identity of its own. Blocks of which at least half is needed move as they are stored; what is needed of the others
//! is taken out and packed again. Nothing goes around damage: an archive that does not read is refused.
//!
//! Spec: nra.md, sections 7, 13 and 17.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use crate::format::archive::{Archive, OpenOptions};
use crate::format::crypt::Keyring;
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::nra::content::{BlockRef, Content, Segment};
use crate::format::nra::reader::NraReader;
use crate::format::nra::writer::{Adopted, FromStart, NewContent, Writer, WriterOptions, WriterStats};
use crate::format::path::EntryPath;
use crate::format::progress::{Counter, Monitor};
use crate::format::source::{ReadAt, Store};

/// Alignments that a moved payload keeps, the largest first.
const ALIGNMENTS: [u32; 4] = [4_096, 64, 32, 16];

/// What compacting an archive comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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
    Mover { dense, ..Mover::default() }.add(archive, entries, &HashMap::new(), writer, monitor)
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
    Plan::make(source, keep, options, monitor).map(|plan| plan.compaction)
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
                mover.add(&state, entries, &HashMap::new(), &mut writer, monitor)?;
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
                each_change(before, &state, &mut |change| {
                    match change {
                        Change::New(entry) => changed.push(entry),
                        // With a directory goes what is below it.
                        Change::Gone(path) if last.as_ref().is_some_and(|last| path.is_below(last)) => {}
                        Change::Gone(path) => {
                            writer.remove(&path)?;
                            last = Some(path);
                        }
                    }
                    monitor.check()
                })?;
                let unchanged = unchanged_members(&state, &changed, monitor)?;
                mover.add(&state, changed, &unchanged, &mut writer, monitor)?;
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
                Some(before) => each_change(before, &state, &mut |change| match change {
                    Change::New(entry) => needs.note(&state, &entry),
                    Change::Gone(_) => monitor.check(),
                })?,
            }
            before = Some(state);
        }
        let commits = numbers.len() as u64;
        let stored_bytes = newest.info().stored_bytes.unwrap_or_default();
        let before_bytes = newest.info().archive_bytes;
        let compaction = Compaction { commits, dropped_commits: all - commits, before_bytes, ..Compaction::default() };
        let (dense, compaction) = needs.judge(compaction, stored_bytes);
        Ok(Self { numbers, encryption: newest.keyring().cloned(), dense, compaction })
    }
}

/// Opens a commit, the newest if no number is given.
fn open_commit(source: &Arc<dyn ReadAt>, commit: Option<u64>, options: &WriterOptions) -> Result<NraReader> {
    let cache_bytes = options.memory_bytes / 4;
    let open = OpenOptions { cache_bytes, recover: false, commit, ..OpenOptions::default() };
    NraReader::open_unlocked(Arc::clone(source), &open, options.encryption.as_ref())
}

/// The parts of blocks that are needed.
#[derive(Default)]
struct Needs {
    blocks: HashMap<u64, BlockRef>,
    /// Offset of the block, start and length within its payload.
    parts: Vec<(u64, u32, u64)>,
}

impl Needs {
    fn note(&mut self, state: &NraReader, entry: &Entry) -> Result<()> {
        state.each_extent(entry, &mut |segment| {
            if let Segment::Data(extent) = segment {
                self.blocks.entry(extent.block.offset).or_insert(extent.block);
                match self.parts.last_mut() {
                    Some((block, start, len))
                        if *block == extent.block.offset && u64::from(*start) + *len == u64::from(extent.offset) =>
                    {
                        *len += extent.len;
                    }
                    _ => self.parts.push((extent.block.offset, extent.offset, extent.len)),
                }
            }
            Ok(())
        })
    }

    /// Returns the blocks that move, and adds what becomes of the others.
    fn judge(mut self, mut compaction: Compaction, stored_bytes: u64) -> (HashSet<u64>, Compaction) {
        self.parts.sort_unstable();
        let mut dense = HashSet::new();
        let mut kept = 0u64;
        for parts in self.parts.chunk_by(|a, b| a.0 == b.0) {
            let (mut used, mut end) = (0u64, 0u64);
            for &(_, start, len) in parts {
                let start = u64::from(start);
                let stop = start.saturating_add(len);
                used += stop.saturating_sub(start.max(end));
                end = end.max(stop);
            }
            let block = &self.blocks[&parts[0].0];
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

/// What a commit does to an entry.
enum Change {
    /// It is new or another one.
    New(Entry),
    /// It is there no more.
    Gone(EntryPath),
}

/// Hands what differs between two commits of one archive to `visit`, in path order.
fn each_change(before: &NraReader, after: &NraReader, visit: &mut dyn FnMut(Change) -> Result<()>) -> Result<()> {
    let mut old = before.entries(0..before.entry_count()).peekable();
    let mut new = after.entries(0..after.entry_count()).peekable();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(Err(_)), _) | (Some(_), None) => Ordering::Less,
            (_, Some(Err(_))) | (None, Some(_)) => Ordering::Greater,
            (Some(Ok(x)), Some(Ok(y))) => x.path.cmp(&y.path),
        };
        if order == Ordering::Less {
            old.next().map_or(Ok(()), |entry| visit(Change::Gone(entry?.path)))?;
        } else if order == Ordering::Greater {
            new.next().map_or(Ok(()), |entry| visit(Change::New(entry?)))?;
        } else {
            let (Some(x), Some(y)) = (old.next().transpose()?, new.next().transpose()?) else { continue };
            if x != y {
                visit(Change::New(y))?;
            }
        }
    }
}

/// Returns, for the link groups of entries that changed, a name in each that did not: the others become links to it.
fn unchanged_members(state: &NraReader, changed: &[Entry], monitor: &dyn Monitor) -> Result<HashMap<u64, EntryPath>> {
    let groups: HashSet<u64> = changed.iter().map(|entry| entry.link_group).filter(|&group| group != 0).collect();
    let mut members = HashMap::new();
    if groups.is_empty() {
        return Ok(members);
    }
    let changed: HashSet<&EntryPath> = changed.iter().map(|entry| &entry.path).collect();
    for entry in state.entries(0..state.entry_count()) {
        monitor.check()?;
        let entry = entry?;
        if groups.contains(&entry.link_group) && !changed.contains(&entry.path) {
            members.entry(entry.link_group).or_insert(entry.path);
        }
    }
    Ok(members)
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
    /// Adds entries of `state`, each behind the last block that it needs; those of a link group with an `unchanged` name as links to that.
    fn add<W: Write + Send>(
        &mut self,
        state: &NraReader,
        entries: Vec<Entry>,
        unchanged: &HashMap<u64, EntryPath>,
        writer: &mut Writer<W>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut blocks: BTreeMap<u64, BlockRef> = BTreeMap::new();
        let mut order: Vec<(bool, u64, Entry)> = Vec::with_capacity(entries.len());
        for entry in entries {
            let (mut mixed, mut last) = (false, 0);
            state.each_extent(&entry, &mut |segment| {
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
            order.push((mixed, last, entry));
        }
        order.sort_by_key(|(mixed, last, entry)| (*mixed, *last, entry.place()));
        for (mixed, last, entry) in order {
            monitor.check()?;
            monitor.add(Counter::Entries, 1);
            // What is packed again comes behind all that moves.
            let upto = if mixed { u64::MAX } else { last };
            while let Some(first) = blocks.first_entry().filter(|first| *first.key() <= upto) {
                self.bring(state, &first.remove(), writer)?;
            }
            match unchanged.get(&entry.link_group) {
                Some(member) => {
                    let member = writer.keep(member)?;
                    writer.add_link(entry, member)?;
                }
                None => put(state, entry, writer)?,
            }
        }
        Ok(())
    }

    /// Moves a block, unless something in it is there already.
    fn bring<W: Write + Send>(&mut self, state: &NraReader, block: &BlockRef, writer: &mut Writer<W>) -> Result<()> {
        self.moved.insert(block.offset);
        let stored = state.stored_block(block)?;
        let mut digests = HashSet::new();
        if stored.pieces.iter().any(|piece| !digests.insert(piece.digest) || writer.has_piece(&piece.digest)) {
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
fn put<W: Write + Send>(state: &NraReader, entry: Entry, writer: &mut Writer<W>) -> Result<()> {
    let digest = match entry.content() {
        Content::None => return writer.add(entry, NewContent::None).map(drop),
        Content::List(_, digest) | Content::Map(_, digest) => digest.as_deref().copied(),
        Content::Extent(_) | Content::Raw(..) => None,
    };
    debug_assert_eq!(entry.kind, Kind::File);
    writer.begin(entry.clone())?;
    let mut at = 0u64;
    let mut bytes = Vec::new();
    let done = state.each_extent(&entry, &mut |segment| {
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
    writer.end(digest).map(drop)
}

#[cfg(test)]
mod tests;
