//! Moves entries from a source to a sink: files into archives, archives into directories, archives into archives of another format.
//!
//! [`convert`] does all of it. Nothing here prints: work reports through a [`Monitor`](nra_format::progress::Monitor).

mod accounts;
pub mod change;
pub mod compact;
pub mod diff;
mod limits;
mod metadata;
mod options;
mod pattern;
mod pipeline;
mod proc;
pub mod query;
pub mod repair;
pub mod rules;
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
    Format, Nra4Sink, NraSink, Observe, Overwrite, PlainInput, ShardSink, TarSink, ZipCompression, ZipSink, named,
};
pub use source::{Filter, Input, UnreadableAsZero, WalkSource, default_output, reads_in_order};
pub use stats::Stats;
