//! Tests of Shard files: files of other programs, damaged files, and byte-for-byte comparison of written
//! files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod peer;
mod read;
mod write;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Returns the folder of the fixtures.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/shard")
}

/// Returns the expected properties of each fixture, by its path.
fn expected() -> Map<String, Value> {
    let text = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let Value::Object(all) = serde_json::from_str(&text).unwrap() else { panic!("an object") };
    let (present, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| folder().join(name).exists());
    // Files of another project, which are not kept here.
    assert!(missing.iter().all(|(name, _)| name.starts_with("upstream_golden_wshard/")), "a fixture is missing");
    assert!(present.len() > 120);
    present.into_iter().collect()
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn open(name: &str) -> nra::format::Result<nra::format::shard::Shard> {
    nra::format::shard::Shard::open(std::sync::Arc::new(nra::format::source::MemorySource::new(bytes(name))))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| {
        let digits = value.as_str().unwrap().strip_prefix("0x").unwrap();
        u64::from_str_radix(digits, 16).unwrap()
    })
}
