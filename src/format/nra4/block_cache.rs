//! A cache of decoded blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nra_core::error::{Error, Result};

/// Number of blocks that are kept regardless of their length: each thread needs the one it reads from.
const ALWAYS: usize = 4;
/// Largest number of blocks: a look-up searches all of them.
const MOST: usize = 64;

/// The content of a block, or the detail of its damage.
type Decoded = std::result::Result<Arc<Vec<u8>>, String>;
/// A cached block, locked by the thread that decodes it.
type Slot = Arc<Mutex<Option<Decoded>>>;

/// A cache of decoded blocks by number, limited in bytes.
///
/// If several threads request a block, one decodes it and the others wait. Damage is cached, too.
pub(super) struct BlockCache {
    limit: u64,
    /// Block numbers, lengths and blocks; the most recently used comes first.
    slots: Mutex<VecDeque<(u32, u64, Slot)>>,
}

impl BlockCache {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, slots: Mutex::default() }
    }

    /// Returns the content of block `number`, which has `len` bytes, decoding it if it is not cached.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the block at `offset` is damaged, and other errors of `decode`.
    pub(super) fn get(
        &self,
        number: u32,
        len: u64,
        offset: u64,
        decode: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Arc<Vec<u8>>> {
        let slot = self.slot(number, len);
        let mut content = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let decoded = match &*content {
            Some(decoded) => decoded.clone(),
            None => {
                let decoded = match decode() {
                    Ok(bytes) => Ok(Arc::new(bytes)),
                    Err(Error::Corrupt { detail, .. }) => Err(detail),
                    Err(error) => return Err(error),
                };
                content.insert(decoded).clone()
            }
        };
        decoded.map_err(|detail| Error::corrupt("block", offset, detail))
    }

    fn slot(&self, number: u32, len: u64) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = slots.iter().position(|(other, ..)| *other == number) {
            if let Some(used) = slots.remove(at) {
                slots.push_front(used);
            }
        } else {
            slots.push_front((number, len, Slot::default()));
            let mut bytes: u64 = slots.iter().map(|(_, len, _)| len).sum();
            while slots.len() > ALWAYS && (slots.len() > MOST || bytes > self.limit) {
                bytes -= slots.pop_back().map_or(0, |(_, len, _)| len);
            }
        }
        Arc::clone(&slots[0].2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get_decodes_cached_blocks_once() {
        let recent = BlockCache::new(100);
        let mut decoded = Vec::new();
        for number in [1, 2, 1, 3, 4, 5, 1, 6, 2, 1] {
            let content = recent.get(number, 30, 0, || {
                decoded.push(number);
                Ok(vec![0; 30])
            });
            assert_eq!(content.unwrap().len(), 30);
        }
        assert_eq!(decoded, [1, 2, 3, 4, 5, 6, 2]);
    }

    #[test]
    fn get_caches_damage_but_not_other_errors() {
        let recent = BlockCache::new(100);
        let damaged =
            |detail: &'static str| recent.get(1, 1, 9, || Err(Error::corrupt("block", 9, detail))).unwrap_err().to_string();
        assert_eq!(damaged("first"), "block at offset 9 is damaged: first");
        assert_eq!(damaged("second"), "block at offset 9 is damaged: first");
        assert!(recent.get(2, 1, 0, || Err(Error::Cancelled)).is_err());
        assert!(recent.get(2, 1, 0, || Ok(vec![1])).is_ok());
    }
}
