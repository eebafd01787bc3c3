//! Compressed streams: gzip, zstd, xz, lzma, bzip2 and lz4, detected from their first bytes.
//!
//! A stream is a sequence of *members*: gzip members, zstd and lz4 frames, xz and bzip2 streams.
//! Zero bytes may follow the last one. Other trailing data is damage if it resembles the header of
//! a member; otherwise it is skipped with a remark. Checksums are compared, truncation is an error,
//! and memory is limited regardless of what the stream declares.

mod ahead;
mod blocks;
mod decoder;
mod encoder;
mod input;
mod legacy;
mod magic;
mod step;
#[cfg(test)]
mod tests;
mod xz;

pub use ahead::ReadAhead;
pub use blocks::{BLOCK, Blocks};
pub use decoder::{Decoder, RestartPoint};
pub use encoder::{Encoder, Level, thread_bytes};
use input::MAX_PEEK;
pub use input::{ByteStream, Input, ReaderStream, SourceStream};
pub use magic::{begins, is_skippable};
pub use nra_core::container::Compression;
pub use step::LZMA_MEMORY_KIB;

use std::num::NonZero;

use nra_core::error::{Error, Resource, Result};

/// Bytes that suffice to detect the compression of a stream.
const PROBE: usize = 18;

/// Detects the compression of a stream from its first bytes; 18 are enough.
fn detect_first(first: &[u8]) -> Option<Compression> {
    Compression::ALL.into_iter().find(|&compression| begins(compression, first))
}

/// Detects the compression of a stream. The bytes stay in `input`. Skippable frames are skipped,
/// since zstd and lz4 share them.
pub fn detect(input: &mut Input) -> Result<Option<Compression>> {
    let first = input.peek(PROBE)?;
    if !is_skippable(first) {
        return Ok(detect_first(first));
    }
    let mut at = 0usize;
    while at < MAX_PEEK - PROBE {
        let next = input.peek(at + PROBE)?.get(at..).unwrap_or_default();
        let len = next.get(4..8).and_then(<[u8]>::first_chunk).filter(|_| is_skippable(next));
        let Some(len) = len else {
            // A stream of skippable frames only is empty in either format.
            return Ok(detect_first(next).filter(|next| *next == Compression::Lz4).or(Some(Compression::Zstd)));
        };
        at = at.saturating_add(8).saturating_add(u32::from_le_bytes(*len) as usize);
    }
    Ok(Some(Compression::Zstd))
}

/// Returns whether an error means that bytes of the stream are wrong, so that the decoded content
/// of the member may be wrong. Truncation does not affect the preceding content.
pub fn casts_doubt(error: &Error) -> bool {
    let is_stream = |structure: &str| Compression::ALL.iter().any(|compression| compression.structure() == structure);
    let affects_content = |detail: &str| ![decoder::TRUNCATED, magic::DAMAGED_HEADER].contains(&detail);
    matches!(error, Error::Corrupt { structure, detail, .. } if is_stream(structure) && affects_content(detail))
}

/// Decoded bytes to which no ratio limit applies.
const UNLIMITED_BYTES: u64 = 1 << 30;

/// Checks the ratio of decoded and stored bytes.
///
/// # Errors
///
/// `ResourceLimit` if more than 1 GiB was decoded and the ratio exceeds `limit`.
pub fn check_ratio(decoded: u64, stored: u64, limit: u64) -> Result<()> {
    let found = decoded / stored.max(1);
    if decoded > UNLIMITED_BYTES && found > limit {
        return Err(Error::ResourceLimit { resource: Resource::Ratio, found, limit });
    }
    Ok(())
}

/// Returns the compression of a stream and its decoded content. `threads`, `memory_bytes`: as for
/// [`Decoder::with_threads`].
pub fn decode(
    mut input: Input,
    threads: NonZero<usize>,
    memory_bytes: u64,
) -> Result<(Option<Compression>, Box<dyn ByteStream>)> {
    Ok(match detect(&mut input)? {
        Some(compression) => (Some(compression), Box::new(Decoder::new(compression, input).with_threads(threads, memory_bytes))),
        None => (None, Box::new(input)),
    })
}
