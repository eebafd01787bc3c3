//! Where entries come from.

mod archive;
mod fact;
pub(crate) mod files;
mod input;
mod order;
mod stream;
mod unreadable;
pub(crate) mod walk;

pub(crate) use archive::{ArchiveSource, OnUnreadable, Order, report_index_state, skip_unreadable};
pub(crate) use fact::{Broken, SourceFact};
pub use files::{Input, InputIsOutput, WalkSource, pack_output};
pub use input::reads_in_order;
pub(crate) use input::{Indexed, Opened, open, open_indexed};
pub(crate) use order::Scattered;
pub(crate) use stream::StreamSource;
pub use unreadable::UnreadableAsZero;
pub use walk::Filter;
