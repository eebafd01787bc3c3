//! Writes a new .nra archive from another archive or a stream, in one pass and without temporary files.
//!
//! Both kinds of input, those that are read once in order (tar archives, compressed files, pipes) and those with an index, hand items to the
//! same [`Feed`](crate::pipeline::Feed) as files on disk do. Decoding, chunking and hashing, and compression overlap, and memory is bounded by
//! [`Options::memory_bytes`] whatever the input holds. Blocks of another .nra archive are copied as they are stored.

mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use self::store::{Broken, Special};

use self::store::Store;
use super::loss::{Container, report_index_state, warn_archive_losses, warn_unencrypted};
use super::output::{Destination, Output, named};
use crate::limits::Ledger;
use crate::metadata::Narrower;
use crate::options::Options;
use crate::pipeline::{Readers, read_ahead};
use crate::source::{ArchiveReaders, Opened, StreamReaders};
use crate::stats::Stats;
use nra_format::archive::Archive;
use nra_format::crypt::Keyring;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};
use nra_format::nra::compact;
use nra_format::nra::reader::NraReader;
use nra_format::nra::writer::{Writer, WriterOptions};
use nra_format::progress::{Monitor, Warning};
use nra_format::stream::Ahead;

/// How a new .nra archive is written.
#[derive(Debug, Clone, Default)]
pub struct NraSink {
    /// How content is compressed and encrypted. Threads, memory, message, time and reproducibility are those of [`Options`].
    pub writer: WriterOptions,
    /// Compress all content again with the settings of `writer`. Otherwise blocks of an .nra archive are copied as they are stored.
    pub recompress: bool,
    /// What happens if the input is not encrypted.
    pub plain: PlainInput,
}

/// What happens if an input is not encrypted.
#[derive(Debug, Clone, Default)]
pub enum PlainInput {
    /// The output is encrypted if [`NraSink::writer`] says so.
    #[default]
    Kept,
    /// The output is encrypted with these keys.
    Encrypted(Keyring),
    /// The input is rejected: a key was given to open it.
    Refused,
}

/// Writes what was opened.
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
    let is_encrypted = matches!(&input, Opened::Indexed { archive, .. } if archive.info().encrypted);
    match &sink.plain {
        PlainInput::Encrypted(keyring) if !is_encrypted => {
            writer_options.encryption = Some(keyring.clone());
            let message = "it is not encrypted, so the key encrypts what is made of it";
            monitor.warn(Warning::remark([], message));
        }
        PlainInput::Refused if !is_encrypted => {
            let detail =
                "the input is not encrypted, so there is nothing to open with a password; -e asks for one to encrypt with";
            return Err(Error::Usage { detail: detail.into() });
        }
        _ => {}
    }
    if let Opened::Indexed { archive, selection } = &input {
        warn_unencrypted(&**archive, writer_options.encryption.is_some(), monitor);
        warn_archive_losses(&**archive, Container::Nra, monitor);
        let info = archive.info();
        if writer_options.message.is_empty() {
            writer_options.message.clone_from(&info.message);
        }
        writer_options.attributes.extend(Narrower::new(&options.metadata).whole(&info.attributes));
        // Damage is reported entry by entry, and a selection is made entry by entry: copying blocks can do neither.
        let is_copied = !options.keep_going && !archive.is_index_damaged() && !sink.recompress && selection.is_none();
        if let Some(archive) = NraReader::downcast(&**archive).filter(|_| is_copied) {
            return copy(archive, output, writer_options, options, monitor);
        }
    }
    let mut writer = Writer::create(output, writer_options)?;
    let stored = match &input {
        Opened::Once { stored, .. } => Arc::clone(stored),
        Opened::Indexed { archive, .. } => Arc::new(AtomicU64::new(archive.info().archive_bytes)),
    };
    let mut store = Store::new(&mut writer, options.limits, stored, options.keep_going, monitor);
    let mut run = |readers: &dyn Readers<Special>, places| {
        let mut take = |placed, batch: &_| store.take(placed, batch);
        read_ahead(readers, places, options.threads, read_bytes, monitor, &mut take)
    };
    let mut unreadable = 0;
    let input_bytes = match input {
        Opened::Once { stream, shape, stored } => {
            let source = StreamReaders {
                stream: Mutex::new(Some(Ahead::new(stream)?)),
                shape,
                stored,
                limits: options.limits,
                names: options.open.names,
                metadata: &options.metadata,
                keep_going: options.keep_going,
                monitor,
            };
            run(&source, 1)?;
            source.stored.load(Ordering::Relaxed)
        }
        Opened::Indexed { archive, selection } => {
            let source = ArchiveReaders::new(&*archive, selection, options, monitor)?;
            run(&source, source.order.len())?;
            unreadable = source.order.unreadable();
            if selection.is_none() {
                unreadable += archive.skipped_entries();
            }
            archive.info().archive_bytes
        }
    };
    let incomplete = store.failed();
    let skipped = store.finish() + unreadable;
    let (output, written) = writer.finish(monitor)?;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(Stats { written, skipped: skipped + written.skipped, input_bytes, incomplete, ..Stats::default() })
}

/// Stores an archive of the same format: blocks move as they are.
fn copy(
    archive: &NraReader,
    output: Output,
    writer_options: WriterOptions,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let mut writer = Writer::create(output, writer_options)?;
    let ledger = Ledger::new(options.limits);
    let mut narrower = Narrower::new(&options.metadata);
    let mut narrow = |entry: &mut Entry| {
        ledger.entry()?;
        ledger.bytes(entry.size)?;
        narrower.narrow(entry);
        Ok(())
    };
    compact::copy(archive, &mut writer, &mut narrow, monitor)?;
    report_index_state(archive, false, monitor)?;
    let (output, written) = writer.finish(monitor)?;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(Stats { written, input_bytes: archive.info().archive_bytes, ..Stats::default() })
}
