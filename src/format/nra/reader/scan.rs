//! Finding entries without an index: by the directories of blocks.
//!
//! Spec: nra.md, sections 7 and 22.

use crate::content::HasContent as _;
use std::sync::Arc;

use crate::content::{BlockRef, Content, Extent, Segment};
use crate::directory::Directory;
use crate::frame::FrameKind;
use crate::page::Child;
use crate::reader::damage::is_damage;
use crate::reader::frames::{self, Start};
use crate::reader::gather::Gathered;
use crate::reader::tree::{Leaf, Node};
use crate::reader::walk::{Step, Walk};
use crate::reader::window::Window;
use nra_core::entry::Entry;
use nra_core::error::Result;
use nra_core::path::compare;

/// What the frames of a file tell without its index.
#[derive(Default)]
pub(super) struct Scan {
    /// In path order, no two of one path, each with its parent directories.
    pub(super) entries: Arc<Vec<Entry>>,
    /// Blocks with a valid header.
    pub(super) blocks: u64,
    /// Pieces that their directories list.
    pub(super) pieces: u64,
    /// Their lengths.
    pub(super) piece_bytes: u64,
    /// Stored payloads of the blocks.
    pub(super) stored_bytes: u64,
    /// Highest number of a commit that a frame was written for.
    pub(super) commits: u64,
    /// Places that are no frames, and directories that do not read.
    pub(super) flaws: u64,
}

impl Scan {
    /// Goes through all frames of the file up to `end`: what lies behind a commit is no part of it. `memory`: bytes that it may fill however short the file is.
    ///
    /// # Errors
    ///
    /// `Limit` when the entries would take much more memory than those of a file of this length do.
    pub(super) fn run(window: &Window, end: u64, memory: u64) -> Result<Self> {
        Self::gather(window, Walk::up_to(window, end), memory)
    }

    /// Goes through the frames that `walk` meets.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub(super) fn gather(window: &Window, mut walk: Walk<'_>, memory: u64) -> Result<Self> {
        let mut scan = Self::default();
        let mut found = Gathered::new(window.file_len(), memory);
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame { offset, start } => {
                    scan.commits = scan.commits.max(start.header.commit);
                    if start.header.kind == FrameKind::Block {
                        scan.block(window, offset, &start, &mut found)?;
                    }
                }
                Step::Gap { .. } => scan.flaws += 1,
                Step::Other { .. } | Step::Tail { .. } => {}
            }
        }
        let (entries, left_out) = found.finish()?;
        scan.entries = Arc::new(entries);
        scan.flaws += left_out;
        Ok(scan)
    }

    fn block(&mut self, window: &Window, offset: u64, start: &Start, found: &mut Gathered) -> Result<()> {
        let header = &start.header;
        self.blocks += 1;
        self.stored_bytes += u64::from(header.stored_len);
        let bytes = match frames::directory(window, start, offset) {
            Ok(bytes) => bytes,
            Err(error) if is_damage(&error) => {
                self.flaws += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Ok(directory) = Directory::parse(&bytes, offset, header.raw_len) else {
            self.flaws += 1;
            return Ok(());
        };
        self.pieces += directory.pieces.len() as u64;
        self.piece_bytes += directory.pieces.iter().map(|piece| u64::from(piece.raw_len)).sum::<u64>();
        let own = Own { offset, check: start.check };
        found.add(directory.entries.into_iter().map(|mut entry| {
            own.tell(entry.content_mut());
            entry
        }))
    }

    /// Returns a leaf of the entries that belong below `child`, whose page is damaged; `upper` is the key of what follows.
    pub(super) fn stand_in(&self, child: &Child, upper: Option<&[u8]>) -> Arc<Node> {
        let place = |key: &[u8]| self.entries.partition_point(|entry| compare(entry.path.as_bytes(), key).is_lt());
        let from = place(&child.key);
        let to = upper.map_or(self.entries.len(), place).max(from);
        Arc::new(Node::Leaf(Leaf::stand_in(Arc::clone(&self.entries), from..to, child)))
    }
}

/// A block in whose directory records were found: it could not know its own check.
struct Own {
    offset: u64,
    check: u64,
}

impl Own {
    fn tell(&self, content: &mut Content) {
        match content {
            Content::Extent(extent) | Content::Raw(extent, _) => self.tell_extent(extent),
            Content::List(segments, _) => {
                for segment in segments {
                    if let Segment::Data(extent) = segment {
                        self.tell_extent(extent);
                    }
                }
            }
            Content::None | Content::Map(..) => {}
        }
    }

    fn tell_extent(&self, extent: &mut Extent) {
        let BlockRef { offset, check, .. } = &mut extent.block;
        if *offset == self.offset && *check == 0 {
            *check = self.check;
        }
    }
}
