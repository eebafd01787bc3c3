//! Finishing a commit: order of the entries, index, commit frame, footer. Spec: nra.md, section 3.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::chunk_run::ChunkLocation;
use crate::commit::{Commit, encode_attributes};
use crate::content::FrameRef;
use crate::entry_page::Child;
use crate::footer::Footer;
use crate::frame::FrameKind;
use crate::reader::{NraReader, is_damage};
use crate::superblock::REQUIRED_ENCRYPTION;
use crate::writer::append::Base;
use crate::writer::block_writer::BlockWriter;
use crate::writer::compressors::Compressors;
use crate::writer::index::{Added, Index};
use crate::writer::merge::merge;
use crate::writer::options::{WriterOptions, WriterStats};
use crate::writer::output::NewFrame;
use crate::writer::pages::{NewLeaf, leaves, new_locations};
use crate::writer::{EntryId, Writer};
use nra_core::entry::{Entry, Kind, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_RUNS;
use nra_core::path::EntryPath;
use nra_core::progress::{Monitor, Severity, Warning};
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Entries whose leaf pages one worker builds at a time.
const LEAF_BATCH: usize = 8_192;

pub(super) fn finish<W: Write + Send>(writer: Writer<W>, monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
    let Writer { options, mut block_writer, mut index, deduplicated_bytes, base, .. } = writer;
    if let Some(base) = &base
        && index.entries.iter().all(|added| added.removed)
        && base.changes.removals.is_empty()
        && options.attributes == base.attributes
        && !base.changes.forced
    {
        let (out, _) = block_writer.output.finish()?;
        return Ok((out, base_stats(base)));
    }
    if let Some(base) = &base
        && base.newest.trailing_bytes > 0
    {
        let (bytes, number) = (base.newest.trailing_bytes, base.newest.commit.number);
        let message = format!("commit {number} is followed by {bytes} bytes of an unfinished append, which a new commit removes");
        monitor.warn(Warning::remark([], message));
    }
    let SortedEntries { ids, to_record, skipped } = sort_entries(&mut index, base.as_ref(), options.repeats, monitor)?;
    for id in to_record {
        block_writer.record_later(id, &mut index)?;
    }
    block_writer.drain(&mut index, monitor)?;

    let runs = write_runs(&mut block_writer, &index, base.as_ref())?;
    let attributes = write_attributes(&mut block_writer, &options, base.as_ref())?;
    let mut stats = match &base {
        Some(base) => base_stats(base),
        None => WriterStats::default(),
    };
    stats.commit += 1;
    let add = |sum: &mut u64, new: u64| *sum = sum.saturating_add(new);
    add(&mut stats.chunk_bytes, block_writer.chunk_bytes);
    add(&mut stats.stored_bytes, block_writer.stored_bytes);
    add(&mut stats.blocks, block_writer.blocks);
    add(&mut stats.chunks, block_writer.chunks);
    stats.deduplicated_bytes = deduplicated_bytes;
    stats.skipped = skipped;
    // Holes make an overflow easy.
    let content = ids.iter().try_fold(stats.content_bytes, |sum, &id| sum.checked_add(index.entry(id).entry.size));
    content.ok_or(Error::Limit { what: "content of all files", found: u64::MAX, limit: u64::MAX })?;
    let link_groups = index.greatest_group();
    let entry_root = match &base {
        Some(base) => merge(base, &index, &ids, &mut block_writer, &mut stats, monitor)?,
        None => {
            stats.entries = ids.len() as u64;
            stats.added = stats.entries;
            for &id in &ids {
                let entry = &index.entry(id).entry;
                stats.files += u64::from(entry.kind == Kind::File);
                stats.content_bytes += entry.size;
            }
            write_entries(&mut block_writer, &index, &ids, options.threads, monitor)?
        }
    };
    let keys = block_writer.output.keys()?;
    // Remaining recovery data after the new frames is removed before the commit is written: it
    // could otherwise pass for recovery data of the new commit.
    block_writer.output.flush()?;
    if let Some(base) = &base
        && base.store.len() > block_writer.output.offset()
    {
        base.store.truncate(block_writer.output.offset())?;
    }
    // A commit must never be on disk without its frames, nor a footer without its commit.
    sync(&mut block_writer, base.as_ref())?;
    let commit = Commit { entry_root, attributes, runs, link_groups, ..Commit::default() };
    let footer = write_commit(&mut block_writer, options, &stats, commit, keys, base.as_ref())?;
    sync(&mut block_writer, base.as_ref())?;
    let bytes = footer.encode(block_writer.output.offset());
    block_writer.output.write(&bytes)?;
    sync(&mut block_writer, base.as_ref())?;
    if let Some(base) = &base {
        base.committed.store(true, Ordering::Relaxed);
    }
    let (out, archive_bytes) = block_writer.output.finish()?;
    stats.added_bytes = archive_bytes - base.map_or(0, |base| base.newest.end);
    stats.archive_bytes = archive_bytes;
    Ok((out, stats))
}

/// Syncs an existing archive. A new one has no name yet.
fn sync<W: Write>(block_writer: &mut BlockWriter<W>, base: Option<&Base>) -> Result<()> {
    let Some(base) = base else { return Ok(()) };
    block_writer.output.flush()?;
    base.store.sync()
}

fn base_stats(base: &Base) -> WriterStats {
    let commit = &base.newest.commit;
    WriterStats {
        commit: commit.number,
        entries: commit.entries,
        files: commit.files,
        content_bytes: commit.content_bytes,
        chunk_bytes: commit.chunk_bytes,
        stored_bytes: commit.stored_bytes,
        blocks: commit.blocks,
        chunks: commit.chunks,
        archive_bytes: base.newest.end,
        ..WriterStats::default()
    }
}

/// Writes the chunk run of the new chunks and returns all chunk runs. If there would be too many,
/// the smallest ones are merged.
fn write_runs<W: Write>(block_writer: &mut BlockWriter<W>, index: &Index, base: Option<&Base>) -> Result<Vec<FrameRef>> {
    let mut runs = base.map_or_else(Vec::new, |base| base.newest.commit.runs.clone());
    let mut locations = new_locations(index);
    if locations.is_empty() {
        return Ok(runs);
    }
    if let Some(base) = base
        && runs.len() >= MAX_RUNS as usize
    {
        merge_runs(&base.reader, &mut runs, &mut locations)?;
    }
    runs.extend(block_writer.pages()?.write_chunk_run(locations)?);
    Ok(runs)
}

/// Removes chunk runs from the end of the list and adds their chunks to `locations`, as long as a
/// run is not much longer than the following ones. A chunk is then rewritten only a few times,
/// whatever the number of commits.
fn merge_runs(reader: &NraReader, runs: &mut Vec<FrameRef>, locations: &mut Vec<ChunkLocation>) -> Result<()> {
    const FACTOR: u64 = 2;
    while let Some(&last) = runs.last() {
        let before = locations.len();
        let taken = reader.run_len(last).and_then(|len| {
            let is_long = len > (before as u64).saturating_mul(FACTOR);
            if is_long && runs.len() < MAX_RUNS as usize { Ok(false) } else { reader.append_run(last, locations).map(|()| true) }
        });
        match taken {
            Ok(true) => {}
            Ok(false) => break,
            // A damaged run finds nothing any more, and verification reports it.
            Err(error) if is_damage(&error) => locations.truncate(before),
            Err(error) => return Err(error),
        }
        runs.pop();
    }
    Ok(())
}

/// Entries in index order.
struct SortedEntries {
    /// In path order.
    ids: Vec<EntryId>,
    /// Entries that must be recorded again.
    to_record: Vec<EntryId>,
    /// Number of entries that were skipped because others lie below their paths.
    skipped: u64,
}

/// Returns the entries in path order, and those that must be recorded again. The last of equal
/// paths wins, missing directories are added, and link groups of one entry are dissolved.
fn sort_entries(index: &mut Index, base: Option<&Base>, repeats: bool, monitor: &dyn Monitor) -> Result<SortedEntries> {
    let all = index.entries.iter().enumerate().filter(|(_, added)| !added.removed);
    let mut ids = all.map(|(number, _)| EntryId::new(number)).collect::<Result<Vec<_>>>()?;
    // The sort is stable: equal paths keep their order.
    ids.sort_by(|&a, &b| index.entry(a).entry.path.cmp(&index.entry(b).entry.path));
    let mut to_record = Vec::new();
    let mut kept: Vec<EntryId> = Vec::with_capacity(ids.len());
    for id in ids {
        match kept.last_mut() {
            Some(last) if index.entry(*last).entry.path == index.entry(id).entry.path => {
                let (a, b) = (&index.entry(*last).entry, &index.entry(id).entry);
                if (a.kind, a.size, a.modified, &a.target) != (b.kind, b.size, b.modified, &b.target) {
                    let message = "replaced: a later entry has the same path".to_owned();
                    let severity = if repeats { Severity::Remark } else { Severity::Degraded };
                    monitor.warn(Warning::new(severity, a.path.as_bytes(), message));
                }
                index.leave_group(*last);
                *last = id;
                // The record of the earlier entry may follow its own.
                to_record.push(id);
            }
            _ => kept.push(id),
        }
    }
    let mut skipped = 0;
    let kept = add_parents(index, base, kept, &mut to_record, &mut skipped, monitor)?;
    for &id in &kept {
        if index.is_alone(id) {
            index.entry_mut(id).entry.link_group = 0;
            to_record.push(id);
        }
    }
    to_record.extend(superseded_entries(index, &kept));
    to_record.sort_unstable();
    to_record.dedup();
    Ok(SortedEntries { ids: kept, to_record, skipped })
}

/// Returns the entries whose record may precede that of a removed entry, so that a scan would take
/// them for superseded: entries of the same path, and entries that cannot coexist with it.
fn superseded_entries(index: &Index, kept: &[EntryId]) -> Vec<EntryId> {
    // Removed paths, and whether one of their entries is not a directory.
    let mut removed: BTreeMap<EntryPath, bool> = BTreeMap::new();
    for Added { entry, .. } in index.entries.iter().filter(|added| added.removed) {
        *removed.entry(entry.path.clone()).or_default() |= entry.kind != Kind::Directory;
    }
    if removed.is_empty() {
        return Vec::new();
    }
    let is_overtaken = |&&id: &&EntryId| {
        let entry = &index.entry(id).entry;
        let next = removed.range(entry.path.clone()..).next().map(|(path, _)| path);
        next.is_some_and(|next| *next == entry.path || entry.kind != Kind::Directory && next.is_below(&entry.path))
            || entry.path.above().any(|above| removed.get(&above) == Some(&true))
    };
    kept.iter().filter(is_overtaken).copied().collect()
}

/// Adds missing directories to entries in path order.
fn add_parents(
    index: &mut Index,
    base: Option<&Base>,
    ids: Vec<EntryId>,
    to_record: &mut Vec<EntryId>,
    skipped: &mut u64,
    monitor: &dyn Monitor,
) -> Result<Vec<EntryId>> {
    let mut complete: Vec<EntryId> = Vec::with_capacity(ids.len());
    // The known directories above the current entry.
    let mut above: Vec<EntryPath> = Vec::new();
    for id in ids {
        let path = &index.entry(id).entry.path;
        while above.last().is_some_and(|top| !path.is_below(top)) {
            above.pop();
        }
        let known = above.last().map_or(0, |top| top.as_bytes().len() + 1);
        let bytes = path.as_bytes();
        let missing: Vec<EntryPath> =
            (known..bytes.len()).filter(|&at| bytes[at] == b'/').map(|at| EntryPath::from_checked(&bytes[..at])).collect();
        // If the base lacks a directory, it also lacks everything below.
        let mut base = base;
        for path in missing {
            if let Some(last) = complete.pop_if(|last| index.entry(*last).entry.path == path) {
                index.leave_group(last);
                *skipped += 1;
                monitor.warn(Warning::degraded(path.as_bytes(), "skipped: it is not a directory, but entries are below it"));
            }
            base = match base {
                Some(base) if base.has_directory(&path)? => Some(base),
                _ => None,
            };
            if base.is_none() {
                let parent = EntryId::new(index.entries.len())?;
                let mut entry = Entry::new(path.clone(), Kind::Directory);
                entry.implied = true;
                index.entries.push(Added::resolved(entry));
                complete.push(parent);
                to_record.push(parent);
            }
            above.push(path);
        }
        complete.push(id);
        let entry = &index.entry(id).entry;
        if entry.kind == Kind::Directory {
            above.push(entry.path.clone());
        }
    }
    Ok(complete)
}

fn write_attributes<W: Write>(
    block_writer: &mut BlockWriter<W>,
    options: &WriterOptions,
    base: Option<&Base>,
) -> Result<Option<FrameRef>> {
    match base {
        Some(base) if base.attributes == options.attributes => return Ok(base.newest.commit.attributes),
        _ if options.attributes.is_empty() => return Ok(None),
        _ => {}
    }
    let payload = encode_attributes(&options.attributes);
    block_writer.pages()?.write(FrameKind::Attributes, &payload).map(Some)
}

/// Writes the entry tree and returns its root page. Workers build the leaf pages.
fn write_entries<W: Write>(
    block_writer: &mut BlockWriter<W>,
    index: &Index,
    ids: &[EntryId],
    threads: usize,
    monitor: &dyn Monitor,
) -> Result<Option<FrameRef>> {
    let mut children = Vec::new();
    let mut append_leaves = |block_writer: &mut BlockWriter<W>, leaves: Vec<NewLeaf>| -> Result<()> {
        for leaf in leaves {
            let page = leaf.page.write(&mut block_writer.output, FrameKind::EntryPage)?;
            children.push(Child { key: leaf.key, page, entries: leaf.entries, content_bytes: leaf.content_bytes });
        }
        Ok(())
    };
    if ids.len() <= LEAF_BATCH {
        let leaves = leaves(index, ids, 0..ids.len(), block_writer.sizes.leaf, &mut block_writer.compressors)?;
        append_leaves(block_writer, leaves)?;
    } else {
        let leaf_bytes = block_writer.sizes.leaf;
        let new_worker = || {
            let mut compressors = Compressors::default();
            move |range: Range<usize>, output: JobOutput<Result<Vec<NewLeaf>>>| {
                output.finish(leaves(index, ids, range, leaf_bytes, &mut compressors));
            }
        };
        std::thread::scope(|scope| -> Result<()> {
            let limits = PoolLimits::new(threads, 2 * threads);
            let mut pool = WorkerPool::scoped(scope, "nra-index", limits, new_worker);
            let mut starts = (0..ids.len()).step_by(LEAF_BATCH);
            loop {
                while pool.has_room(0)
                    && let Some(start) = starts.next()
                {
                    pool.send(start..ids.len().min(start + LEAF_BATCH), 0)?;
                }
                let Some(leaves) = pool.receive_while(|| monitor.check())? else { return Ok(()) };
                monitor.check()?;
                append_leaves(block_writer, leaves?)?;
            }
        })?;
    }
    block_writer.pages()?.write_levels(children, 0)
}

/// Writes the commit frame and returns its footer. `commit` has no totals yet; `keys` is the offset
/// and frame length of the key frame.
fn write_commit<W: Write>(
    block_writer: &mut BlockWriter<W>,
    options: WriterOptions,
    stats: &WriterStats,
    commit: Commit,
    keys: (u64, u64),
    base: Option<&Base>,
) -> Result<Footer> {
    let mut commit = Commit {
        number: stats.commit,
        time: options.time.or_else(|| if options.reproducible { None } else { now() }),
        entries: stats.entries,
        files: stats.files,
        content_bytes: stats.content_bytes,
        chunk_bytes: stats.chunk_bytes,
        stored_bytes: stats.stored_bytes,
        blocks: stats.blocks,
        chunks: stats.chunks,
        previous: base.map(|base| base.newest.commit_ref),
        message: options.message,
        ..commit
    };
    if let Some(base) = base {
        commit.archive_id = base.newest.commit.archive_id;
    } else if options.reproducible {
        commit.archive_id = commit.derived_id();
    } else {
        getrandom::fill(&mut commit.archive_id)
            .map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))?;
    }
    // Totals of the base may be close to the limit.
    commit.check().map_err(|detail| Error::corrupt("commit", block_writer.output.offset(), detail))?;
    let payload = commit.encode();
    let frame = block_writer.output.frame(NewFrame::uncompressed(FrameKind::Commit, &payload))?;
    let required = if keys == (0, 0) { 0 } else { REQUIRED_ENCRYPTION };
    let (commit_offset, commit_length) = (frame.offset, frame.length);
    Ok(Footer { required, commit_offset, commit_length, keys, number: commit.number })
}

fn now() -> Option<Timestamp> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(time.as_secs()).ok()?, nanoseconds: time.subsec_nanos() })
}
