//! The tree view: which directories are expanded.

use std::collections::BTreeSet;
use std::sync::Arc;

use nra_format::path::EntryPath;

/// The tree view.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Directories are expanded in place instead of being entered.
    pub on: bool,
    pub open: Arc<BTreeSet<EntryPath>>,
}

impl Tree {
    /// Returns the directories whose children the list shows.
    pub fn expanded(&self) -> Arc<BTreeSet<EntryPath>> {
        if self.on { Arc::clone(&self.open) } else { Arc::default() }
    }

    /// Expands or collapses a directory.
    pub fn fold(&mut self, path: EntryPath, open: bool) {
        let directories = Arc::make_mut(&mut self.open);
        let _ = if open { directories.insert(path) } else { directories.remove(&path) };
    }
}
