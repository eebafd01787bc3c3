//! The writing end: entries in the order of the input, and the hard links between them.

use std::collections::HashMap;
use std::io::Write;

use xxhash_rust::xxh3::xxh3_128;

use super::archive::within;
use crate::convert::feed::{Batch, Feed, Item, Placed};
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::nra::writer::{EntryId, Writer, WriterStats};
use crate::format::path::{EntryPath, Quoted};
use crate::format::progress::{Monitor, Warning};
use crate::format::stream::casts_doubt;
use crate::format::top::Top;

/// What reading a container gives beside entries.
#[derive(Debug)]
pub(super) enum Special {
    /// A further name of the entry that has this path.
    Link(Box<Entry>, EntryPath),
    /// What the input says of the directory above all entries.
    Top(Top),
    /// What it says of itself as a whole.
    Message(String),
    /// Something of the input is damaged and passed over.
    Hurt(Box<Error>),
    /// The input can't be read further.
    Failed(Box<Error>, Option<Broken>),
}

/// The entry that the input ended in.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: EntryPath,
    /// What came of its content is kept.
    pub(super) kept: bool,
}

/// A path, short enough to keep one for each entry.
type Key = u128;

fn key(path: &EntryPath) -> Key {
    xxh3_128(path.as_bytes())
}

/// Stores items.
pub(super) struct Store<'a, W: Write + Send> {
    feed: Feed<W>,
    monitor: &'a dyn Monitor,
    /// Finish what came before the input failed.
    keep_going: bool,
    failed: bool,
    /// Files by path.
    files: HashMap<Key, EntryId>,
    /// Entries that are no files and no directories, by path.
    nodes: HashMap<Key, Entry>,
    /// Links whose target did not come yet, by the path of that.
    waiting: HashMap<Key, Vec<(Entry, EntryPath)>>,
    /// Path of the file in work.
    begun: Option<Key>,
}

impl<'a, W: Write + Send> Store<'a, W> {
    pub(super) fn new(writer: Writer<W>, keep_going: bool, monitor: &'a dyn Monitor) -> Self {
        Self {
            feed: Feed::new(writer),
            monitor,
            keep_going,
            failed: false,
            files: HashMap::new(),
            nodes: HashMap::new(),
            waiting: HashMap::new(),
            begun: None,
        }
    }

    /// Says whether the input could not be read to its end.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// Stores an item.
    pub(super) fn take(&mut self, placed: Placed<Special>, batch: &Batch<Special>) -> Result<()> {
        let item = match placed.item {
            Item::Other(Special::Link(entry, target)) => return self.link(*entry, target),
            Item::Other(Special::Top(top)) => return self.feed.set_top(top),
            Item::Other(Special::Message(message)) => return self.feed.set_message(message),
            Item::Other(Special::Hurt(error)) => return self.hurt(*error),
            Item::Other(Special::Failed(error, entry)) => return self.fail(*error, entry.as_ref()),
            item => item,
        };
        let (key, kind) = match &item {
            Item::Plain(entry) | Item::Whole(entry, _) => (Some(key(&entry.path)), entry.kind),
            Item::Begin(entry) => {
                self.begun = Some(key(&entry.path));
                (None, Kind::File)
            }
            Item::End(_) => (self.begun.take(), Kind::File),
            _ => (None, Kind::File),
        };
        let stored = self.feed.take(item, batch, !matches!(kind, Kind::File | Kind::Directory), self.monitor)?;
        if let (Some(key), Some((id, entry))) = (key, stored) {
            match (kind, entry) {
                (Kind::File, _) => {
                    self.nodes.remove(&key);
                    self.files.insert(key, id);
                }
                (_, Some(entry)) => {
                    self.files.remove(&key);
                    self.nodes.insert(key, entry);
                }
                (_, None) => {
                    // A link to a directory is none.
                    self.files.remove(&key);
                    self.nodes.remove(&key);
                    return Ok(());
                }
            }
            self.settle_waiting(key)?;
        }
        Ok(())
    }

    fn fail(&mut self, error: Error, entry: Option<&Broken>) -> Result<()> {
        if !self.keep_going || !matches!(error, Error::Corrupt { .. }) {
            return Err(match entry {
                Some(entry) => within(error, &entry.path),
                None => error,
            });
        }
        self.failed = true;
        let doubt = if casts_doubt(&error) { ", but may be damaged, too, where its checksum covers it" } else { "" };
        let fate = if entry.is_some_and(|entry| !entry.kept) { "left out: " } else { "" };
        let message = format!("{fate}{error}; what came before is kept{doubt}");
        let path = entry.map_or_else(Vec::new, |entry| entry.path.as_bytes().to_vec());
        self.monitor.warn(Warning { path, message, degraded: true, damage: true });
        Ok(())
    }

    fn hurt(&mut self, error: Error) -> Result<()> {
        if !self.keep_going {
            return Err(error);
        }
        self.failed = true;
        let message = format!("{error}; it is left out");
        self.monitor.warn(Warning { path: Vec::new(), message, degraded: true, damage: true });
        self.feed.leave_out();
        Ok(())
    }

    fn link(&mut self, entry: Entry, target: EntryPath) -> Result<()> {
        let wanted = key(&target);
        if self.files.contains_key(&wanted) || self.nodes.contains_key(&wanted) {
            let own = key(&entry.path);
            self.link_now(entry, wanted)?;
            return self.settle_waiting(own);
        }
        self.waiting.entry(wanted).or_default().push((entry, target));
        Ok(())
    }

    /// Stores the links that waited for a path, and those that waited for them.
    fn settle_waiting(&mut self, key_stored: Key) -> Result<()> {
        let mut ready = vec![key_stored];
        while let Some(target) = ready.pop() {
            for (entry, _) in self.waiting.remove(&target).unwrap_or_default() {
                let own = key(&entry.path);
                self.link_now(entry, target)?;
                ready.push(own);
            }
        }
        Ok(())
    }

    fn link_now(&mut self, mut entry: Entry, target: Key) -> Result<()> {
        let own = key(&entry.path);
        if let Some(&id) = self.files.get(&target) {
            if let Some(id) = self.feed.add_link(entry, id, self.monitor)? {
                self.nodes.remove(&own);
                self.files.insert(own, id);
            }
        } else if let Some(node) = self.nodes.get(&target) {
            // Links of symlinks and devices are entries like them.
            entry = Entry { path: entry.path, ..node.clone() };
            let copy = entry.clone();
            if self.feed.add(entry, crate::format::nra::writer::NewContent::None, self.monitor)?.is_some() {
                self.nodes.insert(own, copy);
            }
        }
        Ok(())
    }

    /// Finishes the archive.
    pub(super) fn finish(mut self) -> Result<(W, WriterStats, u64)> {
        let mut lost: Vec<_> = std::mem::take(&mut self.waiting).into_values().flatten().collect();
        lost.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        for (entry, target) in lost {
            let target = Quoted::new(target.as_bytes());
            let message = format!("left out: a hard link to {target}, which is no file in the archive");
            self.monitor.warn(Warning { path: entry.path.as_bytes().to_vec(), message, degraded: true, damage: false });
            self.feed.leave_out();
        }
        self.feed.finish(self.monitor)
    }
}
