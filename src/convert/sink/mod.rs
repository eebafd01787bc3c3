//! The sinks: archives of each format and directories.

pub(crate) mod directory;
pub(crate) mod export;
pub(crate) mod loss;
pub(crate) mod new_file;
pub(crate) mod nra;
mod nra4;
pub(crate) mod output;
mod shard;
mod tar;
mod zip;

pub use directory::{Action, Answer, Ask, Conflict, DirectorySink, DirectoryStats, DirectoryTarget, Event, Observe, Overwrite};
pub use nra::{NraSink, PlainInput};
pub use nra4::Nra4Sink;
pub use output::{Destination, named};
pub use shard::ShardSink;
pub use tar::TarSink;
pub use zip::{DEFLATE_LEVEL, ZipCompression, ZipSink};

/// The format of a new archive, and how it is written.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "one value exists per conversion")]
pub enum NewArchive {
    /// NRA 5.
    Nra(NraSink),
    /// NRA 4.5, for versions before 5.
    Nra4(Nra4Sink),
    /// A tar archive.
    Tar(TarSink),
    /// A zip archive.
    Zip(ZipSink),
    /// A Shard file.
    Shard(ShardSink),
}

/// How files on disk are added to an archive.
#[derive(Debug, Clone, Default)]
pub struct CommitSink {
    /// How the commit is written. Threads, memory, message and time are those of
    /// [`Options`](crate::Options).
    pub writer: nra_format::nra::writer::WriterOptions,
    /// Do not read files whose size and time are unchanged. Only their changed metadata is
    /// recorded.
    pub update: bool,
    /// Replace directories, including everything below them, by entries of other kinds and the
    /// reverse. Otherwise the new entry is skipped.
    pub overwrite: bool,
}
