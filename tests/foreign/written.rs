//! Tar and zip archives of nra, read by nra and by the crates `tar` and `zip`.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};

use nra::convert::select::Selection;
use nra::convert::{Destination, NewArchive, Options, Sink, Source, TarSink, ZipCompression, ZipSink, convert};
use nra::format::archive::{Depth, OpenOptions, open};
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind, Metadata, Owner, Timestamp};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use nra::format::stream::{Compression, Level};
use proptest::prelude::*;

use crate::archive;

/// A destination that cannot seek.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An entry with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    kind: Kind,
    mode: u16,
    modified: Option<Timestamp>,
    owner: Owner,
    target: Vec<u8>,
    content: Vec<u8>,
}

type Tree = BTreeMap<String, Member>;

/// Generates trees of up to two levels. Names contain spaces, line ends, backslashes and other scripts, and may be long.
fn tree() -> impl Strategy<Value = Tree> {
    let name = prop_oneof!["[a-z]{1,8}", "[ -.0-~]{1,20}", "[äßжみ\n\u{1f600}]{1,9}", "[a-z]{200,250}"];
    let name = name.prop_filter("a name", |name| name != "." && name != "..");
    let content = prop_oneof![
        (any::<u8>(), 0usize..60_000).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u8>(), 0usize..60_000).prop_map(|(seed, len)| {
            let mut content = vec![0; len];
            blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut content);
            content
        }),
        proptest::collection::vec(any::<u8>(), 0..600),
    ];
    let member = (
        prop_oneof![4 => Just(Kind::File), 1 => Just(Kind::Symlink), 1 => Just(Kind::Directory)],
        0u16..0o1000,
        proptest::option::of((-3_000_000_000i64..3_000_000_000, 0u32..1_000_000_000)),
        (0u64..70_000, 0u64..5_000_000_000, "[a-z]{0,40}"),
        "[!-~ä]{1,120}",
        content,
    );
    let entry = (0u8..4, name, member);
    proptest::collection::vec(entry, 0..12).prop_map(|entries| {
        let entries =
            entries.into_iter().map(|(folder, name, (kind, mode, time, (user_id, group_id, user), target, content))| {
                // No entry has the name of a folder.
                let path = if folder == 0 { name } else { format!("/{folder}/{name}")[1..].to_owned() };
                let is_file = kind == Kind::File;
                let member = Member {
                    kind,
                    mode: if kind == Kind::Symlink { 0o777 } else { mode },
                    modified: time.map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds }),
                    owner: Owner { user_id, group_id, user: user.into_bytes().into(), group: Box::default() },
                    target: if kind == Kind::Symlink { target.into_bytes() } else { Vec::new() },
                    content: if is_file { content } else { Vec::new() },
                };
                (path, member)
            });
        entries.filter(|(path, _)| !["1", "2", "3"].contains(&&**path)).collect()
    })
}

/// Writes a tree into an NRA archive.
fn packed(tree: &Tree) -> Vec<u8> {
    let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    for (path, member) in tree {
        let mut entry = Entry::new(EntryPath::try_from(&**path).unwrap(), member.kind);
        entry.metadata = Arc::new(Metadata { mode: member.mode, owner: Some(member.owner.clone()), ..Metadata::default() });
        entry.modified = member.modified;
        entry.target = member.target.clone().into();
        let content = match member.kind {
            Kind::File => {
                NewContent::Whole { bytes: &member.content, digest: Digest::of(&member.content), incompressible: false }
            }
            _ => NewContent::None,
        };
        writer.add(entry, content).unwrap();
    }
    writer.finish(&Recorder::default()).unwrap().0
}

/// Converts into memory. Warnings must contain one of the texts in `allowed`.
fn written(
    tree: &Tree,
    allowed: &[&str],
    convert: impl FnOnce(&dyn nra::format::archive::Archive, Destination, &Recorder) -> u64,
) -> Vec<u8> {
    let archive = open(Arc::new(MemorySource::new(packed(tree))), &OpenOptions::default()).unwrap();
    let (pipe, monitor) = (Pipe::default(), Recorder::default());
    let len = convert(&*archive, Destination::Stream(Box::new(pipe.clone())), &monitor);
    for warning in monitor.take_warnings() {
        assert!(allowed.iter().any(|part| warning.message.contains(part)), "{}", warning.message);
    }
    let bytes = std::mem::take(&mut *pipe.0.lock().unwrap());
    assert_eq!(len, bytes.len() as u64);
    bytes
}

/// Reads an archive with nra. Implied directories are not included.
fn read_back(bytes: &[u8]) -> Tree {
    let archive = archive(bytes).unwrap();
    assert!(archive.remarks().is_empty(), "{:?}", archive.remarks());
    assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap).filter(|entry| !entry.implied);
    let members = entries.map(|entry| {
        let content = if entry.kind == Kind::File { archive.read_all(&entry, 1 << 20).unwrap() } else { Vec::new() };
        let member = Member {
            kind: entry.kind,
            mode: entry.metadata.mode,
            modified: entry.modified,
            owner: entry.metadata.owner.clone().unwrap_or_default(),
            target: entry.target.to_vec(),
            content,
        };
        (String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(), member)
    });
    members.collect()
}

/// Returns what a zip archive keeps of a tree.
fn as_zip(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    for member in tree.values_mut() {
        member.owner.user = Box::default();
        // An unknown time becomes the first time of DOS. Times before 1970 or of more than 31 bits are stored as those of NTFS, in
        // tenths of microseconds.
        let Timestamp { seconds, nanoseconds } = member.modified.unwrap_or(Timestamp { seconds: 315_532_800, nanoseconds: 0 });
        let nanoseconds = if (0..1 << 31).contains(&seconds) { 0 } else { nanoseconds / 100 * 100 };
        member.modified = Some(Timestamp { seconds, nanoseconds });
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With any method. Little memory makes the writer stream members.
    #[test]
    fn written_zip_archives_contain_the_tree(
        tree in tree(),
        memory in prop_oneof![Just(16u64 << 10), Just(1 << 20)],
        method in 0usize..3,
    ) {
        let compression = [ZipCompression::Stored, ZipCompression::Deflate(1), ZipCompression::Zstd(1)][method];
        let convert_with = |threads: usize| {
            let options = Options { threads, memory_bytes: memory, ..Options::default() };
            written(&tree, &["names of owners", "fractions of a second"], |archive, destination, monitor| {
                let sink = Sink::Archive(destination, NewArchive::Zip(ZipSink { compression }));
                convert(Source::Archive(archive, &Selection::all()), sink, &options, monitor).unwrap().written.archive_bytes
            })
        };
        let bytes = convert_with(1);
        prop_assert!(bytes == convert_with(3), "the same bytes from three threads");
        let found = read_back(&bytes);
        let expected = as_zip(&tree);
        prop_assert_eq!(&found, &expected);

        let mut theirs = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(theirs.len(), tree.len());
        for (path, member) in &tree {
            let name = if member.kind == Kind::Directory { format!("{path}/") } else { path.clone() };
            let mut found = theirs.by_name(&name).unwrap();
            let mut content = Vec::new();
            found.read_to_end(&mut content).unwrap();
            let expected = if member.kind == Kind::Symlink { &member.target } else { &member.content };
            prop_assert!(content == *expected);
            let kind = match member.kind { Kind::Directory => 0o040_000, Kind::Symlink => 0o120_000, _ => 0o100_000 };
            prop_assert_eq!(found.unix_mode(), Some(kind | u32::from(member.mode)));
        }
    }

    /// Plain and compressed archives.
    #[test]
    fn written_tar_archives_contain_the_tree(tree in tree(), kind in 0usize..7) {
        let kinds = [
            None,
            Some(Compression::Gzip),
            Some(Compression::Zstd),
            Some(Compression::Xz),
            Some(Compression::Bzip2),
            Some(Compression::Lz4),
            None,
        ];
        let convert_with = |compression: Option<Compression>, threads: usize| {
            let compression = compression.map(|compression| (compression, Level::default_of(compression)));
            let options = Options { threads, ..Options::default() };
            written(&tree, &[], |archive, destination, monitor| {
                let sink = Sink::Archive(destination, NewArchive::Tar(TarSink { compression }));
                convert(Source::Archive(archive, &Selection::all()), sink, &options, monitor).unwrap().written.archive_bytes
            })
        };
        let bytes = convert_with(kinds[kind], 1);
        prop_assert!(bytes == convert_with(kinds[kind], 3), "the same bytes from three threads");
        let mut expected = tree.clone();
        for member in expected.values_mut() {
            // Every header contains a time.
            member.modified = member.modified.or(Some(Timestamp { seconds: 0, nanoseconds: 0 }));
        }
        prop_assert_eq!(&read_back(&bytes), &expected);

        let plain = convert_with(None, 1);
        let mut found = Tree::new();
        for entry in tar::Archive::new(&plain[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let kind = match entry.header().entry_type() {
                tar::EntryType::Directory => Kind::Directory,
                tar::EntryType::Symlink => Kind::Symlink,
                _ => Kind::File,
            };
            let name = entry.path_bytes();
            let path = String::from_utf8(name.strip_suffix(b"/").unwrap_or(&name).to_vec()).unwrap();
            let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            // The crate does not interpret the pax records of times and owners.
            let known = &expected[&path];
            let mode = u16::try_from(entry.header().mode().unwrap()).unwrap();
            found.insert(path, Member { kind, mode, target, content, ..known.clone() });
        }
        prop_assert_eq!(&found, &expected);
    }
}
