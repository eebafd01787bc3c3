//! Cutting a buffer of compressible chunks into compressed blocks; the job of one worker.
//!
//! Where a block ends depends only on the buffer and the policy.

use std::ops::Range;

use crate::writer::chunk_buffer::aligned;
use crate::writer::compressors::Compressors;
use crate::writer::options::BlockPolicy;
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary, Method, StreamCompressor};
use nra_core::error::Result;

/// Longest block of uncompressed content, bytes. A single chunk may be longer (section 7.1).
pub(super) const MAX_UNCOMPRESSED_BLOCK: usize = 1 << 20;
/// A streaming zstd frame grows in steps of this many raw bytes. Shorter blocks are compressed at
/// once.
const STREAM_MIN: u32 = 128 << 10;
/// Growth factor of a block that is compressed at once and turns out to be cheap to read.
const GROWTH: usize = 4;
/// Raw bytes after which the ratio is tested.
const THOROUGH_PROBE: usize = 512 << 10;
/// Ratio at which content is compressed again in thorough mode, with longer blocks.
const THOROUGH_RATIO: usize = 16;

/// How buffers are cut. All buffers of an archive use the same policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutPolicy {
    pub method: Method,
    pub block: BlockPolicy,
    pub align: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutBlock {
    /// Number of chunks, which follow those of the preceding block.
    pub chunks: usize,
    pub codec: Codec,
    pub raw_len: usize,
    /// Range of the stored payload in [`Cut::stored`].
    pub stored: Range<usize>,
    /// Content checksums of the chunks of an uncompressed block, otherwise empty.
    pub checksums: Vec<u32>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub stored: Vec<u8>,
    pub blocks: Vec<CutBlock>,
}

/// Cuts `bytes`, the concatenation of chunks with the lengths `lens`.
pub(super) fn cut(
    compressors: &mut Compressors,
    policy: CutPolicy,
    dictionary: Option<&Dictionary>,
    bytes: &[u8],
    lens: &[u32],
) -> Result<Cut> {
    let mut cut = Cut { stored: Vec::with_capacity(bytes.len() / 4 + (64 << 10)), blocks: Vec::new() };
    let stream = policy.method.codec == Codec::Zstd && dictionary.is_none() && policy.block.min_raw_bytes >= STREAM_MIN;
    let (mut rest, mut lens) = (bytes, lens);
    let mut thorough = false;
    while !lens.is_empty() {
        let start = cut.stored.len();
        let (chunks, raw_len) = if stream {
            compress_streaming(
                compressors.stream(policy.method.level)?,
                policy.block,
                &mut thorough,
                rest,
                lens,
                &mut cut.stored,
            )?
        } else {
            compress_at_once(compressors, policy, dictionary, rest, lens, &mut cut.stored)?
        };
        let (block, next) = rest.split_at(raw_len);
        let (block_lens, next_lens) = lens.split_at(chunks);
        let stored = start..cut.stored.len();
        if stored.len() * 100 >= raw_len * 98 {
            // Not worth decompressing. Entries of uncompressed blocks can also be read alone.
            cut.stored.truncate(start);
            store_uncompressed(&mut cut, policy.align, block, block_lens);
        } else {
            cut.blocks.push(CutBlock { chunks, codec: policy.method.codec, raw_len, stored, checksums: Vec::new() });
        }
        (rest, lens) = (next, next_lens);
    }
    Ok(cut)
}

/// Compresses chunks until the frame is long enough. Returns the number of chunks and raw bytes.
fn compress_streaming(
    stream: &mut StreamCompressor,
    policy: BlockPolicy,
    thorough: &mut bool,
    bytes: &[u8],
    lens: &[u32],
    out: &mut Vec<u8>,
) -> Result<(usize, usize)> {
    let start = out.len();
    'again: loop {
        stream.begin(*thorough)?;
        let max = if *thorough { policy.max_cheap_bytes } else { policy.max_raw_bytes } as usize;
        let (mut chunks, mut raw) = (0, 0);
        for &len in lens {
            let end = raw + len as usize;
            if chunks > 0 && end > max {
                break;
            }
            stream.push(&bytes[raw..end], out)?;
            (chunks, raw) = (chunks + 1, end);
            let stored = out.len() - start;
            if !*thorough && raw >= THOROUGH_PROBE && stored * THOROUGH_RATIO <= raw {
                *thorough = true;
                out.truncate(start);
                continue 'again;
            }
            if stored >= policy.stored_bytes as usize && raw >= policy.min_raw_bytes as usize {
                break;
            }
        }
        stream.finish(out)?;
        *thorough = (out.len() - start) * THOROUGH_RATIO <= raw;
        return Ok((chunks, raw));
    }
}

/// Compresses about as many bytes as the policy says at once, or more if they compress very well.
fn compress_at_once(
    compressors: &mut Compressors,
    policy: CutPolicy,
    dictionary: Option<&Dictionary>,
    bytes: &[u8],
    lens: &[u32],
    out: &mut Vec<u8>,
) -> Result<(usize, usize)> {
    let compressor = compressors.blocks(policy.method)?;
    let (mut goal, max) = (policy.block.min_raw_bytes as usize, policy.block.max_raw_bytes as usize);
    let mut stored = Vec::new();
    loop {
        let (mut chunks, mut raw) = (0, 0);
        for &len in lens {
            let end = raw + len as usize;
            if chunks > 0 && end > goal {
                break;
            }
            (chunks, raw) = (chunks + 1, end);
        }
        compressor.compress(&bytes[..raw], dictionary, &mut stored)?;
        if goal >= max || chunks == lens.len() || stored.len() > policy.block.stored_bytes as usize {
            out.extend_from_slice(&stored);
            return Ok((chunks, raw));
        }
        goal = (goal * GROWTH).min(max);
    }
}

/// Arranges chunks in uncompressed blocks.
fn store_uncompressed(cut: &mut Cut, align: u32, bytes: &[u8], lens: &[u32]) {
    let mut at = 0;
    let mut open: Option<CutBlock> = None;
    for &len in lens {
        let chunk = &bytes[at..at + len as usize];
        at += chunk.len();
        if let Some(block) = open.take_if(|block| aligned(block.raw_len, align) + chunk.len() > MAX_UNCOMPRESSED_BLOCK) {
            cut.blocks.push(block);
        }
        let start = cut.stored.len();
        let block = open.get_or_insert_with(|| CutBlock {
            chunks: 0,
            codec: Codec::None,
            raw_len: 0,
            stored: start..start,
            checksums: Vec::new(),
        });
        cut.stored.resize(block.stored.start + aligned(block.raw_len, align), 0);
        cut.stored.extend_from_slice(chunk);
        block.stored.end = cut.stored.len();
        block.raw_len = block.stored.len();
        block.chunks += 1;
        block.checksums.push(content_checksum(chunk));
    }
    cut.blocks.extend(open);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::codec::decompress;
    use nra_core::testing::noise;

    fn policy(block: BlockPolicy, method: Method) -> CutPolicy {
        CutPolicy { method, block, align: 0 }
    }

    /// Decompresses all blocks and compares them with the buffer.
    fn check(cut: &Cut, bytes: &[u8], lens: &[u32]) {
        let mut whole = Vec::new();
        for block in &cut.blocks {
            let stored = &cut.stored[block.stored.clone()];
            whole.extend(decompress(block.codec, stored, block.raw_len, None).unwrap());
            assert_eq!(block.checksums.len(), if block.codec == Codec::None { block.chunks } else { 0 });
        }
        assert!(whole == bytes);
        assert_eq!(cut.blocks.iter().map(|block| block.chunks).sum::<usize>(), lens.len());
    }

    #[test]
    fn block_length_depends_on_read_cost() {
        let long =
            BlockPolicy { min_raw_bytes: 256 << 10, max_raw_bytes: 4 << 20, stored_bytes: 192 << 10, max_cheap_bytes: 16 << 20 };
        let mut compressors = Compressors::default();
        // Noise as hex digits, which compresses to half.
        let half: Vec<u8> = noise(1 << 20, 1).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let lens = vec![4096; half.len() / 4096];
        let cut_half = cut(&mut compressors, policy(long, Method::zstd(3)), None, &half, &lens).unwrap();
        check(&cut_half, &half, &lens);
        assert!(cut_half.blocks.iter().rev().skip(1).all(|block| (384 << 10..768 << 10).contains(&block.raw_len)));
        // Zeros are cheap to read: one block.
        let zeros = vec![0; 8 << 20];
        let lens = vec![1 << 16; 128];
        let cut_zeros = cut(&mut compressors, policy(long, Method::zstd(3)), None, &zeros, &lens).unwrap();
        check(&cut_zeros, &zeros, &lens);
        assert_eq!(cut_zeros.blocks.len(), 1);
        // Incompressible content is detected even if it was not declared.
        let noise = noise(3 << 20, 1);
        let lens = vec![3 << 10; 1 << 10];
        let cut_noise = cut(&mut compressors, policy(long, Method::zstd(3)), None, &noise, &lens).unwrap();
        check(&cut_noise, &noise, &lens);
        assert!(cut_noise.blocks.iter().all(|block| block.codec == Codec::None && block.raw_len <= MAX_UNCOMPRESSED_BLOCK));
    }

    #[test]
    fn small_blocks_grow_while_they_stay_cheap() {
        let random =
            BlockPolicy { min_raw_bytes: 64 << 10, max_raw_bytes: 256 << 10, stored_bytes: 8 << 10, max_cheap_bytes: 16 << 20 };
        let text: Vec<u8> = (0..200_000u32).flat_map(|i| format!("line {}\n", i % 977).into_bytes()).collect();
        let lens: Vec<u32> = text.chunks(3_000).map(|chunk| chunk.len() as u32).collect();
        for method in [Method::zstd(3), Method::LZ4] {
            let cut = cut(&mut Compressors::default(), policy(random, method), None, &text, &lens).unwrap();
            check(&cut, &text, &lens);
            assert!(cut.blocks.iter().any(|block| block.raw_len > 128 << 10));
        }
    }

    #[test]
    fn uncompressed_chunks_are_aligned() {
        let bytes = noise(100_000, 1);
        let lens = [1, 40_000, 59_999];
        let mut cut = Cut::default();
        store_uncompressed(&mut cut, 64, &bytes, &lens);
        assert_eq!(cut.blocks.len(), 1);
        assert_eq!(cut.stored.len(), 64 + 40_000 + 59_999);
        assert_eq!(cut.stored[64..], bytes[1..]);
    }
}
