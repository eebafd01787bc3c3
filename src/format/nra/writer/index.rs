//! Entries, chunks and blocks of the next commit.

use std::collections::{HashMap, hash_map};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::content::{BlockRef, Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::reader::StoredChunk;
use crate::records::extents::are_one;
use crate::writer::EntryId;
use crate::writer::chunk_table::{BufferId, ChunkId, ChunkPlacement, ChunkTable};
use nra_core::codec::Codec;
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Metadata, Timestamp};
use nra_core::error::Result;
use nra_core::limits::{MAX_LIST_EXTENTS, to_u32};

/// A part of the content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ChunkOrHole {
    Chunk(ChunkId),
    Hole(u64),
}

/// Where the content of an entry comes from.
#[derive(Debug)]
pub(super) enum ContentSource {
    /// `Entry::content` is final.
    Resolved,
    Chunk(ChunkId),
    /// Several parts, and the digest of the whole content, if known.
    Parts(Box<[ChunkOrHole]>, Option<Box<Digest>>),
    /// The content of an earlier entry.
    Same(EntryId),
}

/// A new entry.
#[derive(Debug)]
pub(super) struct Added {
    pub entry: Entry,
    pub source: ContentSource,
    /// The last buffers of incompressible and of compressible chunks that hold content of the
    /// entry, and the batch of entries without new content; 0 = none.
    pub buffers: [BufferId; 3],
    /// Link group, once it is known. That of `entry` is set in the order of writing.
    pub group: u64,
    /// Number of buffers that must be written before the content is resolved.
    pub pending_buffers: u8,
    /// Removed or renamed since. Other entries may share its content, but it is not part of the
    /// commit.
    pub removed: bool,
}

impl Added {
    /// Creates an entry whose content is final, or that has none.
    pub fn resolved(entry: Entry) -> Self {
        Self { entry, source: ContentSource::Resolved, buffers: [0; 3], group: 0, pending_buffers: 0, removed: false }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub reference: BlockRef,
    pub codec: Codec,
}

/// Entries, chunks and blocks so far.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub entries: Vec<Added>,
    pub chunks: ChunkTable,
    pub blocks: Vec<Block>,
    /// Highest link group number of the base.
    last_group: u64,
    /// New link groups.
    groups: Vec<Group>,
    /// Link group numbers by the caller's numbers.
    group_numbers: HashMap<u64, u64>,
    /// Indexes of blocks of the base, by offset.
    base_blocks: HashMap<u64, u32>,
}

#[derive(Debug, Default)]
struct Group {
    members: u32,
    /// The first entry with its own content.
    first: Option<EntryId>,
    /// Properties of the first entry; `None` if all entries are known to match.
    identity: Option<GroupIdentity>,
}

/// Properties that hard links of each other share.
#[derive(Debug, Clone, PartialEq)]
struct GroupIdentity {
    metadata: Arc<Metadata>,
    modified: Option<Timestamp>,
    size: u64,
    /// Hash of the parts of the content.
    content: u64,
}

/// Result of resolving the content of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The content is final. References to a block that is being written lack its header checksum.
    Done,
    /// An extent map of these segments must be written first.
    Map(Vec<Segment>, Option<Box<Digest>>),
    /// The entry that it shares the content of is not resolved yet.
    Blocked,
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

    /// Translates a link group number of the caller.
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

    /// Creates a link group.
    pub fn new_group(&mut self) -> u64 {
        self.groups.push(Group::default());
        self.greatest_group()
    }

    /// Returns the highest link group number so far.
    pub fn greatest_group(&self) -> u64 {
        self.last_group + self.groups.len() as u64
    }

    /// Adds an entry to a link group.
    pub fn join_group(&mut self, group: u64) {
        if let Some(group) = self.group_mut(group) {
            group.members += 1;
        }
    }

    /// Returns whether an entry matches a link group of the caller. All entries of a group have the
    /// same content, metadata and time.
    pub fn fits_group(&mut self, group: u64, entry: &Entry, source: &ContentSource) -> bool {
        let identity = GroupIdentity {
            metadata: Arc::clone(&entry.metadata),
            modified: entry.modified,
            size: entry.size,
            content: hash_parts(source),
        };
        self.group_mut(group).is_none_or(|group| *group.identity.get_or_insert_with(|| identity.clone()) == identity)
    }

    /// Returns the entry whose content the others of a link group share: the first one passed here.
    pub fn first_of_group(&mut self, group: u64, id: EntryId) -> EntryId {
        self.group_mut(group).map_or(id, |group| *group.first.get_or_insert(id))
    }

    /// Removes a dropped entry from its link group.
    pub fn leave_group(&mut self, id: EntryId) {
        let group = self.entry(id).group;
        if let Some(group) = self.group_mut(group) {
            group.members -= 1;
        }
    }

    /// Returns whether an entry is the only one of its link group.
    pub fn is_alone(&mut self, id: EntryId) -> bool {
        let group = self.entry(id).group;
        self.group_mut(group).is_some_and(|group| group.members == 1)
    }

    fn group_mut(&mut self, group: u64) -> Option<&mut Group> {
        let index = group.checked_sub(self.last_group)?.checked_sub(1)?;
        self.groups.get_mut(usize::try_from(index).ok()?)
    }

    pub fn add_base_chunk(&mut self, digest: Digest, stored: StoredChunk, checksum: u32) -> Result<ChunkId> {
        let id = self.chunks.insert(digest, stored.raw_len, 0)?;
        let blocks = &mut self.blocks;
        let block = match self.base_blocks.entry(stored.block.offset) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(vacant) => {
                let number = block_number(blocks.len())?;
                blocks.push(Block { reference: stored.block, codec: stored.codec });
                *vacant.insert(number)
            }
        };
        let (offset, number) = (stored.offset, stored.number);
        *self.chunks.placement_mut(id) = ChunkPlacement { buffer: 0, raw_len: stored.raw_len, block, offset, number, checksum };
        Ok(id)
    }

    /// Resolves the content of an entry. Its chunks have been written.
    pub fn resolve_content(&mut self, id: EntryId) -> Resolution {
        let source = std::mem::replace(&mut self.entry_mut(id).source, ContentSource::Resolved);
        let content = match source {
            ContentSource::Resolved => return Resolution::Done,
            ContentSource::Chunk(chunk) => self.chunk_content(chunk),
            ContentSource::Same(other) => {
                let target = self.entry(other);
                if !matches!(target.source, ContentSource::Resolved) {
                    self.entry_mut(id).source = ContentSource::Same(other);
                    return Resolution::Blocked;
                }
                target.entry.content().clone()
            }
            ContentSource::Parts(parts, digest) => {
                let segments = self.segments(&parts);
                match (&*parts, &*segments) {
                    ([ChunkOrHole::Chunk(chunk)], _) => self.chunk_content(*chunk),
                    (_, [Segment::Data(extent)]) => Content::Extent(*extent),
                    (_, segments) if segments.len() > MAX_LIST_EXTENTS => {
                        // Not resolved yet: entries that share the content wait.
                        self.entry_mut(id).source = ContentSource::Parts(parts, digest.clone());
                        return Resolution::Map(segments.to_vec(), digest);
                    }
                    _ => Content::List(segments.into(), digest),
                }
            }
        };
        *self.entry_mut(id).entry.content_mut() = content;
        Resolution::Done
    }

    /// Sets the content of a file whose extent map has been written.
    pub fn set_extent_map(&mut self, id: EntryId, root: FrameRef, digest: Option<Box<Digest>>) {
        let added = self.entry_mut(id);
        *added.entry.content_mut() = Content::Map(root, digest);
        added.source = ContentSource::Resolved;
    }

    fn chunk_content(&self, chunk: ChunkId) -> Content {
        let (extent, codec) = self.extent(chunk);
        match codec {
            Codec::None => Content::Uncompressed(extent, self.chunks.placement(chunk).checksum),
            _ => Content::Extent(extent),
        }
    }

    fn extent(&self, chunk: ChunkId) -> (Extent, Codec) {
        let placement = self.chunks.placement(chunk);
        let block = &self.blocks[placement.block as usize];
        (Extent { block: block.reference, offset: placement.offset, len: placement.raw_len.into() }, block.codec)
    }

    /// Converts parts to extents and holes, and merges neighbors.
    fn segments(&self, parts: &[ChunkOrHole]) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for part in parts {
            let next = match *part {
                ChunkOrHole::Chunk(chunk) => Segment::Data(self.extent(chunk).0),
                ChunkOrHole::Hole(len) => Segment::Hole(len),
            };
            match segments.last_mut().filter(|last| are_one(last, &next)) {
                Some(Segment::Data(Extent { len, .. }) | Segment::Hole(len)) => *len += next.len(),
                None => segments.push(next),
            }
        }
        segments
    }
}

/// Converts an index of a block to the type that chunks use.
pub(super) fn block_number(index: usize) -> Result<u32> {
    to_u32("number of blocks", index as u64)
}

fn hash_parts(source: &ContentSource) -> u64 {
    let mut hasher = DefaultHasher::new();
    match source {
        ContentSource::Resolved | ContentSource::Same(_) => {}
        ContentSource::Chunk(chunk) => [ChunkOrHole::Chunk(*chunk)].hash(&mut hasher),
        ContentSource::Parts(parts, _) => parts.hash(&mut hasher),
    }
    hasher.finish()
}

/// Estimates the length of the record of an entry, bytes. Overestimates.
pub(super) fn weight(entry: &Entry, parts: usize) -> usize {
    let attributes: usize =
        entry.metadata.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len() + 8).sum();
    entry.path.as_bytes().len() + entry.target.len() + attributes + 64 + parts.min(MAX_LIST_EXTENTS) * 12
}
