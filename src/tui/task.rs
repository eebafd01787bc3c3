//! Jobs: what each of them does.

use std::ops::Range;
use std::path::PathBuf;

use crate::state::pending::PendingChange;
use nra_convert::Overwrite;

/// Long work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Extract entries.
    Extract {
        /// Numbers of the entries.
        ranges: Vec<Range<u64>>,
        /// Directory to put them in.
        target: PathBuf,
        /// Components to leave out in front of their paths.
        strip: usize,
        /// What to do about existing files.
        overwrite: Overwrite,
    },
    /// Write changes as one commit.
    Change {
        /// The archive.
        file: PathBuf,
        /// The commit they were planned at.
        commit: u64,
        /// Message of the new commit.
        message: String,
        /// The changes.
        changes: Vec<PendingChange>,
    },
    /// Make an earlier commit the newest state again.
    Revert {
        /// The archive.
        file: PathBuf,
        /// That commit.
        commit: u64,
        /// Numbers of the entries in it that come back, `None` = all is as it was then.
        ranges: Option<Vec<Range<u64>>>,
        /// The newest commit, if it is the one to be undone.
        over: Option<u64>,
    },
    /// Write the newest commit anew, without what only earlier ones hold.
    Compact {
        /// The archive.
        file: PathBuf,
        /// That commit.
        commit: u64,
    },
    /// Write everything as another archive.
    Convert {
        /// Its file; the ending tells the kind.
        output: PathBuf,
    },
    /// Write what reads as a new archive.
    Salvage {
        /// Its file.
        output: PathBuf,
        /// Message of its commit.
        message: String,
    },
    /// Check entries.
    Verify {
        /// Their numbers, `None` = the whole archive.
        ranges: Option<Vec<Range<u64>>>,
    },
}
