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

macro_rules! columns {
    ($($column:ident = $number:literal: $name:literal,)*) => {
        /// Numbers of the columns.
        #[allow(missing_docs)]
        pub mod column {
            $(pub const $column: usize = $number;)*
            /// Names of the columns in their order, as in the specification.
            pub const NAMES: [&str; super::COLUMNS] = {
                let mut names = [""; super::COLUMNS];
                $(names[$number] = $name;)*
                names
            };
        }
    };
}

columns! {
    PATH_SHARED = 0: "path shared",
    PATH_REST_LENGTH = 1: "path rest length",
    PATH_REST = 2: "path rest",
    KIND = 3: "kind",
    METADATA = 4: "metadata",
    METADATA_TABLE = 5: "metadata table",
    ATTRIBUTE_TABLE = 6: "attribute table",
    SECONDS = 7: "seconds",
    NANOSECONDS = 8: "nanoseconds",
    SIZE = 9: "size",
    LINK_GROUP = 10: "link group",
    TARGET = 11: "target",
    DEVICE = 12: "device",
    BLOCK_TABLE = 13: "block table",
    EXTENT_BLOCK = 14: "extent block",
    EXTENT_OFFSET = 15: "extent offset",
    CONTENT_CHECKSUM = 16: "content checksum",
    EXTENT_LISTS = 17: "extent lists",
    EXTENT_MAPS = 18: "extent maps",
    FILE_DIGEST = 19: "file digest",
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
