//! The archives in `tests/golden/` must stay readable forever.
//!
//! Next to each archive is its expected content as JSON, generated from the input. `NRA_BLESS=1
//! cargo test --test golden` writes missing files and never changes existing ones: a change of the
//! format needs new files in addition to the old ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nra::format::Error;
use nra::format::archive::{Archive, Depth, OpenOptions, open, open_path};
use nra::format::checksum::checksum;
use nra::format::codec::{Dictionary, Method};
use nra::format::crypt::{Argon2Cost, Keyring, Secret};
use nra::format::digest::Digest;
use nra::format::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace, Owner, Timestamp};
use nra::format::nra::writer::{BlockPolicy, DictionaryPolicy, NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// An archive under construction and its expected content.
struct Golden {
    writer: Writer<Vec<u8>>,
    expected: BTreeMap<EntryPath, Value>,
}

/// Returns bytes of which `variety`/256 are noise. Equal arguments give equal bytes on every
/// machine.
fn content(seed: u64, len: usize, variety: u8) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
    (0..len)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = u8::try_from(state >> 56).expect("eight bits");
            if noise < variety {
                noise ^ u8::try_from(state >> 48 & 0xff).expect("eight bits")
            } else {
                b"golden content "[i % 15]
            }
        })
        .collect()
}

fn entry(path: impl AsRef<[u8]>, kind: Kind) -> Entry {
    let mut entry = Entry::new(EntryPath::new(path.as_ref()).expect("a valid path"), kind);
    entry.modified = Some(Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
    entry
}

/// Returns the entry with some fields changed.
fn with(mut entry: Entry, change: impl FnOnce(&mut Entry)) -> Entry {
    change(&mut entry);
    entry
}

fn text(item: &mut Value, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => item[name] = json!(text),
        Err(_) => item[format!("{name}_hex")] = json!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// Returns the expected description of an entry. The fields are those of `tests/spec_reader/nra5.py
/// json`.
fn describe(entry: &Entry, content: Option<&[u8]>) -> Value {
    let kind = match entry.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharacterDevice => "character-device",
        Kind::BlockDevice => "block-device",
    };
    let attributes: Vec<Value> = entry
        .metadata
        .attributes
        .iter()
        .map(|attribute| {
            let mut item = json!({ "namespace": attribute.namespace as u8 });
            text(&mut item, "name", &attribute.name);
            text(&mut item, "value", &attribute.value);
            item
        })
        .collect();
    let owner = entry.metadata.owner.as_ref();
    let mut item = json!({
        "kind": kind,
        "mode": format!("{:04o}", entry.metadata.mode),
        "mtime": entry.modified.map(|time| format!("{}.{:09}", time.seconds, time.nanoseconds)),
        "attributes": attributes,
        "uid": owner.map(|owner| owner.user_id),
        "gid": owner.map(|owner| owner.group_id),
    });
    text(&mut item, "path", entry.path.as_bytes());
    if let Some(owner) = owner.filter(|owner| !(owner.user.is_empty() && owner.group.is_empty())) {
        text(&mut item, "user", &owner.user);
        text(&mut item, "group", &owner.group);
    }
    match entry.kind {
        Kind::Symlink => text(&mut item, "target", &entry.target),
        Kind::CharacterDevice | Kind::BlockDevice => {
            let device = entry.device.expect("a device has numbers");
            item["major"] = json!(device.major);
            item["minor"] = json!(device.minor);
        }
        _ => {}
    }
    if let Some(content) = content {
        item["size"] = json!(content.len());
        item["blake3"] = json!(blake3::hash(content).to_hex().as_str());
    }
    item
}

impl Golden {
    fn new(options: WriterOptions) -> Self {
        let options = WriterOptions { reproducible: true, threads: 1, ..options };
        Self { writer: Writer::create(Vec::new(), options).expect("valid options"), expected: BTreeMap::new() }
    }

    fn add(&mut self, entry: Entry) {
        self.expected.insert(entry.path.clone(), describe(&entry, None));
        self.writer.add(entry, NewContent::None).expect("a valid entry");
    }

    fn file(&mut self, entry: Entry, content: &[u8], incompressible: bool) {
        self.expected.insert(entry.path.clone(), describe(&entry, Some(content)));
        let new = NewContent::Whole { bytes: content, digest: Digest::of(content), incompressible };
        self.writer.add(entry, new).expect("a valid entry");
    }

    /// Adds a file of chunks, each followed by a hole of the given length.
    fn chunks(&mut self, entry: Entry, chunks: &[(Vec<u8>, u64)]) {
        let mut whole = Vec::new();
        let path = entry.path.clone();
        let described = entry.clone();
        self.writer.begin_file(entry).expect("a valid entry");
        for (chunk, hole) in chunks {
            self.writer.add_chunk(chunk, Digest::of(chunk), false).expect("a valid chunk");
            self.writer.add_hole(*hole).expect("a valid hole");
            whole.extend_from_slice(chunk);
            whole.resize(whole.len() + usize::try_from(*hole).expect("a small hole"), 0);
        }
        self.writer.end_file(Some(Digest::of(&whole))).expect("a valid end");
        self.expected.insert(path, describe(&described, Some(&whole)));
    }

    fn finish(self) -> (Vec<u8>, Value) {
        let (bytes, _) = self.writer.finish(&Recorder::default()).expect("a whole archive");
        (bytes, json!({ "entries": self.expected.into_values().collect::<Vec<_>>() }))
    }
}

/// Every kind of entry and metadata.
fn kinds() -> (Vec<u8>, Value) {
    let attribute =
        |namespace, name: &str, value: &[u8]| Attribute { namespace, name: name.as_bytes().into(), value: value.into() };
    let mut golden = Golden::new(WriterOptions {
        time: Some(Timestamp { seconds: 1_750_000_000, nanoseconds: 5 }),
        message: "every kind of entry".into(),
        attributes: vec![attribute(Namespace::User, "name", b"kinds"), attribute(Namespace::Nra, "root-mode", b"755")],
        ..WriterOptions::balanced()
    });
    let owner = Owner { user_id: 1000, group_id: 100, user: (*b"ada").into(), group: (*b"users").into() };
    let metadata = |mode, owner: Option<Owner>, attributes: Vec<Attribute>| {
        Arc::new(Metadata { mode, owner, attributes: attributes.into() })
    };
    golden.add(with(entry("dir", Kind::Directory), |entry| {
        entry.metadata = metadata(0o750, Some(owner.clone()), vec![]);
    }));
    golden.add(with(entry("dir/empty-dir", Kind::Directory), |entry| {
        entry.modified = None;
    }));
    let mut image = content(1, 3000, 255);
    image[..8].copy_from_slice(b"\x89PNG\r\n\x1a\n");
    golden.file(entry("dir/image.png", Kind::File), &image, true);
    golden.file(entry("dir/copy-of-image.png", Kind::File), &image, true);
    let tagged = vec![
        attribute(Namespace::Xattr, "user.note", b"\x00\xffbytes"),
        attribute(Namespace::User, "tag", b"train"),
        attribute(Namespace::Nra, "media-type", b"text/plain"),
    ];
    golden.file(
        with(entry("dir/tagged.txt", Kind::File), |entry| {
            entry.metadata = metadata(0o4755, Some(Owner { user: Box::default(), group: Box::default(), ..owner }), tagged);
            entry.modified = Some(Timestamp { seconds: -5, nanoseconds: 999_999_999 });
        }),
        b"tagged\n",
        false,
    );
    golden.file(
        with(entry("links/one", Kind::File), |entry| {
            entry.link_group = 7;
        }),
        b"shared by two names\n",
        false,
    );
    golden.file(
        with(entry("links/two", Kind::File), |entry| {
            entry.link_group = 7;
        }),
        b"shared by two names\n",
        false,
    );
    golden.expected.insert(
        EntryPath::try_from("links").expect("valid"),
        json!({ "path": "links", "kind": "directory", "implied": true, "mode": "0755", "mtime": null }),
    );
    golden.file(entry("empty", Kind::File), b"", false);
    golden.add(with(entry("symlink", Kind::Symlink), |entry| {
        entry.target = (*b"dir/../dir/image.png").into();
    }));
    golden.add(with(entry(b"\xff\xfe not utf-8", Kind::Symlink), |entry| {
        entry.target = vec![0xff, b'/', b'\n'].into();
    }));
    golden.add(entry("pipe", Kind::Fifo));
    golden.add(with(entry("null", Kind::CharacterDevice), |entry| {
        entry.device = Some(Device { major: 1, minor: 3 });
    }));
    golden.add(with(entry("disk", Kind::BlockDevice), |entry| {
        entry.device = Some(Device { major: 259, minor: 1_048_577 });
    }));
    golden.file(entry("dir!after its subtree", Kind::File), &content(2, 20_000, 60), false);
    golden.file(entry("name\twith\ncontrol \u{1b}[31m", Kind::File), &content(3, 100, 60), false);
    golden.finish()
}

/// Extent lists with holes, and an extent map.
fn extents() -> (Vec<u8>, Value) {
    let mut golden = Golden::new(WriterOptions::balanced());
    let list: Vec<_> = (0..6).map(|i| (content(i, 5_000, 40), i * 4096)).collect();
    golden.chunks(entry("list", Kind::File), &list);
    golden.chunks(entry("only-a-hole", Kind::File), &[(Vec::new(), 100_000)]);
    let map: Vec<_> = (0..1_500).map(|i| (content(i, 40, 200), 10 + i % 3)).collect();
    golden.chunks(entry("map", Kind::File), &map);
    golden.finish()
}

/// Several leaf pages and levels, names of every length.
fn tree() -> (Vec<u8>, Value) {
    let mut golden = Golden::new(WriterOptions::balanced());
    for class in 0..12u64 {
        golden.add(entry(format!("class-{class:02}"), Kind::Directory));
        for number in 0..100u64 {
            let noise: String = content(number * 12 + class, 16, 255).iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("class-{class:02}/{}{number:05}.txt", &noise[..usize::try_from(number % 32).expect("small")]);
            golden.file(entry(name, Kind::File), &content(number, 30 + usize::try_from(number % 50).expect("small"), 90), false);
        }
    }
    golden.finish()
}

/// Small blocks that share a dictionary.
fn dictionary() -> (Vec<u8>, Value) {
    let block = BlockPolicy { min_raw_bytes: 4 << 10, max_raw_bytes: 4 << 10, stored_bytes: 4 << 10, max_cheap_bytes: 16 << 20 };
    let words = ["train", "loss", "epoch", "batch", "gradient", "validation", "checkpoint", "learning-rate"];
    let texts: Vec<String> = (0..250u64)
        .map(|number| {
            let word = |i| words[usize::try_from((number * 7 + i * i) % 8).expect("small")];
            (0..60).map(|i| format!("{} {}\n", word(i), number * i % 97)).collect()
        })
        .collect();
    let dictionary = Dictionary::train(&texts, 4 << 10).expect("enough samples");
    let dictionary = DictionaryPolicy::Given(dictionary.as_bytes().to_vec());
    let mut golden = Golden::new(WriterOptions { block, dictionary, ..WriterOptions::balanced() });
    golden.add(entry("logs", Kind::Directory));
    for (number, text) in texts.iter().enumerate() {
        golden.file(entry(format!("logs/{number:04}.log"), Kind::File), text.as_bytes(), false);
    }
    golden.finish()
}

/// Aligned uncompressed content and LZ4.
fn aligned_lz4() -> (Vec<u8>, Value) {
    let mut golden = Golden::new(WriterOptions { method: Method::LZ4, align: 64, ..WriterOptions::balanced() });
    for number in 0..12u64 {
        golden.file(
            entry(format!("{number:02}.raw"), Kind::File),
            &content(number, 500 + usize::try_from(number).expect("small"), 255),
            true,
        );
        golden.file(entry(format!("{number:02}.txt"), Kind::File), &content(number, 3_000, 30), false);
    }
    golden.finish()
}

/// No entries.
fn empty() -> (Vec<u8>, Value) {
    Golden::new(WriterOptions::balanced()).finish()
}

/// The encrypted archive. It opens with the user key of [`key`] and with the password `golden`.
const SEALED: &str = "v5-sealed";

fn key() -> Secret {
    Secret::user_key(std::array::from_fn(|i| u8::try_from(i).expect("less than 32")))
}

/// Returns the options that open all golden archives. All but one need no key.
fn options() -> OpenOptions {
    OpenOptions { key: Some(key()), ..OpenOptions::default() }
}

/// All frames sealed. Salts are random, so it cannot be reproduced byte by byte.
fn sealed() -> (Vec<u8>, Value) {
    let cost = Argon2Cost { memory_kib: 64, passes: 2, lanes: 2 };
    let mut keyring = Keyring::create(&Secret::password("golden"), cost, "a password").expect("a good password");
    keyring.add(&key(), cost, "a key").expect("there is room");
    let mut golden = Golden::new(WriterOptions {
        encryption: Some(keyring),
        message: "sealed".into(),
        attributes: vec![Attribute {
            namespace: Namespace::User,
            name: b"name".as_slice().into(),
            value: b"secret".as_slice().into(),
        }],
        ..WriterOptions::random()
    });
    golden.file(entry("long.raw", Kind::File), &content(1, 50_000, 255), true);
    golden.file(entry("short.raw", Kind::File), &content(2, 700, 255), true);
    golden.file(entry("text.txt", Kind::File), &content(3, 40_000, 30), false);
    golden.chunks(entry("pieces", Kind::File), &[(content(4, 3_000, 90), 20_000), (content(5, 20_000, 90), 0)]);
    golden.add(entry("directory", Kind::Directory));
    golden.file(entry("empty", Kind::File), b"", false);
    golden.finish()
}

/// With recovery data.
fn protected() -> (Vec<u8>, Value) {
    let mut golden = Golden::new(WriterOptions::balanced());
    golden.file(entry("noise", Kind::File), &content(1, 30_000, 255), true);
    golden.file(entry("text.txt", Kind::File), &content(2, 9_000, 30), false);
    let (bytes, expected) = golden.finish();
    let file = tempfile::NamedTempFile::new().expect("there is room for a file");
    fs::write(file.path(), bytes).expect("it can be written");
    nra::convert::repair::protect(file.path(), 10, nra::convert::repair::MEMORY_BYTES, &Recorder::default())
        .expect("a whole archive");
    (fs::read(file.path()).expect("it can be read"), expected)
}

/// Creates an archive and its expected content.
type Maker = fn() -> (Vec<u8>, Value);

/// All golden archives and their makers. A file in the folder that is not listed here fails the
/// test.
const MAKERS: [(&str, Maker); 8] = [
    ("v5-kinds", kinds),
    ("v5-extents", extents),
    ("v5-tree", tree),
    ("v5-dictionary", dictionary),
    ("v5-aligned-lz4", aligned_lz4),
    ("v5-empty", empty),
    (SEALED, sealed),
    ("v5-protected", protected),
];

/// Compares everything in `expected` with the archive.
fn compare(archive: &dyn Archive, expected: &Value) {
    let expected = expected["entries"].as_array().expect("a list of entries");
    let found: Vec<Entry> = archive.entries(0..archive.entry_count()).collect::<Result<_, _>>().expect("all entries read");
    assert_eq!(found.len(), expected.len());
    for (entry, wanted) in found.iter().zip(expected) {
        let content = (entry.kind == Kind::File).then(|| archive.read_all(entry, 1 << 24).expect("the content reads"));
        let described = describe(entry, content.as_deref());
        for (field, value) in wanted.as_object().expect("an object") {
            let found = if field == "implied" { &json!(entry.implied) } else { &described[field] };
            assert_eq!(found, value, "{field} of {}", entry.path);
        }
    }
}

#[test]
fn golden_archives_match_their_descriptions() {
    let bless = std::env::var_os("NRA_BLESS").is_some();
    for (name, make) in MAKERS {
        let file = folder().join(name).with_extension("nra");
        let expectation = file.with_extension("json");
        if bless && !file.exists() {
            let (bytes, expected) = make();
            fs::write(&file, bytes).expect("the folder is writable");
            fs::write(&expectation, serde_json::to_string(&expected).expect("plain values") + "\n").expect("writable");
        }
        let expected = fs::read_to_string(&expectation).expect("an expectation lies beside each golden archive");
        let expected = serde_json::from_str(&expected).expect("JSON");
        let archive = open_path(&file, &options()).expect("the archive opens");
        assert!(!archive.is_index_damaged(), "{name}");
        compare(&*archive, &expected);
        let verdict = archive.verify(Depth::Full, None, &Recorder::default()).expect("it can be checked");
        assert_eq!(verdict.damage, [], "{name}");
    }
    for item in fs::read_dir(folder()).expect("the folder is there") {
        let path = item.expect("readable").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(MAKERS.iter().any(|(listed, _)| *listed == name), "{} is not listed", path.display());
    }
}

/// Returns a number in the file.
fn number(bytes: &[u8], offset: usize) -> usize {
    let number = u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"));
    usize::try_from(number).expect("a small file")
}

#[test]
fn golden_archives_are_recovered_without_their_index() {
    const ENTRY_PAGE: u8 = 3;
    const ATTRIBUTES: u8 = 6;
    for (name, _) in MAKERS {
        let file = folder().join(name).with_extension("nra");
        let mut bytes = fs::read(&file).expect("readable");
        let tail = bytes.len() - 64;
        let commit = number(&bytes, tail + 16);
        let expected = fs::read_to_string(file.with_extension("json")).expect("readable");
        let expected = serde_json::from_str(&expected).expect("JSON");
        let check = |bytes: &[u8]| {
            let archive = open(Arc::new(MemorySource::new(bytes)), &options()).expect("it opens by its directories");
            assert!(archive.is_index_damaged(), "{name}");
            assert_eq!(archive.info().commit, None, "{name}");
            compare(&*archive, &expected);
        };
        // An archive without entries may have no block that identifies it.
        if name == "v5-empty" {
            continue;
        }
        bytes[commit..].fill(0);
        check(&bytes);
        // The pages of an encrypted archive cannot be located without a key.
        if name == SEALED {
            continue;
        }
        // The index pages must not be used either.
        let mut at = 256;
        while at < commit {
            let part = |field: usize| u32::from_le_bytes(bytes[at + field..at + field + 4].try_into().expect("four bytes"));
            let len = [12, 16, 20].map(part).iter().sum::<u32>();
            let end = at + (64 + usize::try_from(len).expect("small")).next_multiple_of(8);
            if (ENTRY_PAGE..=ATTRIBUTES).contains(&bytes[at + 4]) && bytes[at + 4] != 4 {
                bytes[at..end].fill(0);
            }
            at = end;
        }
        check(&bytes);
    }
}

#[test]
fn later_versions_are_rejected_by_version() {
    for (name, _) in MAKERS {
        let whole = fs::read(folder().join(name).with_extension("nra")).expect("readable");
        let tail = whole.len() - 64;
        let later = |bytes: &mut [u8], start: usize, version: usize| {
            bytes[start + version] = 6;
            let sum = checksum(&bytes[start..start + 56], start.try_into().expect("small"));
            bytes[start + 56..start + 64].copy_from_slice(&sum.to_le_bytes());
        };
        let refusal = |bytes: Vec<u8>| {
            let refused = open(Arc::new(MemorySource::new(bytes)), &options()).err().expect("not version 5");
            assert!(matches!(refused, Error::Unsupported { .. }), "{name}: {refused}");
            refused.to_string()
        };
        let mut both = whole.clone();
        later(&mut both, 0, 4);
        later(&mut both, tail, 8);
        assert_eq!(refusal(both.clone()), "NRA version 6 is not supported (known: 5)");
        let mut tail_only = whole.clone();
        later(&mut tail_only, tail, 8);
        assert_eq!(refusal(tail_only), "NRA version 6 is not supported (known: 5)");
        // The footer is lost, so the superblock decides.
        for lost in [both.len() - 1, both.len() - 70, 300] {
            let refused = refusal(both[..lost].to_vec());
            assert!(refused == "NRA version 6 is not supported (known: 1 to 5)", "{refused}");
        }
        let mut head_only = whole;
        later(&mut head_only, 0, 4);
        head_only[tail..].fill(0);
        let refused = refusal(head_only);
        assert!(refused == "NRA version 6 is not supported (known: 1 to 5)", "{refused}");
    }
}

#[test]
fn worked_example_of_the_specification_is_valid() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format/nra.md")).expect("the page is there");
    let (_, example) = page.split_once("## 24. Worked example").expect("the section is there");
    let mut bytes = Vec::new();
    for line in example.lines().filter(|line| line.starts_with("    ") && line.get(8..10) == Some("  ")) {
        let offset = usize::from_str_radix(&line[4..8], 16).expect("an offset");
        assert_eq!(offset, bytes.len());
        let hex = line[10..].split("  ").next().expect("bytes follow the offset");
        bytes.extend(hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte")));
    }

    let mut golden = Golden::new(WriterOptions::balanced());
    golden.file(entry("a/hi.txt", Kind::File), b"hello, nra\n", true);
    assert_eq!(golden.finish().0, bytes, "what the writer makes of the example");

    let archive = open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).expect("it opens");
    let (_, file) = archive.find(b"a/hi.txt").expect("the index reads").expect("the file is there");
    assert_eq!(archive.read_all(&file, 100).expect("it reads"), b"hello, nra\n");
    assert_eq!(archive.verify(Depth::Full, None, &Recorder::default()).expect("it can be checked").damage, []);
}
