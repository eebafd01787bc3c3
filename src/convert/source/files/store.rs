//! Stores the names of a window in order, and resolves hard links by inode.

use std::collections::HashMap;
use std::io::Write;

use super::add::{Comparison, ExistingEntries, KeptName, keep_tags, touch};
use super::read::{Context, Reader};
use crate::pipeline::{Batch, EntryPart, Feed, OrderedPart, Visit, read_ahead, read_one};
use crate::source::walk::{Window, join};
use crate::stats::Stats;
use nra_format::entry::{Entry, Kind};
use nra_format::error::Result;
use nra_format::nra::writer::{EntryId, NewContent, Writer};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Severity, Warning};

/// Facts of files on disk other than entries.
#[derive(Debug)]
pub(super) enum FileFact {
    /// A further name of an inode that precedes it in the order; device and inode.
    Link((u64, u64)),
    /// Some names of this inode may be in a later window, with which it is stored.
    Defer,
    /// The archive has it unchanged. With its path, if the file may have other names.
    Same(Option<EntryPath>),
    /// The archive has its content; metadata or time of this entry are new.
    Touched(Box<Entry>),
    /// The archive itself.
    Own,
}

/// Stores windows.
pub(super) struct Store<'a, W: Write + Send> {
    feed: Feed<'a, W>,
    /// Files with several names, by the position of the first: identity, entry, number.
    linked: HashMap<u32, ((u64, u64), Entry, EntryId)>,
    /// Files with several names that the archive has, by the position of the first: identity, path.
    kept: HashMap<u32, KeptName>,
    /// Unchanged entries.
    unchanged: u64,
    deferred: Window,
    /// Path and kind of the entries, if they are listed.
    listed: Option<Vec<(EntryPath, Kind)>>,
}

impl<'a, W: Write + Send> Store<'a, W> {
    /// Returns a store for `writer`. `is_listed`: remember all entries for [`visit`](Self::visit).
    pub(super) fn new(writer: &'a mut Writer<W>, is_listed: bool) -> Self {
        Self {
            feed: Feed::new(writer, Severity::Degraded),
            linked: HashMap::new(),
            kept: HashMap::new(),
            unchanged: 0,
            deferred: Window::default(),
            listed: is_listed.then(Vec::new),
        }
    }

    fn list(&mut self, path: &EntryPath, kind: Kind) {
        if let Some(listed) = &mut self.listed {
            listed.push((path.clone(), kind));
        }
    }

    /// Passes the listed entries to `visit` in path order. Of several entries with one path, a
    /// directory precedes others.
    ///
    /// # Errors
    ///
    /// Those of `visit`.
    pub(super) fn visit(&mut self, visit: Visit<'_>) -> Result<()> {
        let mut listed = self.listed.take().unwrap_or_default();
        listed.sort_by(|a, b| a.0.cmp(&b.0).then((a.1 != Kind::Directory).cmp(&(b.1 != Kind::Directory))));
        listed.dedup_by(|later, earlier| later.0 == earlier.0);
        listed.iter().try_for_each(|(path, kind)| visit(path, *kind))
    }

    /// Returns the deferred names.
    pub(super) fn take_deferred(&mut self) -> Window {
        std::mem::take(&mut self.deferred)
    }

    /// Counts names that were skipped.
    pub(super) fn skip(&mut self, count: u64) {
        self.feed.skipped += count;
    }

    /// Returns what was done so far.
    pub(super) fn stats(&self) -> Stats {
        Stats { skipped: self.feed.skipped, unchanged: self.unchanged, ..Stats::default() }
    }

    /// Reads and adds all names of a window. Reading ahead takes up to `read_bytes`.
    ///
    /// # Errors
    ///
    /// As the writer, and `Cancelled`.
    pub(super) fn store(&mut self, context: Context<'_>, threads: usize, read_bytes: u64) -> Result<()> {
        self.linked.clear();
        self.kept.clear();
        let count = context.plan.len();
        read_ahead(&context, count, threads, read_bytes, context.monitor, &mut |ordered, batch| {
            self.store_part(ordered, batch, context)
        })
    }

    fn store_part(&mut self, ordered: OrderedPart<FileFact>, batch: &Batch<FileFact>, context: Context<'_>) -> Result<()> {
        let OrderedPart { position, identity, part } = ordered;
        match part {
            EntryPart::Other(FileFact::Own) => {}
            EntryPart::Other(FileFact::Same(path)) => {
                self.keep(context.monitor);
                if let (Some(identity), Some(path)) = (identity, path)
                    && context.plan.names_of_inode(position) > 1
                {
                    self.kept.insert(position, (identity, path));
                }
            }
            EntryPart::Other(FileFact::Touched(entry)) => self.touch(&entry, context.monitor)?,
            EntryPart::Other(FileFact::Link(identity)) => self.link(position, identity, context)?,
            EntryPart::Other(FileFact::Defer) => {
                let name = &context.window.names[context.plan.name_at(position)];
                self.deferred.push(name.directory, name.kind, name.inode, context.window.name(name));
            }
            part => {
                let keep = identity.is_some() || self.listed.is_some();
                let stored = self.feed.store_part(part, batch, keep, context.monitor)?;
                if let Some((id, Some(entry))) = stored {
                    self.list(&entry.path, entry.kind);
                    if let Some(identity) = identity.filter(|_| context.plan.names_of_inode(position) > 1) {
                        self.linked.insert(position, (identity, entry, id));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a directory unless the archive has it unchanged, or has a conflicting entry.
    ///
    /// # Errors
    ///
    /// As [`Feed::add`].
    pub(super) fn add_directory(
        &mut self,
        mut entry: Entry,
        known: Option<&ExistingEntries>,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let old = known.and_then(|known| known.find(&entry.path));
        if let Some(known) = known {
            let barred = known.conflict_with(old.as_ref(), entry.kind).or_else(|| known.conflict_above(&entry.path.parent()?));
            if let Some(message) = barred {
                known.skip();
                self.feed.skip();
                monitor.warn(Warning::degraded(entry.path.as_bytes(), message));
                return Ok(());
            }
            keep_tags(&mut entry, old.as_ref());
        }
        match known.map_or(Comparison::New, |known| known.compare(&entry, old.as_ref(), 0)) {
            Comparison::New => {
                let path = entry.path.clone();
                if self.feed.add(entry, NewContent::None, monitor)?.is_some() {
                    self.list(&path, Kind::Directory);
                }
                Ok(())
            }
            Comparison::Touched => self.touch(&entry, monitor),
            Comparison::Same => {
                self.keep(monitor);
                Ok(())
            }
        }
    }

    /// Counts an entry that is unchanged.
    fn keep(&mut self, monitor: &dyn Monitor) {
        self.unchanged += 1;
        monitor.add(Counter::Entries, 1);
    }

    /// Replaces the metadata of the entry in the archive by that of this one.
    fn touch(&mut self, entry: &Entry, monitor: &dyn Monitor) -> Result<()> {
        if self.feed.change(&entry.path, |old| touch(old, entry), monitor)?.is_some() {
            self.list(&entry.path, entry.kind);
        }
        Ok(())
    }

    /// Adds a further name of a file, or reads the file if the first name was skipped or is another
    /// file.
    fn link(&mut self, position: u32, identity: (u64, u64), context: Context<'_>) -> Result<()> {
        if let Some(first) = context.plan.first_of(position)
            && let Some((known, path)) = self.kept.remove(&first)
            && known == identity
        {
            // The archive has the first name and not this one.
            let id = self.feed.keep(&path)?;
            self.linked.insert(first, (identity, Entry::new(path, Kind::File), id));
        }
        let first = context.plan.first_of(position).and_then(|first| self.linked.get(&first));
        if let Some((known, entry, id)) = first
            && *known == identity
        {
            let (mut entry, id) = (entry.clone(), *id);
            let name = &context.window.names[context.plan.name_at(position)];
            let mut path = Vec::new();
            context.tree.stored_path(name.directory, &mut path);
            join(&mut path, context.window.name(name));
            let Ok(path) = EntryPath::new(path) else { return Ok(()) };
            entry.path = path.clone();
            if let Some(known) = context.known {
                keep_tags(&mut entry, known.find(&path).as_ref());
            }
            let kind = entry.kind;
            if self.feed.add_link(entry, id, context.monitor)?.is_some() {
                self.list(&path, kind);
            }
            return Ok(());
        }
        let monitor = context.monitor;
        let read = move |outlet: &mut _| Reader::new(context).read(position, false, outlet);
        read_one(read, monitor, &mut |ordered, batch| self.store_part(ordered, batch, context))
    }
}
