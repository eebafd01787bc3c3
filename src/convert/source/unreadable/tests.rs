#![allow(clippy::single_range_in_vec_init, reason = "ranges that are zeroed are given as lists")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::*;
use crate::{Destination, NewArchive, NraSink, Options, Sink, Source, Stats, convert};
use nra_format::archive::{Access, Archive, ContentSink, Depth, Info, OpenOptions, Totals, Verdict, open};
use nra_format::crypt::{Argon2Cost, Keyring, Secret};
use nra_format::digest::Digest;
use nra_format::entry::{Attribute, Entry, Kind, Namespace};
use nra_format::error::Error;
use nra_format::nra::frame::{FrameHeader, FrameKind, HEADER_LEN};
use nra_format::nra::reader::open_for_salvage;
use nra_format::nra::testing::{archive_with_false_links, assert_links_kept, assert_links_reported};
use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::{Monitor, Recorder, Severity};
use nra_format::source::MemorySource;
use nra_format::testing::noise;

type Contents = BTreeMap<String, (Kind, u64, Vec<u8>)>;

fn entry(path: &str, kind: Kind) -> Entry {
    Entry::new(EntryPath::try_from(path).unwrap(), kind)
}

/// An archive with texts, raw content, a large file with a hole, hard links and a tag.
fn sample() -> Vec<u8> {
    packed(None)
}

fn packed(encryption: Option<Keyring>) -> Vec<u8> {
    let options = WriterOptions { reproducible: true, threads: 1, encryption, ..WriterOptions::balanced() };
    let mut writer = Writer::create(Vec::new(), options).unwrap();
    let mut tagged = entry("texts/0", Kind::File);
    let tag = Attribute { namespace: Namespace::User, name: b"tag"[..].into(), value: b"x"[..].into() };
    let metadata = Arc::make_mut(&mut tagged.metadata);
    metadata.mode = 0o640;
    metadata.attributes = vec![tag].into();
    for i in 0..40u64 {
        let new = if i == 0 { tagged.clone() } else { entry(&format!("texts/{i}"), Kind::File) };
        let bytes = format!("a text of which {i} is the number\n").repeat(50).into_bytes();
        writer.add(new, NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible: false }).unwrap();
    }
    let mut first = None;
    for i in 0..30 {
        let bytes = noise(60_000, i);
        let content = NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible: true };
        first = Some(writer.add(entry(&format!("images/{i}"), Kind::File), content).unwrap());
    }
    writer.add_link(entry("link", Kind::File), first.unwrap()).unwrap();
    writer.begin_file(entry("large", Kind::File)).unwrap();
    for i in 0..8 {
        let bytes = noise(200_000, 100 + i);
        writer.add_chunk(&bytes, Digest::of(&bytes), true).unwrap();
        if i == 3 {
            writer.add_hole(1_000_000).unwrap();
        }
    }
    writer.end_file(None).unwrap();
    writer.finish(&Recorder::default()).unwrap().0
}

/// Salvages `bytes`. Returns the entries of the new archive, the number of lost ones, and whether
/// anything was reported.
fn salvaged(bytes: Vec<u8>) -> Option<(Contents, u64, bool)> {
    salvaged_with(bytes, None)
}

fn salvaged_with(bytes: Vec<u8>, key: Option<Secret>) -> Option<(Contents, u64, bool)> {
    salvaged_from(Arc::new(MemorySource::new(bytes)), key)
}

fn recovered(archive: &dyn Archive, destination: Destination, writer: WriterOptions, monitor: &Recorder) -> Stats {
    let sink = Sink::Archive(destination, NewArchive::Nra(NraSink { writer, ..NraSink::default() }));
    let options = Options { threads: 1, sync: false, ..Options::default() };
    convert(Source::Damaged(archive), sink, &options, monitor).unwrap()
}

fn salvaged_from(source: Arc<dyn ReadAt>, key: Option<Secret>) -> Option<(Contents, u64, bool)> {
    let options = OpenOptions { key, ..OpenOptions::default() };
    let (archive, base) = open_for_salvage(source, &options).ok()?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.nra");
    let destination = Destination::File { path: path.clone(), overwrite: false };
    let monitor = Recorder::default();
    let encryption = archive.keyring().cloned();
    let writer = WriterOptions { encryption, ..WriterOptions::balanced() };
    let stats = recovered(&archive, destination, writer, &monitor);
    let reported = base != 0 || archive.is_index_damaged() || !monitor.take_warnings().is_empty();
    let new = nra_format::archive::open_path(&path, &options).unwrap();
    assert!(!new.is_index_damaged());
    assert!(new.verify(Default::default(), None, &monitor).unwrap().damage.is_empty());
    Some((contents(&*new), stats.damaged, reported))
}

fn contents(archive: &dyn Archive) -> Contents {
    let read = |entry: Entry| {
        let content = if entry.kind == Kind::File { archive.read_all(&entry, 10 << 20).unwrap() } else { Vec::new() };
        (entry.path.to_string(), (entry.kind, entry.link_group, content))
    };
    archive.entries(0..archive.entry_count()).map(|entry| read(entry.unwrap())).collect()
}

fn whole(bytes: &[u8]) -> Contents {
    let source = Arc::new(MemorySource::new(bytes.to_vec()));
    contents(&*nra_format::archive::open(source, &OpenOptions::default()).unwrap())
}

/// The frames of an archive without damage.
fn frames(bytes: &[u8]) -> Vec<(FrameKind, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 256;
    while at + HEADER_LEN <= bytes.len() {
        let header = bytes[at..].first_chunk().unwrap();
        let Ok((header, _)) = FrameHeader::parse(header, at as u64) else { break };
        let end = at + header.frame_len() as usize;
        found.push((header.kind, at..end));
        at = end;
    }
    found
}

fn zeroed(bytes: &[u8], ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    ranges.into_iter().for_each(|range| bytes[range].fill(0));
    bytes
}

#[test]
fn salvage_recovers_all_entries_without_superblock_index_commit_and_footer() {
    let bytes = sample();
    let expected = whole(&bytes);
    let pages: Vec<_> = frames(&bytes).into_iter().filter(|frame| frame.0 != FrameKind::Block).map(|frame| frame.1).collect();
    let end = bytes.len();
    let cases: [(&str, Vec<Range<usize>>, bool); 6] = [
        ("nothing", vec![], false),
        ("superblock", vec![0..256], false),
        ("footer", vec![end - 64..end], true),
        ("index pages", pages.clone(), true),
        ("index pages and footer", pages.iter().cloned().chain([end - 64..end]).collect(), true),
        ("all but blocks", pages.iter().cloned().chain([0..256, end - 64..end]).collect(), true),
    ];
    for (what, ranges, is_reported) in cases {
        let (found, lost, reported) = salvaged(zeroed(&bytes, ranges)).unwrap_or_else(|| panic!("{what}"));
        assert_eq!(found, expected, "{what}");
        assert_eq!((lost, reported), (0, is_reported), "{what}");
    }
}

#[test]
fn damaged_block_loses_only_its_entries() {
    let bytes = sample();
    let expected = whole(&bytes);
    let blocks: Vec<_> = frames(&bytes).into_iter().filter(|frame| frame.0 == FrameKind::Block).map(|frame| frame.1).collect();
    for without_index in [false, true] {
        let end = bytes.len();
        let index = if without_index { Some(end - 400..end) } else { None };
        for block in &blocks {
            if block.len() < 300 {
                continue;
            }
            let hit = block.start + 100..block.start + 101;
            let mut damaged = zeroed(&bytes, index.clone());
            damaged[hit.start] ^= 0xff;
            let (found, lost, reported) = salvaged(damaged).unwrap();
            assert!(reported && lost > 0);
            assert_eq!(found.len() as u64 + lost, expected.len() as u64);
            for (path, (kind, _, content)) in &found {
                assert_eq!((kind, content), (&expected[path].0, &expected[path].2), "{path}");
            }
        }
    }
}

#[test]
fn salvage_recovers_entries_before_truncation() {
    let bytes = sample();
    let expected = whole(&bytes);
    let last = frames(&bytes).into_iter().rev().find(|frame| frame.0 == FrameKind::Block).unwrap().1.end;
    for cut in [bytes.len() - 1, bytes.len() - 64, last] {
        assert_eq!(salvaged(bytes[..cut].to_vec()).unwrap().0, expected);
    }
    let (found, _, reported) = salvaged(bytes[..bytes.len() / 2].to_vec()).unwrap();
    assert!(reported && !found.is_empty() && found.len() < expected.len());
    assert!(salvaged(bytes[..300].to_vec()).is_none());
}

#[test]
fn salvage_handles_preceding_bytes_and_missing_start() {
    let bytes = sample();
    let expected = whole(&bytes);
    let (found, lost, reported) = salvaged([b"HTTP/1.1 200 OK\r\n\r\n", &bytes[..]].concat()).unwrap();
    assert_eq!((found, lost, reported), (expected.clone(), 0, true));
    // The superblock locates the archive as well as the footer does.
    let (found, ..) = salvaged([b"junk", &bytes[..bytes.len() - 64]].concat()).unwrap();
    assert_eq!(found, expected);
    let (found, lost, reported) = salvaged(bytes[400..].to_vec()).unwrap();
    assert!(reported && lost > 0);
    assert_eq!(found.len() as u64 + lost, expected.len() as u64);
}

#[test]
fn salvage_rejects_other_files() {
    for bytes in [Vec::new(), b"NRA".to_vec(), noise(100_000, 7)] {
        assert!(salvaged(bytes).is_none());
    }
}

#[test]
fn salvage_of_encrypted_archive_needs_its_key() {
    let key = || Secret::user_key([7; 32]);
    let bytes = packed(Some(Keyring::create(&key(), Argon2Cost::default(), "").unwrap()));
    let expected = whole(&sample());
    let end = bytes.len();
    let cases: [(&str, Vec<Range<usize>>); 4] = [
        ("nothing", vec![]),
        ("footer", vec![end - 64..end]),
        ("superblock and first keys", vec![0..512]),
        // The last keys precede the commit.
        ("first keys and footer", vec![256..512, end - 64..end]),
    ];
    for (what, ranges) in cases {
        let damaged = zeroed(&bytes, ranges);
        assert!(salvaged_with(damaged.clone(), None).is_none(), "{what}");
        assert!(salvaged_with(damaged.clone(), Some(Secret::user_key([8; 32]))).is_none(), "{what}");
        let (found, lost, _) = salvaged_with(damaged, Some(key())).unwrap_or_else(|| panic!("{what}"));
        assert!(found == expected && lost == 0, "{what}");
    }
    let (found, lost, reported) = salvaged_with([b"junk", &bytes[..]].concat(), Some(key())).unwrap();
    assert!(found == expected && (lost, reported) == (0, true));
    // Without an index page, the block indexes list the entries.
    let (found, lost, reported) = salvaged_with(zeroed(&bytes, [end - 700..end]), Some(key())).unwrap();
    assert!(found == expected && (lost, reported) == (0, true), "{lost} {}", found.len());
}

/// A disk with a range of unreadable bytes.
struct Failing(MemorySource, Range<u64>);

impl ReadAt for Failing {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn name(&self) -> &[u8] {
        self.0.name()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if offset < self.1.end && self.1.start < offset + buffer.len() as u64 {
            let error = std::io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
            return Err(Error::io("read", "failing", error));
        }
        self.0.read_exact_at(offset, buffer)
    }
}

#[test]
fn unreadable_sectors_lose_only_their_entries() {
    let bytes = sample();
    let (expected, len) = (whole(&bytes), bytes.len() as u64);
    // In a text, in raw content, in the index, at the end.
    for start in [0, 4_096, len / 8 / 4_096 * 4_096, len / 2 / 4_096 * 4_096, (len - 600) / 4_096 * 4_096] {
        let disk = Failing(MemorySource::new(bytes.clone()), start..(start + 4_096).min(len));
        let (found, lost, reported) =
            salvaged_from(Arc::new(UnreadableAsZero(disk)), None).unwrap_or_else(|| panic!("from {start}"));
        assert!(reported || start == 0, "from {start}");
        assert_eq!(found.len() as u64 + lost, expected.len() as u64, "from {start}");
        assert!(found.len() + 41 >= expected.len(), "from {start}: {} of {}", found.len(), expected.len());
        assert!(found.iter().all(|(path, entry)| (entry.0, &entry.2) == (expected[path].0, &expected[path].2)));
    }
}

#[test]
fn salvage_separates_files_of_false_link_group() {
    let source = Arc::new(MemorySource::new(archive_with_false_links()));
    let archive = nra_format::archive::open(source, &OpenOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.nra");
    let destination = Destination::File { path: path.clone(), overwrite: false };
    let monitor = Recorder::default();
    let stats = recovered(&*archive, destination, WriterOptions::balanced(), &monitor);
    assert_eq!((stats.damaged, stats.written.entries), (0, 4));
    assert_links_reported(&monitor);
    assert_links_kept(&*nra_format::archive::open_path(&path, &OpenOptions::default()).unwrap());
}

/// An archive in which the content of one path is of an unsupported kind.
struct Unsupporting(Box<dyn Archive>, &'static [u8]);

impl Archive for Unsupporting {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn links_share_metadata(&self) -> bool {
        self.0.links_share_metadata()
    }
    fn entry(&self, number: u64) -> Result<Entry> {
        self.0.entry(number)
    }
    fn find(&self, path: &[u8]) -> Result<Option<(u64, Entry)>> {
        self.0.find(path)
    }
    fn subtree(&self, directory: Option<&[u8]>) -> Result<Range<u64>> {
        self.0.subtree(directory)
    }
    fn totals(&self, range: Range<u64>) -> Result<Totals> {
        self.0.totals(range)
    }
    fn entries(&self, range: Range<u64>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        self.0.entries(range)
    }
    fn children(&self, directory: Option<&[u8]>) -> Box<dyn Iterator<Item = Result<Entry>> + Send + '_> {
        self.0.children(directory)
    }
    fn read_at(&self, entry: &Entry, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.read_at(entry, offset, buffer)
    }
    fn with_content(&self, entry: &Entry, access: Access, sink: ContentSink<'_>) -> Result<()> {
        if entry.path.as_bytes() == self.1 {
            return Err(Error::Unsupported { what: "content", found: "7".into(), known: "0 to 6".into() });
        }
        self.0.with_content(entry, access, sink)
    }
    fn digest(&self, entry: &Entry) -> Result<Option<Digest>> {
        self.0.digest(entry)
    }
    fn verify(&self, depth: Depth, select: Option<&(dyn Fn(&Entry) -> bool + Sync)>, monitor: &dyn Monitor) -> Result<Verdict> {
        self.0.verify(depth, select, monitor)
    }
}

#[test]
fn salvage_keeps_links_to_a_skipped_entry() {
    // Short and long content are stored differently.
    for len in [1_000, 2_000_000] {
        let content = noise(len, 1);
        let options = WriterOptions { reproducible: true, threads: 1, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        writer.begin_file(entry("a", Kind::File)).unwrap();
        content.chunks(200_000).for_each(|chunk| writer.add_chunk(chunk, Digest::of(chunk), true).unwrap());
        let first = writer.end_file(None).unwrap();
        writer.add_link(entry("b", Kind::File), first).unwrap();
        writer.add_link(entry("c", Kind::File), first).unwrap();
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        let archive = open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.nra");
        let destination = Destination::File { path: path.clone(), overwrite: false };
        let monitor = Recorder::default();
        let stats = recovered(&Unsupporting(archive, b"a"), destination, WriterOptions::balanced(), &monitor);
        assert_eq!((stats.damaged, stats.written.entries), (1, 2));
        let [warning] = &monitor.take_warnings()[..] else { panic!("one warning") };
        assert_eq!((warning.severity, &warning.path[..]), (Severity::Damage, &b"a"[..]));
        let found = contents(&*nra_format::archive::open_path(&path, &OpenOptions::default()).unwrap());
        assert!(found.values().all(|(_, group, bytes)| *group != 0 && *bytes == content));
        assert!(found.keys().eq(["b", "c"]), "{:?}", found.keys());
        assert_eq!(found["b"].1, found["c"].1);
    }
}
