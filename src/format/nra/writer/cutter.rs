//! Cuts a run of compressible content into blocks and compresses them; the work of one worker on one run.
//!
//! Where a block ends depends on the run and the policy alone.

use std::ops::Range;

use crate::writer::options::BlockPolicy;
use crate::writer::run::aligned;
use crate::writer::workers::Bench;
use nra_core::checksum::content_checksum;
use nra_core::codec::{Codec, Dictionary, Method, StreamCompressor};
use nra_core::error::Result;

/// Longest block of raw content, bytes; a single piece may be longer (spec section 7.1).
pub(super) const MAX_RAW_BLOCK: usize = 1 << 20;
/// A zstd frame grows in steps of this many raw bytes, so blocks that are shorter are compressed at once.
const STREAM_MIN: u32 = 128 << 10;
/// How much a block that is compressed at once grows when it turns out to be cheap to read.
const GROWTH: usize = 4;
/// Raw bytes after which content that shrinks this much ...
const THOROUGH_PROBE: usize = 512 << 10;
/// ... is compressed again with the thorough mode, in longer blocks.
const THOROUGH_RATIO: usize = 16;

/// How runs are cut; the same for all runs of an archive but for the dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct CutPolicy {
    pub method: Method,
    pub block: BlockPolicy,
    pub align: u32,
}

/// A block that was cut from a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutBlock {
    /// Pieces, the next ones of the run.
    pub pieces: usize,
    pub codec: Codec,
    pub raw_len: usize,
    /// Where the stored payload is in [`Cut::stored`].
    pub stored: Range<usize>,
    /// Content checksums of the pieces when the block is not compressed, else empty.
    pub checksums: Vec<u32>,
}

/// A run that was cut.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub stored: Vec<u8>,
    pub blocks: Vec<CutBlock>,
}

/// Cuts `bytes`, which is the pieces of the lengths `lens` one behind the other.
pub(super) fn cut(
    bench: &mut Bench,
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
        let (pieces, raw_len) = if stream {
            grow(bench.stream(policy.method.level)?, policy.block, &mut thorough, rest, lens, &mut cut.stored)?
        } else {
            at_once(bench, policy, dictionary, rest, lens, &mut cut.stored)?
        };
        let (block, next) = rest.split_at(raw_len);
        let (block_lens, next_lens) = lens.split_at(pieces);
        let stored = start..cut.stored.len();
        if stored.len() * 100 >= raw_len * 98 {
            // Not worth decompressing, and raw content is read entry by entry.
            cut.stored.truncate(start);
            store_raw(&mut cut, policy.align, block, block_lens);
        } else {
            cut.blocks.push(CutBlock { pieces, codec: policy.method.codec, raw_len, stored, checksums: Vec::new() });
        }
        (rest, lens) = (next, next_lens);
    }
    Ok(cut)
}

/// Compresses pieces until the frame is as long as it may be; returns how many pieces and raw bytes that were.
fn grow(
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
        let (mut pieces, mut raw) = (0, 0);
        for &len in lens {
            let end = raw + len as usize;
            if pieces > 0 && end > max {
                break;
            }
            stream.push(&bytes[raw..end], out)?;
            (pieces, raw) = (pieces + 1, end);
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
        return Ok((pieces, raw));
    }
}

/// Compresses about as many bytes as the policy says at once, more if they shrink to very little.
fn at_once(
    bench: &mut Bench,
    policy: CutPolicy,
    dictionary: Option<&Dictionary>,
    bytes: &[u8],
    lens: &[u32],
    out: &mut Vec<u8>,
) -> Result<(usize, usize)> {
    let compressor = bench.blocks(policy.method)?;
    let (mut goal, max) = (policy.block.min_raw_bytes as usize, policy.block.max_raw_bytes as usize);
    let mut stored = Vec::new();
    loop {
        let (mut pieces, mut raw) = (0, 0);
        for &len in lens {
            let end = raw + len as usize;
            if pieces > 0 && end > goal {
                break;
            }
            (pieces, raw) = (pieces + 1, end);
        }
        compressor.compress(&bytes[..raw], dictionary, &mut stored)?;
        if goal >= max || pieces == lens.len() || stored.len() > policy.block.stored_bytes as usize {
            out.extend_from_slice(&stored);
            return Ok((pieces, raw));
        }
        goal = (goal * GROWTH).min(max);
    }
}

/// Lays pieces out as blocks of raw content.
fn store_raw(cut: &mut Cut, align: u32, bytes: &[u8], lens: &[u32]) {
    let mut at = 0;
    let mut open: Option<CutBlock> = None;
    for &len in lens {
        let piece = &bytes[at..at + len as usize];
        at += piece.len();
        if let Some(block) = open.take_if(|block| aligned(block.raw_len, align) + piece.len() > MAX_RAW_BLOCK) {
            cut.blocks.push(block);
        }
        let start = cut.stored.len();
        let block = open.get_or_insert_with(|| CutBlock {
            pieces: 0,
            codec: Codec::None,
            raw_len: 0,
            stored: start..start,
            checksums: Vec::new(),
        });
        cut.stored.resize(block.stored.start + aligned(block.raw_len, align), 0);
        cut.stored.extend_from_slice(piece);
        block.stored.end = cut.stored.len();
        block.raw_len = block.stored.len();
        block.pieces += 1;
        block.checksums.push(content_checksum(piece));
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

    /// Decompresses all blocks and checks that they are the run.
    fn check(cut: &Cut, bytes: &[u8], lens: &[u32]) {
        let mut whole = Vec::new();
        for block in &cut.blocks {
            let stored = &cut.stored[block.stored.clone()];
            whole.extend(decompress(block.codec, stored, block.raw_len, None).unwrap());
            assert_eq!(block.checksums.len(), if block.codec == Codec::None { block.pieces } else { 0 });
        }
        assert!(whole == bytes);
        assert_eq!(cut.blocks.iter().map(|block| block.pieces).sum::<usize>(), lens.len());
    }

    #[test]
    fn blocks_end_by_what_they_cost() {
        let long =
            BlockPolicy { min_raw_bytes: 256 << 10, max_raw_bytes: 4 << 20, stored_bytes: 192 << 10, max_cheap_bytes: 16 << 20 };
        let mut bench = Bench::default();
        // Noise that shrinks by half: as hex digits.
        let half: Vec<u8> = noise(1 << 20, 1).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
        let lens = vec![4096; half.len() / 4096];
        let cut_half = cut(&mut bench, policy(long, Method::zstd(3)), None, &half, &lens).unwrap();
        check(&cut_half, &half, &lens);
        assert!(cut_half.blocks.iter().rev().skip(1).all(|block| (384 << 10..768 << 10).contains(&block.raw_len)));
        // Zeros cost nothing: one block.
        let zeros = vec![0; 8 << 20];
        let lens = vec![1 << 16; 128];
        let cut_zeros = cut(&mut bench, policy(long, Method::zstd(3)), None, &zeros, &lens).unwrap();
        check(&cut_zeros, &zeros, &lens);
        assert_eq!(cut_zeros.blocks.len(), 1);
        // What was not told to be incompressible is found to be so.
        let noise = noise(3 << 20, 1);
        let lens = vec![3 << 10; 1 << 10];
        let cut_noise = cut(&mut bench, policy(long, Method::zstd(3)), None, &noise, &lens).unwrap();
        check(&cut_noise, &noise, &lens);
        assert!(cut_noise.blocks.iter().all(|block| block.codec == Codec::None && block.raw_len <= MAX_RAW_BLOCK));
    }

    #[test]
    fn small_blocks_grow_when_they_are_cheap() {
        let random =
            BlockPolicy { min_raw_bytes: 64 << 10, max_raw_bytes: 256 << 10, stored_bytes: 8 << 10, max_cheap_bytes: 16 << 20 };
        let text: Vec<u8> = (0..200_000u32).flat_map(|i| format!("line {}\n", i % 977).into_bytes()).collect();
        let lens: Vec<u32> = text.chunks(3_000).map(|piece| piece.len() as u32).collect();
        for method in [Method::zstd(3), Method::LZ4] {
            let cut = cut(&mut Bench::default(), policy(random, method), None, &text, &lens).unwrap();
            check(&cut, &text, &lens);
            assert!(cut.blocks.iter().any(|block| block.raw_len > 128 << 10));
        }
    }

    #[test]
    fn raw_blocks_keep_the_alignment() {
        let bytes = noise(100_000, 1);
        let lens = [1, 40_000, 59_999];
        let mut cut = Cut::default();
        store_raw(&mut cut, 64, &bytes, &lens);
        assert_eq!(cut.blocks.len(), 1);
        assert_eq!(cut.stored.len(), 64 + 40_000 + 59_999);
        assert_eq!(cut.stored[64..], bytes[1..]);
    }
}
