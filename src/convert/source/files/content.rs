//! The content of a file that is packed: its data in pieces, and its holes.

use std::os::fd::OwnedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread, retry_on_intr};

use super::refusal::Failed;
use super::store::Special;
use crate::pipeline::{HASHED_HOLES_MAX, Item, MIN_BUFFER, Outlet, Run, hash_zeros};
use crate::source::walk::Name;
use nra_format::chunker::next_piece;
use nra_format::progress::Monitor;

/// Reads the front of a file until `enough` bytes are there or it ends; returns how many there are, at most as many as `space` has.
///
/// The place of the descriptor does not matter: a search for holes moves it.
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

/// Returns where the first hole starts, if that is in front of the end.
pub(super) fn first_hole(file: &OwnedFd, size: u64) -> Option<u64> {
    seek(file, SeekFrom::Hole(0)).ok().filter(|&hole| hole < size)
}

/// A file that is open for reading.
#[derive(Clone, Copy)]
pub(super) struct Opened<'a> {
    pub(super) place: u32,
    /// Device and inode, when it has several names.
    pub(super) identity: Option<(u64, u64)>,
    pub(super) name: &'a Name,
    pub(super) fd: &'a OwnedFd,
    /// Bytes it had when it was opened.
    pub(super) size: u64,
}

/// A large or sparse file in work.
pub(super) struct Stream<'a> {
    pub(super) file: &'a Opened<'a>,
    pub(super) sparse: bool,
    /// Digest of the whole in the making; dropped when holes make it too dear.
    pub(super) hasher: Option<blake3::Hasher>,
    pub(super) holes: u64,
}

impl Stream<'_> {
    /// Reads up to the size found at first; returns how many bytes there were.
    pub(super) fn read(&mut self, monitor: &dyn Monitor, outlet: &mut Outlet<Special>) -> Result<u64, Failed> {
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

    /// Returns where the next data behind `at` starts and ends; the end of the file twice when only a hole follows.
    fn next_data(&self, at: u64) -> (u64, u64) {
        let start = match seek(self.file.fd, SeekFrom::Data(at)) {
            Ok(start) => start.clamp(at, self.file.size),
            Err(Errno::NXIO) => return (self.file.size, self.file.size),
            Err(_) => return (at, self.file.size),
        };
        let end = seek(self.file.fd, SeekFrom::Hole(start)).map_or(self.file.size, |end| end.min(self.file.size));
        // A file that changes under our hands may answer nonsense.
        (start, if end > start { end } else { self.file.size })
    }

    fn hole(&mut self, len: u64, outlet: &mut Outlet<Special>) {
        outlet.push(self.file.place, self.file.identity, Item::Hole(len));
        self.holes = self.holes.saturating_add(len);
        if self.holes > HASHED_HOLES_MAX {
            self.hasher = None;
        }
        if let Some(hasher) = &mut self.hasher {
            hash_zeros(hasher, len);
        }
    }

    /// Reads and cuts bytes `start` to `end`; returns where it got to, less than `end` when the file ends before.
    fn data(&mut self, start: u64, end: u64, monitor: &dyn Monitor, outlet: &mut Outlet<Special>) -> Result<u64, Failed> {
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
            while cut < outlet.batch.filled
                && let Some(len) = next_piece(&outlet.batch.bytes[cut..outlet.batch.filled], ended)
            {
                let run = Run { start: cut, len };
                outlet.push(self.file.place, self.file.identity, Item::Cut(run));
                cut += len;
            }
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
    fn a_search_for_holes_does_not_move_what_is_read() {
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
