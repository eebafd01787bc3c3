//! Finding entries without the entry tree, from block indexes.
//!
//! Spec: nra.md, sections 7 and 22.

use std::sync::Arc;

use crate::block_index::BlockIndex;
use crate::content::EntryContent as _;
use crate::entry_page::Child;
use crate::frame::FrameKind;
use crate::reader::damage::undamaged;
use crate::reader::entry_tree::{Leaf, TreePage};
use crate::reader::frame_walk::{FrameWalk, Step};
use crate::reader::frames::{self, FrameStart};
use crate::reader::recorded_entries::RecordedEntries;
use crate::reader::window::Window;
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::path::compare;

#[derive(Default)]
pub(super) struct Scan {
    /// Entries in path order with their parent directories; each path once.
    pub(super) entries: Arc<Vec<Entry>>,
    /// Blocks with a valid header.
    pub(super) blocks: u64,
    /// Chunks in the block indexes.
    pub(super) chunks: u64,
    /// Sum of their lengths, bytes.
    pub(super) chunk_bytes: u64,
    /// Stored payloads of the blocks, bytes.
    pub(super) stored_bytes: u64,
    /// Highest commit number of any frame.
    pub(super) commits: u64,
    /// Ranges that are not frames, damaged block indexes, and skipped entries.
    pub(super) flaws: u64,
}

impl Scan {
    /// Scans the frames up to `end`. Bytes after a commit do not belong to it. `memory` is the
    /// memory limit for short files, bytes.
    ///
    /// # Errors
    ///
    /// `Limit` if the entries need far more memory than a file of this length justifies.
    pub(super) fn run(window: &Window, end: u64, memory: u64) -> Result<Self> {
        Self::gather(window, FrameWalk::up_to(window, end), memory)
    }

    pub(super) fn gather(window: &Window, mut walk: FrameWalk<'_>, memory: u64) -> Result<Self> {
        let mut scan = Self::default();
        let mut found = RecordedEntries::new(window.file_len(), memory);
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame { offset, start } => {
                    scan.commits = scan.commits.max(start.header.commit);
                    if start.header.kind == FrameKind::Block {
                        scan.block(window, offset, &start, &mut found)?;
                    }
                }
                Step::Gap { .. } => scan.flaws += 1,
                Step::Other { .. } | Step::Footer { .. } => {}
            }
        }
        let (entries, skipped) = found.finish()?;
        scan.entries = Arc::new(entries);
        scan.flaws += skipped;
        Ok(scan)
    }

    fn block(&mut self, window: &Window, offset: u64, start: &FrameStart, found: &mut RecordedEntries) -> Result<()> {
        let header = &start.header;
        self.blocks += 1;
        self.stored_bytes += u64::from(header.stored_len);
        let bytes = undamaged(frames::block_index(window, start, offset))?;
        let Some(block_index) = bytes.and_then(|bytes| BlockIndex::parse(&bytes, offset, header.raw_len).ok()) else {
            self.flaws += 1;
            return Ok(());
        };
        self.chunks += block_index.chunks.len() as u64;
        self.chunk_bytes += block_index.chunks.iter().map(|chunk| u64::from(chunk.raw_len)).sum::<u64>();
        found.add(block_index.entries.into_iter().map(|mut entry| {
            entry.content_mut().complete(offset, start.header_checksum);
            entry
        }))
    }

    /// Returns the entries below `child`, whose page is damaged, as a leaf. `upper` is the next
    /// key.
    pub(super) fn replacement(&self, child: &Child, upper: Option<&[u8]>) -> Arc<TreePage> {
        let lower_bound = |key: &[u8]| self.entries.partition_point(|entry| compare(entry.path.as_bytes(), key).is_lt());
        let from = lower_bound(&child.key);
        let to = upper.map_or(self.entries.len(), lower_bound).max(from);
        Arc::new(TreePage::Leaf(Leaf::replacement(Arc::clone(&self.entries), from..to, child)))
    }
}
