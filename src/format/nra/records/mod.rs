//! Record lists: entries stored in columns.
//!
//! `RecordList` builds a list entry by entry. `parse` decodes one and rejects everything except the
//! one encoding of valid entries. Neither does any I/O.
//!
//! Spec: nra.md, section 8.

mod encode;
pub(crate) mod extents;
pub(crate) mod metadata;
mod parse;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use encode::{Holder, RecordList, check};
pub(crate) use parse::{parse, parse_sorted};

use nra_core::entry::Metadata;

/// Number of columns.
pub const COLUMNS: usize = 20;

/// Bit of the kind column: implied directory.
const IMPLIED: u8 = 1 << 7;

/// Returns whether metadata equals that of an implied directory.
fn is_unknown(metadata: &Metadata) -> bool {
    metadata.mode == 0o755 && metadata.owner.is_none() && metadata.attributes.is_empty()
}

/// Numbers of the columns.
#[allow(missing_docs)]
pub mod column {
    use super::COLUMNS;

    pub const PATH_SHARED: usize = 0;
    pub const PATH_REST_LENGTH: usize = 1;
    pub const PATH_REST: usize = 2;
    pub const KIND: usize = 3;
    pub const METADATA: usize = 4;
    pub const METADATA_TABLE: usize = 5;
    pub const ATTRIBUTE_TABLE: usize = 6;
    pub const SECONDS: usize = 7;
    pub const NANOSECONDS: usize = 8;
    pub const SIZE: usize = 9;
    pub const LINK_GROUP: usize = 10;
    pub const TARGET: usize = 11;
    pub const DEVICE: usize = 12;
    pub const BLOCK_TABLE: usize = 13;
    pub const EXTENT_BLOCK: usize = 14;
    pub const EXTENT_OFFSET: usize = 15;
    pub const CONTENT_CHECKSUM: usize = 16;
    pub const EXTENT_LISTS: usize = 17;
    pub const EXTENT_MAPS: usize = 18;
    pub const FILE_DIGEST: usize = 19;

    /// Names of the columns, as in the specification.
    pub const NAMES: [&str; COLUMNS] = {
        let mut names = [""; COLUMNS];
        names[PATH_SHARED] = "path shared";
        names[PATH_REST_LENGTH] = "path rest length";
        names[PATH_REST] = "path rest";
        names[KIND] = "kind";
        names[METADATA] = "metadata";
        names[METADATA_TABLE] = "metadata table";
        names[ATTRIBUTE_TABLE] = "attribute table";
        names[SECONDS] = "seconds";
        names[NANOSECONDS] = "nanoseconds";
        names[SIZE] = "size";
        names[LINK_GROUP] = "link group";
        names[TARGET] = "target";
        names[DEVICE] = "device";
        names[BLOCK_TABLE] = "block table";
        names[EXTENT_BLOCK] = "extent block";
        names[EXTENT_OFFSET] = "extent offset";
        names[CONTENT_CHECKSUM] = "content checksum";
        names[EXTENT_LISTS] = "extent lists";
        names[EXTENT_MAPS] = "extent maps";
        names[FILE_DIGEST] = "file digest";
        names
    };
}

/// Numbers of the forms of content (section 8.4).
#[allow(missing_docs)]
pub mod form {
    pub const NONE: u8 = 0;
    pub const EXTENT: u8 = 1;
    pub const UNCOMPRESSED: u8 = 2;
    pub const LIST: u8 = 3;
    pub const MAP: u8 = 4;

    /// Numbers and names, as in the specification.
    pub const TABLE: [(u8, &str); 5] =
        [(NONE, "none"), (EXTENT, "extent"), (UNCOMPRESSED, "uncompressed extent"), (LIST, "extent list"), (MAP, "extent map")];
}
