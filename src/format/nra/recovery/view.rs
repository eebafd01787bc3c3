//! The bytes in which recovery data is searched.

use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN, SEALED_SYNC};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Unit in which unreadable bytes are skipped, bytes.
pub const SECTOR: usize = 4 << 10;

/// The bytes of a file up to a length. Any of them may be unreadable.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub source: &'a dyn ReadAt,
    pub len: u64,
}

impl<'a> View<'a> {
    pub fn new(source: &'a dyn ReadAt) -> Self {
        Self { source, len: source.len() }
    }

    /// Fills `buffer` from `offset`. Returns whether the bytes are available: within the length and
    /// readable.
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

    /// Returns the 64 bytes at `offset` where a frame header may be, if they are available.
    pub fn header(self, offset: u64) -> Result<Option<[u8; HEADER_LEN]>> {
        let mut header = [0; HEADER_LEN];
        Ok(self.read(offset, &mut header)?.then_some(header))
    }

    /// Returns whether a frame that is not a recovery frame starts at `offset`.
    pub fn begins_other_frame(self, offset: u64) -> Result<bool> {
        let plain = |header: &[u8; HEADER_LEN]| {
            FrameHeader::peek(header, offset).is_some_and(|(kind, _)| kind != FrameKind::Recovery as u8)
        };
        Ok(self.header(offset)?.is_some_and(|header| plain(&header) || header.starts_with(&SEALED_SYNC)))
    }

    pub fn footer_before(self, end: u64) -> Result<Footer> {
        let offset = end.saturating_sub(FOOTER_LEN as u64);
        let mut bytes = [0; FOOTER_LEN];
        if self.read(offset, &mut bytes)? {
            Footer::parse(&bytes, offset)
        } else {
            Err(Error::corrupt("footer", offset, "it is unreadable"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A source that always fails with this error.
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
    fn only_media_errors_count_as_damage() {
        let read = |error| View::new(&Failing(error)).read(0, &mut [0; 10]);
        assert!(!read(|| io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())).unwrap());
        assert!(read(|| io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error())).is_err());
        assert!(read(|| io::ErrorKind::PermissionDenied.into()).is_err());
        assert!(read(|| io::ErrorKind::TimedOut.into()).is_err());
    }
}
