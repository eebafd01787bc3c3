//! The older form of lz4 files: blocks of 8 MiB with their lengths, up to the end of the file.

use super::Input;
use super::decoder::TRUNCATED;
use nra_core::error::{Error, Result};

/// First bytes of a frame.
pub(super) const MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
/// Length of a decoded block, bytes; the last one may be shorter.
const BLOCK: usize = 8 << 20;
/// Most bytes that a block is stored in: what does not compress grows by this much.
const MAX_STORED: u32 = (BLOCK + BLOCK / 255 + 16) as u32;

/// Decodes one frame behind its first bytes.
#[derive(Default)]
pub(super) struct Legacy {
    stored: Vec<u8>,
    /// Room for a block.
    content: Vec<u8>,
    /// Bytes of it that are there, and those of them that were given.
    len: usize,
    given: usize,
}

impl Legacy {
    /// Gives the next bytes; 0 where the frame ends, at the end of the input or in front of another one.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a block is cut or does not decode; those of the input.
    pub(super) fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        let offset = input.offset();
        let damaged = |detail: String| Error::corrupt("lz4 stream", offset, detail);
        while self.given == self.len {
            let head = input.peek(4)?;
            if head.is_empty() {
                return Ok(0);
            }
            let len = head.first_chunk().map(|len| u32::from_le_bytes(*len)).ok_or_else(|| damaged(TRUNCATED.into()))?;
            // Another frame, or padding.
            if len > MAX_STORED || len == 0 {
                return Ok(0);
            }
            input.consume(4);
            self.stored.clear();
            let mut left = len as usize;
            while left > 0 {
                let bytes = input.peek(1)?;
                let taken = bytes.len().min(left);
                if taken == 0 {
                    return Err(damaged(TRUNCATED.into()));
                }
                self.stored.extend_from_slice(&bytes[..taken]);
                input.consume(taken);
                left -= taken;
            }
            if self.content.is_empty() {
                self.content.resize(BLOCK, 0);
            }
            let decoded = lz4_flex::block::decompress_into(&self.stored, &mut self.content);
            (self.given, self.len) = (0, 0);
            self.len = decoded.map_err(|error| damaged(error.to_string()))?;
        }
        let len = buffer.len().min(self.len - self.given);
        buffer[..len].copy_from_slice(&self.content[self.given..][..len]);
        self.given += len;
        Ok(len)
    }
}
