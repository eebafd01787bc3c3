//! Any archive to a zip archive.
//!
//! One thread reads entries in the order of storage; members are compressed by others, several short ones at a time, and written in order, so
//! that the bytes do not depend on the number of threads. A member that fits a part of the memory is compressed before its header is written;
//! a longer one goes out as it comes, with its lengths behind it. What zip can't hold is told entry by entry.

mod lines;
mod squeeze;

use std::num::NonZero;

pub use squeeze::ZipCompression;

use self::lines::{Lines, header, name};
use self::squeeze::{Frame, Job, Squeezer, WINDOW, Waiting};
use crate::loss::{Container, attributes_lost, holes_filled, tell_whole};
use crate::outgoing::{Leaving, Outgoing, OutgoingOptions, OutgoingStats};
use crate::output::{Destination, Output};
use crate::transfer::within;
use nra_format::archive::{Archive, Part};
use nra_format::codec::looks_incompressible;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::stream::InOrder;
use nra_format::zeros::each_run;
use nra_format::zip::{MAX_NAME, Method, Packed, fits_comment, keeps_time};

/// Level of deflate unless another one is asked for, as that of zip itself.
pub const DEFLATE_LEVEL: u32 = 6;
/// Content that a thread gets at once, bytes, and members, at most.
const BATCH: usize = 1 << 20;
const BATCH_MEMBERS: usize = 1_024;
/// The part of the memory that a member may take before its header is written; twice that waits for the threads.
const HOLD_SHARE: u64 = 4;

/// How a zip archive is written.
#[derive(Debug, Clone)]
pub struct ZipOptions {
    /// Compression of the members.
    pub compression: ZipCompression,
    /// Threads that compress.
    pub threads: NonZero<usize>,
    /// Memory for content that waits, bytes.
    pub memory_bytes: u64,
    /// What is kept, and how far.
    pub outgoing: OutgoingOptions,
}

/// Writes all entries of `archive` into a new zip archive.
///
/// # Errors
///
/// `Corrupt` for damage (with [`OutgoingOptions::keep_going`] that is a warning), `Limit` for an input beyond its limits, `Io` when writing
/// fails, `Cancelled`. Then nothing is left under the name of the destination.
pub fn write_zip(
    archive: &dyn Archive,
    destination: Destination,
    options: &ZipOptions,
    monitor: &dyn Monitor,
) -> Result<OutgoingStats> {
    let output = Output::create(destination)?;
    let name = output.name().clone();
    let compression = options.compression;
    let worker = move || {
        let mut squeezer = Squeezer::new(compression);
        move |job| squeezer.work(job)
    };
    let pool = InOrder::new("compress", options.threads, worker).map_err(|error| Error::io("write", &name, error))?;
    tell_whole(archive, Container::Zip, monitor);
    let mut job = Work {
        from: Outgoing::new(archive, Container::Zip, &options.outgoing, monitor)?,
        compression,
        hold: options.memory_bytes / HOLD_SHARE,
        lines: Lines::new(pool, output, 2 * options.threads.get()),
        batch: Vec::new(),
        members: Vec::new(),
        coarse: false,
        named: false,
    };
    while let Some(leaving) = job.from.next()? {
        job.entry(leaving)?;
    }
    job.send()?;
    let Work { from, lines, coarse, named, .. } = job;
    let mut comment = options.outgoing.message_of(archive).as_bytes();
    if !fits_comment(comment) {
        let message = "the message of the commit can't be kept in a zip archive: it is too long, or looks like the end of one";
        monitor.warn(Warning::degraded([], message));
        comment = &[];
    }
    let out = lines.finish(comment)?;
    let message = match (named, coarse) {
        (true, true) => {
            Some("names of owners and fractions of a second can't be kept in a zip archive; numbers of owners and seconds are")
        }
        (true, false) => Some("names of owners can't be kept in a zip archive; their numbers are"),
        (false, true) => Some("fractions of a second can't be kept in a zip archive"),
        (false, false) => None,
    };
    if let Some(message) = message {
        monitor.warn(Warning::remark([], message));
    }
    from.publish(out)
}

struct Work<'a> {
    from: Outgoing<'a>,
    compression: ZipCompression,
    /// Longest content that is compressed before its header is written, bytes.
    hold: u64,
    lines: Lines,
    batch: Vec<u8>,
    members: Vec<Waiting>,
    /// Times lost the part of their second.
    coarse: bool,
    /// Names of owners were lost.
    named: bool,
}

impl Work<'_> {
    fn entry(&mut self, leaving: Leaving) -> Result<()> {
        let Leaving { stored, entry, link } = leaving;
        let path = entry.path.as_bytes();
        if path.len() >= MAX_NAME {
            self.from.omit(path, "its path is too long for a zip archive", false);
            return Ok(());
        }
        match entry.kind {
            Kind::File | Kind::Directory | Kind::Symlink => {}
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => {
                self.from.omit(path, "a zip archive holds no devices and pipes", false);
                return Ok(());
            }
        }
        self.from.count(&stored, stored.size)?;
        if entry.kind == Kind::File && stored.size > self.hold {
            if !self.long(&stored, &entry)? {
                return Ok(());
            }
        } else {
            let start = self.batch.len();
            if entry.kind == Kind::Symlink {
                self.batch.extend_from_slice(&entry.target);
            } else if entry.kind == Kind::File && !self.short(&stored)? {
                return Ok(());
            }
            let len = self.batch.len() - start;
            self.members.push(Waiting { entry: entry.clone(), len, packed: None });
            if self.batch.len() >= BATCH || self.members.len() >= BATCH_MEMBERS {
                self.send()?;
            }
        }
        self.tell(&entry, link.is_some());
        self.from.written();
        Ok(())
    }

    /// Tells what of an entry is lost, or keeps in mind what almost every one loses.
    fn tell(&mut self, entry: &Entry, is_link: bool) {
        let path = &entry.path;
        if is_link {
            self.from.lost(path, "a hard link becomes a file of its own in a zip archive".into());
        }
        let lost = entry.metadata.attributes.len();
        if lost > 0 {
            self.from.lost(path, attributes_lost(lost, Container::Zip.name()));
        }
        if let Some(time) = entry.modified {
            self.coarse |= time.nanoseconds != 0;
            if !keeps_time(time) {
                self.from.lost(path, "its time is out of the range of a zip archive".into());
            }
        }
        self.named |= entry.metadata.owner.as_ref().is_some_and(|owner| !owner.user.is_empty() || !owner.group.is_empty());
    }

    /// Adds the content of a file to the batch; says whether that went well.
    fn short(&mut self, stored: &Entry) -> Result<bool> {
        let Self { from, batch, .. } = self;
        let start = batch.len();
        let mut has_holes = false;
        let read = from.content(stored, &mut |part| {
            let before = batch.len();
            match part {
                Part::Data(bytes) => batch.extend_from_slice(bytes),
                Part::Hole(len) => {
                    has_holes = true;
                    batch.resize(before + usize::try_from(len).expect("less than the content, which is short"), 0);
                }
            }
            from.monitor.add(Counter::Bytes, (batch.len() - before) as u64);
            Ok(())
        });
        if let Err(error) = read {
            batch.truncate(start);
            self.from.leave_out(error, Some((stored, stored.size)))?;
            return Ok(false);
        }
        if has_holes {
            self.from.lost(&stored.path, holes_filled(Container::Zip));
        }
        Ok(true)
    }

    /// Sends the batch to the threads.
    fn send(&mut self) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let (raw, members) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.members));
        self.lines.send(Job::Members(raw, members), 2 * self.hold)
    }

    /// Writes a file that is too long to be held; says whether that went well.
    fn long(&mut self, stored: &Entry, entry: &Entry) -> Result<bool> {
        self.send()?;
        self.lines.drain()?;
        let stores = self.compression == ZipCompression::Stored || self.looks_full(stored);
        let mut packed = None;
        // A program that reads a zip archive from a pipe can't tell where a member ends that is neither compressed nor has its length in front.
        if stores || self.from.reads_first() {
            let mut crc = crc32fast::Hasher::new();
            match self.from.trial(stored, &mut |part| {
                each_run(part, &mut |bytes| {
                    crc.update(bytes);
                    Ok(())
                })
            }) {
                Ok(()) => packed = stores.then(|| Packed { crc: crc.finalize(), stored_len: stored.size }),
                Err(error) => {
                    self.from.leave_out(error, Some((stored, stored.size)))?;
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
        let offset = self.lines.offset;
        self.lines.put(|out| header.local(out))?;
        let found = match self.compression {
            _ if stores => self.plain(stored)?,
            ZipCompression::Zstd(level) => self.zstd(stored, level)?,
            _ => self.deflate(stored)?,
        };
        match packed {
            None => self.lines.put(|out| header.descriptor(found, out))?,
            Some(promised) if promised == found => {}
            Some(_) => return Err(within(Error::corrupt("content", 0, "it changed while it was read"), &stored.path)),
        }
        self.lines.record(&header, found, offset);
        Ok(true)
    }

    /// Says whether the content of a long file looks as if nothing could be gained.
    fn looks_full(&self, stored: &Entry) -> bool {
        let mut sample = vec![0; BATCH];
        // Where all in front of it would be decoded for it, the middle is not looked at.
        let middle = if self.from.archive.is_sequential() { 0 } else { stored.size / 2 };
        for offset in [0, middle] {
            let len = self.from.archive.read_at(stored, offset, &mut sample);
            match len {
                Ok(len) if looks_incompressible(&sample[..len]) => {}
                // What does not read will show when all of it is wanted.
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Hands the content of a long file to `sink`, holes as zero bytes.
    fn each(from: &Outgoing<'_>, stored: &Entry, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut has_holes, mut len) = (false, 0u64);
        let read = from.content(stored, &mut |part| {
            has_holes |= matches!(part, Part::Hole(_));
            each_run(part, &mut |bytes| {
                len += bytes.len() as u64;
                from.monitor.check()?;
                from.monitor.add(Counter::Bytes, bytes.len() as u64);
                sink(bytes)
            })
        });
        read.map_err(|error| within(error, &stored.path))?;
        if len != stored.size {
            let detail = format!("{} bytes expected, {len} found", stored.size);
            return Err(within(Error::corrupt("content", 0, detail), &stored.path));
        }
        if has_holes {
            from.lost(&stored.path, holes_filled(Container::Zip));
        }
        Ok(())
    }

    fn plain(&mut self, stored: &Entry) -> Result<Packed> {
        let Self { from, lines, .. } = self;
        let mut crc = crc32fast::Hasher::new();
        Self::each(from, stored, &mut |bytes| {
            crc.update(bytes);
            lines.write(bytes)
        })?;
        Ok(Packed { crc: crc.finalize(), stored_len: stored.size })
    }

    fn zstd(&mut self, stored: &Entry, level: i32) -> Result<Packed> {
        let Self { from, lines, .. } = self;
        let start = lines.offset;
        let mut frame = Frame::new(level, stored.size).map_err(|error| lines.failed(error))?;
        let (mut crc, mut ready) = (crc32fast::Hasher::new(), Vec::new());
        let mut push = |bytes: &[u8]| {
            ready.clear();
            frame.push(bytes, &mut ready).map_err(|error| lines.failed(error))?;
            lines.write(&ready)
        };
        Self::each(from, stored, &mut |bytes| {
            crc.update(bytes);
            push(bytes)
        })?;
        push(&[])?;
        Ok(Packed { crc: crc.finalize(), stored_len: lines.offset - start })
    }

    fn deflate(&mut self, stored: &Entry) -> Result<Packed> {
        let Self { from, lines, hold, .. } = self;
        let (start, limit) = (lines.offset, 2 * *hold);
        let (mut raw, mut before) = (Vec::with_capacity(BATCH), Vec::new());
        Self::each(from, stored, &mut |mut bytes| {
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(bytes.len().min(BATCH - raw.len()));
                raw.extend_from_slice(now);
                bytes = later;
                if raw.len() == BATCH {
                    let next = raw[BATCH - WINDOW..].to_vec();
                    let raw = std::mem::replace(&mut raw, Vec::with_capacity(BATCH));
                    let before = std::mem::replace(&mut before, next);
                    lines.send(Job::Part { raw, before, is_last: false }, limit)?;
                }
            }
            Ok(())
        })?;
        lines.send(Job::Part { raw, before, is_last: true }, limit)?;
        lines.drain()?;
        Ok(Packed { crc: lines.take_crc(), stored_len: lines.offset - start })
    }
}
