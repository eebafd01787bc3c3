//! Containers of other programs, behind the reading face of all archives.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "cli")]
mod faults;
#[cfg(feature = "cli")]
mod native;
mod sevenz;
mod written;
mod zip;

use std::sync::Arc;

use nra::format::archive::{Archive, OpenOptions, open};
use nra::format::source::MemorySource;

fn archive(bytes: &[u8]) -> nra::format::Result<Box<dyn Archive>> {
    open(Arc::new(MemorySource::new(bytes.to_vec())), &OpenOptions::default())
}

/// Reads everything and returns how many entries gave their content; nothing may panic, and nothing may be longer than it says.
fn read_what_reads(bytes: &[u8]) -> Option<usize> {
    let archive = archive(bytes).ok()?;
    let entries: Vec<_> = archive.entries(0..archive.entry_count()).filter_map(Result::ok).collect();
    Some(
        entries
            .iter()
            .filter(|entry| archive.read_all(entry, 1 << 20).is_ok_and(|content| content.len() as u64 == entry.size))
            .count(),
    )
}
