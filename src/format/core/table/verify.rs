//! Verifies the contents of a table.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::archive::{ContentRef, TableArchive, TableBackend};
use crate::archive::{Damage, Depth, Verdict};
use crate::entry::{Entry, Kind};
use crate::error::{Error, Result};
use crate::path::EntryPath;
use crate::progress::{Counter, Monitor};

/// Maximum number of entries listed with a finding.
const NAMED: usize = 1_000;
/// Contents of one block that a thread verifies in a row.
const RUN: usize = 256;

/// Verifies the entries that `select` accepts; without `select`, the container, too.
pub(super) fn run<M: TableBackend>(
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
        verdict.damage = archive.losses.damage.clone();
        verdict.damage.extend(archive.members.check_container(depth, &mut verdict.blocks, monitor)?);
    }
    join(&mut verdict.damage, findings.into_damage(), &mut compare);
    Ok(verdict)
}

fn check<M: TableBackend>(
    archive: &TableArchive<M>,
    number: usize,
    depth: Depth,
    findings: &Findings,
    monitor: &dyn Monitor,
) -> Result<()> {
    monitor.check()?;
    let Some(Entry { path, size, location, .. }) = archive.table().entry(number) else { return Ok(()) };
    let Some((number, place)) = location.number() else { return Ok(()) };
    monitor.current(path.as_bytes());
    match archive.members.check(&ContentRef { number, place, size }, depth) {
        Ok(()) => {}
        Err(Error::Corrupt { structure, offset, detail }) => findings.add(structure, offset, detail, path),
        Err(error @ (Error::Limit { .. } | Error::ResourceLimit { .. } | Error::Unsupported { .. })) => {
            findings.add("member", place.0, error.to_string(), path)
        }
        Err(error) => return Err(error.of_entry(path.as_bytes())),
    }
    monitor.add(Counter::Entries, 1);
    monitor.add(Counter::Bytes, size);
    Ok(())
}

/// Adds damage of contents to damage of the container, without duplicates.
fn join(damage: &mut Vec<Damage>, found: impl Iterator<Item = Damage>, compare: &mut dyn FnMut(&Damage, &Damage) -> Ordering) {
    // The findings are unique: only the container can have reported one before.
    let mut of_container: Vec<usize> = (0..damage.len()).collect();
    of_container.sort_by(|&a, &b| compare(&damage[a], &damage[b]));
    for found in found {
        match of_container.binary_search_by(|&at| compare(&damage[at], &found)) {
            // Unreadable entries are among those that may be damaged.
            Ok(at) if !damage[of_container[at]].is_certain => {}
            Ok(at) => damage[of_container[at]] = found,
            Err(_) => damage.push(found),
        }
    }
}

/// Compares the identity of findings.
fn compare(a: &Damage, b: &Damage) -> Ordering {
    (a.offset, &a.structure, &a.detail).cmp(&(b.offset, &b.structure, &b.detail))
}

/// Identity of a finding: offset, structure, detail.
type Finding = (u64, &'static str, String);

/// Findings so far with the entries that each affects.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_takes_few_steps_for_many_findings() {
        const MEMBERS: u64 = 100_000;
        for of_container in [0, 1_000] {
            let uncertain = |offset| Damage { is_certain: offset % 2 == 0, ..Damage::new("member", offset, "wrong".into()) };
            let mut damage: Vec<Damage> = (0..of_container).rev().map(uncertain).collect();
            let found = |offset| Damage { entry_count: 1, ..Damage::new("member", offset, "wrong".into()) };
            let mut steps = 0u64;
            join(&mut damage, (0..MEMBERS).map(found), &mut |a, b| {
                steps += 1;
                compare(a, b)
            });
            assert!(steps <= MEMBERS * 12 + of_container * 12, "{steps} steps");
            assert_eq!(damage.len() as u64, MEMBERS, "no duplicates");
            // Only certain damage of the container is replaced by a finding of the same identity.
            let replaced = damage.iter().filter(|known| known.offset < of_container && known.entry_count == 1).count() as u64;
            assert_eq!(replaced, of_container / 2);
        }
    }
}
