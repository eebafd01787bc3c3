//! Compresses a zstd frame in parts, so that its length is known while it grows.

use std::io;

use zstd_safe::zstd_sys::ZSTD_EndDirective::{self, ZSTD_e_continue, ZSTD_e_end};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::error::{Error, Result};

/// Lowest level of the thorough mode.
const THOROUGH_LEVEL: i32 = 6;
/// Window from that level on: 8 MiB, which is larger than the default below level 16. Long blocks
/// benefit from it.
const LARGE_WINDOW_LOG: u32 = 23;
/// Higher levels have windows that the format does not allow if the length of the content is
/// unknown.
const LAST_NARROW_LEVEL: i32 = 21;
/// Largest window: 64 MiB, the length of the longest block.
const MAX_WINDOW_LOG: u32 = 26;

/// A reusable context for zstd frames compressed in parts.
pub struct StreamCompressor {
    context: CCtx<'static>,
    level: i32,
    thorough: bool,
}

impl StreamCompressor {
    /// Creates a context for `level`.
    ///
    /// # Errors
    ///
    /// `Usage` if zstd does not have the level, `Io` if there is no memory.
    pub fn new(level: i32) -> Result<Self> {
        let levels = zstd_safe::min_c_level()..=zstd_safe::max_c_level();
        if !levels.contains(&level) {
            let detail = format!("zstd has no level {level} (levels: {} to {})", levels.start(), levels.end());
            return Err(Error::Usage { detail });
        }
        let context = CCtx::try_create().ok_or_else(|| Error::io("compress", "content", io::ErrorKind::OutOfMemory.into()))?;
        let mut compressor = Self { context, level, thorough: false };
        compressor.set_parameters()?;
        Ok(compressor)
    }

    /// Starts a frame. `thorough`: search for more distant matches, which is cheap if most of the
    /// content repeats.
    ///
    /// # Errors
    ///
    /// `Io` if there is no memory.
    pub fn begin(&mut self, thorough: bool) -> Result<()> {
        self.context.reset(ResetDirective::SessionOnly).map_err(fail)?;
        if self.thorough != thorough {
            self.thorough = thorough;
            self.set_parameters()?;
        }
        Ok(())
    }

    /// Adds a part of the content to the frame. The complete part of the frame is appended to
    /// `out`; about 128 KiB of content remain buffered.
    ///
    /// # Errors
    ///
    /// `Io` if there is no memory.
    pub fn push(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.drive(raw, out, ZSTD_e_continue)
    }

    /// Finishes the frame.
    ///
    /// # Errors
    ///
    /// `Io` if there is no memory.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.drive(&[], out, ZSTD_e_end)
    }

    fn drive(&mut self, raw: &[u8], out: &mut Vec<u8>, directive: ZSTD_EndDirective) -> Result<()> {
        let mut input = InBuffer::around(raw);
        loop {
            // The output of a step always fits, so each iteration makes progress.
            out.reserve(CCtx::out_size());
            let written = out.len();
            let mut output = OutBuffer::around_pos(out, written);
            let rest = self.context.compress_stream2(&mut output, &mut input, directive).map_err(fail)?;
            if input.pos() == raw.len() && (directive == ZSTD_e_continue || rest == 0) {
                return Ok(());
            }
        }
    }

    fn set_parameters(&mut self) -> Result<()> {
        self.context.reset(ResetDirective::SessionAndParameters).map_err(fail)?;
        let level = if self.thorough { self.level.max(THOROUGH_LEVEL) } else { self.level };
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(false),
        ] {
            self.context.set_parameter(parameter).map_err(fail)?;
        }
        if (THOROUGH_LEVEL..=15).contains(&level) {
            self.context.set_parameter(CParameter::WindowLog(LARGE_WINDOW_LOG)).map_err(fail)?;
        } else if level > LAST_NARROW_LEVEL || self.thorough {
            // The thorough mode would select a window of 128 MiB.
            self.context.set_parameter(CParameter::WindowLog(MAX_WINDOW_LOG)).map_err(fail)?;
        }
        if self.thorough {
            self.context.set_parameter(CParameter::EnableLongDistanceMatching(true)).map_err(fail)?;
        }
        Ok(())
    }
}

fn fail(code: zstd_safe::ErrorCode) -> Error {
    Error::io("compress", "content", io::Error::other(zstd_safe::get_error_name(code)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, decompress};

    #[test]
    fn windows_comply_with_the_format() {
        for level in [1, 19, 20, 21, 22] {
            for thorough in [false, true] {
                let mut compressor = StreamCompressor::new(level).unwrap();
                let mut out = Vec::new();
                compressor.begin(thorough).unwrap();
                compressor.push(&[7; 1_000], &mut out).unwrap();
                compressor.finish(&mut out).unwrap();
                assert_eq!(decompress(Codec::Zstd, &out, 1_000, None), Ok(vec![7; 1_000]), "{level}");
            }
        }
    }

    #[test]
    fn parts_form_one_frame() {
        let parts: Vec<Vec<u8>> =
            (0..400u32).map(|i| format!("{i} is followed by {}\n", i + 1).repeat(40).into_bytes()).collect();
        let whole = parts.concat();
        let mut compressor = StreamCompressor::new(3).unwrap();
        let mut frames = Vec::new();
        for thorough in [false, true, false] {
            let mut out = Vec::new();
            compressor.begin(thorough).unwrap();
            parts.iter().for_each(|part| compressor.push(part, &mut out).unwrap());
            assert!(!out.is_empty(), "the length is known before the end");
            compressor.finish(&mut out).unwrap();
            assert_eq!(decompress(Codec::Zstd, &out, whole.len(), None), Ok(whole.clone()));
            frames.push(out);
        }
        assert_eq!(frames[0], frames[2], "previous content has no influence");
        assert!(StreamCompressor::new(1_000).is_err());
    }
}
