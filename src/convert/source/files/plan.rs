//! Plans the names of a window before any file is opened.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::order::{Ranks, order};
use crate::source::walk::{DirId, NameKind, Tree, Window};
use nra_format::progress::{Monitor, Warning};

/// The names of a window in storage order, without repeated paths, and which of them seem to be
/// hard links of one file.
pub(super) struct Plan {
    /// Numbers of the names.
    order: Vec<u32>,
    /// For a position whose inode has an earlier position: that earlier position.
    first: HashMap<u32, u32>,
    /// For the first position of an inode with several names: the number of names.
    count: HashMap<u32, u64>,
}

impl Plan {
    /// Plans `window` and sorts its directories by path. Inputs may overlap: the first of several
    /// names with one path is kept, without a warning if they are the same file.
    pub(super) fn new(tree: &Tree, window: &mut Window, monitor: &dyn Monitor) -> Self {
        let ranks = Ranks::by_path(tree);
        window.directories.sort_by_key(|(id, ..)| ranks.of(*id));
        window.directories.dedup_by_key(|(id, ..)| ranks.of(*id));
        let mut order = order(tree, window, &ranks);
        if tree.has_several_roots() {
            drop_repeated(tree, window, &ranks, &mut order, monitor);
        }
        let (first, count) = inodes(tree, window, &order);
        Self { order, first, count }
    }

    /// Returns the number of positions.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of the name at a position.
    pub(super) fn name_at(&self, position: u32) -> usize {
        self.order[position as usize] as usize
    }

    /// Returns whether the file at this position seems to have an earlier position.
    pub(super) fn is_repeated(&self, position: u32) -> bool {
        self.first.contains_key(&position)
    }

    /// Returns the first position of the file, if this position seems to be a further name of it.
    pub(super) fn first_of(&self, position: u32) -> Option<u32> {
        self.first.get(&position).copied()
    }

    /// Returns how many names the file at this position seems to have in this window.
    pub(super) fn names_of_inode(&self, position: u32) -> u64 {
        let first = self.first.get(&position).unwrap_or(&position);
        self.count.get(first).copied().unwrap_or(1)
    }
}

/// Keeps the first of names with the same path.
fn drop_repeated(tree: &Tree, window: &Window, ranks: &Ranks, order: &mut Vec<u32>, monitor: &dyn Monitor) {
    order.dedup_by(|later, earlier| {
        let (a, b) = (&window.names[*earlier as usize], &window.names[*later as usize]);
        let same = ranks.of(a.directory) == ranks.of(b.directory) && window.name(a) == window.name(b);
        if same && (a.inode != b.inode || device(tree, a.directory) != device(tree, b.directory)) {
            monitor.warn(Warning::degraded(
                tree.shown_path(b.directory, window.name(b)),
                "skipped: an earlier input has the same path in the archive",
            ));
        }
        same
    });
}

/// Returns the device of a directory. One that only contains names of inputs was not opened, so the
/// system is asked.
fn device(tree: &Tree, directory: DirId) -> Option<u64> {
    let ask = || {
        let path = &tree.root(directory).path;
        let path = if path.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(path)) };
        path.metadata().ok().map(|status| status.dev())
    };
    tree.identity(directory).map(|(device, _)| device).or_else(ask)
}

/// Finds files with several positions by the inode numbers in listings. These may be wrong: callers
/// check the status of the file.
fn inodes(tree: &Tree, window: &Window, order: &[u32]) -> (HashMap<u32, u32>, HashMap<u32, u64>) {
    let mut positions: Vec<(u64, u32)> = order
        .iter()
        .zip(0..)
        .map(|(&number, position)| (&window.names[number as usize], position))
        .filter(|(name, _)| name.kind == NameKind::File)
        .map(|(name, position)| (name.inode, position))
        .collect();
    positions.sort_unstable();
    let mut first = HashMap::new();
    let mut count = HashMap::new();
    for run in positions.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        let mut devices: HashMap<Option<u64>, u32> = HashMap::new();
        for &(_, position) in run {
            let directory = window.names[order[position as usize] as usize].directory;
            let device = tree.identity(directory).map(|(device, _)| device);
            let first_name = *devices.entry(device).or_insert(position);
            if first_name != position {
                first.insert(position, first_name);
                *count.entry(first_name).or_insert(1) += 1;
            }
        }
    }
    (first, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::walk::Root;
    use nra_format::progress::Recorder;

    #[test]
    fn inode_numbers_of_different_devices_are_unrelated() {
        for (second, warnings) in [((1, 9), 0), ((2, 9), 1)] {
            let mut tree = Tree::default();
            let mut window = Window::default();
            for identity in [(1, 8), second] {
                let root = Root { path: [].into(), stored: [].into(), shown: [].into(), hidden_len: 0 };
                let root = tree.add_root(root);
                tree.set_identity(root, identity);
                window.push(root, NameKind::File, 3, b"f");
            }
            let monitor = Recorder::default();
            assert_eq!(Plan::new(&tree, &mut window, &monitor).len(), 1);
            assert_eq!(monitor.take_warnings().len(), warnings, "{second:?}");
        }
    }
}
