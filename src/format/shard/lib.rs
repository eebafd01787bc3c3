//! Shard, version 2: a container of named byte strings, the floor of the profiles for models, samples, episodes and columns.
//!
//! A file is a header, an index of fixed records, the names, and the entries' bytes one behind the other; a piece of JSON may follow. The
//! index is read whole when a file is opened, content only on demand. Specification: `docs/format/shard.md`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use nra_shard::{Dialect, Layout, Marks, NewEntry, PartialFile, Role, Shard, ShardWriter, Style};
//! use nra_core::source::FileSource;
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("model.mosh");
//!
//! // Entries as they come, names not known before: the file is model.mosh.partial until it is whole.
//! let layout = Layout::Streaming(1_000);
//! let style = Style::new(Dialect::Go, Role::MODEL, 64, None, &layout);
//! let mut writer = ShardWriter::create(PartialFile::create(&path)?, style, layout)?;
//! writer.add(NewEntry { name: b"greeting", content: b"hello", compression: None, marks: Marks { content_type: 5, ..Marks::default() } })?;
//! writer.begin(b"in pieces", Marks::default())?;
//! for piece in 0..4u8 {
//!     writer.write(&[piece; 100])?;
//! }
//! writer.end()?;
//! assert!(!path.exists());
//! writer.finish(None)?.publish()?;
//!
//! // Entries that are stored as they are need no copy: whoever maps the file (here it is read) gets them as parts of the mapping, aligned as the
//! // header says and compared with their checksum once.
//! let shard = Shard::open(Arc::new(FileSource::open(&path)?))?;
//! let mapped = std::fs::read(&path)?;
//! let number = shard.find(b"in pieces").expect("it was written");
//! let content = shard.plain_slice(number, &mapped)?.expect("it is not compressed");
//! assert_eq!((content.len(), content[399]), (400, 3));
//! let start = shard.plain_range(number)?.expect("it is not compressed").start;
//! assert_eq!(start % u64::from(shard.header().alignment), 0);
//! # Ok(())
//! # }
//! ```

mod archive;
mod attributes;
mod description;
mod layout;
mod names;
mod partial;
mod payload;
mod profile;
mod reader;
mod record;
mod writer;

pub use archive::{ShardArchive, ShardMembers};
pub use attributes::{HEADER, LAYOUT, METADATA, NAME, Origin, RECORD, is_metadata, is_own, metadata_of, value};
pub use description::{described, description, with_description};
pub use layout::{
    Compression, HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAX_ENTRIES, MAX_NAMES_LEN, MAX_PAYLOAD, Role, flags,
};
pub use names::stands_for;
pub use partial::PartialFile;
pub use profile::Profile;
pub use reader::Shard;
pub use record::Record;
pub use writer::{ALIGNMENTS, Dialect, Layout, Marks, NewEntry, ShardWriter, Style};
