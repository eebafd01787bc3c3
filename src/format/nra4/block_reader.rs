//! Reads blocks: checks their CRC-32, decrypts and decodes them.

use std::sync::Arc;

use zstd_safe::{InBuffer, OutBuffer};

use super::block_codec::{self, Dictionary, FrameDecoder};
use super::cipher::Cipher;
use super::manifest::{Block, BlockCodec, Chunk, MAX_BLOCK_RAW_LEN};
use nra_core::cache::DecodedCache;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Longest stored block that is decoded as a whole, bytes: incompressible content and some margin.
const MAX_BLOCK_STORED_LEN: u64 = MAX_BLOCK_RAW_LEN + (1 << 20);
/// Longest stored block on which a key is tried when an archive is opened, bytes.
const MAX_KEY_TRIAL_LEN: u64 = 8 << 20;
/// Usual raw length of a block, bytes.
const TYPICAL_BLOCK_LEN: u64 = 4 << 20;
/// Bytes read at a time from blocks that are not read as a whole.
const READ_LEN: usize = 1 << 20;

pub(super) struct BlockReader {
    source: Arc<dyn ReadAt>,
    cache: DecodedCache<u32, Arc<Vec<u8>>>,
    dictionary: Option<Dictionary>,
    encryption: Encryption,
}

/// How blocks are decrypted before they are decoded.
pub(super) enum Encryption {
    /// Blocks are not encrypted.
    None,
    /// Blocks are encrypted, and there is no usable key: the function returns the error.
    NoKey(fn() -> Error),
    /// Blocks are encrypted, and the user gave this key, which may be wrong.
    Key(Box<Cipher>),
}

impl BlockReader {
    pub(super) fn new(source: Arc<dyn ReadAt>, cache_bytes: u64, dictionary: Option<Dictionary>, encryption: Encryption) -> Self {
        let cache = DecodedCache::for_random_access(cache_bytes, TYPICAL_BLOCK_LEN).with_large_values();
        Self { source, cache, dictionary, encryption }
    }

    /// Returns whether the block can be decoded in memory up to the end of `chunk`, so that
    /// [`BlockReader::read`] returns the chunk. Otherwise [`BlockReader::stream_chunk`] does.
    pub(super) fn is_in_memory_range(block: &Block, chunk: &Chunk) -> bool {
        let end = chunk.inner_offset.checked_add(chunk.size);
        block.stored_len <= MAX_BLOCK_STORED_LEN && end.is_some_and(|end| end <= block.raw_len.into())
    }

    /// Returns the decoded content of a block up to the end of the last chunk that is in memory range.
    pub(super) fn read(&self, number: u32, block: &Block) -> Result<Arc<Vec<u8>>> {
        self.cache.get_or_decode(&number, || {
            let mut stored = vec![0; usize::try_from(self.checked_len(block)?).expect("at most 129 MiB")];
            self.source.read_exact_at(block.offset, &mut stored)?;
            compare_crc(block, crc32fast::hash(&stored))?;
            let len = usize::try_from(block.raw_len).expect("at most 128 MiB");
            let decode = |stored: &[u8]| block_codec::decode(block.codec, stored, len, self.dictionary.as_ref());
            let content = match &self.encryption {
                Encryption::None => decode(&stored).map_err(|detail| corrupt(block, detail)),
                Encryption::NoKey(error) => Err(error()),
                Encryption::Key(cipher) => match cipher.decrypt(&stored) {
                    Some(decrypted) => decode(&decrypted).map_err(|detail| corrupt(block, detail)),
                    // Earlier versions appended unencrypted blocks to encrypted archives.
                    None => decode(&stored).map_err(|_| Error::WrongKey),
                },
            };
            content.map(Arc::new)
        })
    }

    /// Returns whether blocks are encrypted and the key is missing or wrong.
    ///
    /// The key is tried on the shortest of `blocks`, if that is undamaged.
    pub(super) fn lacks_key(&self, blocks: &[Block]) -> bool {
        let cipher = match &self.encryption {
            Encryption::None => return false,
            Encryption::NoKey(_) => return true,
            Encryption::Key(cipher) => cipher,
        };
        let Some(block) =
            blocks.iter().min_by_key(|block| block.stored_len).filter(|block| block.stored_len <= MAX_KEY_TRIAL_LEN)
        else {
            return false;
        };
        let mut stored = Vec::new();
        let read = self.for_each_part(block, |part| {
            stored.extend_from_slice(part);
            Ok(true)
        });
        let is_undamaged = read.is_ok() && crc32fast::hash(&stored) == block.crc;
        // An unencrypted block does not show whether the key is right.
        let is_unencrypted =
            || block_codec::decode(block.codec, &stored, block.raw_len as usize, self.dictionary.as_ref()).is_ok();
        is_undamaged && cipher.decrypt(&stored).is_none() && !is_unencrypted()
    }

    /// Compares the CRC-32 of the stored bytes.
    pub(super) fn check_crc(&self, block: &Block) -> Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        self.for_each_part(block, |part| {
            hasher.update(part);
            Ok(true)
        })?;
        compare_crc(block, hasher.finalize())
    }

    /// Passes a range of a chunk to `sink` without decoding the block as a whole.
    ///
    /// Only files of more than 128 MiB in version 1 have chunks that need this.
    pub(super) fn stream_chunk(
        &self,
        block: &Block,
        chunk: &Chunk,
        range: std::ops::Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if block.codec == BlockCodec::Tagged || !matches!(self.encryption, Encryption::None) {
            let found = chunk.inner_offset.saturating_add(chunk.size);
            return Err(Error::Limit { what: "length of a block", found, limit: MAX_BLOCK_RAW_LEN });
        }
        // Earlier versions start a file in the second half of a block's content only if the file is short
        // and the stored block long. Anything else would cost more to decode than it contains.
        if chunk.inner_offset > chunk.size && block.stored_len <= MAX_BLOCK_STORED_LEN {
            return Err(Error::Limit { what: "offset in a block", found: chunk.inner_offset, limit: chunk.size });
        }
        self.check_crc(block)?;
        let (start, end) = (chunk.inner_offset.saturating_add(range.start), chunk.inner_offset.saturating_add(range.end));
        let mut at = 0u64;
        let mut pass_on = |bytes: &[u8]| {
            let within = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            let part = within(start)..within(end);
            at = at.saturating_add(bytes.len() as u64);
            if part.start < part.end {
                sink(&bytes[part])?;
            }
            Ok(at < end)
        };
        match block.codec {
            BlockCodec::None => self.for_each_part(block, pass_on),
            BlockCodec::Unknown => Err(corrupt(block, block_codec::UNSUPPORTED.into())),
            BlockCodec::Zstd | BlockCodec::Tagged => {
                let fail = |detail| corrupt(block, detail);
                let mut decoder = FrameDecoder::new(None).map_err(fail)?;
                let mut content = Vec::with_capacity(READ_LEN);
                self.for_each_part(block, |part| {
                    let mut input = InBuffer::around(part);
                    loop {
                        content.clear();
                        let mut output = OutBuffer::around(&mut content);
                        decoder.decode(&mut input, &mut output).map_err(fail)?;
                        let is_full = output.pos() == output.capacity();
                        if !pass_on(&content)? {
                            return Ok(false);
                        }
                        if !is_full {
                            return Ok(true);
                        }
                    }
                })
            }
        }
    }

    /// Passes the stored bytes of a block to `use_part` in parts, until it returns `false`.
    fn for_each_part(&self, block: &Block, mut use_part: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let end = block.offset + self.checked_len(block)?;
        let mut buffer = vec![0; READ_LEN.min(usize::try_from(block.stored_len).unwrap_or(READ_LEN))];
        let mut at = block.offset;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            self.source.read_exact_at(at, &mut buffer[..len])?;
            if !use_part(&buffer[..len])? {
                break;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Returns the stored length of a block, after checking that the block is within the file.
    fn checked_len(&self, block: &Block) -> Result<u64> {
        match block.offset.checked_add(block.stored_len) {
            Some(end) if end <= self.source.len() => Ok(block.stored_len),
            _ => {
                let len = self.source.len();
                Err(corrupt(block, format!("{} bytes at this offset are not within the file ({len} bytes)", block.stored_len)))
            }
        }
    }
}

fn compare_crc(block: &Block, found: u32) -> Result<()> {
    if found == block.crc {
        return Ok(());
    }
    Err(corrupt(block, format!("CRC-32 is {found:08x}, expected {:08x}", block.crc)))
}

fn corrupt(block: &Block, detail: String) -> Error {
    Error::corrupt("block", block.offset, detail)
}
