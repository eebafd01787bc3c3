//! The reading contract of all containers, and [`open`], which opens any of them.
//!
//! Entries have numbers, from 0 in path order, so that a directory and all that lies below it is a
//! range of numbers. A request reads a few pages of the index, never all entries.
//!
//! ```
//! # fn main() -> nra_format::Result<()> {
//! use std::io::Read;
//! use std::sync::Arc;
//!
//! use nra_format::archive::{self, OpenOptions};
//! # use nra_format::{codec::looks_incompressible, digest::Digest, entry::{Entry, Kind}, path::EntryPath, progress::Recorder};
//! # use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
//! use nra_format::source::MemorySource;
//! # let mut writer = Writer::create(Vec::new(), WriterOptions::balanced())?;
//! # let entry = |path: &str, kind| Entry::new(EntryPath::try_from(path).unwrap(), kind);
//! # writer.add(entry("train", Kind::Directory), NewContent::None)?;
//! # for (path, bytes) in [("labels.txt", "cat\ndog\n"), ("train/0.txt", "meow"), ("train/1.txt", "woof")] {
//! #     let (bytes, incompressible) = (bytes.as_bytes(), looks_incompressible(bytes.as_bytes()));
//! #     writer.add(entry(path, Kind::File), NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible })?;
//! # }
//! # let (bytes, _) = writer.finish(&Recorder::default())?;
//!
//! // `open_path` does the same for a file.
//! let archive = archive::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())?;
//! assert_eq!(archive.entry_count(), 4);
//!
//! // The direct children of a directory.
//! let top: Vec<String> = archive.children(None).map(|entry| Ok(entry?.path.to_string())).collect::<nra_format::Result<_>>()?;
//! assert_eq!(top, ["labels.txt", "train"]);
//!
//! // By path and by number: shuffled numbers give the entries in random order.
//! let (number, entry) = archive.find(b"train/1.txt")?.expect("it was packed");
//! assert_eq!(archive.entry(number)?, entry);
//! assert_eq!(archive.read_all(&entry, 1 << 20)?, b"woof");
//!
//! // A part of the content, and the content as a stream.
//! let mut two = [0; 2];
//! archive.read_at(&entry, 1, &mut two)?;
//! assert_eq!(&two, b"oo");
//! let mut text = String::new();
//! archive::reader(&*archive, entry).read_to_string(&mut text).expect("it is UTF-8");
//! assert_eq!(text, "woof");
//!
//! // Totals of a directory.
//! let below = archive.subtree(Some(b"train"))?;
//! assert_eq!(archive.totals(below.clone())?.content_bytes, 8);
//! for entry in archive.entries(below) {
//!     println!("{}", entry?.path);
//! }
//! # Ok(())
//! # }
//! ```

pub use nra_core::archive::*;

pub use crate::registry::{
    EXTENSIONS, Extension, FORMATS, Format, detect, detect_source, detect_stream, extension_mismatch, foreign_extension,
    is_no_archive, open, open_path, open_settled, open_stream,
};
