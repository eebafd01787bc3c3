//! Changed and cut files: no panic, and no content but that which was stored.

use std::collections::BTreeMap;

use super::{fixture, open_bytes};

/// Opens, reads all, and gives what was read of each name.
fn read(bytes: Vec<u8>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    if let Ok(archive) = open_bytes(bytes) {
        for entry in archive.entries(0..archive.entry_count()).map(Result::unwrap) {
            if let Ok(content) = archive.read_all(&entry, 1 << 20) {
                found.insert(entry.path.as_bytes().to_vec(), content);
            }
        }
    }
    found
}

#[test]
fn a_changed_byte_never_gives_other_content() {
    for name in
        ["beta-tiny.nra", "beta-tiny-lz4.nra", "beta-tiny-appended.nra", "beta-tiny-stream.nra", "crafted-beta-map-manifest.nra"]
    {
        let whole = fixture(name);
        let contents: Vec<Vec<u8>> = read(whole.clone()).into_values().collect();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                for (path, content) in read(bytes) {
                    // A changed size makes a file of chunks that do not add up, but one of none may come to have no recipe.
                    assert!(contents.contains(&content), "{name} {at} {bit}: {path:?} {content:?}");
                }
            }
        }
    }
}

#[test]
fn a_changed_byte_of_version_1_is_found_by_the_footer() {
    for name in ["v1-tiny-speed.nra", "v1-tiny-size.nra"] {
        let whole = fixture(name);
        // The magic of the footer is what tells that there is one.
        for at in 0..whole.len() - 4 {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let Ok(archive) = open_bytes(bytes) else { continue };
            let verdict =
                archive.verify(nra::format::archive::Depth::Quick, None, &nra::format::progress::Recorder::default()).unwrap();
            assert!(!verdict.damage.is_empty(), "{name} {at}");
        }
    }
}

#[test]
fn a_cut_file_is_refused_or_gives_what_is_left() {
    for name in ["beta-tiny.nra", "beta-tiny-stream.nra", "v1-tiny-speed.nra", "beta-only-empty.nra"] {
        let whole = fixture(name);
        let contents = read(whole.clone());
        for len in 0..whole.len() {
            for (path, content) in read(whole[..len].to_vec()) {
                assert_eq!(contents.get(&path), Some(&content), "{name} {len}");
            }
        }
    }
}

#[test]
fn a_damaged_block_hurts_its_own_files() {
    let mut bytes = fixture("beta-multiblock.nra");
    // In the last of three blocks, which holds the end of one of the two large files.
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    let archive = open_bytes(bytes).unwrap();
    let verdict = archive.verify(nra::format::archive::Depth::Full, None, &nra::format::progress::Recorder::default()).unwrap();
    assert_eq!(verdict.damage.len(), 1);
    assert_eq!(verdict.damage[0].entry_count, 1, "{verdict:?}");
    let hurt = verdict.damage[0].entries[0].clone();
    let read: Vec<_> = archive
        .entries(0..archive.entry_count())
        .map(Result::unwrap)
        .filter(|entry| archive.read_all(entry, 1 << 30).is_ok())
        .map(|entry| entry.path)
        .collect();
    assert_eq!(read.len(), 2);
    assert!(!read.contains(&hurt));
}
