//! Any archive to a tar archive, plain or compressed.
//!
//! One thread reads entries in the order of storage and writes headers and content; compression runs on threads of its own. What
//! tar can't hold is told entry by entry.

use std::io::{self, Write};
use std::num::NonZero;

use crate::loss::{Container, attributes_lost, tell_whole};
use crate::outgoing::{Counted, Leaving, Outgoing, OutgoingOptions, OutgoingStats};
use crate::output::{Destination, Output};
use crate::transfer::within;
use nra_format::archive::{Archive, Part};
use nra_format::entry::Entry;
use nra_format::error::{Error, Result, Subject};
use nra_format::progress::{Counter, Monitor};
use nra_format::stream::{Compression, Encoder, Level, thread_bytes};
use nra_format::tar::{END, Loss, encode, encode_comment, padding};
use nra_format::zeros::each_zero;

/// Bytes collected before they are written.
const BUFFER: usize = 256 << 10;

/// How a tar archive is written.
#[derive(Debug, Clone)]
pub struct TarOptions {
    /// Compression of the whole, if any.
    pub compression: Option<(Compression, Level)>,
    /// Threads that compress, at most.
    pub threads: NonZero<usize>,
    /// Memory that they may take together, bytes: there are fewer where that does not suffice, but one.
    pub memory_bytes: u64,
    /// What is kept, and how far.
    pub outgoing: OutgoingOptions,
}

/// Where the bytes of the archive go.
enum Sink<'a> {
    Plain(io::BufWriter<Counted>),
    Compressed(Box<Encoder<'a, Counted>>),
}

impl Sink<'_> {
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

/// Writes all entries of `archive` into a new tar archive.
///
/// # Errors
///
/// `Corrupt` for damage (with [`OutgoingOptions::keep_going`] that is a warning), `Limit` for an input beyond its limits, `Io` when writing
/// fails, `Cancelled`. Then nothing is left under the name of the destination.
pub fn write_tar(
    archive: &dyn Archive,
    destination: Destination,
    options: &TarOptions,
    monitor: &dyn Monitor,
) -> Result<OutgoingStats> {
    let output = Output::create(destination)?;
    let name = output.name().clone();
    let failed = |error: io::Error| Error::io("write", &name, error);
    let counted = Counted::new(output);
    let sink = match options.compression {
        None => Sink::Plain(io::BufWriter::with_capacity(BUFFER, counted)),
        Some((compression, level)) => {
            let room = options.memory_bytes / thread_bytes(compression, level);
            let room = usize::try_from(room).ok().and_then(NonZero::new).unwrap_or(NonZero::<usize>::MIN);
            let threads = options.threads.min(room);
            let encoder = Encoder::new(counted, compression, level, threads).map_err(failed)?;
            Sink::Compressed(Box::new(encoder.watched(monitor)))
        }
    };
    tell_whole(archive, Container::Tar, monitor);
    let from = Outgoing::new(archive, Container::Tar, &options.outgoing, monitor)?;
    let mut job = Job { from, name: &name, sink };
    let message = options.outgoing.message_of(archive);
    if !message.is_empty() {
        let mut header = Vec::new();
        encode_comment(message, &mut header);
        job.write(&header)?;
    }
    while let Some(leaving) = job.from.next()? {
        job.entry(&leaving)?;
    }
    let Job { mut sink, from, .. } = job;
    sink.write_all(&END).map_err(failed)?;
    from.publish(sink.finish().map_err(failed)?)
}

struct Job<'a> {
    from: Outgoing<'a>,
    name: &'a Subject,
    sink: Sink<'a>,
}

impl Job<'_> {
    fn entry(&mut self, leaving: &Leaving) -> Result<()> {
        let Leaving { stored, entry, link } = leaving;
        let content = if link.is_none() { stored.size } else { 0 };
        self.from.count(stored, content)?;
        if self.from.reads_first()
            && link.is_none()
            && let Err(error) = self.from.trial(stored, &mut |_| Ok(()))
        {
            return self.from.leave_out(error, Some((stored, content)));
        }
        let holes = if link.is_none() { self.from.archive.holes(stored) } else { Ok(Vec::new()) };
        let holes = match holes {
            Ok(holes) => holes,
            Err(error) => return self.from.leave_out(error, Some((stored, content))),
        };
        let mut header = Vec::new();
        let encoded = encode(entry, link.as_ref(), &holes, &mut header);
        for loss in encoded.losses {
            let message = match loss {
                Loss::Attributes(count) => attributes_lost(count, Container::Tar.name()),
                Loss::Device => "the numbers of a device are too large to be kept in a tar archive".to_owned(),
            };
            self.from.lost(&entry.path, message);
        }
        self.write(&header)?;
        if link.is_none() {
            self.content(stored, !holes.is_empty(), encoded.data_len)?;
        }
        self.from.written();
        Ok(())
    }

    /// Writes the content of an entry; its holes, unless they are in the header already.
    fn content(&mut self, entry: &Entry, is_sparse: bool, data_len: u64) -> Result<()> {
        let Self { sink, name, from } = self;
        let read = from.content(entry, &mut |part| {
            let (written, len) = match part {
                Part::Data(bytes) => (sink.write_all(bytes), bytes.len() as u64),
                Part::Hole(len) if is_sparse => (Ok(()), len),
                Part::Hole(len) => (sink.zeros(len), len),
            };
            from.monitor.add(Counter::Bytes, len);
            written.map_err(|error| Error::io("write", *name, error))
        });
        read.map_err(|error| within(error, &entry.path))?;
        let padding = padding(data_len) as u64;
        self.sink.zeros(padding).map_err(|error| Error::io("write", self.name, error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|error| Error::io("write", self.name, error))
    }
}
