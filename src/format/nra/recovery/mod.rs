//! Recovery data, from which the exact bytes of a damaged archive are restored.
//!
//! Recovery data follows the footer of the archive, and a copy of the footer follows the recovery
//! data. It protects bytes regardless of their meaning, so it needs no key, and a reader that does
//! not use it sees the same archive. [`protect`] writes it. [`check`] reports what is damaged and
//! whether it can be restored. [`restore`] writes a restored copy.
//!
//! Memory is that of one group with its parity shards, whatever the length of the archive. A writer
//! uses at most 256 MiB and chooses shorter groups if less is allowed. Restoring needs what the
//! groups need (`RecoveryHeader::restoring_bytes`, less than 1 GiB at the limits of the format),
//! and fails if that exceeds the allowed memory.
//!
//! Spec: nra.md, section 19.

mod backup;
mod check;
mod find;
mod frames;
mod group;
mod header;
mod protect;
mod restore;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use backup::RecoveryBackup;
pub use check::{Report, check};
pub(crate) use find::{End, find_at, read_end, stray_footer};
pub use find::{find_at_end, find_current};
pub use header::{RECOVERY_HEADER_LEN, RecoveryHeader};
pub use protect::{plan, protect};
pub use restore::restore;
