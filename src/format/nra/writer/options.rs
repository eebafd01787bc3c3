//! Options and statistics.

use crate::records::metadata::check_attributes;
use crate::writer::RUN_BYTES;
use nra_core::codec::{Compressor, Method};
use nra_core::crypt::Keyring;
use nra_core::entry::{Attribute, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::limits::{self, MAX_BLOCK_RAW, MAX_DICTIONARY, MAX_MESSAGE, MAX_PAGE_RAW};

/// When a block of compressible content is closed.
///
/// A random read pays for the stored bytes that it reads and the raw bytes that it decompresses.
/// Both are limited: content that compresses very well gets long blocks at no cost, text gets short
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPolicy {
    /// Least raw bytes of a block, except at the end of the content.
    pub min_raw_bytes: u32,
    /// Most raw bytes of a block, unless a single chunk is longer.
    pub max_raw_bytes: u32,
    /// Stored bytes at which a block is closed, approximately.
    pub stored_bytes: u32,
    /// Replaces `max_raw_bytes` for content that compresses very well and is cheap to read.
    pub max_cheap_bytes: u32,
}

/// Source of the zstd dictionary for small blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DictionaryPolicy {
    /// No dictionary.
    #[default]
    Never,
    /// Trained with the first content, and used if a test on that content shows a benefit.
    Auto,
    /// This dictionary, in the zstd dictionary format.
    Given(Vec<u8>),
}

/// Options of a writer.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Compression of content.
    pub method: Method,
    /// Length of blocks.
    pub block: BlockPolicy,
    /// Dictionary for compressible content.
    pub dictionary: DictionaryPolicy,
    /// Alignment of uncompressed content in the file, bytes: 0, 16, 32, 64 or 4,096.
    pub align: u32,
    /// Number of worker threads for compression, at least 1.
    pub threads: usize,
    /// Limit of the content that waits in memory, bytes. The index of the next commit is not
    /// counted.
    pub memory_bytes: u64,
    /// Derive the archive ID from the content, and record no time unless `time` is set.
    pub reproducible: bool,
    /// Time of the commit; `None` = now, or no time in a reproducible archive.
    pub time: Option<Timestamp>,
    /// Message of the commit, at most 65,535 bytes.
    pub message: String,
    /// Attributes of the archive, in any order.
    pub attributes: Vec<Attribute>,
    /// Keys. A new archive is encrypted with them; appending to an encrypted one needs its own
    /// ([`Archive::keyring`](nra_core::archive::Archive::keyring)). A reproducible encrypted
    /// archive has the same content, but never the same bytes.
    pub encryption: Option<Keyring>,
    /// Whether repeated paths are normal. A replaced entry is then a remark, not a loss.
    pub repeats: bool,
}

/// Longest block of a preset, bytes. Blocks do not extend over several buffers.
const LONGEST_BLOCK: u32 = 8 << 20;
const _: () = assert!(LONGEST_BLOCK as usize == *RUN_BYTES.end(), "blocks end where buffers end");

impl WriterOptions {
    /// Returns the preset that balances size, speed and the cost of random reads.
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

    /// Returns the preset for small archives: higher level, larger blocks.
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

    /// Returns the preset for fast random reads: small blocks with a dictionary.
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
    /// Reserves a part of the memory for a reader beside the writer. Returns it, bytes.
    pub fn share_memory(&mut self) -> u64 {
        let read_bytes = self.memory_bytes / 4;
        self.memory_bytes -= read_bytes;
        read_bytes
    }

    /// Checks that the options are consistent, and sorts the attributes.
    pub(super) fn check(&mut self) -> Result<()> {
        self.attributes.sort_unstable();
        let usage = |detail: String| Err(Error::usage(detail));
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
        limits::check("length of the message", self.message.len() as u64, MAX_MESSAGE as u64)?;
        let length: usize = self.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len() + 16).sum();
        limits::check("length of the attributes", length as u64, MAX_PAGE_RAW.into())?;
        check_attributes(&self.attributes).or_else(|detail| usage(format!("attributes of the archive: {detail}")))?;
        Compressor::new(self.method).map(|_| ())
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self::balanced()
    }
}

/// Statistics of the archive after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterStats {
    /// Number of the commit.
    pub commit: u64,
    /// Entries with new paths.
    pub added: u64,
    /// Entries that replaced others.
    pub replaced: u64,
    /// Entries that were removed or renamed.
    pub removed: u64,
    /// Entries in the archive.
    pub entries: u64,
    /// Files in the archive.
    pub files: u64,
    /// Sum of the sizes of all files, bytes.
    pub content_bytes: u64,
    /// Length of all chunks, after deduplication, bytes.
    pub chunk_bytes: u64,
    /// Stored content, bytes.
    pub stored_bytes: u64,
    /// Added content that was stored before, bytes.
    pub deduplicated_bytes: u64,
    /// Length of the archive, bytes.
    pub archive_bytes: u64,
    /// Length of the commit, bytes.
    pub added_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Added entries that were skipped at the end. A warning gave the reason for each.
    pub skipped: u64,
}
