//! Archives taken apart, changed and rebuilt with valid checksums and references.
//!
//! The first checksum catches a changed byte, so a fuzzer that changes files rarely gets past the
//! footer. Here a change is made below the checksums. Lengths, checksums and offsets are then those
//! that a malicious writer would write.

use std::collections::HashMap;
use std::ops::Range;

use crate::block_index::BlockIndex;
use crate::chunk_run::ChunkPage;
use crate::commit::Commit;
use crate::content::{BlockRef, Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::entry_page::EntryPage;
use crate::extent_map::ExtentPage;
use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{ALIGNMENT, FrameHeader, FrameKind, HEADER_LEN};
use crate::fuzzing::structure::{Structure, encode_plain, put_sum, seal};
use crate::layout;
use crate::layout::SUPERBLOCK_LEN;
use crate::records::check;
use crate::superblock::Superblock;
use nra_core::checksum::checksum;
use nra_core::codec::{Codec, decompress};
use nra_core::entry::Entry;

/// A change to one element of an archive: the superblock, a frame or a footer, numbered in file
/// order. Numbers and offsets that are too large wrap around.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    /// Overwrites bytes.
    Overwrite { element: usize, part: Part, at: usize, bytes: Vec<u8> },
    /// Inserts bytes.
    Insert { element: usize, part: Part, at: usize, bytes: Vec<u8> },
    /// Removes bytes.
    Remove { element: usize, part: Part, at: usize, len: usize },
    /// Redirects references from one frame to another.
    Redirect { element: usize, from: usize, to: usize },
    /// Drops the element. References to it keep the old offset.
    Drop { element: usize },
    /// Repeats the element.
    Repeat { element: usize },
}

/// A part of a frame. Superblock and footer have only one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The header. Its length cannot change.
    Header,
    /// The payload: raw for pages, as stored for blocks.
    Payload,
    /// The block index, uncompressed.
    BlockIndex,
}

/// A dissected archive.
#[derive(Debug, Clone)]
pub struct Dissection {
    elements: Vec<Element>,
}

#[derive(Debug, Clone)]
enum Element {
    Superblock(Superblock),
    Frame(Box<Frame>),
    Footer { offset: u64, footer: Footer },
}

#[derive(Debug, Clone)]
struct Frame {
    /// Offset in the dissected archive.
    offset: u64,
    header: FrameHeader,
    body: Body,
    block_index: Option<BlockIndex>,
}

#[derive(Debug, Clone)]
enum Body {
    Entries(EntryPage),
    Extents(ExtentPage),
    Chunks(ChunkPage),
    Commit(Box<Commit>),
    /// A payload without references.
    Other(Vec<u8>),
}

/// New locations of frames by their offset in the dissected archive.
type NewOffsets = HashMap<u64, (FrameRef, BlockRef)>;

impl Dissection {
    /// Dissects an undamaged archive.
    ///
    /// # Errors
    ///
    /// The reason why the archive cannot be dissected.
    pub fn of(archive: &[u8]) -> Result<Self, String> {
        let superblock = archive.first_chunk::<SUPERBLOCK_LEN>().ok_or("no superblock")?;
        let (superblock, _) = Superblock::parse(superblock).map_err(|error| error.to_string())?;
        let mut elements = vec![Element::Superblock(superblock)];
        let mut at = SUPERBLOCK_LEN;
        while let Some(first) = archive.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LEN>()) {
            let offset = at as u64;
            if let Ok(footer) = Footer::parse(first, offset) {
                elements.push(Element::Footer { offset, footer });
                at += FOOTER_LEN;
                continue;
            }
            let (header, _) = FrameHeader::parse(first, offset).map_err(|error| error.to_string())?;
            let len = usize::try_from(header.frame_len()).map_err(|error| error.to_string())?;
            let bytes = archive.get(at..at + len).ok_or("a truncated frame")?;
            elements.push(dissect_frame(offset, header, bytes).map_err(|detail| format!("frame at offset {offset}: {detail}"))?);
            at += len;
        }
        if at == archive.len() { Ok(Self { elements }) } else { Err(format!("surplus bytes at offset {at}")) }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns whether there are no elements. This never happens.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the ranges of the frames in the dissected archive, and their kinds.
    pub fn frames(&self) -> Vec<(Range<u64>, FrameKind)> {
        let frames = self.elements.iter().filter_map(|element| match element {
            Element::Frame(frame) => Some((frame.offset..frame.offset + frame.header.frame_len(), frame.header.kind)),
            Element::Superblock(_) | Element::Footer { .. } => None,
        });
        frames.collect()
    }

    /// Returns every structure that is parsed on its own, in the form that
    /// [`reencode`](crate::fuzzing::reencode) expects. Checksums of headers may be invalid.
    pub fn structures(&self) -> Vec<(Structure, Vec<u8>)> {
        let mut found = Vec::new();
        for element in &self.elements {
            match element {
                Element::Superblock(superblock) => found.push((Structure::Superblock, superblock.encode().to_vec())),
                Element::Footer { offset, footer } => found.push((Structure::Footer, footer.encode(*offset).to_vec())),
                Element::Frame(frame) => {
                    found.push((Structure::FrameHeader, frame.header.encode(frame.offset).0.to_vec()));
                    if let Some(block_index) = &frame.block_index {
                        found.push((
                            Structure::BlockIndex,
                            [&frame.header.raw_len.to_le_bytes()[..], &encode_plain(block_index)].concat(),
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
                    found.push((structure, frame.body.encode(&NewOffsets::new())));
                }
            }
        }
        found
    }

    /// Rebuilds the archive after `operations`.
    pub fn rebuild(&self, operations: &[Operation]) -> Vec<u8> {
        let mut new_offsets = NewOffsets::new();
        let mut out = Vec::new();
        for (number, element) in self.elements.iter().enumerate() {
            let own: Vec<&Operation> =
                operations.iter().filter(|operation| operation.element() % self.elements.len() == number).collect();
            if own.iter().any(|operation| matches!(operation, Operation::Drop { .. })) {
                continue;
            }
            let times = 1 + own.iter().filter(|operation| matches!(operation, Operation::Repeat { .. })).count().min(3);
            for _ in 0..times {
                match element {
                    Element::Superblock(superblock) => {
                        let mut bytes = superblock.encode().to_vec();
                        own.iter().for_each(|operation| operation.apply(None, &mut bytes));
                        seal(Structure::Superblock, &mut bytes);
                        out.extend_from_slice(&bytes);
                    }
                    Element::Footer { offset, footer } => write_footer(&mut out, *offset, footer, &own, &new_offsets),
                    Element::Frame(frame) => {
                        let redirected = self.redirect(&own, &new_offsets);
                        let placed = write_frame(&mut out, frame, &own, redirected.as_ref().unwrap_or(&new_offsets));
                        new_offsets.insert(frame.offset, placed);
                    }
                }
            }
        }
        out
    }

    /// Returns new locations with the redirections applied, if there are any.
    fn redirect(&self, operations: &[&Operation], new_offsets: &NewOffsets) -> Option<NewOffsets> {
        let mut redirected = None;
        for operation in operations {
            if let Operation::Redirect { from, to, .. } = operation
                && let Element::Frame(from) = &self.elements[from % self.elements.len()]
                && let Element::Frame(to) = &self.elements[to % self.elements.len()]
                && let Some(place) = new_offsets.get(&to.offset)
            {
                redirected.get_or_insert_with(|| new_offsets.clone()).insert(from.offset, *place);
            }
        }
        redirected
    }
}

impl Operation {
    fn element(&self) -> usize {
        match self {
            Self::Overwrite { element, .. }
            | Self::Insert { element, .. }
            | Self::Remove { element, .. }
            | Self::Redirect { element, .. }
            | Self::Drop { element }
            | Self::Repeat { element } => *element,
        }
    }

    /// Changes `target`, which is this part of a frame; `None` = superblock or footer.
    fn apply(&self, part_of_frame: Option<Part>, target: &mut Vec<u8>) {
        let is_selected = |part: &Part| part_of_frame.is_none_or(|meant| meant == *part);
        let fixed_len = matches!(part_of_frame, None | Some(Part::Header));
        match self {
            Self::Overwrite { part, at, bytes, .. } if is_selected(part) && !target.is_empty() => {
                let at = at % target.len();
                let len = bytes.len().min(target.len() - at);
                target[at..at + len].copy_from_slice(&bytes[..len]);
            }
            Self::Insert { part, at, bytes, .. } if is_selected(part) && !fixed_len => {
                let at = at % (target.len() + 1);
                target.splice(at..at, bytes.iter().copied());
            }
            Self::Remove { part, at, len, .. } if is_selected(part) && !fixed_len && !target.is_empty() => {
                let at = at % target.len();
                target.drain(at..at.saturating_add(*len).min(target.len()));
            }
            _ => {}
        }
    }
}

fn dissect_frame(offset: u64, header: FrameHeader, bytes: &[u8]) -> Result<Element, String> {
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
        FrameKind::EntryPage => Body::Entries(EntryPage::parse(&raw()?)?),
        FrameKind::ExtentPage => Body::Extents(ExtentPage::parse(&raw()?)?),
        FrameKind::ChunkPage => Body::Chunks(ChunkPage::parse(&raw()?)?),
        FrameKind::Commit => Body::Commit(Commit::parse(stored)?.into()),
        FrameKind::Attributes => Body::Other(raw()?),
        FrameKind::Block | FrameKind::Dictionary | FrameKind::Keys | FrameKind::Recovery => Body::Other(stored.to_vec()),
    };
    let block_index = match header.block_index_len {
        0 => None,
        len => Some(BlockIndex::parse(slice(header.block_index_start(), len), offset, header.raw_len)?),
    };
    Ok(Element::Frame(Frame { offset, header, body, block_index }.into()))
}

fn write_footer(out: &mut Vec<u8>, offset: u64, footer: &Footer, operations: &[&Operation], new_offsets: &NewOffsets) {
    let mut footer = *footer;
    if let Some((commit, _)) = new_offsets.get(&footer.commit_offset) {
        (footer.commit_offset, footer.commit_length) = (commit.offset, commit.length);
    }
    let mut bytes = footer.encode(offset).to_vec();
    operations.iter().for_each(|operation| operation.apply(None, &mut bytes));
    seal(Structure::Footer, &mut bytes);
    out.extend_from_slice(&bytes);
}

/// Appends a frame and returns references to it.
fn write_frame(out: &mut Vec<u8>, frame: &Frame, operations: &[&Operation], new_offsets: &NewOffsets) -> (FrameRef, BlockRef) {
    let offset = out.len() as u64;
    let mut payload = frame.body.encode(new_offsets);
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
    if let Some((dictionary, _)) = new_offsets.get(&header.dictionary) {
        header.dictionary = dictionary.offset;
    }
    let mut block =
        BlockRef { offset, raw_len: header.raw_len, stored_len: header.stored_len, pad_len: header.pad_len, header_checksum: 0 };
    let mut stored_block_index = Vec::new();
    if let Some(block_index) = &frame.block_index {
        let mut new_offsets = new_offsets.clone();
        new_offsets.insert(frame.offset, (FrameRef { offset, length: 0, header_checksum: 0 }, block));
        let entries = moved_entries(&block_index.entries, &new_offsets);
        stored_block_index = encode_plain(&BlockIndex { chunks: block_index.chunks.clone(), entries });
        operations.iter().for_each(|operation| operation.apply(Some(Part::BlockIndex), &mut stored_block_index));
    }
    header.block_index_len = len(&stored_block_index);
    header.payload_checksum = checksum(&payload, offset);
    header.block_index_checksum = if stored_block_index.is_empty() { 0 } else { checksum(&stored_block_index, offset) };
    let mut header_bytes = header.encode(offset).0.to_vec();
    operations.iter().for_each(|operation| operation.apply(Some(Part::Header), &mut header_bytes));
    put_sum(layout::frame::HEADER_CHECKSUM, &mut header_bytes, offset);
    block.header_checksum = u64::from_le_bytes(layout::frame::HEADER_CHECKSUM.get(&header_bytes));
    out.extend_from_slice(&header_bytes);
    out.resize(out.len() + usize::try_from(header.pad_len).expect("less than 4,096"), 0);
    out.extend_from_slice(&payload);
    out.extend_from_slice(&stored_block_index);
    out.resize(out.len().next_multiple_of(usize::try_from(ALIGNMENT).expect("it is 8")), 0);
    let length = out.len() as u64 - offset;
    (FrameRef { offset, length, header_checksum: block.header_checksum }, block)
}

impl Body {
    /// Returns the payload with references to the new locations.
    fn encode(&self, new_offsets: &NewOffsets) -> Vec<u8> {
        let moved = |frame: &FrameRef| new_offsets.get(&frame.offset).map_or(*frame, |(moved, _)| *moved);
        match self {
            Self::Entries(EntryPage::Leaf(entries)) => EntryPage::Leaf(moved_entries(entries, new_offsets)).encode(),
            Self::Entries(EntryPage::Inner(page)) => {
                let mut page = page.clone();
                page.children.iter_mut().for_each(|child| child.page = moved(&child.page));
                EntryPage::Inner(page).encode()
            }
            Self::Extents(ExtentPage::Leaf(segments)) => {
                ExtentPage::Leaf(segments.iter().map(|segment| moved_segment(segment, new_offsets)).collect()).encode()
            }
            Self::Extents(ExtentPage::Inner(level, children)) => {
                ExtentPage::Inner(*level, children.iter().map(|(page, len)| (moved(page), *len)).collect()).encode()
            }
            Self::Chunks(ChunkPage::Leaf(chunks)) => {
                let mut chunks = chunks.clone();
                for chunk in &mut chunks {
                    chunk.block = new_offsets.get(&chunk.block).map_or(chunk.block, |(moved, _)| moved.offset);
                }
                ChunkPage::Leaf(chunks).encode()
            }
            Self::Chunks(ChunkPage::Inner(level, children)) => {
                let children = children.iter().map(|(key, page, chunks)| (*key, moved(page), *chunks));
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

fn moved_extent(extent: &Extent, new_offsets: &NewOffsets) -> Extent {
    Extent { block: new_offsets.get(&extent.block.offset).map_or(extent.block, |(_, block)| *block), ..*extent }
}

fn moved_segment(segment: &Segment, new_offsets: &NewOffsets) -> Segment {
    match segment {
        Segment::Data(extent) => Segment::Data(moved_extent(extent, new_offsets)),
        Segment::Hole(len) => Segment::Hole(*len),
    }
}

/// Returns the entries with references to the new locations. An entry that becomes invalid keeps
/// its old references.
fn moved_entries(entries: &[Entry], new_offsets: &NewOffsets) -> Vec<Entry> {
    let moved = |entry: &Entry| {
        let content = match entry.content() {
            Content::None => Content::None,
            Content::Extent(extent) => Content::Extent(moved_extent(extent, new_offsets)),
            Content::Uncompressed(extent, sum) => Content::Uncompressed(moved_extent(extent, new_offsets), *sum),
            Content::List(segments, digest) => {
                Content::List(segments.iter().map(|segment| moved_segment(segment, new_offsets)).collect(), digest.clone())
            }
            Content::Map(root, digest) => {
                Content::Map(new_offsets.get(&root.offset).map_or(*root, |(root, _)| *root), digest.clone())
            }
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

    /// Returns the number of the first element that holds a frame of this kind.
    fn element(dissection: &Dissection, kind: FrameKind) -> usize {
        dissection
            .elements
            .iter()
            .position(|element| matches!(element, Element::Frame(frame) if frame.header.kind == kind))
            .unwrap()
    }

    fn content(archive: &NraReader, path: &str) -> Result<Vec<u8>, String> {
        let (_, entry) = archive.find(path.as_bytes()).unwrap().unwrap();
        archive.read_all(&entry, 1000).map_err(|error| error.to_string())
    }

    #[test]
    fn rebuilt_archive_holds_the_same_content() {
        let bytes = archive();
        let dissection = Dissection::of(&bytes).unwrap();
        let again = dissection.rebuild(&[]);
        for archive in [open(&bytes), open(&again)] {
            assert_eq!(archive.entry_count(), 3);
            assert_eq!(content(&archive, "a/text"), Ok(vec![b'x'; 500]));
            assert_eq!(content(&archive, "b"), Ok(b"raw".to_vec()));
        }
        assert_eq!(Dissection::of(&again).unwrap().rebuild(&[]), again);
        assert_eq!(Dissection::of(&again).unwrap().frames().len(), dissection.frames().len());
        assert!(Dissection::of(&bytes[..bytes.len() - 8]).is_err());
    }

    #[test]
    fn extracted_structures_are_valid() {
        let structures = Dissection::of(&archive()).unwrap().structures();
        for (structure, mut bytes) in structures.clone() {
            seal(structure, &mut bytes);
            assert_eq!(reencode(structure, &bytes), Some(bytes), "{structure:?}");
        }
        for structure in
            [Structure::Superblock, Structure::Footer, Structure::BlockIndex, Structure::EntryPage, Structure::ChunkPage]
        {
            assert!(structures.iter().any(|(found, _)| *found == structure), "{structure:?}");
        }
    }

    #[test]
    fn changed_archives_have_valid_checksums() {
        let bytes = archive();
        let dissection = Dissection::of(&bytes).unwrap();
        let blocks: Vec<usize> = (0..dissection.len())
            .filter(|&i| matches!(&dissection.elements[i], Element::Frame(frame) if frame.header.codec == Codec::None && frame.block_index.is_some()))
            .collect();
        let [raw, ..] = blocks[..] else { panic!("no raw block") };
        let part = Part::Payload;
        let changed = dissection.rebuild(&[Operation::Overwrite { element: raw, part, at: 0, bytes: b"R".to_vec() }]);
        // Only the checksum of the content itself can detect this.
        assert!(content(&open(&changed), "b").unwrap_err().contains("content checksum"));
        let longer = dissection.rebuild(&[Operation::Insert { element: raw, part, at: 3, bytes: vec![0; 100] }]);
        assert_eq!(content(&open(&longer), "b"), Ok(b"raw".to_vec()));
        let root = element(&dissection, FrameKind::EntryPage);
        let shorter = dissection.rebuild(&[Operation::Remove { element: root, part, at: 5, len: 1 }]);
        assert!(open(&shorter).find(b"b").unwrap_err().to_string().starts_with("entry page"));
        let commit = element(&dissection, FrameKind::Commit);
        let redirected = dissection.rebuild(&[Operation::Redirect { element: commit, from: root, to: raw }]);
        assert!(open(&redirected).find(b"b").unwrap_err().to_string().contains("found a frame of kind block"));
        assert!(
            dissection.rebuild(&[Operation::Drop { element: raw }]).len()
                < dissection.rebuild(&[Operation::Repeat { element: raw }]).len()
        );
    }
}
