//! The hashes that identify chunks.

/// The hash by which recipes refer to a chunk.
///
/// In the manifest it is the BLAKE3 digest in hex. Readers accept any other text, although no release
/// wrote one; such a text is represented by its own digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHash {
    pub(super) bytes: [u8; 32],
    /// The bytes are the digest of the content, not of another text.
    pub(super) is_content_digest: bool,
}

impl ChunkHash {
    /// The hash of a chunk that no recipe can refer to.
    pub(super) const NONE: Self = Self { bytes: [0; 32], is_content_digest: false };
}

impl From<&str> for ChunkHash {
    fn from(text: &str) -> Self {
        match unhex(text.as_bytes()) {
            Some(bytes) => Self { bytes, is_content_digest: true },
            None => Self { bytes: *blake3::hash(text.as_bytes()).as_bytes(), is_content_digest: false },
        }
    }
}

/// Decodes 64 lower-case hex digits.
fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let (mut values, mut wrong) = ([0u8; 64], false);
    // Without an early exit and without a table, so that the compiler vectorises the loop: a manifest
    // has many thousands of hashes, and almost all are valid.
    for (value, &byte) in values.iter_mut().zip(text) {
        let (digit, letter) = (byte.wrapping_sub(b'0'), byte.wrapping_sub(b'a'));
        *value = if digit < 10 { digit } else { letter.wrapping_add(10) };
        wrong |= digit >= 10 && letter >= 6;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(values.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    (!wrong).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_lower_case_hex_digits_are_a_content_digest() {
        let digest = blake3::hash(b"x");
        assert_eq!(ChunkHash::from(digest.to_hex().as_str()), ChunkHash { bytes: *digest.as_bytes(), is_content_digest: true });
        for other in ["", "one", &digest.to_hex().to_uppercase(), &digest.to_hex()[1..], &format!("{}g", &digest.to_hex()[1..])] {
            assert!(!ChunkHash::from(other).is_content_digest, "{other}");
        }
    }
}
