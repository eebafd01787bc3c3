//! The reading contract of all containers: [`Archive`].
//!
//! Entries have numbers, from 0 in path order, so that a directory and all that lies below it is a range of numbers. Whatever is asked for
//! costs a few pages of the index, never a pass over all entries.

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

/// How a caller goes through an archive: what is read ahead of need depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Single entries: exactly the bytes of an entry are read where that is possible.
    #[default]
    Random,
    /// Most entries, in the order of [`Entry::position`]: whole blocks are read once and shared by their entries.
    Sequential,
}

/// A run of content, as [`Archive::with_content`] hands it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes, borrowed from a decoded block.
    Data(&'a [u8]),
    /// This many zero bytes that are not stored.
    Hole(u64),
}

/// Holes of one entry that are told, at most: a list of 16 MiB.
pub const MAX_HOLES: usize = 1 << 20;

/// Memory that [`Archive::read_all`] takes because an entry claims to be that long, bytes.
const UNASKED_BYTES: usize = 1 << 20;

/// An opened archive. Entries are numbered from 0 in path order.
pub trait Archive: Send + Sync {
    /// Returns what is known of the whole.
    fn info(&self) -> &Info;

    /// Says whether the index is damaged, so that entries had to be found in another way. May become true while the archive is read.
    fn is_index_damaged(&self) -> bool {
        false
    }

    /// Returns the format of the archive: [`Info::container`], which some archives know before the rest.
    fn container(&self) -> Container {
        self.info().container
    }

    /// Returns remarks on the state of the file: those of [`Info::remarks`] and what came to light since.
    fn remarks(&self) -> Vec<String> {
        self.info().remarks.clone()
    }

    /// Says whether something of the container is not served, such as an entry whose name means no place in an archive: the remarks tell what.
    fn skips_entries(&self) -> bool {
        false
    }

    /// Returns how many entries the container has beside those that are served, as far as that is known: of what
    /// [`skips_entries`](Self::skips_entries) says.
    fn skipped_entries(&self) -> u64 {
        0
    }

    /// Says whether reading most entries is for one thread at a time, in the order of [`Entry::position`]: anything else decodes again and again.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Says whether a part of the content costs what the part is long; where not, everything in front of it is decoded, too.
    fn reads_ranges(&self, entry: &Entry) -> bool {
        let _ = entry;
        true
    }

    /// Says whether the content of `entry` is encrypted by itself, so that a key shows to be missing or wrong only when it is read. An archive that
    /// opens with its key has no such entries.
    fn is_encrypted(&self, entry: &Entry) -> bool {
        let _ = entry;
        false
    }

    /// Returns the keys that opened an encrypted archive to which can be added; whoever does needs them.
    fn keyring(&self) -> Option<&Keyring> {
        None
    }

    /// Iterates over the commits from the one that is read back to the first; nothing for archives without history. An error is the last item.
    fn commits(&self) -> Box<dyn Iterator<Item = Result<CommitInfo>> + Send + '_> {
        Box::new(std::iter::empty())
    }

    /// Returns the reader behind this face, for those who know more of its container.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Says whether all names of a hard link have the same metadata and time; in other containers one of them may say it for all.
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

    /// Iterates over a range of numbers in path order, page by page. An error ends one page, not the iteration: what follows is still given. Where the
    /// index is damaged there may be more or fewer than the range has numbers: do not count them.
    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Returns the pages of the index whose first entry is `number`, the largest first. Nothing when the index has no pages, or they are not
    /// to be relied on.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn pages_at(&self, number: u64) -> Result<Vec<IndexPage>> {
        let _ = number;
        Ok(Vec::new())
    }

    /// Iterates over the direct children of a directory (`None` = the top), skipping over what lies below them.
    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Reads content of `entry` from `offset` into `buffer` and returns how many bytes that were; fewer than asked for only at the end of the content.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a checksum on the way is wrong; nothing is returned then.
    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Hands the whole content of `entry` to `sink`, run by run in order and without copying; holes are told, not filled.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a checksum on the way to a run is wrong; that run is not handed out, those before it were. Errors of `sink` end the work.
    fn with_content(&self, entry: &Entry, access: Access, sink: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<()>;

    /// Hands the part of the content of `entry` that lies in `range` to `sink`, as [`Archive::with_content`] does.
    ///
    /// # Errors
    ///
    /// As [`Archive::with_content`].
    fn with_range(
        &self,
        entry: &Entry,
        range: Range<u64>,
        access: Access,
        sink: &mut dyn FnMut(Part<'_>) -> Result<()>,
    ) -> Result<()> {
        let (mut at, mut is_over) = (0u64, false);
        let read = self.with_content(entry, access, &mut |part| {
            // Nothing behind the range is decoded; what ends with the content is read to the end, where its checksum may be.
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
    /// `Limit` when the content is longer, or than memory; otherwise as [`Archive::read_at`].
    fn read_all(&self, entry: &Entry, limit: u64) -> Result<Vec<u8>> {
        let too_long = || Error::Limit { what: "length of the content", found: entry.size, limit };
        let len = usize::try_from(entry.size).ok().filter(|_| entry.size <= limit).ok_or_else(too_long)?;
        if len <= UNASKED_BYTES {
            let mut content = vec![0; len];
            let read = self.read_at(entry, 0, &mut content)?;
            content.truncate(read);
            return Ok(content);
        }
        // What an entry claims takes no memory before it is there.
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

    /// Returns the parts of the content of `entry` that are zero bytes and not stored, in order, as [`Archive::with_content`] will tell them;
    /// no content is read for that. Nothing when the container has no holes, or this entry more of them than [`MAX_HOLES`].
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn holes(&self, entry: &Entry) -> Result<Vec<Range<u64>>> {
        let _ = entry;
        Ok(Vec::new())
    }

    /// Returns how many bytes of the container hold the content of `entry`: its share of the blocks that it lies in, each as stored. Content
    /// that entries have in common counts for each of them, what comes again in one of them once. `None` when the container does not say.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn stored_bytes(&self, entry: &Entry) -> Result<Option<u64>> {
        let _ = entry;
        Ok(None)
    }

    /// Returns the first runs, at most `most`, that the content of `entry` consists of, and how many there are; holes are left out. `None` when the
    /// container has nothing of the kind.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    fn runs(&self, entry: &Entry, most: usize) -> Result<Option<(Vec<Run>, u64)>> {
        let _ = (entry, most);
        Ok(None)
    }

    /// Returns what headers tell of the content of `entry`, or of the whole archive, where the container has a profile that says so. Content is not
    /// read beyond them, and checksums of it are not compared.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the header of the entry is damaged: content may read all the same. Otherwise as reading does.
    fn describe(&self, entry: Option<&Entry>) -> Result<Option<Description>> {
        let _ = entry;
        Ok(None)
    }

    /// Returns the digest of the whole content, computing it if the archive does not know it. `None` for entries that are not files.
    ///
    /// # Errors
    ///
    /// As reading does.
    fn digest(&self, entry: &Entry) -> Result<Option<crate::digest::Digest>>;

    /// Checks the archive, or the entries that `select` accepts and what they need.
    ///
    /// # Errors
    ///
    /// Only what keeps it from checking at all; damage is in the verdict.
    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict>;
}
