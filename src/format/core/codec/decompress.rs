//! Decompression of untrusted input to a known length.

use std::cell::RefCell;

use lz4_flex::block::DecompressError;
use zstd_safe::DCtx;

use crate::codec::{Codec, Dictionary};
use crate::limits::MAX_BLOCK_RAW;

thread_local! {
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses `stored` to exactly `raw_len` bytes, and rejects any other length. Contexts are
/// kept per thread.
///
/// At most `raw_len` bytes are allocated. The caller checks that length against the limit of the
/// structure.
///
/// # Errors
///
/// A detail on what was expected and found. The caller adds structure and offset.
pub fn decompress(
    codec: Codec,
    stored: &[u8],
    raw_len: usize,
    dictionary: Option<&Dictionary>,
) -> std::result::Result<Vec<u8>, String> {
    if raw_len == 0 && codec != Codec::None {
        return Err(format!("empty content is compressed with codec {}", codec.name()));
    }
    if dictionary.is_some() && codec != Codec::Zstd {
        return Err(format!("codec {} with a dictionary", codec.name()));
    }
    let raw = match codec {
        Codec::None => {
            // Compared before copying: a payload of the wrong length needs no memory.
            if stored.len() != raw_len {
                return Err(wrong_length(raw_len, stored.len()));
            }
            return Ok(stored.to_vec());
        }
        Codec::Zstd => zstd(stored, raw_len, dictionary)?,
        Codec::Lz4 => {
            let mut raw = vec![0; raw_len];
            let len = lz4_flex::block::decompress_into(stored, &mut raw).map_err(|error| match error {
                DecompressError::OutputTooSmall { .. } => too_much(raw_len),
                other => format!("lz4: {other}"),
            })?;
            raw.truncate(len);
            raw
        }
    };
    if raw.len() != raw_len { Err(wrong_length(raw_len, raw.len())) } else { Ok(raw) }
}

fn zstd(stored: &[u8], raw_len: usize, dictionary: Option<&Dictionary>) -> Result<Vec<u8>, String> {
    // The library accepts several frames and skippable frames. The format has exactly one regular
    // frame.
    if !stored.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes()) {
        return Err("not a zstd frame".into());
    }
    let frame_len = zstd_safe::find_frame_compressed_size(stored).map_err(name)?;
    if frame_len != stored.len() {
        return Err(format!("{} bytes follow the zstd frame", stored.len() - frame_len));
    }
    check_window(stored)?;
    let mut raw = Vec::with_capacity(raw_len);
    CONTEXT.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = DCtx::try_create();
        }
        let context = slot.as_mut().ok_or("zstd: out of memory")?;
        match dictionary {
            None => context.decompress(&mut raw, stored),
            Some(dictionary) => context.decompress_using_ddict(&mut raw, stored, dictionary.prepared()),
        }
        .map_err(|code| match name(code) {
            // The library has no constant for this error.
            text if text.contains("buffer is too small") => too_much(raw_len),
            text => text,
        })
    })?;
    Ok(raw)
}

/// Rejects a frame with a window longer than any block, which other readers may have to allocate.
fn check_window(stored: &[u8]) -> Result<(), String> {
    // RFC 8878, section 3.1.1.1: magic number, descriptor, and the window unless the content is a
    // single segment.
    let [descriptor, window, ..] = stored[4..] else { return Err("zstd: truncated".into()) };
    if descriptor & 0x20 != 0 {
        return Ok(());
    }
    let base = 1u64 << (10 + (window >> 3));
    let len = base + base / 8 * u64::from(window & 7);
    if len > MAX_BLOCK_RAW.into() { Err(format!("zstd: a window of {len} bytes exceeds {MAX_BLOCK_RAW}")) } else { Ok(()) }
}

fn name(code: zstd_safe::ErrorCode) -> String {
    format!("zstd: {}", zstd_safe::get_error_name(code))
}

fn too_much(expected: usize) -> String {
    format!("{expected} raw bytes expected, more found")
}

fn wrong_length(expected: usize, found: usize) -> String {
    format!("{expected} raw bytes expected, {found} found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Compressor, Method};
    use proptest::prelude::*;

    fn text(len: usize) -> Vec<u8> {
        (0..).flat_map(|i: u32| format!("line {} of {}\n", i, i.wrapping_mul(7919) % 1000).into_bytes()).take(len).collect()
    }

    fn compressed(method: Method, raw: &[u8]) -> (Codec, Vec<u8>) {
        let mut stored = Vec::new();
        let codec = Compressor::new(method).unwrap().compress(raw, None, &mut stored).unwrap();
        (codec, stored)
    }

    #[test]
    fn content_round_trips() {
        for method in [Method::NONE, Method::LZ4, Method::zstd(1), Method::zstd(-5), Method::zstd(19)] {
            for len in [0, 1, 100, 10_000, 300_000] {
                let raw = text(len);
                let (codec, stored) = compressed(method, &raw);
                assert_eq!(decompress(codec, &stored, len, None), Ok(raw));
                assert!(stored.len() <= len);
                assert_eq!(codec == Codec::None, stored.len() == len);
            }
        }
    }

    #[test]
    fn wrong_lengths_and_trailing_bytes_are_rejected() {
        let raw = text(5_000);
        for method in [Method::NONE, Method::LZ4, Method::zstd(3)] {
            let (codec, stored) = compressed(method, &raw);
            for len in [0, 1, 4_999, 5_001, 1 << 20] {
                assert!(decompress(codec, &stored, len, None).is_err(), "{codec:?} {len}");
            }
            for extra in [&[0][..], &stored, &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]] {
                let longer = [&stored[..], extra].concat();
                assert!(decompress(codec, &longer, 5_000, None).is_err(), "{codec:?} {extra:?}");
                assert!(decompress(codec, &longer, 10_000, None).is_err() || codec == Codec::None);
            }
            assert!(decompress(codec, &stored[..stored.len() - 1], 5_000, None).is_err());
        }
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
        assert!(decompress(Codec::Zstd, &skippable, 0, None).is_err());
    }

    #[test]
    fn compressor_is_not_affected_by_previous_content() {
        let mut used = Compressor::new(Method::zstd(5)).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        used.compress(&text(200_000), None, &mut first).unwrap();
        for len in [50, 5_000, 100_000] {
            used.compress(&text(len), None, &mut first).unwrap();
            Compressor::new(Method::zstd(5)).unwrap().compress(&text(len), None, &mut second).unwrap();
            assert_eq!(first, second);
        }
    }

    #[test]
    fn invalid_levels_are_rejected() {
        assert!(Compressor::new(Method::zstd(23)).is_err());
        assert!(Compressor::new(Method::zstd(22)).is_ok());
    }

    #[test]
    fn large_windows_are_rejected() {
        // A raw block of one byte, in a frame with a window of 64 MiB, and in one with a larger
        // window.
        let frame = |window| [0x28, 0xb5, 0x2f, 0xfd, 0, window, 0x09, 0, 0, b'x'];
        assert_eq!(decompress(Codec::Zstd, &frame(0x80), 1, None), Ok(b"x".to_vec()));
        assert!(decompress(Codec::Zstd, &frame(0x81), 1, None).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(stored in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..10_000) {
            for codec in Codec::ALL {
                if let Ok(raw) = decompress(codec, &stored, len, None) {
                    prop_assert_eq!(raw.len(), len);
                }
            }
        }

        #[test]
        fn changed_bytes_never_panic(at: prop::sample::Index, to: u8) {
            let raw = text(2_000);
            for method in [Method::LZ4, Method::zstd(3)] {
                let (codec, mut stored) = compressed(method, &raw);
                let at = at.index(stored.len());
                stored[at] = to;
                if let Ok(raw) = decompress(codec, &stored, 2_000, None) {
                    prop_assert_eq!(raw.len(), 2_000);
                }
            }
        }
    }
}
