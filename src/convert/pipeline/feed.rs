//! Feeds parts that were read ahead into a [`Writer`] of NRA 5, in order.
//!
//! Files on disk, streams and archives share the parts and the threads. Facts that only one source
//! has, such as inodes or links by name, are [`EntryPart::Other`], which the source handles.

use std::io::Write;

use super::batch::{Batch, Chunk, EntryPart};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::nra::writer::{EntryId, NewContent, Writer};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Severity, Warning};
use nra_format::top::Top;

/// A stored file: its number, and the entry if it was requested.
pub(crate) type Stored = (EntryId, Option<Entry>);

/// Stores parts in an archive.
pub(crate) struct Feed<'a, W: Write + Send> {
    writer: &'a mut Writer<W>,
    /// Severity of warnings about skipped entries.
    loss: Severity,
    /// Names that were skipped.
    pub(crate) skipped: u64,
    /// The file in progress was skipped: its chunks are dropped.
    skipping: bool,
    /// The file in progress, while its chunks arrive.
    begun: Option<Entry>,
    /// Path of the current entry, for messages.
    path: Vec<u8>,
    /// Content bytes that were reported.
    counted: u64,
}

impl<'a, W: Write + Send> Feed<'a, W> {
    /// Returns a feed for `writer`. `loss`: severity of warnings about entries that the format can't
    /// hold.
    pub(crate) fn new(writer: &'a mut Writer<W>, loss: Severity) -> Self {
        Self { path: Vec::new(), writer, loss, skipped: 0, skipping: false, begun: None, counted: 0 }
    }

    /// Records the top directory, replacing the known one.
    ///
    /// # Errors
    ///
    /// `Limit` for attributes that the format can't hold.
    pub(crate) fn set_top(&mut self, top: Top) -> Result<()> {
        let kept = self.writer.attributes().iter().filter(|attribute| !Top::has(attribute)).cloned();
        let attributes = kept.chain(top.into_attributes()).collect();
        self.writer.set_attributes(attributes)
    }

    /// Sets the message of the commit, unless there is one.
    ///
    /// # Errors
    ///
    /// `Limit` when it is too long.
    pub(crate) fn set_message(&mut self, message: String) -> Result<()> {
        if self.writer.message().is_empty() { self.writer.set_message(message) } else { Ok(()) }
    }

    /// Adds an entry.
    ///
    /// # Errors
    ///
    /// As the writer; an entry that the format can't hold is skipped with a warning.
    pub(crate) fn add(&mut self, entry: Entry, content: NewContent<'_>, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        self.note(&entry.path);
        monitor.current(&self.path);
        let added = self.writer.add(entry, content);
        self.settle(added, monitor)
    }

    /// Remembers the current path.
    fn note(&mut self, path: &EntryPath) {
        self.path.clear();
        self.path.extend_from_slice(path.as_bytes());
    }

    /// Counts an entry that was added, or warns that the format can't hold it.
    fn settle(&mut self, added: Result<EntryId>, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        match added {
            Ok(id) => {
                monitor.add(Counter::Entries, 1);
                self.count(monitor);
                Ok(Some(id))
            }
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.skipped += 1;
                let message = format!("skipped: {error}");
                monitor.warn(Warning::new(self.loss, self.path.clone(), message));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports the content that was completed since the last call.
    fn count(&mut self, monitor: &dyn Monitor) {
        let done = self.writer.done_bytes();
        if done > self.counted {
            monitor.add(Counter::Bytes, done - self.counted);
            self.counted = done;
        }
    }

    /// Adds a hard link to an earlier file.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(crate) fn add_link(&mut self, entry: Entry, earlier: EntryId, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        self.note(&entry.path);
        monitor.current(&self.path);
        let added = self.writer.add_link(entry, earlier);
        self.settle(added, monitor)
    }

    /// Changes the metadata of an entry that the archive has.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(crate) fn change(
        &mut self,
        path: &EntryPath,
        change: impl FnOnce(&mut Entry),
        monitor: &dyn Monitor,
    ) -> Result<Option<EntryId>> {
        self.note(path);
        monitor.current(&self.path);
        let changed = self.writer.change(path, change);
        self.settle(changed, monitor)
    }

    /// Keeps an entry of the archive, so that links can refer to it.
    ///
    /// # Errors
    ///
    /// As [`Writer::keep`].
    pub(crate) fn keep(&mut self, path: &EntryPath) -> Result<EntryId> {
        self.writer.reference_entry(path)
    }

    /// Counts a skipped name.
    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Stores a part of `batch`. Returns the entry that it completes, with a copy of it if `keep`
    /// is set.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(crate) fn store_part<X>(
        &mut self,
        part: EntryPart<X>,
        batch: &Batch<X>,
        keep: bool,
        monitor: &dyn Monitor,
    ) -> Result<Option<Stored>> {
        match part {
            EntryPart::Nothing => self.skipped += 1,
            EntryPart::Plain(entry) => {
                let copy = keep.then(|| entry.clone());
                return Ok(self.add(entry, NewContent::None, monitor)?.map(|id| (id, copy)));
            }
            EntryPart::Whole(entry, Chunk { run, digest, incompressible }) => {
                let copy = keep.then(|| entry.clone());
                let content = NewContent::Whole { bytes: batch.run(run), digest, incompressible };
                return Ok(self.add(entry, content, monitor)?.map(|id| (id, copy)));
            }
            EntryPart::Begin(entry) => {
                monitor.current(entry.path.as_bytes());
                self.begun = Some(entry.clone());
                match self.writer.begin_file(entry) {
                    Ok(()) => self.skipping = false,
                    Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => self.skip_file(&error, monitor),
                    Err(error) => return Err(error),
                }
            }
            EntryPart::Chunk(chunk) if !self.skipping => {
                let added = self.writer.add_chunk(batch.run(chunk.run), chunk.digest, chunk.incompressible);
                self.or_skip_file(added, monitor)?;
                self.count(monitor);
            }
            EntryPart::Hole(len) if !self.skipping => {
                let added = self.writer.add_hole(len);
                self.or_skip_file(added, monitor)?;
                self.count(monitor);
            }
            EntryPart::End(digest) if !self.skipping => {
                let entry = self.begun.take().expect("a file that ends was begun");
                let ended = self.writer.end_file(digest);
                self.note(&entry.path);
                return Ok(self.settle(ended, monitor)?.map(|id| (id, Some(entry))));
            }
            EntryPart::Abandon if !self.skipping => {
                self.writer.abandon_file();
                self.skipped += 1;
            }
            EntryPart::Chunk(_) | EntryPart::Hole(_) | EntryPart::End(_) | EntryPart::Abandon => {}
            EntryPart::Cut(_) | EntryPart::Unhashed(..) => unreachable!("chunks are hashed before a batch arrives"),
            EntryPart::Other(_) => unreachable!("handled by its source"),
        }
        Ok(None)
    }

    fn or_skip_file(&mut self, added: Result<()>, monitor: &dyn Monitor) -> Result<()> {
        match added {
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.writer.abandon_file();
                self.skip_file(&error, monitor);
                Ok(())
            }
            result => result,
        }
    }

    /// Drops the file in progress.
    fn skip_file(&mut self, error: &Error, monitor: &dyn Monitor) {
        self.skipping = true;
        self.skipped += 1;
        if let Some(entry) = self.begun.take() {
            let message = format!("skipped: {error}");
            monitor.warn(Warning::new(self.loss, entry.path.as_bytes(), message));
        }
    }
}
