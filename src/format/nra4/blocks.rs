//! From the place of a block to its content: read, checked, decrypted, decoded.

use std::sync::Arc;

use zstd_safe::{InBuffer, OutBuffer};

use super::block::{self, Dictionary, Stream};
use super::cipher::Cipher;
use super::manifest::{Block, Chunk, Coding, MAX_WHOLE};
use super::recent::Recent;
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Longest block as stored that is decoded as a whole, bytes: content that does not compress, and some more.
const MAX_STORED: u64 = MAX_WHOLE + (1 << 20);
/// Longest block as stored that a key is tried on before there is a need, bytes.
const MAX_TRIED: u64 = 8 << 20;
/// Bytes read at a time from blocks that are not read as a whole.
const STEP: usize = 1 << 20;

/// Blocks of an archive.
pub(super) struct Blocks {
    source: Arc<dyn ReadAt>,
    recent: Recent,
    dictionary: Option<Dictionary>,
    lock: Lock,
}

/// What must be done before a block is decoded.
pub(super) enum Lock {
    /// Blocks are not encrypted.
    None,
    /// They are, and the key is not known: the error says why.
    Locked(fn() -> Error),
    /// They are, and this is the key, or what was taken for it.
    Open(Box<Cipher>),
}

impl Blocks {
    pub(super) fn new(source: Arc<dyn ReadAt>, cache_bytes: u64, dictionary: Option<Dictionary>, lock: Lock) -> Self {
        Self { source, recent: Recent::new(cache_bytes), dictionary, lock }
    }

    /// Says whether `chunk` is to be had from [`Blocks::content`], not from [`Blocks::stream`].
    pub(super) fn is_within_reach(block: &Block, chunk: &Chunk) -> bool {
        let end = chunk.inner.checked_add(chunk.size);
        block.stored <= MAX_STORED && end.is_some_and(|end| end <= block.raw.into())
    }

    /// Returns the content of a block as far as its chunks need it, if they are within reach.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the checksum is wrong or it does not decode.
    pub(super) fn content(&self, number: u32, block: &Block) -> Result<Arc<Vec<u8>>> {
        self.recent.get(number, block.raw.into(), block.offset, || {
            let mut stored = vec![0; usize::try_from(self.within(block)?).expect("at most 129 MiB")];
            self.source.read_exact_at(block.offset, &mut stored)?;
            check_crc(block, crc32fast::hash(&stored))?;
            let len = usize::try_from(block.raw).expect("at most 128 MiB");
            let decode = |stored: &[u8]| block::decode(block.coding, stored, len, self.dictionary.as_ref());
            match &self.lock {
                Lock::None => decode(&stored).map_err(|detail| corrupt(block, detail)),
                Lock::Locked(why) => Err(why()),
                Lock::Open(cipher) => match cipher.open(&stored) {
                    Some(opened) => decode(&opened).map_err(|detail| corrupt(block, detail)),
                    // Earlier versions appended blocks in clear to encrypted archives, and could not read them then.
                    None => decode(&stored).map_err(|_| Error::WrongKey),
                },
            }
        })
    }

    /// Says whether there is no key, or one that does not open the shortest of `blocks`, as far as that is sound.
    pub(super) fn is_locked(&self, blocks: &[Block]) -> bool {
        let cipher = match &self.lock {
            Lock::None => return false,
            Lock::Locked(_) => return true,
            Lock::Open(cipher) => cipher,
        };
        let Some(block) = blocks.iter().min_by_key(|block| block.stored).filter(|block| block.stored <= MAX_TRIED) else {
            return false;
        };
        let mut stored = Vec::new();
        let read = self.each_piece(block, |piece| {
            stored.extend_from_slice(piece);
            Ok(true)
        });
        let sound = read.is_ok() && crc32fast::hash(&stored) == block.crc;
        // One that was appended in clear says nothing of the key.
        let clear = || block::decode(block.coding, &stored, block.raw as usize, self.dictionary.as_ref()).is_ok();
        sound && cipher.open(&stored).is_none() && !clear()
    }

    /// Compares the checksum of the stored bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` when it is wrong.
    pub(super) fn check(&self, block: &Block) -> Result<()> {
        let mut hasher = crc32fast::Hasher::new();
        self.each_piece(block, |piece| {
            hasher.update(piece);
            Ok(true)
        })?;
        check_crc(block, hasher.finalize())
    }

    /// Hands out a chunk that lies too far within its block for it to be decoded as a whole: only files of more than 128 MiB in version 1 do.
    ///
    /// # Errors
    ///
    /// As [`Blocks::content`]; `Limit` for blocks of 4.5.
    pub(super) fn stream(
        &self,
        block: &Block,
        chunk: &Chunk,
        range: std::ops::Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if block.coding == Coding::Tagged || !matches!(self.lock, Lock::None) {
            let found = chunk.inner.saturating_add(chunk.size);
            return Err(Error::Limit { what: "length of a block", found, limit: MAX_WHOLE });
        }
        // No file begins behind the first half of what a block holds with it, but for short ones in blocks that are long as they are stored.
        if chunk.inner > chunk.size && block.stored <= MAX_STORED {
            return Err(Error::Limit { what: "place in a block", found: chunk.inner, limit: chunk.size });
        }
        self.check(block)?;
        let (start, end) = (chunk.inner.saturating_add(range.start), chunk.inner.saturating_add(range.end));
        let mut at = 0u64;
        let mut give = |bytes: &[u8]| {
            let within = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
            let part = within(start)..within(end);
            at = at.saturating_add(bytes.len() as u64);
            if part.start < part.end {
                sink(&bytes[part])?;
            }
            Ok(at < end)
        };
        match block.coding {
            Coding::None => self.each_piece(block, give),
            Coding::Unknown => {
                Err(corrupt(block, block::decode(Coding::Unknown, &[], 0, None).expect_err("no version reads it")))
            }
            Coding::Zstd | Coding::Tagged => {
                let fail = |detail| corrupt(block, detail);
                let mut stream = Stream::new(None).map_err(fail)?;
                let mut content = Vec::with_capacity(STEP);
                self.each_piece(block, |piece| {
                    let mut input = InBuffer::around(piece);
                    loop {
                        content.clear();
                        let mut output = OutBuffer::around(&mut content);
                        stream.decode(&mut input, &mut output).map_err(fail)?;
                        let full = output.pos() == output.capacity();
                        if !give(&content)? {
                            return Ok(false);
                        }
                        if !full {
                            return Ok(true);
                        }
                    }
                })
            }
        }
    }

    /// Reads a block piece by piece, as long as `use_piece` wants more.
    fn each_piece(&self, block: &Block, mut use_piece: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let end = block.offset + self.within(block)?;
        let mut piece = vec![0; STEP.min(usize::try_from(block.stored).unwrap_or(STEP))];
        let mut at = block.offset;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
            self.source.read_exact_at(at, &mut piece[..len])?;
            if !use_piece(&piece[..len])? {
                break;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Returns the length of a block, which lies within the file.
    fn within(&self, block: &Block) -> Result<u64> {
        match block.offset.checked_add(block.stored) {
            Some(end) if end <= self.source.len() => Ok(block.stored),
            _ => {
                let len = self.source.len();
                Err(corrupt(block, format!("its {} bytes do not lie in a file of {len} bytes", block.stored)))
            }
        }
    }
}

fn check_crc(block: &Block, found: u32) -> Result<()> {
    if found == block.crc {
        return Ok(());
    }
    Err(corrupt(block, format!("its CRC-32 is {found:08x}, the manifest says {:08x}", block.crc)))
}

fn corrupt(block: &Block, detail: String) -> Error {
    Error::corrupt("block", block.offset, detail)
}
