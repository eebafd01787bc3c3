//! What an archive tells of itself as a whole, of its commits, and of its damage.

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

/// What is known of an archive as a whole.
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
    /// Remarks on the state of the file: an unfinished append, an index that had to be rebuilt.
    pub remarks: Vec<String>,
    /// Keys that open an encrypted NRA 5 archive.
    pub keys: Vec<KeyInfo>,
    /// What restores damaged bytes.
    pub recovery: Option<Recovery>,
}

/// Recovery data of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Damage that it restores, in percent of the bytes that are protected.
    pub percent: u32,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Groups of bytes that are restored independently of each other.
    pub groups: u32,
}

/// One commit of an archive that keeps its history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitInfo {
    /// Number, counted from 1.
    pub number: u64,
    /// When it was made, if that is told.
    pub time: Option<Timestamp>,
    /// Message given by the user.
    pub message: String,
    /// Entries at that commit.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of the files, bytes.
    pub content_bytes: u64,
    /// Bytes by which it made the archive file longer.
    pub added_bytes: u64,
}

/// A run of content in a stored unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where the unit lies in the file, bytes.
    pub block: u64,
    /// Length of the unit after decompression, bytes.
    pub raw_bytes: u64,
    /// Length of the unit as stored, bytes.
    pub stored_bytes: u64,
    /// How it is compressed, if that could be read.
    pub codec: Option<Codec>,
    /// Where the run begins in the decompressed unit, bytes.
    pub offset: u64,
    /// Length of the run, bytes.
    pub len: u64,
}

/// A part of an index that is stored once, however many states of an archive refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPage {
    /// The archive it belongs to.
    pub archive_id: [u8; 16],
    /// Where it lies, bytes from the start of the file.
    pub offset: u64,
    /// Checksum of its header.
    pub check: u64,
    /// Numbers of the entries below it, in the state that refers to it.
    pub numbers: Range<u64>,
}

impl IndexPage {
    /// Says whether the entries below both are the same; their numbers need not be.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.archive_id, self.offset, self.check) == (other.archive_id, other.offset, other.check)
            && self.numbers.end - self.numbers.start == other.numbers.end - other.numbers.start
    }
}

/// How thorough [`Archive::verify`](super::Archive::verify) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Structures and checksums of everything stored, nothing decompressed.
    Quick,
    /// Also decompresses and compares digests.
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
    /// Entries that do not read because of it, or may read as what they are not (the first 1,000).
    pub entries: Vec<EntryPath>,
    /// How many there are.
    pub entry_count: u64,
    /// All of them are hurt. Otherwise it is one or more of them: they have one checksum together, and it is wrong.
    pub is_certain: bool,
}

impl Damage {
    /// Returns damage of which no entry is known yet that it hurts.
    pub fn new(structure: &str, offset: u64, detail: String) -> Self {
        Self { structure: structure.into(), offset, detail, entries: Vec::new(), entry_count: 0, is_certain: true }
    }
}

/// Verdict of [`Archive::verify`](super::Archive::verify).
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
    /// Whether recovery data can restore all that is damaged; `None` without recovery data.
    pub restorable: Option<bool>,
}
