//! What a caller chooses, and what it is told at the end.

use crate::records::metadata::check_attributes;
use crate::writer::RUN_BYTES;
use nra_core::codec::{Compressor, Method};
use nra_core::crypt::Keyring;
use nra_core::entry::{Attribute, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::limits::{MAX_BLOCK_RAW, MAX_DICTIONARY, MAX_MESSAGE, MAX_PAGE_RAW};

/// When a block of compressible content is closed.
///
/// A random read pays for the stored bytes it fetches and the raw bytes it decompresses, so both are bounded: content that
/// shrinks a lot gets long blocks for nothing, text gets short ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPolicy {
    /// No block is closed with fewer raw bytes than this, unless the content ends.
    pub min_raw_bytes: u32,
    /// No block gets more raw bytes than this, unless a single piece is longer.
    pub max_raw_bytes: u32,
    /// A block is closed once it has about this many stored bytes.
    pub stored_bytes: u32,
    /// Bound in place of `max_raw_bytes` for content that shrinks to a small part, which costs little to read.
    pub max_cheap_bytes: u32,
}

/// Where the zstd dictionary of small blocks comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DictionaryPolicy {
    /// No dictionary.
    #[default]
    Never,
    /// Trained from the first content, and kept if a test on that content says that it pays.
    Auto,
    /// This one, in the zstd dictionary format.
    Given(Vec<u8>),
}

/// How an archive is written.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Compression of content.
    pub method: Method,
    /// Size of blocks.
    pub block: BlockPolicy,
    /// Dictionary for compressible content.
    pub dictionary: DictionaryPolicy,
    /// Alignment of raw content in the file, bytes: 0, 16, 32, 64 or 4,096.
    pub align: u32,
    /// Worker threads that compress, 1 or more.
    pub threads: usize,
    /// Bound of the content that waits in memory, bytes. The index in the making comes on top.
    pub memory_bytes: u64,
    /// Derive the archive id from the content, and record no time unless `time` is given.
    pub reproducible: bool,
    /// Time of the commit; `None` = now (or none in a reproducible archive).
    pub time: Option<Timestamp>,
    /// Message of the commit, up to 65,535 bytes.
    pub message: String,
    /// Attributes of the archive, in any order.
    pub attributes: Vec<Attribute>,
    /// Keys: a new archive is encrypted with them; to an encrypted one nothing can be added without its own
    /// ([`Archive::keyring`](nra_core::archive::Archive::keyring)). A reproducible archive that is encrypted has the same
    /// content, but never the same bytes.
    pub encryption: Option<Keyring>,
    /// Several entries of one path are nothing unusual: that the last one holds is a remark, not a loss.
    pub repeats: bool,
}

/// Longest block of a preset, bytes: a run, since no block reaches into the next one.
const LONGEST_BLOCK: u32 = 8 << 20;
const _: () = assert!(LONGEST_BLOCK as usize == *RUN_BYTES.end(), "blocks end where runs end");

impl WriterOptions {
    /// Balances size, speed and the cost of a random read.
    pub fn balanced() -> Self {
        Self {
            method: Method::zstd(3),
            block: BlockPolicy {
                min_raw_bytes: 256 << 10,
                max_raw_bytes: 4 << 20,
                stored_bytes: 96 << 10,
                max_cheap_bytes: LONGEST_BLOCK,
            },
            dictionary: DictionaryPolicy::Never,
            align: 0,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: 256 << 20,
            reproducible: false,
            time: None,
            message: String::new(),
            attributes: Vec::new(),
            encryption: None,
            repeats: false,
        }
    }

    /// Favours size: higher level, larger blocks.
    pub fn dense() -> Self {
        Self {
            method: Method::zstd(6),
            block: BlockPolicy {
                min_raw_bytes: 256 << 10,
                max_raw_bytes: LONGEST_BLOCK,
                stored_bytes: 512 << 10,
                max_cheap_bytes: LONGEST_BLOCK,
            },
            ..Self::balanced()
        }
    }

    /// Favours random reads: small blocks with a dictionary.
    pub fn random() -> Self {
        Self {
            block: BlockPolicy {
                min_raw_bytes: 64 << 10,
                max_raw_bytes: 256 << 10,
                stored_bytes: 8 << 10,
                max_cheap_bytes: LONGEST_BLOCK,
            },
            dictionary: DictionaryPolicy::Auto,
            ..Self::balanced()
        }
    }
}

impl WriterOptions {
    /// Takes the part of the memory away that reading gets beside the writer, and returns it, bytes.
    pub fn share_memory(&mut self) -> u64 {
        let read_bytes = self.memory_bytes / 4;
        self.memory_bytes -= read_bytes;
        read_bytes
    }

    /// Checks that they make sense together, and sorts the attributes.
    pub(super) fn check(&mut self) -> Result<()> {
        self.attributes.sort_unstable();
        let usage = |detail: String| Err(Error::Usage { detail });
        if ![0, 1, 16, 32, 64, 4096].contains(&self.align) {
            return usage(format!("alignment of {} bytes (possible: 0, 16, 32, 64, 4096)", self.align));
        }
        let block = &self.block;
        if block.min_raw_bytes == 0
            || block.min_raw_bytes > block.max_raw_bytes
            || block.max_raw_bytes.max(block.max_cheap_bytes) > MAX_BLOCK_RAW
        {
            return usage(format!("blocks of {} to {} bytes", block.min_raw_bytes, block.max_raw_bytes));
        }
        if let DictionaryPolicy::Given(bytes) = &self.dictionary
            && bytes.len() > MAX_DICTIONARY as usize
        {
            return usage(format!("a dictionary of {} bytes (at most {MAX_DICTIONARY})", bytes.len()));
        }
        if self.message.len() > MAX_MESSAGE {
            let found = self.message.len() as u64;
            return Err(Error::Limit { what: "length of the message", found, limit: MAX_MESSAGE as u64 });
        }
        let length: usize = self.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len() + 16).sum();
        if length > MAX_PAGE_RAW as usize {
            let limit = MAX_PAGE_RAW.into();
            return Err(Error::Limit { what: "length of the attributes", found: length as u64, limit });
        }
        check_attributes(&self.attributes).or_else(|detail| usage(format!("attributes of the archive: {detail}")))?;
        Compressor::new(self.method).map(|_| ())
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self::balanced()
    }
}

/// What was written: sums over the archive as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Number of the commit.
    pub commit: u64,
    /// Entries with paths that were not there before.
    pub added: u64,
    /// Entries that took the place of others.
    pub replaced: u64,
    /// Entries that were removed or renamed.
    pub removed: u64,
    /// Entries in the archive.
    pub entries: u64,
    /// Entries of kind file.
    pub files: u64,
    /// Sum of the sizes of all files, bytes.
    pub content_bytes: u64,
    /// Bytes left after deduplication.
    pub piece_bytes: u64,
    /// Bytes of content as stored.
    pub stored_bytes: u64,
    /// Bytes of content that were stored already when they came.
    pub deduplicated_bytes: u64,
    /// Length of the archive, bytes.
    pub archive_bytes: u64,
    /// Bytes of it that the commit takes.
    pub added_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Pieces.
    pub pieces: u64,
    /// Entries that were given to the writer and left out at the end; a warning said why for each.
    pub left_out: u64,
}
