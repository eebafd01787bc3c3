//! nra: archives of large sets of files, read entry by entry.
//!
//! An *archive* is one file that holds *entries*: files, directories, links and devices, each known
//! by its path. This crate writes and reads archives of the NRA format, version 5;
//! `docs/format/nra.md` in its repository defines it byte by byte.
//!
//! | to do | start at |
//! | --- | --- |
//! | open an archive: a file, memory, or anything that reads at an offset | [`format::archive::open_path`], [`format::archive::open`], [`format::source::ReadAt`] |
//! | list, look up, read, verify | [`format::archive::Archive`] |
//! | write an archive entry by entry | [`format::nra::writer::Writer`] |
//! | pack a directory, extract an archive, convert one to another format | [`convert::convert`] |
//! | follow or stop long work | [`format::progress::Monitor`] |
//!
//! Without default features the crate is this library alone; the feature `cli` adds the command
//! line, `tui` the browser in the terminal.
//!
//! # Writing and reading
//!
//! ```
//! use std::sync::Arc;
//!
//! use nra::format::archive::{OpenOptions, open};
//! use nra::format::digest::Digest;
//! use nra::format::entry::{Entry, Kind};
//! use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
//! use nra::format::path::EntryPath;
//! use nra::format::progress::Recorder;
//! use nra::format::source::MemorySource;
//!
//! let mut writer = Writer::create(Vec::new(), WriterOptions::default())?;
//! for number in 0..1000 {
//!     let path = EntryPath::new(format!("logs/{number:04}.txt").into_bytes()).expect("a valid path");
//!     let text = format!("step {number}\n");
//!     let content = NewContent::Whole { bytes: text.as_bytes(), digest: Digest::of(text.as_bytes()), incompressible: false };
//!     writer.add(Entry::new(path, Kind::File), content)?;
//! }
//! let (bytes, stats) = writer.finish(&Recorder::default())?;
//! assert_eq!(stats.files, 1000);
//!
//! let archive = open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())?;
//! let (number, entry) = archive.find(b"logs/0042.txt")?.expect("it was written above");
//! assert_eq!(archive.read_all(&entry, 1 << 20)?, b"step 42\n");
//!
//! // Entries are numbered in path order; the directory `logs` is number 0.
//! assert_eq!(number, 43);
//! assert_eq!(archive.entry(number)?, entry);
//! assert_eq!(archive.totals(archive.subtree(Some(b"logs"))?)?.entries, 1001);
//! # Ok::<(), nra::format::Error>(())
//! ```
//!
//! # Packing and extracting
//!
//! ```
//! use nra::convert::select::Selection;
//! use nra::convert::{Destination, DirectorySink, DirectoryTarget, NewArchive, Input, NraSink, Options, Sink, Source, WalkSource, convert};
//! use nra::format::archive::{OpenOptions, open_path};
//! use nra::format::progress::Recorder;
//!
//! let work = tempfile::tempdir()?;
//! std::fs::create_dir(work.path().join("photos"))?;
//! std::fs::write(work.path().join("photos/a.txt"), "hello")?;
//!
//! let file = work.path().join("photos.nra");
//! let monitor = Recorder::default();
//! let options = Options::default();
//! let photos = WalkSource::new([Input::new(work.path().join("photos"))]);
//! let sink = Sink::Archive(Destination::new_file(&file), NewArchive::Nra(NraSink::default()));
//! convert(Source::Walk(photos), sink, &options, &monitor)?;
//!
//! let archive = open_path(&file, &OpenOptions::default())?;
//! let sink = DirectorySink::new(DirectoryTarget::Exactly(work.path().join("out")));
//! convert(Source::Archive(&*archive, &Selection::all()), Sink::Directory(sink), &options, &monitor)?;
//! assert_eq!(std::fs::read(work.path().join("out/a.txt"))?, b"hello");
//! assert!(monitor.take_warnings().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use nra_cli as cli;
pub use {nra_convert as convert, nra_format as format};

/// The examples of the README are tested with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use nra_format::nra::fuzzing;
