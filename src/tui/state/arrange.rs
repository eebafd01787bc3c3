//! How the children of a directory are arranged.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::layout::Column;
use nra_format::path::EntryPath;

/// What an order goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// Names, as the archive has them.
    #[default]
    Name,
    /// Size, the largest first.
    Size,
    /// Bytes in the archive, the most first.
    Stored,
    /// Stored to raw, the worst first.
    Ratio,
    /// Time of modification, the newest first.
    Time,
    /// Permissions, the widest first.
    Mode,
    /// Directories first.
    Kind,
}

impl Sort {
    /// Returns the column that shows what the order goes by.
    pub fn column(self) -> Column {
        match self {
            Self::Name => Column::Name,
            Self::Size => Column::Size,
            Self::Stored => Column::Stored,
            Self::Ratio => Column::Ratio,
            Self::Time => Column::Time,
            Self::Mode => Column::Mode,
            Self::Kind => Column::Kind,
        }
    }
}

/// Order and filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrangement {
    /// Order.
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// A glob, or a part of names; empty = all.
    pub filter: String,
    /// What entries at any depth must be; empty = the children of the directory.
    pub query: String,
}

impl Arrangement {
    /// Says whether only some of the entries are listed.
    pub fn is_narrow(&self) -> bool {
        !self.filter.is_empty() || !self.query.is_empty()
    }

    /// Says whether this is how the archive has them, so that nothing has to be known in advance.
    pub fn is_natural(&self) -> bool {
        *self == Self::default()
    }
}

/// Asks for an arrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrangeRequest {
    /// Whose children.
    pub directory: Option<EntryPath>,
    /// Directories whose children follow them (tree).
    pub open: Arc<BTreeSet<EntryPath>>,
    /// How.
    pub arrangement: Arrangement,
}

/// What was found, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The numbers.
    pub numbers: Arc<Vec<u64>>,
    /// The first numbers of groups that stand together, ascending; empty where there are none.
    pub firsts: Arc<[u64]>,
    /// What it adds up to, in words.
    pub told: String,
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
    /// How far that is, 0 to 1.
    pub progress: f64,
    /// The result that is shown.
    pub found: Found,
}
