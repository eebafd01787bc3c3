//! Tests of Shard files as archives.

use nra::format::archive::{Archive, Depth, OpenOptions, open_path};
use nra::format::container::Container;
use nra::format::entry::Kind;
use nra::format::progress::Recorder;
use nra::format::shard::{
    Dialect, HEADER_ATTRIBUTE, Layout, METADATA_ATTRIBUTE, NAME_ATTRIBUTE, NewEntry, RECORD_ATTRIBUTE, RecordFields, Role, Shard,
    ShardWriter, Style, attribute_value,
};
use nra::format::source::MemorySource;

use crate::{bytes, expected, folder, open};

fn archive(name: &str) -> Box<dyn Archive> {
    open_path(&folder().join(name), &OpenOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn paths(archive: &dyn Archive) -> Vec<String> {
    archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect()
}

#[test]
fn entries_are_found_by_name_and_read() {
    let archive = archive("go_tensorv1.mosh");
    assert_eq!(archive.container(), Container::Shard(Role::MODEL));
    let shard = open("go_tensorv1.mosh").unwrap();
    for number in 0..shard.entries().len() {
        let (_, entry) = archive.find(shard.name(number)).unwrap().expect("every name here is a path");
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), shard.read(number, 1 << 20).unwrap());
    }
    assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
}

#[test]
fn names_that_are_not_paths_are_escaped_and_reported() {
    let archive = archive("py_names_unicode.shard");
    assert!(!archive.skips_entries());
    assert!(
        archive.remarks().iter().any(|remark| remark.starts_with("3 names are not valid paths and are escaped")),
        "{:?}",
        archive.remarks()
    );
    let paths = paths(&*archive);
    assert!(paths.iter().all(|path| !path.contains("..")));
    for (path, name) in [("%2E%2E/escape", &b"../escape"[..]), ("%", b""), ("nul%00in", b"nul\0in"), ("abs/path", b"/abs/path")] {
        assert!(paths.iter().any(|other| other == path), "{path}: {paths:?}");
        let (_, entry) = archive.find(path.as_bytes()).unwrap().unwrap();
        assert_eq!(attribute_value(&entry.metadata.attributes, NAME_ATTRIBUTE), Some(name));
    }
}

#[test]
fn all_fixtures_are_listed_and_read() {
    for (name, file) in expected() {
        if file.get("entries").is_none() || name.contains("multiflush") {
            continue;
        }
        let archive = archive(&name);
        for entry in archive.entries(0..archive.entry_count()) {
            let entry = entry.unwrap();
            if entry.kind != Kind::File {
                assert!(entry.implied, "{name}: {}", entry.path);
                continue;
            }
            let whole = archive.read_all(&entry, 1 << 20).unwrap();
            assert_eq!(whole.len() as u64, entry.size);
            let mut part = vec![0; whole.len() / 2];
            let start = whole.len() - part.len();
            assert_eq!(archive.read_at(&entry, start as u64, &mut part).unwrap(), part.len());
            assert_eq!(part, whole[start..], "{name}: {}", entry.path);
        }
        assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty(), "{name}");
    }
}

#[test]
fn damage_affects_only_its_entries() {
    let archive = archive("corrupt/flipped_data_byte.shard");
    let report = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
    let damaged: Vec<String> = report.damage.iter().flat_map(|damage| &damage.entries).map(ToString::to_string).collect();
    assert_eq!(damaged, ["beta/hundred"]);
    let readable = paths(&*archive)
        .iter()
        .filter_map(|path| archive.find(path.as_bytes()).unwrap())
        .filter(|(_, entry)| archive.read_all(entry, 1 << 20).is_ok())
        .count();
    assert_eq!(readable as u64, archive.entry_count() - 1);
}

#[test]
fn header_metadata_and_records_are_kept_in_attributes() {
    let archive = archive("go_metadata.shard");
    let value = |name: &[u8]| {
        let attributes = &archive.info().attributes;
        attributes.iter().find(|attribute| *attribute.name == *name).map(|attribute| attribute.value.to_vec())
    };
    let file = bytes("go_metadata.shard");
    let header: String = file[..64].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(value(HEADER_ATTRIBUTE).unwrap(), header.into_bytes());
    assert_eq!(value(METADATA_ATTRIBUTE).unwrap(), open("go_metadata.shard").unwrap().metadata().unwrap().unwrap());
    let entry = archive.entry(0).unwrap();
    assert_eq!((&*entry.metadata.attributes[0].name, &*entry.metadata.attributes[0].value), (RECORD_ATTRIBUTE, &b"0:0:0:0"[..]));
}

#[test]
fn find_returns_the_same_entry_with_and_without_table() {
    let mut file_count = 0;
    for (name, file) in expected() {
        if file.get("entries").is_none() || name.contains("multiflush") {
            continue;
        }
        let with_table = archive(&name);
        let mut paths = paths(&*with_table);
        paths.push("no such path".to_owned());
        for path in paths {
            let fresh = archive(&name);
            let found = fresh.find_entry(path.as_bytes()).unwrap();
            assert_eq!(found, with_table.find(path.as_bytes()).unwrap().map(|(_, entry)| entry), "{name}: {path}");
            file_count += usize::from(found.is_some_and(|entry| entry.kind == Kind::File));
        }
    }
    assert!(file_count > 100, "{file_count} files");
}

#[test]
fn entry_with_entries_below_it_is_hidden() {
    let file = file_with_names(&[b"a", b"a/b", b"ab"]);
    let open =
        || nra::format::archive::open(std::sync::Arc::new(MemorySource::new(file.clone())), &OpenOptions::default()).unwrap();
    for (path, kind) in [(&b"a"[..], Kind::Directory), (b"a/b", Kind::File), (b"ab", Kind::File)] {
        assert_eq!(open().find_entry(path).unwrap().unwrap().kind, kind);
        assert_eq!(open().find(path).unwrap().unwrap().1.kind, kind);
    }
    let archive = open();
    assert_eq!(archive.entry_count(), 3);
    assert!(archive.skips_entries() && archive.remarks().iter().any(|remark| remark.contains("entries are below")));
}

#[test]
fn total_length_of_shared_names_is_limited() {
    let names: Vec<Box<[u8]>> = (0..2_000u16).map(|number| number.to_be_bytes()[..].into()).collect();
    let mut file = file_with_names(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let name_len = usize::from(u16::MAX);
    // All records refer to one name of the maximum length, which is inserted after the index.
    let header: [u8; 64] = *file.first_chunk().unwrap();
    let index_end = 64 + 48 * names.len();
    for record in file[64..index_end].chunks_exact_mut(48) {
        record[8..12].fill(0);
        record[12..14].fill(0xff);
        let offset = u64::from_le_bytes(record[16..24].try_into().unwrap()) + name_len as u64;
        record[16..24].copy_from_slice(&offset.to_le_bytes());
    }
    file.splice(index_end..index_end, std::iter::repeat_n(b'n', name_len));
    for at in [24, 40] {
        let value = u64::from_le_bytes(header[at..at + 8].try_into().unwrap()) + name_len as u64;
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let error = Shard::open(std::sync::Arc::new(MemorySource::new(file))).err().unwrap();
    assert_eq!(error.to_string(), "length of the names is 131070000, more than the limit of 104857600");
}

/// Returns a file of empty entries with these names.
fn file_with_names(names: &[&[u8]]) -> Vec<u8> {
    let layout = Layout::Names(names.iter().map(|&name| name.into()).collect());
    let style = Style::new(Dialect::Go, Role::default(), 0, None, &layout);
    let mut writer = ShardWriter::create(std::io::Cursor::new(Vec::new()), style, layout).unwrap();
    for name in names {
        writer.add(NewEntry { name, content: b"", compression: None, fields: RecordFields::default() }).unwrap();
    }
    writer.finish(None).unwrap().into_inner()
}
