//! Containers of other programs, behind the reading face of all archives.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "cli")]
#[path = "../common/mod.rs"]
mod common;
mod crates;
#[cfg(feature = "cli")]
mod faults;
#[cfg(feature = "cli")]
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

/// Reads everything and returns the contents of the files and links that read; nothing may panic, and none may have another length than it says.
fn read_what_reads(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
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

/// Reads an archive that is hurt: what reads is what one of the members of the sound archive had.
fn assert_honest(hurt: &[u8], sound: &[Vec<u8>], what: &str) {
    let read = read_what_reads(hurt).unwrap_or_default();
    assert!(read.len() <= sound.len(), "{what}: {} contents of {}", read.len(), sound.len());
    for content in read {
        assert!(sound.contains(&content), "{what}: {} bytes that were in no member", content.len());
    }
}
