//! The first bytes of members.

use super::{Compression, legacy};

/// Error detail of trailing data that resembles the header of a member.
pub(super) const DAMAGED_HEADER: &str = "another member seems to start here, but its header is damaged";
/// Matching bytes that make data resemble a member: one in 100,000 other files has as many.
const MIN_MATCHING: usize = 3;

/// The first bytes of a member: a mask and the masked value of each.
type Magic = Vec<(u8, u8)>;

/// Returns whether `first` is the start of a member of this compression.
pub fn begins(compression: Compression, first: &[u8]) -> bool {
    match compression {
        Compression::Lzma => is_lzma(first),
        // Streams that start with a skippable frame are zstd unless an lz4 frame follows.
        Compression::Lz4 if is_skippable(first) => false,
        Compression::Bzip2 if !first.get(3).is_some_and(|level| (b'1'..=b'9').contains(level)) => false,
        _ => magics(compression).iter().any(|magic| first.len() >= magic.len() && matching(magic, first) == magic.len()),
    }
}

/// Returns whether bytes that are not the start of a member are a damaged or truncated start.
pub(super) fn resembles_member(compression: Compression, first: &[u8]) -> bool {
    magics(compression).iter().any(|magic| {
        let matching = matching(magic, first);
        let is_truncated = first.len() < magic.len() && matching == first.len() && matching > 0;
        is_truncated || matching >= MIN_MATCHING
    })
}

fn matching(magic: &Magic, first: &[u8]) -> usize {
    magic.iter().zip(first).filter(|((mask, value), byte)| *byte & mask == *value).count()
}

/// Returns the possible first bytes of members; none for lzma, which has no magic.
fn magics(compression: Compression) -> Vec<Magic> {
    let exactly = |bytes: &[u8]| bytes.iter().map(|&byte| (0xff, byte)).collect();
    let skippable = || vec![(0xf0, 0x50), (0xff, 0x2a), (0xff, 0x4d), (0xff, 0x18)];
    match compression {
        // The method is always 8; the upper flag bits are reserved.
        Compression::Gzip => vec![vec![(0xff, 0x1f), (0xff, 0x8b), (0xff, 8), (0xe0, 0)]],
        Compression::Zstd => vec![exactly(&[0x28, 0xb5, 0x2f, 0xfd]), skippable()],
        Compression::Xz => vec![exactly(b"\xfd7zXZ\0")],
        // The level is a digit. The magic of a block or of the end follows.
        Compression::Bzip2 => [b"BZh11AY&SY", b"BZh1\x17\x72\x45\x38\x50\x90"]
            .map(|bytes| {
                let mut magic: Magic = exactly(bytes);
                magic[3] = (0xf0, b'0');
                magic
            })
            .into(),
        Compression::Lz4 => vec![exactly(&[0x04, 0x22, 0x4d, 0x18]), exactly(&legacy::MAGIC), skippable()],
        Compression::Lzma => Vec::new(),
    }
}

/// Returns whether `first` is the start of a skippable frame, which zstd and lz4 share.
pub fn is_skippable(first: &[u8]) -> bool {
    first.len() >= 4 && first[0] & 0xf0 == 0x50 && first[1..4] == [0x2a, 0x4d, 0x18]
}

/// Returns whether `first` looks like lzma, which has no magic: the usual properties, a dictionary
/// length that encoders use, and a plausible length.
fn is_lzma(first: &[u8]) -> bool {
    let Some((&0x5d, rest)) = first.split_first() else { return false };
    let (Some(dictionary), Some(length)) = (rest.first_chunk(), rest.get(4..).and_then(<[u8]>::first_chunk)) else {
        return false;
    };
    let (dictionary, length) = (u32::from_le_bytes(*dictionary), u64::from_le_bytes(*length));
    let usual = dictionary.is_power_of_two() || (dictionary / 3).is_power_of_two() && dictionary.is_multiple_of(3);
    usual && dictionary >= 4096 && (length == u64::MAX || length < 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_truncated_magics_are_distinguished_from_other_data() {
        for (compression, magic) in [
            (Compression::Gzip, &[0x1f, 0x8b, 8, 0][..]),
            (Compression::Zstd, &[0x28, 0xb5, 0x2f, 0xfd]),
            (Compression::Xz, b"\xfd7zXZ\0"),
            (Compression::Bzip2, b"BZh51AY&SY"),
            (Compression::Lz4, &[0x04, 0x22, 0x4d, 0x18]),
        ] {
            assert!(begins(compression, &[magic, b"more"].concat()) && !begins(compression, &magic[1..]), "{compression:?}");
            for bit in 0..magic.len() * 8 {
                let mut damaged = [magic, b"more"].concat();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(begins(compression, &damaged) || resembles_member(compression, &damaged), "{compression:?} {bit}");
            }
            for len in 1..3 {
                assert!(resembles_member(compression, &magic[..len]), "{compression:?} truncated at {len}");
            }
            for other in [&b"\n"[..], b"junk", b"some text that follows", &[0xff; 18], b""] {
                assert!(!begins(compression, other) && !resembles_member(compression, other), "{compression:?} {other:?}");
            }
        }
    }
}
