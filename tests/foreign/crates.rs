//! Random trees that the crates `tar` and `zip` write come out as they went in: behind the reading face, and converted.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};

use nra::convert::{Destination, Format, NraSink, Options, Sink, Source, convert};
use nra::format::archive::{Archive, OpenOptions, open_path};
use nra::format::entry::{Entry, Kind};
use nra::format::progress::Recorder;
use proptest::prelude::*;
use proptest::sample::Index;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use crate::archive;

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    File(Vec<u8>),
    Directory,
    Symlink(String),
    /// The number of the one that it is a further name of, if that is a file.
    Link(usize),
}

#[derive(Debug, Clone)]
struct Thing {
    name: String,
    what: What,
    mode: u16,
    seconds: u32,
}

/// What of an entry is compared: kind, content or target, permission bits, and the time where it was written as one.
type Seen = (Kind, Vec<u8>, u16, Option<i64>);

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

/// Names that do not stand in each other's way: those of directories are told by their first letter, and the number makes each its own.
fn things() -> impl Strategy<Value = Vec<Thing>> {
    let what = prop_oneof![
        5 => content().prop_map(What::File),
        2 => Just(What::Directory),
        1 => r"(\.\./)?[a-zä]{1,60}(/[a-z]{1,30}){0,3}".prop_map(What::Symlink),
        1 => any::<Index>().prop_map(|index| What::Link(index.index(usize::MAX))),
    ];
    let thing = (prop::collection::vec(component(), 0..4), component(), what, 0..0o1000u16, any::<u32>());
    prop::collection::vec(thing, 0..20).prop_map(|things| {
        let mut made: Vec<Thing> = Vec::new();
        for (number, (above, last, what, mode, seconds)) in things.into_iter().enumerate() {
            let directories = above.iter().map(|component| format!("d{component}/")).collect::<String>();
            let what = match what {
                What::Link(index) => {
                    let files: Vec<usize> = (0..made.len()).filter(|&other| matches!(made[other].what, What::File(_))).collect();
                    if files.is_empty() { What::Directory } else { What::Link(files[index % files.len()]) }
                }
                what => what,
            };
            made.push(Thing { name: format!("{directories}{number}{last}"), what, mode, seconds });
        }
        made
    })
}

/// What is to come out; a further name is the file that it is one of.
fn expected(things: &[Thing], times: bool) -> BTreeMap<String, Seen> {
    let seen = |thing: &Thing| {
        let of = match thing.what {
            What::Link(first) => &things[first],
            _ => thing,
        };
        let time = times.then_some(i64::from(of.seconds));
        match &of.what {
            What::File(content) => (Kind::File, content.clone(), of.mode, time),
            What::Symlink(target) => (Kind::Symlink, target.clone().into_bytes(), 0, time),
            What::Directory | What::Link(_) => (Kind::Directory, Vec::new(), of.mode, time),
        }
    };
    things.iter().map(|thing| (thing.name.clone(), seen(thing))).collect()
}

/// What an archive holds, without the directories that nobody wrote.
fn found(archive: &dyn Archive, times: bool) -> BTreeMap<String, Seen> {
    let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(Result::unwrap).collect();
    let seen = |entry: &Entry| {
        let content = match entry.kind {
            Kind::Symlink => entry.target.to_vec(),
            _ => archive.read_all(entry, 1 << 20).unwrap(),
        };
        // Whoever writes a symlink does not ask for a mode.
        let mode = if entry.kind == Kind::Symlink { 0 } else { entry.metadata.mode & 0o777 };
        (entry.kind, content, mode, entry.modified.filter(|_| times).map(|time| time.seconds))
    };
    let told = entries.iter().filter(|entry| !entry.implied);
    told.map(|entry| (String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(), seen(entry))).collect()
}

/// Reads an archive, and what it is converted to.
fn check(bytes: &[u8], expected: &BTreeMap<String, Seen>, times: bool) {
    assert_eq!(&found(&*archive(bytes).unwrap(), times), expected);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("converted.nra");
    let source = Source::Stream(Box::new(Cursor::new(bytes.to_vec())), "input".into());
    let recorder = Recorder::default();
    let sink = Sink::Archive(Destination::new_file(&path), Format::Nra(NraSink::default()));
    let stats = convert(source, sink, &Options::default(), &recorder).unwrap();
    assert_eq!((stats.skipped, stats.incomplete), (0, false), "{:?}", recorder.take_warnings());
    assert_eq!(&found(&*open_path(&path, &OpenOptions::default()).unwrap(), times), expected);
}

fn write_tar(things: &[Thing], gnu: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for thing in things {
        let mut header = if gnu { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        header.set_mode(thing.mode.into());
        header.set_mtime(thing.seconds.into());
        match &thing.what {
            What::File(content) => {
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, &thing.name, &content[..]).unwrap();
            }
            What::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, format!("{}/", thing.name), &[][..]).unwrap();
            }
            What::Symlink(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                builder.append_link(&mut header, &thing.name, target).unwrap();
            }
            What::Link(first) => {
                header.set_entry_type(tar::EntryType::Link);
                builder.append_link(&mut header, &thing.name, &things[*first].name).unwrap();
            }
        }
    }
    builder.into_inner().unwrap()
}

/// Methods in turn, as each member has its own.
const METHODS: [CompressionMethod; 4] =
    [CompressionMethod::Stored, CompressionMethod::Deflated, CompressionMethod::Zstd, CompressionMethod::Bzip2];

fn write_zip(things: &[Thing], large: bool) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, thing) in things.iter().enumerate() {
        let options = SimpleFileOptions::default()
            .compression_method(METHODS[number % METHODS.len()])
            .unix_permissions(thing.mode.into())
            .large_file(large);
        match &thing.what {
            What::File(content) => {
                writer.start_file(thing.name.as_str(), options).unwrap();
                writer.write_all(content).unwrap();
            }
            What::Directory => writer.add_directory(thing.name.as_str(), options).unwrap(),
            What::Symlink(target) => writer.add_symlink(thing.name.as_str(), target.as_str(), options).unwrap(),
            What::Link(_) => unreachable!("zip archives have none"),
        }
    }
    writer.finish().unwrap().into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_the_crate_tar_writes_is_read(things in things(), gnu in any::<bool>()) {
        // Its ustar headers get long names as GNU tar writes them.
        check(&write_tar(&things, gnu), &expected(&things, true), true);
    }

    #[test]
    fn what_the_crate_zip_writes_is_read(things in things(), large in any::<bool>()) {
        let things: Vec<Thing> = things.into_iter().filter(|thing| !matches!(thing.what, What::Link(_))).collect();
        check(&write_zip(&things, large), &expected(&things, false), false);
    }
}
