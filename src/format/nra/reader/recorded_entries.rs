//! Entries collected from block indexes: the last record of each path, with parent directories,
//! within memory limits.
//!
//! Spec: nra.md, sections 7 and 22.

use std::collections::HashSet;

use crate::reader::memory::weight_beside;
use nra_core::entry::{Entry, Kind};
use nra_core::error::Result;
use nra_core::limits;
use nra_core::path::EntryPath;

/// Memory per byte of the file. Archives of empty files with names that compress well come close to
/// it; hostile files would need thousands.
const BYTES_FOR_A_BYTE: u64 = 256;
/// Limit of the path bytes of implied parent directories. A single long path can imply gigabytes of
/// them.
const PARENT_BYTES: usize = 64 << 20;
/// Memory of records at which superseded records are discarded for the first time, bytes.
const FIRST_FULL: u64 = 16 << 20;

/// Records in file order.
pub(super) struct RecordedEntries {
    /// Records with ascending numbers.
    records: Vec<(u64, Entry)>,
    next: u64,
    /// Memory of the records, bytes.
    weight: u64,
    limit: u64,
    /// Memory at which superseded records are discarded.
    full: u64,
}

impl RecordedEntries {
    /// Prepares for a file of this length. `memory` is the limit for short files, bytes.
    pub(super) fn new(file_len: u64, memory: u64) -> Self {
        let limit = file_len.saturating_mul(BYTES_FOR_A_BYTE).max(memory);
        Self { records: Vec::new(), next: 0, weight: 0, limit, full: limit.min(FIRST_FULL) }
    }

    /// Adds the records of a block index.
    pub(super) fn add(&mut self, entries: impl Iterator<Item = Entry>) -> Result<()> {
        let mut shared = HashSet::new();
        for entry in entries {
            self.weight = self.weight.saturating_add(weight(&entry, &mut shared));
            self.records.push((self.next, entry));
            self.next += 1;
            if self.weight > self.full {
                self.make_room()?;
            }
        }
        Ok(())
    }

    /// Discards superseded records, which sorts the rest by path, and rejects them if they are too
    /// many.
    fn deduplicate(&mut self) -> Result<()> {
        self.keep_last();
        self.weight = weigh(self.records.iter().map(|record| &record.1));
        limits::check("memory for the recorded entries", self.weight, self.limit)
    }

    fn make_room(&mut self) -> Result<()> {
        self.deduplicate()?;
        // At least half of the records are new each time, so repeated sorting is cheap.
        self.full = self.weight.saturating_mul(2).max(FIRST_FULL.min(self.limit));
        self.records.sort_unstable_by_key(|record| record.0);
        Ok(())
    }

    /// Returns the entries in path order with their parent directories, and the number of entries
    /// that were skipped because they need too many parents.
    pub(super) fn finish(mut self) -> Result<(Vec<Entry>, u64)> {
        self.deduplicate()?;
        drop_former_names(&mut self.records);
        Ok(add_parents(self.records.into_iter().map(|(_, entry)| entry).collect()))
    }

    /// Sorts records by path and keeps the last one of each path.
    fn keep_last(&mut self) {
        self.records.sort_unstable_by(|a, b| a.1.path.cmp(&b.1.path).then(b.0.cmp(&a.0)));
        self.records.dedup_by(|former, kept| former.1.path == kept.1.path);
    }
}

/// Discards the earlier of two records if one is below the other's path and that is not a
/// directory. Both cannot be of one commit.
fn drop_former_names(records: &mut Vec<(u64, Entry)>) {
    let mut drop = vec![false; records.len()];
    // Entries above the current one that are not directories.
    let mut above: Vec<usize> = Vec::new();
    for i in 0..records.len() {
        let (number, entry) = &records[i];
        while above.last().is_some_and(|&last| !entry.path.is_below(&records[last].1.path)) {
            above.pop();
        }
        for &other in &above {
            let older = if records[other].0 < *number { other } else { i };
            drop[older] = true;
        }
        if entry.kind != Kind::Directory {
            above.push(i);
        }
    }
    let mut dropped = drop.into_iter();
    records.retain(|_| !dropped.next().unwrap_or_default());
}

fn weight(entry: &Entry, shared: &mut HashSet<usize>) -> u64 {
    size_of::<(u64, Entry)>() as u64 + weight_beside(entry, shared)
}

fn weigh<'a>(entries: impl Iterator<Item = &'a Entry>) -> u64 {
    let mut shared = HashSet::new();
    entries.map(|entry| weight(entry, &mut shared)).fold(0, u64::saturating_add)
}

/// Adds missing directories. Skips entries that would need too many of them, and returns their
/// number.
fn add_parents(entries: Vec<Entry>) -> (Vec<Entry>, u64) {
    let known: HashSet<&[u8]> =
        entries.iter().filter(|entry| entry.kind == Kind::Directory).map(|entry| entry.path.as_bytes()).collect();
    let mut added: HashSet<EntryPath> = HashSet::new();
    let mut orphans: HashSet<usize> = HashSet::new();
    let mut parent_bytes_left = PARENT_BYTES;
    for (index, entry) in entries.iter().enumerate() {
        let mut missing = Vec::new();
        let mut bytes = 0;
        for directory in entry.path.above() {
            if bytes > parent_bytes_left || known.contains(directory.as_bytes()) || added.contains(&directory) {
                break;
            }
            bytes += directory.as_bytes().len();
            missing.push(directory);
        }
        match parent_bytes_left.checked_sub(bytes) {
            Some(rest) => {
                parent_bytes_left = rest;
                added.extend(missing);
            }
            None => {
                orphans.insert(index);
            }
        }
    }
    if added.is_empty() && orphans.is_empty() {
        return (entries, 0);
    }
    drop(known);
    let (mut entries, mut indexes) = (entries, 0..);
    entries.retain(|_| indexes.next().is_none_or(|index| !orphans.contains(&index)));
    entries.extend(added.into_iter().map(|path| {
        let mut directory = Entry::new(path, Kind::Directory);
        directory.implied = true;
        directory
    }));
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    (entries, orphans.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::error::Error;

    fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), kind);
        entry.size = size;
        entry
    }

    fn gathered(records: &[(&str, Kind, u64)]) -> Vec<(String, u64, bool)> {
        let mut gathered = RecordedEntries::new(0, 1 << 20);
        for (path, kind, size) in records {
            gathered.add(std::iter::once(entry(path, *kind, *size))).unwrap();
        }
        gathered.finish().unwrap().0.into_iter().map(|entry| (entry.path.to_string(), entry.size, entry.implied)).collect()
    }

    #[test]
    fn last_record_of_a_path_is_kept() {
        use Kind::{Directory, File};
        let found = gathered(&[("b", File, 1), ("a", Directory, 0), ("b", File, 2), ("a/x", File, 3), ("b", File, 4)]);
        assert_eq!(found, [("a".into(), 0, false), ("a/x".into(), 3, false), ("b".into(), 4, false)]);
        // A file that became a directory, and the reverse.
        assert_eq!(gathered(&[("a", File, 1), ("a/x", File, 2)]), [("a".into(), 0, true), ("a/x".into(), 2, false)]);
        assert_eq!(gathered(&[("a/x", File, 2), ("a", File, 1)]), [("a".into(), 1, false)]);
    }

    #[test]
    fn superseded_records_are_discarded() {
        let mut gathered = RecordedEntries::new(0, 2 << 20);
        for size in 0..100u64 {
            gathered.add((0..5_000).map(|i| entry(&format!("f{i}"), Kind::File, size))).unwrap();
        }
        assert!(gathered.records.len() <= 20_000);
        let entries = gathered.finish().unwrap().0;
        assert_eq!(entries.len(), 5_000);
        assert!(entries.iter().all(|entry| entry.size == 99));
    }

    #[test]
    fn records_beyond_the_memory_limit_are_rejected() {
        // Front coding stores a long path in three bytes, so the number of records says little.
        let long = "p".repeat(60_000);
        for (count, rest) in [(1_000_000, ""), (100, &*long)] {
            let mut gathered = RecordedEntries::new(1_000, 4 << 20);
            let refused = (0..count).find_map(|i| {
                let entry = entry(&format!("{rest}{i}"), Kind::File, 0);
                gathered.add(std::iter::once(entry)).err()
            });
            assert!(matches!(refused, Some(Error::Limit { limit: 4_194_304, .. })));
            assert!(gathered.weight < 9 << 20);
        }
        // A file that is long enough is accepted.
        let mut gathered = RecordedEntries::new(1 << 20, 4 << 20);
        gathered.add((0..500_000).map(|i| entry(&i.to_string(), Kind::File, 0))).unwrap();
        assert_eq!(gathered.finish().unwrap().0.len(), 500_000);
    }

    #[test]
    fn implied_parents_of_long_paths_are_bounded() {
        let path = format!("{}x", "d/".repeat(32_000));
        assert_eq!(gathered(&[(&path, Kind::File, 1), ("a/b/c", Kind::File, 2)]).len(), 3);
        let skipped = add_parents(vec![entry(&path, Kind::File, 1), entry("a/b", Kind::File, 1)]).1;
        assert_eq!(skipped, 1);
    }
}
