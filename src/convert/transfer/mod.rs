//! Any container to an NRA archive, in one pass and without temporary files.
//!
//! Two kinds of input: those that are read once, in order (tar archives, compressed files, pipes), and those with an index, whose
//! entries are read by several threads. Both give items to the same writing end as packing does ([`feed`](crate::convert)), so that
//! decoding, cutting and hashing, and compressing overlap, and memory is bounded by the budget whatever the input holds.

mod archive;
mod fidelity;
mod limits;
mod order;
mod store;
mod stream;
mod within;

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

pub(crate) use archive::{Order, leave_out};
pub use fidelity::Fidelity;
pub(crate) use fidelity::Narrower;
pub(crate) use limits::Ledger;
pub use limits::Limits;
pub(crate) use order::Scattered;
pub(crate) use within::within;

use self::store::{Special, Store};
use self::stream::{Counted, Shape};
use crate::feed::{Readers, read_ahead};
use crate::loss::{Container as Target, tell_secrecy, tell_state, tell_whole};
use crate::output::{Destination, Output};
use crate::pack::named;
use nra_format::archive::{Archive, OpenOptions, detect_source, detect_stream, extension_mismatch, open, open_stream};
use nra_format::container::{Container, Engine};
use nra_format::crypt::Keyring;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result, Subject};
use nra_format::nra::compact;
use nra_format::nra::reader::NraReader;
use nra_format::nra::writer::{Writer, WriterOptions, WriterStats};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::source::{FileSource, ReadAt};
use nra_format::stream::{Ahead, Input as Buffered, ReaderStream, SourceStream, decode};
use nra_format::tar;

/// What is converted.
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Anything that reads, and what it is in messages.
    Stream(Box<dyn Read + Send>, Subject),
    /// An archive that is open already.
    Archive(Arc<dyn Archive>),
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Stream(_, name) => f.debug_tuple("Stream").field(name).finish(),
            Self::Archive(archive) => f.debug_tuple("Archive").field(archive.info()).finish(),
        }
    }
}

/// How to convert.
#[derive(Debug, Clone, Default)]
pub struct TransferOptions {
    /// How the archive is written; also threads and memory budget of the whole.
    pub writer: WriterOptions,
    /// How inputs with an index are opened.
    pub open: OpenOptions,
    /// What is kept of metadata.
    pub fidelity: Fidelity,
    /// What the input may grow to.
    pub limits: Limits,
    /// Keep what came before damage, or is not hurt by it; otherwise damage ends the work.
    pub keep_going: bool,
    /// Compress all content anew with the settings of [`TransferOptions::writer`]; otherwise blocks of NRA 5 move as they are stored.
    pub recompress: bool,
    /// Make sure that the archive is on disk before it gets its name.
    pub sync: bool,
    /// What becomes of an input that is not encrypted.
    pub plain: PlainInput,
}

/// What becomes of an input that is not encrypted.
#[derive(Debug, Clone, Default)]
pub enum PlainInput {
    /// What [`TransferOptions::writer`] says.
    #[default]
    Kept,
    /// What is made of it is encrypted with these keys.
    Encrypted(Keyring),
    /// Nothing: the key is for opening an input that has one.
    Refused,
}

/// What was converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferStats {
    /// What the archive holds.
    pub written: WriterStats,
    /// Entries of the input that are not in the archive; a warning said why for each.
    pub left_out: u64,
    /// Bytes of the input.
    pub input_bytes: u64,
    /// The input could not be read to its end; what came before is kept.
    pub incomplete: bool,
}

/// An input that was looked at.
enum Opened {
    Once { stream: Box<dyn nra_format::stream::ByteStream>, shape: Shape, stored: Arc<AtomicU64> },
    Indexed(Arc<dyn Archive>),
}

/// Converts `input` into a new NRA archive.
///
/// # Errors
///
/// `Unsupported` for an input of an unknown kind, `Corrupt` for a damaged one (with [`TransferOptions::keep_going`] that is a warning),
/// `Limit` for one that grows beyond [`TransferOptions::limits`], `Io` when reading or writing fails, `Cancelled`. Then nothing is left
/// under the name of the destination, and what was there before is untouched.
pub fn transfer(
    input: Input,
    destination: Destination,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> Result<TransferStats> {
    let opened = look_at(input, options, monitor)?;
    let output = Output::create(destination)?;
    let name = output.name().clone();
    write(opened, output, options, monitor).map_err(|error| named(error, name))
}

/// Stores what was opened.
fn write(opened: Opened, output: Output, options: &TransferOptions, monitor: &dyn Monitor) -> Result<TransferStats> {
    let mut writer_options = options.writer.clone();
    let threads = writer_options.threads.max(1);
    let read_bytes = writer_options.share_memory();
    writer_options.repeats = true;
    let is_encrypted = matches!(&opened, Opened::Indexed(archive) if archive.info().encrypted);
    match &options.plain {
        PlainInput::Encrypted(keyring) if !is_encrypted => {
            writer_options.encryption = Some(keyring.clone());
            let message = "it is not encrypted, so the key encrypts what is made of it".to_owned();
            monitor.warn(Warning::remark([], message));
        }
        PlainInput::Refused if !is_encrypted => {
            let detail =
                "the input is not encrypted, so there is nothing to open with a password; -e asks for one to encrypt with";
            return Err(Error::Usage { detail: detail.into() });
        }
        _ => {}
    }
    if let Opened::Indexed(archive) = &opened {
        tell_secrecy(&**archive, writer_options.encryption.is_some(), monitor);
        tell_whole(&**archive, Target::Nra, monitor);
        let info = archive.info();
        if writer_options.message.is_empty() {
            writer_options.message.clone_from(&info.message);
        }
        writer_options.attributes.extend(Narrower::new(&options.fidelity).whole(&info.attributes));
        // What is damaged is told entry by entry, which moving blocks can't.
        let is_sound = !options.keep_going && !archive.is_index_damaged();
        if let Some(archive) = NraReader::of(&**archive).filter(|_| is_sound && !options.recompress) {
            return copy(archive, output, writer_options, options, monitor);
        }
    }
    let writer = Writer::create(output, writer_options)?;
    let stored = match &opened {
        Opened::Once { stored, .. } => Arc::clone(stored),
        Opened::Indexed(archive) => Arc::new(AtomicU64::new(archive.info().archive_bytes)),
    };
    let mut store = Store::new(writer, options.limits, stored, options.keep_going, monitor);
    let mut run = |readers: &dyn Readers<Special>, places| {
        read_ahead(readers, places, threads, read_bytes, monitor, &mut |placed, batch| store.take(placed, batch))
    };
    let mut unreadable = 0;
    let input_bytes = match opened {
        Opened::Once { stream, shape, stored } => {
            let source = stream::Source {
                stream: Mutex::new(Some(Ahead::new(stream)?)),
                shape,
                stored,
                limits: options.limits,
                names: options.open.names,
                fidelity: &options.fidelity,
                keep_going: options.keep_going,
                monitor,
            };
            run(&source, 1)?;
            source.stored.load(std::sync::atomic::Ordering::Relaxed)
        }
        Opened::Indexed(archive) => {
            let source = archive::Source::new(&*archive, options.limits, &options.fidelity, options.keep_going, monitor)?;
            run(&source, source.order.len())?;
            unreadable = source.order.unreadable() + archive.skipped_entries();
            archive.info().archive_bytes
        }
    };
    let incomplete = store.failed();
    let (output, written, left_out) = store.finish()?;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(TransferStats { written, left_out: left_out + unreadable, input_bytes, incomplete })
}

/// Stores an archive of the same format: blocks move as they are.
fn copy(
    archive: &NraReader,
    output: Output,
    writer_options: WriterOptions,
    options: &TransferOptions,
    monitor: &dyn Monitor,
) -> Result<TransferStats> {
    let mut writer = Writer::create(output, writer_options)?;
    let ledger = Ledger::new(options.limits);
    let mut narrower = Narrower::new(&options.fidelity);
    let mut narrow = |entry: &mut Entry| {
        ledger.entry()?;
        ledger.bytes(entry.size)?;
        narrower.narrow(entry);
        Ok(())
    };
    compact::copy(archive, &mut writer, &mut narrow, monitor)?;
    tell_state(archive, false, monitor)?;
    let (output, written) = writer.finish(monitor)?;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(TransferStats { written, input_bytes: archive.info().archive_bytes, ..TransferStats::default() })
}

/// Says whether a file is read once, in order: what came before damage is there without an index.
///
/// # Errors
///
/// As reading it does.
pub fn reads_in_order(source: &Arc<dyn ReadAt>) -> Result<bool> {
    Ok(matches!(detect_source(source)?, Some(Engine::Tar | Engine::Compressed(_))))
}

/// Tells what an input is and opens it.
fn look_at(input: Input, options: &TransferOptions, monitor: &dyn Monitor) -> Result<Opened> {
    match input {
        Input::Archive(archive) => Ok(Opened::Indexed(archive)),
        Input::File(path) => {
            let source: Arc<dyn ReadAt> = Arc::new(FileSource::open(&path)?);
            let stored = Arc::new(AtomicU64::new(0));
            let stream = Counted { stream: SourceStream::new(Arc::clone(&source), 0), count: Arc::clone(&stored) };
            let (opened, container) = match once(Buffered::new(stream, 0), source.name(), options, stored)? {
                Ok(opened) => {
                    monitor.expect(Counter::Input, source.len());
                    opened
                }
                Err(_) => {
                    let archive = open(Arc::clone(&source), &options.open)?;
                    let container = archive.container();
                    (Opened::Indexed(Arc::from(archive)), container)
                }
            };
            if let Some(message) = extension_mismatch(source.name(), container) {
                monitor.warn(Warning::remark(source.name(), message));
            }
            Ok(opened)
        }
        Input::Stream(reader, name) => {
            let stored = Arc::new(AtomicU64::new(0));
            let stream = Counted { stream: ReaderStream::new(reader, &name), count: Arc::clone(&stored) };
            match once(Buffered::new(stream, 0), name.name(), options, stored)? {
                Ok((opened, _)) => Ok(opened),
                Err(mut rest) => Ok(Opened::Indexed(Arc::from(open_stream(&mut rest, &name, &options.open)?))),
            }
        }
    }
}

/// Opens what is read once, and says what it is; hands the input back if it is something else, or not of the kind that it should be.
fn once(
    mut input: Buffered,
    name: &[u8],
    options: &TransferOptions,
    stored: Arc<AtomicU64>,
) -> Result<Result<(Opened, Container), Buffered>> {
    let compression = match detect_stream(&mut input)? {
        Some(engine) if options.open.engine.is_some_and(|wanted| wanted != engine) => return Ok(Err(input)),
        Some(Engine::Tar) => {
            return Ok(Ok((Opened::Once { stream: Box::new(input), shape: Shape::Tar, stored }, Container::Tar(None))));
        }
        Some(Engine::Compressed(compression)) => compression,
        _ => return Ok(Err(input)),
    };
    let (_, decoded) = decode(input, options.open.threads, options.open.cache_bytes)?;
    let mut decoded = Buffered::new(decoded, 0);
    let (shape, container) = if tar::detect_stream(&mut decoded)? {
        (Shape::Tar, Container::Tar(Some(compression)))
    } else {
        let name = compression.content_name(name);
        let path = EntryPath::new(name).or_else(|_| EntryPath::try_from("content")).expect("a constant is a path");
        (Shape::File(Box::new(Entry::new(path, Kind::File))), Container::Compressed(compression))
    };
    Ok(Ok((Opened::Once { stream: Box::new(decoded), shape, stored }, container)))
}
