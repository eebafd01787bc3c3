//! Members that the crate `zip` decodes: rare methods and encrypted ones.
//!
//! The crate would keep half a kilobyte for each member of an archive. It is shown a file with one: the bytes up to the end of the member
//! as they are, behind them the member's own record as the whole central directory, and an end record.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use nra_core::source::ReadAt;

/// A file that ends with a directory of one member.
pub(super) struct OneMember {
    source: Arc<dyn ReadAt>,
    /// End of the bytes that are those of the source.
    body: u64,
    /// What follows them.
    rest: Vec<u8>,
    position: u64,
}

impl OneMember {
    /// Shows `source` up to `body` and behind it the directory `record` of one member, whose offsets are `shift` too small.
    pub fn new(source: Arc<dyn ReadAt>, body: u64, record: &[u8], shift: u64) -> Self {
        let mut rest = record.to_vec();
        let wide = body + record.len() as u64;
        // Wide end record: it says where things lie whatever the size of the file.
        rest.extend(b"PK\x06\x06");
        rest.extend(44u64.to_le_bytes());
        rest.extend([45, 0, 45, 0]);
        rest.extend([0; 8]);
        for number in [1, 1, record.len() as u64, body - shift] {
            rest.extend(number.to_le_bytes());
        }
        rest.extend(b"PK\x06\x07");
        rest.extend([0; 4]);
        rest.extend((wide - shift).to_le_bytes());
        rest.extend(1u32.to_le_bytes());
        rest.extend(b"PK\x05\x06");
        rest.extend([0; 4]);
        rest.extend([0xff; 12]);
        rest.extend([0; 2]);
        Self { source, body, rest, position: 0 }
    }

    fn len(&self) -> u64 {
        self.body + self.rest.len() as u64
    }
}

impl Read for OneMember {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = match self.body.checked_sub(self.position).filter(|&left| left > 0) {
            Some(left) => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                self.source.read_exact_at(self.position, &mut buffer[..len]).map_err(io::Error::other)?;
                len
            }
            None => {
                let at = usize::try_from(self.position - self.body).unwrap_or(usize::MAX).min(self.rest.len());
                let len = (self.rest.len() - at).min(buffer.len());
                buffer[..len].copy_from_slice(&self.rest[at..at + len]);
                len
            }
        };
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for OneMember {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.len().checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
