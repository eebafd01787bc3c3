//! Access for the fuzz targets in `fuzz/`: internal parsers, and archives that are dissected and
//! rebuilt.
//!
//! Not part of the public interface. It is built only with the feature `testing` and for unit
//! tests.

mod dissection;
mod keys;
mod structure;

pub use dissection::{Dissection, Operation, Part};
pub use keys::{opens, reencode_keys};
pub use structure::{Structure, reencode, seal};

use crate::content::{Content, EntryContent as _, Segment};
use nra_core::entry::Entry;

/// Returns the file offsets of the frames that hold the content of `entry`: blocks, or the root
/// page of its extent map.
pub fn frames_of(entry: &Entry) -> Vec<u64> {
    match entry.content() {
        Content::None => Vec::new(),
        Content::Extent(extent) | Content::Uncompressed(extent, _) => vec![extent.block.offset],
        Content::List(segments, _) => {
            let blocks = segments.iter().filter_map(|segment| match segment {
                Segment::Data(extent) => Some(extent.block.offset),
                Segment::Hole(_) => None,
            });
            blocks.collect()
        }
        Content::Map(root, _) => vec![root.offset],
    }
}
