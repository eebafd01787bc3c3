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
        let contents = read(whole.clone());
        let mut opened = 0;
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                opened += usize::from(open_bytes(bytes.clone()).is_ok());
                let found = read(bytes);
                // The manifest has no checksum: a changed name gives what that file had, also one that comes to be that of another file.
                let is_hidden = found.len() < contents.len();
                for (path, content) in found {
                    let is_right = match contents.get(&path).filter(|_| !is_hidden) {
                        Some(known) => *known == content,
                        None => contents.values().any(|known| *known == content),
                    };
                    // One of no content may come to have no recipe.
                    assert!(is_right || content.is_empty(), "{name} {at} {bit}: {path:?} {content:?}");
                }
            }
        }
        // Most of a small file is texts of the manifest that look-ups do not need, and the block.
        assert!(opened > whole.len() * 4, "{name}: {opened} of {} open", whole.len() * 8);
    }
}

#[test]
fn a_changed_byte_of_version_1_is_found_by_the_footer() {
    for name in ["v1-tiny-speed.nra", "v1-tiny-size.nra"] {
        let whole = fixture(name);
        assert!(damage(whole.clone()).unwrap().is_empty());
        let mut opened = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let Some(damage) = damage(bytes) else { continue };
            opened += 1;
            assert!(!damage.is_empty(), "{name} {at}");
        }
        assert!(opened > whole.len() / 2, "{name}: {opened} of {} open", whole.len());
    }
}

#[test]
fn a_footer_of_version_1_that_is_cut_is_damage() {
    for name in ["v1-tiny-speed.nra", "v1-tiny-size.nra", "v1-size.nra"] {
        let whole = fixture(name);
        for cut in 1..40 {
            let found = damage(whole[..whole.len() - cut].to_vec()).unwrap();
            assert_eq!(found.iter().map(|damage| &*damage.structure).collect::<Vec<_>>(), ["footer"], "{name} {cut}");
        }
        // Some writers left it out.
        assert!(damage(whole[..whole.len() - 40].to_vec()).unwrap().is_empty(), "{name}");
    }
}

/// What a quick check of a file finds; nothing for one that does not open.
fn damage(bytes: Vec<u8>) -> Option<Vec<nra::format::archive::Damage>> {
    let monitor = nra::format::progress::Recorder::default();
    let verdict = open_bytes(bytes).ok()?.verify(nra::format::archive::Depth::Quick, None, &monitor);
    Some(verdict.unwrap().damage)
}

#[test]
fn a_cut_file_is_refused_or_gives_what_is_left() {
    for name in ["beta-tiny.nra", "beta-tiny-stream.nra", "v1-tiny-speed.nra", "beta-only-empty.nra"] {
        let whole = fixture(name);
        let contents = read(whole.clone());
        let mut left = 0;
        for len in 0..whole.len() {
            for (path, content) in read(whole[..len].to_vec()) {
                assert_eq!(contents.get(&path), Some(&content), "{name} {len}");
                left += 1;
            }
        }
        // Where the manifest comes first, or a footer is behind, something is.
        assert_eq!(left > 0, ["beta-tiny.nra", "v1-tiny-speed.nra"].contains(&name), "{name}: {left}");
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
