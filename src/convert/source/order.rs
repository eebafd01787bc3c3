//! The order in which the entries of an archive are read and written.
//!
//! Content is read in storage order, so each block is read once. A directory precedes its entries
//! if those are consecutive, as in archives of other programs. Otherwise its position depends on
//! the target. In a tar archive it follows its last entry, because GNU tar sets time and mode of a
//! directory as soon as an entry elsewhere follows. In other archives it precedes its first entry:
//! `unzip` sets them at the end.

use nra_format::entry::{Entry, Kind};
use nra_format::path::EntryPath;

/// Sort key of an entry: its storage position, or that of the entry before it if it has none; and
/// its number.
pub(super) type Leaf = (Option<(u64, u64)>, u64);

/// Position of a directory whose entries are not consecutive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scattered {
    /// Before its first entry.
    Before,
    /// After its last entry.
    After,
}

/// Collects entries in path order.
#[derive(Default)]
pub(super) struct Arrangement {
    count: u64,
    /// Entries other than directories, and directories without such entries.
    leaves: Vec<Leaf>,
    directories: Vec<Directory>,
    /// Directories that may contain the next entry, with their paths. The innermost is last.
    open: Vec<(usize, EntryPath)>,
    /// Storage position of the last entry.
    last: Option<(u64, u64)>,
}

struct Directory {
    position: u64,
    /// Position after the last entry below it.
    end: u64,
    /// Its storage position, or that of the entry before it.
    before: Option<(u64, u64)>,
    /// It contains an entry other than a directory.
    is_full: bool,
}

/// Ranks of the leaves below a directory.
struct Extent {
    position: u64,
    end: u64,
    first: u64,
    last: u64,
    count: u64,
}

impl Arrangement {
    /// Adds the next entry. Returns its sort key among entries that have no entries below them.
    pub(super) fn add(&mut self, entry: &Entry) -> Leaf {
        // Many containers give a position to entries without content, too. None uses position 0.
        let place = Some(entry.position()).filter(|place| *place != (0, 0));
        self.put(&entry.path, entry.kind == Kind::Directory, place)
    }

    /// Skips an entry that is not selected.
    pub(super) fn skip(&mut self) {
        self.count += 1;
    }

    fn put(&mut self, path: &EntryPath, is_directory: bool, place: Option<(u64, u64)>) -> Leaf {
        let position = self.count;
        self.count += 1;
        while self.open.last().is_some_and(|(_, directory)| !path.is_below(directory)) {
            self.close(position);
        }
        if is_directory {
            self.open.push((self.directories.len(), path.clone()));
            self.directories.push(Directory { position, end: position, before: place.or(self.last), is_full: false });
            return (place.or(self.last), position);
        }
        for (directory, _) in self.open.iter().rev() {
            let directory = &mut self.directories[*directory];
            if std::mem::replace(&mut directory.is_full, true) {
                break;
            }
        }
        self.last = place.or(self.last);
        self.leaves.push((self.last, position));
        (self.last, position)
    }

    fn close(&mut self, end: u64) {
        if let Some((directory, _)) = self.open.pop() {
            self.directories[directory].end = end;
        }
    }

    /// Returns the positions in the order in which they are read.
    pub(super) fn finish(mut self, scattered: Scattered) -> Vec<u64> {
        while !self.open.is_empty() {
            self.close(self.count);
        }
        let Self { count, mut leaves, directories, .. } = self;
        leaves.extend(directories.iter().filter(|directory| !directory.is_full).map(|empty| (empty.before, empty.position)));
        leaves.sort_unstable();
        let mut ranks = vec![None; usize::try_from(count).expect("that many are in memory")];
        for (rank, (_, position)) in (0u64..).zip(&leaves) {
            ranks[usize::try_from(*position).expect("less than their count")] = Some(rank);
        }
        // A leaf at its rank; directories before it, outermost first, or after it, innermost first.
        let mut order: Vec<(u64, u8, u64, u64)> = Vec::with_capacity(ranks.len());
        let mut put = |extent: &Extent| {
            let precedes = scattered == Scattered::Before || extent.last - extent.first + 1 == extent.count;
            let Extent { position, first, last, .. } = *extent;
            order.push(if precedes { (first, 0, position, position) } else { (last, 2, u64::MAX - position, position) });
        };
        let mut full = directories.iter().filter(|directory| directory.is_full).peekable();
        let mut open: Vec<Extent> = Vec::new();
        for (position, rank) in (0u64..).zip(&ranks) {
            while let Some(extent) = open.pop_if(|extent| extent.end <= position) {
                put(&extent);
                if let Some(above) = open.last_mut() {
                    above.first = above.first.min(extent.first);
                    above.last = above.last.max(extent.last);
                    above.count += extent.count;
                }
            }
            if let Some(rank) = *rank {
                if let Some(above) = open.last_mut() {
                    above.first = above.first.min(rank);
                    above.last = above.last.max(rank);
                    above.count += 1;
                }
            } else if let Some(Directory { end, .. }) = full.next_if(|directory| directory.position == position) {
                open.push(Extent { position, end: *end, first: u64::MAX, last: 0, count: 0 });
            }
        }
        while let Some(extent) = open.pop() {
            put(&extent);
            if let Some(above) = open.last_mut() {
                above.first = above.first.min(extent.first);
                above.last = above.last.max(extent.last);
                above.count += extent.count;
            }
        }
        order.extend((0u64..).zip(&leaves).map(|(rank, (_, position))| (rank, 1, 0, *position)));
        order.sort_unstable();
        order.into_iter().map(|(.., position)| position).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Orders entries, given in path order: a name (with a trailing `/` for a directory) and the
    /// storage position of its content.
    fn arranged<'a>(scattered: Scattered, entries: &[(&'a str, Option<u64>)]) -> Vec<&'a str> {
        let mut arrangement = Arrangement::default();
        for (name, place) in entries {
            let path = EntryPath::try_from(name.trim_end_matches('/')).unwrap();
            arrangement.put(&path, name.ends_with('/'), place.map(|place| (place, 0)));
        }
        arrangement.finish(scattered).into_iter().map(|position| entries[usize::try_from(position).unwrap()].0).collect()
    }

    #[test]
    fn directories_precede_consecutive_and_follow_scattered_entries() {
        let deep = [
            ("d/", None),
            ("d/a/", None),
            ("d/a/x", Some(1)),
            ("d/b/", None),
            ("d/b/link", None),
            ("d/b/y", Some(2)),
            ("e/", None),
        ];
        let names: Vec<&str> = deep.iter().map(|(name, _)| *name).collect();
        assert_eq!(arranged(Scattered::After, &deep), names, "as it was");
        let mixed = [
            ("d/", None),
            ("d/a/", None),
            ("d/a/x", Some(1)),
            ("d/a/y", Some(3)),
            ("d/b/", None),
            ("d/b/z", Some(2)),
            ("f", Some(4)),
        ];
        assert_eq!(arranged(Scattered::After, &mixed), ["d/", "d/a/x", "d/b/", "d/b/z", "d/a/y", "d/a/", "f"]);
        let outside = [("d/", None), ("d/a/", None), ("d/a/x", Some(1)), ("d/a/y", Some(3)), ("f", Some(2))];
        assert_eq!(arranged(Scattered::After, &outside), ["d/a/x", "f", "d/a/y", "d/a/", "d/"]);
        assert_eq!(arranged(Scattered::Before, &outside), ["d/", "d/a/", "d/a/x", "f", "d/a/y"]);
    }

    proptest! {
        /// The entries of a directory are consecutive, or precede it.
        #[test]
        fn no_entry_follows_a_directory_that_was_left(
            names in proptest::collection::btree_map("[ab]{1,2}(/[abc]){0,3}", proptest::option::of(0u64..20), 1..30),
        ) {
            let mut entries: std::collections::BTreeMap<EntryPath, (bool, Option<u64>)> = Default::default();
            for (name, place) in &names {
                let mut path = EntryPath::try_from(name.as_str()).unwrap();
                entries.entry(path.clone()).or_insert((place.is_none() && name.len() % 2 == 0, *place));
                while let Some(parent) = path.parent() {
                    entries.insert(parent.clone(), (true, None));
                    path = parent;
                }
            }
            let mut arrangement = Arrangement::default();
            let listed: Vec<_> = entries.iter().collect();
            for (path, (is_directory, place)) in &listed {
                arrangement.put(path, *is_directory, place.map(|place| (place, 0)));
            }
            let order: Vec<_> = arrangement.finish(Scattered::After).into_iter().map(|at| listed[usize::try_from(at).unwrap()]).collect();
            prop_assert_eq!(order.len(), listed.len());
            for (at, (directory, (is_directory, _))) in order.iter().enumerate() {
                if !is_directory {
                    continue;
                }
                let below: Vec<usize> = (0..order.len()).filter(|&other| order[other].0.is_below(directory)).collect();
                let follows = below.iter().all(|&other| other < at);
                let is_run = below.iter().enumerate().all(|(number, &other)| other == at + 1 + number);
                prop_assert!(follows || is_run, "{}", directory);
            }
            let places: Vec<u64> = order.iter().filter(|(_, (is_directory, _))| !is_directory).filter_map(|(_, (_, place))| *place).collect();
            prop_assert!(places.is_sorted());
        }
    }
}
