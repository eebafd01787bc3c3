//! What stands behind a member and was meant as a further one: its head is broken, or cut.

use super::{Compression, legacy};

/// What is wrong with such bytes.
pub(super) const BROKEN_HEAD: &str = "another member seems to begin here, but its head is broken";
/// Bytes of a head that have to be right for it to be that of a member: of other content one in 100,000 has as many there.
const ENOUGH: usize = 3;

/// The first bytes of a member: which bits count, and what they are.
type Head = Vec<(u8, u8)>;

/// Says whether these bytes, with which no member begins, are the head of one that is broken, or cut (when they are all there are).
pub(super) fn nearly_begins(compression: Compression, first: &[u8]) -> bool {
    heads(compression).iter().any(|head| {
        let found = head.iter().zip(first).filter(|((mask, value), byte)| *byte & mask == *value).count();
        let is_cut = first.len() < head.len() && found == first.len() && found > 0;
        is_cut || found >= ENOUGH
    })
}

/// Returns what members begin with; nothing for lzma, which has only what is plausible.
fn heads(compression: Compression) -> Vec<Head> {
    let exactly = |bytes: &[u8]| bytes.iter().map(|&byte| (0xff, byte)).collect();
    let skippable = || vec![(0xf0, 0x50), (0xff, 0x2a), (0xff, 0x4d), (0xff, 0x18)];
    match compression {
        // The method is always 8; the upper flag bits are reserved.
        Compression::Gzip => vec![vec![(0xff, 0x1f), (0xff, 0x8b), (0xff, 8), (0xe0, 0)]],
        Compression::Zstd => vec![exactly(&[0x28, 0xb5, 0x2f, 0xfd]), skippable()],
        Compression::Xz => vec![exactly(b"\xfd7zXZ\0")],
        // Behind the level stands the magic of a block or of the end.
        Compression::Bzip2 => vec![exactly(b"BZh91AY&SY"), exactly(b"BZh9\x17\x72\x45\x38\x50\x90")],
        Compression::Lz4 => vec![exactly(&[0x04, 0x22, 0x4d, 0x18]), exactly(&legacy::MAGIC), skippable()],
        Compression::Lzma => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::begins;

    #[test]
    fn heads_that_are_broken_or_cut_are_told_from_junk() {
        for (compression, head) in [
            (Compression::Gzip, &[0x1f, 0x8b, 8, 0][..]),
            (Compression::Zstd, &[0x28, 0xb5, 0x2f, 0xfd]),
            (Compression::Xz, b"\xfd7zXZ\0"),
            (Compression::Bzip2, b"BZh51AY&SY"),
            (Compression::Lz4, &[0x04, 0x22, 0x4d, 0x18]),
        ] {
            for bit in 0..head.len() * 8 {
                let mut broken = [head, b"what follows"].concat();
                broken[bit / 8] ^= 1 << (bit % 8);
                assert!(begins(compression, &broken) || nearly_begins(compression, &broken), "{compression:?} {bit}");
            }
            for len in 1..3 {
                assert!(nearly_begins(compression, &head[..len]), "{compression:?} cut at {len}");
            }
            for junk in [&b"\n"[..], b"junk", b"some text that follows", &[0xff; 18], b""] {
                assert!(!begins(compression, junk) && !nearly_begins(compression, junk), "{compression:?} {junk:?}");
            }
        }
    }
}
