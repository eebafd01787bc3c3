//! Archives of other formats, read through the interface of all archives.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod crates;
mod faults;
mod native;
mod passes;
mod sevenz;
mod written;
mod zip;

use std::sync::Arc;

use nra::format::archive::{Archive, OpenOptions, open};
use nra::format::entry::{Entry, Kind};
use nra::format::source::MemorySource;

fn archive(bytes: &[u8]) -> nra::format::Result<Box<dyn Archive>> {
    open(Arc::new(MemorySource::new(bytes.to_vec())), &OpenOptions::default())
}

/// Returns the contents of all readable files and symlinks. Checks their lengths.
fn readable_contents(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let archive = archive(bytes).ok()?;
    let read = |entry: Entry| match entry.kind {
        Kind::Symlink => Some(entry.target.to_vec()),
        Kind::File => {
            let content = archive.read_all(&entry, 1 << 20).ok()?;
            assert_eq!(content.len() as u64, entry.size, "{}", entry.path);
            Some(content)
        }
        _ => None,
    };
    Some(archive.entries(0..archive.entry_count()).filter_map(Result::ok).filter_map(read).collect())
}

/// Checks that all readable contents of a damaged archive are contents of the intact one.
fn assert_no_other_content(damaged: &[u8], intact: &[Vec<u8>], what: &str) {
    let read = readable_contents(damaged).unwrap_or_default();
    assert!(read.len() <= intact.len(), "{what}: {} contents of {}", read.len(), intact.len());
    for content in read {
        assert!(intact.contains(&content), "{what}: {} bytes that no member contains", content.len());
    }
}
