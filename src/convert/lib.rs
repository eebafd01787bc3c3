//! Copies entries from a source to a sink: files to archives, archives to directories, archives to
//! archives of other formats.
//!
//! [`convert`] is the entry point. Nothing here prints: operations report through a
//! [`Monitor`](nra_format::progress::Monitor).

mod accounts;
pub mod change;
pub mod compact;
pub mod diff;
mod entry_error;
pub mod exclude_rules;
mod handles;
mod limits;
mod metadata;
mod options;
mod pattern;
mod pipeline;
mod proc;
pub mod query;
pub mod repair;
pub mod select;
mod sink;
mod source;
mod stats;
pub mod target;

pub use limits::Limits;
pub use metadata::{GivenOwner, MetadataPolicy, OwnerPolicy};
pub use options::Options;
pub use pipeline::{NullSink, Sink, Source, Visit, convert};
pub use sink::{
    Action, Answer, Ask, CommitSink, Conflict, DEFLATE_LEVEL, Destination, DirectorySink, DirectoryStats, DirectoryTarget, Event,
    NewArchive, Nra4Sink, NraSink, Observe, Overwrite, PlainInput, ShardSink, TarSink, ZipCompression, ZipSink, named,
};
pub use source::{Filter, Input, InputIsOutput, UnreadableAsZero, WalkSource, pack_output, reads_in_order};
pub use stats::Stats;
