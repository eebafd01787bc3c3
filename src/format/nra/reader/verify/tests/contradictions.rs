//! Archives with contradicting structures and valid checksums.

use super::*;

/// A handmade archive in which single statements are wrong although all checksums are valid.
struct Forge {
    bytes: Vec<u8>,
    commit: Commit,
    entries: Vec<Entry>,
    /// Entries of the leaf pages, if they differ from `entries`.
    in_tree: Option<Vec<Entry>>,
    inner: fn(&mut InnerPage),
    places: Vec<ChunkLocation>,
    /// Frame (from 0), byte of its payload or block index, and its new value.
    tweak: Option<(usize, usize, u8)>,
    frames: usize,
}

impl Forge {
    /// Two directories and two files that share one uncompressed block of two chunks.
    fn new() -> Self {
        Self::tweaked(None)
    }

    fn tweaked(tweak: Option<(usize, usize, u8)>) -> Self {
        let mut forge = Self {
            bytes: Superblock::default().encode().to_vec(),
            commit: Commit { number: 1, ..Commit::default() },
            entries: vec![],
            in_tree: None,
            inner: |_| {},
            places: vec![],
            tweak,
            frames: 0,
        };
        let (first, second) = (noise(40, 1), noise(50, 2));
        let place = forge.bytes.len() as u64;
        let block = BlockRef { offset: place, raw_len: 90, stored_len: 90, pad_len: 0, header_checksum: 0 };
        let named = |path: &str, offset, len| {
            let mut entry = file(path);
            entry.size = len;
            *entry.content_mut() = Content::Extent(Extent { block, offset, len });
            entry
        };
        let directory = |path: &str| Entry::new(EntryPath::try_from(path).unwrap(), Kind::Directory);
        forge.entries = vec![directory("a"), named("a/x", 0, 40), directory("b"), named("b/y", 40, 50)];
        let chunks = [&first, &second].map(|bytes| {
            let (raw_len, digest) = (u32::try_from(bytes.len()).unwrap(), Digest::of(bytes));
            Chunk { gap: 0, raw_len, digest }
        });
        let numbered = (0..).zip(&chunks);
        forge.places = numbered.map(|(chunk, p)| ChunkLocation { key: p.digest.key(), block: place, chunk }).collect();
        forge.places.sort();
        let block_index = BlockIndex { chunks: chunks.to_vec(), entries: forge.entries.clone() }.encode();
        let reference = forge.frame(FrameKind::Block, &[first, second].concat(), &block_index);
        for (entry, sum) in forge.entries.iter_mut().zip([0, content_checksum(&noise(40, 1)), 0, content_checksum(&noise(50, 2))])
        {
            if let Content::Extent(mut extent) = *entry.content() {
                extent.block.header_checksum = reference.header_checksum;
                *entry.content_mut() = Content::Uncompressed(extent, sum);
            }
        }
        forge.commit = Commit {
            entries: 4,
            files: 2,
            content_bytes: 90,
            chunk_bytes: 90,
            stored_bytes: 90,
            blocks: 1,
            chunks: 2,
            ..forge.commit
        };
        forge
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8], block_index: &[u8]) -> FrameRef {
        let offset = self.bytes.len() as u64;
        let (mut payload, mut block_index) = (payload.to_vec(), block_index.to_vec());
        if let Some((_, at, to)) = self.tweak.filter(|tweak| tweak.0 == self.frames) {
            let at = at % (payload.len() + block_index.len());
            *payload.iter_mut().chain(&mut block_index).nth(at).unwrap() = to;
        }
        self.frames += 1;
        let len = u32::try_from(payload.len()).unwrap();
        let header = FrameHeader {
            kind,
            codec: Codec::None,
            raw_len: len,
            stored_len: len,
            pad_len: 0,
            block_index_len: u32::try_from(block_index.len()).unwrap(),
            dictionary: 0,
            payload_checksum: checksum(&payload, offset),
            block_index_checksum: if block_index.is_empty() { 0 } else { checksum(&block_index, offset) },
            commit: self.commit.number,
            sealed: false,
        };
        let (bytes, header_checksum) = header.encode(offset);
        [&bytes[..], &payload, &block_index].iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        FrameRef { offset, length: header.frame_len(), header_checksum }
    }

    /// Finishes the archive and returns the findings.
    fn verdict(self) -> Vec<(String, String)> {
        let verdict = verify(&open(self.finish()).unwrap(), Depth::Full);
        verdict.damage.into_iter().map(|damage| (damage.structure, damage.detail)).collect()
    }

    /// Writes chunk run, one leaf page per two entries, an inner page, commit frame and footer.
    fn finish(mut self) -> Vec<u8> {
        if !self.places.is_empty() {
            let page = ChunkPage::Leaf(self.places.clone()).encode();
            let run = self.frame(FrameKind::ChunkPage, &page, &[]);
            self.commit.runs.push(run);
        }
        let entries = self.in_tree.take().unwrap_or_else(|| self.entries.clone());
        let mut children = Vec::new();
        let mut last: Option<&Entry> = None;
        for leaf in entries.chunks(2) {
            let key = last.map_or(Box::default(), |last| separator(last.path.as_bytes(), leaf[0].path.as_bytes()).into());
            let page = self.frame(FrameKind::EntryPage, &EntryPage::Leaf(leaf.to_vec()).encode(), &[]);
            let (entries, content_bytes) = (leaf.len() as u64, leaf.iter().map(|entry| entry.size).sum());
            children.push(Child { key, page, entries, content_bytes });
            last = leaf.last();
        }
        let mut inner = InnerPage { level: 1, children };
        (self.inner)(&mut inner);
        let root = self.frame(FrameKind::EntryPage, &EntryPage::Inner(inner).encode(), &[]);
        self.commit.entry_root = Some(root);
        let payload = self.commit.encode();
        let commit = self.frame(FrameKind::Commit, &payload, &[]);
        let place = self.bytes.len() as u64;
        let (commit_offset, commit_length) = (commit.offset, commit.length);
        let footer = Footer { required: 0, commit_offset, commit_length, keys: (0, 0), number: self.commit.number };
        self.bytes.extend_from_slice(&footer.encode(place));
        self.bytes
    }
}

/// One stored byte.
const SEGMENT_OF_ONE: Segment = {
    let block = BlockRef { offset: 256, raw_len: 90, stored_len: 90, pad_len: 0, header_checksum: 0 };
    Segment::Data(Extent { block, offset: 0, len: 1 })
};

/// Puts both files in one link group.
fn link(forge: &mut Forge, change: fn(&mut Vec<Entry>)) {
    forge.commit.link_groups = 1;
    [1, 3].into_iter().for_each(|i| forge.entries[i].link_group = 1);
    change(&mut forge.entries);
    forge.commit.content_bytes = forge.entries.iter().map(|entry| entry.size).sum();
}

#[test]
fn contradicting_structures_are_reported() {
    assert_eq!(Forge::new().verdict(), []);
    let with = |change: fn(&mut Forge)| {
        let mut forge = Forge::new();
        change(&mut forge);
        forge
    };
    let in_tree = |change: fn(&mut Vec<Entry>)| {
        let mut forge = Forge::new();
        let mut entries = forge.entries.clone();
        change(&mut entries);
        forge.in_tree = Some(entries);
        forge
    };
    let inner = |change: fn(&mut InnerPage)| Forge { inner: change, ..Forge::new() };
    for (forge, structure, detail) in [
        (with(|forge| forge.commit.files = 3), "commit", "files: 3 recorded, 2 found"),
        (with(|forge| forge.commit.blocks = 2), "commit", "blocks: 2 recorded, 1 found"),
        (with(|forge| forge.commit.chunks = 1), "commit", "chunks: 1 recorded, 2 found"),
        (with(|forge| forge.commit.chunk_bytes = 1), "commit", "chunk bytes: 1 recorded, 90 found"),
        (with(|forge| forge.commit.stored_bytes = 1), "commit", "stored bytes: 1 recorded, 90 found"),
        (with(|forge| forge.commit.entries = 5), "entry page", "4 entries and 90 content bytes below it, expected 5"),
        (with(|forge| forge.commit.content_bytes = 80), "entry page", "4 entries and 90 content bytes below it"),
        (with(|forge| forge.places.truncate(1)), "commit", "omit 1 of 2 chunks"),
        (with(|forge| forge.places.clear()), "commit", "omit 2 of 2 chunks"),
        (with(|forge| forge.places[1].chunk ^= 1), "chunk page", "1 of its chunks do not exist"),
        (in_tree(|entries| entries[3].metadata = Default::default()), "entry record", "1 entries are recorded in no block index"),
        (
            with(|forge| {
                let mut later = forge.entries[0].clone();
                later.metadata = Default::default();
                let block_index = BlockIndex { chunks: vec![], entries: vec![later] }.encode();
                forge.frame(FrameKind::Block, &[], &block_index);
                forge.commit.blocks = 2;
            }),
            "entry record",
            "1 entries are recorded in no block index, or differently in the last one; the first is a",
        ),
        (
            in_tree(|entries| match *entries[1].content() {
                Content::Uncompressed(extent, _) => *entries[1].content_mut() = Content::Extent(extent),
                _ => unreachable!("made so"),
            }),
            "entry record",
            "a/x is one whole chunk of a block of codec none",
        ),
        (
            with(|forge| {
                let page = ExtentPage::Leaf(vec![Segment::Hole(1)]).encode();
                let root = forge.frame(FrameKind::ExtentPage, &page, &[]);
                (forge.entries[3].size, forge.commit.content_bytes) = (1, 41);
                *forge.entries[3].content_mut() = Content::Map(root, None);
            }),
            "extent page",
            "1 extents and holes, which would fit a list",
        ),
        (
            with(|forge| {
                let page =
                    ExtentPage::Leaf((0..1_024).map(|i| if i % 2 == 0 { SEGMENT_OF_ONE } else { Segment::Hole(1) }).collect());
                let leaves = [(); 2].map(|()| forge.frame(FrameKind::ExtentPage, &page.encode(), &[]));
                let [first, second] = leaves.map(|leaf| (leaf, 1_024));
                let root = forge.frame(FrameKind::ExtentPage, &ExtentPage::Inner(1, vec![second, first]).encode(), &[]);
                (forge.entries[3].size, forge.commit.content_bytes) = (2_048, 2_088);
                *forge.entries[3].content_mut() = Content::Map(root, None);
            }),
            "extent page",
            "a leaf page that does not follow the preceding one",
        ),
        (with(|forge| link(forge, |_| {})), "entry record", "b/y differs from the first entry of its link group, 1"),
        (
            with(|forge| {
                link(forge, |entries| {
                    let Entry { size, location, .. } = entries[1].clone();
                    (entries[3].size, entries[3].location) = (size, location);
                    entries[3].modified = Some(Timestamp { seconds: 1, nanoseconds: 0 });
                });
            }),
            "entry record",
            "b/y differs from the first entry of its link group, 1",
        ),
        (in_tree(|entries| entries[0].path = EntryPath::try_from("A").unwrap()), "entry record", "a/x lies in no directory"),
        (in_tree(|entries| entries.swap(0, 2)), "entry page", "does not follow the preceding entry"),
        (in_tree(|entries| entries.rotate_left(2)), "entry page", "does not follow the last one of the preceding page"),
        (inner(|page| page.children[1].key = (*b"bb").into()), "entry page", "does not separate"),
        (inner(|page| page.children[0].key = (*b"a").into()), "entry page", "does not separate"),
        (inner(|page| page.level = 2), "entry page", "level 0, expected 1"),
        (inner(|page| page.children[0].content_bytes += 1), "entry page", "91 content bytes below it, expected 4 and 90"),
    ] {
        let found = forge.verdict();
        assert!(found.iter().any(|(s, d)| s == structure && d.contains(detail)), "{structure}: {detail}: {found:?}");
    }
}

proptest! {
    /// Checksums detect accidental damage; crafted input must not cause harm either.
    #[test]
    fn false_statements_with_valid_checksums_do_not_panic(frame in 0usize..6, at: usize, to: u8) {
        let Ok(reader) = open(Forge::tweaked(Some((frame, at, to))).finish()) else { return Ok(()) };
        let verdict = verify(&reader, Depth::Full);
        let found = contents(&reader);
        // Some bytes are arbitrary: the window of a zstd frame, the time of a commit.
        prop_assert!(!verdict.damage.is_empty() || found == contents(&open(Forge::new().finish()).unwrap()));
    }
}
