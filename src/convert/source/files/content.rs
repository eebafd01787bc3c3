//! The content of a packed file: its chunks and holes.

use std::os::fd::OwnedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread, retry_on_intr};

use super::skip::Failed;
use super::store::FileFact;
use crate::pipeline::{EntryPart, HASHED_HOLES_MAX, MIN_BUFFER, Outlet, hash_zeros, split_chunks};
use crate::source::walk::Name;
use nra_format::progress::Monitor;

/// Reads the start of a file until at least `enough` bytes were read or it ends. Returns the number
/// of bytes, at most the length of `space`.
///
/// The offset of the descriptor is not used, because the search for holes moves it.
pub(super) fn read_front(file: &OwnedFd, space: &mut [u8], enough: usize) -> Result<usize, Errno> {
    let mut len = 0;
    while len < enough {
        match retry_on_intr(|| pread(file, &mut space[len..], len as u64))? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

/// Returns the start of the first hole, if there is one before the end.
pub(super) fn first_hole(file: &OwnedFd, size: u64) -> Option<u64> {
    seek(file, SeekFrom::Hole(0)).ok().filter(|&hole| hole < size)
}

/// A file that is open for reading.
#[derive(Clone, Copy)]
pub(super) struct Opened<'a> {
    pub(super) position: u32,
    /// Device and inode, if it has several names.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) name: &'a Name,
    pub(super) fd: &'a OwnedFd,
    /// Length when it was opened, bytes.
    pub(super) size: u64,
}

/// A large or sparse file that is being read.
pub(super) struct Stream<'a> {
    pub(super) file: &'a Opened<'a>,
    pub(super) sparse: bool,
    /// Hasher of the whole file; removed if hashing the holes would take too long.
    pub(super) hasher: Option<blake3::Hasher>,
    pub(super) holes: u64,
}

impl Stream<'_> {
    /// Reads up to the length at opening. Returns the number of bytes read.
    pub(super) fn read(&mut self, monitor: &dyn Monitor, outlet: &mut Outlet<FileFact>) -> Result<u64, Failed> {
        let mut at = 0;
        while at < self.file.size {
            let (start, end) = if self.sparse { self.next_data(at) } else { (at, self.file.size) };
            if start > at {
                self.hole(start - at, outlet);
            }
            if start == self.file.size {
                return Ok(self.file.size);
            }
            at = self.data(start, end, monitor, outlet)?;
            if at < end {
                return Ok(at);
            }
        }
        Ok(self.file.size)
    }

    /// Returns start and end of the next data after `at`; the end of the file twice if only a hole
    /// follows.
    fn next_data(&self, at: u64) -> (u64, u64) {
        let start = match seek(self.file.fd, SeekFrom::Data(at)) {
            Ok(start) => start.clamp(at, self.file.size),
            Err(Errno::NXIO) => return (self.file.size, self.file.size),
            Err(_) => return (at, self.file.size),
        };
        let end = seek(self.file.fd, SeekFrom::Hole(start)).map_or(self.file.size, |end| end.min(self.file.size));
        // The results can be inconsistent if the file changes meanwhile.
        (start, if end > start { end } else { self.file.size })
    }

    fn hole(&mut self, len: u64, outlet: &mut Outlet<FileFact>) {
        outlet.push(self.file.position, self.file.identity, EntryPart::Hole(len));
        self.holes = self.holes.saturating_add(len);
        if self.holes > HASHED_HOLES_MAX {
            self.hasher = None;
        }
        if let Some(hasher) = &mut self.hasher {
            hash_zeros(hasher, len);
        }
    }

    /// Reads bytes `start` to `end` and splits them into chunks. Returns the end of the bytes read,
    /// which is less than `end` if the file ends before.
    fn data(&mut self, start: u64, end: u64, monitor: &dyn Monitor, outlet: &mut Outlet<FileFact>) -> Result<u64, Failed> {
        let mut at = start;
        let mut ended = false;
        outlet.make_room(MIN_BUFFER)?;
        let mut cut = outlet.batch.filled;
        loop {
            if monitor.cancelled() {
                return Err(Failed::Stopped);
            }
            while !ended && outlet.batch.filled < outlet.batch.bytes.len() {
                let batch = &mut outlet.batch;
                let room = u64::try_from(batch.bytes.len() - batch.filled).unwrap_or(u64::MAX);
                let len = usize::try_from(room.min(end - at)).expect("not more than the room in memory");
                let space = &mut batch.bytes[batch.filled..batch.filled + len];
                let got = retry_on_intr(|| pread(self.file.fd, &mut *space, at))?;
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(&space[..got]);
                }
                at += got as u64;
                batch.filled += got;
                ended = got == 0 || at == end;
            }
            split_chunks(self.file.position, self.file.identity, &mut cut, ended, outlet);
            if ended {
                return Ok(at);
            }
            outlet.flush(outlet.batch.filled - cut)?;
            cut = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn hole_search_does_not_affect_reading() {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.write_all(b"content without a hole").expect("written");
        let file = OwnedFd::from(file);
        assert_eq!(first_hole(&file, 22), None);
        let mut space = [0; 32];
        assert_eq!(read_front(&file, &mut space, 22), Ok(22));
        assert_eq!(&space[..22], b"content without a hole");
        assert_eq!(read_front(&file, &mut space[..4], 4), Ok(4));
    }
}
