//! Recovery data: what restores the exact bytes of a damaged archive.
//!
//! It lies behind the tail of the archive, is followed by that tail once more, and protects bytes, whatever they mean: an encrypted
//! archive needs no key for it, and a reader that does not care sees the archive as it was. [`protect`] writes it, [`check`] says
//! what is damaged and whether it can be restored, [`restore`] does that in a copy.
//!
//! Memory: one group (at most 64 MiB) with its parities, whatever the length of the archive; 256 MiB at most, and less when less is given.
//!
//! Spec: nra.md, section 19.

mod geometry;
mod group;
mod protect;
mod restore;
mod survey;

pub use geometry::{GEOMETRY_LEN, Geometry};
pub use protect::protect;
pub use restore::{MEMORY, restore};
pub use survey::{Report, check, find, present};

use crate::format::error::{Error, Result};
use crate::format::source::ReadAt;

/// The bytes of a file up to a length, any of which may be missing.
#[derive(Clone, Copy)]
struct View<'a> {
    source: &'a dyn ReadAt,
    len: u64,
}

impl<'a> View<'a> {
    fn new(source: &'a dyn ReadAt) -> Self {
        Self { source, len: source.len() }
    }

    /// Fills `buffer` from `offset` and says whether the bytes are there: not beyond the end, nor where the disk does not read.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Ok(false);
        }
        match self.source.read_exact_at(offset, buffer) {
            Ok(()) => Ok(true),
            // Bytes that don't read are damage like any other.
            Err(Error::Io { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
