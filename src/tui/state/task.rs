//! The task of a job.

use std::ops::Range;
use std::path::PathBuf;

use crate::state::PendingChange;
use nra_convert::Overwrite;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    Extract {
        ranges: Vec<Range<u64>>,
        target: PathBuf,
        strip: usize,
        /// The treatment of existing files.
        overwrite: Overwrite,
    },
    /// Write changes as one commit.
    Change {
        file: PathBuf,
        /// The commit the changes were made for.
        commit: u64,
        /// Message of the new commit.
        message: String,
        changes: Vec<PendingChange>,
    },
    /// Return to an earlier commit.
    Revert {
        file: PathBuf,
        commit: u64,
        /// Numbers of the entries to restore from it, `None` = everything.
        ranges: Option<Vec<Range<u64>>>,
        /// The newest commit, if that is to be undone.
        over: Option<u64>,
    },
    /// Compact the archive to its newest commit.
    Compact { file: PathBuf, commit: u64 },
    Convert {
        /// The new archive; its extension selects the format.
        output: PathBuf,
    },
    /// Write readable entries to a new archive.
    Salvage {
        output: PathBuf,
        /// Message of its commit.
        message: String,
    },
    Verify {
        /// Their numbers, `None` = the whole archive.
        ranges: Option<Vec<Range<u64>>>,
    },
}

/// Policies for existing files, the safe one first.
pub const POLICIES: [(&str, Overwrite); 5] = [
    ("rename the new file", Overwrite::Rename),
    ("keep it, skip the entry", Overwrite::Skip),
    ("replace it if it is older", Overwrite::KeepNewer),
    ("back it up as name~", Overwrite::Backup),
    ("replace it", Overwrite::Replace),
];

/// Index of the safe policy.
pub const SAFE: usize = 0;
