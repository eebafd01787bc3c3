//! Opening what is left of an archive: also with bytes in front of it, or without its own first bytes, and with what lies behind the last
//! commit.
//!
//! Spec: nra.md, section 22. All checksums depend on the place in the archive, so the place has to be found first: by a head somewhere in the
//! file, or by a tail at its end, which tells where it lies.

use std::sync::Arc;

use crate::frame::ALIGNMENT;
use crate::head::{Head, MAGIC, TAIL_LEN, TAIL_MAGIC, Tail, VERSION};
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::footer as field;
use crate::reader::damage::is_damage;
use crate::reader::gather::Gathered;
use crate::reader::scan::Scan;
use crate::reader::tree::{Leaf, Node};
use crate::reader::walk::Walk;
use crate::reader::{NraReader, Root, lost_commit};
use nra_core::archive::{Access, Archive, OpenOptions};
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// How much is read at once in search of a head, bytes.
const STRIDE: usize = 1 << 20;
/// How far behind the start of the file a head is looked for, bytes.
const HEAD_SEARCH: u64 = 1 << 30;

/// Opens what is left of an archive, and tells by how many bytes it begins behind the start of the file (less than 0: so many are missing).
///
/// Entries behind the newest commit that is left are taken up where their content reads: those of a later commit that is lost, or of one that did not finish.
///
/// # Errors
///
/// As [`NraReader::open`] when no entry can be found in any way.
pub fn open_remains(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<(NraReader, i64)> {
    let options = OpenOptions { recover: true, ..options.clone() };
    let cause = match NraReader::open(Arc::clone(&source), &options) {
        Err(error) if is_damage(&error) || matches!(error, Error::Unsupported { .. }) => error,
        opened => return Ok((opened?.with_remains()?, 0)),
    };
    for base in [base_by_tail(&*source)?, base_by_head(&*source)?].into_iter().flatten().filter(|&base| base != 0) {
        match NraReader::open(Arc::new(Shifted { inner: Arc::clone(&source), base }), &options) {
            Err(error) if is_damage(&error) => {}
            opened => return Ok((opened?.with_remains()?, base)),
        }
    }
    Err(cause)
}

impl NraReader {
    /// Takes up what is behind the newest commit.
    fn with_remains(mut self) -> Result<Self> {
        let Some((number, end)) = self.state.as_ref().map(|(commit, end)| (commit.number, *end)) else { return Ok(self) };
        if !self.lost_later {
            // A tail at the end of the file leads to its commit without a look at the head.
            let head = self.window.array::<SUPERBLOCK_LEN>("head", 0).and_then(|bytes| Head::parse(&bytes));
            if let Some(error) = head.ok().and_then(|(head, _)| lost_commit(head.slots, number)) {
                self.info.remarks.push(format!("{error}; commit {number} is the newest one left"));
                (self.lost_later, self.recovered) = (true, true);
            }
        }
        if self.remains.is_none() {
            return Ok(self);
        }
        let Merged { entries, found, unreadable } = match self.merged(end) {
            Ok(Some(merged)) => merged,
            Ok(None) => return Ok(self),
            // More than there can be: then what the commit has is all there is.
            Err(error) if is_damage(&error) => return Ok(self),
            Err(error) => return Err(error),
        };
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        self.info.entries = entries.len() as u64;
        self.info.files = files.clone().count() as u64;
        self.info.content_bytes = files.fold(0, |sum, file| file.size.saturating_add(sum));
        let entry = if found == 1 { "1 entry was" } else { &format!("{found} entries were") };
        self.info
            .remarks
            .push(format!("{entry} found behind commit {number}; what was removed or renamed there has its former name too"));
        if unreadable > 0 {
            self.info.remarks.push(format!("{unreadable} parts of the index do not read; entries may be missing"));
        }
        self.root = Root::Whole(Arc::new(Node::Leaf(Leaf::shared(Arc::new(entries)))));
        (self.state, self.recovered) = (None, true);
        Ok(self)
    }

    /// Returns the entries of the state with those behind `end`; `None` when there are none of these that read.
    fn merged(&self, end: u64) -> Result<Option<Merged>> {
        let walk = Walk::from(&self.window, end.next_multiple_of(ALIGNMENT));
        let behind = Scan::gather(&self.window, walk, self.memory)?;
        let mut whole = Vec::new();
        for entry in behind.entries.iter().filter(|entry| !entry.implied) {
            match self.with_content(entry, Access::Sequential, &mut |_| Ok(())) {
                Ok(()) => whole.push(entry.clone()),
                // The state may have an earlier version.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if whole.is_empty() {
            return Ok(None);
        }
        let (found, mut unreadable) = (whole.len(), 0);
        let mut all = Gathered::new(self.window.file_len(), self.memory);
        for entry in self.entries(0..self.info.entries) {
            match entry {
                Ok(entry) => all.add(std::iter::once(entry))?,
                Err(error) if is_damage(&error) => unreadable += 1,
                Err(error) => return Err(error),
            }
        }
        all.add(whole.into_iter())?;
        Ok(Some(Merged { entries: all.finish()?.0, found, unreadable }))
    }
}

/// Entries of a state, and of what lies behind it.
struct Merged {
    entries: Vec<Entry>,
    /// How many lie behind it.
    found: usize,
    /// Parts of the index of the state that do not read.
    unreadable: usize,
}

/// Finds where the archive begins if the file ends with its tail.
fn base_by_tail(source: &dyn ReadAt) -> Result<Option<i64>> {
    let Some(place) = source.len().checked_sub(TAIL_LEN as u64) else { return Ok(None) };
    let mut bytes = [0; TAIL_LEN];
    source.read_exact_at(place, &mut bytes)?;
    if field::MAGIC.get(&bytes) != TAIL_MAGIC {
        return Ok(None);
    }
    let offset = u64::from_le_bytes(field::COMMIT_OFFSET.get(&bytes));
    let length = u64::from_le_bytes(field::COMMIT_LENGTH.get(&bytes));
    let Some(own) = offset.checked_add(length).filter(|&own| Tail::parse(&bytes, own).is_ok()) else { return Ok(None) };
    let (Ok(place), Ok(own)) = (i64::try_from(place), i64::try_from(own)) else { return Ok(None) };
    Ok(Some(place - own))
}

/// Finds the first valid head in the file.
fn base_by_head(source: &dyn ReadAt) -> Result<Option<i64>> {
    let len = source.len();
    let last = len.saturating_sub(SUPERBLOCK_LEN as u64).min(HEAD_SEARCH);
    let mut from = 0;
    while from <= last && len >= SUPERBLOCK_LEN as u64 {
        let take = usize::try_from(len - from).unwrap_or(usize::MAX).min(STRIDE + SUPERBLOCK_LEN);
        let mut bytes = vec![0; take];
        source.read_exact_at(from, &mut bytes)?;
        let found = bytes.windows(SUPERBLOCK_LEN).position(|window| {
            let is_start = window.starts_with(&MAGIC) && window[MAGIC.len()..].starts_with(&VERSION.to_le_bytes());
            is_start && window.first_chunk().is_some_and(|head| Head::parse(head).is_ok())
        });
        if let Some(at) = found {
            return Ok(i64::try_from(from + at as u64).ok());
        }
        from += STRIDE as u64;
    }
    Ok(None)
}

/// A source as it would be if the archive began at its start.
struct Shifted {
    inner: Arc<dyn ReadAt>,
    /// Where the archive begins in `inner`; less than 0: bytes that are missing, which read as zeros.
    base: i64,
}

impl ReadAt for Shifted {
    fn len(&self) -> u64 {
        let moved = i128::from(self.inner.len()) - i128::from(self.base);
        u64::try_from(moved.max(0)).unwrap_or(u64::MAX)
    }

    fn name(&self) -> &[u8] {
        self.inner.name()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let missing = if self.base < 0 { self.base.unsigned_abs().saturating_sub(offset) } else { 0 };
        let missing = usize::try_from(missing).unwrap_or(usize::MAX).min(buffer.len());
        let (zeros, rest) = buffer.split_at_mut(missing);
        zeros.fill(0);
        if rest.is_empty() {
            return Ok(());
        }
        let place = offset.saturating_add(missing as u64).saturating_add_signed(self.base);
        self.inner.read_exact_at(place, rest)
    }
}
