//! The table of effects of damage, row by row: plain and encrypted archives, of one and of several
//! commits.
//!
//! Spec: nra.md, section 22.

#![allow(clippy::single_range_in_vec_init, reason = "ranges that are zeroed are given as lists")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::block_index::BlockIndex;
use crate::content::{Content, EntryContent as _, Extent, Segment};
use crate::footer::Footer;
use crate::frame::{FrameHeader, FrameKind};
use crate::layout::SUPERBLOCK_LEN;
use crate::reader::frame_walk::{FrameWalk, Step};
use crate::reader::tests::build::{path, text};
use crate::reader::{NraReader, frames, open_for_salvage};
use crate::recovery::protect;
use crate::writer::{BlockPolicy, DictionaryPolicy, NewContent, Writer, WriterOptions};
use nra_core::archive::{Archive, Depth, OpenOptions};
use nra_core::codec::{Codec, Dictionary, looks_incompressible};
use nra_core::crypt::{Argon2Cost, Keyring, SEGMENT, Secret, TAG_LEN};
use nra_core::digest::Digest;
use nra_core::entry::{Attribute, Entry, Kind, Namespace};
use nra_core::error::Result;
use nra_core::progress::Recorder;
use nra_core::source::{FileStore, MemorySource};
use nra_core::testing::noise;

/// First cell of a row, and its test.
type Row = (&'static str, fn(&Sample));

const ROWS: [Row; 18] = [
    ("payload of a block", block_payload_row),
    ("block index of a block", block_index_row),
    ("header of a block", block_header_row),
    ("a dictionary", dictionary),
    ("a leaf or inner page of the entry tree, the root page, the commit frame", index),
    ("the footer", footer),
    ("the footer, replaced by that of an earlier commit", stale_footer),
    ("superblock, all pages of the entry tree, commit frame and footer at once", all_but_content),
    ("a page of an extent map", extent_page),
    ("a page of a chunk run, the archive attributes", side_pages),
    ("the superblock, a commit slot", superblock),
    ("the key frame of the newest commit", keys),
    ("one byte of a sealed payload", block_payload_row),
    ("padding", padding),
    ("the end of the file is missing", cut),
    ("commit frame and footer of an append at once", end_of_append),
    ("bytes appended", appended),
    ("the start of the file is missing, or other bytes precede it", front),
];

type Names = BTreeSet<String>;
/// Content by path; `None` for entries that are not files.
type Contents = BTreeMap<String, Option<Vec<u8>>>;

struct Frame {
    header: FrameHeader,
    range: Range<usize>,
}

/// An archive and facts about it.
struct Sample {
    bytes: Vec<u8>,
    sealed: bool,
    commits: u64,
    newest: Contents,
    former: Vec<Contents>,
    frames: Vec<Frame>,
    /// Extents of each file, and whether they are uncompressed.
    extents: BTreeMap<String, (Vec<Extent>, bool)>,
    /// Files recorded in each block index, by block offset.
    recorded: BTreeMap<usize, Names>,
}

/// What was read from a damaged archive.
struct Outcome {
    good: Names,
    told: bool,
}

fn key() -> Secret {
    Secret::user_key([5; 32])
}

fn options(sealed: bool) -> WriterOptions {
    let samples: Vec<Vec<u8>> = (0..400).map(|i| text(700, i)).collect();
    let dictionary = Dictionary::train(&samples, 4 << 10).unwrap();
    let cheap = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };
    WriterOptions {
        threads: 1,
        align: 4_096,
        block: BlockPolicy { min_raw_bytes: 4 << 10, max_raw_bytes: 8 << 10, stored_bytes: 1 << 10, max_cheap_bytes: 16 << 10 },
        dictionary: DictionaryPolicy::Given(dictionary.as_bytes().to_vec()),
        attributes: vec![Attribute { namespace: Namespace::User, name: b"name"[..].into(), value: b"x"[..].into() }],
        encryption: sealed.then(|| Keyring::create(&key(), cheap, "").unwrap()),
        ..WriterOptions::balanced()
    }
}

fn add<W: std::io::Write + Send>(writer: &mut Writer<W>, name: &str, bytes: &[u8]) {
    let whole = NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible: looks_incompressible(bytes) };
    let content = if bytes.is_empty() { NewContent::None } else { whole };
    writer.add(Entry::new(path(name), Kind::File), content).unwrap();
}

fn open(bytes: &[u8], recover: bool, commit: Option<u64>) -> Result<NraReader> {
    let options = OpenOptions { recover, commit, key: Some(key()), ..OpenOptions::default() };
    NraReader::open(Arc::new(MemorySource::new(bytes.to_vec())), &options)
}

fn contents(reader: &NraReader) -> Contents {
    let content = |entry: &Entry| (entry.kind == Kind::File).then(|| reader.read_all(entry, u64::MAX).unwrap());
    reader.entries(0..reader.entry_count()).map(Result::unwrap).map(|entry| (entry.path.to_string(), content(&entry))).collect()
}

/// Writes the archive: text in blocks with a dictionary, uncompressed content, a file with an
/// extent map, many names, attributes.
fn write(sealed: bool, commits: u64) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), options(sealed)).unwrap();
    (0..12).for_each(|i| add(&mut writer, &format!("text/{i}"), &text(3_000, i)));
    (0..10).for_each(|i| add(&mut writer, &format!("raw/{i}"), &noise(9_000, i)));
    (0..3_000).for_each(|i| add(&mut writer, &format!("many/{i:04} of a name that takes its place"), b""));
    writer.begin_file(Entry::new(path("mapped"), Kind::File)).unwrap();
    for i in 0..1_100 {
        let chunk = noise(40, 1_000 + i % 5);
        writer.add_chunk(&chunk, Digest::of(&chunk), true).unwrap();
        writer.add_hole(9).unwrap();
    }
    writer.end_file(None).unwrap();
    let mut bytes = writer.finish(&Recorder::default()).unwrap().0;
    for commit in 2..=commits {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let encryption = open(&bytes, false, None).unwrap().keyring().cloned();
        let options = WriterOptions { encryption, ..options(sealed) };
        let mut writer = Writer::append(Arc::new(FileStore::open(file.path()).unwrap()), options).unwrap();
        (0..4).for_each(|i| add(&mut writer, &format!("new/{commit}/{i}"), &text(2_500, 100 * commit + i)));
        add(&mut writer, &format!("text/{commit}"), &text(3_000, 50 + commit));
        add(&mut writer, &format!("raw/{commit}"), &noise(5_000, 50 + commit));
        writer.remove(&path(&format!("raw/{}", commit + 5))).unwrap();
        writer.rename(&path(&format!("text/{}", commit + 5)), &path(&format!("moved/{commit}"))).unwrap();
        writer.finish(&Recorder::default()).unwrap();
        bytes = std::fs::read(file.path()).unwrap();
    }
    bytes
}

impl Sample {
    fn new(sealed: bool, commits: u64) -> Self {
        let bytes = write(sealed, commits);
        let reader = open(&bytes, false, None).unwrap();
        let (mut frames, mut recorded) = (Vec::new(), BTreeMap::new());
        let mut walk = FrameWalk::new(&reader.window);
        while let Some(step) = walk.next().unwrap() {
            let Step::Frame { offset, start } = step else { continue };
            let at = usize::try_from(offset).unwrap();
            if start.header.kind == FrameKind::Block {
                let block_index = frames::block_index(&reader.window, &start, offset).unwrap();
                let block_index = BlockIndex::parse(&block_index, offset, start.header.raw_len).unwrap();
                let files = block_index.entries.into_iter().filter(|entry| entry.kind == Kind::File);
                recorded.insert(at, files.map(|entry| entry.path.to_string()).collect());
            }
            frames.push(Frame { range: at..at + usize::try_from(start.header.frame_len()).unwrap(), header: start.header });
        }
        let mut extents = BTreeMap::new();
        for entry in reader.entries(0..reader.entry_count()) {
            let (entry, mut own) = (entry.unwrap(), Vec::new());
            reader
                .each_segment(&entry, 0..entry.size, &mut |segment, _| {
                    if let Segment::Data(extent) = segment {
                        own.push(*extent);
                    }
                    Ok(())
                })
                .unwrap();
            extents.insert(entry.path.to_string(), (own, matches!(entry.content(), Content::Uncompressed(..))));
        }
        let newest = contents(&reader);
        let former = (1..commits).map(|number| contents(&open(&bytes, false, Some(number)).unwrap())).collect();
        Self { sealed, commits, newest, former, frames, extents, recorded, bytes }
    }

    fn of_kind(&self, kinds: &[FrameKind]) -> Vec<&Frame> {
        self.frames.iter().filter(|frame| kinds.contains(&frame.header.kind)).collect()
    }

    fn blocks(&self) -> Vec<&Frame> {
        self.of_kind(&[FrameKind::Block])
    }

    fn index_frames(&self) -> Vec<&Frame> {
        self.of_kind(&[FrameKind::EntryPage, FrameKind::Commit])
    }

    fn footer(&self) -> Range<usize> {
        self.bytes.len() - 64..self.bytes.len()
    }

    fn all(&self) -> Names {
        self.newest.keys().cloned().collect()
    }

    /// Returns the files with an extent for which `is_hit` returns true.
    fn users(&self, is_hit: impl Fn(&Extent, bool) -> bool) -> Names {
        let hit = |(_, (extents, raw)): &(&String, &(Vec<Extent>, bool))| extents.iter().any(|extent| is_hit(extent, *raw));
        self.extents.iter().filter(hit).map(|(name, _)| name.clone()).collect()
    }

    fn zeroed(&self, ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        ranges.into_iter().for_each(|range| bytes[range].fill(0));
        bytes
    }

    fn changed(&self, at: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[at] ^= 0x55;
        bytes
    }

    /// Reads everything. Panics on content that never existed.
    fn read(&self, bytes: Vec<u8>) -> Outcome {
        let mut found = Outcome { good: Names::new(), told: true };
        let options = OpenOptions { key: Some(key()), ..OpenOptions::default() };
        let Ok((reader, base)) = open_for_salvage(Arc::new(MemorySource::new(bytes)), &options) else { return found };
        let mut others = Vec::new();
        for entry in reader.entries(0..reader.entry_count()).filter_map(Result::ok) {
            let name = entry.path.to_string();
            let content = if entry.kind == Kind::File {
                let Ok(content) = reader.read_all(&entry, u64::MAX) else { continue };
                Some(content)
            } else {
                None
            };
            if self.newest.get(&name) == Some(&content) {
                found.good.insert(name);
            } else {
                let was_there = self.former.iter().any(|former| former.get(&name) == Some(&content));
                assert!(was_there || entry.implied, "{name} is not what was packed");
                others.push(name);
            }
        }
        found.told = base != 0 || reader.is_index_damaged() || !reader.remarks().is_empty();
        assert!(found.told || others.is_empty(), "{others:?} are told for the newest");
        found
    }

    fn lost(&self, bytes: Vec<u8>) -> Names {
        let good = self.read(bytes).good;
        self.newest.keys().filter(|name| !good.contains(*name)).cloned().collect()
    }

    /// Asserts that nothing is lost. Returns whether something was reported.
    fn keeps_all(&self, what: &str, bytes: Vec<u8>) -> bool {
        let found = self.read(bytes);
        let lost: Names = self.all().difference(&found.good).cloned().collect();
        assert!(lost.is_empty(), "{what}: lost {lost:?}");
        found.told
    }

    fn is_detected_by_verify(&self, bytes: &[u8]) -> bool {
        let verdict = open(bytes, true, None).unwrap().verify(Depth::Full, None, &Recorder::default()).unwrap();
        !verdict.damage.is_empty()
    }
}

fn block_payload_row(sample: &Sample) {
    for block in sample.blocks().into_iter().filter(|block| block.header.raw_len > 0) {
        let span = usize::try_from(block.header.payload_span()).unwrap();
        let start = block.range.start + usize::try_from(block.header.payload_start()).unwrap();
        for at in [0, span / 3, span - 1] {
            // Raw bytes that the damaged byte stands for.
            let (raw, stored) = (SEGMENT as usize, SEGMENT as usize + TAG_LEN);
            let hit = if sample.sealed { at / stored * raw..(at / stored + 1) * raw } else { at..at + 1 };
            let (from, to) = (hit.start as u64, hit.end as u64);
            let overlaps = |extent: &Extent| u64::from(extent.offset) < to && u64::from(extent.offset) + extent.len > from;
            let expected = sample.users(|extent, _| {
                extent.block.offset == block.range.start as u64 && (block.header.codec != Codec::None || overlaps(extent))
            });
            let bytes = sample.changed(start + at);
            assert!(sample.is_detected_by_verify(&bytes));
            assert_eq!(sample.lost(bytes), expected, "byte {at} of the payload of the block at {}", block.range.start);
        }
    }
}

fn block_index_row(sample: &Sample) {
    for block in sample.blocks() {
        let at = block.range.start + usize::try_from(block.header.block_index_start()).unwrap();
        let mut bytes = sample.changed(at + 1);
        assert!(!sample.keeps_all("with the index", bytes.clone()));
        for frame in sample.index_frames() {
            bytes[frame.range.clone()].fill(0);
        }
        bytes[sample.footer()].fill(0);
        let lost = sample.lost(bytes);
        let recorded = &sample.recorded[&block.range.start];
        assert!(lost.is_subset(recorded), "{lost:?} are not recorded in the block at {}", block.range.start);
        assert!(sample.commits > 1 || lost.len() == recorded.len());
    }
}

fn block_header_row(sample: &Sample) {
    for block in sample.blocks() {
        let start = block.range.start;
        let users = sample.users(|extent, raw| extent.block.offset == start as u64 && !raw);
        assert_eq!(sample.lost(sample.zeroed([start..start + block.header.start_len()])), users, "block at {start}");
    }
}

fn dictionary(sample: &Sample) {
    let dictionaries = sample.of_kind(&[FrameKind::Dictionary]);
    assert!(!dictionaries.is_empty());
    for dictionary in dictionaries {
        let at = dictionary.range.start as u64;
        let blocks: BTreeSet<u64> = sample
            .blocks()
            .into_iter()
            .filter(|block| block.header.dictionary == at)
            .map(|block| block.range.start as u64)
            .collect();
        let users = sample.users(|extent, _| blocks.contains(&extent.block.offset));
        assert!(!users.is_empty());
        assert_eq!(sample.lost(sample.changed(dictionary.range.start + 300)), users);
    }
}

fn index(sample: &Sample) {
    let frames = sample.index_frames();
    assert!(frames.len() > 4, "a tree of two levels and a commit");
    for frame in &frames {
        let told = sample.keeps_all("a page", sample.changed(frame.range.start + frame.range.len() / 2));
        assert!(told || frame.header.commit < sample.commits);
    }
    assert!(sample.keeps_all("all pages", sample.zeroed(frames.iter().map(|frame| frame.range.clone()))));
}

fn footer(sample: &Sample) {
    let bytes = sample.changed(sample.bytes.len() - 10);
    assert!(sample.keeps_all("the tail", bytes.clone()));
    assert!(sample.keeps_all("all of the tail", sample.zeroed([sample.footer()])));
    // A strict reader gets the commit of a commit slot.
    match open(&bytes, false, None) {
        Err(_) => assert_eq!(sample.commits, 1),
        Ok(reader) => {
            assert!(Some(&contents(&reader)) == sample.former.last());
            assert!(reader.remarks()[0].contains("an unfinished append"), "{:?}", reader.remarks());
        }
    }
}

fn stale_footer(sample: &Sample) {
    for commit in sample.of_kind(&[FrameKind::Commit]).into_iter().rev().skip(1) {
        let own = commit.range.end as u64;
        let stale = Footer::parse(sample.bytes[commit.range.end..].first_chunk().unwrap(), own).unwrap();
        let place = sample.footer();
        let mut bytes = sample.bytes.clone();
        bytes[place.clone()].copy_from_slice(&stale.encode(place.start as u64));
        assert!(sample.keeps_all("a stale tail", bytes.clone()));
        assert!(sample.is_detected_by_verify(&bytes));
        let reader = open(&bytes, false, None).unwrap();
        assert!(Some(&contents(&reader)) == sample.former.last() && reader.has_trailing_bytes());
        // A writer must not use it either: it would cut off what follows.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let store = FileStore::open(file.path()).unwrap();
        protect(&store, 5, 1 << 20, &Recorder::default()).unwrap_err();
        assert!(std::fs::read(file.path()).unwrap() == bytes);
    }
}

fn all_but_content(sample: &Sample) {
    let kept = [FrameKind::Block, FrameKind::Dictionary, FrameKind::ExtentPage];
    let lost: Vec<Range<usize>> =
        sample.frames.iter().filter(|frame| !kept.contains(&frame.header.kind)).map(|frame| frame.range.clone()).collect();
    let lost = lost.into_iter().chain([0..SUPERBLOCK_LEN, sample.footer()]);
    if !sample.sealed {
        assert!(sample.keeps_all("all but content", sample.zeroed(lost)));
        return;
    }
    // Either of the key frames suffices.
    let lost: Vec<_> = lost.collect();
    for keys in sample.of_kind(&[FrameKind::Keys]) {
        let others = lost.iter().filter(|range| **range != keys.range).cloned();
        assert!(sample.keeps_all("all but content and keys", sample.zeroed(others)));
    }
    assert!(sample.read(sample.zeroed(lost)).good.is_empty());
}

fn extent_page(sample: &Sample) {
    let pages = sample.of_kind(&[FrameKind::ExtentPage]);
    assert!(pages.len() > 2);
    for page in pages {
        let lost = sample.lost(sample.changed(page.range.start + page.range.len() / 2));
        assert_eq!(lost, ["mapped".to_owned()].into());
    }
}

fn side_pages(sample: &Sample) {
    for page in sample.of_kind(&[FrameKind::ChunkPage, FrameKind::Attributes]) {
        let bytes = sample.changed(page.range.start + page.range.len() / 2);
        assert!(sample.is_detected_by_verify(&bytes));
        let told = sample.keeps_all("a page beside the tree", bytes);
        assert!(told || page.header.kind == FrameKind::ChunkPage || page.header.commit < sample.commits);
    }
}

fn superblock(sample: &Sample) {
    for (bytes, is_told) in [
        (sample.zeroed([0..SUPERBLOCK_LEN]), true),
        (sample.zeroed([0..64]), true),
        (sample.changed(80), false),
        (sample.changed(150), false),
    ] {
        assert!(sample.is_detected_by_verify(&bytes));
        assert_eq!(sample.keeps_all("the head", bytes), is_told);
    }
}

fn keys(sample: &Sample) {
    let frames = sample.of_kind(&[FrameKind::Keys]);
    let Some(newest) = frames.last() else { return assert!(!sample.sealed) };
    assert!(sample.keeps_all("the newest keys", sample.changed(newest.range.start + 100)));
    for kept in &frames {
        let others = frames.iter().filter(|frame| frame.range != kept.range).map(|frame| frame.range.clone());
        let told = sample.keeps_all("all keys but one", sample.zeroed(others));
        assert!(told || kept.range == newest.range);
    }
    assert!(open(&sample.zeroed(frames.iter().map(|frame| frame.range.clone())), true, None).is_err());
}

fn padding(sample: &Sample) {
    let mut padded = 0;
    for block in sample.blocks().into_iter().filter(|block| block.header.pad_len > 0) {
        let bytes = sample.changed(block.range.start + block.header.start_len());
        assert!(sample.is_detected_by_verify(&bytes));
        assert!(!sample.keeps_all("padding", bytes));
        padded += 1;
    }
    assert!(padded > 0);
}

fn cut(sample: &Sample) {
    let ends = sample.frames.iter().flat_map(|frame| [frame.range.end, frame.range.start + frame.range.len() / 2]);
    let maps = sample.of_kind(&[FrameKind::ExtentPage]).into_iter().map(|frame| frame.range.end).max().unwrap();
    for end in ends {
        // In an unfinished append, a commit slot leads to the preceding commit.
        if let Ok(reader) = open(&sample.bytes[..end], false, None) {
            assert!(sample.former.contains(&contents(&reader)) && !reader.remarks().is_empty());
            continue;
        }
        let in_front =
            |offset: u64| sample.frames.iter().any(|frame| frame.range.start as u64 == offset && frame.range.end <= end);
        let records = sample.recorded.iter().filter(|block| !in_front(*block.0 as u64)).flat_map(|block| block.1);
        let cut_records: BTreeSet<&String> = records.collect();
        let stays = |name: &&String| {
            let blocks = sample.extents[*name].0.iter().all(|extent| in_front(extent.block.offset));
            blocks && !cut_records.contains(name) && (*name != "mapped" || maps <= end)
        };
        let files = sample.newest.iter().filter(|entry| entry.1.is_some()).map(|entry| entry.0);
        let expected: Names = files.filter(stays).cloned().collect();
        let found = sample.read(sample.bytes[..end].to_vec());
        let lost: Names = expected.difference(&found.good).cloned().collect();
        assert!(lost.is_empty(), "cut at {end}: lost {lost:?}");
        assert!(found.told);
    }
}

fn end_of_append(sample: &Sample) {
    if sample.commits == 1 {
        return;
    }
    let commit = sample.of_kind(&[FrameKind::Commit]).into_iter().last().unwrap().range.clone();
    let bytes = sample.zeroed([commit.clone(), sample.footer()]);
    let reader = open(&bytes, false, None).unwrap();
    assert!(Some(&contents(&reader)) == sample.former.last() && reader.has_trailing_bytes());
    // Added and replaced entries are found; removed ones are back.
    assert!(sample.keeps_all("an append", bytes));
    // A commit slot names the preceding commit.
    if sample.commits > 2 {
        let commits = sample.of_kind(&[FrameKind::Commit]);
        let before = commits[commits.len() - 2].range.clone();
        let bytes = sample.zeroed([before, commit, sample.footer()]);
        assert!(open(&bytes, false, None).is_err() && open(&bytes, true, None).unwrap().is_index_damaged());
        assert!(sample.keeps_all("two appends", bytes));
    }
}

fn appended(sample: &Sample) {
    for len in [1, 100, 100_000] {
        let bytes = [&sample.bytes[..], &noise(len, 9)].concat();
        assert!(sample.keeps_all("bytes appended", bytes.clone()));
        assert!(open(&bytes, false, None).is_err() || sample.commits > 1);
    }
}

fn front(sample: &Sample) {
    for len in [1, 8, 1_000, 1_300_000] {
        assert!(sample.keeps_all("bytes in front", [&noise(len, 3)[..], &sample.bytes].concat()));
    }
    // Content in that range is lost; the rest is as the index says.
    for cut in [300, sample.frames[sample.frames.len() / 3].range.start + 30] {
        let is_gone = |offset: u64| offset < cut as u64;
        let blocks: BTreeMap<u64, u64> =
            sample.blocks().into_iter().map(|block| (block.range.start as u64, block.header.dictionary)).collect();
        let mut expected = sample.users(|extent, _| {
            let dictionary = blocks[&extent.block.offset];
            is_gone(extent.block.offset) || (dictionary != 0 && is_gone(dictionary))
        });
        if sample.of_kind(&[FrameKind::ExtentPage]).iter().any(|page| is_gone(page.range.start as u64)) {
            expected.insert("mapped".into());
        }
        let found = sample.read(sample.bytes[cut..].to_vec());
        let lost: Names = sample.all().difference(&found.good).cloned().collect();
        assert!(found.told && lost.is_subset(&expected), "{cut} bytes are gone: {lost:?}");
    }
}

#[allow(clippy::print_stderr, reason = "tells the row of a failure")]
fn check_rows(sealed: bool, commits: u64) {
    let sample = Sample::new(sealed, commits);
    assert!(!sample.keeps_all("no damage", sample.bytes.clone()) && !sample.is_detected_by_verify(&sample.bytes));
    for (name, check) in ROWS {
        eprintln!("{name}");
        check(&sample);
    }
}

#[test]
fn damage_table_holds_for_plain_archives() {
    check_rows(false, 1);
}

#[test]
fn damage_table_holds_for_plain_archives_with_history() {
    check_rows(false, 3);
}

#[test]
fn damage_table_holds_for_encrypted_archives() {
    check_rows(true, 1);
}

#[test]
fn damage_table_holds_for_encrypted_archives_with_history() {
    check_rows(true, 3);
}

#[test]
fn damage_table_matches_the_specification() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format/nra.md")).unwrap();
    let section = page.split("\n## 22.").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    // Recovery data has its own tests.
    let rows: Vec<&str> = rows.filter(|row| !row.contains("recovery") && !row.contains("---") && *row != "damaged").collect();
    assert_eq!(rows, ROWS.map(|row| row.0));
}
