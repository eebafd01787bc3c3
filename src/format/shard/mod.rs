//! Shard, version 2: a container of named byte strings, the floor of the profiles for models, samples, episodes and columns.
//!
//! A file is a header, an index of fixed records, the names, and the entries' bytes one behind the other; a piece of JSON may follow. The
//! index is read whole when a file is opened, content only on demand. Specification: `docs/format/shard.md`.

mod archive;
mod layout;
mod payload;
mod reader;
mod record;
mod writer;

pub use archive::{HEADER, METADATA, RECORD, ShardArchive, ShardMembers};
pub use layout::{
    Compression, HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAX_ENTRIES, MAX_NAMES_LEN, MAX_PAYLOAD, Role, flags,
};
pub use reader::Shard;
pub use record::Record;
pub use writer::{ALIGNMENTS, Dialect, Layout, NewEntry, ShardWriter, Style};
