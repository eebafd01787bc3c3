//! Decompresses the start of content.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::codec::Codec;

/// Stored bytes that may be needed beyond the requested length: a zstd block and the preceding
/// bytes.
pub const PREFIX_SLACK: usize = (128 << 10) + 64;
/// Largest window of a zstd frame: 64 MiB. Memory is used only as far as content is decoded.
const MAX_WINDOW_LOG: u32 = 26;

/// Decompresses the first `len` bytes of content. `stored` may be truncated, but must contain
/// [`PREFIX_SLACK`] bytes more than the requested length; otherwise the result is shorter.
///
/// Damage after the decompressed part is not detected.
///
/// # Errors
///
/// A detail, if the stored bytes are invalid.
pub fn decompress_prefix(codec: Codec, stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    match codec {
        Codec::None => Ok(stored[..len.min(stored.len())].to_vec()),
        Codec::Zstd => zstd(stored, len),
        Codec::Lz4 => lz4(stored, len),
    }
}

fn zstd(stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let name = |code| format!("zstd: {}", zstd_safe::get_error_name(code));
    let mut context = DCtx::try_create().ok_or("zstd: out of memory")?;
    context.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)).map_err(name)?;
    let mut raw = vec![0; len];
    let mut input = InBuffer::around(stored);
    let mut output = OutBuffer::around(&mut raw[..]);
    loop {
        let before = (input.pos(), output.pos());
        let rest = context.decompress_stream(&mut output, &mut input).map_err(name)?;
        // Another frame after the first one is not part of the content.
        if rest == 0 || (input.pos(), output.pos()) == before {
            break;
        }
    }
    let found = output.pos();
    raw.truncate(found);
    Ok(raw)
}

/// An LZ4 block is a list of sequences: a token, literals, and the distance and length of a match.
fn lz4(stored: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let mut raw = Vec::with_capacity(len);
    let mut rest = stored;
    while let Some((&token, following)) = rest.split_first() {
        rest = following;
        let Some(literals) = lz4_len(usize::from(token >> 4), &mut rest) else { break };
        let (copied, following) = rest.split_at(literals.min(rest.len()));
        raw.extend_from_slice(&copied[..copied.len().min(len - raw.len())]);
        rest = following;
        let Some((distance, following)) = rest.split_first_chunk() else { break };
        rest = following;
        if raw.len() == len {
            break;
        }
        let distance = usize::from(u16::from_le_bytes(*distance));
        let Some(repeated) = lz4_len(usize::from(token & 15), &mut rest) else { break };
        let from = raw.len().checked_sub(distance).filter(|_| distance > 0);
        let from = from.ok_or_else(|| format!("lz4: a match {distance} bytes before byte {}", raw.len()))?;
        for at in from..from + (repeated + 4).min(len - raw.len()) {
            raw.push(raw[at]);
        }
    }
    Ok(raw)
}

/// Reads the rest of a length that starts in a token. Returns `None` at the end of the input.
fn lz4_len(start: usize, rest: &mut &[u8]) -> Option<usize> {
    let mut len = start;
    if start == 15 {
        loop {
            let (&more, following) = rest.split_first()?;
            *rest = following;
            len += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Compressor, Method};

    #[test]
    fn prefix_equals_start_of_content() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|i| format!("{} of {}\n", i % 977, i / 3).into_bytes()).collect();
        for method in [Method::NONE, Method::LZ4, Method::zstd(1), Method::zstd(19)] {
            for content in [&text[..], &[7; 300_000], b"short and short and short and short and short"] {
                let mut stored = Vec::new();
                let codec = Compressor::new(method).unwrap().compress(content, None, &mut stored).unwrap();
                for len in [0, 1, 44, 5_000, 64 << 10] {
                    let some = &stored[..stored.len().min(len + PREFIX_SLACK)];
                    let expected = &content[..len.min(content.len())];
                    assert_eq!(decompress_prefix(codec, some, len).unwrap(), expected, "{codec:?} {len}");
                }
                let whole = decompress_prefix(codec, &stored, content.len() + 10).unwrap();
                assert_eq!(whole, content);
            }
        }
    }

    proptest! {
        #[test]
        fn output_of_arbitrary_bytes_is_limited(stored in proptest::collection::vec(any::<u8>(), 0..300), len in 0usize..3_000) {
            for codec in Codec::ALL {
                if let Ok(raw) = decompress_prefix(codec, &stored, len) {
                    prop_assert!(raw.len() <= len);
                }
            }
        }

        #[test]
        fn lz4_blocks_are_decoded_as_by_the_library(content in proptest::collection::vec(0u8..4, 0..2_000)) {
            let stored = lz4_flex::block::compress(&content);
            prop_assert_eq!(decompress_prefix(Codec::Lz4, &stored, content.len()), Ok(content));
        }
    }
}
