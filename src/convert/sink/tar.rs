//! Writes tar archives, plain or compressed.
//!
//! One thread reads entries in storage order and writes headers and content. Other threads
//! compress. Properties that tar cannot store are reported for each entry.

use std::io::{self, Write};
use std::num::NonZero;

use super::export::{Counted, EntrySink, ExportEntry, Exporter};
use super::loss::attributes_lost;
use super::output::Output;
use crate::entry_error::within;
use crate::options::Options;
use nra_format::archive::Part;
use nra_format::container::Engine;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result, Subject};
use nra_format::progress::{Counter, Monitor};
use nra_format::stream::{Compression, Encoder, Level, thread_bytes};
use nra_format::tar::{END, Loss, encode, encode_comment, padding};
use nra_format::zeros::each_zero;

/// Bytes collected before they are written.
const BUFFER: usize = 256 << 10;

/// How a tar archive is written.
#[derive(Debug, Clone, Default)]
pub struct TarSink {
    /// Compression of the archive, if any.
    pub compression: Option<(Compression, Level)>,
}

/// The bytes of the archive.
enum Stream<'a> {
    Plain(io::BufWriter<Counted>),
    Compressed(Box<Encoder<'a, Counted>>),
}

impl Stream<'_> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Compressed(out) => out.write_all(bytes),
        }
    }

    fn zeros(&mut self, len: u64) -> io::Result<()> {
        each_zero(len, |bytes| self.write_all(bytes))
    }

    fn finish(self) -> io::Result<Counted> {
        match self {
            Self::Plain(out) => out.into_inner().map_err(io::IntoInnerError::into_error),
            Self::Compressed(out) => out.finish(),
        }
    }
}

/// Writes a tar archive.
pub(super) struct TarWriter<'a> {
    name: Subject,
    out: Stream<'a>,
}

impl<'a> TarWriter<'a> {
    /// Starts an archive.
    pub(super) fn create(output: Output, sink: &TarSink, options: &Options, monitor: &'a dyn Monitor) -> Self {
        let name = output.name().clone();
        let counted = Counted::new(output);
        let out = match sink.compression {
            None => Stream::Plain(io::BufWriter::with_capacity(BUFFER, counted)),
            Some((compression, level)) => {
                let room = options.memory_bytes / thread_bytes(compression, level);
                let room = usize::try_from(room).ok().and_then(NonZero::new).unwrap_or(NonZero::<usize>::MIN);
                let threads = NonZero::new(options.threads).unwrap_or(NonZero::<usize>::MIN).min(room);
                Stream::Compressed(Box::new(Encoder::new(counted, compression, level, threads).with_monitor(monitor)))
            }
        };
        Self { name, out }
    }

    /// Writes the content of an entry, without holes if the header contains them.
    fn content(&mut self, entry: &Entry, is_sparse: bool, data_len: u64, exporter: &Exporter<'_>) -> Result<()> {
        let Self { out, name } = self;
        let read = exporter.content(entry, &mut |part| {
            let (written, len) = match part {
                Part::Data(bytes) => (out.write_all(bytes), bytes.len() as u64),
                Part::Hole(len) if is_sparse => (Ok(()), len),
                Part::Hole(len) => (out.zeros(len), len),
            };
            exporter.monitor.add(Counter::Bytes, len);
            written.map_err(|error| Error::io("write", &*name, error))
        });
        read.map_err(|error| within(error, &entry.path))?;
        let padding = padding(data_len) as u64;
        self.out.zeros(padding).map_err(|error| Error::io("write", &self.name, error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| Error::io("write", &self.name, error))
    }
}

impl EntrySink for TarWriter<'_> {
    fn begin(&mut self, exporter: &mut Exporter<'_>) -> Result<()> {
        let message = exporter.message();
        if message.is_empty() {
            return Ok(());
        }
        let mut header = Vec::new();
        encode_comment(message, &mut header);
        self.write(&header)
    }

    fn entry(&mut self, export: ExportEntry, exporter: &mut Exporter<'_>) -> Result<()> {
        let ExportEntry { stored, entry, link } = &export;
        let content = if link.is_none() { stored.size } else { 0 };
        exporter.count(stored, content)?;
        if exporter.reads_first()
            && link.is_none()
            && let Err(error) = exporter.trial(stored, &mut |_| Ok(()))
        {
            return exporter.skip(error, Some((stored, content)));
        }
        let holes = if link.is_none() { exporter.archive.holes(stored) } else { Ok(Vec::new()) };
        let holes = match holes {
            Ok(holes) => holes,
            Err(error) => return exporter.skip(error, Some((stored, content))),
        };
        let mut header = Vec::new();
        let encoded = encode(entry, link.as_ref(), &holes, &mut header);
        for loss in encoded.losses {
            let message = match loss {
                Loss::Attributes(count) => attributes_lost(count, Engine::Tar),
                Loss::Device => "the device numbers are too large to be kept in a tar archive".to_owned(),
            };
            exporter.lost(&entry.path, message);
        }
        self.write(&header)?;
        if link.is_none() {
            self.content(stored, !holes.is_empty(), encoded.data_len, exporter)?;
        }
        exporter.written();
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &mut Exporter<'_>) -> Result<Counted> {
        self.write(&END)?;
        let Self { name, out } = *self;
        out.finish().map_err(|error| Error::io("write", &name, error))
    }
}
