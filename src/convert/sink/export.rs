//! Exports the entries of an archive to another format, in the order of storage.
//!
//! [`Exporter`] selects, narrows and counts entries and skips those that can't be read; an
//! [`EntrySink`] writes them. [`export`] drives both. A sink pulls the content of an entry instead
//! of being handed it, because headers precede content: tar needs the holes, zip and Shard the
//! length, and with [`Options::keep_going`] content is read once before its header is written.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::NewArchive;
use super::loss::{noun, warn_archive_losses, warn_unencrypted};
use super::nra4::Nra4Writer;
use super::output::{Destination, Output, named};
use super::shard::ShardFileWriter;
use super::tar::TarWriter;
use super::zip::ZipWriter;
use crate::entry_error::within;
use crate::limits::LimitCounter;
use crate::metadata::MetadataFilter;
use crate::options::Options;
use crate::select::Selection;
use crate::source::{OnUnreadable, Order, Scattered, report_index_state, skip_unreadable};
use crate::stats::Stats;
use nra_format::archive::{Access, Archive, ContentSink, Part};
use nra_format::container::Engine;
use nra_format::entry::{Entry, Kind, Metadata};
use nra_format::error::{Error, Result};
use nra_format::path::{EntryPath, Quoted};
use nra_format::progress::{Counter, Monitor, Severity, Warning};
use nra_format::shard;

/// Writes entries in order.
pub(crate) trait EntrySink {
    /// Writes what precedes the entries.
    fn begin(&mut self, exporter: &mut Exporter<'_>) -> Result<()>;

    /// Writes an entry; its content is read through `exporter`, which also learns that the entry is
    /// [written](Exporter::written), or why it is [skipped](Exporter::skip).
    fn entry(&mut self, entry: ExportEntry, exporter: &mut Exporter<'_>) -> Result<()>;

    /// Writes what follows the entries. Returns the output, complete but without its name.
    fn finish(self: Box<Self>, exporter: &mut Exporter<'_>) -> Result<Counted>;
}

impl NewArchive {
    fn engine(&self) -> Engine {
        match self {
            Self::Nra(_) => Engine::Nra5,
            Self::Nra4(_) => Engine::Nra4,
            Self::Tar(_) => Engine::Tar,
            Self::Zip(_) => Engine::Zip,
            Self::Shard(_) => Engine::Shard,
        }
    }
}

/// Writes the selected entries of `archive` to a new archive of another format than NRA 5.
pub(crate) fn export(
    archive: &dyn Archive,
    selection: Option<&Selection>,
    destination: Destination,
    format: NewArchive,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let output = Output::create(destination)?;
    let name = output.name().clone();
    write(archive, selection, output, format, options, monitor).map_err(|error| named(error, name))
}

fn write(
    archive: &dyn Archive,
    selection: Option<&Selection>,
    output: Output,
    format: NewArchive,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let engine = format.engine();
    if let NewArchive::Nra4(nra4) = &format {
        warn_unencrypted(archive, nra4.key.is_some(), monitor);
    }
    let mut sink: Box<dyn EntrySink + '_> = match format {
        NewArchive::Nra4(nra4) => Box::new(Nra4Writer::create(output, nra4, archive, options)?),
        NewArchive::Tar(tar) => Box::new(TarWriter::create(output, &tar, options, monitor)),
        NewArchive::Zip(zip) => Box::new(ZipWriter::create(output, &zip, options)),
        NewArchive::Shard(shard) => Box::new(ShardFileWriter::create(output, shard)?),
        NewArchive::Nra(_) => unreachable!("its entries are read ahead"),
    };
    warn_archive_losses(archive, engine, monitor);
    let mut exporter = Exporter::new(archive, selection, engine, options, monitor)?;
    sink.begin(&mut exporter)?;
    while let Some(entry) = exporter.next()? {
        sink.entry(entry, &mut exporter)?;
    }
    let output = sink.finish(&mut exporter)?;
    exporter.publish(output)
}

/// An entry that is to be written.
pub(crate) struct ExportEntry {
    /// As it is stored in the archive; its content is read by this.
    pub(super) stored: Entry,
    /// With the metadata that is kept.
    pub(super) entry: Entry,
    /// Path of the earlier entry that it is a hard link to.
    pub(super) link: Option<EntryPath>,
}

/// The entries of an archive, one after another.
pub(crate) struct Exporter<'a> {
    pub(super) archive: &'a dyn Archive,
    pub(super) monitor: &'a dyn Monitor,
    stats: Stats,
    pub(super) options: &'a Options,
    limit_counter: LimitCounter,
    /// A limit was reached, which ends the conversion even if damaged entries are skipped.
    refused: Cell<bool>,
    target: Engine,
    /// Entries had attributes that only Shard files can hold.
    loses_facts: bool,
    order: Order,
    metadata_filter: MetadataFilter<'a>,
    position: usize,
    /// Linked files that were skipped, and whether that was for damage.
    missing: HashMap<EntryPath, bool>,
}

impl<'a> Exporter<'a> {
    /// Puts the selected entries of `archive` into order.
    pub(super) fn new(
        archive: &'a dyn Archive,
        selection: Option<&Selection>,
        target: Engine,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Result<Self> {
        let scattered = if target == Engine::Tar { Scattered::After } else { Scattered::Before };
        let order = Order::new(archive, selection, scattered, OnUnreadable::of(options), monitor)?;
        report_index_state(archive, options.keep_going, monitor)?;
        let metadata_filter = MetadataFilter::new(&options.metadata);
        let omitted = if selection.is_none() { archive.skipped_entries() } else { 0 };
        let stats = Stats { skipped: order.unreadable() + omitted, ..Stats::default() };
        Ok(Self {
            archive,
            monitor,
            stats,
            options,
            limit_counter: LimitCounter::new(options.limits),
            refused: Cell::new(false),
            target,
            loses_facts: false,
            order,
            metadata_filter,
            position: 0,
            missing: HashMap::new(),
        })
    }

    /// Returns the message of the output: that of the options, else that of the archive.
    pub(super) fn message(&self) -> &'a str {
        if self.options.message.is_empty() { &self.archive.info().message } else { &self.options.message }
    }

    /// Returns the next entry; each is either [written](Self::written) or [skipped](Self::skip).
    pub(super) fn next(&mut self) -> Result<Option<ExportEntry>> {
        while self.position < self.order.len() {
            self.monitor.check()?;
            let position = self.position;
            self.position += 1;
            let stored = match self.order.entry(self.archive, position) {
                Ok(stored) => stored,
                Err(error) => {
                    self.skip(error, None)?;
                    continue;
                }
            };
            // It has no metadata, and the entries below it imply it again.
            if stored.implied {
                continue;
            }
            self.monitor.current(stored.path.as_bytes());
            let mut entry = stored.clone();
            self.metadata_filter.narrow(&mut entry);
            if !matches!(self.target, Engine::Shard | Engine::Nra4)
                && entry.metadata.attributes.iter().any(shard::is_shard_attribute)
            {
                self.loses_facts = true;
                let kept =
                    entry.metadata.attributes.iter().filter(|attribute| !shard::is_shard_attribute(attribute)).cloned().collect();
                entry.metadata = Arc::new(Metadata { attributes: kept, ..Metadata::clone(&entry.metadata) });
            }
            let link = self.order.link(position).cloned();
            // A link to a missing name would be damage in the output.
            if let Some((first, &damage)) = link.as_ref().and_then(|first| self.missing.get_key_value(first)) {
                let why = format!("it is a hard link to {}, which is skipped", Quoted::new(first.as_bytes()));
                self.omit(stored.path.as_bytes(), &why, damage);
                continue;
            }
            return Ok(Some(ExportEntry { stored, entry, link }));
        }
        Ok(None)
    }

    /// Counts an entry and its content, before the content is read.
    pub(super) fn count(&mut self, entry: &Entry, content: u64) -> Result<()> {
        self.stats.written.content_bytes = self.stats.written.content_bytes.saturating_add(content);
        self.stats.written.entries += 1;
        self.stats.written.files += u64::from(entry.kind == Kind::File);
        self.limit_counter.entry()
    }

    /// Returns whether content has to be read once before its entry is written: damage must be
    /// found before the header states a length.
    pub(super) fn reads_first(&self) -> bool {
        self.options.keep_going
    }

    /// Passes the content of an entry to `sink`, data and holes separately.
    pub(super) fn content(&self, entry: &Entry, sink: ContentSink<'_>) -> Result<()> {
        self.archive.with_content(entry, Access::Sequential, &mut |part| {
            self.monitor.check()?;
            let len = match part {
                Part::Data(bytes) => bytes.len() as u64,
                Part::Hole(len) => len,
            };
            self.limit_counter.content(len, self.archive.info().archive_bytes).inspect_err(|_| self.refused.set(true))?;
            sink(part)
        })
    }

    /// As [`content`](Self::content), for content that is read again to be written.
    pub(super) fn trial(&self, entry: &Entry, sink: ContentSink<'_>) -> Result<()> {
        self.limit_counter.on_trial(|| self.content(entry, sink))
    }

    /// Reports that an entry was written.
    pub(super) fn written(&self) {
        self.monitor.add(Counter::Entries, 1);
    }

    /// Reports a property that an entry loses.
    pub(super) fn lost(&self, path: &EntryPath, message: String) {
        self.monitor.warn(Warning::degraded(path.as_bytes(), message));
    }

    /// Skips an entry that can't be read, or fails. `counted`: the entry and its content, if they
    /// were counted.
    pub(super) fn skip(&mut self, error: Error, counted: Option<(&Entry, u64)>) -> Result<()> {
        let path = counted.map_or_else(Vec::new, |(entry, _)| entry.path.as_bytes().to_vec());
        let damage = matches!(error, Error::Corrupt { .. });
        let on_unreadable = if self.refused.get() { OnUnreadable::Fail } else { OnUnreadable::of(self.options) };
        skip_unreadable(error, path, on_unreadable, self.monitor).map_err(|error| match counted {
            Some((entry, _)) => within(error, &entry.path),
            None => error,
        })?;
        self.stats.skipped += 1;
        if let Some((entry, content)) = counted {
            self.stats.written.entries -= 1;
            self.stats.written.content_bytes -= content;
            self.stats.written.files -= u64::from(entry.kind == Kind::File);
            if entry.link_group != 0 {
                self.missing.insert(entry.path.clone(), damage);
            }
        }
        Ok(())
    }

    /// Skips an entry that the format can't hold.
    pub(super) fn omit(&mut self, path: &[u8], why: &str, damage: bool) {
        self.stats.skipped += 1;
        let severity = if damage { Severity::Damage } else { Severity::Degraded };
        self.monitor.warn(Warning::new(severity, path, format!("skipped: {why}")));
    }

    /// Gives the complete output its name.
    fn publish(mut self, out: Counted) -> Result<Stats> {
        self.stats.input_bytes = self.archive.info().archive_bytes;
        self.stats.written.archive_bytes = out.bytes;
        if self.loses_facts {
            let message = format!("properties of Shard entries other than names can't be kept in {}", noun(self.target));
            self.monitor.warn(Warning::remark([], message));
        }
        self.monitor.check()?;
        out.output.publish(self.options.sync)?;
        Ok(self.stats)
    }
}

/// An output that counts its bytes.
pub(crate) struct Counted {
    output: Output,
    bytes: u64,
}

impl Counted {
    /// Starts an output.
    pub(super) fn new(output: Output) -> Self {
        Self { output, bytes: 0 }
    }

    /// Returns a complete output of `bytes`.
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
