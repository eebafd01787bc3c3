//! Doors for the fuzz targets in `fuzz/`: internal parsers, and archives taken apart and sealed again.
//!
//! No part of the public interface: built with the feature `fuzzing` and for unit tests only, and free to change. Nothing else
//! in this crate uses it.

mod anatomy;
mod keys;
mod structure;

pub use anatomy::{Anatomy, Operation, Part};
pub use keys::{opens, reencode_keys};
pub use structure::{Structure, reencode, seal};

use crate::content::HasContent as _;
use crate::content::{Content, Segment};
use nra_core::entry::Entry;

/// Returns the file offsets of the frames that the content of `entry` lies in: blocks, or the root of its extent map.
pub fn frames_of(entry: &Entry) -> Vec<u64> {
    match entry.content() {
        Content::None => Vec::new(),
        Content::Extent(extent) | Content::Raw(extent, _) => vec![extent.block.offset],
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
