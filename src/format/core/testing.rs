//! Test data for several crates.

/// Returns incompressible bytes that depend only on the seed. A shorter result is the start of a longer one.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}
