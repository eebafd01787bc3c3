//! Compressed streams: gzip, zstd, xz, lzma, bzip2 and lz4, told by their first bytes.
//!
//! A stream is a row of *members* (gzip members, zstd and lz4 frames, xz and bzip2 streams): what follows the last one is
//! either nothing, zero bytes, a further member whose head is broken, which is damage, or junk that is remarked. Checksums are compared, a cut is an error, memory is bounded whatever
//! the stream asks for.

mod ahead;
mod blocks;
mod broken;
mod decoder;
mod encoder;
mod input;
mod legacy;
mod step;
#[cfg(test)]
mod tests;
mod xz;

pub use ahead::Ahead;
pub use blocks::{BLOCK, Blocks};
pub use decoder::{Decoder, Mark};
pub use encoder::{Encoder, Level, thread_bytes};
use input::MAX_PEEK;
pub use input::{ByteStream, Input, ReaderStream, SourceStream};
pub use nra_core::container::Compression;
pub use step::LZMA_MEMORY_KIB;

use std::num::NonZero;

use nra_core::error::{Error, Resource, Result};

/// Bytes that tell the compression of a stream.
const PROBE: usize = 18;

/// Detects the compression of a stream from its first bytes; 18 are enough.
fn detect_first(first: &[u8]) -> Option<Compression> {
    Compression::ALL.into_iter().find(|&compression| begins(compression, first))
}

/// Returns whether `first` is the start of a member of this compression.
pub fn begins(compression: Compression, first: &[u8]) -> bool {
    match compression {
        // The method is always 8; the upper flag bits are reserved.
        Compression::Gzip => first.starts_with(&[0x1f, 0x8b, 8]) && first.get(3).is_some_and(|flags| flags & 0xe0 == 0),
        Compression::Zstd => first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable(first),
        Compression::Xz => first.starts_with(b"\xfd7zXZ\0"),
        Compression::Bzip2 => {
            // The level, then the magic of a block or of the end.
            first.starts_with(b"BZh")
                && first.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
                && [&b"1AY&SY"[..], b"\x17\x72\x45\x38\x50\x90"].iter().any(|magic| first[4..].starts_with(magic))
        }
        Compression::Lz4 => first.starts_with(&[0x04, 0x22, 0x4d, 0x18]) || first.starts_with(&legacy::MAGIC),
        Compression::Lzma => is_lzma(first),
    }
}

/// A frame that zstd and lz4 pass over; both have the same.
pub fn is_skippable(first: &[u8]) -> bool {
    first.len() >= 4 && first[0] & 0xf0 == 0x50 && first[1..4] == [0x2a, 0x4d, 0x18]
}

/// Tells a stream by its first bytes, which stay in `input`. Behind frames that two of them pass over stands one that tells.
///
/// # Errors
///
/// Those of the stream.
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
            // Without another frame it is empty either way.
            return Ok(detect_first(next).filter(|next| *next == Compression::Lz4).or(Some(Compression::Zstd)));
        };
        at = at.saturating_add(8).saturating_add(u32::from_le_bytes(*len) as usize);
    }
    Ok(Some(Compression::Zstd))
}

/// The old form has no magic: the usual properties, a dictionary length that encoders use, a plausible length.
fn is_lzma(first: &[u8]) -> bool {
    let Some((&0x5d, rest)) = first.split_first() else { return false };
    let (Some(dictionary), Some(length)) = (rest.first_chunk(), rest.get(4..).and_then(<[u8]>::first_chunk)) else {
        return false;
    };
    let (dictionary, length) = (u32::from_le_bytes(*dictionary), u64::from_le_bytes(*length));
    let usual = dictionary.is_power_of_two() || (dictionary / 3).is_power_of_two() && dictionary.is_multiple_of(3);
    usual && dictionary >= 4096 && (length == u64::MAX || length < 1 << 40)
}

/// Says whether an error means that a compressed stream has other bytes than it should have, so that what was decoded of its member may be
/// wrong. Where it is only cut, or a further member does not begin, what came before is as good as it was.
pub fn casts_doubt(error: &Error) -> bool {
    let of_stream = |structure: &str| Compression::ALL.iter().any(|compression| compression.structure() == structure);
    matches!(error, Error::Corrupt { structure, detail, .. } if of_stream(structure) && ![decoder::TRUNCATED, broken::BROKEN_HEAD].contains(&detail.as_str()))
}

/// Decoded bytes that are free of the limit on ratios.
const FREE_BYTES: u64 = 1 << 30;

/// Compares what was decoded with what it came from; the first GiB is free.
///
/// # Errors
///
/// `ResourceLimit` when it grew to more than `limit` times its length.
pub fn check_ratio(decoded: u64, stored: u64, limit: u64) -> Result<()> {
    let found = decoded / stored.max(1);
    if decoded > FREE_BYTES && found > limit {
        return Err(Error::ResourceLimit { resource: Resource::Ratio, found, limit });
    }
    Ok(())
}

/// Decodes a stream if it is compressed; returns what it is and its content. `threads`, `memory_bytes`: as for [`Decoder::with_threads`].
///
/// # Errors
///
/// Those of the stream.
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
