//! Any tree of entries round-trips, with any options.
#![no_main]

use std::collections::{BTreeMap, HashMap};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nra::format::archive::Depth;
use nra::format::codec::{Method, looks_incompressible};
use nra::format::digest::Digest;
use nra::format::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra::format::nra::writer::{BlockPolicy, DictionaryPolicy, EntryId, NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra_fuzz::{MAX_CONTENT, exercise, open, verify};

#[derive(Debug, Arbitrary)]
struct Input {
    options: Options,
    entries: Vec<NewEntry>,
}

#[derive(Debug, Arbitrary)]
struct Options {
    method: u8,
    min_raw_bytes: u16,
    more_raw_bytes: u16,
    stored_bytes: u16,
    dictionary: bool,
    align: u8,
    memory_bytes: u16,
    other_threads: bool,
    message: String,
}

#[derive(Debug, Clone, Arbitrary)]
struct NewEntry {
    path: NewPath,
    kind: NewKind,
    mode: u16,
    time: Option<(i64, u32)>,
    owner: Option<(u64, u64, Vec<u8>, Vec<u8>)>,
    attributes: Vec<(u8, Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Clone, Arbitrary)]
enum NewPath {
    /// Few names, so that entries lie below each other.
    Common(u8, u8, u8),
    Any(Vec<u8>),
}

#[derive(Debug, Clone, Arbitrary)]
enum NewKind {
    Whole(Content),
    Pieces(Vec<Content>, bool),
    Abandoned(Vec<Content>),
    Link(u8),
    Directory,
    Symlink(Vec<u8>),
    Fifo,
    Device(bool, u32, u32),
}

#[derive(Debug, Clone, Arbitrary)]
enum Content {
    Bytes(Vec<u8>),
    Fill(u8, u16),
    Noise(u8, u16),
    Hole(u16),
    LongHole(u64),
}

/// An expected entry of the archive.
struct Expected {
    entry: Entry,
    /// `None`: too long to compare.
    content: Option<Vec<u8>>,
    /// Index among the added files, if it is one.
    file: Option<usize>,
    /// Files of the same group are hard links of each other.
    group: Option<usize>,
}

/// An added file, even if it is not in the archive.
struct Added {
    id: EntryId,
    content: Option<Vec<u8>>,
    size: u64,
    /// Index of the file that it is a hard link of.
    group: Option<usize>,
}

fuzz_target!(|input: Input| {
    let archive = write(&input, 1);
    if input.options.other_threads {
        assert!(write(&input, 3).0 == archive.0, "the number of threads makes a difference");
    }
    let (bytes, expected) = archive;
    let archive = open(bytes).expect("what was written opens");
    assert_eq!(archive.remarks(), Vec::<String>::new());
    let verdict = verify(&*archive, Depth::Full).expect("nothing keeps it from being verified");
    assert_eq!(verdict.damage, []);
    let entries: Vec<Entry> = archive.entries(0..archive.entry_count()).map(|entry| entry.expect("no damage")).collect();
    let paths = |paths: &mut dyn Iterator<Item = &EntryPath>| -> Vec<EntryPath> { paths.cloned().collect() };
    assert_eq!(paths(&mut entries.iter().map(|entry| &entry.path)), paths(&mut expected.keys()));
    let mut groups = HashMap::new();
    for (entry, expected) in entries.iter().zip(expected.values()) {
        let (_, found) = archive.find(entry.path.as_bytes()).expect("no damage").expect("it was listed");
        assert_eq!(&found, entry);
        let own = &expected.entry;
        assert_eq!(
            (entry.kind, &entry.metadata, entry.modified, entry.size, &entry.target, entry.device, entry.implied),
            (own.kind, &own.metadata, own.modified, own.size, &own.target, own.device, own.implied),
            "{own:?}"
        );
        assert_eq!(entry.link_group != 0, expected.group.is_some());
        if let Some(group) = expected.group {
            assert_eq!(*groups.entry(group).or_insert(entry.link_group), entry.link_group);
        }
        if let Some(content) = &expected.content {
            assert_eq!(&archive.read_all(entry, MAX_CONTENT).expect("no damage"), content);
            if entry.kind == Kind::File {
                assert_eq!(archive.digest(entry).expect("no damage"), Some(Digest::of(content)));
            }
        }
    }
    exercise(&*archive);
});

/// Writes an archive. Returns it with the expected entries.
fn write(input: &Input, threads: usize) -> (Vec<u8>, BTreeMap<EntryPath, Expected>) {
    let mut writer = Writer::create(Vec::new(), input.options.to_writer(threads)).expect("options that make sense");
    let mut expected: BTreeMap<EntryPath, Expected> = BTreeMap::new();
    let mut files: Vec<Added> = Vec::new();
    for new in &input.entries {
        let Some(mut entry) = new.to_entry() else { continue };
        let (mut content, mut group) = (Some(Vec::new()), None);
        let added = match &new.kind {
            NewKind::Whole(whole) => {
                content = whole.bytes();
                let Some(bytes) = &content else { continue };
                entry.size = bytes.len() as u64;
                let incompressible = looks_incompressible(bytes);
                writer.add(entry.clone(), NewContent::Whole { bytes, digest: Digest::of(bytes), incompressible })
            }
            NewKind::Pieces(parts, with_digest) => {
                if writer.begin_file(entry.clone()).is_err() {
                    continue;
                }
                (content, entry.size) = put_parts(&mut writer, parts);
                writer.end_file(content.as_ref().filter(|_| *with_digest).map(|bytes| Digest::of(bytes)))
            }
            NewKind::Abandoned(parts) => {
                if writer.begin_file(entry).is_ok() {
                    put_parts(&mut writer, parts);
                    writer.abandon_file();
                }
                continue;
            }
            NewKind::Link(to) => {
                let to = usize::from(*to) % files.len().max(1);
                let Some(target) = files.get_mut(to) else { continue };
                let added = writer.add_link(entry.clone(), target.id);
                if added.is_ok() {
                    group = Some(*target.group.get_or_insert(to));
                }
                (content, entry.size) = (target.content.clone(), target.size);
                added
            }
            _ => writer.add(entry.clone(), NewContent::None),
        };
        // An entry that the format does not allow is rejected, and the writer continues.
        let Ok(id) = added else { continue };
        let file = (entry.kind == Kind::File).then_some(files.len());
        if file.is_some() {
            files.push(Added { id, content: content.clone(), size: entry.size, group });
        }
        expected.insert(entry.path.clone(), Expected { entry, content, file, group: None });
    }
    let (bytes, _) = writer.finish(&Recorder::default()).expect("nothing fails in memory");
    add_parents(&mut expected);
    let mut members: HashMap<usize, usize> = HashMap::new();
    let group_of = |one: &Expected| one.file.and_then(|file| files[file].group);
    expected.values().filter_map(group_of).for_each(|group| *members.entry(group).or_default() += 1);
    for one in expected.values_mut() {
        one.group = group_of(one).filter(|group| members[group] > 1);
    }
    (bytes, expected)
}

/// Adds the parts of the open file. Returns its content, unless it is long, and its size.
fn put_parts(writer: &mut Writer<Vec<u8>>, parts: &[Content]) -> (Option<Vec<u8>>, u64) {
    let (mut content, mut size) = (Some(Vec::new()), 0);
    for part in parts {
        match part {
            Content::Hole(_) | Content::LongHole(_) => {
                let len = part.hole();
                if writer.add_hole(len).is_err() {
                    continue;
                }
                size += len;
                content = content.filter(|_| size <= MAX_CONTENT);
                if let Some(content) = &mut content {
                    content.resize(content.len() + len as usize, 0);
                }
            }
            _ => {
                let bytes = part.bytes().expect("it is no hole");
                if writer.add_chunk(&bytes, Digest::of(&bytes), looks_incompressible(&bytes)).is_err() {
                    continue;
                }
                size += bytes.len() as u64;
                content = content.filter(|_| size <= MAX_CONTENT);
                if let Some(content) = &mut content {
                    content.extend_from_slice(&bytes);
                }
            }
        }
    }
    (content, size)
}

/// Adds missing parent directories.
fn add_parents(expected: &mut BTreeMap<EntryPath, Expected>) {
    let mut parents: Vec<EntryPath> = expected.keys().filter_map(EntryPath::parent).collect();
    while let Some(path) = parents.pop() {
        parents.extend(path.parent());
        if expected.get(&path).is_none_or(|one| one.entry.kind != Kind::Directory) {
            let mut entry = Entry::new(path.clone(), Kind::Directory);
            entry.implied = true;
            expected.insert(path, Expected { entry, content: Some(Vec::new()), file: None, group: None });
        }
    }
}

impl Content {
    /// Returns the bytes of a part that is not a hole.
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes.clone()),
            Self::Fill(byte, len) => Some(vec![*byte; (*len).into()]),
            Self::Noise(seed, len) => {
                let mut state = u64::from(*seed) << 1 | 1;
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                };
                Some((0..*len).map(|_| next()).collect())
            }
            Self::Hole(_) | Self::LongHole(_) => None,
        }
    }

    fn hole(&self) -> u64 {
        match self {
            Self::Hole(len) => (*len).into(),
            Self::LongHole(len) => *len,
            Self::Bytes(_) | Self::Fill(..) | Self::Noise(..) => 0,
        }
    }
}

impl NewEntry {
    /// Returns the entry without content, or `None` if its path is invalid.
    fn to_entry(&self) -> Option<Entry> {
        const NAMES: [&[u8]; 8] = [b"a", b"b", b"a!", b"ab", b"\xff", b"A", b"dir", b"a\n"];
        let path = match &self.path {
            NewPath::Common(a, b, c) => {
                let names: Vec<&[u8]> = [a, b, c].into_iter().filter_map(|n| NAMES.get(usize::from(n % 12)).copied()).collect();
                EntryPath::new(names.join(&b"/"[..]))
            }
            NewPath::Any(bytes) => EntryPath::new(&bytes[..]),
        };
        let kind = match &self.kind {
            NewKind::Whole(_) | NewKind::Pieces(..) | NewKind::Abandoned(_) | NewKind::Link(_) => Kind::File,
            NewKind::Directory => Kind::Directory,
            NewKind::Symlink(_) => Kind::Symlink,
            NewKind::Fifo => Kind::Fifo,
            NewKind::Device(is_block, ..) => {
                if *is_block {
                    Kind::BlockDevice
                } else {
                    Kind::CharacterDevice
                }
            }
        };
        let mut entry = Entry::new(path.ok()?, kind);
        let mut attributes: Vec<Attribute> = self.attributes.iter().map(to_attribute).collect();
        attributes.sort();
        attributes.dedup_by(|a, b| (a.namespace, &a.name) == (b.namespace, &b.name));
        let owner = self.owner.as_ref().map(|(user_id, group_id, user, group)| Owner {
            user_id: *user_id,
            group_id: *group_id,
            user: user[..].into(),
            group: group[..].into(),
        });
        entry.metadata = Metadata { mode: self.mode % 0o10100, owner, attributes: attributes.into() }.into();
        entry.modified = self.time.map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds: nanoseconds % 1_000_000_001 });
        match &self.kind {
            NewKind::Symlink(target) => entry.target = target[..].into(),
            NewKind::Device(_, major, minor) => entry.device = Some(Device { major: *major, minor: *minor }),
            _ => {}
        }
        Some(entry)
    }
}

fn to_attribute((namespace, name, value): &(u8, Vec<u8>, Vec<u8>)) -> Attribute {
    let namespace = Namespace::ALL[usize::from(*namespace) % Namespace::ALL.len()];
    Attribute { namespace, name: name[..].into(), value: value[..].into() }
}

impl Options {
    fn to_writer(&self, threads: usize) -> WriterOptions {
        let methods = [Method::NONE, Method::LZ4, Method::zstd(1), Method::zstd(3), Method::zstd(-3)];
        let min_raw_bytes = 1 + u32::from(self.min_raw_bytes);
        WriterOptions {
            method: methods[usize::from(self.method) % methods.len()],
            block: BlockPolicy {
                min_raw_bytes,
                max_raw_bytes: min_raw_bytes + u32::from(self.more_raw_bytes),
                stored_bytes: 1 + u32::from(self.stored_bytes),
                max_cheap_bytes: 16 << 20,
            },
            dictionary: if self.dictionary { DictionaryPolicy::Auto } else { DictionaryPolicy::Never },
            align: [0, 16, 32, 64, 4096][usize::from(self.align) % 5],
            threads,
            memory_bytes: self.memory_bytes.into(),
            reproducible: true,
            message: self.message.chars().take(100).collect(),
            ..WriterOptions::balanced()
        }
    }
}
