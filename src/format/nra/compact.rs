//! Compaction: writes an archive anew without the content that only dropped commits need.
//!
//! Each kept commit is written again on top of the preceding one, with its time, message and
//! attributes. Numbers start at 1, and the archive gets a new ID. A block of which at least half is
//! needed is copied as stored. The needed part of any other block is read and packed again. A
//! damaged archive is rejected.
//!
//! Spec: nra.md, sections 7, 13 and 17.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use crate::changes::{Change, each_change};
use crate::content::{BlockRef, Content, EntryContent as _, FrameRef, Segment};
use crate::footer::FOOTER_LEN;
use crate::range_set::BlockRanges;
use crate::reader::NraReader;
use crate::writer::{CopiedBlock, EntryId, FileDestination, NewContent, Writer, WriterOptions, WriterStats};
use nra_core::archive::{Archive, OpenOptions};
use nra_core::crypt::Keyring;
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::links::{LinkGroups, LinkKey, NO_LINK};
use nra_core::path::EntryPath;
use nra_core::progress::{Counter, Monitor, Warning};
use nra_core::source::{ReadAt, Store};

/// Alignments that a copied payload keeps, largest first.
const ALIGNMENTS: [u32; 4] = [4_096, 64, 32, 16];

/// The result of a compaction, or the estimate of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// Kept commits.
    pub commits: u64,
    /// Dropped commits.
    pub dropped_commits: u64,
    /// Length of the archive before compaction, bytes.
    pub before_bytes: u64,
    /// Length of the new archive, bytes. An estimate subtracts the dropped content only, because
    /// the savings in the index are unknown.
    pub after_bytes: u64,
    /// Blocks that are copied as stored.
    pub moved_blocks: u64,
    /// Blocks of which only the needed part is packed again.
    pub repacked_blocks: u64,
    /// Stored bytes of content that no kept commit needs.
    pub dropped_bytes: u64,
    /// Percentage of the archive's recovery data, if it has any. Compaction writes no recovery
    /// data.
    pub recovery_percent: Option<u32>,
    /// Whether this is an estimate (see `after_bytes`).
    pub estimated: bool,
}

/// Copies the entries of an archive to a new one. A block of which at least half is needed is
/// copied as stored, and encrypted again if either archive is encrypted. The needed part of any
/// other block is packed again. `narrow` may change the metadata of an entry, but not its path and
/// content.
///
/// # Errors
///
/// `Corrupt` if something needed is damaged; `Cancelled`; errors of `narrow` and of writing.
pub fn copy<W: Write + Send>(
    archive: &NraReader,
    writer: &mut Writer<W>,
    narrow: &mut dyn FnMut(&mut Entry) -> Result<()>,
    monitor: &dyn Monitor,
) -> Result<()> {
    monitor.expect(Counter::Entries, archive.entry_count());
    let mut needs = NeededBlocks::default();
    let mut entries = Vec::new();
    for entry in archive.entries(0..archive.entry_count()) {
        monitor.check()?;
        let mut entry = entry?;
        narrow(&mut entry)?;
        needs.add_entry(archive, &entry)?;
        entries.push(entry);
    }
    let (moved_whole, _) = needs.plan_blocks(Compaction::default(), 0);
    BlockMover { moved_whole, ..BlockMover::default() }.add(archive, entries, FileNames::default(), writer, monitor)
}

/// The kept commits and the blocks they need.
struct Plan {
    /// Numbers of the kept commits, oldest first. Each commit is opened when it is needed, so
    /// memory does not grow with their number.
    numbers: Vec<u64>,
    /// The current keys of the archive.
    encryption: Option<Keyring>,
    /// Offsets of the blocks that are copied as stored.
    moved_whole: HashSet<u64>,
    compaction: Compaction,
}

/// Estimates the result of [`compact`] without writing.
///
/// # Errors
///
/// As [`compact`].
pub fn plan(source: &Arc<dyn ReadAt>, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Compaction> {
    Plan::new(source, keep, options, monitor).map(|plan| Compaction { estimated: true, ..plan.compaction })
}

/// Writes the newest `keep` commits of `source` to a new file. `open` opens that file once for each
/// commit; the file is empty the first time. When this function returns, the new file is on disk.
/// Of `options`, only those for compression, resources and keys are used; the new archive has the
/// keys of the old one.
///
/// # Errors
///
/// `Usage` if `keep` is 0; `Unsupported` if the file is not an NRA 5 archive; `KeyNeeded` if it is
/// encrypted; `Corrupt` if something needed is damaged; `Cancelled`; errors of writing.
pub fn compact(
    source: &Arc<dyn ReadAt>,
    keep: u64,
    open: &dyn Fn() -> Result<Arc<dyn Store>>,
    options: &WriterOptions,
    monitor: &dyn Monitor,
) -> Result<Compaction> {
    let Plan { numbers, encryption, moved_whole, mut compaction } = Plan::new(source, keep, options, monitor)?;
    let mut mover = BlockMover { moved_whole, ..BlockMover::default() };
    let mut before: Option<NraReader> = None;
    for number in numbers {
        let reader = open_commit(source, Some(number), options)?;
        let info = reader.info();
        let mut options = options.clone();
        options.encryption.clone_from(&encryption);
        options.time = info.time;
        options.reproducible = info.time.is_none();
        options.message.clone_from(&info.message);
        let stats = match &before {
            None => {
                options.attributes.clone_from(&info.attributes);
                let store = open()?;
                let mut writer = Writer::create(FileDestination::new(Arc::clone(&store)), options)?;
                let entries = reader.entries(0..reader.entry_count()).collect::<Result<Vec<Entry>>>()?;
                mover.add(&reader, entries, FileNames::default(), &mut writer, monitor)?;
                let stats = writer.finish(monitor)?.1;
                store.sync()?;
                stats
            }
            Some(before) => {
                let mut writer = Writer::append(open()?, options)?;
                // A commit that changed only the keys is kept as well.
                writer.force_commit();
                writer.set_attributes(info.attributes.clone())?;
                let mut changed = Vec::new();
                let mut last: Option<EntryPath> = None;
                each_change::<Error>(before, &reader, &mut |change| {
                    match change {
                        Change::Added(entry) | Change::Changed(_, entry) => changed.push(entry),
                        // Removing a directory removes everything below it.
                        Change::Removed(entry) if last.as_ref().is_some_and(|last| entry.path.is_below(last)) => {}
                        Change::Removed(entry) => {
                            writer.remove(&entry.path)?;
                            last = Some(entry.path);
                        }
                    }
                    monitor.check()
                })?;
                let names = FileNames::of_unchanged(&reader, &changed, monitor)?;
                mover.add(&reader, changed, names, &mut writer, monitor)?;
                writer.finish(monitor)?.1
            }
        };
        let WriterStats { entries, content_bytes, archive_bytes, .. } = stats;
        if (entries, content_bytes) != (info.entries, info.content_bytes) {
            let detail = format!("{entries} entries were written instead of {} of commit {:?}", info.entries, info.commit);
            return Err(Error::corrupt("entry tree", 0, detail));
        }
        compaction.after_bytes = archive_bytes;
        before = Some(reader);
    }
    Ok(compaction)
}

impl Plan {
    fn new(source: &Arc<dyn ReadAt>, keep: u64, options: &WriterOptions, monitor: &dyn Monitor) -> Result<Self> {
        if keep == 0 {
            return Err(Error::usage("at least one commit must be kept"));
        }
        NraReader::reject_other_formats(Arc::clone(source))?;
        let newest = open_commit(source, None, options)?;
        reject_lost_commit(source, &newest, options)?;
        let mut numbers = newest.commits().map(|commit| Ok(commit?.number)).collect::<Result<Vec<u64>>>()?;
        let all = numbers.len() as u64;
        numbers.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        numbers.reverse();
        let mut needs = NeededBlocks::default();
        let mut before: Option<NraReader> = None;
        for &number in &numbers {
            let reader = open_commit(source, Some(number), options)?;
            monitor.expect(Counter::Entries, reader.entry_count());
            match &before {
                None => {
                    for entry in reader.entries(0..reader.entry_count()) {
                        monitor.check()?;
                        needs.add_entry(&reader, &entry?)?;
                    }
                }
                Some(before) => each_change::<Error>(before, &reader, &mut |change| match change {
                    Change::Added(entry) | Change::Changed(_, entry) => needs.add_entry(&reader, &entry),
                    Change::Removed(_) => monitor.check(),
                })?,
            }
            before = Some(reader);
        }
        let commits = numbers.len() as u64;
        let stored_bytes = newest.info().stored_bytes.unwrap_or_default();
        let before_bytes = newest.info().archive_bytes;
        let recovery_percent = newest.info().recovery.map(|recovery| recovery.percent);
        let dropped_commits = all - commits;
        let compaction = Compaction { commits, dropped_commits, before_bytes, recovery_percent, ..Compaction::default() };
        let (moved_whole, compaction) = needs.plan_blocks(compaction, stored_bytes);
        Ok(Self { numbers, encryption: newest.keyring().cloned(), moved_whole, compaction })
    }
}

/// Rejects an archive that has a commit later than `newest` without a footer: that commit would be
/// dropped.
fn reject_lost_commit(source: &Arc<dyn ReadAt>, newest: &NraReader, options: &WriterOptions) -> Result<()> {
    if !newest.has_trailing_bytes() {
        return Ok(());
    }
    let open = OpenOptions { cache_bytes: options.memory_bytes / 4, recover: true, ..OpenOptions::default() };
    let last = NraReader::open_unlocked(Arc::clone(source), &open, options.encryption.as_ref())?;
    match last.info().commit.filter(|&number| Some(number) > newest.info().commit) {
        Some(number) => {
            Err(Error::corrupt("footer", source.len() - FOOTER_LEN as u64, format!("the footer of commit {number} is lost")))
        }
        None => Ok(()),
    }
}

/// Opens a commit, or the newest one if `commit` is `None`.
fn open_commit(source: &Arc<dyn ReadAt>, commit: Option<u64>, options: &WriterOptions) -> Result<NraReader> {
    let cache_bytes = options.memory_bytes / 4;
    let open = OpenOptions { cache_bytes, recover: false, commit, ..OpenOptions::default() };
    NraReader::open_unlocked(Arc::clone(source), &open, options.encryption.as_ref())
}

/// The needed ranges of blocks. The size depends on the archive, not on the number of entries that
/// share a range.
#[derive(Default)]
struct NeededBlocks {
    blocks: BlockRanges,
    /// Root pages of the extent maps that were visited.
    maps: HashSet<FrameRef>,
}

impl NeededBlocks {
    fn add_entry(&mut self, reader: &NraReader, entry: &Entry) -> Result<()> {
        if let Content::Map(root, _) = entry.content()
            && !self.maps.insert(*root)
        {
            return Ok(());
        }
        reader.each_extent(entry, &mut |extent| {
            self.blocks.add(extent);
            Ok(())
        })
    }

    /// Returns the blocks to copy as stored, and adds the estimate to `compaction`.
    fn plan_blocks(self, mut compaction: Compaction, stored_bytes: u64) -> (HashSet<u64>, Compaction) {
        let mut moved_whole = HashSet::new();
        let mut kept = 0u64;
        for (block, used) in self.blocks.blocks() {
            if used * 2 >= u64::from(block.raw_len) {
                moved_whole.insert(block.offset);
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
        (moved_whole, compaction)
    }
}

/// Entries that later names of the same file link to or copy from.
struct FileNames {
    links: LinkGroups,
    /// Unchanged names in link groups in which another name changed.
    unchanged: HashMap<LinkKey, EntryPath>,
    /// The first added entry of each set of hard links.
    added: HashMap<LinkKey, EntryId>,
    /// The first added entry of each extent map, with the length of its content.
    maps: HashMap<(Content, u64), EntryId>,
}

impl Default for FileNames {
    fn default() -> Self {
        Self { links: LinkGroups::exact(), unchanged: HashMap::new(), added: HashMap::new(), maps: HashMap::new() }
    }
}

impl FileNames {
    /// Collects the unchanged names in the link groups of the changed entries.
    fn of_unchanged(reader: &NraReader, changed: &[Entry], monitor: &dyn Monitor) -> Result<Self> {
        let mut names = Self::default();
        let groups: HashSet<u64> = changed.iter().map(|entry| entry.link_group).filter(|&group| group != 0).collect();
        if groups.is_empty() {
            return Ok(names);
        }
        let changed: HashSet<&EntryPath> = changed.iter().map(|entry| &entry.path).collect();
        for entry in reader.entries(0..reader.entry_count()) {
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

    /// Adds an entry with its content, or as a hard link.
    fn put<W: Write + Send>(&mut self, reader: &NraReader, mut entry: Entry, writer: &mut Writer<W>) -> Result<()> {
        let key = self.links.key(&entry);
        // The writer derives link groups from the first entry; numbers of the old archive mean
        // nothing in the new one.
        entry.link_group = 0;
        if let Some(key) = key {
            if let Some(path) = self.unchanged.remove(&key) {
                self.added.insert(key, writer.reference_entry(&path)?);
            }
            if let Some(&first) = self.added.get(&key) {
                return writer.add_link(entry, first).map(drop);
            }
        }
        let map = matches!(entry.content(), Content::Map(..)).then(|| (entry.content().clone(), entry.size));
        let id = match map.as_ref().and_then(|map| self.maps.get(map)) {
            Some(&first) => writer.add_copy(entry, first)?,
            None => put(reader, entry, writer)?,
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

/// Reports a rejected entry as damage of the archive, since every entry comes from there.
fn as_archive_damage(error: Error, path: &EntryPath) -> Error {
    match error {
        Error::Usage { detail } => Error::corrupt("entry record", 0, detail),
        Error::Limit { .. } => Error::corrupt("entry record", 0, format!("{path} cannot be stored: {error}")),
        error => error,
    }
}

/// Copies blocks and entries to the new archive.
#[derive(Default)]
struct BlockMover {
    moved_whole: HashSet<u64>,
    /// Blocks that were copied, by their offsets in the old archive.
    moved: HashSet<u64>,
    /// Offsets of dictionaries: old to new.
    dictionaries: HashMap<u64, u64>,
}

impl BlockMover {
    /// Adds the entries of `reader`. Each is added after the last block it needs.
    fn add<W: Write + Send>(
        &mut self,
        reader: &NraReader,
        entries: Vec<Entry>,
        mut names: FileNames,
        writer: &mut Writer<W>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let mut blocks: BTreeMap<u64, BlockRef> = BTreeMap::new();
        let mut order: Vec<(bool, u64, Entry)> = Vec::with_capacity(entries.len());
        let mut maps: HashMap<FrameRef, (bool, u64)> = HashMap::new();
        for entry in entries {
            if names.links.key(&entry).is_some_and(|key| names.links.differs(key)) {
                monitor.warn(Warning::degraded(entry.path.as_bytes().to_vec(), NO_LINK));
            }
            let root = if let Content::Map(root, _) = entry.content() { Some(*root) } else { None };
            if let Some(&(mixed, last)) = root.and_then(|root| maps.get(&root)) {
                order.push((mixed, last, entry));
                continue;
            }
            let (mut mixed, mut last) = (false, 0);
            reader.each_extent(&entry, &mut |extent| {
                let offset = extent.block.offset;
                if !self.moved_whole.contains(&offset) {
                    mixed = true;
                } else if !self.moved.contains(&offset) {
                    blocks.insert(offset, extent.block);
                    last = last.max(offset);
                }
                Ok(())
            })?;
            if let Some(root) = root {
                maps.insert(root, (mixed, last));
            }
            order.push((mixed, last, entry));
        }
        // Keeps the names of a file together.
        order.sort_by_key(|(mixed, last, entry)| (*mixed, *last, entry.position(), entry.link_group));
        for (mixed, last, entry) in order {
            monitor.check()?;
            monitor.add(Counter::Entries, 1);
            // Repacked content follows all copied blocks.
            let upto = if mixed { u64::MAX } else { last };
            while let Some(first) = blocks.first_entry().filter(|first| *first.key() <= upto) {
                self.copy_block_once(reader, &first.remove(), writer)?;
            }
            let path = entry.path.clone();
            names.put(reader, entry, writer).map_err(|error| as_archive_damage(error, &path))?;
        }
        Ok(())
    }

    /// Copies a block unless one of its chunks is already present.
    fn copy_block_once<W: Write + Send>(&mut self, reader: &NraReader, block: &BlockRef, writer: &mut Writer<W>) -> Result<()> {
        self.moved.insert(block.offset);
        let stored = reader.stored_block(block)?;
        let mut digests = HashSet::new();
        if stored.chunks.as_slice().iter().any(|chunk| !digests.insert(chunk.digest) || writer.has_chunk(&chunk.digest)) {
            return Ok(());
        }
        let dictionary = match (stored.dictionary, self.dictionaries.get(&stored.dictionary)) {
            (0, _) => 0,
            (_, Some(&known)) => known,
            (old, None) => {
                let new = writer.copy_dictionary(&*reader.dictionary(old)?)?;
                self.dictionaries.insert(old, new);
                new
            }
        };
        let align = ALIGNMENTS.into_iter().find(|&align| stored.payload % u64::from(align) == 0).unwrap_or(0);
        let (codec, raw_len) = (stored.codec, stored.raw_len);
        writer.copy_block(&CopiedBlock { codec, raw_len, stored: &stored.stored, chunks: &stored.chunks, dictionary, align })
    }
}

/// Adds an entry. Chunks that are not present yet are read and stored.
fn put<W: Write + Send>(reader: &NraReader, entry: Entry, writer: &mut Writer<W>) -> Result<EntryId> {
    let digest = match entry.content() {
        Content::None => return writer.add(entry, NewContent::None),
        Content::List(_, digest) | Content::Map(_, digest) => digest.as_deref().copied(),
        Content::Extent(_) | Content::Uncompressed(..) => None,
    };
    debug_assert_eq!(entry.kind, Kind::File);
    writer.begin_file(entry.clone())?;
    let mut at = 0u64;
    let mut bytes = Vec::new();
    let done = reader.each_segment(&entry, 0..entry.size, &mut |segment, _| {
        let extent = match segment {
            Segment::Hole(len) => {
                at += len;
                return writer.add_hole(*len);
            }
            Segment::Data(extent) => extent,
        };
        let incompressible = extent.block.raw_len == extent.block.stored_len;
        for (digest, len) in reader.extent_chunks(extent)? {
            if writer.has_chunk(&digest) {
                writer.add_known_chunk(&digest)?;
            } else {
                bytes.resize(usize::try_from(len).expect("a chunk fits a block"), 0);
                reader.read_at(&entry, at, &mut bytes)?;
                writer.add_chunk(&bytes, digest, incompressible)?;
            }
            at += u64::from(len);
        }
        Ok(())
    });
    done?;
    writer.end_file(digest)
}

#[cfg(test)]
mod tests;
