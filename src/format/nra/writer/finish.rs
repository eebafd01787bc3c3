//! Ends an archive: order of the entries, index, commit, tail. Spec: nra.md, section 3.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::unbounded;

use crate::chunks::ChunkPlace;
use crate::commit::{Commit, encode_attributes};
use crate::content::FrameRef;
use crate::frame::FrameKind;
use crate::head::{REQUIRED_ENCRYPTION, Tail};
use crate::page::Child;
use crate::reader::{NraReader, is_damage};
use crate::writer::append::Base;
use crate::writer::index::{Added, Index};
use crate::writer::merge::merge;
use crate::writer::options::{WriterOptions, WriterStats};
use crate::writer::output::NewFrame;
use crate::writer::placing::Placing;
use crate::writer::trees::{NewLeaf, leaves, new_places, write_chunk_run, write_levels, write_page};
use crate::writer::{EntryId, Writer};
use nra_core::codec::Codec;
use nra_core::entry::{Entry, Kind, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_RUNS;
use nra_core::path::EntryPath;
use nra_core::progress::{Monitor, Severity, Warning};

/// Entries whose leaves one worker makes at a time.
const LEAF_BATCH: usize = 8_192;

pub(super) fn finish<W: Write + Send>(writer: Writer<W>, monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
    let Writer { options, mut placing, mut index, deduplicated_bytes, base, .. } = writer;
    if let Some(base) = &base
        && index.entries.iter().all(|added| added.gone)
        && base.changes.cuts.is_empty()
        && options.attributes == base.attributes
        && !base.changes.forced
    {
        let (out, _) = placing.output.finish()?;
        return Ok((out, unchanged(base)));
    }
    if let Some(base) = &base
        && base.state.remains > 0
    {
        let (bytes, number) = (base.state.remains, base.state.commit.number);
        let message = format!("{bytes} bytes behind commit {number}, the remains of an append that did not finish, are cut off");
        monitor.warn(Warning::remark([], message));
    }
    let Ordered { ids, again, left_out } = order(&mut index, base.as_ref(), options.repeats, monitor)?;
    for id in again {
        placing.carry(id, &mut index)?;
    }
    placing.drain(&mut index, monitor)?;

    let runs = write_runs(&mut placing, &index, base.as_ref())?;
    let attributes = write_attributes(&mut placing, &options, base.as_ref())?;
    let mut stats = match &base {
        Some(base) => unchanged(base),
        None => WriterStats::default(),
    };
    stats.commit += 1;
    let add = |sum: &mut u64, new: u64| *sum = sum.saturating_add(new);
    add(&mut stats.piece_bytes, placing.piece_bytes);
    add(&mut stats.stored_bytes, placing.stored_bytes);
    add(&mut stats.blocks, placing.blocks);
    add(&mut stats.pieces, placing.pieces);
    stats.deduplicated_bytes = deduplicated_bytes;
    stats.left_out = left_out;
    // Holes make that easy.
    let content = ids.iter().try_fold(stats.content_bytes, |sum, &id| sum.checked_add(index.entry(id).entry.size));
    content.ok_or(Error::Limit { what: "content of all files", found: u64::MAX, limit: u64::MAX })?;
    let link_groups = index.greatest_group();
    let entry_root = match &base {
        Some(base) => merge_entries(&mut placing, &index, &ids, base, &mut stats, monitor)?,
        None => {
            stats.entries = ids.len() as u64;
            stats.added = stats.entries;
            for &id in &ids {
                let entry = &index.entry(id).entry;
                stats.files += u64::from(entry.kind == Kind::File);
                stats.content_bytes += entry.size;
            }
            write_entries(&mut placing, Arc::new(index), ids, monitor)?
        }
    };
    let keys = placing.output.keys()?;
    // What is left of recovery data behind the new frames goes before there is a commit, which could be taken for a part of what they protect.
    placing.output.flush()?;
    if let Some(base) = &base
        && base.store.len() > placing.output.place()
    {
        base.store.truncate(placing.output.place())?;
    }
    // A commit is never there without its frames, nor a tail without its commit.
    sync(&mut placing, base.as_ref())?;
    let roots = Roots { entry_root, attributes, runs, link_groups, keys };
    let tail = write_commit(&mut placing, options, &stats, roots, base.as_ref())?;
    sync(&mut placing, base.as_ref())?;
    let bytes = tail.encode(placing.output.place());
    placing.output.write(&bytes)?;
    sync(&mut placing, base.as_ref())?;
    if let Some(base) = &base {
        base.kept.store(true, Ordering::Relaxed);
    }
    let (out, archive_bytes) = placing.output.finish()?;
    stats.added_bytes = archive_bytes - base.map_or(0, |base| base.state.end);
    stats.archive_bytes = archive_bytes;
    Ok((out, stats))
}

/// Makes durable what is written behind an archive; a new one has no name yet.
fn sync<W: Write>(placing: &mut Placing<W>, base: Option<&Base>) -> Result<()> {
    let Some(base) = base else { return Ok(()) };
    placing.output.flush()?;
    base.store.sync()
}

/// Returns the sums of the state that is appended to.
fn unchanged(base: &Base) -> WriterStats {
    let commit = &base.state.commit;
    WriterStats {
        commit: commit.number,
        entries: commit.entries,
        files: commit.files,
        content_bytes: commit.content_bytes,
        piece_bytes: commit.piece_bytes,
        stored_bytes: commit.stored_bytes,
        blocks: commit.blocks,
        pieces: commit.pieces,
        archive_bytes: base.state.end,
        ..WriterStats::default()
    }
}

/// Writes the changed parts of the entry tree and returns its root.
fn merge_entries<W: Write>(
    placing: &mut Placing<W>,
    index: &Index,
    ids: &[EntryId],
    base: &Base,
    stats: &mut WriterStats,
    monitor: &dyn Monitor,
) -> Result<Option<FrameRef>> {
    let commit = &base.state.commit;
    let (entries, content_bytes) = (commit.entries, commit.content_bytes);
    let root = commit.entry_root.map(|page| Child { key: Box::default(), page, entries, content_bytes });
    let cuts: Vec<EntryPath> = base.changes.cuts.iter().cloned().collect();
    let merged = merge(&base.reader, root, index, ids, &cuts, placing, monitor)?;
    stats.entries = merged.entries;
    stats.content_bytes = merged.content_bytes;
    stats.files = (commit.files + merged.delta.files_added).saturating_sub(merged.delta.files_removed);
    (stats.added, stats.replaced, stats.removed) = (merged.delta.added, merged.delta.replaced, merged.delta.removed);
    Ok(merged.root)
}

/// Writes the run of the new pieces and returns all runs; when there would be too many, the smallest ones become one.
fn write_runs<W: Write>(placing: &mut Placing<W>, index: &Index, base: Option<&Base>) -> Result<Vec<FrameRef>> {
    let mut runs = base.map_or_else(Vec::new, |base| base.state.commit.runs.clone());
    let mut places = new_places(index);
    if places.is_empty() {
        return Ok(runs);
    }
    if let Some(base) = base
        && runs.len() >= MAX_RUNS as usize
    {
        merge_runs(&base.reader, &mut runs, &mut places)?;
    }
    runs.extend(write_chunk_run(&mut placing.output, placing.bench.pages()?, places)?);
    Ok(runs)
}

/// Takes runs off the list and adds their pieces to `places`: the last ones, as long as they are not much longer than what is
/// behind them, so that a piece is written again only a few times however many commits there are.
fn merge_runs(reader: &NraReader, runs: &mut Vec<FrameRef>, places: &mut Vec<ChunkPlace>) -> Result<()> {
    const FACTOR: u64 = 2;
    while let Some(&last) = runs.last() {
        let before = places.len();
        let taken = reader.run_len(last).and_then(|len| {
            let is_long = len > (before as u64).saturating_mul(FACTOR);
            if is_long && runs.len() < MAX_RUNS as usize { Ok(false) } else { reader.run_places(last, places).map(|()| true) }
        });
        match taken {
            Ok(true) => {}
            Ok(false) => break,
            // Nothing is found by it any more, and verifying tells.
            Err(error) if is_damage(&error) => places.truncate(before),
            Err(error) => return Err(error),
        }
        runs.pop();
    }
    Ok(())
}

/// Entries as they come into the index.
struct Ordered {
    /// In path order.
    ids: Vec<EntryId>,
    /// Those whose records have to be written once more.
    again: Vec<EntryId>,
    /// How many are left out, since others lie below their paths.
    left_out: u64,
}

/// Returns the entries of the archive in path order, and those that must be recorded again: of several with one path the last
/// one holds, directories that nobody added are added, and link groups of one are none.
fn order(index: &mut Index, base: Option<&Base>, repeats: bool, monitor: &dyn Monitor) -> Result<Ordered> {
    let all = index.entries.iter().enumerate().filter(|(_, added)| !added.gone);
    let mut ids = all.map(|(number, _)| EntryId::new(number)).collect::<Result<Vec<_>>>()?;
    // Stable, so that equal paths stay in the order in which they came.
    ids.sort_by(|&a, &b| index.entry(a).entry.path.cmp(&index.entry(b).entry.path));
    let mut again = Vec::new();
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
                // The record of the one before may lie behind its own.
                again.push(id);
            }
            _ => kept.push(id),
        }
    }
    let mut left_out = 0;
    let kept = add_parents(index, base, kept, &mut again, &mut left_out, monitor)?;
    for &id in &kept {
        if index.is_alone(id) {
            index.entry_mut(id).entry.link_group = 0;
            again.push(id);
        }
    }
    again.extend(overtaken(index, &kept));
    again.sort_unstable();
    again.dedup();
    Ok(Ordered { ids: kept, again, left_out })
}

/// Returns the entries whose records may lie in front of one of an entry that is gone, and that a scan would take for replaced by it:
/// one of the same path, or one that can't be together with it.
fn overtaken(index: &Index, kept: &[EntryId]) -> Vec<EntryId> {
    // Whether one of that path is no directory.
    let mut gone: BTreeMap<EntryPath, bool> = BTreeMap::new();
    for Added { entry, .. } in index.entries.iter().filter(|added| added.gone) {
        *gone.entry(entry.path.clone()).or_default() |= entry.kind != Kind::Directory;
    }
    if gone.is_empty() {
        return Vec::new();
    }
    let is_overtaken = |&&id: &&EntryId| {
        let entry = &index.entry(id).entry;
        let next = gone.range(entry.path.clone()..).next().map(|(path, _)| path);
        next.is_some_and(|next| *next == entry.path || entry.kind != Kind::Directory && next.is_below(&entry.path))
            || entry.path.above().any(|above| gone.get(&above) == Some(&true))
    };
    kept.iter().filter(is_overtaken).copied().collect()
}

/// Adds the directories that are missing above entries in path order.
fn add_parents(
    index: &mut Index,
    base: Option<&Base>,
    ids: Vec<EntryId>,
    again: &mut Vec<EntryId>,
    left_out: &mut u64,
    monitor: &dyn Monitor,
) -> Result<Vec<EntryId>> {
    let mut complete: Vec<EntryId> = Vec::with_capacity(ids.len());
    // The directories above the entry that is looked at, as far as they are.
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
        // What has no directory in the base has none below it.
        let mut base = base;
        for path in missing {
            if let Some(last) = complete.pop_if(|last| index.entry(*last).entry.path == path) {
                index.leave_group(last);
                *left_out += 1;
                monitor.warn(Warning::degraded(path.as_bytes(), "left out: it is no directory, but entries lie below it"));
            }
            base = match base {
                Some(base) if base.has_directory(&path)? => Some(base),
                _ => None,
            };
            if base.is_none() {
                let parent = EntryId::new(index.entries.len())?;
                let mut entry = Entry::new(path.clone(), Kind::Directory);
                entry.implied = true;
                index.entries.push(Added::settled(entry));
                complete.push(parent);
                again.push(parent);
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
    placing: &mut Placing<W>,
    options: &WriterOptions,
    base: Option<&Base>,
) -> Result<Option<FrameRef>> {
    match base {
        Some(base) if base.attributes == options.attributes => return Ok(base.state.commit.attributes),
        _ if options.attributes.is_empty() => return Ok(None),
        _ => {}
    }
    let payload = encode_attributes(&options.attributes);
    write_page(&mut placing.output, FrameKind::Attributes, &payload, placing.bench.pages()?).map(Some)
}

/// Writes the entry tree and returns its root; the leaves are made by the workers.
fn write_entries<W: Write>(
    placing: &mut Placing<W>,
    index: Arc<Index>,
    ids: Vec<EntryId>,
    monitor: &dyn Monitor,
) -> Result<Option<FrameRef>> {
    let mut children = Vec::new();
    let mut place = |placing: &mut Placing<W>, leaves: Vec<NewLeaf>| -> Result<()> {
        for leaf in leaves {
            let page = leaf.page.write(&mut placing.output, FrameKind::EntryPage)?;
            children.push(Child { key: leaf.key, page, entries: leaf.entries, content_bytes: leaf.content_bytes });
        }
        Ok(())
    };
    if ids.len() <= LEAF_BATCH {
        let leaves = leaves(&index, &ids, 0..ids.len(), placing.sizes.leaf, &mut placing.bench)?;
        place(placing, leaves)?;
    } else {
        let batches: Vec<Range<usize>> =
            (0..ids.len()).step_by(LEAF_BATCH).map(|start| start..ids.len().min(start + LEAF_BATCH)).collect();
        let ids: Arc<[EntryId]> = ids.into();
        let leaf_bytes = placing.sizes.leaf;
        let (sender, results) = unbounded();
        for (ticket, range) in batches.iter().enumerate() {
            let (index, ids, range) = (index.clone(), ids.clone(), range.clone());
            placing.workers.submit(ticket as u64, &sender, move |bench| leaves(&index, &ids, range, leaf_bytes, bench))?;
        }
        let mut done: Vec<Option<Vec<NewLeaf>>> = batches.iter().map(|_| None).collect();
        for next in 0..done.len() {
            while done[next].is_none() {
                monitor.check()?;
                let (ticket, result) = results.recv().expect("this function holds a sender");
                done[usize::try_from(ticket).expect("a number of a batch")] = Some(result?);
            }
            place(placing, done[next].take().expect("received above"))?;
        }
    }
    write_levels(&mut placing.output, placing.bench.pages()?, children, 0, placing.sizes)
}

/// What a commit leads to.
struct Roots {
    entry_root: Option<FrameRef>,
    attributes: Option<FrameRef>,
    runs: Vec<FrameRef>,
    link_groups: u64,
    /// Offset and length of the key frame.
    keys: (u64, u64),
}

/// Writes the commit and returns the tail that goes behind it.
fn write_commit<W: Write>(
    placing: &mut Placing<W>,
    options: WriterOptions,
    stats: &WriterStats,
    roots: Roots,
    base: Option<&Base>,
) -> Result<Tail> {
    let mut commit = Commit {
        archive_id: [0; 16],
        number: stats.commit,
        time: options.time.or_else(|| if options.reproducible { None } else { now() }),
        entries: stats.entries,
        files: stats.files,
        content_bytes: stats.content_bytes,
        piece_bytes: stats.piece_bytes,
        stored_bytes: stats.stored_bytes,
        blocks: stats.blocks,
        pieces: stats.pieces,
        entry_root: roots.entry_root,
        previous: base.map(|base| base.state.place),
        attributes: roots.attributes,
        link_groups: roots.link_groups,
        runs: roots.runs,
        message: options.message,
    };
    if let Some(base) = base {
        commit.archive_id = base.state.commit.archive_id;
    } else if options.reproducible {
        commit.archive_id = commit.derived_id();
    } else {
        getrandom::fill(&mut commit.archive_id)
            .map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))?;
    }
    // Sums of the base may be close to the limit.
    commit.check().map_err(|detail| Error::corrupt("commit", placing.output.place(), detail))?;
    let payload = commit.encode();
    let raw_len = u32::try_from(payload.len()).expect("the message and the runs are bounded");
    let frame = placing.output.frame(NewFrame::payload(FrameKind::Commit, Codec::None, raw_len, &payload))?;
    let required = if roots.keys == (0, 0) { 0 } else { REQUIRED_ENCRYPTION };
    let (commit_offset, commit_length, keys) = (frame.offset, frame.length, roots.keys);
    Ok(Tail { required, commit_offset, commit_length, keys, number: commit.number })
}

fn now() -> Option<Timestamp> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(time.as_secs()).ok()?, nanoseconds: time.subsec_nanos() })
}
