//! Divides entries into batches that are bounded by memory, with the directories that they need.

use std::collections::HashSet;

use super::selected::{SelectedEntry, split};
use super::tree::{ROOT, Tree};
use nra_format::entry::Kind;

/// An entry to create, and the number of its directory.
pub(super) type Job = (SelectedEntry, u32);

/// Entries that are created together.
#[derive(Default)]
pub(super) struct Batch {
    /// Files with content of their own.
    pub files: Vec<Job>,
    /// Files that should become hard links of earlier ones.
    pub links: Vec<Job>,
    /// Fifos and devices.
    pub specials: Vec<Job>,
    /// Symlinks. They are created last, although none is followed.
    pub symlinks: Vec<Job>,
    /// Entries that can't be created, and why.
    pub rejected: Vec<(SelectedEntry, &'static str)>,
}

/// Assigns entries, in path order, to directories.
pub(super) struct Planner {
    /// Directories on the path of the last entry, with the length of their paths.
    chain: Vec<(u32, usize)>,
    /// Path of the last of them.
    path: Vec<u8>,
    /// Hard link groups of earlier entries.
    groups: HashSet<u64>,
    collisions: Collisions,
}

/// Detects entries that collide with earlier ones, in path order.
pub(super) struct Collisions {
    /// Path of the last entry that is not a directory. No entry can be below it.
    blocked: Vec<u8>,
    /// Paths of earlier entries, if two entries can have the same path.
    seen: Option<HashSet<u128>>,
}

impl Collisions {
    /// Starts. `ambiguous`: two entries can have the same path below the target.
    pub(super) fn new(ambiguous: bool) -> Self {
        Self { blocked: Vec::new(), seen: ambiguous.then(HashSet::new) }
    }

    /// Returns an error for an entry that can't be created.
    pub(super) fn check(&mut self, item: &SelectedEntry) -> Result<(), &'static str> {
        let path = item.path();
        if is_below(path, &self.blocked) {
            return Err("it is below an entry that is not a directory");
        }
        if item.entry.kind == Kind::Directory {
            return Ok(());
        }
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(xxhash_rust::xxh3::xxh3_128(path))) {
            return Err("another entry has the same path in the target");
        }
        self.blocked.clear();
        self.blocked.extend_from_slice(path);
        Ok(())
    }
}

impl Planner {
    /// Starts. `ambiguous`: two entries can have the same path below the target.
    pub(super) fn new(ambiguous: bool) -> Self {
        Self { chain: Vec::new(), path: Vec::new(), groups: HashSet::new(), collisions: Collisions::new(ambiguous) }
    }

    /// Adds an entry to `batch` and its directories to `tree`.
    pub(super) fn add(&mut self, tree: &mut Tree, batch: &mut Batch, item: SelectedEntry) {
        if let Err(why) = self.collisions.check(&item) {
            return batch.rejected.push((item, why));
        }
        let path = item.path();
        let directory = item.entry.kind == Kind::Directory;
        let Some(parent) = self.enter(tree, split(path).0) else {
            return batch.rejected.push((item, "there are too many directories"));
        };
        if directory {
            let (len, name) = (path.len(), split(path).1.to_vec());
            self.path.clear();
            self.path.extend_from_slice(path);
            match tree.push(parent, &name, Some(item)) {
                Some(number) => self.chain.push((number, len)),
                None => self.leave(0),
            }
            return;
        }
        let group = item.entry.link_group;
        let list = match item.entry.kind {
            Kind::File if group != 0 && !self.groups.insert(group) => &mut batch.links,
            Kind::File => &mut batch.files,
            Kind::Symlink => &mut batch.symlinks,
            _ => &mut batch.specials,
        };
        list.push((item, parent));
    }

    /// Removes all directories of `tree` that can't contain a later entry in path order.
    pub(super) fn prune(&mut self, tree: &mut Tree) {
        let numbers: Vec<u32> = self.chain.iter().map(|(number, _)| *number).collect();
        tree.keep(&numbers);
        for (number, (of, _)) in (1..).zip(&mut self.chain) {
            *of = number;
        }
    }

    /// Returns whether a later entry may be in directory `number`.
    pub(super) fn is_open(&self, number: u32) -> bool {
        number == ROOT || self.chain.binary_search_by_key(&number, |(of, _)| *of).is_ok()
    }

    /// Returns the number of the directory `path`. Adds missing directories.
    fn enter(&mut self, tree: &mut Tree, path: &[u8]) -> Option<u32> {
        if path != self.path {
            let same = path.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
            let mut common = self.chain.partition_point(|(_, len)| *len <= same);
            // The open directory's name may be a prefix of a longer name.
            if common > 0 && self.chain[common - 1].1 == same && path.get(same).is_some_and(|byte| *byte != b'/') {
                common -= 1;
            }
            self.leave(common);
            let mut at = self.path.len();
            while at < path.len() {
                let start = if at == 0 { 0 } else { at + 1 };
                let end = path[start..].iter().position(|byte| *byte == b'/').map_or(path.len(), |len| start + len);
                let number = tree.push(self.last(), &path[start..end], None)?;
                self.chain.push((number, end));
                self.path.extend_from_slice(&path[at..end]);
                at = end;
            }
        }
        Some(self.last())
    }

    fn last(&self) -> u32 {
        self.chain.last().map_or(ROOT, |(number, _)| *number)
    }

    fn leave(&mut self, len: usize) {
        self.chain.truncate(len);
        self.path.truncate(self.chain.last().map_or(0, |(_, len)| *len));
    }
}

/// Returns whether `path` is below `directory`. No path is below the empty one.
pub(super) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    !directory.is_empty() && path.len() > directory.len() && path[directory.len()] == b'/' && path.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nra_format::entry::Entry;
    use nra_format::path::EntryPath;

    fn item(path: &str, kind: Kind) -> SelectedEntry {
        SelectedEntry { entry: Entry::new(EntryPath::try_from(path).unwrap(), kind), start: 0 }
    }

    fn plan(paths: &[&str]) -> (Vec<String>, Batch) {
        let here = rustix::fs::open(".", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let (mut tree, mut batch, mut planner) = (Tree::new(Arc::new(here)), Batch::default(), Planner::new(false));
        for path in paths {
            let (path, kind) = path.strip_suffix('/').map_or((*path, Kind::File), |path| (path, Kind::Directory));
            planner.add(&mut tree, &mut batch, item(path, kind));
        }
        let directories = (1..tree.len()).map(|number| String::from_utf8(tree.path(number)).unwrap()).collect();
        for (item, parent) in &batch.files {
            assert_eq!(tree.path(*parent), split(item.path()).0);
        }
        (directories, batch)
    }

    #[test]
    fn directories_are_planned_once_before_their_entries() {
        let (directories, batch) = plan(&["a/", "a/b/", "a/b/x", "a/bc/y", "a/c/d/e/z", "a/c/d/w", "a!", "ab/", "top"]);
        assert_eq!(directories, ["a", "a/b", "a/bc", "a/c", "a/c/d", "a/c/d/e", "ab"]);
        assert_eq!(batch.files.len(), 6);
        assert!(batch.rejected.is_empty());
    }

    #[test]
    fn entries_below_a_file_are_rejected() {
        let (directories, batch) = plan(&["a", "a/b", "a/c/d", "ab"]);
        assert!(directories.is_empty());
        assert_eq!(batch.rejected.len(), 2);
    }

    #[test]
    fn pruning_keeps_open_directories() {
        let here = rustix::fs::open(".", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let (mut tree, mut batch, mut planner) = (Tree::new(Arc::new(here)), Batch::default(), Planner::new(false));
        for path in ["a/x", "b/c/x", "b/d/x"] {
            planner.add(&mut tree, &mut batch, item(path, Kind::File));
        }
        assert!(planner.is_open(2) && planner.is_open(4) && !planner.is_open(1) && !planner.is_open(3));
        planner.prune(&mut tree);
        assert_eq!(tree.len(), 3);
        assert_eq!(tree.path(2), b"b/d");
        let mut batch = Batch::default();
        planner.add(&mut tree, &mut batch, item("b/d/y", Kind::File));
        planner.add(&mut tree, &mut batch, item("b/e", Kind::File));
        assert_eq!(batch.files[0].1, 2);
        assert_eq!(batch.files[1].1, 1);
    }
}
