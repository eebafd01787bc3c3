//! Sort order, filter and query of the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::layout::Column;
use nra_format::path::EntryPath;

/// A sort order, a filter and a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrangement {
    pub sort: Column,
    pub reverse: bool,
    /// A glob, or part of names; empty = all.
    pub filter: String,
    /// A query on entries at any depth; empty = the children of the directory.
    pub query: String,
}

impl Arrangement {
    /// Returns whether only some of the entries are listed.
    pub fn is_narrow(&self) -> bool {
        !self.filter.is_empty() || !self.query.is_empty()
    }

    /// Returns whether this is the order of the archive, which needs no sorting.
    pub fn is_natural(&self) -> bool {
        *self == Self::default()
    }
}

/// Requests the list in an arrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrangeRequest {
    pub directory: Option<EntryPath>,
    /// Expanded directories of the tree.
    pub open: Arc<BTreeSet<EntryPath>>,
    pub arrangement: Arrangement,
}

/// Entries in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    pub numbers: Arc<Vec<u64>>,
    /// The first numbers of groups of duplicates, ascending.
    pub firsts: Arc<[u64]>,
    pub summary: String,
}

/// The sort order, filter and query of the list: wanted and shown.
#[derive(Debug, Clone, Default)]
pub struct ListArrangement {
    /// The arrangement the user has chosen.
    pub wanted: Arrangement,
    /// The arrangement of the rows that are shown.
    pub shown: Arrangement,
    /// The wanted arrangement is being computed.
    pub loading: bool,
    /// Its progress, 0 to 1.
    pub progress: f64,
    pub found: Found,
}
