//! The bytes that recovery data is looked for in.

use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_SYNC};
use crate::head::{TAIL_LEN, Tail};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// What is left out when it does not read, bytes.
pub const SECTOR: usize = 4 << 10;

/// The bytes of a file up to a length, any of which may be missing.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub source: &'a dyn ReadAt,
    pub len: u64,
}

impl<'a> View<'a> {
    pub fn new(source: &'a dyn ReadAt) -> Self {
        Self { source, len: source.len() }
    }

    /// Fills `buffer` from `offset` and says whether the bytes are there: not beyond the end, nor where the disk does not read.
    pub fn read(self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Ok(false);
        }
        match self.source.read_exact_at(offset, buffer) {
            Ok(()) => Ok(true),
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the header of a frame that may begin at `place`, if its bytes are there.
    pub fn header(self, place: u64) -> Result<Option<[u8; HEADER_LEN]>> {
        let mut header = [0; HEADER_LEN];
        Ok(self.read(place, &mut header)?.then_some(header))
    }

    /// Says whether a frame that is no recovery data begins at `place`.
    pub fn begins_other_frame(self, place: u64) -> Result<bool> {
        let plain = |header: &[u8; HEADER_LEN]| {
            FrameHeader::peek(header, place).is_some_and(|(kind, _)| kind != FrameKind::Recovery as u8)
        };
        Ok(self.header(place)?.is_some_and(|header| plain(&header) || header.starts_with(&SEALED_SYNC)))
    }

    /// Returns the tail that ends at `end`.
    pub fn tail_before(self, end: u64) -> Result<Tail> {
        let place = end.saturating_sub(TAIL_LEN as u64);
        let mut bytes = [0; TAIL_LEN];
        if self.read(place, &mut bytes)? {
            Tail::parse(&bytes, place)
        } else {
            Err(Error::corrupt("tail", place, "it does not read"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

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
