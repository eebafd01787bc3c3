//! Archives taken apart, changed and put together again with everything that leads to the change set right.
//!
//! A change to a stored byte is caught by the first checksum above it, so a fuzzer that changes files hardly gets beyond the tail. Here a
//! change is made to what lies under the checksums; lengths, checksums, checks and offsets are then those that a malicious writer would write.

use crate::content::HasContent as _;
use std::collections::HashMap;
use std::ops::Range;

use crate::chunks::ChunkPage;
use crate::commit::Commit;
use crate::content::{BlockRef, Content, Extent, FrameRef, Segment};
use crate::directory::Directory;
use crate::extents::ExtentPage;
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::fuzzing::structure::{Structure, encode_plain, put_sum, seal};
use crate::head::{Head, TAIL_LEN, Tail};
use crate::layout;
use crate::layout::SUPERBLOCK_LEN;
use crate::page::Page;
use crate::records::check;
use nra_core::checksum::checksum;
use nra_core::codec::{Codec, decompress};
use nra_core::entry::Entry;

/// A change to one item of an archive: the head, a frame or a tail, numbered in the order in which they lie in the file. Numbers and
/// places that are too large are taken modulo.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    /// Bytes take the place of others.
    Overwrite { item: usize, part: Part, at: usize, bytes: Vec<u8> },
    /// Bytes are added.
    Insert { item: usize, part: Part, at: usize, bytes: Vec<u8> },
    /// Bytes are taken away.
    Remove { item: usize, part: Part, at: usize, len: usize },
    /// What refers to one frame refers to another one.
    Redirect { item: usize, from: usize, to: usize },
    /// The item is left out; what refers to it keeps its former place.
    Drop { item: usize },
    /// The item is there twice.
    Repeat { item: usize },
}

/// A part of a frame. Heads and tails have only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The header; its length can't change.
    Header,
    /// The payload: raw for pages, as it is stored for blocks.
    Payload,
    /// The directory of a block, not compressed.
    Directory,
}

/// An archive taken apart.
#[derive(Debug, Clone)]
pub struct Anatomy {
    items: Vec<Item>,
}

#[derive(Debug, Clone)]
enum Item {
    Head(Head),
    Frame(Box<Frame>),
    Tail { offset: u64, tail: Tail },
}

#[derive(Debug, Clone)]
struct Frame {
    /// In the archive that was taken apart.
    offset: u64,
    header: FrameHeader,
    body: Body,
    directory: Option<Directory>,
}

#[derive(Debug, Clone)]
enum Body {
    Entries(Page),
    Extents(ExtentPage),
    Chunks(ChunkPage),
    Commit(Box<Commit>),
    /// Holds no references.
    Other(Vec<u8>),
}

/// Where frames have gone, by their offset in the archive that was taken apart.
type Places = HashMap<u64, (FrameRef, BlockRef)>;

impl Anatomy {
    /// Takes a whole archive without damage apart.
    ///
    /// # Errors
    ///
    /// What it was that could not be taken apart.
    pub fn of(archive: &[u8]) -> Result<Self, String> {
        let head = archive.first_chunk::<SUPERBLOCK_LEN>().ok_or("no head")?;
        let (head, _) = Head::parse(head).map_err(|error| error.to_string())?;
        let mut items = vec![Item::Head(head)];
        let mut at = SUPERBLOCK_LEN;
        while let Some(first) = archive.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LEN>()) {
            let offset = at as u64;
            if let Ok(tail) = Tail::parse(first, offset) {
                items.push(Item::Tail { offset, tail });
                at += TAIL_LEN;
                continue;
            }
            let (header, _) = FrameHeader::parse(first, offset).map_err(|error| error.to_string())?;
            let len = usize::try_from(header.frame_len()).map_err(|error| error.to_string())?;
            let bytes = archive.get(at..at + len).ok_or("a frame is cut")?;
            items.push(take_frame(offset, header, bytes).map_err(|detail| format!("frame at offset {offset}: {detail}"))?);
            at += len;
        }
        if at == archive.len() { Ok(Self { items }) } else { Err(format!("bytes left over at offset {at}")) }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Says whether there are no items, which is never so.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns where the frames lie in the archive that was taken apart, and their kinds.
    pub fn frames(&self) -> Vec<(Range<u64>, FrameKind)> {
        let frames = self.items.iter().filter_map(|item| match item {
            Item::Frame(frame) => Some((frame.offset..frame.offset + frame.header.frame_len(), frame.header.kind)),
            Item::Head(_) | Item::Tail { .. } => None,
        });
        frames.collect()
    }

    /// Returns every structure that is parsed on its own, in the form that [`reencode`](crate::fuzzing::reencode) takes; headers but for their checksums.
    pub fn structures(&self) -> Vec<(Structure, Vec<u8>)> {
        let mut found = Vec::new();
        for item in &self.items {
            match item {
                Item::Head(head) => found.push((Structure::Head, head.encode().to_vec())),
                Item::Tail { offset, tail } => found.push((Structure::Tail, tail.encode(*offset).to_vec())),
                Item::Frame(frame) => {
                    found.push((Structure::FrameHeader, frame.header.encode(frame.offset).0.to_vec()));
                    if let Some(directory) = &frame.directory {
                        found.push((
                            Structure::Directory,
                            [&frame.header.raw_len.to_le_bytes()[..], &encode_plain(directory)].concat(),
                        ));
                    }
                    let structure = match frame.header.kind {
                        FrameKind::EntryPage => Structure::EntryPage,
                        FrameKind::ExtentPage => Structure::ExtentPage,
                        FrameKind::ChunkPage => Structure::ChunkPage,
                        FrameKind::Attributes => Structure::Attributes,
                        FrameKind::Commit => Structure::Commit,
                        FrameKind::Block | FrameKind::Dictionary | FrameKind::Keys | FrameKind::Recovery => continue,
                    };
                    found.push((structure, frame.body.encode(&Places::new())));
                }
            }
        }
        found
    }

    /// Puts the archive together again after `operations`.
    pub fn rebuild(&self, operations: &[Operation]) -> Vec<u8> {
        let mut places = Places::new();
        let mut out = Vec::new();
        for (number, item) in self.items.iter().enumerate() {
            let own: Vec<&Operation> =
                operations.iter().filter(|operation| operation.item() % self.items.len() == number).collect();
            if own.iter().any(|operation| matches!(operation, Operation::Drop { .. })) {
                continue;
            }
            let times = 1 + own.iter().filter(|operation| matches!(operation, Operation::Repeat { .. })).count().min(3);
            for _ in 0..times {
                match item {
                    Item::Head(head) => {
                        let mut bytes = head.encode().to_vec();
                        own.iter().for_each(|operation| operation.apply(None, &mut bytes));
                        seal(Structure::Head, &mut bytes);
                        out.extend_from_slice(&bytes);
                    }
                    Item::Tail { offset, tail } => put_tail(&mut out, *offset, tail, &own, &places),
                    Item::Frame(frame) => {
                        let redirected = self.redirect(&own, &places);
                        let placed = put_frame(&mut out, frame, &own, redirected.as_ref().unwrap_or(&places));
                        places.insert(frame.offset, placed);
                    }
                }
            }
        }
        out
    }

    /// Returns other places if there are operations that redirect.
    fn redirect(&self, operations: &[&Operation], places: &Places) -> Option<Places> {
        let mut redirected = None;
        for operation in operations {
            if let Operation::Redirect { from, to, .. } = operation
                && let Item::Frame(from) = &self.items[from % self.items.len()]
                && let Item::Frame(to) = &self.items[to % self.items.len()]
                && let Some(place) = places.get(&to.offset)
            {
                redirected.get_or_insert_with(|| places.clone()).insert(from.offset, *place);
            }
        }
        redirected
    }
}

impl Operation {
    fn item(&self) -> usize {
        match self {
            Self::Overwrite { item, .. }
            | Self::Insert { item, .. }
            | Self::Remove { item, .. }
            | Self::Redirect { item, .. }
            | Self::Drop { item }
            | Self::Repeat { item } => *item,
        }
    }

    /// Changes `target`, which is the given part; `None` = a head or tail.
    fn apply(&self, part_of_frame: Option<Part>, target: &mut Vec<u8>) {
        let is_meant = |part: &Part| part_of_frame.is_none_or(|meant| meant == *part);
        let fixed_len = matches!(part_of_frame, None | Some(Part::Header));
        match self {
            Self::Overwrite { part, at, bytes, .. } if is_meant(part) && !target.is_empty() => {
                let at = at % target.len();
                let len = bytes.len().min(target.len() - at);
                target[at..at + len].copy_from_slice(&bytes[..len]);
            }
            Self::Insert { part, at, bytes, .. } if is_meant(part) && !fixed_len => {
                let at = at % (target.len() + 1);
                target.splice(at..at, bytes.iter().copied());
            }
            Self::Remove { part, at, len, .. } if is_meant(part) && !fixed_len && !target.is_empty() => {
                let at = at % target.len();
                target.drain(at..at.saturating_add(*len).min(target.len()));
            }
            _ => {}
        }
    }
}

fn take_frame(offset: u64, header: FrameHeader, bytes: &[u8]) -> Result<Item, String> {
    let slice = |from: u64, len: u32| {
        let from = usize::try_from(from).expect("limited with the header");
        &bytes[from..from + usize::try_from(len).expect("limited with the header")]
    };
    let stored = slice(header.payload_start(), header.stored_len);
    let raw = || {
        let raw_len = usize::try_from(header.raw_len).expect("limited with the header");
        decompress(header.codec, stored, raw_len, None)
    };
    let body = match header.kind {
        FrameKind::EntryPage => Body::Entries(Page::parse(&raw()?)?),
        FrameKind::ExtentPage => Body::Extents(ExtentPage::parse(&raw()?)?),
        FrameKind::ChunkPage => Body::Chunks(ChunkPage::parse(&raw()?)?),
        FrameKind::Commit => Body::Commit(Commit::parse(stored)?.into()),
        FrameKind::Attributes => Body::Other(raw()?),
        FrameKind::Block | FrameKind::Dictionary | FrameKind::Keys | FrameKind::Recovery => Body::Other(stored.to_vec()),
    };
    let directory = match header.directory_len {
        0 => None,
        len => Some(Directory::parse(slice(header.directory_start(), len), offset, header.raw_len)?),
    };
    Ok(Item::Frame(Frame { offset, header, body, directory }.into()))
}

fn put_tail(out: &mut Vec<u8>, offset: u64, tail: &Tail, operations: &[&Operation], places: &Places) {
    let mut tail = *tail;
    if let Some((commit, _)) = places.get(&tail.commit_offset) {
        (tail.commit_offset, tail.commit_length) = (commit.offset, commit.length);
    }
    let mut bytes = tail.encode(offset).to_vec();
    operations.iter().for_each(|operation| operation.apply(None, &mut bytes));
    seal(Structure::Tail, &mut bytes);
    out.extend_from_slice(&bytes);
}

/// Appends a frame and returns how it is referred to.
fn put_frame(out: &mut Vec<u8>, frame: &Frame, operations: &[&Operation], places: &Places) -> (FrameRef, BlockRef) {
    let offset = out.len() as u64;
    let mut payload = frame.body.encode(places);
    operations.iter().for_each(|operation| operation.apply(Some(Part::Payload), &mut payload));
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("operations are few and short");
    let mut header = frame.header;
    if header.kind != FrameKind::Block {
        header.codec = Codec::None;
    }
    header.stored_len = len(&payload);
    if header.codec == Codec::None {
        header.raw_len = header.stored_len;
    }
    if let Some((dictionary, _)) = places.get(&header.dictionary) {
        header.dictionary = dictionary.offset;
    }
    let mut block =
        BlockRef { offset, raw_len: header.raw_len, stored_len: header.stored_len, pad_len: header.pad_len, check: 0 };
    let mut stored_directory = Vec::new();
    if let Some(directory) = &frame.directory {
        let mut places = places.clone();
        places.insert(frame.offset, (FrameRef { offset, length: 0, check: 0 }, block));
        let entries = moved_entries(&directory.entries, &places);
        stored_directory = encode_plain(&Directory { pieces: directory.pieces.clone(), entries });
        operations.iter().for_each(|operation| operation.apply(Some(Part::Directory), &mut stored_directory));
    }
    header.directory_len = len(&stored_directory);
    header.payload_checksum = checksum(&payload, offset);
    header.directory_checksum = if stored_directory.is_empty() { 0 } else { checksum(&stored_directory, offset) };
    let mut header_bytes = header.encode(offset).0.to_vec();
    operations.iter().for_each(|operation| operation.apply(Some(Part::Header), &mut header_bytes));
    put_sum(layout::frame::HEADER_CHECKSUM, &mut header_bytes, offset);
    block.check = u64::from_le_bytes(layout::frame::HEADER_CHECKSUM.get(&header_bytes));
    out.extend_from_slice(&header_bytes);
    out.resize(out.len() + usize::try_from(header.pad_len).expect("less than 4,096"), 0);
    out.extend_from_slice(&payload);
    out.extend_from_slice(&stored_directory);
    out.resize(out.len().next_multiple_of(usize::try_from(ALIGNMENT).expect("it is 8")), 0);
    let length = out.len() as u64 - offset;
    (FrameRef { offset, length, check: block.check }, block)
}

impl Body {
    /// Returns the payload with references to where the frames are now.
    fn encode(&self, places: &Places) -> Vec<u8> {
        let moved = |frame: &FrameRef| places.get(&frame.offset).map_or(*frame, |(moved, _)| *moved);
        match self {
            Self::Entries(Page::Leaf(entries)) => Page::Leaf(moved_entries(entries, places)).encode(),
            Self::Entries(Page::Inner(page)) => {
                let mut page = page.clone();
                page.children.iter_mut().for_each(|child| child.page = moved(&child.page));
                Page::Inner(page).encode()
            }
            Self::Extents(ExtentPage::Leaf(segments)) => {
                ExtentPage::Leaf(segments.iter().map(|segment| moved_segment(segment, places)).collect()).encode()
            }
            Self::Extents(ExtentPage::Inner(level, children)) => {
                ExtentPage::Inner(*level, children.iter().map(|(page, len)| (moved(page), *len)).collect()).encode()
            }
            Self::Chunks(ChunkPage::Leaf(chunks)) => {
                let mut chunks = chunks.clone();
                for chunk in &mut chunks {
                    chunk.block = places.get(&chunk.block).map_or(chunk.block, |(moved, _)| moved.offset);
                }
                ChunkPage::Leaf(chunks).encode()
            }
            Self::Chunks(ChunkPage::Inner(level, children)) => {
                let children = children.iter().map(|(key, page, pieces)| (*key, moved(page), *pieces));
                ChunkPage::Inner(*level, children.collect()).encode()
            }
            Self::Commit(commit) => {
                let mut commit = commit.clone();
                let Commit { entry_root, previous, attributes, runs, .. } = &mut *commit;
                for reference in [entry_root, previous, attributes].into_iter().flatten().chain(runs) {
                    *reference = moved(reference);
                }
                commit.encode()
            }
            Self::Other(payload) => payload.clone(),
        }
    }
}

fn moved_extent(extent: &Extent, places: &Places) -> Extent {
    Extent { block: places.get(&extent.block.offset).map_or(extent.block, |(_, block)| *block), ..*extent }
}

fn moved_segment(segment: &Segment, places: &Places) -> Segment {
    match segment {
        Segment::Data(extent) => Segment::Data(moved_extent(extent, places)),
        Segment::Hole(len) => Segment::Hole(*len),
    }
}

/// Returns the entries with references to where the frames are now. An entry that can't be written any more keeps its former ones.
fn moved_entries(entries: &[Entry], places: &Places) -> Vec<Entry> {
    let moved = |entry: &Entry| {
        let content = match entry.content() {
            Content::None => Content::None,
            Content::Extent(extent) => Content::Extent(moved_extent(extent, places)),
            Content::Raw(extent, sum) => Content::Raw(moved_extent(extent, places), *sum),
            Content::List(segments, digest) => {
                Content::List(segments.iter().map(|segment| moved_segment(segment, places)).collect(), digest.clone())
            }
            Content::Map(root, digest) => Content::Map(places.get(&root.offset).map_or(*root, |(root, _)| *root), digest.clone()),
        };
        let moved = Entry { location: content.into(), ..entry.clone() };
        if check(&moved).is_ok() { moved } else { entry.clone() }
    };
    entries.iter().map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::reencode;
    use crate::reader::NraReader;
    use crate::writer::{NewContent, Writer, WriterOptions};
    use nra_core::archive::{Archive, OpenOptions};
    use nra_core::codec::Method;
    use nra_core::digest::Digest;
    use nra_core::entry::Kind;
    use nra_core::path::EntryPath;
    use nra_core::progress::Recorder;
    use nra_core::source::MemorySource;

    fn archive() -> Vec<u8> {
        let options = WriterOptions { reproducible: true, method: Method::zstd(3), align: 64, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        for (name, bytes, incompressible) in [("a/text", vec![b'x'; 500], false), ("b", b"raw".to_vec(), true)] {
            let entry = Entry::new(EntryPath::try_from(name).unwrap(), Kind::File);
            let digest = Digest::of(&bytes);
            writer.add(entry, NewContent::Whole { bytes: &bytes, digest, incompressible }).unwrap();
        }
        writer.finish(&Recorder::default()).unwrap().0
    }

    fn open(bytes: &[u8]) -> NraReader {
        NraReader::open(std::sync::Arc::new(MemorySource::new(bytes)), &OpenOptions { recover: false, ..OpenOptions::default() })
            .unwrap()
    }

    /// Number of the first item that holds a frame of this kind.
    fn item(anatomy: &Anatomy, kind: FrameKind) -> usize {
        anatomy.items.iter().position(|item| matches!(item, Item::Frame(frame) if frame.header.kind == kind)).unwrap()
    }

    fn content(archive: &NraReader, path: &str) -> Result<Vec<u8>, String> {
        let (_, entry) = archive.find(path.as_bytes()).unwrap().unwrap();
        archive.read_all(&entry, 1000).map_err(|error| error.to_string())
    }

    #[test]
    fn an_archive_that_is_put_together_again_holds_the_same() {
        let bytes = archive();
        let anatomy = Anatomy::of(&bytes).unwrap();
        let again = anatomy.rebuild(&[]);
        for archive in [open(&bytes), open(&again)] {
            assert_eq!(archive.entry_count(), 3);
            assert_eq!(content(&archive, "a/text"), Ok(vec![b'x'; 500]));
            assert_eq!(content(&archive, "b"), Ok(b"raw".to_vec()));
        }
        assert_eq!(Anatomy::of(&again).unwrap().rebuild(&[]), again);
        assert_eq!(Anatomy::of(&again).unwrap().frames().len(), anatomy.frames().len());
        assert!(Anatomy::of(&bytes[..bytes.len() - 8]).is_err());
    }

    #[test]
    fn its_structures_are_valid() {
        let structures = Anatomy::of(&archive()).unwrap().structures();
        for (structure, mut bytes) in structures.clone() {
            seal(structure, &mut bytes);
            assert_eq!(reencode(structure, &bytes), Some(bytes), "{structure:?}");
        }
        for structure in [Structure::Head, Structure::Tail, Structure::Directory, Structure::EntryPage, Structure::ChunkPage] {
            assert!(structures.iter().any(|(found, _)| *found == structure), "{structure:?}");
        }
    }

    #[test]
    fn changes_are_sealed() {
        let bytes = archive();
        let anatomy = Anatomy::of(&bytes).unwrap();
        let blocks: Vec<usize> = (0..anatomy.len())
            .filter(|&i| matches!(&anatomy.items[i], Item::Frame(frame) if frame.header.codec == Codec::None && frame.directory.is_some()))
            .collect();
        let [raw, ..] = blocks[..] else { panic!("no raw block") };
        let part = Part::Payload;
        let changed = anatomy.rebuild(&[Operation::Overwrite { item: raw, part, at: 0, bytes: b"R".to_vec() }]);
        // Nothing but the checksum of the content itself is left to tell.
        assert!(content(&open(&changed), "b").unwrap_err().contains("content checksum"));
        let longer = anatomy.rebuild(&[Operation::Insert { item: raw, part, at: 3, bytes: vec![0; 100] }]);
        assert_eq!(content(&open(&longer), "b"), Ok(b"raw".to_vec()));
        let root = item(&anatomy, FrameKind::EntryPage);
        let shorter = anatomy.rebuild(&[Operation::Remove { item: root, part, at: 5, len: 1 }]);
        assert!(open(&shorter).find(b"b").unwrap_err().to_string().starts_with("entry page"));
        let commit = item(&anatomy, FrameKind::Commit);
        let redirected = anatomy.rebuild(&[Operation::Redirect { item: commit, from: root, to: raw }]);
        assert!(open(&redirected).find(b"b").unwrap_err().to_string().contains("a frame of kind block is in its place"));
        assert!(
            anatomy.rebuild(&[Operation::Drop { item: raw }]).len() < anatomy.rebuild(&[Operation::Repeat { item: raw }]).len()
        );
    }
}
