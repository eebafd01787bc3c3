//! Entries gathered from the directories of blocks: the last record of each path, with parents, within bounds.
//!
//! Spec: nra.md, sections 7 and 22.

use std::collections::HashSet;

use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::path::EntryPath;

/// Entries that a file may give however short it is. Beyond it a byte of the file gives one at most: whole archives
/// take more than two for an entry, files that were made to fill the memory much less.
const FREE_ENTRIES: u64 = 1 << 20;
/// Bytes of paths of directories that are added because something lies below them: a single long path can name gigabytes of them.
const PARENT_BYTES: usize = 64 << 20;

/// Records in the order of the file.
pub(super) struct Gathered {
    /// With the number of the record, which grows.
    records: Vec<(u64, Entry)>,
    next: u64,
    limit: u64,
    /// Records at which former ones are thrown out.
    full: usize,
}

impl Gathered {
    /// Prepares for what a file of this length can hold.
    pub(super) fn new(file_len: u64) -> Self {
        Self { records: Vec::new(), next: 0, limit: file_len.max(FREE_ENTRIES), full: 1 << 16 }
    }

    /// Adds the records of a directory.
    ///
    /// # Errors
    ///
    /// `Limit` when there are more entries than a file of this length would hold.
    pub(super) fn add(&mut self, entries: impl Iterator<Item = Entry>) -> Result<()> {
        self.records.extend((self.next..).zip(entries));
        self.next = self.records.last().map_or(self.next, |last| last.0 + 1);
        if self.records.len() > self.full {
            self.keep_last();
            let found = self.records.len() as u64;
            if found > self.limit {
                return Err(Error::Limit { what: "number of recorded entries", found, limit: self.limit });
            }
            // Half of them are new each time, so that sorting again costs little.
            self.full = 2 * self.records.len().max(1 << 15);
            self.records.sort_unstable_by_key(|record| record.0);
        }
        Ok(())
    }

    /// Returns the entries in path order, each with its parent directories.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        self.keep_last();
        drop_former_names(&mut self.records);
        add_parents(self.records.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Puts records in path order and keeps the last of each path.
    fn keep_last(&mut self) {
        self.records.sort_unstable_by(|a, b| a.1.path.cmp(&b.1.path).then(b.0.cmp(&a.0)));
        self.records.dedup_by(|former, kept| former.1.path == kept.1.path);
    }
}

/// Where something lies below what is no directory, both can't be of one state: the later record stays.
fn drop_former_names(records: &mut Vec<(u64, Entry)>) {
    let mut drop = vec![false; records.len()];
    // Entries that lead to the one in hand and are no directories.
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

/// Adds directories that are missing; where that would be too much, leaves out what lies in them.
fn add_parents(entries: Vec<Entry>) -> Vec<Entry> {
    let known: HashSet<&[u8]> =
        entries.iter().filter(|entry| entry.kind == Kind::Directory).map(|entry| entry.path.as_bytes()).collect();
    let mut added: HashSet<EntryPath> = HashSet::new();
    let mut orphans: HashSet<usize> = HashSet::new();
    let mut left = PARENT_BYTES;
    for (index, entry) in entries.iter().enumerate() {
        let path = entry.path.as_bytes();
        let is_there = |directory: &[u8]| known.contains(directory);
        let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut missing = Vec::new();
        let mut bytes = 0usize;
        for slash in slashes {
            let directory = &path[..slash];
            if is_there(directory) || bytes > left {
                break;
            }
            let directory = EntryPath::from_checked(directory);
            if added.contains(&directory) {
                break;
            }
            bytes += slash;
            missing.push(directory);
        }
        match left.checked_sub(bytes) {
            Some(rest) => {
                left = rest;
                added.extend(missing);
            }
            None => {
                orphans.insert(index);
            }
        }
    }
    if added.is_empty() && orphans.is_empty() {
        return entries;
    }
    drop(known);
    let mut index = 0;
    let mut entries = entries;
    entries.retain(|_| {
        index += 1;
        !orphans.contains(&(index - 1))
    });
    entries.extend(added.into_iter().map(|path| {
        let mut directory = Entry::new(path, Kind::Directory);
        directory.implied = true;
        directory
    }));
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind, size: u64) -> Entry {
        let mut entry = Entry::new(EntryPath::try_from(path).unwrap(), kind);
        entry.size = size;
        entry
    }

    fn gathered(records: &[(&str, Kind, u64)]) -> Vec<(String, u64, bool)> {
        let mut gathered = Gathered::new(0);
        for (path, kind, size) in records {
            gathered.add(std::iter::once(entry(path, *kind, *size))).unwrap();
        }
        gathered.finish().into_iter().map(|entry| (entry.path.to_string(), entry.size, entry.implied)).collect()
    }

    #[test]
    fn the_last_record_of_a_path_stays() {
        use Kind::{Directory, File};
        let found = gathered(&[("b", File, 1), ("a", Directory, 0), ("b", File, 2), ("a/x", File, 3), ("b", File, 4)]);
        assert_eq!(found, [("a".into(), 0, false), ("a/x".into(), 3, false), ("b".into(), 4, false)]);
        // A file that became a directory, and a directory that became a file.
        assert_eq!(gathered(&[("a", File, 1), ("a/x", File, 2)]), [("a".into(), 0, true), ("a/x".into(), 2, false)]);
        assert_eq!(gathered(&[("a/x", File, 2), ("a", File, 1)]), [("a".into(), 1, false)]);
    }

    #[test]
    fn former_records_do_not_pile_up() {
        let mut gathered = Gathered::new(0);
        for size in 0..100u64 {
            gathered.add((0..5_000).map(|i| entry(&format!("f{i}"), Kind::File, size))).unwrap();
        }
        assert!(gathered.records.len() <= 1 << 17);
        let entries = gathered.finish();
        assert_eq!(entries.len(), 5_000);
        assert!(entries.iter().all(|entry| entry.size == 99));
    }

    #[test]
    fn more_entries_than_the_file_has_bytes_are_refused() {
        let mut gathered = Gathered::new(0);
        let mut add = |from: u64| gathered.add((from..from + 50_000).map(|i| entry(&format!("f{i}"), Kind::File, 0)));
        let refused = (0..100).find_map(|batch| add(batch * 50_000).err());
        assert!(matches!(refused, Some(Error::Limit { limit: FREE_ENTRIES, .. })));
    }

    #[test]
    fn long_paths_do_not_name_gigabytes_of_parents() {
        let path = format!("{}x", "d/".repeat(32_000));
        assert_eq!(gathered(&[(&path, Kind::File, 1), ("a/b/c", Kind::File, 2)]).len(), 3);
    }
}
