//! Verifying: every byte of the file, and all that the spec asks of structures together.
//!
//! Frames are checked in parallel, in the thread pool of the caller, some hundreds at a time; then the entry tree is gone through once.
//! Between the two, 16 bytes are kept for each record, 8 for each piece (16 if it is not compressed) and 20 for each block;
//! a thread holds one frame, stored and decompressed.
//!
//! Without an index the entries are those that the directories of blocks record.
//!
//! Spec: nra.md, sections 22 and 23.

mod block;
mod fixed;
mod ledger;
mod prints;
mod runs;
mod survey;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeSet;

use crate::commit::Commit;
use crate::content::Segment;
use crate::frame::FrameKind;
use crate::page::Child;
use crate::reader::window::Window;
use crate::reader::{NraReader, Root};
use crate::recovery;
use nra_core::archive::{Archive, Depth, Verdict};
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::progress::{Counter, Monitor};

use ledger::{Finding, Ledger};
use survey::Survey;
use tree::{EntryCheck, TreeCheck};

/// Checks the archive, or the entries that `select` accepts and the blocks they are in.
pub(super) fn run(
    reader: &NraReader,
    depth: Depth,
    select: Option<&(dyn Fn(&Entry) -> bool + Sync)>,
    monitor: &dyn Monitor,
) -> Result<Verdict> {
    match select {
        None => whole(reader, depth, monitor),
        Some(select) => some(reader, depth, select, monitor),
    }
}

fn whole(reader: &NraReader, depth: Depth, monitor: &dyn Monitor) -> Result<Verdict> {
    let window = &reader.window;
    let (mut ledger, mut verdict) = (Ledger::default(), Verdict::default());
    monitor.expect(Counter::Bytes, reader.info.chunk_bytes.unwrap_or_default());
    monitor.expect(Counter::Entries, reader.info.entries);
    let recovery = recovery::present(window.source())?;
    let end = match &reader.state {
        Some((_, end)) => *end,
        None => recovery.map_or(window.file_len(), |geometry| geometry.protected),
    };
    let end = end.min(window.file_len());
    let tail = fixed::tail(window, end, &mut ledger)?;
    fixed::head(window, tail.as_ref(), &mut ledger)?;
    // What came after the commit that is checked is no business of it; only what is behind all commits is. Remains that belong to nothing
    // are told by the reader, and no fault.
    let more = end < window.file_len() && reader.is_newest;
    let is_protected = recovery.is_some_and(|geometry| geometry.protected == end);
    if more && !is_protected && reader.remains.is_none() {
        let detail = format!("{} bytes between the last commit and the tail at the end are not whole", window.file_len() - end);
        ledger.add(Finding::new(FrameKind::Recovery.name(), end, detail));
    }
    let mut survey = Survey::new(window, depth);
    survey.all(end, &mut ledger, monitor)?;
    verdict.blocks = survey.blocks.len();
    let commit_offset = tail.map_or(end, |tail| tail.commit_offset);
    if let Some((commit, _)) = &reader.state {
        fixed::commits(window, commit, end, &mut ledger, monitor)?;
        runs::check(window, &survey, &commit.runs, commit_offset, &mut ledger, monitor)?;
    }
    let check = EntryCheck::new(reader, &survey, &mut ledger, monitor, &mut verdict);
    match (&reader.state, &reader.root) {
        (Some((commit, _)), Root::Page(root)) => {
            let mut tree = TreeCheck::new(check);
            tree.run(Child { key: Box::default(), ..root.clone() })?;
            let (files, is_complete) = (tree.files(), tree.is_complete);
            if is_complete {
                sums(commit, &survey, files, commit_offset, &mut ledger);
            }
        }
        _ => each(reader, check, &|_| true, monitor)?,
    }
    // Recovery data that lost its end is worth a search when there is something to restore.
    if recovery.is_some() || more || !ledger.is_empty() {
        restorable(window, &mut verdict, &mut ledger, monitor)?;
    }
    verdict.damage = ledger.finish();
    Ok(verdict)
}

/// Checks recovery data, and all that it protects by it.
fn restorable(window: &Window, verdict: &mut Verdict, ledger: &mut Ledger, monitor: &dyn Monitor) -> Result<()> {
    let Some(report) = recovery::check(window.source(), monitor)? else { return Ok(()) };
    verdict.restorable = Some(report.is_restorable());
    if !report.recovery_is_whole {
        let detail = match report.damaged_parities {
            0 => "its parts are not what they were".to_owned(),
            damaged => format!("{damaged} of its shards are damaged"),
        };
        ledger.add(Finding::new(FrameKind::Recovery.name(), report.geometry.protected, detail));
    }
    if report.damaged_shards > 0 && ledger.is_empty() {
        let place = report.damaged.first().map_or(0, |run| run.0);
        ledger.add(Finding::new("archive", place, "the bytes are not those that the recovery data was made of"));
    }
    Ok(())
}

/// Compares what the commit says with what there is.
fn sums(commit: &Commit, survey: &Survey<'_>, files: u64, offset: u64, ledger: &mut Ledger) {
    let mut told = vec![("files", commit.files, files)];
    if survey.is_complete {
        told.extend([
            ("blocks", commit.blocks, survey.blocks.len()),
            ("pieces", commit.pieces, survey.piece_count),
            ("piece bytes", commit.piece_bytes, survey.piece_bytes),
            ("stored bytes", commit.stored_bytes, survey.stored_bytes),
        ]);
    }
    let wrong: Vec<String> = told
        .into_iter()
        .filter(|(_, told, found)| told != found)
        .map(|(what, told, found)| format!("{what}: {told} told, {found} found"))
        .collect();
    if !wrong.is_empty() {
        ledger.add(Finding::new(FrameKind::Commit.name(), offset, wrong.join("; ")));
    }
}

/// Checks the content of entries as the reader gives them.
fn each(reader: &NraReader, mut check: EntryCheck<'_>, select: &dyn Fn(&Entry) -> bool, monitor: &dyn Monitor) -> Result<()> {
    for entry in reader.entries(0..reader.info.entries) {
        monitor.check()?;
        match entry {
            Ok(entry) if select(&entry) => check.entry(&entry, 0)?,
            Ok(_) => {}
            Err(error) => check.page(error)?,
        }
    }
    Ok(())
}

fn some(reader: &NraReader, depth: Depth, select: &(dyn Fn(&Entry) -> bool + Sync), monitor: &dyn Monitor) -> Result<Verdict> {
    let (mut ledger, mut verdict) = (Ledger::default(), Verdict::default());
    let mut blocks = BTreeSet::new();
    let mut expected = 0;
    for entry in reader.entries(0..reader.info.entries) {
        monitor.check()?;
        // What does not read is met, and reported, once more below.
        let Ok(entry) = entry else { continue };
        if !select(&entry) {
            continue;
        }
        expected += 1;
        let mut visit = |segment: &Segment, _| {
            if let Segment::Data(extent) = segment {
                blocks.insert(extent.block.offset);
            }
            monitor.check()
        };
        if let Err(error) = reader.each_segment(&entry, 0..entry.size, &mut visit) {
            Finding::from_error(error, FrameKind::ExtentPage.name(), entry.position().0)?;
        }
    }
    monitor.expect(Counter::Entries, expected);
    let mut survey = Survey::new(&reader.window, depth);
    survey.some(blocks.into_iter(), &mut ledger, monitor)?;
    // Only some directories were read.
    survey.is_complete = false;
    verdict.blocks = survey.blocks.len();
    let check = EntryCheck::new(reader, &survey, &mut ledger, monitor, &mut verdict);
    each(reader, check, select, monitor)?;
    verdict.damage = ledger.finish();
    Ok(verdict)
}
