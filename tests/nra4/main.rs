//! Tests of reading and writing archives of earlier versions. Fixtures are in `tests/fixtures/nra4/`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod peer;
mod tolerance;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nra::format::archive::{Archive, Depth, OpenOptions, open, open_path};
use nra::format::container::Container;
use nra::format::entry::{Entry, Kind, Namespace};
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nra4")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn open_bytes(bytes: Vec<u8>) -> nra::format::Result<Box<dyn Archive>> {
    open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default())
}

fn expected() -> Value {
    serde_json::from_slice(&fixture("expected.json")).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the files of an archive with sizes and SHA-256 digests.
fn files(archive: &dyn Archive) -> BTreeMap<String, (u64, String)> {
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap);
    entries
        .filter(|entry| entry.kind == Kind::File)
        .map(|entry| {
            let content = archive.read_all(&entry, 1 << 30).unwrap();
            assert_eq!(archive.digest(&entry).unwrap(), Some(nra::format::digest::Digest::of(&content)));
            (String::from_utf8(entry.path.as_bytes().to_vec()).unwrap(), (entry.size, hex(&Sha256::digest(&content))))
        })
        .collect()
}

/// Runs `test` for each unencrypted archive of the fixtures.
fn for_each_unencrypted(mut test: impl FnMut(&str, &Value)) {
    let all = expected();
    for (name, facts) in all["archives"].as_object().unwrap() {
        if facts["encrypted"] == Value::Bool(false) {
            test(name, facts);
        }
    }
}

#[test]
fn all_entries_of_all_fixtures_are_read() {
    for_each_unencrypted(|name, facts| {
        let archive = open_path(&folder().join(name), &OpenOptions::default()).unwrap();
        let mut expected_files = BTreeMap::new();
        let mut parents = BTreeSet::new();
        let members = facts["members"].as_array().unwrap();
        for member in members {
            let path = member["name"].as_str().unwrap();
            parents.extend(path.match_indices('/').map(|(slash, _)| path[..slash].to_owned()));
            let content = (member["size"].as_u64().unwrap(), member["sha256"].as_str().unwrap().to_owned());
            // If two members have the same name, the first is used.
            expected_files.entry(path.to_owned()).or_insert(content);
        }
        assert_eq!(files(&*archive), expected_files, "{name}");
        assert_eq!(archive.entry_count() as usize, expected_files.len() + parents.len(), "{name}");
        assert_eq!(archive.remarks().len(), usize::from(expected_files.len() < members.len()), "{name}");

        let info = archive.info();
        assert_eq!(info.container, if facts["kind"] == "v1" { Container::Nra1 } else { Container::Nra4 }, "{name}");
        assert_eq!(info.archive_bytes, facts["size"].as_u64().unwrap(), "{name}");
        assert_eq!(info.content_bytes, expected_files.values().map(|(size, _)| size).sum::<u64>(), "{name}");
        if let Some(summary) = facts.get("summary") {
            assert_eq!(info.message, summary["name"], "{name}");
            assert_eq!(info.chunks, summary["total_chunks"].as_u64(), "{name}");
            // One crafted file has a block whose length differs from its summary.
            let is_accurate = name != "crafted-beta-tagless-block.nra";
            assert_eq!(
                info.stored_bytes.filter(|_| is_accurate),
                summary["total_stored_bytes"].as_u64().filter(|_| is_accurate),
                "{name}"
            );
            assert_eq!(info.blocks, facts["blocks"].as_u64(), "{name}");
        } else {
            assert_eq!(info.message, facts["summary_name"], "{name}");
        }
        for depth in [Depth::Quick, Depth::Full] {
            let report = archive.verify(depth, None, &Recorder::default()).unwrap();
            assert_eq!((report.damage, report.entries), (vec![], archive.entry_count()), "{name}");
        }
    });
}

#[test]
fn all_fixtures_are_listed() {
    let listed: BTreeSet<String> = expected()["archives"].as_object().unwrap().keys().cloned().collect();
    let present: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".nra"))
        .collect();
    assert_eq!(listed, present);
}

#[test]
fn read_at_returns_any_range_of_content() {
    let archive = open_bytes(fixture("beta-multiblock.nra")).unwrap();
    for entry in archive.entries(0..archive.entry_count()).map(Result::unwrap) {
        let whole = archive.read_all(&entry, 1 << 30).unwrap();
        for start in (0..whole.len()).step_by(whole.len() / 7 + 1) {
            for len in [1, 1_000, 100_000, 5_000_000] {
                let mut part = vec![0; len];
                let read = archive.read_at(&entry, start as u64, &mut part).unwrap();
                assert_eq!(read, len.min(whole.len() - start));
                assert!(part[..read] == whole[start..start + read], "{} {start} {len}", entry.path);
            }
        }
    }
}

#[test]
fn vectors_and_spaces_become_attributes() {
    let archive = open_bytes(fixture("crafted-v1-none-zstd-spaces.nra")).unwrap();
    assert_eq!(archive.info().attributes.len(), 1);
    let space = &archive.info().attributes[0];
    assert!(space.namespace == Namespace::Nra && space.name.starts_with(b"embedding:"));
    let text = std::str::from_utf8(&space.value).unwrap();
    let (model, dimension) = text.strip_prefix("model=").unwrap().split_once(";dimension=").unwrap();
    assert!(!model.is_empty() && dimension.parse::<u16>().unwrap() > 0, "{text}");
    let with_vectors = |entry: &Entry| {
        entry.metadata.attributes.iter().any(|vector| (vector.namespace, &vector.name) == (space.namespace, &space.name))
    };
    assert_eq!(archive.entries(0..9).map(Result::unwrap).filter(with_vectors).count(), 1);
}
