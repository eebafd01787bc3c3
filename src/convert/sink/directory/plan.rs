//! What is made together: batches of entries, bounded by memory, and the directories that they need.

use std::collections::HashSet;

use super::item::{Item, split};
use super::tree::{ROOT, Tree};
use nra_format::entry::Kind;

/// Something to make, and the number of the directory it goes to.
pub(super) type Job = (Item, u32);

/// What is made in one go.
#[derive(Default)]
pub(super) struct Batch {
    /// Files with content of their own.
    pub files: Vec<Job>,
    /// Files that should become hard links of earlier ones.
    pub links: Vec<Job>,
    /// Fifos and devices.
    pub specials: Vec<Job>,
    /// Symlinks: made last, though they are never followed.
    pub symlinks: Vec<Job>,
    /// Entries that can't be made, and why.
    pub refused: Vec<(Item, &'static str)>,
}

/// Assigns entries, in path order, to directories.
pub(super) struct Planner {
    /// Directories on the path of the last entry, with the length of their paths.
    chain: Vec<(u32, usize)>,
    /// Path of the last of them.
    path: Vec<u8>,
    /// Hard link groups that were met.
    groups: HashSet<u64>,
    clashes: Clashes,
}

/// Finds entries that can't be made beside those before them, in path order.
pub(super) struct Clashes {
    /// Path of the last entry that is not a directory: nothing can lie below it.
    blocked: Vec<u8>,
    /// Paths that were met, where two entries can come to the same one.
    seen: Option<HashSet<u128>>,
}

impl Clashes {
    /// Starts. `ambiguous`: several entries can have the same path below the target.
    pub(super) fn new(ambiguous: bool) -> Self {
        Self { blocked: Vec::new(), seen: ambiguous.then(HashSet::new) }
    }

    /// Fails for an entry that can't be made.
    pub(super) fn check(&mut self, item: &Item) -> Result<(), &'static str> {
        let path = item.path();
        if is_below(path, &self.blocked) {
            return Err("it lies below something that is not a directory");
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
    /// Starts. `ambiguous`: several entries can have the same path below the target.
    pub(super) fn new(ambiguous: bool) -> Self {
        Self { chain: Vec::new(), path: Vec::new(), groups: HashSet::new(), clashes: Clashes::new(ambiguous) }
    }

    /// Adds an entry to `batch` and its directories to `tree`.
    pub(super) fn add(&mut self, tree: &mut Tree, batch: &mut Batch, item: Item) {
        if let Err(why) = self.clashes.check(&item) {
            return batch.refused.push((item, why));
        }
        let path = item.path();
        let directory = item.entry.kind == Kind::Directory;
        let Some(parent) = self.enter(tree, split(path).0) else {
            return batch.refused.push((item, "there are too many directories"));
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

    /// Forgets all directories of `tree` that no later entry can be in (as long as entries come in path order).
    pub(super) fn prune(&mut self, tree: &mut Tree) {
        let numbers: Vec<u32> = self.chain.iter().map(|(number, _)| *number).collect();
        tree.keep(&numbers);
        for (number, (of, _)) in (1..).zip(&mut self.chain) {
            *of = number;
        }
    }

    /// Says whether a later entry may lie in directory `number`.
    pub(super) fn is_open(&self, number: u32) -> bool {
        number == ROOT || self.chain.binary_search_by_key(&number, |(of, _)| *of).is_ok()
    }

    /// Returns the number of the directory `path`, adding what is missing.
    fn enter(&mut self, tree: &mut Tree, path: &[u8]) -> Option<u32> {
        if path != self.path {
            let same = path.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
            let mut common = self.chain.partition_point(|(_, len)| *len <= same);
            // A longer name may begin like the one that is open.
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

/// Says whether `path` lies below `directory`; nothing lies below the empty path.
pub(super) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    !directory.is_empty() && path.len() > directory.len() && path[directory.len()] == b'/' && path.starts_with(directory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nra_format::entry::Entry;
    use nra_format::path::EntryPath;

    fn item(path: &str, kind: Kind) -> Item {
        Item { entry: Entry::new(EntryPath::try_from(path).unwrap(), kind), start: 0 }
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
    fn directories_are_made_once_and_before_what_is_in_them() {
        let (directories, batch) = plan(&["a/", "a/b/", "a/b/x", "a/bc/y", "a/c/d/e/z", "a/c/d/w", "a!", "ab/", "top"]);
        assert_eq!(directories, ["a", "a/b", "a/bc", "a/c", "a/c/d", "a/c/d/e", "ab"]);
        assert_eq!(batch.files.len(), 6);
        assert!(batch.refused.is_empty());
    }

    #[test]
    fn nothing_lies_below_a_file() {
        let (directories, batch) = plan(&["a", "a/b", "a/c/d", "ab"]);
        assert!(directories.is_empty());
        assert_eq!(batch.refused.len(), 2);
    }

    #[test]
    fn the_chain_survives_pruning() {
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
