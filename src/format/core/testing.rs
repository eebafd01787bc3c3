//! What unit tests of more than one module need.

/// Returns bytes that no codec shrinks, the same for the same seed; a shorter result is the beginning of a longer one.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
