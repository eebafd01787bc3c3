//! Damaged and truncated files: no panic, and no content other than what was stored.

use std::collections::BTreeMap;

use super::{fixture, open_bytes};

/// Opens an archive and returns the readable content by name.
fn readable_content(bytes: Vec<u8>) -> BTreeMap<Vec<u8>, Vec<u8>> {
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
fn flipped_bits_never_yield_other_content() {
    for name in
        ["beta-tiny.nra", "beta-tiny-lz4.nra", "beta-tiny-appended.nra", "beta-tiny-stream.nra", "crafted-beta-map-manifest.nra"]
    {
        let whole = fixture(name);
        let contents = readable_content(whole.clone());
        let mut opened = 0;
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                opened += usize::from(open_bytes(bytes.clone()).is_ok());
                let found = readable_content(bytes);
                // The manifest has no checksum. A changed name still yields the content of its file, even if
                // it is now equal to the name of another file.
                let is_hidden = found.len() < contents.len();
                for (path, content) in found {
                    let is_right = match contents.get(&path).filter(|_| !is_hidden) {
                        Some(known) => *known == content,
                        None => contents.values().any(|known| *known == content),
                    };
                    // Damage may also remove the recipe of a file.
                    assert!(is_right || content.is_empty(), "{name} {at} {bit}: {path:?} {content:?}");
                }
            }
        }
        // Most bytes of a small file are names and block content, which do not prevent opening.
        assert!(opened > whole.len() * 4, "{name}: {opened} of {} open", whole.len() * 8);
    }
}

#[test]
fn footer_of_version_1_detects_any_changed_byte() {
    for name in ["v1-tiny-speed.nra", "v1-tiny-size.nra"] {
        let whole = fixture(name);
        assert!(quick_check(whole.clone()).unwrap().is_empty());
        let mut opened = 0;
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let Some(damage) = quick_check(bytes) else { continue };
            opened += 1;
            assert!(!damage.is_empty(), "{name} {at}");
        }
        assert!(opened > whole.len() / 2, "{name}: {opened} of {} open", whole.len());
    }
}

#[test]
fn truncated_footer_of_version_1_is_damage() {
    for name in ["v1-tiny-speed.nra", "v1-tiny-size.nra", "v1-size.nra"] {
        let whole = fixture(name);
        for cut in 1..40 {
            let found = quick_check(whole[..whole.len() - cut].to_vec()).unwrap();
            assert_eq!(found.iter().map(|damage| &*damage.structure).collect::<Vec<_>>(), ["footer"], "{name} {cut}");
        }
        // Some writers omitted it.
        assert!(quick_check(whole[..whole.len() - 40].to_vec()).unwrap().is_empty(), "{name}");
    }
}

/// Returns the damage found by a quick check, or `None` if the file does not open.
fn quick_check(bytes: Vec<u8>) -> Option<Vec<nra::format::archive::Damage>> {
    let monitor = nra::format::progress::Recorder::default();
    let report = open_bytes(bytes).ok()?.verify(nra::format::archive::Depth::Quick, None, &monitor);
    Some(report.unwrap().damage)
}

#[test]
fn truncated_file_is_rejected_or_yields_intact_files() {
    for name in ["beta-tiny.nra", "beta-tiny-stream.nra", "v1-tiny-speed.nra", "beta-only-empty.nra"] {
        let whole = fixture(name);
        let contents = readable_content(whole.clone());
        let mut readable = 0;
        for len in 0..whole.len() {
            for (path, content) in readable_content(whole[..len].to_vec()) {
                assert_eq!(contents.get(&path), Some(&content), "{name} {len}");
                readable += 1;
            }
        }
        // Only files whose manifest comes first or that have a footer remain readable.
        assert_eq!(readable > 0, ["beta-tiny.nra", "v1-tiny-speed.nra"].contains(&name), "{name}: {readable}");
    }
}

#[test]
fn damaged_block_affects_only_its_own_files() {
    let mut bytes = fixture("beta-multiblock.nra");
    // In the last of three blocks, which holds the end of one of the two large files.
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    let archive = open_bytes(bytes).unwrap();
    let report = archive.verify(nra::format::archive::Depth::Full, None, &nra::format::progress::Recorder::default()).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(report.damage[0].entry_count, 1, "{report:?}");
    let damaged = report.damage[0].entries[0].clone();
    let read: Vec<_> = archive
        .entries(0..archive.entry_count())
        .map(Result::unwrap)
        .filter(|entry| archive.read_all(entry, 1 << 30).is_ok())
        .map(|entry| entry.path)
        .collect();
    assert_eq!(read.len(), 2);
    assert!(!read.contains(&damaged));
}
