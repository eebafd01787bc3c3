//! Writes an archive in one pass to anything that takes bytes in order.
//!
//! The thread that owns the [`Writer`] deduplicates, places frames and writes; worker threads compress. The bytes depend on
//! the entries, their order and the options, never on the number of threads. Spec: nra.md, sections 3 and 7.

mod options;

use std::io::Write;

pub use options::{BlockPolicy, DictionaryPolicy, WriterOptions, WriterStats};

use crate::format::digest::Digest;
use crate::format::entry::Entry;
use crate::format::error::Result;
use crate::format::progress::Monitor;

/// Content of an entry that is added in one call.
#[derive(Debug, Clone, Copy)]
pub enum NewContent<'a> {
    /// None: an empty file, or an entry that is not a file.
    None,
    /// The whole of a small file: it becomes one piece.
    Whole {
        /// The bytes, 1 to `MAX_BLOCK_RAW`.
        bytes: &'a [u8],
        /// Their digest.
        digest: Digest,
        /// What [`looks_incompressible`](crate::format::codec::looks_incompressible) says of them.
        incompressible: bool,
    },
}

/// Names an entry that was added to a [`Writer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(u64);

/// Writes an archive. Dropping it without [`Writer::finish`] leaves an archive that does not open.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write + Send> Writer<W> {
    /// Begins an archive: `out` stands at its first byte.
    ///
    /// # Errors
    ///
    /// `Usage` for options that make no sense, and what writing the head gives.
    pub fn create(_out: W, _options: WriterOptions) -> Result<Self> {
        todo!()
    }

    /// Adds an entry and all of its content. Its fields `size` and `content` are set by the writer; entries with the same
    /// `link_group` other than 0 are hard links of each other (the caller's numbers are replaced).
    ///
    /// An entry with the path of an earlier one takes its place.
    ///
    /// # Errors
    ///
    /// `Usage` or `Limit` for an entry that the format cannot hold (the writer goes on as if it had not been given), and what
    /// writing gives.
    pub fn add(&mut self, _entry: Entry, _content: NewContent<'_>) -> Result<EntryId> {
        todo!()
    }

    /// Begins a file whose content is given in pieces.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn begin(&mut self, _entry: Entry) -> Result<()> {
        todo!()
    }

    /// Adds the next bytes of the file that was begun: one piece.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn piece(&mut self, _bytes: &[u8], _digest: Digest, _incompressible: bool) -> Result<()> {
        todo!()
    }

    /// Adds `len` zero bytes that are not stored to the file that was begun.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn hole(&mut self, _len: u64) -> Result<()> {
        todo!()
    }

    /// Ends the file that was begun; `digest` is that of its whole content, if known.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn end(&mut self, _digest: Option<Digest>) -> Result<EntryId> {
        todo!()
    }

    /// Gives up the file that was begun; what was stored of it stays and may serve later files.
    pub fn abandon(&mut self) {
        todo!()
    }

    /// Adds a hard link: an entry with the content of an earlier file and in the same link group.
    ///
    /// # Errors
    ///
    /// As [`Writer::add`].
    pub fn add_link(&mut self, _entry: Entry, _earlier: EntryId) -> Result<EntryId> {
        todo!()
    }

    /// Writes what is left, the index and the commit; returns `out` (flushed) and what was written.
    ///
    /// # Errors
    ///
    /// What compressing and writing give; `Cancelled` when the monitor says so.
    pub fn finish(self, _monitor: &dyn Monitor) -> Result<(W, WriterStats)> {
        todo!()
    }
}
