//! The bytes of the file. The last 64 KiB of the open commit are kept in memory.

use std::borrow::Cow;
use std::sync::Arc;

use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::start_len;
use crate::reader::damage::undamaged;
use crate::reader::decrypt::FrameDecryptor;
use crate::superblock::{CommitSlot, Superblock};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes read when a file is opened. The specification puts footer, commit and upper pages there.
const WINDOW: u64 = 64 << 10;

/// A source and the bytes at its end.
pub(super) struct Window {
    source: Arc<dyn ReadAt>,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    /// Decrypts the frames of an encrypted archive.
    decryptor: Option<FrameDecryptor>,
}

impl Window {
    /// Reads the last bytes of `source`, or all of it if it is shorter, with one read.
    pub(super) fn read(source: Arc<dyn ReadAt>) -> Result<Self> {
        let len = source.len();
        let (start, bytes) = last_bytes(&*source, len)?;
        Ok(Self { source, len, start, bytes, decryptor: None })
    }

    pub(super) fn source(&self) -> &dyn ReadAt {
        &*self.source
    }

    /// Returns the decryptor; `None` if frames are not sealed.
    pub(super) fn decryptor(&self) -> Option<&FrameDecryptor> {
        self.decryptor.as_ref()
    }

    pub(super) fn set_decryptor(&mut self, decryptor: FrameDecryptor) {
        self.decryptor = Some(decryptor);
    }

    /// Returns whether frames are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.decryptor.is_some()
    }

    /// Returns the length of the start of a frame, bytes.
    pub(super) fn start_len(&self) -> usize {
        start_len(self.is_sealed())
    }

    /// Moves the window to the bytes before `end`. Needs one read, or none if they are in memory.
    pub(super) fn move_to(&mut self, end: u64) -> Result<()> {
        let end = end.min(self.len);
        if self.start > 0 && self.start > end.saturating_sub(WINDOW) {
            (self.start, self.bytes) = last_bytes(&*self.source, end)?;
        }
        Ok(())
    }

    /// Returns the length of the file, bytes.
    pub(super) fn file_len(&self) -> u64 {
        self.len
    }

    /// Returns the first offset in memory.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns `len` bytes from `offset`, borrowed if they are in memory. `structure` names them in
    /// errors.
    pub(super) fn bytes(&self, structure: &'static str, offset: u64, len: usize) -> Result<Cow<'_, [u8]>> {
        self.check(structure, offset, len)?;
        if let Some(bytes) = self.in_memory(offset, len) {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; len];
        self.source.read_exact_at(offset, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    pub(super) fn array<const N: usize>(&self, structure: &'static str, offset: u64) -> Result<[u8; N]> {
        let mut array = [0; N];
        self.fill(structure, offset, &mut array)?;
        Ok(array)
    }

    pub(super) fn fill(&self, structure: &'static str, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(structure, offset, buffer.len())?;
        self.read_exact_at(offset, buffer)
    }

    /// Returns the superblock and its damaged commit slots, see [`Superblock::parse`].
    pub(super) fn superblock(&self) -> Result<(Superblock, Vec<usize>)> {
        Superblock::parse(&self.array("superblock", 0)?)
    }

    pub(super) fn footer_before(&self, end: u64) -> Result<Footer> {
        let offset = end.saturating_sub(FOOTER_LEN as u64);
        Footer::parse(&self.array("footer", offset)?, offset)
    }

    /// Returns the footer that the newest commit slot with an undamaged footer refers to.
    pub(super) fn footer_of_slots(&self, slots: [Option<CommitSlot>; 2]) -> Result<Option<Footer>> {
        let mut slots: Vec<CommitSlot> = slots.into_iter().flatten().filter(|slot| slot.end <= self.len).collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.number));
        for slot in slots {
            if let Some(footer) = undamaged(self.footer_before(slot.end))?
                && footer.number == slot.number
            {
                return Ok(Some(footer));
            }
        }
        Ok(None)
    }

    /// Rejects a range outside the file before memory is allocated for it.
    fn check(&self, structure: &'static str, offset: u64, len: usize) -> Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::corrupt(structure, offset, format!("{len} bytes expected, the file ends at {}", self.len))),
        }
    }

    fn in_memory(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

impl ReadAt for Window {
    fn len(&self) -> u64 {
        self.len
    }

    fn name(&self) -> &[u8] {
        self.source.name()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.in_memory(offset, buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => self.source.read_exact_at(offset, buffer)?,
        }
        Ok(())
    }
}

/// Reads the bytes before `end`, at most [`WINDOW`]. Returns them and their offset.
fn last_bytes(source: &dyn ReadAt, end: u64) -> Result<(u64, Vec<u8>)> {
    let start = end.saturating_sub(WINDOW);
    let mut bytes = vec![0; usize::try_from(end - start).expect("at most 64 KiB")];
    if !bytes.is_empty() {
        source.read_exact_at(start, &mut bytes)?;
    }
    Ok((start, bytes))
}
