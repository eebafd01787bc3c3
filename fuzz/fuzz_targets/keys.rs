//! Key frames, and encrypted archives with bytes changed: nothing of them that was not sealed with the key is returned.
//!
//! The first byte picks one of the two. Changes are six bytes each: offset (four), what the byte there is combined with, and how.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use nra::format::archive::{Archive, OpenOptions, open};
use nra::format::codec::looks_incompressible;
use nra::format::crypt::{Argon2Cost, Keyring, Secret};
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;
use nra::fuzzing::{opens, reencode_keys};

const KEY: [u8; 32] = [7; 32];

/// Paths and contents.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let noise = (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8);
    vec![("a/text", b"words and words and words ".repeat(200)), ("b", noise.collect()), ("c", b"short".to_vec())]
}

fn archive() -> &'static [u8] {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let keyring = Keyring::create(&Secret::raw(KEY), Argon2Cost::default(), "").expect("a key");
        let options = WriterOptions { encryption: Some(keyring), threads: 1, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options).expect("valid options");
        for (path, content) in files() {
            let entry = Entry::new(EntryPath::try_from(path).expect("valid"), Kind::File);
            let (digest, incompressible) = (Digest::of(&content), looks_incompressible(&content));
            writer.add(entry, NewContent::Whole { bytes: &content, digest, incompressible }).expect("valid");
        }
        writer.finish(&Recorder::default()).expect("written").0
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    if first % 2 == 0 {
        if let Some(again) = reencode_keys(rest) {
            assert_eq!(again, rest);
            assert!(!opens(rest, KEY), "nobody can make this without the key");
        }
        return;
    }
    let mut bytes = archive().to_vec();
    for change in rest.chunks_exact(6) {
        let offset = u32::from_le_bytes(change[..4].try_into().expect("four bytes")) as usize % bytes.len();
        match change[5] % 3 {
            0 => bytes[offset] ^= change[4],
            1 => bytes[offset] = change[4],
            _ => bytes.truncate(offset.max(1)),
        }
    }
    let mut options = OpenOptions::default();
    options.key = Some(Secret::raw(KEY));
    let Ok(archive) = open(Arc::new(MemorySource::new(bytes)), &options) else { return };
    let files = files();
    for entry in archive.entries(0..archive.entry_count()).flatten() {
        if let (Kind::File, Ok(content)) = (entry.kind, archive.read_all(&entry, 1 << 20)) {
            let is_packed = files.iter().any(|(path, packed)| path.as_bytes() == entry.path.as_bytes() && *packed == content);
            assert!(is_packed, "{} is not what was packed", entry.path);
        }
    }
});
