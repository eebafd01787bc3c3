//! The one way from a source to a sink.
//!
//! [`convert`] picks the code path for a pair of [`Source`] and [`Sink`]. Design:
//! `docs/design/pipeline.md`.

mod batch;
mod content;
mod feed;
mod threads;

use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) use batch::{Batch, ByteRange, EntryPart, OrderedPart, Outlet, Stopped, hash_chunk};
pub(crate) use content::{BATCH_PARTS, Content, HASHED_HOLES_MAX, hash_zeros, split_chunks};
pub(crate) use feed::Feed;
pub(crate) use threads::{EntryReader, EntrySource, MIN_BUFFER, read_ahead, read_one};

use crate::options::Options;
use crate::select::Selection;
use crate::sink::{self, CommitSink, Destination, DirectorySink, NewArchive};
use crate::source::{self, WalkSource};
use crate::stats::Stats;
use nra_format::archive::Archive;
use nra_format::entry::Kind;
use nra_format::error::{Error, Result, Subject};
use nra_format::nra::writer::{AppendDestination, Writer};
use nra_format::path::EntryPath;
use nra_format::progress::Monitor;

/// Where entries come from.
pub enum Source<'a> {
    /// Files and directories on disk.
    Walk(WalkSource),
    /// An archive or a compressed file that is read once, in order; and its name in messages.
    Stream(Box<dyn Read + Send>, Subject),
    /// An archive or a compressed file on disk.
    File(PathBuf),
    /// The selected entries of an archive that is open already.
    Archive(&'a dyn Archive, &'a Selection),
    /// The readable entries of a damaged archive.
    Damaged(&'a dyn Archive),
}

/// Where entries go.
pub enum Sink<'a> {
    /// A new archive of this format.
    Archive(Destination, NewArchive),
    /// The next commit of an .nra archive.
    Commit(PathBuf, CommitSink),
    /// A commit of an .nra archive that is being made, among its other changes. The caller finishes
    /// it. The path is that of the archive.
    Pending(&'a Path, &'a mut Writer<AppendDestination>),
    /// A directory on disk.
    Directory(DirectorySink<'a>),
    /// Nothing is written: the conversion to this sink is only tried.
    Null(NullSink<'a>),
}

/// A sink that writes nothing.
pub struct NullSink<'a> {
    /// The sink that it replaces.
    pub of: Box<Sink<'a>>,
    /// Is called for each entry that files and directories on disk would give, in path order.
    pub visit: Option<Visit<'a>>,
}

/// Receives an entry that would be written.
pub type Visit<'a> = &'a dyn Fn(&EntryPath, Kind) -> Result<()>;

impl<'a> Sink<'a> {
    /// Returns the sink that tries what this one does and writes nothing.
    pub fn dry_run(self) -> Self {
        Self::Null(NullSink { of: Box::new(self), visit: None })
    }
}

/// Converts `source` to `sink`.
///
/// Entries that can't be read or can't be written are skipped, each with a warning, where that
/// leaves the others intact. A new archive gets its name when it is complete.
///
/// # Errors
///
/// - `Usage` for a pair of source and sink that is not supported, and for options that contradict
///   each other.
/// - `Io` when the input can't be opened or the output can't be written.
/// - `Unsupported` or `NotAnArchive` for an input of an unknown kind; `Corrupt` for a damaged one,
///   unless [`Options::keep_going`] is set.
/// - `Limit` and `ResourceLimit` for an input that grows beyond [`Options::limits`] or exceeds what
///   the format can hold.
/// - For a directory, before anything is written: `Conflict` when there are conflicts that no
///   policy settles, `EntryLocked` when a key is missing or wrong.
/// - `Cancelled`.
///
/// After an error nothing is left under the name of a new archive, and an existing archive is
/// unchanged. Files that were extracted completely stay.
pub fn convert(source: Source<'_>, sink: Sink<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let mut options = options.resolved();
    options.keep_going |= matches!(source, Source::Damaged(_));
    let options = &options;
    let (sink, dry_run) = match sink {
        Sink::Null(NullSink { of, visit }) => (*of, Some(visit.unwrap_or(&|_, _| Ok(())))),
        sink => (sink, None),
    };
    match (source, sink) {
        (Source::Walk(walk), Sink::Archive(destination, NewArchive::Nra(nra))) => {
            source::files::pack(&walk, destination, &nra, dry_run, options, monitor)
        }
        (Source::Walk(walk), Sink::Commit(archive, commit)) => {
            source::files::add(&walk, &archive, &commit, dry_run, options, monitor)
        }
        (Source::Walk(walk), Sink::Pending(archive, writer)) if dry_run.is_none() => {
            source::files::add_to(&walk, archive, writer, options, monitor)
        }
        (Source::Walk(_), _) => Err(unsupported("files and directories are packed into .nra archives only")),
        (_, Sink::Commit(..) | Sink::Pending(..)) => Err(unsupported("entries of another archive can't be added to an archive")),
        (_, Sink::Null(_)) => Err(unsupported("a dry run of a dry run")),
        (source, Sink::Archive(destination, archive)) => {
            let destination = if dry_run.is_some() { Destination::Null } else { destination };
            match archive {
                NewArchive::Nra(nra) => {
                    sink::nra::write(source::open(source, options, monitor)?, destination, &nra, options, monitor)
                }
                archive => {
                    let input = source::open_indexed(source, options, monitor)?;
                    sink::export::export(&*input.archive, input.selection, destination, archive, options, monitor)
                }
            }
        }
        (source, Sink::Directory(directory)) => {
            let input = source::open_indexed(source, options, monitor)?;
            let all = Selection::all();
            let selection = input.selection.unwrap_or(&all);
            sink::directory::extract(&*input.archive, selection, directory, dry_run.is_some(), options, monitor)
        }
    }
}

fn unsupported(detail: &str) -> Error {
    Error::Usage { detail: detail.to_owned() }
}
