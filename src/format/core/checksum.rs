//! Checksums: cheap detection of damage.
//!
//! Spec: nra.md, section 2.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Returns the checksum of a structure that starts at file offset `place`.
pub fn checksum(data: &[u8], place: u64) -> u64 {
    xxh3_64_with_seed(data, place)
}

/// Returns the checksum of the whole content of an uncompressed entry.
pub fn content_checksum(data: &[u8]) -> u32 {
    u32::try_from(xxh3_64(data) & u64::from(u32::MAX)).expect("masked to 32 bits")
}
