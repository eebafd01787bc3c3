//! Bounds that are checked before anything is allocated.
//!
//! Spec: nra.md, section 20 (bytes unless said otherwise). `tests/spec_tables.rs` compares the two.

use crate::error::{Error, Result};

/// Raw length of a block.
pub const MAX_BLOCK_RAW: u32 = 64 << 20;
/// Raw length of a page or attributes frame.
pub const MAX_PAGE_RAW: u32 = 16 << 20;
/// Length of a block index, and raw length of its body.
pub const MAX_BLOCK_INDEX: u32 = 64 << 20;
/// Length of a dictionary.
pub const MAX_DICTIONARY: u32 = 128 << 10;
/// Length of a commit.
pub const MAX_COMMIT: u32 = 128 << 10;
/// Length of a path.
pub const MAX_PATH: usize = 65_535;
/// Length of a symlink target.
pub const MAX_TARGET: usize = 65_535;
/// Length of an attribute name.
pub const MAX_ATTRIBUTE_NAME: usize = 255;
/// Length of an attribute value.
pub const MAX_ATTRIBUTE_VALUE: usize = 1 << 20;
/// Length of a user or group name.
pub const MAX_OWNER_NAME: usize = 255;
/// Highest level of a page.
pub const MAX_LEVEL: u8 = 15;
/// Chunk runs of a commit (a count).
pub const MAX_RUNS: u32 = 16;
/// Entries of a record list, children of an inner page, chunks of a chunk leaf (a count).
pub const MAX_LIST_ENTRIES: usize = 65_536;
/// Sum of the lengths of the paths of a record list, or of the keys of an inner page.
pub const MAX_LIST_PATHS: usize = 64 << 20;
/// Extents and holes of one extent list (a count).
pub const MAX_LIST_EXTENTS: usize = 1_024;
/// Extents and holes of all extent lists of a record list (a count).
pub const MAX_LIST_SEGMENTS: usize = 4 << 20;
/// Length of the message of a commit.
pub const MAX_MESSAGE: usize = 65_535;
/// Key slots (a count).
pub const MAX_KEY_SLOTS: usize = 16;
/// Length of a keys frame's payload: all slots.
pub const MAX_KEYS: u32 = 64 + 16 * 128;
/// Memory that Argon2 is given, KiB.
pub const MAX_ARGON2_MEMORY: u32 = 1 << 20;
/// Memory times passes of Argon2, KiB.
pub const MAX_ARGON2_WORK: u64 = 4 << 20;
/// Memory times passes of Argon2 for all passwords that are tried to open an archive once, KiB.
pub const MAX_PASSWORD_WORK: u64 = 16 << 20;
/// Lanes of Argon2 (a count).
pub const MAX_ARGON2_LANES: u32 = 16;
/// Length of a recovery frame's payload.
pub const MAX_RECOVERY: u32 = 128 << 20;
/// Zero bytes between header and payload of an aligned block.
pub const MAX_PAD: u32 = 4_095;
/// Offsets, sizes and sums of sizes: 63 bits.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// Checks that `found` does not exceed `limit`.
///
/// # Errors
///
/// `Limit`.
pub fn check(what: &'static str, found: u64, limit: u64) -> Result<()> {
    if found <= limit { Ok(()) } else { Err(Error::Limit { what, found, limit }) }
}

/// Converts a length that must not exceed `limit`.
///
/// # Errors
///
/// `Limit`.
pub fn to_len(what: &'static str, found: u64, limit: u64) -> Result<usize> {
    usize::try_from(found).ok().filter(|_| found <= limit).ok_or(Error::Limit { what, found, limit })
}

/// Converts a number that must not exceed 32 bits.
///
/// # Errors
///
/// `Limit`.
pub fn to_u32(what: &'static str, found: u64) -> Result<u32> {
    u32::try_from(found).map_err(|_| Error::Limit { what, found, limit: u32::MAX.into() })
}
