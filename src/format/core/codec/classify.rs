//! Detects incompressible content from a sample.
//!
//! The distribution of byte values decides almost every case within a microsecond. If it is
//! inconclusive, a sample is compressed with the fastest zstd level. The thresholds come from
//! measurements on images, compressed files, text, tensors and sound.

use std::cell::RefCell;

use crate::codec::{Compressor, Method};

/// Number of samples.
const SAMPLES: usize = 4;
/// Length of a sample for the distribution, bytes.
const DISTRIBUTION_SAMPLE: usize = 1 << 10;
/// Length of a sample for the trial, bytes.
const TRIAL_SAMPLE: usize = 4 << 10;
/// Shorter content always shares blocks: its distribution is not significant.
const MIN_CONTENT: usize = 256;
/// Collision entropy above which content is incompressible, bits per byte.
const INCOMPRESSIBLE_BITS: f64 = 7.7;
/// Collision entropy below which content is compressible, bits per byte.
const COMPRESSIBLE_BITS: f64 = 6.0;

/// The state of a thread for trials.
struct Trial {
    compressor: Compressor,
    sample: Vec<u8>,
    out: Vec<u8>,
}

thread_local! {
    static TRIAL: RefCell<Option<Trial>> = const { RefCell::new(None) };
}

/// Returns whether `content`, a small file or a chunk of a large one, is incompressible. Depends
/// only on the bytes.
pub fn looks_incompressible(content: &[u8]) -> bool {
    if content.len() < MIN_CONTENT {
        return false;
    }
    let bits = collision_bits(content);
    bits > INCOMPRESSIBLE_BITS || bits > COMPRESSIBLE_BITS && !trial_shrinks(content)
}

/// Returns up to [`SAMPLES`] samples of `len` bytes, distributed over `content`.
fn samples(content: &[u8], len: usize) -> impl Iterator<Item = &[u8]> {
    let whole = content.len() <= SAMPLES * len;
    let (count, len) = if whole { (1, content.len()) } else { (SAMPLES, len) };
    let step = if whole { 0 } else { (content.len() - len) / (SAMPLES - 1) };
    (0..count).map(move |i| &content[i * step..i * step + len])
}

/// Returns the collision entropy: −log2 of the probability that two bytes of the sample are equal.
/// Unlike Shannon entropy, it is accurate for some hundred bytes.
fn collision_bits(content: &[u8]) -> f64 {
    // Four tables, so that equal neighbors do not depend on each other.
    let mut tables = [[0u32; 256]; 4];
    let mut total = 0u64;
    for sample in samples(content, DISTRIBUTION_SAMPLE) {
        total += sample.len() as u64;
        let (quads, rest) = sample.as_chunks::<4>();
        for quad in quads {
            for (table, &byte) in tables.iter_mut().zip(quad) {
                table[usize::from(byte)] += 1;
            }
        }
        for &byte in rest {
            tables[0][usize::from(byte)] += 1;
        }
    }
    let pairs: u64 = (0..256)
        .map(|value| tables.iter().map(|table| u64::from(table[value])).sum::<u64>())
        .map(|count| count * count.saturating_sub(1))
        .sum();
    if pairs == 0 {
        return 8.0;
    }
    ((total * (total - 1)) as f64 / pairs as f64).log2()
}

fn trial_shrinks(content: &[u8]) -> bool {
    TRIAL.with_borrow_mut(|slot| {
        if slot.is_none() {
            let compressor = Compressor::new(Method::zstd(1)).ok();
            *slot = compressor.map(|compressor| Trial { compressor, sample: Vec::new(), out: Vec::new() });
        }
        let Some(Trial { compressor, sample, out }) = slot else { return true };
        sample.clear();
        samples(content, TRIAL_SAMPLE).for_each(|part| sample.extend_from_slice(part));
        // Without memory for a trial, the content is compressed, which reports the error.
        compressor.compress(sample, None, out).map_or(true, |_| out.len() * 100 <= sample.len() * 98)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;

    #[test]
    fn compressed_content_is_distinguished_from_text_and_numbers() {
        for len in [600, 3_000, 40_000, 200_000] {
            assert!(looks_incompressible(&noise(len, 7)), "noise of {len} bytes");
            let mut packed = Vec::new();
            let mut compressor = Compressor::new(Method::zstd(9)).unwrap();
            let hex: String = noise(len, 9).iter().map(|byte| format!("{byte:02x}")).collect();
            compressor.compress(hex.as_bytes(), None, &mut packed).unwrap();
            assert!(looks_incompressible(&packed), "zstd of {len} bytes");
            assert!(!looks_incompressible(hex.as_bytes()), "hex digits of {len} bytes");
            let text: Vec<u8> = b"the quick brown fox jumps over the lazy dog; ".iter().copied().cycle().take(len).collect();
            assert!(!looks_incompressible(&text), "text of {len} bytes");
        }
        // Weights: signs and low bits are noise, exponents vary little.
        let weights: Vec<u8> =
            noise(60_000, 3).as_chunks::<3>().0.iter().flat_map(|&[a, b, c]| [a, b, 0x3c | c & 0x81]).collect();
        let halves: Vec<u8> = weights.as_chunks::<3>().0.iter().flat_map(|&[a, _, c]| [a, c]).collect();
        assert!(!looks_incompressible(&halves), "two-byte floats");
    }

    #[test]
    fn short_content_is_compressible() {
        for content in [&b""[..], b"a", b"0123456789", &[0; 100]] {
            assert!(!looks_incompressible(content), "{content:?}");
        }
        assert!(!looks_incompressible(&[7; 5_000]));
    }
}
