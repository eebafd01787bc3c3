//! Stored size of the content of an entry.

use crate::content::BlockRef;
use crate::frame::FrameKind;
use crate::range_set::BlockRanges;
use crate::reader::{NraReader, frames};
use nra_core::archive::Run;
use nra_core::entry::Entry;
use nra_core::error::Result;

/// Number of extents within which repetitions are recognized. Repetitions that are farther apart
/// count again.
const MAX_EXTENTS: usize = 1 << 16;

impl NraReader {
    /// Returns the sum of the shares of `entry` in the stored payloads of its blocks. Repeated
    /// content counts once. Reads the extent map, if there is one.
    pub(super) fn stored_share(&self, entry: &Entry) -> Result<u64> {
        let (mut sum, mut added, mut blocks) = (0u64, 0, BlockRanges::default());
        self.each_extent(entry, &mut |extent| {
            if added == MAX_EXTENTS {
                sum = sum.saturating_add(shares(&blocks));
                blocks.clear();
                added = 0;
            }
            added += 1;
            blocks.add(extent);
            Ok(())
        })?;
        Ok(sum.saturating_add(shares(&blocks)))
    }

    /// Returns the first `most` extents with the codecs of their blocks, and the total number of
    /// extents.
    pub(super) fn first_runs(&self, entry: &Entry, most: usize) -> Result<(Vec<Run>, u64)> {
        let (mut runs, mut count) = (Vec::new(), 0);
        self.each_extent(entry, &mut |extent| {
            count += 1;
            if runs.len() < most {
                let BlockRef { offset: block, raw_len, stored_len, .. } = extent.block;
                let (raw_bytes, stored_bytes) = (raw_len.into(), stored_len.into());
                runs.push(Run { block, raw_bytes, stored_bytes, codec: None, offset: extent.offset.into(), len: extent.len });
            }
            Ok(())
        })?;
        for run in &mut runs {
            // An unreadable block is shown without codec: users look for damage here.
            run.codec = frames::header(&self.window, FrameKind::Block, run.block).ok().map(|start| start.header.codec);
        }
        Ok((runs, count))
    }
}

fn shares(blocks: &BlockRanges) -> u64 {
    blocks.blocks().map(|(block, len)| share(*block, len)).fold(0, u64::saturating_add)
}

/// Returns the part of the stored payload that `len` raw bytes of a block account for.
fn share(block: BlockRef, len: u64) -> u64 {
    let (len, stored, raw) = (u128::from(len), u128::from(block.stored_len), u128::from(block.raw_len));
    // Rounded. An extent is not longer than its block, so its share is at most the stored block.
    (len * stored + raw / 2).checked_div(raw).and_then(|share| u64::try_from(share).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::writer::{Writer, WriterOptions};
    use nra_core::archive::{Archive, OpenOptions};
    use nra_core::digest::Digest;
    use nra_core::entry::Kind;
    use nra_core::progress::Recorder;
    use nra_core::source::MemorySource;

    #[test]
    fn repeated_content_counts_once() {
        let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::default() }).unwrap();
        let chunks = [vec![1; 5000], (0..=255).cycle().take(3000).collect::<Vec<u8>>()];
        for (name, order) in [("a", vec![0, 1]), ("b", vec![0, 0, 1, 0, 1])] {
            writer.begin_file(Entry::new(name.try_into().unwrap(), Kind::File)).unwrap();
            for number in order {
                let chunk = &chunks[number];
                writer.add_chunk(chunk, Digest::of(chunk), false).unwrap();
            }
            writer.end_file(None).unwrap();
        }
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        let archive = NraReader::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap();
        let stored = |name: &[u8]| archive.stored_bytes(&archive.find(name).unwrap().unwrap().1).unwrap();
        assert!(stored(b"a").is_some_and(|stored| stored > 0));
        assert_eq!(stored(b"a"), stored(b"b"));
    }

    #[test]
    fn shares_sum_up_to_the_block() {
        let block = BlockRef { offset: 256, raw_len: 1000, stored_len: 300, pad_len: 0, header_checksum: 1 };
        assert_eq!([500, 250, 250].map(|len| share(block, len)), [150, 75, 75]);
        let empty = BlockRef { raw_len: 0, stored_len: 0, ..block };
        assert_eq!(share(empty, 0), 0);
    }
}
