//! The reading face of all containers.

use std::ops::Range;

use crate::format::entry::{Attribute, Entry, Timestamp};
use crate::format::error::Result;
use crate::format::path::EntryPath;
use crate::format::progress::Monitor;

/// Sums over a range of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Entries.
    pub entries: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
}

/// What is known of an archive as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Info {
    /// Container and version, for people: `NRA 5`.
    pub format: String,
    /// Length of the archive file, bytes.
    pub archive_bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Bytes left after deduplication, before compression.
    pub piece_bytes: Option<u64>,
    /// Bytes of content as stored.
    pub stored_bytes: Option<u64>,
    /// Compressed units.
    pub blocks: Option<u64>,
    /// Deduplication units.
    pub pieces: Option<u64>,
    /// Content is encrypted.
    pub encrypted: bool,
    /// Identity of the archive.
    pub archive_id: Option<[u8; 16]>,
    /// Number of the commit that is read.
    pub commit: Option<u64>,
    /// Time of that commit.
    pub time: Option<Timestamp>,
    /// Its message.
    pub message: String,
    /// Attributes of the archive.
    pub attributes: Vec<Attribute>,
    /// Remarks on the state of the file: an unfinished append, an index that had to be rebuilt.
    pub remarks: Vec<String>,
}

/// How thorough [`Archive::verify`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Structures and checksums of everything stored, nothing decompressed.
    Quick,
    /// Also decompresses and compares digests.
    #[default]
    Full,
}

/// One finding of [`Archive::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Part of the format: `block payload`, `entry page`.
    pub structure: String,
    /// File offset.
    pub offset: u64,
    /// Expected and found.
    pub detail: String,
    /// Entries that do not read because of it (the first 1,000).
    pub entries: Vec<EntryPath>,
    /// How many there are.
    pub entry_count: u64,
}

/// Verdict of [`Archive::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Everything that is wrong.
    pub damage: Vec<Damage>,
    /// Entries checked.
    pub entries: u64,
    /// Content bytes checked.
    pub content_bytes: u64,
    /// Units checked.
    pub blocks: u64,
}

/// An opened archive. Entries are numbered from 0 in path order.
pub trait Archive: Send + Sync {
    /// Returns what is known of the whole.
    fn info(&self) -> &Info;

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

    /// Iterates over a range of numbers in path order, page by page. An error ends one page, not the iteration: what follows is still given.
    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Iterates over the direct children of a directory (`None` = the top), skipping over what lies below them.
    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_>;

    /// Reads content of `entry` from `offset` into `buffer` and returns how many bytes that were; fewer than asked for only at the end of the content.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a checksum on the way is wrong; nothing is returned then.
    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// Returns the digest of the whole content, computing it if the archive does not know it. `None` for entries that are not files.
    ///
    /// # Errors
    ///
    /// As reading does.
    fn digest(&self, entry: &Entry) -> Result<Option<crate::format::digest::Digest>>;

    /// Checks the archive, or the entries that `select` accepts and what they need.
    ///
    /// # Errors
    ///
    /// Only what keeps it from checking at all; damage is in the verdict.
    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict>;
}
