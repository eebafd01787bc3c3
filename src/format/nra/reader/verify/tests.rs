//! One fault at a time: what is damaged is found, and the entries it takes are named.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use crate::format::archive::{Archive, Damage, Depth, OpenOptions, Verdict};
use crate::format::checksum::{checksum, content_checksum};
use crate::format::codec::{Codec, Dictionary};
use crate::format::digest::Digest;
use crate::format::entry::{Attribute, Entry, Kind, Namespace, Timestamp};
use crate::format::nra::chunks::{ChunkPage, ChunkPlace};
use crate::format::nra::commit::Commit;
use crate::format::nra::content::{BlockRef, Content, Extent, FrameRef, Segment};
use crate::format::nra::directory::{Directory, Piece};
use crate::format::nra::extents::ExtentPage;
use crate::format::nra::frame::{FrameHeader, FrameKind, HEADER_LEN};
use crate::format::nra::head::{Head, TAIL_LEN, Tail};
use crate::format::nra::layout::HEAD_LEN;
use crate::format::nra::page::{Child, InnerPage, Page, separator};
use crate::format::nra::reader::NraReader;
use crate::format::nra::writer::{BlockPolicy, DictionaryPolicy, NewContent, Writer, WriterOptions};
use crate::format::path::EntryPath;
use crate::format::progress::{Counter, Recorder};
use crate::format::source::MemorySource;
use crate::testing::noise;

fn text(len: usize, seed: u64) -> Vec<u8> {
    noise(len, seed).iter().flat_map(|byte| format!("row {byte} of {seed}\n").into_bytes()).take(len).collect()
}

fn file(path: &str) -> Entry {
    Entry::new(EntryPath::try_from(path).unwrap(), Kind::File)
}

fn add(writer: &mut Writer<Vec<u8>>, path: &str, bytes: &[u8]) {
    let incompressible = path.ends_with(".bin");
    writer.add(file(path), NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible }).unwrap();
}

/// A small archive with blocks of all sorts, a dictionary, several leaves, an extent map, attributes.
fn archive() -> Vec<u8> {
    let samples: Vec<_> = (0..300).map(|i| text(300, i)).collect();
    let dictionary = Dictionary::train(&samples, 1 << 10).unwrap().as_bytes().to_vec();
    let options = WriterOptions {
        block: BlockPolicy { min_raw_bytes: 1 << 10, max_raw_bytes: 4 << 10, stored_bytes: 1 << 10, max_cheap_bytes: 16 << 20 },
        dictionary: DictionaryPolicy::Given(dictionary),
        align: 64,
        threads: 1,
        reproducible: true,
        message: "first".into(),
        attributes: vec![Attribute { namespace: Namespace::User, name: (*b"name").into(), value: (*b"test").into() }],
        ..WriterOptions::balanced()
    };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    for i in 0..30 {
        add(&mut writer, &format!("text/{i}.txt"), &text(300 + i * 7, i as u64));
        add(&mut writer, &format!("noise/{i}.bin"), &noise(60 + i, i as u64));
    }
    for i in 0..400 {
        let path = noise(12, i).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        writer.add(file(&format!("empty/{path}")), NewContent::None).unwrap();
    }
    writer.begin(file("large.bin")).unwrap();
    for i in 0..3 {
        let (packed, raw) = (text(2_000, 100 + i), noise(500, 100 + i));
        writer.piece(&packed, Digest::of(&packed), false).unwrap();
        writer.hole(5_000).unwrap();
        writer.piece(&raw, Digest::of(&raw), true).unwrap();
    }
    writer.end(None).unwrap();
    writer.begin(file("map.bin")).unwrap();
    let raw = noise(8, 1_000);
    for i in 1..1_100 {
        writer.piece(&raw, Digest::of(&raw), true).unwrap();
        writer.hole(i).unwrap();
    }
    writer.end(None).unwrap();
    writer.finish(&Recorder::default()).unwrap().0
}

fn open(bytes: Vec<u8>) -> crate::format::Result<NraReader> {
    NraReader::open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
}

fn verify(reader: &NraReader, depth: Depth) -> Verdict {
    reader.verify(depth, None, &Recorder::default()).unwrap()
}

/// The entries of an archive with their content, `None` if that does not read.
fn contents(reader: &NraReader) -> Vec<(EntryPath, Option<Vec<u8>>)> {
    let entries = reader.entries(0..reader.entry_count()).flatten();
    entries
        .map(|entry| {
            let content = if entry.size == 0 { Ok(Vec::new()) } else { reader.read_all(&entry, 1 << 20) };
            (entry.path.clone(), content.ok())
        })
        .collect()
}

fn named(damage: &[Damage]) -> BTreeSet<EntryPath> {
    damage.iter().flat_map(|damage| damage.entries.iter().cloned()).collect()
}

/// Frames of an archive: header, offset.
fn frames(bytes: &[u8]) -> Vec<(FrameHeader, usize)> {
    let mut place = HEAD_LEN;
    let mut frames = Vec::new();
    while let Ok((header, _)) = FrameHeader::parse(bytes[place..place + HEADER_LEN].try_into().unwrap(), place as u64) {
        frames.push((header, place));
        place += usize::try_from(header.frame_len()).unwrap();
    }
    assert_eq!(place, bytes.len() - TAIL_LEN);
    frames
}

#[test]
fn a_whole_archive_is_whole() {
    let bytes = archive();
    let kinds: BTreeSet<u8> = frames(&bytes).iter().map(|frame| frame.0.kind as u8).collect();
    assert_eq!(kinds, (1..=7).collect(), "frames of every kind");
    let reader = open(bytes).unwrap();
    let size: u64 = reader.entries(0..u64::MAX).map(|entry| entry.unwrap().size).sum();
    for depth in [Depth::Quick, Depth::Full] {
        let recorder = Recorder::default();
        let verdict = reader.verify(depth, None, &recorder).unwrap();
        assert_eq!(verdict.damage, []);
        assert_eq!((verdict.entries, verdict.content_bytes), (reader.entry_count(), size));
        assert_eq!(Some(verdict.blocks), reader.info().blocks);
        assert_eq!(recorder.count(Counter::Entries), verdict.entries);
    }
    let select = |entry: &Entry| entry.path.as_bytes().starts_with(b"text/") || entry.path.as_bytes() == b"map.bin";
    let verdict = reader.verify(Depth::Full, Some(&select), &Recorder::default()).unwrap();
    assert_eq!((verdict.damage, verdict.entries), (vec![], 31));
    assert!(verdict.blocks > 3 && Some(verdict.blocks) < reader.info().blocks);
}

#[test]
fn an_empty_archive_is_whole() {
    let writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
    assert_eq!(verify(&open(bytes).unwrap(), Depth::Full), Verdict::default());
}

/// Changes a byte; verifies; compares with what reading gives.
fn change(bytes: &[u8], at: usize, good: &[(EntryPath, Option<Vec<u8>>)]) {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x40;
    let reader = open(bytes).unwrap();
    for depth in [Depth::Quick, Depth::Full] {
        let verdict = verify(&reader, depth);
        assert!(!verdict.damage.is_empty(), "byte {at}, {depth:?}");
        let found = contents(&reader);
        let mut lost: BTreeSet<_> = good.iter().map(|entry| entry.0.clone()).collect();
        for pair in found {
            if pair.1.is_some() {
                assert!(good.contains(&pair), "byte {at}: {} reads otherwise", pair.0);
                lost.remove(&pair.0);
            }
        }
        let told = named(&verdict.damage);
        assert_eq!(told, lost, "byte {at}, {depth:?}: {:?}", verdict.damage);
    }
}

fn change_each(step: usize) {
    let bytes = archive();
    let good = contents(&open(bytes.clone()).unwrap());
    assert!(good.iter().all(|entry| entry.1.is_some()));
    (0..bytes.len()).step_by(step).for_each(|at| change(&bytes, at, &good));
}

#[test]
fn changed_bytes_are_found_with_the_entries_they_take() {
    change_each(397);
}

#[test]
#[ignore = "takes minutes"]
fn every_changed_byte_is_found_with_the_entries_it_takes() {
    change_each(1);
}

#[test]
fn each_structure_is_named() {
    let bytes = archive();
    let damaged = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        verify(&open(bytes).unwrap(), Depth::Full).damage
    };
    let structures = |at| damaged(at).into_iter().map(|damage| damage.structure).collect::<Vec<_>>();
    assert_eq!(structures(20), ["head"]);
    assert_eq!(structures(70), ["slot"]);
    assert_eq!(structures(bytes.len() - 1), ["tail"]);
    for (header, place) in frames(&bytes) {
        let payload = place + usize::try_from(header.payload_start()).unwrap();
        let behind = place + usize::try_from(header.directory_start()).unwrap();
        let kind = header.kind;
        if kind == FrameKind::Block {
            assert_eq!(structures(behind), ["block directory"]);
            if header.raw_len > 0 {
                assert_eq!(structures(payload), ["block payload"]);
                assert_eq!(structures(place + 9), ["block header"]);
            }
            if header.pad_len > 0 {
                assert_eq!(structures(payload - 1), ["padding"]);
            }
            continue;
        }
        let found = structures(payload);
        assert!(found.iter().any(|structure| *structure == kind.name()), "{kind:?}: {found:?}");
        let end = place + usize::try_from(header.frame_len()).unwrap();
        if behind < end {
            assert_eq!(structures(end - 1), ["padding"]);
        }
    }
}

#[test]
fn what_is_cut_off_is_told() {
    let bytes = archive();
    for len in (HEAD_LEN + HEADER_LEN..bytes.len()).step_by(611) {
        let Ok(reader) = open(bytes[..len].to_vec()) else { continue };
        assert!(!verify(&reader, Depth::Full).damage.is_empty(), "{len} bytes");
    }
}

#[test]
fn bytes_behind_the_end_are_told() {
    let mut bytes = archive();
    let entries = open(bytes.clone()).unwrap().entry_count();
    bytes.extend_from_slice(&[7; 100]);
    let reader = open(bytes).unwrap();
    let verdict = verify(&reader, Depth::Full);
    assert!(reader.has_remains() && reader.remarks()[0].starts_with("100 bytes behind"), "{:?}", reader.remarks());
    assert_eq!((verdict.entries, verdict.damage), (entries, Vec::new()));
}

#[test]
fn a_selection_is_checked_alone() {
    let bytes = archive();
    let reader = open(bytes.clone()).unwrap();
    let place = usize::try_from(reader.find(b"noise/7.bin").unwrap().unwrap().1.place().0).unwrap();
    let (header, _) = *frames(&bytes).iter().find(|frame| frame.1 == place).unwrap();
    let mut bytes = bytes;
    bytes[place + usize::try_from(header.directory_start()).unwrap() - 1] ^= 1;
    let reader = open(bytes).unwrap();
    let verdict = |prefix: &'static [u8]| {
        let select = move |entry: &Entry| entry.path.as_bytes().starts_with(prefix);
        reader.verify(Depth::Quick, Some(&select), &Recorder::default()).unwrap()
    };
    assert_eq!(verdict(b"text/").damage, []);
    let all = named(&verify(&reader, Depth::Full).damage);
    assert!(!all.is_empty());
    assert_eq!(named(&verdict(b"").damage), all);
}

#[test]
fn damage_in_a_raw_block_takes_the_files_it_hits() {
    let mut writer = Writer::create(Vec::new(), WriterOptions { threads: 1, ..WriterOptions::balanced() }).unwrap();
    let contents: Vec<Vec<u8>> = (0..5).map(|i| noise(200_000, 70 + i)).collect();
    for (number, content) in contents.iter().enumerate() {
        writer.begin(file(&format!("{number}.bin"))).unwrap();
        for piece in content.chunks(128 << 10) {
            writer.piece(piece, Digest::of(piece), true).unwrap();
        }
        writer.end(Some(Digest::of(content))).unwrap();
    }
    let mut bytes = writer.finish(&Recorder::default()).unwrap().0;
    let reader = open(bytes.clone()).unwrap();
    let entries: Vec<Entry> = reader.entries(0..9).map(Result::unwrap).collect();
    let blocks: BTreeSet<u64> = entries.iter().map(|entry| entry.place().0).collect();
    assert_eq!((entries.len(), blocks.len()), (5, 1), "all in one block");
    assert!(entries.iter().all(|entry| matches!(entry.content(), Content::Extent(_))));
    // In the second piece of the third file.
    let needle = &contents[2][150_000..150_016];
    let at = bytes.windows(16).position(|window| window == needle).unwrap();
    bytes[at] ^= 0x10;
    let reader = open(bytes).unwrap();
    for (number, entry) in entries.iter().enumerate() {
        let read = reader.read_all(entry, 1 << 20);
        assert_eq!(read.ok().as_ref(), Some(&contents[number]).filter(|_| number != 2));
    }
    let mut part = vec![0; 100_000];
    assert_eq!(reader.read_at(&entries[2], 20_000, &mut part).unwrap(), part.len());
    assert_eq!(part, contents[2][20_000..120_000]);
    assert!(reader.read_at(&entries[2], 100_000, &mut part).is_err());
    for depth in [Depth::Quick, Depth::Full] {
        assert_eq!(named(&verify(&reader, depth).damage), BTreeSet::from([entries[2].path.clone()]));
    }
}

#[test]
fn verifying_can_be_stopped() {
    let recorder = Recorder::default();
    recorder.cancel();
    let reader = open(archive()).unwrap();
    assert!(matches!(reader.verify(Depth::Full, None, &recorder), Err(crate::format::Error::Cancelled)));
}

/// An archive made by hand, so that single statements in it can be wrong while all checksums are right.
struct Forge {
    bytes: Vec<u8>,
    commit: Commit,
    entries: Vec<Entry>,
    /// What the leaves are made of, if not of `entries`.
    in_tree: Option<Vec<Entry>>,
    inner: fn(&mut InnerPage),
    places: Vec<ChunkPlace>,
    /// Frame (from 0), byte of its payload or directory, and what it becomes.
    tweak: Option<(usize, usize, u8)>,
    frames: usize,
}

impl Forge {
    /// Two directories and two files that share one uncompressed block of two pieces.
    fn new() -> Self {
        Self::tweaked(None)
    }

    fn tweaked(tweak: Option<(usize, usize, u8)>) -> Self {
        let mut forge = Self {
            bytes: Head::default().encode().to_vec(),
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
        let block = BlockRef { offset: place, raw_len: 90, stored_len: 90, pad_len: 0, check: 0 };
        let named = |path: &str, offset, len| {
            let mut entry = file(path);
            entry.size = len;
            *entry.content_mut() = Content::Extent(Extent { block, offset, len });
            entry
        };
        let directory = |path: &str| Entry::new(EntryPath::try_from(path).unwrap(), Kind::Directory);
        forge.entries = vec![directory("a"), named("a/x", 0, 40), directory("b"), named("b/y", 40, 50)];
        let pieces = [&first, &second].map(|bytes| {
            let (raw_len, digest) = (u32::try_from(bytes.len()).unwrap(), Digest::of(bytes));
            Piece { gap: 0, raw_len, digest }
        });
        let numbered = (0..).zip(&pieces);
        forge.places = numbered.map(|(piece, p)| ChunkPlace { key: p.digest.key(), block: place, piece }).collect();
        forge.places.sort();
        let directory = Directory { pieces: pieces.to_vec(), entries: forge.entries.clone() }.encode().unwrap();
        let reference = forge.frame(FrameKind::Block, &[first, second].concat(), &directory);
        for (entry, sum) in forge.entries.iter_mut().zip([0, content_checksum(&noise(40, 1)), 0, content_checksum(&noise(50, 2))])
        {
            if let Content::Extent(mut extent) = *entry.content() {
                extent.block.check = reference.check;
                *entry.content_mut() = Content::Raw(extent, sum);
            }
        }
        forge.commit = Commit {
            entries: 4,
            files: 2,
            content_bytes: 90,
            piece_bytes: 90,
            stored_bytes: 90,
            blocks: 1,
            pieces: 2,
            ..forge.commit
        };
        forge
    }

    fn frame(&mut self, kind: FrameKind, payload: &[u8], directory: &[u8]) -> FrameRef {
        let offset = self.bytes.len() as u64;
        let (mut payload, mut directory) = (payload.to_vec(), directory.to_vec());
        if let Some((_, at, to)) = self.tweak.filter(|tweak| tweak.0 == self.frames) {
            let at = at % (payload.len() + directory.len());
            *payload.iter_mut().chain(&mut directory).nth(at).unwrap() = to;
        }
        self.frames += 1;
        let len = u32::try_from(payload.len()).unwrap();
        let header = FrameHeader {
            kind,
            codec: Codec::None,
            raw_len: len,
            stored_len: len,
            pad_len: 0,
            directory_len: u32::try_from(directory.len()).unwrap(),
            dictionary: 0,
            payload_checksum: checksum(&payload, offset),
            directory_checksum: if directory.is_empty() { 0 } else { checksum(&directory, offset) },
            commit: self.commit.number,
            sealed: false,
        };
        let (bytes, check) = header.encode(offset);
        [&bytes[..], &payload, &directory].iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        FrameRef { offset, length: header.frame_len(), check }
    }

    /// Finishes the archive and returns what is found.
    fn verdict(self) -> Vec<(String, String)> {
        let verdict = verify(&open(self.finish()).unwrap(), Depth::Full);
        verdict.damage.into_iter().map(|damage| (damage.structure, damage.detail)).collect()
    }

    /// Writes chunk run, a leaf for each two entries, an inner page, commit and tail.
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
            let page = self.frame(FrameKind::EntryPage, &Page::Leaf(leaf.to_vec()).encode(), &[]);
            let (entries, content_bytes) = (leaf.len() as u64, leaf.iter().map(|entry| entry.size).sum());
            children.push(Child { key, page, entries, content_bytes });
            last = leaf.last();
        }
        let mut inner = InnerPage { level: 1, children };
        (self.inner)(&mut inner);
        let root = self.frame(FrameKind::EntryPage, &Page::Inner(inner).encode(), &[]);
        self.commit.entry_root = Some(root);
        let payload = self.commit.encode();
        let commit = self.frame(FrameKind::Commit, &payload, &[]);
        let place = self.bytes.len() as u64;
        let (commit_offset, commit_length) = (commit.offset, commit.length);
        let tail = Tail { required: 0, commit_offset, commit_length, keys: (0, 0), number: self.commit.number };
        self.bytes.extend_from_slice(&tail.encode(place));
        self.bytes
    }
}

/// One stored byte.
const SEGMENT_OF_ONE: Segment = {
    let block = BlockRef { offset: 256, raw_len: 90, stored_len: 90, pad_len: 0, check: 0 };
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
fn statements_that_contradict_each_other_are_found() {
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
        (with(|forge| forge.commit.files = 3), "commit", "files: 3 told, 2 found"),
        (with(|forge| forge.commit.blocks = 2), "commit", "blocks: 2 told, 1 found"),
        (with(|forge| forge.commit.pieces = 1), "commit", "pieces: 1 told, 2 found"),
        (with(|forge| forge.commit.piece_bytes = 1), "commit", "piece bytes: 1 told, 90 found"),
        (with(|forge| forge.commit.stored_bytes = 1), "commit", "stored bytes: 1 told, 90 found"),
        (with(|forge| forge.commit.entries = 5), "entry page", "4 entries and 90 content bytes below it, expected 5"),
        (with(|forge| forge.commit.content_bytes = 80), "entry page", "4 entries and 90 content bytes below it"),
        (with(|forge| forge.places.truncate(1)), "commit", "do not list 1 of 2 pieces"),
        (with(|forge| forge.places.clear()), "commit", "do not list 2 of 2 pieces"),
        (with(|forge| forge.places[1].piece ^= 1), "chunk page", "1 of its pieces do not exist"),
        (
            in_tree(|entries| entries[3].metadata = Default::default()),
            "entry record",
            "1 entries are recorded in no block directory",
        ),
        (
            with(|forge| {
                let mut later = forge.entries[0].clone();
                later.metadata = Default::default();
                let directory = Directory { pieces: vec![], entries: vec![later] }.encode().unwrap();
                forge.frame(FrameKind::Block, &[], &directory);
                forge.commit.blocks = 2;
            }),
            "entry record",
            "1 entries are recorded in no block directory, or otherwise in the last one; the first is a",
        ),
        (
            in_tree(|entries| match *entries[1].content() {
                Content::Raw(extent, _) => *entries[1].content_mut() = Content::Extent(extent),
                _ => unreachable!("made so"),
            }),
            "entry record",
            "a/x is a whole piece of an uncompressed block",
        ),
        (
            with(|forge| {
                let page = ExtentPage::Leaf(vec![Segment::Hole(1)]).encode();
                let root = forge.frame(FrameKind::ExtentPage, &page, &[]);
                (forge.entries[3].size, forge.commit.content_bytes) = (1, 41);
                *forge.entries[3].content_mut() = Content::Map(root, None);
            }),
            "extent page",
            "1 extents and holes, which fit a list",
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
            "a leaf that does not lie behind the one before it",
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
        (in_tree(|entries| entries.swap(0, 2)), "entry page", "not behind the entry before"),
        (in_tree(|entries| entries.rotate_left(2)), "entry page", "not behind the last one in front"),
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
    /// Checksums keep out what is broken by chance; what is made to fit must do no harm either.
    #[test]
    fn lies_with_right_checksums_do_no_harm(frame in 0usize..6, at: usize, to: u8) {
        let Ok(reader) = open(Forge::tweaked(Some((frame, at, to))).finish()) else { return Ok(()) };
        let verdict = verify(&reader, Depth::Full);
        let found = contents(&reader);
        // Some bytes may be anything: the window of a zstd frame, the time of a commit.
        prop_assert!(!verdict.damage.is_empty() || found == contents(&open(Forge::new().finish()).unwrap()));
    }
}
