//! A small writer with full control, for archives that the real writer does not create.

use std::collections::BTreeMap;

use crate::block_index::{BlockIndex, Chunk};
use crate::chunk_run::{ChunkLocation, ChunkPage};
use crate::commit::Commit;
use crate::content::{BlockRef, Content, EntryContent as _, Extent, FrameRef, Segment};
use crate::entry_page::{Child, EntryPage, InnerPage, separator};
use crate::footer::Footer;
use crate::frame::{FrameHeader, FrameKind};
use crate::superblock::{CommitSlot, Superblock};
use nra_core::checksum::{checksum, content_checksum};
use nra_core::codec::{Codec, Compressor, Dictionary, Method};
use nra_core::digest::Digest;
use nra_core::entry::{Entry, Kind};
use nra_core::path::EntryPath;
use nra_core::testing::noise;

pub(super) fn path(text: &str) -> EntryPath {
    EntryPath::try_from(text).unwrap()
}

/// An archive under construction, and the expected content of its entries.
pub(super) struct Builder {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: BTreeMap<EntryPath, Entry>,
    pub(super) contents: BTreeMap<EntryPath, Vec<u8>>,
    /// Kind, offset and length of each frame.
    pub(super) frames: Vec<(FrameKind, u64, u64)>,
    pub(super) superblock: Superblock,
    pub(super) dictionary: Option<(u64, Dictionary)>,
    pub(super) commit: Commit,
    pub(super) pad_len: u32,
    /// Entries of a leaf page, and children of an inner page.
    pub(super) fanout: usize,
    records: Vec<Entry>,
    places: Vec<ChunkLocation>,
}

impl Builder {
    pub(super) fn new() -> Self {
        let commit = Commit { number: 1, archive_id: [7; 16], ..Commit::default() };
        Self {
            bytes: Superblock::default().encode().to_vec(),
            entries: BTreeMap::new(),
            contents: BTreeMap::new(),
            frames: Vec::new(),
            superblock: Superblock::default(),
            dictionary: None,
            commit,
            pad_len: 0,
            fanout: 4,
            records: Vec::new(),
            places: Vec::new(),
        }
    }

    pub(super) fn frame(&mut self, kind: FrameKind, method: Method, raw: &[u8], block_index: &[u8]) -> (FrameRef, FrameHeader) {
        let place = self.bytes.len() as u64;
        let mut stored = Vec::new();
        let dictionary = self.dictionary.as_ref().filter(|_| kind == FrameKind::Block);
        let mut compressor = Compressor::new(method).unwrap();
        let codec = compressor.compress(raw, dictionary.map(|dictionary| &dictionary.1), &mut stored).unwrap();
        let header = FrameHeader {
            kind,
            codec,
            raw_len: raw.len() as u32,
            stored_len: stored.len() as u32,
            pad_len: if kind == FrameKind::Block { self.pad_len } else { 0 },
            block_index_len: block_index.len() as u32,
            dictionary: dictionary.filter(|_| codec == Codec::Zstd).map_or(0, |dictionary| dictionary.0),
            payload_checksum: checksum(&stored, place),
            block_index_checksum: if block_index.is_empty() { 0 } else { checksum(block_index, place) },
            commit: self.commit.number,
            sealed: false,
        };
        let (bytes, header_checksum) = header.encode(place);
        self.bytes.extend_from_slice(&bytes);
        self.bytes.resize(self.bytes.len() + header.pad_len as usize, 0);
        self.bytes.extend_from_slice(&stored);
        self.bytes.extend_from_slice(block_index);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.frames.push((kind, place, header.frame_len()));
        assert_eq!(self.bytes.len() as u64, place + header.frame_len());
        (FrameRef { offset: place, length: header.frame_len(), header_checksum }, header)
    }

    /// Adds an entry that is recorded with the next block.
    pub(super) fn entry(&mut self, entry: Entry) {
        if let Some(parent) = entry.path.parent()
            && !self.entries.contains_key(&parent)
        {
            self.entry(Entry::new(parent, Kind::Directory));
        }
        self.records.push(entry.clone());
        self.entries.insert(entry.path.clone(), entry);
    }

    /// Writes a block of whole files.
    pub(super) fn block(&mut self, method: Method, files: &[(&str, &[u8])]) {
        let raw: Vec<u8> = files.iter().flat_map(|file| file.1.iter().copied()).collect();
        let mut offset = 0u32;
        let mut extents = Vec::new();
        for (_, content) in files {
            extents.push((offset, content.len() as u64));
            offset += content.len() as u32;
        }
        let chunks = files.iter().map(|file| Chunk { gap: 0, raw_len: file.1.len() as u32, digest: Digest::of(file.1) });
        let chunks: Vec<Chunk> = chunks.collect();
        // Compressed once to learn the fields of the block table.
        let place = self.bytes.len() as u64;
        let mut stored = Vec::new();
        let dictionary = self.dictionary.as_ref().map(|dictionary| &dictionary.1);
        let codec = Compressor::new(method).unwrap().compress(&raw, dictionary, &mut stored).unwrap();
        let mut block = BlockRef {
            offset: place,
            raw_len: raw.len() as u32,
            stored_len: stored.len() as u32,
            pad_len: self.pad_len,
            header_checksum: 0,
        };
        for ((name, content), (offset, len)) in files.iter().zip(&extents) {
            let mut entry = Entry::new(path(name), Kind::File);
            entry.size = *len;
            *entry.content_mut() = Content::Extent(Extent { block, offset: *offset, len: *len });
            self.contents.insert(entry.path.clone(), content.to_vec());
            self.entry(entry);
        }
        let frame = self.write_block(method, &raw, chunks);
        block.header_checksum = frame.header_checksum;
        for ((name, content), (offset, len)) in files.iter().zip(&extents) {
            let extent = Extent { block, offset: *offset, len: *len };
            let raw = codec == Codec::None;
            *self.entries.get_mut(&path(name)).unwrap().content_mut() =
                if raw { Content::Uncompressed(extent, content_checksum(content)) } else { Content::Extent(extent) };
        }
    }

    /// Writes a block with the waiting records. Returns the reference to it.
    pub(super) fn write_block(&mut self, method: Method, raw: &[u8], chunks: Vec<Chunk>) -> BlockRef {
        self.commit.blocks += 1;
        self.commit.chunks += chunks.len() as u64;
        self.commit.chunk_bytes += raw.len() as u64;
        let block = self.bytes.len() as u64;
        let place = |(chunk, listed): (u32, &Chunk)| ChunkLocation { key: listed.digest.key(), block, chunk };
        self.places.extend((0..).zip(&chunks).map(place));
        let block_index = BlockIndex { chunks, entries: std::mem::take(&mut self.records) }.encode();
        let (frame, header) = self.frame(FrameKind::Block, method, raw, &block_index);
        self.commit.stored_bytes += u64::from(header.stored_len);
        BlockRef {
            offset: frame.offset,
            raw_len: header.raw_len,
            stored_len: header.stored_len,
            pad_len: header.pad_len,
            header_checksum: frame.header_checksum,
        }
    }

    /// Adds a file of several extents and holes. Its chunks are in blocks written before.
    pub(super) fn list(&mut self, name: &str, segments: Vec<Segment>, content: Vec<u8>) {
        let mut entry = Entry::new(path(name), Kind::File);
        entry.size = content.len() as u64;
        *entry.content_mut() = Content::List(segments.into(), None);
        self.contents.insert(entry.path.clone(), content);
        self.entry(entry);
    }

    pub(super) fn dictionary(&mut self, dictionary: Dictionary) {
        let (frame, _) = self.frame(FrameKind::Dictionary, Method::NONE, dictionary.as_bytes(), b"");
        self.dictionary = Some((frame.offset, dictionary));
    }

    /// Writes pages, commit frame and footer.
    pub(super) fn commit(&mut self) {
        if !self.records.is_empty() {
            self.write_block(Method::NONE, b"", Vec::new());
        }
        self.commit.entries = self.entries.len() as u64;
        self.commit.files = self.entries.values().filter(|entry| entry.kind == Kind::File).count() as u64;
        self.commit.content_bytes = self.entries.values().map(|entry| entry.size).sum();
        if !self.places.is_empty() {
            self.places.sort_unstable();
            let page = ChunkPage::Leaf(self.places.clone()).encode();
            self.commit.runs = vec![self.frame(FrameKind::ChunkPage, Method::zstd(3), &page, b"").0];
        }
        self.commit.entry_root = self.pages();
        self.seal();
    }

    /// Writes commit frame and footer.
    pub(super) fn seal(&mut self) {
        let payload = self.commit.encode();
        let (frame, _) = self.frame(FrameKind::Commit, Method::NONE, &payload, b"");
        let footer = Footer {
            required: self.superblock.required,
            commit_offset: frame.offset,
            commit_length: frame.length,
            keys: (0, 0),
            number: self.commit.number,
        };
        let place = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&footer.encode(place));
        self.commit.previous = Some(frame);
        self.commit.number += 1;
    }

    /// Leaves one chunk out of the chunk run.
    pub(super) fn forget_chunk(&mut self) {
        self.places.pop();
    }

    /// Records the current end in a commit slot, as an append does.
    pub(super) fn note_slot(&mut self) {
        let older = usize::from(self.superblock.slots[0].is_some());
        self.superblock.slots[older] = Some(CommitSlot { number: self.commit.number - 1, end: self.bytes.len() as u64 });
        let superblock = self.superblock.encode();
        self.bytes[..superblock.len()].copy_from_slice(&superblock);
    }

    fn pages(&mut self) -> Option<FrameRef> {
        let entries: Vec<Entry> = self.entries.values().cloned().collect();
        let mut last: &[u8] = b"";
        let mut level: Vec<Child> = Vec::new();
        for leaf in entries.chunks(self.fanout) {
            let payload = EntryPage::Leaf(leaf.to_vec()).encode();
            let (page, _) = self.frame(FrameKind::EntryPage, Method::zstd(3), &payload, b"");
            let first = leaf[0].path.as_bytes();
            let key: Box<[u8]> = if level.is_empty() { Box::default() } else { separator(last, first).into() };
            last = leaf[leaf.len() - 1].path.as_bytes();
            let content_bytes = leaf.iter().map(|entry| entry.size).sum();
            level.push(Child { key, page, entries: leaf.len() as u64, content_bytes });
        }
        let mut number = 1;
        while level.len() > 1 {
            let mut above = Vec::new();
            for children in level.chunks(self.fanout.max(2)) {
                let payload = EntryPage::Inner(InnerPage { level: number, children: children.to_vec() }).encode();
                let (page, _) = self.frame(FrameKind::EntryPage, Method::zstd(3), &payload, b"");
                above.push(Child {
                    key: children[0].key.clone(),
                    page,
                    entries: children.iter().map(|child| child.entries).sum(),
                    content_bytes: children.iter().map(|child| child.content_bytes).sum(),
                });
            }
            (level, number) = (above, number + 1);
        }
        level.first().map(|root| root.page)
    }
}

/// Returns compressible bytes.
pub(super) fn text(len: usize, seed: u64) -> Vec<u8> {
    (seed..).flat_map(|i| format!("line {i} of a text, {}\n", i.wrapping_mul(7919) % 1000).into_bytes()).take(len).collect()
}

/// Returns a small archive with every form of content except extent maps.
pub(super) fn small() -> Builder {
    let mut builder = Builder::new();
    builder.entry(Entry::new(path("empty"), Kind::File));
    builder.contents.insert(path("empty"), Vec::new());
    let mut link = Entry::new(path("dir/link"), Kind::Symlink);
    link.target = b"../elsewhere".as_slice().into();
    builder.entry(link);
    builder.block(Method::NONE, &[("dir/raw1", &noise(300, 1)), ("dir/raw2", &noise(200, 2)), ("raw3", &noise(77, 3))]);
    builder.block(Method::zstd(3), &[("dir/sub/t1", &text(500, 1)), ("dir/sub/t2", &text(700, 2)), ("t3", &text(90, 3))]);
    builder.block(Method::LZ4, &[("dir!", &text(400, 9)), ("x/y/z/deep", &text(300, 10))]);
    let (first, second) = (text(600, 20), noise(250, 21));
    let chunk = |bytes: &[u8]| Chunk { gap: 0, raw_len: bytes.len() as u32, digest: Digest::of(bytes) };
    let a = builder.write_block(Method::zstd(1), &first, vec![chunk(&first)]);
    let b = builder.write_block(Method::NONE, &second, vec![chunk(&second)]);
    let segments = vec![
        Segment::Data(Extent { block: a, offset: 0, len: 600 }),
        Segment::Hole(5_000),
        Segment::Data(Extent { block: b, offset: 0, len: 250 }),
        Segment::Hole(30),
    ];
    let content = [&first[..], &[0; 5_000], &second, &[0; 30]].concat();
    builder.list("x/list", segments, content);
    builder.commit();
    builder
}
