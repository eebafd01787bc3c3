//! For engines that keep all their entries in memory: a table in path order, and [`Archive`](crate::archive::Archive) on top of it.
//!
//! An engine reads the index of its container and adds each entry to a [`TableBuilder`], with its original name and a number for its content. It
//! wraps the finished [`Table`] and itself in a [`TableArchive`]. The engine reads contents by [`ContentRef`]: it implements [`TableBackend`].
//!
//! Promises:
//! - Names are validated only here. `./`, repeated and trailing slashes are removed, and a leading `/` is removed with a remark. Entries with `..`,
//!   a NUL byte or too many bytes in their names are skipped with a remark (see [`Archive::skips_entries`](crate::archive::Archive::skips_entries)).
//! - Of several entries with one path, one is kept (see [`Duplicates`]). Every parent is a directory: missing ones are added as implied, and other
//!   entries with the path of a parent are replaced.
//! - Look-ups, ranges, totals and children need a binary search. An entry takes about 72 bytes and its path. The limit is checked before the table
//!   grows.
//!
//! ```
//! # fn main() -> nra_core::Result<()> {
//! use std::ops::Range;
//!
//! use nra_core::archive::{Access, Archive, Info, Part};
//! use nra_core::entry::Kind;
//! use nra_core::table::{TableEntry, ContentRef, TableBackend, TableArchive, TableBuilder, Duplicates};
//!
//! /// Contents are slices of one buffer.
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

pub use archive::{ContentRef, Losses, TableArchive, TableBackend};
pub use build::{Duplicates, TableBuilder, TableEntry};
pub use names::{Cleaned, clean};
pub use rows::Table;
