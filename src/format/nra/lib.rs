//! The engine for NRA version 5. Specification: `docs/format/nra.md`.

pub mod block_index;
pub mod changes;
pub mod chunk_run;
pub mod commit;
pub mod compact;
pub mod content;
pub mod entry_page;
pub mod extent_map;
pub mod footer;
pub mod frame;
mod front_coding;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod layout;
pub mod range_set;
pub mod reader;
pub mod records;
pub mod recovery;
pub mod revert;
pub mod superblock;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod writer;
