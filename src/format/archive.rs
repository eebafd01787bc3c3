//! The reading face of all containers, and the door to it: [`open`].
//!
//! Entries have numbers, from 0 in path order, so that a directory and all that lies below it is a range of numbers. Whatever is asked for
//! costs a few pages of the index, never a pass over all entries.
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
//! // One directory, without what lies below its directories.
//! let top: Vec<String> = archive.children(None).map(|entry| Ok(entry?.path.to_string())).collect::<nra_format::Result<_>>()?;
//! assert_eq!(top, ["labels.txt", "train"]);
//!
//! // By path, and by number: a random order over numbers is a shuffle of the whole.
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
//! // How much lies below a directory.
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
