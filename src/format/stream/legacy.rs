//! The legacy format of lz4: blocks of 8 MiB with their lengths, up to the end of the file.

use super::Input;
use super::decoder::TRUNCATED;
use nra_core::error::{Error, Result};

/// Magic of a frame.
pub(super) const MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
/// Length of a decoded block, bytes. The last one may be shorter.
const BLOCK: usize = 8 << 20;
/// Longest stored block: incompressible data grows by this much.
const MAX_STORED: u32 = (BLOCK + BLOCK / 255 + 16) as u32;

/// Decodes a frame after its magic.
#[derive(Default)]
pub(super) struct Legacy {
    stored: Vec<u8>,
    /// Buffer for a decoded block.
    content: Vec<u8>,
    /// Length of the decoded block, and the part of it that was returned.
    len: usize,
    returned: usize,
}

impl Legacy {
    /// Reads decoded bytes. Returns 0 at the end of the frame: at the end of the input or before
    /// another frame.
    ///
    /// # Errors
    ///
    /// `Corrupt` if a block is truncated or cannot be decoded; errors of the input.
    pub(super) fn read(&mut self, input: &mut Input, buffer: &mut [u8]) -> Result<usize> {
        let offset = input.offset();
        let damaged = |detail: String| Error::corrupt("lz4 stream", offset, detail);
        while self.returned == self.len {
            let header = input.peek(4)?;
            if header.is_empty() {
                return Ok(0);
            }
            let len = header.first_chunk().map(|len| u32::from_le_bytes(*len)).ok_or_else(|| damaged(TRUNCATED.into()))?;
            // Another frame or padding.
            if len > MAX_STORED || len == 0 {
                return Ok(0);
            }
            input.consume(4);
            self.stored.clear();
            if input.consume_each(len.into(), |bytes| self.stored.extend_from_slice(bytes))? < len.into() {
                return Err(damaged(TRUNCATED.into()));
            }
            if self.content.is_empty() {
                self.content.resize(BLOCK, 0);
            }
            let decoded = lz4_flex::block::decompress_into(&self.stored, &mut self.content);
            (self.returned, self.len) = (0, 0);
            self.len = decoded.map_err(|error| damaged(error.to_string()))?;
        }
        let len = buffer.len().min(self.len - self.returned);
        buffer[..len].copy_from_slice(&self.content[self.returned..][..len]);
        self.returned += len;
        Ok(len)
    }
}
