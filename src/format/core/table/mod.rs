//! What engines share that hold all their entries in memory: a table in path order, and the reading face on top of it.
//!
//! An engine reads the index of its container, adds each entry to a [`TableBuilder`] in the order of the container, with the name as it
//! was found and with a number of its own for the content, and wraps the finished [`Table`] together with itself in a [`TableArchive`].
//! What it has to know itself is the content of a [`ContentRef`]: that is the trait [`TableBackend`].
//!
//! Promises:
//! - names are checked here and nowhere else: `./`, doubled and trailing slashes go, a leading `/` is dropped with a remark, and a name with
//!   `..`, a NUL byte or too many bytes is left out with a remark (and [`Archive::skips_entries`](crate::archive::Archive::skips_entries) says so);
//! - of several entries of one path one is served (see [`Duplicates`]), every parent is a directory, missing ones are added as implied, and what
//!   has entries below it but is no directory gives way;
//! - look-ups, ranges, sums and children cost a binary search; about 72 bytes an entry and its path are kept, the whole bounded before it grows.
//!
//! ```
//! # fn main() -> nra_core::Result<()> {
//! use std::ops::Range;
//!
//! use nra_core::archive::{Access, Archive, Info, Part};
//! use nra_core::entry::Kind;
//! use nra_core::table::{TableEntry, ContentRef, TableBackend, TableArchive, TableBuilder, Duplicates};
//!
//! /// Members are slices of one buffer.
//! struct Slices(Vec<&'static [u8]>);
//!
//! impl TableBackend for Slices {
//!     fn with_range(
//!         &self,
//!         member: &ContentRef,
//!         range: Range<u64>,
//!         _: Access,
//!         sink: &mut dyn FnMut(Part<'_>) -> nra_core::Result<()>,
//!     ) -> nra_core::Result<()> {
//!         sink(Part::Data(&self.0[member.number as usize][range.start as usize..range.end as usize]))
//!     }
//! }
//!
//! let slices = Slices(vec![b"meow", b"woof"]);
//! let mut table = TableBuilder::new(Duplicates::KeepLast, 1 << 20);
//! for (number, name) in ["./cats/1.txt", "dogs/1.txt"].into_iter().enumerate() {
//!     let item = TableEntry { number: number as u64, size: slices.0[number].len() as u64, ..TableEntry::new(Kind::File) };
//!     table.add(name.as_bytes(), item)?;
//! }
//! let archive = TableArchive::new(table.finish()?, slices, Info::default());
//! let (_, entry) = archive.find(b"cats/1.txt")?.expect("it was added");
//! assert_eq!(archive.read_all(&entry, 100)?, b"meow");
//! assert_eq!(archive.entry_count(), 4);
//! # Ok(())
//! # }
//! ```

mod archive;
mod build;
mod names;
mod rows;
mod verify;

#[cfg(test)]
mod tests;

pub use archive::{ContentRef, TableArchive, TableBackend};
pub use build::{Duplicates, TableBuilder, TableEntry};
pub use names::{Cleaned, clean};
pub use rows::Table;
