//! Where entries come from.

mod archive;
pub(crate) mod files;
mod input;
mod order;
pub(crate) mod recover;
mod stream;
pub(crate) mod walk;

pub(crate) use archive::ArchiveReaders;
pub(crate) use archive::{Order, leave_out};
pub use files::{Input, InputIsOutput, WalkSource, default_output};
pub use input::reads_in_order;
pub(crate) use input::{Opened, open, open_indexed};
pub(crate) use order::Scattered;
pub use recover::UnreadableAsZero;
pub(crate) use stream::StreamReaders;
pub use walk::Filter;
