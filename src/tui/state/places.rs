//! Positions in archives: of this run and earlier ones, bookmarked, found.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::state::stored_positions::StoredPositions;
use crate::state::{PendingChanges, SearchResults};
use nra_format::entry::Entry;
use nra_format::path::EntryPath;

/// Directories whose cursor is stored.
const MAX_CURSORS: usize = 1_000;

/// The position in an archive while a nested one is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterPosition {
    pub directory: Option<EntryPath>,
    pub at: Option<EntryPath>,
    pub marks: Arc<Vec<Range<u64>>>,
    pub pending: PendingChanges,
    /// The key for the stored position.
    pub home: Option<String>,
}

/// Positions in archives.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Positions of earlier runs, and in other archives of this one.
    pub memory: StoredPositions,
    /// Archives of this run whose position may be stored.
    pub visited: Vec<String>,
    /// Bookmarked entries, by letter.
    pub bookmarks: BTreeMap<char, EntryPath>,
    pub results: SearchResults,
    /// Positions in the archives around this one, the outermost first.
    pub outer: Vec<OuterPosition>,
    /// The last cursor position in each directory.
    pub cursors: HashMap<Option<EntryPath>, EntryPath>,
}

impl Places {
    /// Stores the cursor position in a directory.
    pub fn save_cursor(&mut self, directory: Option<&EntryPath>, entry: Option<&Entry>) {
        if self.cursors.len() >= MAX_CURSORS {
            self.cursors.clear();
        }
        if let Some(entry) = entry {
            self.cursors.insert(directory.cloned(), entry.path.clone());
        }
    }

    /// Changes the paths of all positions in the archive shown.
    pub fn rename(&mut self, then: impl Fn(&EntryPath) -> EntryPath) {
        let cursors = std::mem::take(&mut self.cursors).into_iter();
        self.cursors = cursors.map(|(directory, at)| (directory.as_ref().map(&then), then(&at))).collect();
        self.bookmarks.values_mut().for_each(|path| *path = then(path));
    }
}
