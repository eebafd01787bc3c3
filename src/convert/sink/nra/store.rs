//! Stores entries in the order of the input, and resolves the hard links between them.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry_error::within;
use crate::limits::{LimitCounter, Limits};
use crate::pipeline::{Batch, EntryPart, Feed, OrderedPart, read_one};
use crate::source::{ArchiveSource, Broken, SourceFact};
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::links::{LinkTargets, PathKey};
use nra_format::nra::writer::{EntryId, NewContent, Writer};
use nra_format::path::{EntryPath, Quoted};
use nra_format::progress::{Monitor, Severity, Warning};
use nra_format::stream::casts_doubt;

/// Target of a hard link.
#[derive(Debug, Clone)]
enum Target {
    File(EntryId),
    /// Neither a file nor a directory: links to it become equal entries.
    Other(Arc<Entry>),
}

fn key(path: &EntryPath) -> PathKey {
    PathKey::of(path.as_bytes())
}

/// Stores parts.
pub(crate) struct Store<'a, W: Write + Send> {
    feed: Feed<'a, W>,
    monitor: &'a dyn Monitor,
    /// Keep the entries before the input failed.
    keep_going: bool,
    failed: bool,
    /// Hard links, each with the path of its target.
    links: LinkTargets<Target, (Entry, EntryPath)>,
    /// Counts targets of symlinks that hard links repeat: a few bytes of the input become many.
    repeated: LimitCounter,
    /// Bytes of the input so far.
    stored: Arc<AtomicU64>,
}

impl<'a, W: Write + Send> Store<'a, W> {
    /// Returns a store for `writer`. `loss`: severity of warnings about entries that the format
    /// can't hold.
    pub(crate) fn new(
        writer: &'a mut Writer<W>,
        limits: Limits,
        stored: Arc<AtomicU64>,
        keep_going: bool,
        loss: Severity,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (feed, repeated) = (Feed::new(writer, loss), LimitCounter::new(limits));
        Self { feed, monitor, keep_going, failed: false, links: LinkTargets::default(), repeated, stored }
    }

    /// Returns whether the input could not be read to its end.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Stores a part. If `damaged` is given, a hard link whose target was skipped is read from there
    /// as a file.
    pub(crate) fn store_part(
        &mut self,
        ordered: OrderedPart<SourceFact>,
        batch: &Batch<SourceFact>,
        damaged: Option<&ArchiveSource<'_>>,
    ) -> Result<()> {
        let part = match ordered.part {
            EntryPart::Other(SourceFact::Link(entry, target)) => {
                return match damaged.filter(|_| self.links.target(key(&target)).is_none()) {
                    Some(source) => self.store_as_file(ordered.position, &entry.path, &target, source),
                    None => self.link(*entry, target),
                };
            }
            EntryPart::Other(SourceFact::Top(top)) => return self.feed.set_top(top),
            EntryPart::Other(SourceFact::Message(message)) => return self.feed.set_message(message),
            EntryPart::Other(SourceFact::Damaged(error)) => return self.damaged(*error),
            EntryPart::Other(SourceFact::Failed(error, entry)) => return self.fail(*error, entry.as_ref()),
            part => part,
        };
        let (path, kind) = match &part {
            EntryPart::Plain(entry) | EntryPart::Whole(entry, _) => (Some(key(&entry.path)), entry.kind),
            _ => (None, Kind::File),
        };
        let stored = self.feed.store_part(part, batch, !matches!(kind, Kind::File | Kind::Directory), self.monitor)?;
        let Some((id, entry)) = stored else { return Ok(()) };
        let Some(path) = path.or_else(|| entry.as_ref().map(|entry| key(&entry.path))) else { return Ok(()) };
        let target = match kind {
            Kind::Directory => None,
            Kind::File => Some(Target::File(id)),
            _ => entry.map(Arc::new).map(Target::Other),
        };
        let replaced = self.links.add_entry(path, target);
        self.settle(replaced)
    }

    fn fail(&mut self, error: Error, entry: Option<&Broken>) -> Result<()> {
        if !self.keep_going || !matches!(error, Error::Corrupt { .. }) {
            return Err(match entry {
                Some(entry) => within(error, &entry.path),
                None => error,
            });
        }
        self.failed = true;
        let doubt = if casts_doubt(&error) { ", but may be damaged where the mismatching checksum covers it" } else { "" };
        let fate = if entry.is_some_and(|entry| !entry.kept) { "skipped: " } else { "" };
        let message = format!("{fate}{error}; the preceding content is kept{doubt}");
        let path = entry.map_or_else(Vec::new, |entry| entry.path.as_bytes().to_vec());
        self.monitor.warn(Warning::damage(path, message));
        Ok(())
    }

    fn damaged(&mut self, error: Error) -> Result<()> {
        if !self.keep_going {
            return Err(error);
        }
        self.failed = true;
        let message = format!("skipped: {error}");
        self.monitor.warn(Warning::damage([], message));
        self.feed.skip();
        Ok(())
    }

    fn link(&mut self, entry: Entry, target: EntryPath) -> Result<()> {
        let replaced = self.links.add_link(key(&entry.path), key(&target), (entry, target));
        self.settle(replaced)
    }

    /// Stores a hard link as a file, and redirects further links with the same target to it.
    fn store_as_file(&mut self, position: u32, path: &EntryPath, target: &EntryPath, source: &ArchiveSource<'_>) -> Result<()> {
        let monitor = self.monitor;
        let read = |outlet: &mut _| source.read_as_file(position, outlet);
        read_one(read, monitor, &mut |ordered, batch| self.store_part(ordered, batch, None))?;
        if let Some(stored) = self.links.target(key(path)).cloned() {
            self.links.add_entry(key(target), Some(stored));
        }
        Ok(())
    }

    /// Stores the links whose target is stored, and the links to those. `replaced`: a link that was
    /// never stored, because a later entry has its name.
    fn settle(&mut self, replaced: Option<(Entry, EntryPath)>) -> Result<()> {
        if let Some((entry, _)) = replaced {
            let message = "replaced: a later entry has the same path";
            self.monitor.warn(Warning::remark(entry.path.as_bytes(), message));
        }
        while let Some(((entry, _), target)) = self.links.next_resolved() {
            let path = key(&entry.path);
            let stored = match target {
                Target::File(id) => self.feed.add_link(entry, id, self.monitor)?.map(Target::File),
                Target::Other(other) => {
                    self.repeated.content(other.target.len() as u64, self.stored.load(Ordering::Relaxed))?;
                    let entry = Entry { path: entry.path, ..(*other).clone() };
                    self.feed.add(entry, NewContent::None, self.monitor)?.map(|_| Target::Other(other))
                }
            };
            if stored.is_some() {
                self.links.add_entry(path, stored);
            }
        }
        Ok(())
    }

    /// Reports links without a target. Returns how many entries were skipped.
    pub(crate) fn finish(mut self) -> u64 {
        let mut lost = std::mem::take(&mut self.links).into_unresolved();
        lost.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        for (entry, target) in lost {
            let target = Quoted::new(target.as_bytes());
            let message = format!("skipped: hard link to {target}, but the archive has no such file");
            self.monitor.warn(Warning::degraded(entry.path.as_bytes(), message));
            self.feed.skip();
        }
        self.feed.skipped
    }
}
