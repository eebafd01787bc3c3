//! Ends an archive: order of the entries, index, commit, tail. Spec: nra.md, section 3.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::unbounded;

use crate::format::codec::Codec;
use crate::format::entry::{Entry, Kind, Timestamp};
use crate::format::error::{Error, Result};
use crate::format::nra::commit::{Commit, encode_attributes};
use crate::format::nra::content::FrameRef;
use crate::format::nra::frame::FrameKind;
use crate::format::nra::head::Tail;
use crate::format::nra::page::Child;
use crate::format::nra::writer::index::{Added, Index, Source};
use crate::format::nra::writer::options::{WriterOptions, WriterStats};
use crate::format::nra::writer::output::NewFrame;
use crate::format::nra::writer::placing::Placing;
use crate::format::nra::writer::trees::{Leaf, leaves, write_chunk_run, write_entry_tree, write_page};
use crate::format::nra::writer::{EntryId, Writer};
use crate::format::path::EntryPath;
use crate::format::progress::{Monitor, Warning};

/// Entries whose leaves one worker makes at a time.
const LEAF_BATCH: usize = 8_192;

pub(super) fn finish<W: Write + Send>(writer: Writer<W>, monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
    let Writer { options, mut placing, mut index, deduplicated_bytes, .. } = writer;
    let (ids, again) = order(&mut index, monitor)?;
    for id in again {
        placing.carry(id, &mut index)?;
    }
    placing.drain(&mut index)?;
    monitor.check()?;

    let run = write_chunk_run(&mut placing.output, placing.bench.pages()?, &index)?;
    let attributes = write_attributes(&mut placing, &options)?;
    let mut stats = WriterStats {
        entries: ids.len() as u64,
        piece_bytes: placing.piece_bytes,
        stored_bytes: placing.stored_bytes,
        deduplicated_bytes,
        blocks: index.blocks.len() as u64,
        pieces: index.pieces.len() as u64,
        ..WriterStats::default()
    };
    for &id in &ids {
        let entry = &index.entry(id).entry;
        stats.files += u64::from(entry.kind == Kind::File);
        stats.content_bytes += entry.size;
    }
    let entry_root = write_entries(&mut placing, Arc::new(index), ids, monitor)?;
    write_commit(&mut placing, options, &stats, Roots { entry_root, attributes, run })?;
    let (out, archive_bytes) = placing.output.finish()?;
    stats.archive_bytes = archive_bytes;
    Ok((out, stats))
}

/// Returns the entries of the archive in path order, and those that must be recorded again: of several with one path the last
/// one holds, directories that nobody added are added, and link groups of one are none.
fn order(index: &mut Index, monitor: &dyn Monitor) -> Result<(Vec<EntryId>, Vec<EntryId>)> {
    let mut ids = (0..index.entries.len()).map(EntryId::new).collect::<Result<Vec<_>>>()?;
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
                    monitor.warn(Warning { path: a.path.as_bytes().to_vec(), message, degraded: true, damage: false });
                }
                index.leave_group(*last);
                *last = id;
                // The record of the one before may lie behind its own.
                again.push(id);
            }
            _ => kept.push(id),
        }
    }
    let kept = add_parents(index, kept, &mut again, monitor)?;
    for &id in &kept {
        if index.is_alone(id) {
            index.entry_mut(id).entry.link_group = 0;
            again.push(id);
        }
    }
    again.sort_unstable();
    again.dedup();
    Ok((kept, again))
}

/// Adds the directories that are missing above entries in path order.
fn add_parents(index: &mut Index, ids: Vec<EntryId>, again: &mut Vec<EntryId>, monitor: &dyn Monitor) -> Result<Vec<EntryId>> {
    let mut complete: Vec<EntryId> = Vec::with_capacity(ids.len());
    // The directories above the entry that is looked at.
    let mut above: Vec<EntryId> = Vec::new();
    for id in ids {
        let path = &index.entry(id).entry.path;
        while above.last().is_some_and(|&top| !path.is_below(&index.entry(top).entry.path)) {
            above.pop();
        }
        let known = above.last().map_or(0, |&top| index.entry(top).entry.path.as_bytes().len() + 1);
        let bytes = path.as_bytes();
        let missing: Vec<EntryPath> =
            (known..bytes.len()).filter(|&at| bytes[at] == b'/').map(|at| EntryPath::from_checked(&bytes[..at])).collect();
        for path in missing {
            if let Some(last) = complete.pop_if(|last| index.entry(*last).entry.path == path) {
                index.leave_group(last);
                monitor.warn(Warning {
                    path: path.as_bytes().to_vec(),
                    message: "left out: it is no directory, but entries lie below it".into(),
                    degraded: true,
                    damage: false,
                });
            }
            let parent = EntryId::new(index.entries.len())?;
            let mut entry = Entry::new(path, Kind::Directory);
            entry.implied = true;
            index.entries.push(Added { entry, source: Source::Settled, touched: [0; 3], group: 0, waits: 0 });
            complete.push(parent);
            above.push(parent);
            again.push(parent);
        }
        complete.push(id);
        if index.entry(id).entry.kind == Kind::Directory {
            above.push(id);
        }
    }
    Ok(complete)
}

fn write_attributes<W: Write>(placing: &mut Placing<W>, options: &WriterOptions) -> Result<Option<FrameRef>> {
    if options.attributes.is_empty() {
        return Ok(None);
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
    let mut place = |placing: &mut Placing<W>, leaves: Vec<Leaf>| -> Result<()> {
        for leaf in leaves {
            let page = leaf.page.write(&mut placing.output, FrameKind::EntryPage)?;
            children.push(Child { key: leaf.key, page, entries: leaf.entries, content_bytes: leaf.content_bytes });
        }
        Ok(())
    };
    if ids.len() <= LEAF_BATCH {
        let leaves = leaves(&index, &ids, 0..ids.len(), &mut placing.bench)?;
        place(placing, leaves)?;
    } else {
        let batches: Vec<Range<usize>> =
            (0..ids.len()).step_by(LEAF_BATCH).map(|start| start..ids.len().min(start + LEAF_BATCH)).collect();
        let ids: Arc<[EntryId]> = ids.into();
        let (sender, results) = unbounded();
        for (ticket, range) in batches.iter().enumerate() {
            let (index, ids, range) = (index.clone(), ids.clone(), range.clone());
            placing.workers.submit(ticket as u64, &sender, move |bench| leaves(&index, &ids, range, bench))?;
        }
        let mut done: Vec<Option<Vec<Leaf>>> = batches.iter().map(|_| None).collect();
        for next in 0..done.len() {
            while done[next].is_none() {
                monitor.check()?;
                let (ticket, result) = results.recv().expect("this function holds a sender");
                done[usize::try_from(ticket).expect("a number of a batch")] = Some(result?);
            }
            place(placing, done[next].take().expect("received above"))?;
        }
    }
    write_entry_tree(&mut placing.output, placing.bench.pages()?, children)
}

/// What a commit leads to.
struct Roots {
    entry_root: Option<FrameRef>,
    attributes: Option<FrameRef>,
    run: Option<FrameRef>,
}

fn write_commit<W: Write>(placing: &mut Placing<W>, options: WriterOptions, stats: &WriterStats, roots: Roots) -> Result<()> {
    let mut commit = Commit {
        archive_id: [0; 16],
        number: 1,
        time: options.time.or_else(|| if options.reproducible { None } else { now() }),
        entries: stats.entries,
        files: stats.files,
        content_bytes: stats.content_bytes,
        piece_bytes: stats.piece_bytes,
        stored_bytes: stats.stored_bytes,
        blocks: stats.blocks,
        pieces: stats.pieces,
        entry_root: roots.entry_root,
        previous: None,
        attributes: roots.attributes,
        recovery: None,
        runs: roots.run.into_iter().collect(),
        message: options.message,
    };
    if options.reproducible {
        commit.archive_id = commit.derived_id();
    } else {
        getrandom::fill(&mut commit.archive_id)
            .map_err(|error| Error::io("get", "random bytes", std::io::Error::other(error.to_string())))?;
    }
    let payload = commit.encode();
    let raw_len = u32::try_from(payload.len()).expect("the message and the runs are bounded");
    let frame = placing.output.frame(NewFrame::payload(FrameKind::Commit, Codec::None, raw_len, &payload))?;
    let tail =
        Tail { required: 0, commit_offset: frame.offset, commit_length: frame.length, keys: (0, 0), number: commit.number };
    let bytes = tail.encode(placing.output.place());
    placing.output.write(&bytes)
}

fn now() -> Option<Timestamp> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(time.as_secs()).ok()?, nanoseconds: time.subsec_nanos() })
}
