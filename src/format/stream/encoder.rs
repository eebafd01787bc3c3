//! Writes a compressed stream, member by member on several threads.
//!
//! The content is cut into runs of equal length and each becomes a member of its own (a gzip member, a frame, a stream): every
//! reader takes several in a row, they are made in parallel, the bytes do not depend on the number of threads, and whoever
//! reads the stream later can begin at any of them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZero;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use flate2::GzBuilder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use lzma_rust2::{XzOptions, XzWriter};
use zstd_safe::{CCtx, CParameter};

use super::Compression;

/// How hard to compress; the numbers mean what the usual program of each kind means by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(i32);

impl Level {
    /// Returns the level that the usual program takes by itself.
    pub fn default_of(compression: Compression) -> Self {
        Self(match compression {
            Compression::Gzip | Compression::Xz | Compression::Lzma => 6,
            Compression::Zstd => 3,
            Compression::Bzip2 => 9,
            Compression::Lz4 => 1,
        })
    }

    /// Returns the level with this number.
    ///
    /// # Errors
    ///
    /// The levels there are, when this is none.
    pub fn new(compression: Compression, number: i32) -> Result<Self, std::ops::RangeInclusive<i32>> {
        let levels = match compression {
            Compression::Gzip | Compression::Bzip2 => 1..=9,
            Compression::Xz | Compression::Lzma => 0..=9,
            Compression::Zstd => 1..=22,
            Compression::Lz4 => 1..=1,
        };
        if levels.contains(&number) { Ok(Self(number)) } else { Err(levels) }
    }

    fn unsigned(self) -> u32 {
        u32::try_from(self.0).expect("no level is negative")
    }
}

/// Returns the content of one member, bytes: long enough that beginning afresh costs less than a percent.
fn run_len(compression: Compression, level: Level) -> usize {
    match compression {
        Compression::Gzip => 1 << 20,
        Compression::Zstd | Compression::Lz4 => 8 << 20,
        // Three times the dictionary, which is 8 MiB at level 6 and 64 MiB at level 9.
        Compression::Xz | Compression::Lzma => 24 << 20,
        // One block.
        Compression::Bzip2 => level.unsigned() as usize * 100_000,
    }
}

/// A member, and the buffer of its run for the next one.
type Compressed = (io::Result<Vec<u8>>, Vec<u8>);

/// Work for a thread: a run, and where the member goes.
struct Job {
    run: Vec<u8>,
    out: Sender<Compressed>,
}

/// Compresses what is written to it.
pub struct Encoder<W: Write> {
    out: W,
    run: Vec<u8>,
    run_len: usize,
    jobs: Option<Sender<Job>>,
    waiting: VecDeque<Receiver<Compressed>>,
    ahead: usize,
    spare: Vec<Vec<u8>>,
    any: bool,
    threads: Vec<JoinHandle<()>>,
}

impl<W: Write> Encoder<W> {
    /// Compresses into `out` on `threads` threads.
    ///
    /// # Errors
    ///
    /// When the system gives no threads.
    pub fn new(out: W, compression: Compression, level: Level, threads: NonZero<usize>) -> io::Result<Self> {
        let run_len = run_len(compression, level);
        let (jobs, received) = bounded::<Job>(threads.get());
        let mut all = Vec::with_capacity(threads.get());
        for _ in 0..threads.get() {
            let received = received.clone();
            let work = move || {
                for Job { run, out } in received {
                    let member = member(compression, level, &run);
                    // Nobody waits for it when the work was stopped.
                    let _ = out.send((member, run));
                }
            };
            all.push(std::thread::Builder::new().name("compress".into()).spawn(work)?);
        }
        Ok(Self {
            out,
            run: Vec::with_capacity(run_len),
            run_len,
            jobs: Some(jobs),
            waiting: VecDeque::new(),
            ahead: threads.get() + 1,
            spare: Vec::new(),
            any: false,
            threads: all,
        })
    }

    /// Writes what is left; returns what it wrote to.
    ///
    /// # Errors
    ///
    /// What compressing and writing give.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.run.is_empty() || !self.any {
            self.send()?;
        }
        self.jobs = None;
        while !self.waiting.is_empty() {
            self.receive()?;
        }
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn send(&mut self) -> io::Result<()> {
        while self.waiting.len() >= self.ahead {
            self.receive()?;
        }
        let next = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.run_len));
        let run = std::mem::replace(&mut self.run, next);
        let (out, member) = bounded(1);
        let jobs = self.jobs.as_ref().expect("it is closed at the end alone");
        jobs.send(Job { run, out }).map_err(|_| io::Error::other("the threads that compress are gone"))?;
        self.waiting.push_back(member);
        self.any = true;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let Some(member) = self.waiting.pop_front() else { return Ok(()) };
        let (member, mut run) = member.recv().map_err(|_| io::Error::other("a thread that compresses is gone"))?;
        self.out.write_all(&member?)?;
        run.clear();
        self.spare.push(run);
        Ok(())
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.run.len() == self.run_len {
            self.send()?;
        }
        let len = bytes.len().min(self.run_len - self.run.len());
        self.run.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// Does nothing: a run that is not full stays open, since members would get short otherwise.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses a run into a member.
fn member(compression: Compression, level: Level, run: &[u8]) -> io::Result<Vec<u8>> {
    match compression {
        Compression::Gzip => {
            // No time and no name: the same content gives the same bytes.
            let mut encoder = GzBuilder::new().write(Vec::new(), flate2::Compression::new(level.unsigned()));
            encoder.write_all(run)?;
            encoder.finish()
        }
        Compression::Zstd => {
            let mut context = CCtx::create();
            let mut member = Vec::with_capacity(zstd_safe::compress_bound(run.len()));
            let zstd = |code| io::Error::other(zstd_safe::get_error_name(code));
            context.set_parameter(CParameter::CompressionLevel(level.0)).map_err(zstd)?;
            context.set_parameter(CParameter::ChecksumFlag(true)).map_err(zstd)?;
            context.compress2(&mut member, run).map_err(zstd)?;
            Ok(member)
        }
        Compression::Xz => {
            let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(level.unsigned()))?;
            writer.write_all(run)?;
            writer.finish()
        }
        Compression::Lzma => Err(io::Error::new(io::ErrorKind::Unsupported, "nra writes xz, not lzma")),
        Compression::Bzip2 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(level.unsigned()));
            encoder.write_all(run)?;
            encoder.finish()
        }
        Compression::Lz4 => {
            let info = FrameInfo::new()
                .block_size(BlockSize::Max4MB)
                .block_mode(BlockMode::Independent)
                .content_checksum(true)
                .content_size(Some(run.len() as u64));
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(run)?;
            Ok(encoder.finish()?)
        }
    }
}
