//! What a conversion did.

use crate::sink::DirectoryStats;
use nra_format::nra::writer::WriterStats;

/// What a conversion did, or would do if the sink is [`Sink::Null`](crate::Sink::Null).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// What the output holds. Sinks other than .nra count entries, files, bytes of content and bytes of the archive.
    pub written: WriterStats,
    /// Entries and names that are not in the output; a warning gave the reason for each.
    pub skipped: u64,
    /// Those of them that were skipped because the archive has a conflicting entry.
    pub conflicts: u64,
    /// Entries that an update found unchanged in the archive.
    pub unchanged: u64,
    /// Entries that were skipped because they are damaged. Counted by a directory and by recovery.
    pub damaged: u64,
    /// Parts of the index that can't be read: the names of their entries are unknown. Counted by recovery.
    pub unreadable: u64,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// The input could not be read to its end; the entries before are kept.
    pub incomplete: bool,
    /// What was made in a directory.
    pub directory: DirectoryStats,
}
