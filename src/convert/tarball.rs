//! Any archive to a tar archive, plain or compressed.
//!
//! One thread reads entries in the order of storage and writes headers and content; compression runs on threads of its own. What
//! tar can't hold is told entry by entry.

use std::io::{self, Write};
use std::num::NonZero;

use crate::convert::loss::{Target, tell_whole};
use crate::convert::output::{Destination, Output};
use crate::convert::transfer::{Fidelity, Limits, Narrower, Order, within};
use crate::format::archive::{Access, Archive, Part};
use crate::format::entry::{Entry, Kind};
use crate::format::error::{Error, Result};
use crate::format::progress::{Counter, Monitor, Warning};
use crate::format::stream::{Compression, Encoder, Level};
use crate::format::tar::{END, Loss, encode, padding};

/// Bytes collected before they are written.
const BUFFER: usize = 256 << 10;
/// Zero bytes, for holes and padding.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// How a tar archive is written.
#[derive(Debug, Clone)]
pub struct TarOptions {
    /// Compression of the whole, if any.
    pub compression: Option<(Compression, Level)>,
    /// Threads that compress.
    pub threads: NonZero<usize>,
    /// What is kept of metadata.
    pub fidelity: Fidelity,
    /// What the input may grow to.
    pub limits: Limits,
    /// Leave out entries that are damaged; otherwise damage ends the work.
    pub keep_going: bool,
    /// Make sure that the archive is on disk before it gets its name.
    pub sync: bool,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TarStats {
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

/// Counts what goes to the output, and keeps the error of the system.
struct Counted {
    output: Output,
    bytes: u64,
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

/// Where the bytes of the archive go.
enum Sink {
    Plain(io::BufWriter<Counted>),
    Compressed(Box<Encoder<Counted>>),
}

impl Sink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            Self::Compressed(out) => out.write_all(bytes),
        }
    }

    fn zeros(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
            self.write_all(&ZEROS[..part])?;
            len -= part as u64;
        }
        Ok(())
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
/// `Corrupt` for damage (with [`TarOptions::keep_going`] that is a warning), `Limit` for an input beyond its limits, `Io` when writing
/// fails, `Cancelled`. Then nothing is left under the name of the destination.
pub fn write_tar(
    archive: &dyn Archive,
    destination: Destination,
    options: &TarOptions,
    monitor: &dyn Monitor,
) -> Result<TarStats> {
    let output = Output::create(destination)?;
    let name = output.name().to_vec();
    let failed = |error: io::Error| Error::io("write", &name, error);
    let counted = Counted { output, bytes: 0 };
    let sink = match options.compression {
        None => Sink::Plain(io::BufWriter::with_capacity(BUFFER, counted)),
        Some((compression, level)) => {
            Sink::Compressed(Box::new(Encoder::new(counted, compression, level, options.threads).map_err(failed)?))
        }
    };
    let mut job = Job { archive, options, monitor, name: &name, sink, stats: TarStats::default() };
    tell_whole(archive, Target::Tar, monitor)?;
    let order = Order::new(archive, monitor)?;
    let mut narrower = Narrower::new(&options.fidelity);
    for place in 0..order.len() {
        monitor.check()?;
        job.entry(order.number(place), &order, &mut narrower)?;
    }
    let Job { mut sink, mut stats, .. } = job;
    sink.write_all(&END).map_err(failed)?;
    let Counted { output, bytes } = sink.finish().map_err(failed)?;
    stats.archive_bytes = bytes;
    monitor.check()?;
    output.publish(options.sync)?;
    Ok(stats)
}

struct Job<'a> {
    archive: &'a dyn Archive,
    options: &'a TarOptions,
    monitor: &'a dyn Monitor,
    name: &'a [u8],
    sink: Sink,
    stats: TarStats,
}

impl Job<'_> {
    fn entry(&mut self, number: u64, order: &Order, narrower: &mut Narrower<'_>) -> Result<()> {
        let stored = match self.archive.entry(number) {
            Ok(stored) => stored,
            Err(error) => return self.leave_out(error, &[]),
        };
        // Nothing is known of it, and what lies below it brings it back.
        if stored.implied {
            return Ok(());
        }
        let path = stored.path.as_bytes();
        self.monitor.current(path);
        let mut entry = stored.clone();
        narrower.narrow(&mut entry);
        let link = order.link(number);
        let limits = self.options.limits;
        self.stats.content_bytes = self.stats.content_bytes.saturating_add(if link.is_none() { stored.size } else { 0 });
        for (what, found, limit) in [
            ("number of entries", self.stats.entries + 1, limits.entries),
            ("length of the content", self.stats.content_bytes, limits.bytes),
        ] {
            if found > limit {
                return Err(Error::Limit { what, found, limit });
            }
        }
        // A header promises the length of what follows: damage must show before.
        if self.options.keep_going
            && link.is_none()
            && let Err(error) = self.archive.with_content(&stored, Access::Sequential, &mut |_| self.monitor.check())
        {
            self.stats.content_bytes -= stored.size;
            return self.leave_out(error, path);
        }
        let mut header = Vec::new();
        for loss in encode(&entry, link, &mut header) {
            let message = match loss {
                Loss::Attributes(1) => "an attribute can't be kept in a tar archive".to_owned(),
                Loss::Attributes(count) => format!("{count} attributes can't be kept in a tar archive"),
                Loss::Device => "the numbers of a device are too large to be kept in a tar archive".to_owned(),
            };
            self.monitor.warn(Warning { path: path.to_vec(), message, degraded: true, damage: false });
        }
        self.write(&header)?;
        if link.is_none() {
            self.content(&stored)?;
        }
        self.stats.entries += 1;
        self.stats.files += u64::from(stored.kind == Kind::File);
        self.monitor.add(Counter::Entries, 1);
        Ok(())
    }

    fn content(&mut self, entry: &Entry) -> Result<()> {
        let Self { sink, monitor, name, archive, .. } = self;
        let read = archive.with_content(entry, Access::Sequential, &mut |part| {
            monitor.check()?;
            let (written, len) = match part {
                Part::Data(bytes) => (sink.write_all(bytes), bytes.len() as u64),
                Part::Hole(len) => (sink.zeros(len), len),
            };
            monitor.add(Counter::Bytes, len);
            written.map_err(|error| Error::io("write", *name, error))
        });
        read.map_err(|error| within(error, &entry.path))?;
        let padding = padding(entry.size) as u64;
        self.sink.zeros(padding).map_err(|error| Error::io("write", self.name, error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|error| Error::io("write", self.name, error))
    }

    /// An entry does not read: that ends the work, or it is left out.
    fn leave_out(&mut self, error: Error, path: &[u8]) -> Result<()> {
        if !self.options.keep_going || matches!(error, Error::Io { .. } | Error::Cancelled) {
            return Err(error);
        }
        self.stats.left_out += 1;
        let damage = matches!(error, Error::Corrupt { .. });
        self.monitor.warn(Warning { path: path.to_vec(), message: format!("left out: {error}"), degraded: true, damage });
        Ok(())
    }
}
