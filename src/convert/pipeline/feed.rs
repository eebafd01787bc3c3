//! The writing end of everything that becomes an NRA archive: items that were read ahead go into a [`Writer`], in order.
//!
//! What an item is, and how threads read ahead, is the same for directories, streams and other archives; what only one of them
//! knows (names of one inode, links by name) it handles itself, by [`Item::Other`].

use std::io::Write;

use super::batch::{Batch, Item, Piece};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::nra::writer::{EntryId, NewContent, Writer};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::top::Top;

/// A file that was stored: its number, and the entry if that was asked for.
pub(crate) type Stored = (EntryId, Option<Entry>);

/// The writing end.
pub(crate) struct Feed<'a, W: Write + Send> {
    writer: &'a mut Writer<W>,
    /// Names that gave no entry.
    pub(crate) skipped: u64,
    /// The file that was begun could not be: its pieces go nowhere.
    skipping: bool,
    /// The file that was begun, while its pieces come.
    begun: Option<Entry>,
    /// Path of the entry in work, for messages.
    path: Vec<u8>,
    /// Content bytes that were counted.
    counted: u64,
}

impl<'a, W: Write + Send> Feed<'a, W> {
    /// Feeds `writer`.
    pub(crate) fn new(writer: &'a mut Writer<W>) -> Self {
        Self { path: Vec::new(), writer, skipped: 0, skipping: false, begun: None, counted: 0 }
    }

    /// Records the directory above all entries, in place of what is known of it.
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
    /// What writing gives; an entry that the format can't hold is left out with a warning.
    pub(crate) fn add(&mut self, entry: Entry, content: NewContent<'_>, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        self.note(&entry.path);
        monitor.current(&self.path);
        let added = self.writer.add(entry, content);
        self.settle(added, monitor)
    }

    /// Remembers what is in work.
    fn note(&mut self, path: &EntryPath) {
        self.path.clear();
        self.path.extend_from_slice(path.as_bytes());
    }

    /// Counts the entry of `path` that was added, or warns that it can't be held.
    fn settle(&mut self, added: Result<EntryId>, monitor: &dyn Monitor) -> Result<Option<EntryId>> {
        match added {
            Ok(id) => {
                monitor.add(Counter::Entries, 1);
                self.count(monitor);
                Ok(Some(id))
            }
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.skipped += 1;
                let message = format!("left out: {error}");
                monitor.warn(Warning::degraded(self.path.clone(), message));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts the content that is done since it was counted last.
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
    pub(crate) fn change(&mut self, path: &EntryPath, change: impl FnOnce(&mut Entry), monitor: &dyn Monitor) -> Result<()> {
        self.note(path);
        monitor.current(&self.path);
        let changed = self.writer.change(path, change);
        self.settle(changed, monitor).map(drop)
    }

    /// Takes an entry that the archive has, so that links can lead to it.
    ///
    /// # Errors
    ///
    /// As [`Writer::keep`].
    pub(crate) fn keep(&mut self, path: &EntryPath) -> Result<EntryId> {
        self.writer.reference_entry(path)
    }

    /// Counts a name that gives no entry.
    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Stores an item of `batch`. Returns what became of a file or other entry that is whole now; `keep`: with a copy of it.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(crate) fn take<X>(
        &mut self,
        item: Item<X>,
        batch: &Batch<X>,
        keep: bool,
        monitor: &dyn Monitor,
    ) -> Result<Option<Stored>> {
        match item {
            Item::Nothing => self.skipped += 1,
            Item::Plain(entry) => {
                let copy = keep.then(|| entry.clone());
                return Ok(self.add(entry, NewContent::None, monitor)?.map(|id| (id, copy)));
            }
            Item::Whole(entry, Piece { run, digest, incompressible }) => {
                let copy = keep.then(|| entry.clone());
                let content = NewContent::Whole { bytes: batch.run(run), digest, incompressible };
                return Ok(self.add(entry, content, monitor)?.map(|id| (id, copy)));
            }
            Item::Begin(entry) => {
                monitor.current(entry.path.as_bytes());
                self.begun = Some(entry.clone());
                match self.writer.begin_file(entry) {
                    Ok(()) => self.skipping = false,
                    Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => self.give_up(&error, monitor),
                    Err(error) => return Err(error),
                }
            }
            Item::Piece(piece) if !self.skipping => {
                let added = self.writer.add_chunk(batch.run(piece.run), piece.digest, piece.incompressible);
                self.or_give_up(added, monitor)?;
                self.count(monitor);
            }
            Item::Hole(len) if !self.skipping => {
                let added = self.writer.add_hole(len);
                self.or_give_up(added, monitor)?;
                self.count(monitor);
            }
            Item::End(digest) if !self.skipping => {
                let entry = self.begun.take().expect("a file that ends was begun");
                let ended = self.writer.end_file(digest);
                self.note(&entry.path);
                return Ok(self.settle(ended, monitor)?.map(|id| (id, Some(entry))));
            }
            Item::Abandon if !self.skipping => {
                self.writer.abandon_file();
                self.skipped += 1;
            }
            Item::Piece(_) | Item::Hole(_) | Item::End(_) | Item::Abandon => {}
            Item::Cut(_) | Item::Unmeasured(..) => unreachable!("pieces are measured before a batch arrives"),
            Item::Other(_) => unreachable!("handled by whoever made it"),
        }
        Ok(None)
    }

    fn or_give_up(&mut self, added: Result<()>, monitor: &dyn Monitor) -> Result<()> {
        match added {
            Err(error @ (Error::Usage { .. } | Error::Limit { .. })) => {
                self.writer.abandon_file();
                self.give_up(&error, monitor);
                Ok(())
            }
            result => result,
        }
    }

    /// Drops the file that was begun.
    fn give_up(&mut self, error: &Error, monitor: &dyn Monitor) {
        self.skipping = true;
        self.skipped += 1;
        if let Some(entry) = self.begun.take() {
            let message = format!("left out: {error}");
            monitor.warn(Warning::degraded(entry.path.as_bytes(), message));
        }
    }
}
