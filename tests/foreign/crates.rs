//! nra reads and converts random trees that the crates `tar` and `zip` have written.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use nra::convert::{Destination, NewArchive, NraSink, Options, Sink, Source, convert};
use nra::format::archive::{Archive, OpenOptions, open_path};
use nra::format::entry::{Entry, Kind};
use nra::format::progress::Recorder;
use proptest::prelude::*;
use proptest::sample::Index;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::archive;

/// The type and content of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    File(Vec<u8>),
    Directory,
    Symlink(String),
    /// The number of the file to which it is a hard link.
    Link(usize),
}

#[derive(Debug, Clone)]
struct Member {
    name: String,
    content: Content,
    mode: u16,
    seconds: u32,
}

/// What is compared: kind, content or target, permission bits, and the time if it was written.
type Summary = (Kind, Vec<u8>, u16, Option<i64>);

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-c]{1,2}",
        2 => "[a-zA-Z0-9äßж€ ._-]{1,12}[a-z]",
        1 => "[x-z]{95,130}",
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 1..600),
        (1..4_000usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        Just(vec![b'e'; 512]),
    ]
}

/// Generates members without conflicts: directories start with a letter, and a number makes each name unique.
fn members() -> impl Strategy<Value = Vec<Member>> {
    let content = prop_oneof![
        5 => content().prop_map(Content::File),
        2 => Just(Content::Directory),
        1 => r"(\.\./)?[a-zä]{1,60}(/[a-z]{1,30}){0,3}".prop_map(Content::Symlink),
        1 => any::<Index>().prop_map(|index| Content::Link(index.index(usize::MAX))),
    ];
    let member = (prop::collection::vec(component(), 0..4), component(), content, 0..0o1000u16, any::<u32>());
    prop::collection::vec(member, 0..20).prop_map(|members| {
        let mut made: Vec<Member> = Vec::new();
        for (number, (above, last, content, mode, seconds)) in members.into_iter().enumerate() {
            let directories = above.iter().map(|component| format!("d{component}/")).collect::<String>();
            let content = match content {
                Content::Link(index) => {
                    let files: Vec<usize> =
                        (0..made.len()).filter(|&other| matches!(made[other].content, Content::File(_))).collect();
                    if files.is_empty() { Content::Directory } else { Content::Link(files[index % files.len()]) }
                }
                content => content,
            };
            made.push(Member { name: format!("{directories}{number}{last}"), content, mode, seconds });
        }
        made
    })
}

/// Returns the expected entries. A hard link has the content of its file.
fn expected(members: &[Member], times: bool) -> BTreeMap<String, Summary> {
    let summary = |member: &Member| {
        let of = match member.content {
            Content::Link(first) => &members[first],
            _ => member,
        };
        let time = times.then_some(i64::from(of.seconds));
        match &of.content {
            Content::File(content) => (Kind::File, content.clone(), of.mode, time),
            Content::Symlink(target) => (Kind::Symlink, target.clone().into_bytes(), 0, time),
            Content::Directory | Content::Link(_) => (Kind::Directory, Vec::new(), of.mode, time),
        }
    };
    members.iter().map(|member| (member.name.clone(), summary(member))).collect()
}

/// Returns the entries of an archive without implied directories.
fn found(archive: &dyn Archive, times: bool) -> BTreeMap<String, Summary> {
    let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(Result::unwrap).collect();
    let summary = |entry: &Entry| {
        let content = match entry.kind {
            Kind::Symlink => entry.target.to_vec(),
            _ => archive.read_all(entry, 1 << 20).unwrap(),
        };
        // The mode of a symlink is arbitrary.
        let mode = if entry.kind == Kind::Symlink { 0 } else { entry.metadata.mode & 0o777 };
        (entry.kind, content, mode, entry.modified.filter(|_| times).map(|time| time.seconds))
    };
    let recorded = entries.iter().filter(|entry| !entry.implied);
    recorded.map(|entry| (String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(), summary(entry))).collect()
}

/// Reads an archive and the result of converting it.
fn check(bytes: &[u8], expected: &BTreeMap<String, Summary>, times: bool) {
    assert_eq!(&found(&*archive(bytes).unwrap(), times), expected);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("converted.nra");
    let source = Source::Stream(Box::new(Cursor::new(bytes.to_vec())), "input".into());
    let recorder = Recorder::default();
    let sink = Sink::Archive(Destination::new_file(&path), NewArchive::Nra(NraSink::default()));
    let stats = convert(source, sink, &Options::default(), &recorder).unwrap();
    assert_eq!((stats.skipped, stats.incomplete), (0, false), "{:?}", recorder.take_warnings());
    assert_eq!(&found(&*open_path(&path, &OpenOptions::default()).unwrap(), times), expected);
}

fn write_tar(members: &[Member], gnu: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for member in members {
        let mut header = if gnu { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        header.set_mode(member.mode.into());
        header.set_mtime(member.seconds.into());
        match &member.content {
            Content::File(content) => {
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, &member.name, &content[..]).unwrap();
            }
            Content::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, format!("{}/", member.name), &[][..]).unwrap();
            }
            Content::Symlink(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                builder.append_link(&mut header, &member.name, target).unwrap();
            }
            Content::Link(first) => {
                header.set_entry_type(tar::EntryType::Link);
                builder.append_link(&mut header, &member.name, &members[*first].name).unwrap();
            }
        }
    }
    builder.into_inner().unwrap()
}

/// Compression methods, used in turn.
const METHODS: [CompressionMethod; 4] =
    [CompressionMethod::Stored, CompressionMethod::Deflated, CompressionMethod::Zstd, CompressionMethod::Bzip2];

fn write_zip(members: &[Member], large: bool) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, member) in members.iter().enumerate() {
        let options = SimpleFileOptions::default()
            .compression_method(METHODS[number % METHODS.len()])
            .unix_permissions(member.mode.into())
            .large_file(large);
        match &member.content {
            Content::File(content) => {
                writer.start_file(member.name.as_str(), options).unwrap();
                writer.write_all(content).unwrap();
            }
            Content::Directory => writer.add_directory(member.name.as_str(), options).unwrap(),
            Content::Symlink(target) => writer.add_symlink(member.name.as_str(), target.as_str(), options).unwrap(),
            Content::Link(_) => unreachable!("zip archives have no hard links"),
        }
    }
    writer.finish().unwrap().into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn archives_of_crate_tar_are_read(members in members(), gnu in any::<bool>()) {
        // The crate writes long names as GNU tar does, even in ustar archives.
        check(&write_tar(&members, gnu), &expected(&members, true), true);
    }

    #[test]
    fn archives_of_crate_zip_are_read(members in members(), large in any::<bool>()) {
        let members: Vec<Member> = members.into_iter().filter(|member| !matches!(member.content, Content::Link(_))).collect();
        check(&write_zip(&members, large), &expected(&members, false), false);
    }
}
