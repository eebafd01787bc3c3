//! Recovery data: what restores the exact bytes of a damaged archive.
//!
//! It lies behind the tail of the archive, is followed by that tail once more, and protects bytes, whatever they mean: an encrypted
//! archive needs no key for it, and a reader that does not care sees the archive as it was. [`protect`] writes it, [`check`] says
//! what is damaged and whether it can be restored, [`restore`] does that in a copy.
//!
//! Memory: one group with its parities, whatever the length of the archive. A writer takes 256 MiB at most, and less when less is given
//! (then groups are shorter). Who restores takes what the groups need ([`Geometry::restoring_bytes`]: less than 1 GiB for the longest that
//! the format allows), or refuses when that is more than is given.
//!
//! Spec: nra.md, section 19.

mod geometry;
mod group;
mod protect;
mod restore;
mod survey;
mod trailer;

pub use geometry::{GEOMETRY_LEN, Geometry};
pub use protect::{plan, protect};
pub use restore::restore;
pub use survey::{End, Report, begins, check, end, find, foreign, present, standing};
pub use trailer::Trailer;

use crate::format::error::Result;
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
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::format::error::Error;

    /// A file that gives this error.
    struct Failing(fn() -> io::Error);

    impl ReadAt for Failing {
        fn len(&self) -> u64 {
            100
        }
        fn name(&self) -> &[u8] {
            b"failing"
        }
        fn read_exact_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
            Err(Error::io("read", "failing", self.0()))
        }
    }

    #[test]
    fn only_a_medium_that_does_not_give_bytes_is_damage() {
        let read = |error| View::new(&Failing(error)).read(0, &mut [0; 10]);
        assert!(!read(|| io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())).unwrap());
        assert!(read(|| io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error())).is_err());
        assert!(read(|| io::ErrorKind::PermissionDenied.into()).is_err());
        assert!(read(|| io::ErrorKind::TimedOut.into()).is_err());
    }
}
