//! What the archive will list: entries, and where their content lies.

use crate::content::HasContent as _;
use std::collections::{HashMap, hash_map};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::content::{BlockRef, Content, Extent, FrameRef, Segment};
use crate::reader::HeldPiece;
use crate::writer::EntryId;
use crate::writer::pieces::{PieceId, PiecePlace, Pieces, RunId};
use nra_core::codec::Codec;
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Metadata, Timestamp};
use nra_core::error::{Error, Result};
use nra_core::limits::MAX_LIST_EXTENTS;

/// A part of the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PieceOrHole {
    Piece(PieceId),
    Hole(u64),
}

/// From what the content of an entry follows.
#[derive(Debug)]
pub(super) enum Source {
    /// `Entry::content` is final.
    Settled,
    /// One piece.
    Piece(PieceId),
    /// Several parts, and the digest of the whole if known.
    Parts(Box<[PieceOrHole]>, Option<Box<Digest>>),
    /// The content of another entry, which is settled before.
    Same(EntryId),
}

/// An entry that was added.
#[derive(Debug)]
pub(super) struct Added {
    pub entry: Entry,
    pub source: Source,
    /// Last runs of raw and of compressible content that the content touches, and the batch of entries without new content
    /// that the entry is in; 0 = none.
    pub touched: [RunId; 3],
    /// Link group, from when it was known; that of `entry` follows in the order of places.
    pub group: u64,
    /// Runs that must be placed before the content is settled.
    pub waits: u8,
    /// Removed or renamed since: others may share its content, but it is not listed.
    pub gone: bool,
}

impl Added {
    /// An entry whose content is final, or that has none.
    pub fn settled(entry: Entry) -> Self {
        Self { entry, source: Source::Settled, touched: [0; 3], group: 0, waits: 0, gone: false }
    }
}

/// A block that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub reference: BlockRef,
    pub codec: Codec,
}

/// Entries, pieces and blocks so far.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub entries: Vec<Added>,
    pub pieces: Pieces,
    pub blocks: Vec<Block>,
    /// Greatest number of a link group before those here.
    last_group: u64,
    /// Link groups that are new.
    groups: Vec<Group>,
    /// The caller's numbers of link groups and ours.
    group_numbers: HashMap<u64, u64>,
    /// Numbers of the blocks that were there before, by offset.
    held: HashMap<u64, u32>,
}

/// Hard links of each other.
#[derive(Debug, Default)]
struct Group {
    members: u32,
    /// The first that was added with its own content.
    first: Option<EntryId>,
    /// What the first of them is like; `None` where nothing else can be.
    likeness: Option<Likeness>,
}

/// What hard links of each other have in common.
#[derive(Debug, Clone, PartialEq)]
struct Likeness {
    metadata: Arc<Metadata>,
    modified: Option<Timestamp>,
    size: u64,
    /// Print of the parts.
    content: u64,
}

/// What settling an entry needs or gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settling {
    /// The content is final; blocks without a check got theirs as it was.
    Done,
    /// An extent map must be written of these first.
    Map(Vec<Segment>, Option<Box<Digest>>),
    /// The entry whose content it shares is not settled.
    Waits,
}

impl Index {
    /// Creates an index that numbers link groups above `last_group`.
    pub fn above(last_group: u64) -> Self {
        Self { last_group, ..Self::default() }
    }

    pub fn entry(&self, id: EntryId) -> &Added {
        &self.entries[id.index()]
    }

    pub fn entry_mut(&mut self, id: EntryId) -> &mut Added {
        &mut self.entries[id.index()]
    }

    /// Replaces the caller's number of a link group by ours.
    pub fn group(&mut self, callers: u64) -> u64 {
        if callers == 0 {
            return 0;
        }
        if let Some(&number) = self.group_numbers.get(&callers) {
            return number;
        }
        let number = self.new_group();
        self.group_numbers.insert(callers, number);
        number
    }

    /// Opens a link group.
    pub fn new_group(&mut self) -> u64 {
        self.groups.push(Group::default());
        self.greatest_group()
    }

    /// Greatest number of a link group so far.
    pub fn greatest_group(&self) -> u64 {
        self.last_group + self.groups.len() as u64
    }

    /// Counts a member of a link group.
    pub fn join_group(&mut self, group: u64) {
        if let Some(group) = self.group_mut(group) {
            group.members += 1;
        }
    }

    /// Says whether an entry may join a link group of the caller: all of a group have the same content, metadata and time.
    pub fn fits_group(&mut self, group: u64, entry: &Entry, source: &Source) -> bool {
        let likeness = Likeness {
            metadata: Arc::clone(&entry.metadata),
            modified: entry.modified,
            size: entry.size,
            content: print(source),
        };
        self.group_mut(group).is_none_or(|group| *group.likeness.get_or_insert_with(|| likeness.clone()) == likeness)
    }

    /// Returns the entry whose content the others of a link group share; the first one that is asked for is it.
    pub fn first_of_group(&mut self, group: u64, id: EntryId) -> EntryId {
        self.group_mut(group).map_or(id, |group| *group.first.get_or_insert(id))
    }

    /// Takes an entry out of its link group, since it is not in the archive.
    pub fn leave_group(&mut self, id: EntryId) {
        let group = self.entry(id).group;
        if let Some(group) = self.group_mut(group) {
            group.members -= 1;
        }
    }

    /// Says whether an entry is the only one of a link group.
    pub fn is_alone(&mut self, id: EntryId) -> bool {
        let group = self.entry(id).group;
        self.group_mut(group).is_some_and(|group| group.members == 1)
    }

    fn group_mut(&mut self, group: u64) -> Option<&mut Group> {
        let index = group.checked_sub(self.last_group)?.checked_sub(1)?;
        self.groups.get_mut(usize::try_from(index).ok()?)
    }

    /// Adds a piece of the archive that is appended to.
    pub fn hold(&mut self, digest: Digest, held: HeldPiece, checksum: u32) -> Result<PieceId> {
        let id = self.pieces.insert(digest, held.raw_len, 0)?;
        let blocks = &mut self.blocks;
        let block = match self.held.entry(held.block.offset) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(place) => {
                let number = block_number(blocks.len())?;
                blocks.push(Block { reference: held.block, codec: held.codec });
                *place.insert(number)
            }
        };
        let (offset, number) = (held.offset, held.number);
        *self.pieces.place_mut(id) = PiecePlace { run: 0, raw_len: held.raw_len, block, offset, number, checksum };
        Ok(id)
    }

    /// Makes the content of an entry final, now that its pieces are placed.
    pub fn settle(&mut self, id: EntryId) -> Settling {
        let source = std::mem::replace(&mut self.entry_mut(id).source, Source::Settled);
        let content = match source {
            Source::Settled => return Settling::Done,
            Source::Piece(piece) => self.whole(piece),
            Source::Same(other) => {
                let target = self.entry(other);
                if !matches!(target.source, Source::Settled) {
                    self.entry_mut(id).source = Source::Same(other);
                    return Settling::Waits;
                }
                target.entry.content().clone()
            }
            Source::Parts(parts, digest) => {
                let segments = self.segments(&parts);
                match (&*parts, &*segments) {
                    ([PieceOrHole::Piece(piece)], _) => self.whole(*piece),
                    (_, [Segment::Data(extent)]) => Content::Extent(*extent),
                    (_, segments) if segments.len() > MAX_LIST_EXTENTS => {
                        // Not settled yet: others that share the content wait.
                        self.entry_mut(id).source = Source::Parts(parts, digest.clone());
                        return Settling::Map(segments.to_vec(), digest);
                    }
                    _ => Content::List(segments.into(), digest),
                }
            }
        };
        *self.entry_mut(id).entry.content_mut() = content;
        Settling::Done
    }

    /// Makes the content of a file final whose extent map is written.
    pub fn settle_map(&mut self, id: EntryId, root: FrameRef, digest: Option<Box<Digest>>) {
        let added = self.entry_mut(id);
        *added.entry.content_mut() = Content::Map(root, digest);
        added.source = Source::Settled;
    }

    /// Fills in the check of `block` in an entry that was settled without it.
    pub fn complete(&mut self, id: EntryId, block: &BlockRef) {
        let fill = |extent: &mut Extent| {
            if extent.block.offset == block.offset {
                extent.block.check = block.check;
            }
        };
        match self.entry_mut(id).entry.content_mut() {
            Content::None | Content::Map(..) => {}
            Content::Extent(extent) | Content::Raw(extent, _) => fill(extent),
            Content::List(segments, _) => segments.iter_mut().for_each(|segment| match segment {
                Segment::Data(extent) => fill(extent),
                Segment::Hole(_) => {}
            }),
        }
    }

    fn whole(&self, piece: PieceId) -> Content {
        let (extent, codec) = self.extent(piece);
        match codec {
            Codec::None => Content::Raw(extent, self.pieces.place(piece).checksum),
            _ => Content::Extent(extent),
        }
    }

    fn extent(&self, piece: PieceId) -> (Extent, Codec) {
        let place = self.pieces.place(piece);
        let block = &self.blocks[place.block as usize];
        (Extent { block: block.reference, offset: place.offset, len: place.raw_len.into() }, block.codec)
    }

    /// Turns parts into extents and holes and joins neighbours.
    fn segments(&self, parts: &[PieceOrHole]) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for part in parts {
            let next = match *part {
                PieceOrHole::Piece(piece) => Segment::Data(self.extent(piece).0),
                PieceOrHole::Hole(len) => Segment::Hole(len),
            };
            match (segments.last_mut(), next) {
                (Some(Segment::Data(last)), Segment::Data(next))
                    if last.block.offset == next.block.offset && u64::from(last.offset) + last.len == u64::from(next.offset) =>
                {
                    last.len += next.len;
                }
                (Some(Segment::Hole(last)), Segment::Hole(next)) => *last += next,
                _ => segments.push(next),
            }
        }
        segments
    }
}

/// Returns the number of a block as pieces have it.
pub(super) fn block_number(index: usize) -> Result<u32> {
    let limit = u32::MAX.into();
    u32::try_from(index).map_err(|_| Error::Limit { what: "number of blocks", found: index as u64, limit })
}

/// Returns a print of the parts of a content.
fn print(source: &Source) -> u64 {
    let mut hasher = DefaultHasher::new();
    match source {
        Source::Settled | Source::Same(_) => {}
        Source::Piece(piece) => [PieceOrHole::Piece(*piece)].hash(&mut hasher),
        Source::Parts(parts, _) => parts.hash(&mut hasher),
    }
    hasher.finish()
}

/// Estimates the length of an entry's record, bytes; generous.
pub(super) fn weight(entry: &Entry, parts: usize) -> usize {
    let attributes: usize =
        entry.metadata.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len() + 8).sum();
    entry.path.as_bytes().len() + entry.target.len() + attributes + 64 + parts.min(MAX_LIST_EXTENTS) * 12
}
