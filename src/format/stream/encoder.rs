//! Writes a compressed stream on several threads.
//!
//! The content is split into runs of equal length, each of which becomes a member. Members are
//! compressed in parallel, and the output does not depend on the number of threads. Other programs
//! read the sequence of members as one stream, and decoding can start at any member.

use std::io::{self, Write};
use std::num::NonZero;

use flate2::GzBuilder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use lzma_rust2::{XzOptions, XzWriter};
use zstd_safe::{CCtx, CParameter};

use super::{Compression, xz};
use nra_core::progress::Monitor;
use nra_core::worker_pool::{JobOutput, PoolLimits, WorkerPool};

/// Bytes that xz compresses between checks whether the work was stopped: less than a second at the
/// highest level.
const XZ_STEP: usize = 256 << 10;

/// A compression level, numbered as in the usual program for the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(i32);

impl Level {
    /// Returns the default level of the usual program.
    pub fn default_of(compression: Compression) -> Self {
        Self(match compression {
            Compression::Gzip | Compression::Xz | Compression::Lzma => 6,
            Compression::Zstd => 3,
            Compression::Bzip2 => 9,
            Compression::Lz4 => 1,
        })
    }

    /// Returns the supported levels.
    pub fn all(compression: Compression) -> std::ops::RangeInclusive<i32> {
        match compression {
            Compression::Gzip | Compression::Bzip2 => 1..=9,
            Compression::Xz | Compression::Lzma => 0..=9,
            Compression::Zstd => 1..=22,
            Compression::Lz4 => 1..=1,
        }
    }

    /// Returns the level with this number if it is supported.
    pub fn new(compression: Compression, number: i32) -> Option<Self> {
        Self::all(compression).contains(&number).then_some(Self(number))
    }

    fn unsigned(self) -> u32 {
        u32::try_from(self.0).expect("no level is negative")
    }
}

/// Longest run of xz, bytes.
const XZ_RUN: usize = 24 << 20;

/// Returns the length of a run, bytes: long enough that starting a new member costs less than 1 %.
fn run_len(compression: Compression, level: Level) -> usize {
    match compression {
        Compression::Gzip => 1 << 20,
        Compression::Zstd | Compression::Lz4 => 8 << 20,
        // Three times the dictionary, as in xz, but at most that of level 6. From level 8 on, the
        // dictionary is limited to the run.
        Compression::Xz | Compression::Lzma => {
            let dictionary = XzOptions::with_preset(level.unsigned()).lzma_options.dict_size;
            usize::try_from(dictionary).unwrap_or(XZ_RUN).saturating_mul(3).clamp(1 << 20, XZ_RUN)
        }
        // A single block.
        Compression::Bzip2 => level.unsigned() as usize * 100_000,
    }
}

/// Returns the approximate memory of a thread, bytes: a run in progress, a pending run, a member,
/// and the state of the compressor.
pub fn thread_bytes(compression: Compression, level: Level) -> u64 {
    let works_with = match compression {
        Compression::Gzip | Compression::Lz4 => 1 << 20,
        Compression::Bzip2 => 8 << 20,
        // From level 16 on, the tables are longer than the run.
        Compression::Zstd => (if level.0 < 16 { 16 } else { 96 }) << 20,
        // The tables are about eleven times the dictionary.
        Compression::Xz | Compression::Lzma => 11 * u64::from(xz_options(level).lzma_options.dict_size) + (2 << 20),
    };
    3 * run_len(compression, level) as u64 + works_with
}

fn xz_options(level: Level) -> XzOptions {
    let mut options = XzOptions::with_preset(level.unsigned());
    let run = u32::try_from(run_len(Compression::Xz, level)).unwrap_or(u32::MAX);
    options.lzma_options.dict_size = options.lzma_options.dict_size.min(run);
    options
}

/// A member, and the buffer of its run for reuse.
type Compressed = (io::Result<Vec<u8>>, Vec<u8>);

/// Compresses the bytes written to it.
pub struct Encoder<'a, W: Write> {
    out: W,
    run: Vec<u8>,
    run_len: usize,
    pool: WorkerPool<'static, Vec<u8>, Compressed>,
    spare: Vec<Vec<u8>>,
    has_members: bool,
    monitor: Option<&'a dyn Monitor>,
}

impl<'a, W: Write> Encoder<'a, W> {
    /// Creates an encoder that writes to `out` and compresses on `threads` threads.
    pub fn new(out: W, compression: Compression, level: Level, threads: NonZero<usize>) -> Self {
        let run_len = run_len(compression, level);
        let new_worker = move || {
            move |run: Vec<u8>, output: JobOutput<Compressed>| {
                let member = member(compression, level, &run, &|| output.is_stopped());
                output.finish((member, run));
            }
        };
        let limits = PoolLimits::new(threads.get(), threads.get() + 1);
        let pool = WorkerPool::new("compress", limits, new_worker);
        Self { out, run: Vec::with_capacity(run_len), run_len, pool, spare: Vec::new(), has_members: false, monitor: None }
    }

    /// Makes the encoder fail with `Cancelled` if `monitor` is cancelled while it waits for the
    /// threads, which take seconds per member at the highest levels.
    #[must_use]
    pub fn with_monitor(self, monitor: &'a dyn Monitor) -> Self {
        Self { monitor: Some(monitor), ..self }
    }

    /// Compresses the remaining bytes and returns the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.run.is_empty() || !self.has_members {
            self.send()?;
        }
        while self.receive()? {}
        self.out.flush()?;
        Ok(self.out)
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.pool.has_room(0) {
            self.receive()?;
        }
        let next = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.run_len));
        let run = std::mem::replace(&mut self.run, next);
        self.pool.send(run, 0).map_err(io::Error::other)?;
        self.has_members = true;
        Ok(())
    }

    /// Writes the next member. Returns whether there was one.
    fn receive(&mut self) -> io::Result<bool> {
        let monitor = self.monitor;
        let check = || monitor.map_or(Ok(()), |monitor| monitor.check().map_err(io::Error::other));
        let Some((member, mut run)) = self.pool.receive_while(check)? else { return Ok(false) };
        self.out.write_all(&member?)?;
        run.clear();
        self.spare.push(run);
        Ok(true)
    }
}

impl<W: Write> Write for Encoder<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.run.len() == self.run_len {
            self.send()?;
        }
        let len = bytes.len().min(self.run_len - self.run.len());
        self.run.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    /// Does nothing: flushing a partial run would create a short member.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses a run into a member. Returns an error when the work is stopped.
fn member(compression: Compression, level: Level, run: &[u8], is_stopped: &dyn Fn() -> bool) -> io::Result<Vec<u8>> {
    match compression {
        Compression::Gzip => {
            // No time and no name: equal content gives equal bytes.
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
            let mut writer = XzWriter::new(Vec::new(), xz_options(level))?;
            for step in run.chunks(XZ_STEP) {
                if is_stopped() {
                    return Err(io::Error::other("the work was stopped"));
                }
                writer.write_all(step)?;
            }
            Ok(xz::with_lengths(writer.finish()?, run.len() as u64))
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
