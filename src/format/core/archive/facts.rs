//! Facts about an archive, its commits and its damage.

use std::ops::Range;

use crate::codec::Codec;
use crate::container::Container;
use crate::crypt::KeyInfo;
use crate::entry::{Attribute, Timestamp};
use crate::path::EntryPath;

/// Sums over a range of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Entries.
    pub entries: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
}

/// Facts about an archive as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// Format of the archive.
    pub container: Container,
    /// Length of the archive file, bytes.
    pub archive_bytes: u64,
    /// Entries.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Bytes left after deduplication, before compression.
    pub chunk_bytes: Option<u64>,
    /// Bytes of content as stored.
    pub stored_bytes: Option<u64>,
    /// Compressed units.
    pub blocks: Option<u64>,
    /// Deduplication units.
    pub chunks: Option<u64>,
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
    /// Remarks on the state of the file, such as an unfinished append or a rebuilt index.
    pub remarks: Vec<String>,
    /// Keys that open an encrypted NRA 5 archive.
    pub keys: Vec<KeyInfo>,
    /// Recovery data.
    pub recovery: Option<Recovery>,
}

/// Recovery data of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Damage that can be restored, in percent of the protected bytes.
    pub percent: u32,
    /// Length of the recovery data, bytes.
    pub bytes: u64,
    /// Number of groups, which are restored independently.
    pub groups: u32,
}

/// One commit of an archive that keeps its history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitInfo {
    /// Number, counted from 1.
    pub number: u64,
    /// Time of the commit, if recorded.
    pub time: Option<Timestamp>,
    /// Message given by the user.
    pub message: String,
    /// Entries at that commit.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Bytes by which it extended the archive file.
    pub added_bytes: u64,
}

/// A run of content in a stored block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Offset of the block in the file, bytes.
    pub block: u64,
    /// Length of the block after decompression, bytes.
    pub raw_bytes: u64,
    /// Length of the block as stored, bytes.
    pub stored_bytes: u64,
    /// Compression of the block, if its header could be read.
    pub codec: Option<Codec>,
    /// Offset of the run in the decompressed block, bytes.
    pub offset: u64,
    /// Length of the run, bytes.
    pub len: u64,
}

/// A page of the index. Several commits can share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPage {
    /// Identity of the archive.
    pub archive_id: [u8; 16],
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Header checksum.
    pub header_checksum: u64,
    /// Numbers of the entries below it, in the commit that refers to it.
    pub numbers: Range<u64>,
}

impl IndexPage {
    /// Returns whether the entries below both pages are the same. Their numbers can differ.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.archive_id, self.offset, self.header_checksum) == (other.archive_id, other.offset, other.header_checksum)
            && self.numbers.end - self.numbers.start == other.numbers.end - other.numbers.start
    }
}

/// Depth of [`Archive::verify`](super::Archive::verify).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Checks structures and checksums of all stored bytes without decompressing them.
    Quick,
    /// Also decompresses content and compares digests.
    #[default]
    Full,
}

/// One finding of [`Archive::verify`](super::Archive::verify).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Part of the format: `block payload`, `entry page`.
    pub structure: String,
    /// File offset.
    pub offset: u64,
    /// Expected and found.
    pub detail: String,
    /// Affected entries: unreadable, or possibly with wrong content (the first 1,000).
    pub entries: Vec<EntryPath>,
    /// Number of affected entries.
    pub entry_count: u64,
    /// All of them are damaged. Otherwise they share a checksum that does not match, and at least one of them is.
    pub is_certain: bool,
}

impl Damage {
    /// Returns damage without affected entries.
    pub fn new(structure: &str, offset: u64, detail: String) -> Self {
        Self { structure: structure.into(), offset, detail, entries: Vec::new(), entry_count: 0, is_certain: true }
    }
}

/// Result of [`Archive::verify`](super::Archive::verify).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// All damage.
    pub damage: Vec<Damage>,
    /// Entries checked.
    pub entries: u64,
    /// Content bytes checked.
    pub content_bytes: u64,
    /// Blocks checked.
    pub blocks: u64,
    /// Whether recovery data can restore all damage; `None` without recovery data.
    pub restorable: Option<bool>,
}
