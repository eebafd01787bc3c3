//! Key frames, and changed encrypted archives: only content sealed with the key is returned.
//!
//! The first byte selects one of the two. A change takes six bytes: offset (four), operand and
//! operation.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{OpenOptions, open};
use nra::format::crypt::Secret;
use nra::format::entry::Kind;
use nra::format::source::MemorySource;
use nra::fuzzing::{opens, reencode_keys};

/// An archive with fixed salts, so that inputs are reproducible.
const SEALED: &[u8] = include_bytes!("../../tests/golden/v5-sealed.nra");

fn key() -> [u8; 32] {
    std::array::from_fn(|i| u8::try_from(i).expect("less than 32"))
}

/// Returns paths and contents of the files in an archive.
fn files(bytes: Vec<u8>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut options = OpenOptions::default();
    options.key = Some(Secret::user_key(key()));
    let archive = open(Arc::new(MemorySource::new(bytes)), &options).ok()?;
    let entries = archive.entries(0..archive.entry_count()).flatten().filter(|entry| entry.kind == Kind::File);
    Some(entries.filter_map(|entry| Some((entry.path.as_bytes().to_vec(), archive.read_all(&entry, 1 << 20).ok()?))).collect())
}

/// Returns the packed files.
fn packed() -> &'static [(Vec<u8>, Vec<u8>)] {
    static PACKED: OnceLock<Vec<(Vec<u8>, Vec<u8>)>> = OnceLock::new();
    PACKED.get_or_init(|| files(SEALED.to_vec()).expect("it opens"))
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    if first % 2 == 0 {
        if let Some(again) = reencode_keys(rest) {
            assert_eq!(again, rest);
            assert!(!opens(rest, key()), "nobody can make this without the key");
        }
        return;
    }
    let mut bytes = SEALED.to_vec();
    for change in rest.chunks_exact(6) {
        let offset = u32::from_le_bytes(change[..4].try_into().expect("four bytes")) as usize % bytes.len();
        match change[5] % 3 {
            0 => bytes[offset] ^= change[4],
            1 => bytes[offset] = change[4],
            _ => bytes.truncate(offset.max(1)),
        }
    }
    assert_eq!(packed().len(), 5);
    for (path, content) in files(bytes).unwrap_or_default() {
        let is_packed = packed().iter().any(|(name, packed)| *name == path && *packed == content);
        assert!(is_packed, "{} is not what was packed", path.escape_ascii());
    }
});
