//! A source that continues past sectors that can't be read.

use nra_format::error::Result;
use nra_format::source::ReadAt;

/// Bytes that a medium loses at once.
const SECTOR: u64 = 4 << 10;

/// A source that returns zeros for sectors that can't be read. Checksums reveal them as damage.
#[derive(Debug)]
pub struct UnreadableAsZero<S>(pub S);

impl<S: ReadAt> ReadAt for UnreadableAsZero<S> {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn name(&self) -> &[u8] {
        self.0.name()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.0.read_exact_at(offset, buffer) {
            Err(error) if error.is_unreadable() => {}
            other => return other,
        }
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let left = usize::try_from(SECTOR - at % SECTOR).expect("a sector is short").min(rest.len());
            let (sector, next) = rest.split_at_mut(left);
            match self.0.read_exact_at(at, sector) {
                Err(error) if error.is_unreadable() => sector.fill(0),
                other => other?,
            }
            (rest, at) = (next, at + left as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
