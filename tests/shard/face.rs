//! Shard files behind the reading face of all archives.

use nra::format::archive::{Archive, Depth, OpenOptions, open_path};
use nra::format::entry::Kind;
use nra::format::progress::Recorder;
use nra::format::shard::{HEADER, METADATA, NAME, RECORD, value};

use crate::{bytes, expected, folder, open};

fn archive(name: &str) -> Box<dyn Archive> {
    open_path(&folder().join(name), &OpenOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn paths(archive: &dyn Archive) -> Vec<String> {
    archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path.to_string()).collect()
}

#[test]
fn names_are_paths() {
    let archive = archive("go_tensorv1.mosh");
    assert_eq!(archive.info().format, "Shard 2 (ModelShard)");
    let shard = open("go_tensorv1.mosh").unwrap();
    for number in 0..shard.entries().len() {
        let (_, entry) = archive.find(shard.name(number)).unwrap().expect("every name here is a path");
        assert_eq!(archive.read_all(&entry, 1 << 20).unwrap(), shard.read(number, 1 << 20).unwrap());
    }
    assert!(archive.verify(Depth::Full, None, &Recorder::default()).unwrap().damage.is_empty());
}

#[test]
fn names_that_lead_out_have_other_letters_and_are_told() {
    let archive = archive("py_names_unicode.shard");
    assert!(!archive.omits_entries());
    assert!(archive.remarks().iter().any(|remark| remark.starts_with("3 names can be no paths")), "{:?}", archive.remarks());
    let paths = paths(&*archive);
    assert!(paths.iter().all(|path| !path.contains("..")));
    for (path, name) in [("%2E%2E/escape", &b"../escape"[..]), ("%", b""), ("nul%00in", b"nul\0in"), ("abs/path", b"/abs/path")] {
        assert!(paths.iter().any(|other| other == path), "{path}: {paths:?}");
        let (_, entry) = archive.find(path.as_bytes()).unwrap().unwrap();
        assert_eq!(value(&entry.metadata.attributes, NAME), Some(name));
    }
}

#[test]
fn every_fixture_lists_and_reads() {
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
fn damage_costs_the_entries_it_touches() {
    let archive = archive("corrupt/flipped_data_byte.shard");
    let verdict = archive.verify(Depth::Full, None, &Recorder::default()).unwrap();
    let damaged: Vec<String> = verdict.damage.iter().flat_map(|damage| &damage.entries).map(ToString::to_string).collect();
    assert_eq!(damaged, ["beta/hundred"]);
    let readable = paths(&*archive)
        .iter()
        .filter_map(|path| archive.find(path.as_bytes()).unwrap())
        .filter(|(_, entry)| archive.read_all(entry, 1 << 20).is_ok())
        .count();
    assert_eq!(readable as u64, archive.entry_count() - 1);
}

#[test]
fn what_the_file_says_is_kept_in_attributes() {
    let archive = archive("go_metadata.shard");
    let value = |name: &[u8]| {
        let attributes = &archive.info().attributes;
        attributes.iter().find(|attribute| *attribute.name == *name).map(|attribute| attribute.value.to_vec())
    };
    let file = bytes("go_metadata.shard");
    let header: String = file[..64].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(value(HEADER).unwrap(), header.into_bytes());
    assert_eq!(value(METADATA).unwrap(), open("go_metadata.shard").unwrap().metadata().unwrap().unwrap());
    let entry = archive.entry(0).unwrap();
    assert_eq!((&*entry.metadata.attributes[0].name, &*entry.metadata.attributes[0].value), (RECORD, &b"0:0:0:0"[..]));
}
