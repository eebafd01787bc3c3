//! Writes zip archives.
//!
//! One thread reads entries in storage order. Other threads compress members, several short ones at
//! a time. Members are written in order, so that the output does not depend on the number of
//! threads. A short member is compressed before its header is written. A long one is streamed,
//! followed by its lengths. Properties that zip cannot store are reported for each entry.

mod compress;
mod output;

pub use compress::ZipCompression;

use self::compress::{Compressor, Frame, Job, Member, WINDOW};
use self::output::{ZipOutput, header, name};
use super::export::{Counted, EntrySink, ExportEntry, Exporter};
use super::loss::{attributes_lost, holes_filled, without_holes};
use super::output::Output;
use crate::entry_error::within;
use crate::options::Options;
use nra_format::archive::Part;
use nra_format::codec::looks_incompressible;
use nra_format::container::Engine;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::progress::{Counter, Warning};
use nra_format::worker_pool::{JobOutput, PoolLimits, WorkerPool};
use nra_format::zeros::each_run;
use nra_format::zip::{MAX_NAME, Method, Packed, fits_comment, keeps_time};

/// Default level of deflate, as in zip itself.
pub const DEFLATE_LEVEL: u32 = 6;
/// Content of a job, bytes, and maximum number of its members.
const BATCH: usize = 1 << 20;
const BATCH_MEMBERS: usize = 1_024;
/// Divisor of the memory limit for members that are compressed before their header is written.
/// Twice as much is queued for the threads.
const HOLD_SHARE: u64 = 4;

/// How a zip archive is written.
#[derive(Debug, Clone)]
pub struct ZipSink {
    /// Compression of the members.
    pub compression: ZipCompression,
}

impl Default for ZipSink {
    fn default() -> Self {
        Self { compression: ZipCompression::Deflate(DEFLATE_LEVEL) }
    }
}

/// Writes a zip archive.
pub(super) struct ZipWriter {
    compression: ZipCompression,
    /// Longest content that is compressed before its header is written, bytes.
    hold: u64,
    out: ZipOutput,
    batch: Vec<u8>,
    members: Vec<Member>,
    /// Times lost their fraction of a second.
    coarse: bool,
    /// Names of owners were lost.
    named: bool,
}

impl EntrySink for ZipWriter {
    fn begin(&mut self, _: &mut Exporter<'_>) -> Result<()> {
        Ok(())
    }

    fn entry(&mut self, export: ExportEntry, exporter: &mut Exporter<'_>) -> Result<()> {
        let ExportEntry { stored, entry, link } = export;
        let path = entry.path.as_bytes();
        if path.len() >= MAX_NAME {
            exporter.omit(path, "the path is too long for a zip archive", false);
            return Ok(());
        }
        match entry.kind {
            Kind::File | Kind::Directory | Kind::Symlink => {}
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                exporter.omit(path, "a zip archive cannot contain devices and pipes", false);
                return Ok(());
            }
        }
        exporter.count(&stored, stored.size)?;
        if entry.kind == Kind::File && stored.size > self.hold {
            if !self.long(&stored, &entry, exporter)? {
                return Ok(());
            }
        } else {
            let start = self.batch.len();
            if entry.kind == Kind::Symlink {
                self.batch.extend_from_slice(&entry.target);
            } else if entry.kind == Kind::File && !self.short(&stored, exporter)? {
                return Ok(());
            }
            let len = self.batch.len() - start;
            self.members.push(Member { entry: entry.clone(), len, packed: None });
            if self.batch.len() >= BATCH || self.members.len() >= BATCH_MEMBERS {
                self.send()?;
            }
        }
        self.report(&entry, link.is_some(), exporter);
        exporter.written();
        Ok(())
    }

    fn finish(mut self: Box<Self>, exporter: &mut Exporter<'_>) -> Result<Counted> {
        self.send()?;
        let Self { out, coarse, named, .. } = *self;
        let monitor = exporter.monitor;
        let mut comment = exporter.message().as_bytes();
        if !fits_comment(comment) {
            let message =
                "the commit message can't be kept in a zip archive: it is too long, or looks like the end of an archive";
            monitor.warn(Warning::degraded([], message));
            comment = &[];
        }
        let out = out.finish(comment)?;
        let message = match (named, coarse) {
            (true, true) => Some(
                "names of owners and fractions of a second can't be kept in a zip archive; numbers of owners and seconds are",
            ),
            (true, false) => Some("names of owners can't be kept in a zip archive; their numbers are"),
            (false, true) => Some("fractions of a second can't be kept in a zip archive"),
            (false, false) => None,
        };
        if let Some(message) = message {
            monitor.warn(Warning::remark([], message));
        }
        Ok(out)
    }
}

impl ZipWriter {
    /// Starts an archive.
    pub(super) fn create(output: Output, sink: &ZipSink, options: &Options) -> Self {
        let compression = sink.compression;
        let new_worker = move || {
            let mut compressor = Compressor::new(compression);
            move |job, output: JobOutput<_>| output.finish(compressor.run(job))
        };
        let hold = options.memory_bytes / HOLD_SHARE;
        let threads = options.threads.max(1);
        let limits = PoolLimits { bytes: 2 * hold, ..PoolLimits::new(threads, 2 * threads) };
        let out = ZipOutput::new(WorkerPool::new("compress", limits, new_worker), output);
        Self { compression, hold, out, batch: Vec::new(), members: Vec::new(), coarse: false, named: false }
    }

    /// Reports what an entry loses, or remembers what almost every entry loses.
    fn report(&mut self, entry: &Entry, is_link: bool, exporter: &Exporter<'_>) {
        let path = &entry.path;
        if is_link {
            exporter.lost(path, "a hard link becomes a separate file in a zip archive".into());
        }
        let lost = entry.metadata.attributes.len();
        if lost > 0 {
            exporter.lost(path, attributes_lost(lost, Engine::Zip));
        }
        if let Some(time) = entry.modified {
            self.coarse |= time.nanoseconds != 0;
            if !keeps_time(time) {
                exporter.lost(path, "the time is out of range for a zip archive".into());
            }
        }
        self.named |= entry.metadata.owner.as_ref().is_some_and(|owner| !owner.user.is_empty() || !owner.group.is_empty());
    }

    /// Adds the content of a file to the batch. Returns whether it could be read.
    fn short(&mut self, stored: &Entry, exporter: &mut Exporter<'_>) -> Result<bool> {
        let batch = &mut self.batch;
        let start = batch.len();
        let mut has_holes = false;
        let read = exporter.content(stored, &mut |part| {
            let before = batch.len();
            match part {
                Part::Data(bytes) => batch.extend_from_slice(bytes),
                Part::Hole(len) => {
                    has_holes = true;
                    batch.resize(before + usize::try_from(len).expect("less than the content, which is short"), 0);
                }
            }
            exporter.monitor.add(Counter::Bytes, (batch.len() - before) as u64);
            Ok(())
        });
        if let Err(error) = read {
            batch.truncate(start);
            exporter.skip(error, Some((stored, stored.size)))?;
            return Ok(false);
        }
        if has_holes {
            exporter.lost(&stored.path, holes_filled(Engine::Zip));
        }
        Ok(true)
    }

    /// Sends the batch to the threads.
    fn send(&mut self) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let (raw, members) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.members));
        self.out.send(Job::Members(raw, members))
    }

    /// Streams a file that is too long to be held in memory. Returns whether it could be read.
    fn long(&mut self, stored: &Entry, entry: &Entry, exporter: &mut Exporter<'_>) -> Result<bool> {
        self.send()?;
        self.out.drain()?;
        let stores = self.compression == ZipCompression::Stored || looks_full(stored, exporter);
        let mut packed = None;
        // An uncompressed member must have its length in the header: without it, programs that read from a pipe cannot find its end.
        if stores || exporter.reads_first() {
            let mut crc = crc32fast::Hasher::new();
            match exporter.trial(stored, &mut |part| {
                each_run(part, &mut |bytes| {
                    crc.update(bytes);
                    Ok(())
                })
            }) {
                Ok(()) => packed = stores.then(|| Packed { crc: crc.finalize(), stored_len: stored.size }),
                Err(error) => {
                    exporter.skip(error, Some((stored, stored.size)))?;
                    return Ok(false);
                }
            }
        }
        let method = match self.compression {
            _ if stores => Method::Stored,
            ZipCompression::Zstd(_) => Method::Zstd,
            _ => Method::Deflate,
        };
        let name = name(entry);
        let header = header(&name, entry, method, stored.size, packed);
        let offset = self.out.offset;
        self.out.put(|bytes| header.local(bytes))?;
        let found = match self.compression {
            _ if stores => self.plain(stored, exporter)?,
            ZipCompression::Zstd(level) => self.zstd(stored, level, exporter)?,
            _ => self.deflate(stored, exporter)?,
        };
        match packed {
            None => self.out.put(|bytes| header.descriptor(found, bytes))?,
            Some(promised) if promised == found => {}
            Some(_) => return Err(within(Error::corrupt("content", 0, "changed while it was read"), &stored.path)),
        }
        self.out.record(&header, found, offset);
        Ok(true)
    }

    fn plain(&mut self, stored: &Entry, exporter: &Exporter<'_>) -> Result<Packed> {
        let out = &mut self.out;
        let mut crc = crc32fast::Hasher::new();
        without_holes(exporter, stored, Engine::Zip, &mut |bytes| {
            crc.update(bytes);
            out.write(bytes)
        })?;
        Ok(Packed { crc: crc.finalize(), stored_len: stored.size })
    }

    fn zstd(&mut self, stored: &Entry, level: i32, exporter: &Exporter<'_>) -> Result<Packed> {
        let out = &mut self.out;
        let start = out.offset;
        let mut frame = Frame::new(level, stored.size).map_err(|error| out.failed(error))?;
        let (mut crc, mut ready) = (crc32fast::Hasher::new(), Vec::new());
        let mut push = |bytes: &[u8]| {
            ready.clear();
            frame.push(bytes, &mut ready).map_err(|error| out.failed(error))?;
            out.write(&ready)
        };
        without_holes(exporter, stored, Engine::Zip, &mut |bytes| {
            crc.update(bytes);
            push(bytes)
        })?;
        push(&[])?;
        Ok(Packed { crc: crc.finalize(), stored_len: out.offset - start })
    }

    fn deflate(&mut self, stored: &Entry, exporter: &Exporter<'_>) -> Result<Packed> {
        let out = &mut self.out;
        let start = out.offset;
        let (mut raw, mut before) = (Vec::with_capacity(BATCH), Vec::new());
        without_holes(exporter, stored, Engine::Zip, &mut |mut bytes| {
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(bytes.len().min(BATCH - raw.len()));
                raw.extend_from_slice(now);
                bytes = later;
                if raw.len() == BATCH {
                    let next = raw[BATCH - WINDOW..].to_vec();
                    let raw = std::mem::replace(&mut raw, Vec::with_capacity(BATCH));
                    let before = std::mem::replace(&mut before, next);
                    out.send(Job::Part { raw, before, is_last: false })?;
                }
            }
            Ok(())
        })?;
        out.send(Job::Part { raw, before, is_last: true })?;
        out.drain()?;
        Ok(Packed { crc: out.take_crc(), stored_len: out.offset - start })
    }
}

/// Returns whether the content of a long file looks incompressible.
fn looks_full(stored: &Entry, exporter: &Exporter<'_>) -> bool {
    let mut sample = vec![0; BATCH];
    // Sampling the middle of a sequential archive would decode everything before it.
    let middle = if exporter.archive.is_sequential() { 0 } else { stored.size / 2 };
    for offset in [0, middle] {
        let len = exporter.archive.read_at(stored, offset, &mut sample);
        match len {
            Ok(len) if looks_incompressible(&sample[..len]) => {}
            // Damage is reported when all content is read.
            Ok(_) | Err(_) => return false,
        }
    }
    true
}
