//! Finding entries without an index: by the directories of blocks.
//!
//! Spec: nra.md, sections 7 and 22.

use std::collections::HashSet;
use std::sync::Arc;

use crate::format::entry::{Entry, Kind};
use crate::format::error::Result;
use crate::format::nra::content::{BlockRef, Content, Extent, Segment};
use crate::format::nra::directory::Directory;
use crate::format::nra::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN, SYNC};
use crate::format::nra::head::{HEAD_LEN, TAIL_LEN, Tail};
use crate::format::nra::page::Child;
use crate::format::nra::reader::frames;
use crate::format::nra::reader::tree::{Leaf, Node, is_damage};
use crate::format::nra::reader::window::Window;
use crate::format::path::{EntryPath, compare};

/// How much is read at once in search of the next frame, bytes.
const STRIDE: usize = 1 << 20;

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
    /// Goes through all frames of the file.
    pub(super) fn run(window: &Window) -> Result<Self> {
        let mut scan = Self::default();
        let mut found = Vec::new();
        let mut walk = Walk::new(window);
        while let Some(step) = walk.next()? {
            match step {
                Step::Frame { offset, header, check } => {
                    scan.commits = scan.commits.max(header.commit);
                    if header.kind == FrameKind::Block {
                        scan.block(window, offset, &header, check, &mut found)?;
                    }
                }
                Step::Gap { .. } => scan.flaws += 1,
                Step::Other { .. } | Step::Tail { .. } => {}
            }
        }
        scan.entries = Arc::new(settle(found));
        Ok(scan)
    }

    fn block(&mut self, window: &Window, offset: u64, header: &FrameHeader, check: u64, found: &mut Vec<Entry>) -> Result<()> {
        self.blocks += 1;
        self.stored_bytes += u64::from(header.stored_len);
        let bytes = match frames::directory(window, header, offset) {
            Ok(bytes) if bytes.is_empty() => return Ok(()),
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
        let own = Own { offset, check };
        found.extend(directory.entries.into_iter().map(|mut entry| {
            own.tell(&mut entry.content);
            entry
        }));
        Ok(())
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

/// Puts records in path order, the last of each path, and adds directories that are missing.
fn settle(found: Vec<Entry>) -> Vec<Entry> {
    let mut numbered: Vec<(usize, Entry)> = found.into_iter().enumerate().collect();
    // The latest first, so that it is the one that stays.
    numbered.sort_unstable_by(|a, b| a.1.path.cmp(&b.1.path).then(b.0.cmp(&a.0)));
    numbered.dedup_by(|later, kept| later.1.path == kept.1.path);
    drop_former_names(&mut numbered);
    let mut entries: Vec<Entry> = numbered.into_iter().map(|(_, entry)| entry).collect();
    add_parents(&mut entries);
    entries
}

/// Where something lies below what is no directory, both can't be of one state: the later record stays.
fn drop_former_names(numbered: &mut Vec<(usize, Entry)>) {
    let mut drop = vec![false; numbered.len()];
    let mut above: Vec<usize> = Vec::new();
    for i in 0..numbered.len() {
        let path = &numbered[i].1.path;
        while above.last().is_some_and(|&last| !path.is_below(&numbered[last].1.path)) {
            above.pop();
        }
        for &other in above.iter().filter(|&&other| numbered[other].1.kind != Kind::Directory) {
            let older = if numbered[other].0 < numbered[i].0 { other } else { i };
            drop[older] = true;
        }
        above.push(i);
    }
    let mut dropped = drop.into_iter();
    numbered.retain(|_| !dropped.next().unwrap_or_default());
}

fn add_parents(entries: &mut Vec<Entry>) {
    let known: HashSet<&[u8]> = entries.iter().map(|entry| entry.path.as_bytes()).collect();
    let mut missing: Vec<EntryPath> = Vec::new();
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    for entry in entries.iter() {
        let mut parent = entry.path.parent();
        while let Some(path) = parent {
            if known.contains(path.as_bytes()) || !seen.insert(path.as_bytes().to_vec()) {
                break;
            }
            parent = path.parent();
            missing.push(path);
        }
    }
    if missing.is_empty() {
        return;
    }
    entries.extend(missing.into_iter().map(|path| {
        let mut directory = Entry::new(path, Kind::Directory);
        directory.implied = true;
        directory
    }));
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
}

/// What a walk through the frames meets.
pub(super) enum Step {
    /// A frame with a valid header.
    Frame { offset: u64, header: FrameHeader, check: u64 },
    /// A frame with a valid header checksum that can't be read: of a kind of a later version, or one that breaks the rules.
    Other { offset: u64, len: u64 },
    /// A tail.
    Tail { offset: u64, tail: Tail },
    /// Bytes that belong to no frame and no tail.
    Gap { offset: u64, len: u64 },
}

/// Goes from frame to frame, and over what is none.
pub(super) struct Walk<'a> {
    window: &'a Window,
    position: u64,
    /// Bytes read in search of a frame, and where they begin.
    ahead: (u64, Vec<u8>),
}

impl<'a> Walk<'a> {
    pub(super) fn new(window: &'a Window) -> Self {
        Self::from(window, HEAD_LEN as u64)
    }

    /// Begins at `position`, a multiple of 8.
    pub(super) fn from(window: &'a Window, position: u64) -> Self {
        Self { window, position, ahead: (0, Vec::new()) }
    }

    /// Returns the next step, `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Step>> {
        let offset = self.position;
        let file_len = self.window.file_len();
        let Some(bytes) = self.header_bytes(offset)? else {
            let len = file_len.saturating_sub(offset);
            self.position = file_len;
            return Ok((len > 0).then_some(Step::Gap { offset, len }));
        };
        if let Ok((header, check)) = FrameHeader::parse(&bytes, offset) {
            self.position = (offset + header.frame_len()).min(file_len);
            return Ok(Some(Step::Frame { offset, header, check }));
        }
        if let Some((_, len)) = FrameHeader::peek(&bytes, offset).filter(|peeked| peeked.1 >= HEADER_LEN as u64) {
            self.position = offset.saturating_add(len).min(file_len);
            return Ok(Some(Step::Other { offset, len: self.position - offset }));
        }
        if let Ok(tail) = Tail::parse(&bytes, offset) {
            self.position = offset + TAIL_LEN as u64;
            return Ok(Some(Step::Tail { offset, tail }));
        }
        self.position = self.next_start(offset + ALIGNMENT)?;
        Ok(Some(Step::Gap { offset, len: self.position - offset }))
    }

    /// Returns the 64 bytes at `offset` (header or tail), `None` when there are fewer.
    fn header_bytes(&self, offset: u64) -> Result<Option<[u8; HEADER_LEN]>> {
        if self.window.file_len().saturating_sub(offset) < HEADER_LEN as u64 {
            return Ok(None);
        }
        match self.read_ahead(offset).and_then(|bytes| bytes.first_chunk()) {
            Some(bytes) => Ok(Some(*bytes)),
            None => self.window.array("frame header", offset).map(Some),
        }
    }

    fn read_ahead(&self, offset: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.ahead.0)?).ok()?;
        self.ahead.1.get(from..)
    }

    /// Returns the place of the next frame or tail from `from` (a multiple of 8) on, or the end of the file.
    fn next_start(&mut self, from: u64) -> Result<u64> {
        let len = self.window.file_len();
        let mut offset = from;
        while len.saturating_sub(offset) >= HEADER_LEN as u64 {
            let Some(bytes) = self.read_ahead(offset).filter(|bytes| bytes.len() >= HEADER_LEN) else {
                let stride = usize::try_from(len - offset).unwrap_or(usize::MAX).min(STRIDE);
                self.ahead = (offset, self.window.bytes("frame header", offset, stride)?.into_owned());
                continue;
            };
            let step = usize::try_from(ALIGNMENT).expect("it is 8");
            let found = (0..=bytes.len() - HEADER_LEN).step_by(step).find(|&at| {
                let place = offset + at as u64;
                let Some(header) = bytes[at..].first_chunk::<HEADER_LEN>() else { return false };
                (header.starts_with(&SYNC) && FrameHeader::peek(header, place).is_some()) || Tail::parse(header, place).is_ok()
            });
            match found {
                Some(at) => return Ok(offset + at as u64),
                None => offset += ((bytes.len() - HEADER_LEN) / step * step + step) as u64,
            }
        }
        Ok(len)
    }
}
