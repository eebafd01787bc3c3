//! The reading contract of all containers: [`Archive`].
//!
//! Entries have numbers, from 0 in path order, so that a directory and all that lies below it is a range of numbers. A request
//! reads a few pages of the index, never all entries.

mod facts;
mod options;
mod stream;
#[cfg(test)]
mod tests;

pub use facts::{CommitInfo, Damage, Depth, IndexPage, Info, Recovery, Run, Totals, Verdict};
pub use options::OpenOptions;
pub use stream::{EntryReader, reader};

use std::any::Any;
use std::ops::Range;

use crate::container::Container;
use crate::crypt::Keyring;
use crate::description::Description;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::progress::Monitor;

/// The order in which a caller reads entries. It decides what is read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Single entries: only the bytes of an entry are read where possible.
    #[default]
    Random,
    /// Most entries, in the order of [`Entry::position`]: each block is read once and shared by its entries.
    Sequential,
}

/// A run of content, as [`Archive::with_content`] passes it to its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes, borrowed from a decoded block.
    Data(&'a [u8]),
    /// A hole of this length: zero bytes that are not stored.
    Hole(u64),
}

/// A receiver of content, part by part in order.
pub type ContentSink<'a> = &'a mut (dyn FnMut(Part<'_>) -> Result<()> + 'a);

/// Maximum number of holes that are reported for an entry: a list of 16 MiB.
pub const MAX_HOLES: usize = 1 << 20;

/// Memory that [`Archive::read_all`] allocates for a claimed length, bytes.
const MAX_CLAIMED_BYTES: usize = 1 << 20;

/// An opened archive. Entries are numbered from 0 in path order.
pub trait Archive: Send + Sync {
    /// Returns facts about the archive as a whole.
    fn info(&self) -> &Info;

    /// Returns whether the index is damaged, so that entries had to be found without it. May become true while the archive is read.
    fn is_index_damaged(&self) -> bool {
        false
    }

    /// Returns the format of the archive: [`Info::container`], without reading the rest of the index.
    fn container(&self) -> Container {
        self.info().container
    }

    /// Returns remarks on the state of the file: those of [`Info::remarks`] and later ones.
    fn remarks(&self) -> Vec<String> {
        self.info().remarks.clone()
    }

    /// Returns whether entries of the container are skipped, for example because of an invalid name. The remarks describe them.
    fn skips_entries(&self) -> bool {
        false
    }

    /// Returns the number of skipped entries, as far as it is known: see [`skips_entries`](Self::skips_entries).
    fn skipped_entries(&self) -> u64 {
        0
    }

    /// Returns whether the archive should be read by one thread at a time, in the order of [`Entry::position`]. Any other order decodes the same
    /// bytes repeatedly.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Returns whether reading a range costs only its length. Otherwise all preceding content is decoded, too.
    fn reads_ranges(&self, _entry: &Entry) -> bool {
        true
    }

    /// Returns whether the content of `entry` is encrypted individually, so that a missing or wrong key is detected only on reading. Archives that
    /// need a key to be opened have no such entries.
    fn is_encrypted(&self, _entry: &Entry) -> bool {
        false
    }

    /// Returns the unlocked keys of an encrypted archive. Appending to the archive requires them.
    fn keyring(&self) -> Option<&Keyring> {
        None
    }

    /// Iterates over the commits, from the one that is read back to the first. Empty for archives without history. An error ends the iteration.
    fn commits(&self) -> Box<dyn Iterator<Item = Result<CommitInfo>> + Send + '_> {
        Box::new(std::iter::empty())
    }

    /// Returns the concrete reader, for callers that depend on its container.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Returns whether all names of a hard link have the same metadata and time. In other containers, only one of them may have these.
    fn links_share_metadata(&self) -> bool {
        false
    }

    /// Returns the number of entries.
    fn entry_count(&self) -> u64 {
        self.info().entries
    }

    /// Returns an entry by number.
    ///
    /// # Errors
    ///
    /// As reading the index does; `Usage` when there is no such number.
    fn entry(&self, number: u64) -> Result<Entry>;

    /// Looks up a path and returns its number and entry, or `None`.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>>;

    /// Looks up a path and returns its entry: less work than [`find`](Self::find) where entries have no numbers of their own.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn find_entry(&self, path: &[u8]) -> Result<Option<Entry>> {
        Ok(self.find(path)?.map(|(_, entry)| entry))
    }

    /// Returns the numbers of `directory` itself and everything below it (an empty range if it does not exist). `None` = the whole archive.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>>;

    /// Sums up a range of numbers without touching the entries between its ends.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn totals(&self, range: Range<u64>) -> Result<Totals>;

    /// Iterates over a range of numbers in path order, page by page. An error ends a page, not the iteration. If the index is damaged, the number of
    /// entries can differ from the length of the range.
    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Returns the pages of the index whose first entry is `number`, the largest first. Empty if the index has no pages or is damaged.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn pages_at(&self, _number: u64) -> Result<Vec<IndexPage>> {
        Ok(Vec::new())
    }

    /// Iterates over the direct children of a directory (`None` = the top directory).
    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Reads content of `entry` from `offset` into `buffer` and returns the number of bytes, which is less than requested only at the end of the content.
    ///
    /// # Errors
    ///
    /// `Corrupt` on a checksum mismatch.
    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Passes the whole content of `entry` to `sink`, run by run in order and without copying. Holes are reported, not filled.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the checksum of a run does not match: `sink` has received the preceding runs. Errors of `sink` end the work.
    fn with_content(&self, entry: &Entry, access: Access, sink: ContentSink<'_>) -> Result<()>;

    /// Passes the content of `entry` in `range` to `sink`, as [`Archive::with_content`] does.
    ///
    /// # Errors
    ///
    /// As [`Archive::with_content`].
    fn with_range(&self, entry: &Entry, range: Range<u64>, access: Access, sink: ContentSink<'_>) -> Result<()> {
        let (mut at, mut is_over) = (0u64, false);
        let read = self.with_content(entry, access, &mut |part| {
            // Nothing after the range is decoded. A range up to the end of the content is read to its end, where a checksum may follow.
            if at >= range.end {
                is_over = true;
                return Err(Error::Cancelled);
            }
            let len = match part {
                Part::Data(bytes) => bytes.len() as u64,
                Part::Hole(len) => len,
            };
            let skip = range.start.saturating_sub(at).min(len);
            let keep = range.end.saturating_sub(at).min(len);
            at = at.saturating_add(len);
            if skip >= keep {
                return Ok(());
            }
            let within = |offset: u64| usize::try_from(offset).expect("no more than the length of a slice");
            match part {
                Part::Data(bytes) => sink(Part::Data(&bytes[within(skip)..within(keep)])),
                Part::Hole(_) => sink(Part::Hole(keep - skip)),
            }
        });
        if is_over { Ok(()) } else { read }
    }

    /// Reads the whole content of `entry`, at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// `Limit` if the content is longer than `limit` or than memory; otherwise as [`Archive::read_at`].
    fn read_all(&self, entry: &Entry, limit: u64) -> Result<Vec<u8>> {
        let too_long = || Error::Limit { what: "length of the content", found: entry.size, limit };
        let len = usize::try_from(entry.size).ok().filter(|_| entry.size <= limit).ok_or_else(too_long)?;
        if len <= MAX_CLAIMED_BYTES {
            let mut content = vec![0; len];
            let read = self.read_at(entry, 0, &mut content)?;
            content.truncate(read);
            return Ok(content);
        }
        // The claimed length is not allocated before the content arrives.
        let mut content = Vec::new();
        self.with_content(entry, Access::Random, &mut |part| {
            let more = match part {
                Part::Data(bytes) => bytes.len(),
                Part::Hole(len) => usize::try_from(len).map_err(|_| too_long())?,
            };
            let end = content.len().checked_add(more).filter(|&end| end <= len).ok_or_else(too_long)?;
            content.try_reserve(more).map_err(|_| too_long())?;
            match part {
                Part::Data(bytes) => content.extend_from_slice(bytes),
                Part::Hole(_) => content.resize(end, 0),
            }
            Ok(())
        })?;
        Ok(content)
    }

    /// Returns the holes of `entry` in order, without reading content. Empty if the container has no holes or the entry has more than
    /// [`MAX_HOLES`].
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn holes(&self, _entry: &Entry) -> Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    /// Returns the stored length of the content of `entry`: its share of each of its blocks. Content that several entries share counts for each of
    /// them; content that repeats within an entry counts once. `None` if the container does not record it.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn stored_bytes(&self, _entry: &Entry) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the first runs of the content of `entry`, at most `most`, and the number of all runs. Holes are excluded. `None` if the container
    /// does not divide content into runs.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn runs(&self, _entry: &Entry, _most: usize) -> Result<Option<(Vec<Run>, u64)>> {
        Ok(None)
    }

    /// Describes the content of `entry`, or the whole archive, from its headers if the container has a profile for it. Reads only headers and does
    /// not compare checksums of the content.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the header of the entry is damaged; its content may still be readable. Otherwise as reading does.
    fn describe(&self, _entry: Option<&Entry>) -> Result<Option<Description>> {
        Ok(None)
    }

    /// Returns the digest of the whole content, computing it if the archive does not store it. `None` for entries that are not files.
    ///
    /// # Errors
    ///
    /// As reading does.
    fn digest(&self, entry: &Entry) -> Result<Option<crate::digest::Digest>>;

    /// Verifies the archive, or the entries that `select` accepts and the structures that they depend on.
    ///
    /// # Errors
    ///
    /// Only what prevents the verification; damage is part of the verdict.
    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict>;
}
