//! Entries on their way into another container, in the order of storage: narrowed to what is to be kept, counted against the limits,
//! left out when they do not read.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::loss::Container;
use super::output::Output;
use super::transfer::{Fidelity, Ledger, Limits, Narrower, Order, Scattered, leave_out, within};
use nra_format::archive::{Access, Archive, Part};
use nra_format::entry::{Entry, Kind, Metadata};
use nra_format::error::{Error, Result};
use nra_format::path::{EntryPath, Quoted};
use nra_format::progress::{Counter, Monitor, Severity, Warning};
use nra_format::shard;

/// What is the same for all containers that are written.
#[derive(Debug, Clone, Default)]
pub struct OutgoingOptions {
    /// What is said of the archive as a whole, where the target has a place for that; empty: what the input says.
    pub message: String,
    /// What is kept of metadata.
    pub fidelity: Fidelity,
    /// What the input may grow to.
    pub limits: Limits,
    /// Leave out entries that are damaged; otherwise damage ends the work.
    pub keep_going: bool,
    /// Make sure that the archive is on disk before it gets its name.
    pub sync: bool,
}

impl OutgoingOptions {
    /// Returns what is said of the archive as a whole.
    pub(super) fn message_of<'a>(&'a self, archive: &'a dyn Archive) -> &'a str {
        if self.message.is_empty() { &archive.info().message } else { &self.message }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutgoingStats {
    /// Entries.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Bytes of content.
    pub content_bytes: u64,
    /// Length of the archive, bytes.
    pub archive_bytes: u64,
    /// Entries of the input that are not in the archive; a warning said why for each.
    pub left_out: u64,
}

/// An entry that is to be written.
pub(super) struct Leaving {
    /// As the archive has it: its content is read by this.
    pub(super) stored: Entry,
    /// What is kept of it.
    pub(super) entry: Entry,
    /// Path of an earlier entry that it is a hard link of.
    pub(super) link: Option<EntryPath>,
}

/// The entries of an archive, one after the other.
pub(super) struct Outgoing<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) monitor: &'a dyn Monitor,
    pub(super) stats: OutgoingStats,
    options: &'a OutgoingOptions,
    ledger: Ledger,
    /// A limit is reached: that ends the work, whatever may be left out.
    refused: Cell<bool>,
    target: Container,
    /// Entries had facts that only Shard files have a place for.
    loses_facts: bool,
    order: Order,
    narrower: Narrower<'a>,
    place: usize,
    /// Names of linked files that were left out, and whether for damage.
    missing: HashMap<EntryPath, bool>,
}

impl<'a> Outgoing<'a> {
    /// Puts the entries of `archive` into order.
    pub(super) fn new(
        archive: &'a dyn Archive,
        target: Container,
        options: &'a OutgoingOptions,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        let scattered = if target == Container::Tar { Scattered::Behind } else { Scattered::InFront };
        let order = Order::new(archive, scattered, options.keep_going, monitor)?;
        let narrower = Narrower::new(&options.fidelity);
        let stats = OutgoingStats { left_out: order.unreadable() + archive.skipped_entries(), ..OutgoingStats::default() };
        Ok(Self {
            archive,
            monitor,
            stats,
            options,
            ledger: Ledger::new(options.limits),
            refused: Cell::new(false),
            target,
            loses_facts: false,
            order,
            narrower,
            place: 0,
            missing: HashMap::new(),
        })
    }

    /// Returns the next entry; each is either [`written`](Self::written) or [`left out`](Self::leave_out).
    pub(super) fn next(&mut self) -> Result<Option<Leaving>> {
        while self.place < self.order.len() {
            self.monitor.check()?;
            let place = self.place;
            self.place += 1;
            let stored = match self.order.entry(self.archive, place) {
                Ok(stored) => stored,
                Err(error) => {
                    self.leave_out(error, None)?;
                    continue;
                }
            };
            // Nothing is known of it, and what lies below it brings it back.
            if stored.implied {
                continue;
            }
            self.monitor.current(stored.path.as_bytes());
            let mut entry = stored.clone();
            self.narrower.narrow(&mut entry);
            if !matches!(self.target, Container::Shard | Container::Nra4) && entry.metadata.attributes.iter().any(shard::is_own) {
                self.loses_facts = true;
                let kept = entry.metadata.attributes.iter().filter(|attribute| !shard::is_own(attribute)).cloned().collect();
                entry.metadata = Arc::new(Metadata { attributes: kept, ..Metadata::clone(&entry.metadata) });
            }
            let link = self.order.link(place).cloned();
            // A link to a name that is not there would be damage in what is written.
            if let Some((first, &damage)) = link.as_ref().and_then(|first| self.missing.get_key_value(first)) {
                let why = format!("its content is that of {}, which is left out", Quoted::new(first.as_bytes()));
                self.omit(stored.path.as_bytes(), &why, damage);
                continue;
            }
            return Ok(Some(Leaving { stored, entry, link }));
        }
        Ok(None)
    }

    /// Counts an entry that is going to be written, with so much content, before any of that is read.
    pub(super) fn count(&mut self, entry: &Entry, content: u64) -> Result<()> {
        self.stats.content_bytes = self.stats.content_bytes.saturating_add(content);
        self.stats.entries += 1;
        self.stats.files += u64::from(entry.kind == Kind::File);
        self.ledger.entry()
    }

    /// Says whether content has to be read once before anything of its entry is written: a header promises a length, damage must show before.
    pub(super) fn reads_first(&self) -> bool {
        self.options.keep_going
    }

    /// Hands the content of an entry to `sink`; holes are parts of their own.
    pub(super) fn content(&self, entry: &Entry, sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        self.archive.with_content(entry, Access::Sequential, &mut |part| {
            self.monitor.check()?;
            let len = match part {
                Part::Data(bytes) => bytes.len() as u64,
                Part::Hole(len) => len,
            };
            self.ledger.content(len, self.archive.info().archive_bytes).inspect_err(|_| self.refused.set(true))?;
            sink(part)
        })
    }

    /// Hands the content of an entry to `sink` as [`content`](Self::content) does, before it is read again to be written.
    pub(super) fn trial(&self, entry: &Entry, sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()> {
        self.ledger.on_trial(|| self.content(entry, sink))
    }

    /// An entry was written.
    pub(super) fn written(&self) {
        self.monitor.add(Counter::Entries, 1);
    }

    /// Tells what of an entry is lost.
    pub(super) fn lost(&self, path: &EntryPath, message: String) {
        self.monitor.warn(Warning::degraded(path.as_bytes(), message));
    }

    /// An entry does not read: that ends the work, or it is left out. `counted`: the entry, if it was counted, and its content.
    pub(super) fn leave_out(&mut self, error: Error, counted: Option<(&Entry, u64)>) -> Result<()> {
        let path = counted.map_or_else(Vec::new, |(entry, _)| entry.path.as_bytes().to_vec());
        let damage = matches!(error, Error::Corrupt { .. });
        leave_out(error, path, self.options.keep_going && !self.refused.get(), self.monitor).map_err(|error| match counted {
            Some((entry, _)) => within(error, &entry.path),
            None => error,
        })?;
        self.stats.left_out += 1;
        if let Some((entry, content)) = counted {
            self.stats.entries -= 1;
            self.stats.content_bytes -= content;
            self.stats.files -= u64::from(entry.kind == Kind::File);
            if entry.link_group != 0 {
                self.missing.insert(entry.path.clone(), damage);
            }
        }
        Ok(())
    }

    /// An entry can't be in the container that is written.
    pub(super) fn omit(&mut self, path: &[u8], why: &str, damage: bool) {
        self.stats.left_out += 1;
        let severity = if damage { Severity::Damage } else { Severity::Degraded };
        self.monitor.warn(Warning::new(severity, path, format!("left out: {why}")));
    }

    /// Gives the archive its name, as nothing was wrong.
    pub(super) fn publish(mut self, out: Counted) -> Result<OutgoingStats> {
        self.stats.archive_bytes = out.bytes;
        if self.loses_facts {
            let kind = self.target.name();
            let message = format!("what a Shard file says of its entries beside names can't be kept in a {kind}");
            self.monitor.warn(Warning::remark([], message));
        }
        self.monitor.check()?;
        out.output.publish(self.options.sync)?;
        Ok(self.stats)
    }
}

/// Counts what goes to the output.
pub(super) struct Counted {
    output: Output,
    bytes: u64,
}

impl Counted {
    /// Starts at nothing.
    pub(super) fn new(output: Output) -> Self {
        Self { output, bytes: 0 }
    }

    /// Counts an output that is written: so many bytes.
    pub(super) fn whole(output: Output, bytes: u64) -> Self {
        Self { output, bytes }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
