//! Checking the members of a table.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::archive::{Member, Members, TableArchive};
use crate::format::archive::{Damage, Depth, Verdict};
use crate::format::entry::{Entry, Kind, Location};
use crate::format::error::{Error, Result};
use crate::format::path::EntryPath;
use crate::format::progress::{Counter, Monitor};

/// Entries that are named with a finding.
const NAMED: usize = 1_000;
/// Members that a thread checks in a row when they lie in one unit.
const RUN: usize = 256;

/// Checks the entries that `select` accepts; without it the container too.
pub(super) fn run<M: Members>(
    archive: &TableArchive<M>,
    depth: Depth,
    select: Option<&(dyn Fn(&Entry) -> bool + Sync)>,
    monitor: &dyn Monitor,
) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let mut numbers = Vec::new();
    for number in 0..archive.table().len() {
        let Some(entry) = archive.table().entry(number) else { continue };
        if select.is_none_or(|select| select(&entry)) {
            verdict.entries += 1;
            verdict.content_bytes = verdict.content_bytes.saturating_add(entry.size);
            if entry.kind == Kind::File {
                numbers.push(number);
            }
        }
    }
    monitor.expect(Counter::Entries, numbers.len() as u64);
    monitor.expect(Counter::Bytes, verdict.content_bytes);
    numbers.sort_by_key(|&number| archive.table().place(number));
    let findings = Findings::default();
    let check = |run: &[usize]| run.iter().try_for_each(|&number| check(archive, number, depth, &findings, monitor));
    if archive.members.is_sequential() {
        check(&numbers)?;
    } else {
        let unit = |number: &usize| archive.table().place(*number).0;
        let runs: Vec<&[usize]> = numbers.chunk_by(|a, b| unit(a) == unit(b)).flat_map(|unit| unit.chunks(RUN)).collect();
        runs.par_iter().try_for_each(|run| check(run))?;
    }
    if select.is_none() {
        verdict.damage = archive.members.check_container(depth, &mut verdict.blocks, monitor)?;
    }
    for found in findings.into_damage() {
        let is_same = |known: &&mut Damage| {
            (&known.structure, known.offset, &known.detail) == (&found.structure, found.offset, &found.detail)
        };
        match verdict.damage.iter_mut().find(is_same) {
            // Entries that do not read are among those that may be hurt.
            Some(known) if !known.is_certain => {}
            Some(known) => *known = found,
            None => verdict.damage.push(found),
        }
    }
    Ok(verdict)
}

fn check<M: Members>(
    archive: &TableArchive<M>,
    number: usize,
    depth: Depth,
    findings: &Findings,
    monitor: &dyn Monitor,
) -> Result<()> {
    monitor.check()?;
    let Some(Entry { path, size, location: Location::Member { number, place }, .. }) = archive.table().entry(number) else {
        return Ok(());
    };
    monitor.current(path.as_bytes());
    match archive.members.check(&Member { number, place, size }, depth) {
        Ok(()) => {}
        Err(Error::Corrupt { structure, offset, detail }) => findings.add(structure, offset, detail, path),
        Err(error @ (Error::Limit { .. } | Error::Unsupported { .. })) => {
            findings.add("member", place.0, error.to_string(), path)
        }
        Err(error) => return Err(error.of_entry(path.as_bytes())),
    }
    monitor.add(Counter::Entries, 1);
    monitor.add(Counter::Bytes, size);
    Ok(())
}

/// Offset, structure, detail: what makes a finding.
type Finding = (u64, &'static str, String);

/// Findings so far, each once with the entries that it hurts.
#[derive(Default)]
struct Findings(Mutex<BTreeMap<Finding, (Vec<EntryPath>, u64)>>);

impl Findings {
    fn add(&self, structure: &'static str, offset: u64, detail: String, path: EntryPath) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (paths, count) = all.entry((offset, structure, detail)).or_default();
        *count += 1;
        if paths.len() < NAMED {
            paths.push(path);
        }
    }

    fn into_damage(self) -> impl Iterator<Item = Damage> {
        let all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.into_iter().map(|((offset, structure, detail), (mut entries, entry_count))| {
            entries.sort();
            Damage { structure: structure.into(), offset, detail, entries, entry_count, is_certain: true }
        })
    }
}
