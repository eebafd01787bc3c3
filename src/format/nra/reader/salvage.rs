//! Opening the remains of an archive: with foreign bytes before it, without its first bytes, and
//! with entries after the last commit.
//!
//! All checksums depend on offsets within the archive, so its start is found first: by a superblock
//! somewhere in the file, or by the footer at its end.
//!
//! Spec: nra.md, section 22.

use std::sync::Arc;

use crate::footer::{FOOTER_LEN, FOOTER_MAGIC, Footer};
use crate::frame::ALIGNMENT;
use crate::layout::SUPERBLOCK_LEN;
use crate::layout::footer as field;
use crate::reader::damage::{is_damage, undamaged};
use crate::reader::frame_walk::FrameWalk;
use crate::reader::recorded_entries::RecordedEntries;
use crate::reader::scan::Scan;
use crate::reader::{NraReader, Root, lost_commit_error};
use crate::superblock::{MAGIC, Superblock, VERSION};
use nra_core::archive::{Access, Archive, OpenOptions};
use nra_core::entry::{Entry, Kind};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Bytes per read in search of a superblock.
const STRIDE: usize = 1 << 20;
/// How far from the start of the file a superblock is searched, bytes.
const SUPERBLOCK_SEARCH: u64 = 1 << 30;

/// Opens the remains of an archive. Also returns the offset in the file at which the archive
/// starts; it is negative if bytes are missing.
///
/// Readable entries after the newest commit are included. They belong to a lost commit or an
/// unfinished append.
///
/// # Errors
///
/// As [`NraReader::open`] if no entry can be found in any way.
pub fn open_for_salvage(source: Arc<dyn ReadAt>, options: &OpenOptions) -> Result<(NraReader, i64)> {
    let options = OpenOptions { recover: true, ..options.clone() };
    let cause = match NraReader::open(Arc::clone(&source), &options) {
        Err(error) if is_damage(&error) || matches!(error, Error::Unsupported { .. }) => error,
        opened => return Ok((opened?.with_trailing_entries()?, 0)),
    };
    for base in [base_from_footer(&*source)?, base_from_superblock(&*source)?].into_iter().flatten().filter(|&base| base != 0) {
        match NraReader::open(Arc::new(Shifted { inner: Arc::clone(&source), base }), &options) {
            Err(error) if is_damage(&error) => {}
            opened => return Ok((opened?.with_trailing_entries()?, base)),
        }
    }
    Err(cause)
}

impl NraReader {
    /// Includes the entries after the newest commit.
    fn with_trailing_entries(mut self) -> Result<Self> {
        let Some((number, end)) = self.commit.as_ref().map(|(commit, end)| (commit.number, *end)) else { return Ok(self) };
        if !self.lost_later {
            // The footer at the end of the file leads to its commit without the superblock.
            let superblock = self.window.superblock();
            if let Some(error) = superblock.ok().and_then(|(superblock, _)| lost_commit_error(superblock.slots, number)) {
                self.info.remarks.push(format!("{error}; commit {number} is the newest intact commit"));
                (self.lost_later, self.recovered) = (true, true);
            }
        }
        if self.trailing_remark.is_none() {
            return Ok(self);
        }
        // If there are more records than possible, only the entries of the commit are returned.
        let Some((entries, found, unreadable)) = undamaged(self.merged(end))?.flatten() else { return Ok(self) };
        let files = entries.iter().filter(|entry| entry.kind == Kind::File);
        self.info.entries = entries.len() as u64;
        self.info.files = files.clone().count() as u64;
        self.info.content_bytes = files.fold(0, |sum, file| file.size.saturating_add(sum));
        let entry = if found == 1 { "1 entry was" } else { &format!("{found} entries were") };
        self.info.remarks.push(format!(
            "{entry} found after commit {number}; entries removed or renamed there also appear under their former names"
        ));
        if unreadable > 0 {
            self.info.remarks.push(format!("{unreadable} parts of the index are unreadable; entries may be missing"));
        }
        self.root = Root::of_entries(Arc::new(entries));
        (self.commit, self.recovered) = (None, true);
        Ok(self)
    }

    /// Returns the entries of the commit merged with those after `end`, or `None` if none of the
    /// latter is readable. Also returns the number of entries found after `end`, and the number of
    /// unreadable parts of the index of the commit.
    fn merged(&self, end: u64) -> Result<Option<(Vec<Entry>, usize, u64)>> {
        let walk = FrameWalk::from(&self.window, end.next_multiple_of(ALIGNMENT));
        let behind = Scan::gather(&self.window, walk, self.memory)?;
        let mut whole = Vec::new();
        for entry in behind.entries.iter().filter(|entry| !entry.implied) {
            // The commit may have an earlier version of a damaged entry.
            if undamaged(self.with_content(entry, Access::Sequential, &mut |_| Ok(())))?.is_some() {
                whole.push(entry.clone());
            }
        }
        if whole.is_empty() {
            return Ok(None);
        }
        let (found, mut unreadable) = (whole.len(), 0);
        let mut all = RecordedEntries::new(self.window.file_len(), self.memory);
        for entry in self.entries(0..self.info.entries) {
            match undamaged(entry)? {
                Some(entry) => all.add(std::iter::once(entry))?,
                None => unreadable += 1,
            }
        }
        all.add(whole.into_iter())?;
        Ok(Some((all.finish()?.0, found, unreadable)))
    }
}

/// Finds the start of the archive if the file ends with its footer.
fn base_from_footer(source: &dyn ReadAt) -> Result<Option<i64>> {
    let Some(place) = source.len().checked_sub(FOOTER_LEN as u64) else { return Ok(None) };
    let mut bytes = [0; FOOTER_LEN];
    source.read_exact_at(place, &mut bytes)?;
    if field::MAGIC.get(&bytes) != FOOTER_MAGIC {
        return Ok(None);
    }
    let offset: u64 = field::COMMIT_OFFSET.number(&bytes);
    let Some(own) = offset.checked_add(field::COMMIT_LENGTH.number(&bytes)).filter(|&own| Footer::parse(&bytes, own).is_ok())
    else {
        return Ok(None);
    };
    let (Ok(place), Ok(own)) = (i64::try_from(place), i64::try_from(own)) else { return Ok(None) };
    Ok(Some(place - own))
}

/// Finds the first valid superblock in the file.
fn base_from_superblock(source: &dyn ReadAt) -> Result<Option<i64>> {
    let len = source.len();
    let last = len.saturating_sub(SUPERBLOCK_LEN as u64).min(SUPERBLOCK_SEARCH);
    let mut from = 0;
    while from <= last && len >= SUPERBLOCK_LEN as u64 {
        let take = usize::try_from(len - from).unwrap_or(usize::MAX).min(STRIDE + SUPERBLOCK_LEN);
        let mut bytes = vec![0; take];
        source.read_exact_at(from, &mut bytes)?;
        let found = bytes.windows(SUPERBLOCK_LEN).position(|window| {
            let is_start = window.starts_with(&MAGIC) && window[MAGIC.len()..].starts_with(&VERSION.to_le_bytes());
            is_start && window.first_chunk().is_some_and(|superblock| Superblock::parse(superblock).is_ok())
        });
        if let Some(at) = found {
            return Ok(i64::try_from(from + at as u64).ok());
        }
        from += STRIDE as u64;
    }
    Ok(None)
}

/// A source as if the archive started at offset 0.
struct Shifted {
    inner: Arc<dyn ReadAt>,
    /// Start of the archive in `inner`. If negative, the missing bytes read as zeros.
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
