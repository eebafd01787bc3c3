//! Result of a conversion.

use crate::sink::DirectoryStats;
use nra_format::nra::writer::WriterStats;

/// Counts of a conversion, or of a dry run if the sink is [`Sink::Null`](crate::Sink::Null).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Content of the output. Sinks other than NRA count only entries, files, content bytes and
    /// archive bytes.
    pub written: WriterStats,
    /// Entries and names that are not in the output. A warning reported the reason for each.
    pub skipped: u64,
    /// Skipped entries that conflict with an entry of the archive.
    pub conflicts: u64,
    /// Entries that an update found unchanged in the archive.
    pub unchanged: u64,
    /// Skipped entries that are damaged. Counted only when extracting to a directory or recovering
    /// an archive.
    pub damaged: u64,
    /// Unreadable parts of the index, whose entries are unknown. Counted only when recovering an
    /// archive.
    pub unreadable: u64,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// The end of the input could not be read. The entries before it are kept.
    pub incomplete: bool,
    /// Entries created in a directory.
    pub directory: DirectoryStats,
}
