//! Verification: every byte of the file, and all rules of the specification that relate structures
//! to each other.
//!
//! Frames are checked in parallel in the caller's thread pool, some hundreds at a time. Then the
//! entry tree is walked once. In between, memory holds 16 bytes per record, 8 per chunk (16 if it
//! is uncompressed) and 20 per block. Each thread holds one frame, stored and decompressed.
//!
//! Without an index, the entries are those in block indexes.
//!
//! Spec: nra.md, sections 22 and 23.

mod chunk_runs;
mod commits;
mod damage_list;
mod entry_tree;
mod fingerprints;
mod frame;
mod frame_survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::commit::Commit;
use crate::content::Extent;
use crate::entry_page::Child;
use crate::frame::FrameKind;
use crate::reader::window::Window;
use crate::reader::{NraReader, Root};
use crate::recovery;
use nra_core::archive::{Archive, Depth, Verdict};
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::progress::{Counter, Monitor};

use damage_list::{DamageList, Finding};
use entry_tree::{EntryCheck, TreeCheck};
use frame_survey::FrameSurvey;

/// Checks the archive, or the entries that `select` accepts and their blocks.
pub(super) fn run(
    reader: &NraReader,
    depth: Depth,
    select: Option<&(dyn Fn(&Entry) -> bool + Sync)>,
    monitor: &dyn Monitor,
) -> Result<Verdict> {
    match select {
        None => verify_archive(reader, depth, monitor),
        Some(select) => verify_selected(reader, depth, select, monitor),
    }
}

fn verify_archive(reader: &NraReader, depth: Depth, monitor: &dyn Monitor) -> Result<Verdict> {
    let window = &reader.window;
    let (mut damage, mut verdict) = (DamageList::default(), Verdict::default());
    monitor.expect(Counter::Bytes, reader.info.chunk_bytes.unwrap_or_default());
    monitor.expect(Counter::Entries, reader.info.entries);
    let recovery = recovery::find_at_end(window.source())?;
    let end = match &reader.commit {
        Some((_, end)) => *end,
        None => recovery.map_or(window.file_len(), |layout| layout.protected),
    };
    let end = end.min(window.file_len());
    let footer = commits::footer(window, end, &mut damage)?;
    commits::superblock(window, footer.as_ref(), &mut damage)?;
    // Bytes after an earlier commit that is checked do not matter; only those after the newest
    // commit do. The reader reports stray bytes as a remark, not as damage.
    let more = end < window.file_len() && reader.is_newest;
    let is_protected = recovery.is_some_and(|layout| layout.protected == end);
    if more && !is_protected && reader.trailing_remark.is_none() {
        let detail = format!("{} bytes between the last commit and the footer at the end are damaged", window.file_len() - end);
        damage.report(FrameKind::Recovery.name(), end, detail);
    }
    let mut survey = FrameSurvey::new(window, depth);
    survey.check_all(end, &mut damage, monitor)?;
    verdict.blocks = survey.blocks.len();
    let commit_offset = footer.map_or(end, |footer| footer.commit_offset);
    if let Some((commit, _)) = &reader.commit {
        commits::commits(window, commit, end, &mut damage, monitor)?;
        chunk_runs::check(window, &survey, &commit.runs, commit_offset, &mut damage, monitor)?;
    }
    let check = EntryCheck::new(reader, &survey, &mut damage, monitor, &mut verdict);
    match (&reader.commit, &reader.root) {
        (Some((commit, _)), Root::EntryPage(root)) => {
            let mut tree = TreeCheck::new(check);
            tree.run(Child { key: Box::default(), ..root.clone() })?;
            let (files, is_complete) = (tree.files(), tree.is_complete);
            if is_complete {
                check_sums(commit, &survey, files, commit_offset, &mut damage);
            }
        }
        _ => check_entries(reader, check, &|_| true, monitor)?,
    }
    // Recovery data without its end is worth a search if there is something to restore.
    if recovery.is_some() || more || !damage.is_empty() {
        check_recovery_data(window, &mut verdict, &mut damage, monitor)?;
    }
    verdict.damage = damage.finish();
    Ok(verdict)
}

/// Checks recovery data, and the protected bytes against it.
fn check_recovery_data(window: &Window, verdict: &mut Verdict, damage: &mut DamageList, monitor: &dyn Monitor) -> Result<()> {
    let Some(report) = recovery::check(window.source(), monitor)? else { return Ok(()) };
    verdict.restorable = Some(report.is_restorable());
    if !report.recovery_is_whole {
        let detail = match report.damaged_parity_shards {
            0 => "it is damaged".to_owned(),
            damaged => format!("{damaged} of its shards are damaged"),
        };
        damage.report(FrameKind::Recovery.name(), report.recovery_header.protected, detail);
    }
    if report.damaged_shards > 0 && damage.is_empty() {
        let place = report.damaged.first().map_or(0, |run| run.0);
        damage.report("archive", place, "the bytes differ from those that the recovery data protects");
    }
    Ok(())
}

/// Compares the totals of the commit with the frames.
fn check_sums(commit: &Commit, survey: &FrameSurvey<'_>, files: u64, offset: u64, damage: &mut DamageList) {
    let mut recorded = vec![("files", commit.files, files)];
    if survey.is_complete {
        recorded.extend([
            ("blocks", commit.blocks, survey.blocks.len()),
            ("chunks", commit.chunks, survey.chunk_count),
            ("chunk bytes", commit.chunk_bytes, survey.chunk_bytes),
            ("stored bytes", commit.stored_bytes, survey.stored_bytes),
        ]);
    }
    let wrong: Vec<String> = recorded
        .into_iter()
        .filter(|(_, recorded, found)| recorded != found)
        .map(|(what, recorded, found)| format!("{what}: {recorded} recorded, {found} found"))
        .collect();
    if !wrong.is_empty() {
        damage.report(FrameKind::Commit.name(), offset, wrong.join("; "));
    }
}

/// Checks the content of the entries that the reader returns.
fn check_entries(
    reader: &NraReader,
    mut check: EntryCheck<'_>,
    select: &dyn Fn(&Entry) -> bool,
    monitor: &dyn Monitor,
) -> Result<()> {
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

fn verify_selected(
    reader: &NraReader,
    depth: Depth,
    select: &(dyn Fn(&Entry) -> bool + Sync),
    monitor: &dyn Monitor,
) -> Result<Verdict> {
    let (mut damage, mut verdict) = (DamageList::default(), Verdict::default());
    let mut blocks = BTreeSet::new();
    let mut expected = 0;
    for entry in reader.entries(0..reader.info.entries) {
        monitor.check()?;
        // Errors are reported in the second pass below.
        let Ok(entry) = entry else { continue };
        if !select(&entry) {
            continue;
        }
        expected += 1;
        let mut visit = |extent: &Extent| {
            blocks.insert(extent.block.offset);
            monitor.check()
        };
        if let Err(error) = reader.each_extent(&entry, &mut visit) {
            Finding::from_error(error, FrameKind::ExtentPage.name(), entry.position().0)?;
        }
    }
    monitor.expect(Counter::Entries, expected);
    let mut survey = FrameSurvey::new(&reader.window, depth);
    survey.check_blocks(blocks.into_iter(), &mut damage, monitor)?;
    // Only some block indexes were read.
    survey.is_complete = false;
    verdict.blocks = survey.blocks.len();
    let check = EntryCheck::new(reader, &survey, &mut damage, monitor, &mut verdict);
    check_entries(reader, check, select, monitor)?;
    verdict.damage = damage.finish();
    Ok(verdict)
}
