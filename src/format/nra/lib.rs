//! The engine for NRA version 5. Spec: `docs/format/nra.md`.

pub mod changes;
pub mod chunks;
pub mod commit;
pub mod compact;
pub mod content;
pub mod directory;
pub mod extents;
pub mod frame;
mod front;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod head;
pub mod layout;
pub mod page;
pub mod parts;
pub mod reader;
pub mod records;
pub mod recovery;
pub mod revert;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod writer;
