//! Digests: the identity of content.

use std::fmt;

/// Length of a digest, bytes. Finding a collision takes about 2^96 attempts. Each further byte would cost a byte for every small file.
pub const DIGEST_LEN: usize = 24;

/// The first 24 bytes of BLAKE3 of raw bytes: what `b3sum --length 24` prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; DIGEST_LEN]);

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        let mut digest = [0; DIGEST_LEN];
        digest.copy_from_slice(&hash.as_bytes()[..DIGEST_LEN]);
        Self(digest)
    }
}

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        blake3::hash(bytes).into()
    }

    /// Returns the first 5 bytes as a big-endian number: the key of chunk runs (nra.md, section 11).
    pub fn key(&self) -> u64 {
        self.0[..5].iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
