//! The engine for Shard files, version 2: containers of named byte strings.
//!
//! Profiles for models, samples, episodes and columns are built on them. A file consists of a header, an
//! index of fixed-length records, the names, the content of the entries and optional metadata in JSON.
//! The index is read as a whole when a file is opened, content on demand.
//!
//! Specification: `docs/format/shard.md`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use nra_shard::{Dialect, Layout, RecordFields, NewEntry, PartialFile, Role, Shard, ShardWriter, Style};
//! use nra_core::source::FileSource;
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("model.mosh");
//!
//! // A streamed file: names need not be known in advance. Until it is published, the file is
//! // model.mosh.partial.
//! let layout = Layout::Streaming(1_000);
//! let style = Style::new(Dialect::Go, Role::MODEL, 64, None, &layout);
//! let mut writer = ShardWriter::create(PartialFile::create(&path)?, style, layout)?;
//! writer.add(NewEntry { name: b"greeting", content: b"hello", compression: None, fields: RecordFields { content_type: 5, ..RecordFields::default() } })?;
//! writer.start_entry(b"in parts", RecordFields::default())?;
//! for part in 0..4u8 {
//!     writer.write(&[part; 100])?;
//! }
//! writer.finish_entry()?;
//! assert!(!path.exists());
//! writer.finish(None)?.publish()?;
//!
//! // Uncompressed entries need no copy: a caller that has mapped the file (here it is read) gets them as
//! // slices of the mapping, aligned, with their checksum verified once.
//! let shard = Shard::open(Arc::new(FileSource::open(&path)?))?;
//! let mapped = std::fs::read(&path)?;
//! let number = shard.find(b"in parts").expect("it was written");
//! let content = shard.uncompressed_slice(number, &mapped)?.expect("uncompressed");
//! assert_eq!((content.len(), content[399]), (400, 3));
//! let start = shard.uncompressed_range(number)?.expect("uncompressed").start;
//! assert_eq!(start % u64::from(shard.header().alignment), 0);
//! # Ok(())
//! # }
//! ```

mod archive;
mod attributes;
mod content;
mod description;
mod entry_paths;
mod layout;
mod partial_file;
mod profile;
mod reader;
mod record_attribute;
mod writer;

pub use archive::{ShardArchive, ShardBackend};
pub use attributes::{
    HEADER_ATTRIBUTE, LAYOUT_ATTRIBUTE, METADATA_ATTRIBUTE, NAME_ATTRIBUTE, Origin, RECORD_ATTRIBUTE, attribute_value,
    is_metadata_attribute, is_shard_attribute, metadata_from_attributes,
};
pub use description::{description, metadata_with_description, replace_description};
pub use entry_paths::name_has_path;
pub use layout::{
    Compression, HEADER_LEN, Header, INDEX_ENTRY_LEN, IndexEntry, MAX_CONTENT_LEN, MAX_ENTRIES, MAX_NAMES_LEN, Role, flags,
};
pub use partial_file::PartialFile;
pub use profile::Profile;
pub use reader::Shard;
pub use record_attribute::RecordAttribute;
pub use writer::{ALIGNMENTS, Dialect, Layout, NewEntry, RecordFields, ShardWriter, Style};
