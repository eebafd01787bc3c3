//! Tests of the reader with handmade archives.

mod build;
mod cost;
mod damage;
mod history;
mod lookup;
mod survival;
mod verify;

use std::sync::Arc;

use crate::reader::NraReader;
use nra_core::archive::{Access, Archive, OpenOptions, Part};
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::source::MemorySource;

fn open(bytes: &[u8]) -> Result<NraReader> {
    NraReader::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
}

/// Reads the whole content in every way. The results must agree.
fn content(archive: &dyn Archive, entry: &Entry) -> Result<Vec<u8>> {
    let whole = archive.read_all(entry, u64::MAX)?;
    for access in [Access::Random, Access::Sequential] {
        let mut parts = Vec::new();
        archive.with_content(entry, access, &mut |part| {
            match part {
                Part::Data(bytes) => parts.extend_from_slice(bytes),
                Part::Hole(len) => parts.resize(parts.len() + usize::try_from(len).unwrap(), 0),
            }
            Ok(())
        })?;
        assert_eq!(parts, whole, "{}", entry.path);
    }
    Ok(whole)
}

/// Returns the paths of entries, and errors as text.
fn names(entries: impl Iterator<Item = Result<Entry>>) -> Vec<String> {
    entries.map(|entry| entry.map_or_else(|error| format!("error: {error}"), |entry| entry.path.to_string())).collect()
}
