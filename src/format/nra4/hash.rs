//! Names of chunks.

/// Name of a chunk: its BLAKE3 in hex, or (in files that no tool of ours wrote) any other text, which then is told by its own digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash {
    pub(super) bytes: [u8; 32],
    /// It is a digest, not that of another text.
    pub(super) named: bool,
}

impl Hash {
    /// What nobody asks for.
    pub(super) const NONE: Self = Self { bytes: [0; 32], named: false };
}

impl From<&str> for Hash {
    fn from(text: &str) -> Self {
        match unhex(text.as_bytes()) {
            Some(bytes) => Self { bytes, named: true },
            None => Self { bytes: *blake3::hash(text.as_bytes()).as_bytes(), named: false },
        }
    }
}

/// Returns the bytes that 64 lower-case hex digits stand for.
fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let text: &[u8; 64] = text.try_into().ok()?;
    let (mut values, mut wrong) = ([0u8; 64], false);
    // Without a way out of the loop and without a table, so that many digits are done at once: a manifest has many thousands of these
    // texts, and hardly ever another one.
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
    fn names_of_chunks_are_digests_or_text() {
        let digest = blake3::hash(b"x");
        assert_eq!(Hash::from(digest.to_hex().as_str()), Hash { bytes: *digest.as_bytes(), named: true });
        for other in ["", "one", &digest.to_hex().to_uppercase(), &digest.to_hex()[1..], &format!("{}g", &digest.to_hex()[1..])] {
            assert!(!Hash::from(other).named, "{other}");
        }
    }
}
