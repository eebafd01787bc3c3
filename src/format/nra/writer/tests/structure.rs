//! Takes archives apart with the structures of the format alone, and checks everything on the way.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::block_index::BlockIndex;
use crate::chunk_run::{ChunkLocation, ChunkPage};
use crate::commit::Commit;
use crate::content::{Content, EntryContent as _, FrameRef, Segment};
use crate::entry_page::EntryPage;
use crate::extent_map::ExtentPage;
use crate::footer::{FOOTER_LEN, Footer};
use crate::frame::{FrameHeader, FrameKind, HEADER_LEN};
use crate::layout::SUPERBLOCK_LEN;
use crate::superblock::Superblock;
use nra_core::checksum::{checksum, content_checksum};
use nra_core::codec::{Dictionary, decompress};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::path::EntryPath;

/// A frame of an archive.
pub(super) struct Frame {
    pub reference: FrameRef,
    pub header: FrameHeader,
    pub payload: Vec<u8>,
    pub block_index: Vec<u8>,
}

/// A dissected archive. Everything was checked.
pub(super) struct ArchiveStructure {
    pub bytes: Vec<u8>,
    pub frames: BTreeMap<u64, Frame>,
    pub commit: Commit,
    pub entries: Vec<Entry>,
    pub dictionaries: HashMap<u64, Dictionary>,
}

impl ArchiveStructure {
    pub fn dissect(bytes: Vec<u8>) -> Self {
        let footer_offset = bytes.len() - FOOTER_LEN;
        let footer = Footer::parse(bytes[footer_offset..].try_into().unwrap(), footer_offset as u64).unwrap();
        let (superblock, damaged) = Superblock::parse(bytes[..SUPERBLOCK_LEN].try_into().unwrap()).unwrap();
        assert_eq!((superblock, damaged), (Superblock::default(), Vec::new()));
        let mut frames = BTreeMap::new();
        let mut dictionaries = HashMap::new();
        let mut place = SUPERBLOCK_LEN;
        while place < footer_offset {
            let (header, header_checksum) =
                FrameHeader::parse(bytes[place..place + HEADER_LEN].try_into().unwrap(), place as u64).unwrap();
            let reference = FrameRef { offset: place as u64, length: header.frame_len(), header_checksum };
            let payload = place + HEADER_LEN + header.pad_len as usize;
            let block_index = payload + header.stored_len as usize;
            let (stored, block_index) =
                (&bytes[payload..block_index], &bytes[block_index..block_index + header.block_index_len as usize]);
            assert_eq!(checksum(stored, place as u64), header.payload_checksum);
            assert_eq!(header.dictionary != 0, dictionaries.contains_key(&header.dictionary));
            let raw = decompress(header.codec, stored, header.raw_len as usize, dictionaries.get(&header.dictionary)).unwrap();
            if header.kind == FrameKind::Dictionary {
                dictionaries.insert(place as u64, Dictionary::new(raw.clone()).unwrap());
            }
            frames.insert(place as u64, Frame { reference, header, payload: raw, block_index: block_index.to_vec() });
            place += usize::try_from(header.frame_len()).unwrap();
        }
        assert_eq!(place, footer_offset);
        let commit = &frames[&footer.commit_offset];
        assert_eq!(commit.reference.length, footer.commit_length);
        let commit = Commit::parse(&commit.payload).unwrap();
        let mut parts = Self { bytes, frames, commit, entries: Vec::new(), dictionaries };
        if let Some(root) = parts.commit.entry_root {
            let mut entries = Vec::new();
            let (count, content) = parts.walk(root, &mut entries);
            assert_eq!((count, content), (parts.commit.entries, parts.commit.content_bytes));
            parts.entries = entries;
        }
        parts.check_order();
        parts.check_records();
        parts.check_chunks();
        parts
    }

    pub fn follow(&self, reference: FrameRef, kind: FrameKind) -> &[u8] {
        let frame = &self.frames[&reference.offset];
        assert_eq!((frame.reference, frame.header.kind), (reference, kind));
        &frame.payload
    }

    fn walk(&self, page: FrameRef, entries: &mut Vec<Entry>) -> (u64, u64) {
        match EntryPage::parse(self.follow(page, FrameKind::EntryPage)).unwrap() {
            EntryPage::Leaf(leaf) => {
                let content = leaf.iter().map(|entry| entry.size).sum();
                let count = leaf.len() as u64;
                entries.extend(leaf);
                (count, content)
            }
            EntryPage::Inner(inner) => inner.children.iter().fold((0, 0), |sum, child| {
                let below = self.walk(child.page, entries);
                assert_eq!(below, (child.entries, child.content_bytes));
                (sum.0 + below.0, sum.1 + below.1)
            }),
        }
    }

    fn check_order(&self) {
        let mut directories = HashSet::new();
        let mut before: Option<&EntryPath> = None;
        for entry in &self.entries {
            assert!(before.is_none_or(|before| *before < entry.path), "{:?}", entry.path);
            assert!(entry.path.parent().is_none_or(|parent| directories.contains(&parent)), "{:?}", entry.path);
            if entry.kind == Kind::Directory {
                directories.insert(entry.path.clone());
            }
            before = Some(&entry.path);
        }
    }

    /// Each entry must be recorded last for its path, with the same fields.
    fn check_records(&self) {
        let mut recorded = HashMap::new();
        for (&place, frame) in self.frames.iter().filter(|(_, frame)| frame.header.kind == FrameKind::Block) {
            let block_index = BlockIndex::parse(&frame.block_index, place, frame.header.raw_len).unwrap();
            for mut entry in block_index.entries {
                let header_checksum = frame.reference.header_checksum;
                match entry.content_mut() {
                    Content::Extent(extent) if extent.block.offset == place => extent.block.header_checksum = header_checksum,
                    Content::List(segments, _) => segments.iter_mut().for_each(|segment| match segment {
                        Segment::Data(extent) if extent.block.offset == place => extent.block.header_checksum = header_checksum,
                        _ => {}
                    }),
                    _ => {}
                }
                recorded.insert(entry.path.as_bytes().to_vec(), entry);
            }
        }
        for entry in &self.entries {
            let mut entry = entry.clone();
            if let Content::Uncompressed(extent, _) = *entry.content() {
                *entry.content_mut() = Content::Extent(extent);
            }
            assert_eq!(recorded.get(entry.path.as_bytes()), Some(&entry));
        }
    }

    /// Digests must match, and the chunk run must list every chunk.
    fn check_chunks(&self) {
        let (mut places, mut chunk_bytes, mut stored_bytes, mut blocks) = (Vec::new(), 0, 0, 0);
        for (&block, frame) in self.frames.iter().filter(|(_, frame)| frame.header.kind == FrameKind::Block) {
            let block_index = BlockIndex::parse(&frame.block_index, block, frame.header.raw_len).unwrap();
            let mut at = 0;
            for (number, chunk) in block_index.chunks.iter().enumerate() {
                at += chunk.gap as usize;
                let bytes = &frame.payload[at..at + chunk.raw_len as usize];
                assert_eq!(Digest::of(bytes), chunk.digest);
                at += bytes.len();
                chunk_bytes += bytes.len() as u64;
                places.push(ChunkLocation { key: chunk.digest.key(), block, chunk: number as u32 });
            }
            stored_bytes += u64::from(frame.header.stored_len);
            blocks += 1;
        }
        places.sort_unstable();
        let mut found = Vec::new();
        self.commit.runs.iter().for_each(|&run| self.walk_run(run, &mut found));
        assert!(found == places);
        let commit = &self.commit;
        assert_eq!(
            (commit.chunk_bytes, commit.stored_bytes, commit.blocks, commit.chunks),
            (chunk_bytes, stored_bytes, blocks, places.len() as u64)
        );
    }

    fn walk_run(&self, page: FrameRef, found: &mut Vec<ChunkLocation>) {
        match ChunkPage::parse(self.follow(page, FrameKind::ChunkPage)).unwrap() {
            ChunkPage::Leaf(places) => found.extend(places),
            ChunkPage::Inner(_, children) => children.iter().for_each(|child| self.walk_run(child.1, found)),
        }
    }

    pub fn entry(&self, text: &str) -> &Entry {
        self.entries.iter().find(|entry| entry.path.as_bytes() == text.as_bytes()).expect("there is such an entry")
    }

    pub fn content(&self, text: &str) -> Vec<u8> {
        let entry = self.entry(text);
        let mut content = Vec::new();
        match entry.content() {
            Content::None => {}
            Content::Extent(extent) | Content::Uncompressed(extent, _) => self.segment(&Segment::Data(*extent), &mut content),
            Content::List(segments, _) => segments.iter().for_each(|segment| self.segment(segment, &mut content)),
            Content::Map(root, _) => self.map(*root, &mut content),
        }
        if let Content::Uncompressed(extent, sum) = entry.content() {
            assert_eq!(content_checksum(&content), *sum);
            let start = extent.block.offset + HEADER_LEN as u64 + u64::from(extent.block.pad_len + extent.offset);
            assert_eq!(self.bytes[usize::try_from(start).unwrap()..][..content.len()], content);
        }
        assert_eq!(content.len() as u64, entry.size);
        content
    }

    fn map(&self, page: FrameRef, content: &mut Vec<u8>) {
        match ExtentPage::parse(self.follow(page, FrameKind::ExtentPage)).unwrap() {
            ExtentPage::Leaf(segments) => segments.iter().for_each(|segment| self.segment(segment, content)),
            ExtentPage::Inner(_, children) => children.iter().for_each(|child| self.map(child.0, content)),
        }
    }

    fn segment(&self, segment: &Segment, content: &mut Vec<u8>) {
        match segment {
            Segment::Hole(len) => content.resize(content.len() + usize::try_from(*len).unwrap(), 0),
            Segment::Data(extent) => {
                let frame = &self.frames[&extent.block.offset];
                assert_eq!(frame.reference.header_checksum, extent.block.header_checksum);
                assert_eq!(frame.header.raw_len, extent.block.raw_len);
                assert_eq!(frame.header.stored_len, extent.block.stored_len);
                assert_eq!(frame.header.pad_len, extent.block.pad_len);
                content.extend_from_slice(&frame.payload[extent.offset as usize..][..usize::try_from(extent.len).unwrap()]);
            }
        }
    }
}
