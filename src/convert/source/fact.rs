//! Facts of archives and streams other than their entries.

use nra_format::entry::Entry;
use nra_format::error::Error;
use nra_format::path::EntryPath;
use nra_format::top::Top;

/// Facts of a container other than entries.
#[derive(Debug)]
pub(crate) enum SourceFact {
    /// A further name of the entry that has this path.
    Link(Box<Entry>, EntryPath),
    /// Metadata of the top directory.
    Top(Top),
    /// A comment about the whole archive.
    Message(String),
    /// A damaged part of the input that was skipped.
    Damaged(Box<Error>),
    /// The input can't be read further.
    Failed(Box<Error>, Option<Broken>),
}

/// The entry in which the input ended.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) path: EntryPath,
    /// The content before the end is kept.
    pub(crate) kept: bool,
}
