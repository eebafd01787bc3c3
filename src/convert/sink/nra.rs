//! Writes a new .nra archive from another archive or a stream, in one pass and without temporary
//! files.
//!
//! Both kinds of input, those that are read once in order (tar archives, compressed files, pipes)
//! and those with an index, hand parts to the same [`Feed`](crate::pipeline::Feed) as files on disk
//! do. Decoding, chunking and hashing, and compression overlap, and memory is bounded by
//! [`Options::memory_bytes`] whatever the input holds. Blocks of another .nra archive are copied as
//! they are stored.

mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use self::store::Store;
use super::loss::{warn_archive_losses, warn_unencrypted};
use super::output::{Destination, Output, named};
use crate::limits::{LimitCounter, Limits};
use crate::metadata::MetadataFilter;
use crate::options::Options;
use crate::pipeline::{EntrySource, read_ahead};
use crate::source::{ArchiveSource, Indexed, Opened, SourceFact, StreamSource, report_index_state};
use crate::stats::Stats;
use nra_format::archive::Archive;
use nra_format::container::Engine;
use nra_format::crypt::Keyring;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::nra::compact;
use nra_format::nra::reader::NraReader;
use nra_format::nra::writer::{Writer, WriterOptions};
use nra_format::progress::{Monitor, Severity, Warning};
use nra_format::stream::ReadAhead;

/// How a new .nra archive is written.
#[derive(Debug, Clone, Default)]
pub struct NraSink {
    /// How content is compressed and encrypted. Threads, memory, message, time and reproducibility
    /// are those of [`Options`].
    pub writer: WriterOptions,
    /// Compress all content again with the settings of `writer`. Otherwise blocks of an .nra
    /// archive are copied as they are stored.
    pub recompress: bool,
    /// How an input that is not encrypted is handled.
    pub plain: PlainInput,
}

/// How an input that is not encrypted is handled.
#[derive(Debug, Clone, Default)]
pub enum PlainInput {
    /// The output is encrypted if [`NraSink::writer`] says so.
    #[default]
    Keep,
    /// The output is encrypted with these keys.
    Encrypt(Keyring),
    /// The input is rejected: a key was given to open it.
    Reject,
}

/// Writes the entries of `input`.
pub(crate) fn write(
    input: Opened<'_>,
    destination: Destination,
    sink: &NraSink,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let output = Output::create(destination)?;
    let name = output.name().clone();
    write_output(input, output, sink, options, monitor).map_err(|error| named(error, name))
}

fn write_output(input: Opened<'_>, output: Output, sink: &NraSink, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let (mut writer_options, read_bytes) = options.writer(&sink.writer);
    writer_options.repeats = true;
    let is_encrypted = matches!(&input, Opened::Indexed(input) if input.archive.info().encrypted);
    match &sink.plain {
        PlainInput::Encrypt(keyring) if !is_encrypted => {
            writer_options.encryption = Some(keyring.clone());
            let message = "the input is not encrypted; the key encrypts the output";
            monitor.warn(Warning::remark([], message));
        }
        PlainInput::Reject if !is_encrypted => {
            let detail = "the input is not encrypted and needs no password; use -e to encrypt the output";
            return Err(Error::Usage { detail: detail.into() });
        }
        _ => {}
    }
    let (mut limits, mut loss) = (options.limits, Severity::Degraded);
    if let Opened::Indexed(Indexed { archive, selection, is_damaged }) = &input {
        warn_unencrypted(&**archive, writer_options.encryption.is_some(), monitor);
        if *is_damaged {
            // Limits are for hostile input. They must not prevent a recovery.
            limits = Limits::NONE;
            loss = Severity::Damage;
        } else {
            warn_archive_losses(&**archive, Engine::Nra5, monitor);
        }
        let info = archive.info();
        if writer_options.message.is_empty() {
            writer_options.message.clone_from(&info.message);
        }
        writer_options.attributes.extend(MetadataFilter::new(&options.metadata).whole(&info.attributes));
        // Selecting entries and skipping damaged ones works entry by entry, not on blocks.
        let is_copied = !options.keep_going && !archive.is_index_damaged() && !sink.recompress && selection.is_none();
        if let Some(archive) = NraReader::downcast(&**archive).filter(|_| is_copied) {
            return copy(archive, output, writer_options, options, monitor);
        }
    }
    let mut writer = Writer::create(output, writer_options)?;
    let stored = match &input {
        Opened::Once { stored, .. } => Arc::clone(stored),
        Opened::Indexed(input) => Arc::new(AtomicU64::new(input.archive.info().archive_bytes)),
    };
    let mut store = Store::new(&mut writer, limits, stored, options.keep_going, loss, monitor);
    let mut run = |readers: &dyn EntrySource<SourceFact>, count, damaged: Option<&ArchiveSource<'_>>| {
        let mut take = |ordered, batch: &_| store.store_part(ordered, batch, damaged);
        read_ahead(readers, count, options.threads, read_bytes, monitor, &mut take)
    };
    let (mut unlisted, mut unreadable, mut recovers) = (0, 0, false);
    let input_bytes = match input {
        Opened::Once { stream, shape, stored } => {
            let source = StreamSource {
                stream: Mutex::new(Some(ReadAhead::new(stream)?)),
                shape,
                stored,
                limits,
                names: options.open.names,
                metadata: &options.metadata,
                keep_going: options.keep_going,
                monitor,
            };
            run(&source, 1, None)?;
            source.stored.load(Ordering::Relaxed)
        }
        Opened::Indexed(input) => {
            let source = ArchiveSource::new(&input, limits, options, monitor)?;
            run(&source, source.order.len(), Some(&source).filter(|_| input.is_damaged))?;
            (unreadable, recovers) = (source.order.unreadable(), input.is_damaged);
            if input.selection.is_none() {
                unlisted = input.archive.skipped_entries();
            }
            input.archive.info().archive_bytes
        }
    };
    let incomplete = store.failed();
    let skipped = store.finish();
    let damaged = if recovers { skipped } else { 0 };
    let (output, written) = writer.finish(monitor)?;
    monitor.check()?;
    output.publish(options.sync)?;
    let skipped = skipped + unlisted + unreadable + written.skipped;
    Ok(Stats { written, skipped, damaged, unreadable, input_bytes, incomplete, ..Stats::default() })
}

/// Copies an archive of the same format: blocks stay as they are stored.
fn copy(
    archive: &NraReader,
    output: Output,
    writer_options: WriterOptions,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let mut writer = Writer::create(output, writer_options)?;
    let limit_counter = LimitCounter::new(options.limits);
    let mut metadata_filter = MetadataFilter::new(&options.metadata);
    let mut narrow = |entry: &mut Entry| {
        limit_counter.entry()?;
        limit_counter.bytes(entry.size)?;
        metadata_filter.narrow(entry);
        Ok(())
    };
    compact::copy(archive, &mut writer, &mut narrow, monitor)?;
    report_index_state(archive, false, monitor)?;
    let (output, written) = writer.finish(monitor)?;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(Stats { written, input_bytes: archive.info().archive_bytes, ..Stats::default() })
}
