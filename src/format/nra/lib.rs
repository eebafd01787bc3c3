//! The engine for NRA version 5. Specification: `docs/format/nra.md`.

mod block_index;
pub mod changes;
mod chunk_run;
pub mod commit;
pub mod compact;
mod content;
mod entry_page;
mod extent_map;
pub mod footer;
pub mod frame;
mod front_coding;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod layout;
mod range_set;
pub mod reader;
pub mod records;
pub mod recovery;
pub mod revert;
pub mod superblock;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod writer;
