//! The common interface of the decoders.

use std::io::ErrorKind;

use flate2::{Decompress, FlushDecompress};
use lzma_rust2::{Action, LzmaStream, Status as LzmaStatus, StreamResult, XzStream};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::Compression;

/// Largest window of a zstd frame, as a power of two: the default limit of the zstd program.
const ZSTD_WINDOW_LOG: u32 = 27;
/// Memory of an xz or lzma decoder, KiB: twice that of the highest preset, so that unusual settings
/// can be decoded.
pub const LZMA_MEMORY_KIB: u32 = 256 << 10;
/// The window of deflate, as a power of two.
const DEFLATE_WINDOW_LOG: u8 = 15;

/// The result of a decoding step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Number of consumed input bytes.
    pub(super) consumed: usize,
    /// Number of bytes written to the output.
    pub(super) produced: usize,
    /// The member is complete.
    pub(super) ended: bool,
}

/// Why a member cannot be decoded.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is damaged.
    Damage(String),
    /// It needs more memory than the limit.
    Memory { found: String, known: String },
}

impl<T: Into<String>> From<T> for Fault {
    fn from(detail: T) -> Self {
        Self::Damage(detail.into())
    }
}

/// Decodes a member.
pub(super) trait Step: Send {
    /// Decodes from `input` into `output`. `last`: no input follows.
    ///
    /// # Errors
    ///
    /// The fault, and the number of bytes written to the output before it. A checksum follows its
    /// content.
    fn step(&mut self, input: &[u8], output: &mut [u8], last: bool) -> Result<Progress, (usize, Fault)>;
}

/// Returns a decoder for a member. lz4 is decoded by a reader instead.
pub(super) fn new(compression: Compression) -> Result<Box<dyn Step>, Fault> {
    Ok(match compression {
        Compression::Gzip => Box::new(Gzip(Decompress::new_gzip(DEFLATE_WINDOW_LOG))),
        Compression::Zstd => {
            let mut context = DCtx::try_create().ok_or("out of memory")?;
            context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(zstd_name)?;
            Box::new(Zstd { context, wanted: ZSTD_START })
        }
        Compression::Xz => Box::new(Xz(Box::new(XzStream::new_mem_limit(false, LZMA_MEMORY_KIB)))),
        Compression::Lzma => Box::new(Lzma(Box::new(LzmaStream::new_mem_limit(LZMA_MEMORY_KIB, None)))),
        Compression::Bzip2 => Box::new(Bzip2(bzip2::Decompress::new(false))),
        Compression::Lz4 => unreachable!("lz4 frames are decoded by a reader"),
    })
}

struct Gzip(Decompress);

impl Step for Gzip {
    fn step(&mut self, input: &[u8], output: &mut [u8], _last: bool) -> Result<Progress, (usize, Fault)> {
        let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
        let status = self.0.decompress(input, output, FlushDecompress::None);
        let produced = advanced(before_out, self.0.total_out());
        let status = status.map_err(|error| (produced, error.message().unwrap_or("invalid data").into()))?;
        Ok(Progress { consumed: advanced(before_in, self.0.total_in()), produced, ended: status == flate2::Status::StreamEnd })
    }
}

/// Bytes of a zstd frame that determine the length of its next part.
const ZSTD_START: usize = 5;

struct Zstd {
    context: DCtx<'static>,
    /// Bytes up to the end of the next part.
    wanted: usize,
}

impl Step for Zstd {
    fn step(&mut self, input: &[u8], output: &mut [u8], _last: bool) -> Result<Progress, (usize, Fault)> {
        // After an error the output position is not reported. Input is limited to one part, so that
        // only the preceding parts have output.
        let mut input = InBuffer::around(&input[..input.len().min(self.wanted)]);
        let mut output = OutBuffer::around(output);
        let hint = self.context.decompress_stream(&mut output, &mut input).map_err(|code| (output.pos(), zstd_name(code)))?;
        self.wanted = hint.max(1);
        Ok(Progress { consumed: input.pos(), produced: output.pos(), ended: hint == 0 })
    }
}

fn zstd_name(code: usize) -> Fault {
    match zstd_safe::get_error_name(code) {
        "Frame requires too much memory for decoding" => Fault::Memory {
            found: format!("with a window of more than {} MiB", 1 << (ZSTD_WINDOW_LOG - 20)),
            known: format!("windows of up to {} MiB", 1 << (ZSTD_WINDOW_LOG - 20)),
        },
        name => name.into(),
    }
}

struct Xz(Box<XzStream>);

impl Step for Xz {
    fn step(&mut self, input: &[u8], output: &mut [u8], last: bool) -> Result<Progress, (usize, Fault)> {
        let before = self.0.total_out();
        let result = self.0.process(input, output, action(last));
        lzma_progress(result, advanced(before, self.0.total_out()))
    }
}

struct Lzma(Box<LzmaStream>);

impl Step for Lzma {
    fn step(&mut self, input: &[u8], output: &mut [u8], last: bool) -> Result<Progress, (usize, Fault)> {
        let before = self.0.total_out();
        let result = self.0.process(input, output, action(last));
        lzma_progress(result, advanced(before, self.0.total_out()))
    }
}

fn action(last: bool) -> Action {
    if last { Action::Finish } else { Action::Run }
}

/// Converts the result of an lzma decoder that has written `produced` bytes.
pub(super) fn lzma_progress(result: std::io::Result<StreamResult>, produced: usize) -> Result<Progress, (usize, Fault)> {
    match result {
        Ok(StreamResult { bytes_consumed, bytes_produced, status }) => {
            Ok(Progress { consumed: bytes_consumed, produced: bytes_produced, ended: status == LzmaStatus::StreamEnd })
        }
        Err(error) if error.kind() == ErrorKind::OutOfMemory => {
            let limit = LZMA_MEMORY_KIB >> 10;
            let found = format!("that needs more than {limit} MiB of memory to decode");
            Err((produced, Fault::Memory { found, known: format!("up to {limit} MiB") }))
        }
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err((produced, super::decoder::TRUNCATED.into())),
        Err(error) => Err((produced, error.to_string().into())),
    }
}

struct Bzip2(bzip2::Decompress);

impl Step for Bzip2 {
    fn step(&mut self, input: &[u8], output: &mut [u8], _last: bool) -> Result<Progress, (usize, Fault)> {
        let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
        let status = self.0.decompress(input, output);
        let produced = advanced(before_out, self.0.total_out());
        let status = status.map_err(|error| {
            let detail = match error {
                bzip2::Error::Data => "invalid data or wrong checksum".to_owned(),
                bzip2::Error::DataMagic => "a wrong magic number".to_owned(),
                error => error.to_string(),
            };
            (produced, detail.into())
        })?;
        if status == bzip2::Status::MemNeeded {
            return Err((produced, "out of memory".into()));
        }
        Ok(Progress { consumed: advanced(before_in, self.0.total_in()), produced, ended: status == bzip2::Status::StreamEnd })
    }
}

fn advanced(before: u64, now: u64) -> usize {
    usize::try_from(now - before).expect("no more than the length of a slice")
}
