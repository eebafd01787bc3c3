//! The same tree and options give the same bytes.

use std::fs;
use std::path::PathBuf;

use nra::format::entry::Timestamp;

use crate::common::noise;
use crate::{Packed, Packing, Place};

/// Returns the files of a tree: similar, equal, small and large ones.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for version in 0..4 {
        for number in 0..40 {
            let words = format!("version {version} of file {number}\n{}", "the same words ".repeat(number * 20));
            files.push((format!("v{version}/part{}/file{number}.txt", number % 3), words.into_bytes()));
            files.push((format!("v{version}/img/{number:03}.png"), noise(3000 + number, number as u64)));
        }
        files.push((format!("v{version}/large.bin"), noise(400_000, version)));
    }
    files
}

fn build(place: &Place, reverse: bool) {
    let mut files = files();
    if reverse {
        files.reverse();
    }
    for (path, content) in &files {
        place.write(path, content);
    }
    let link: fn(&PathBuf, &PathBuf) = |from, to| fs::hard_link(from, to).unwrap();
    link(&place.input("v0/large.bin"), &place.input("v1/again.bin"));
    link(&place.input("v3/img/000.png"), &place.input("v0/img/z.png"));
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    let mut queue = vec![place.at("in")];
    while let Some(path) = queue.pop() {
        if path.is_dir() {
            queue.extend(fs::read_dir(&path).unwrap().map(|item| item.unwrap().path()));
        }
        let times = fs::FileTimes::new().set_modified(time);
        fs::File::open(&path).unwrap().set_times(times).unwrap();
    }
}

fn reproducible(threads: usize) -> Packing {
    Packing::with(|packing| (packing.options.reproducible, packing.options.threads) = (true, threads))
}

#[test]
fn bytes_do_not_depend_on_holes() {
    let (sparse, full) = (Place::new(), Place::new());
    for (place, with_holes) in [(&sparse, true), (&full, false)] {
        for (name, len) in [("small", 100_000), ("large", 3 << 20)] {
            let mut content = vec![0; len];
            content[len / 2..len / 2 + 5].copy_from_slice(b"bytes");
            let path = place.write(name, if with_holes { &[][..] } else { &content[..] });
            if with_holes {
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(len as u64).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"bytes", len as u64 / 2).unwrap();
            }
        }
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
        for path in [place.input("small"), place.input("large"), place.at("in")] {
            fs::File::open(&path).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
        }
        place.packed(&reproducible(2));
    }
    assert!(fs::read(sparse.output()).unwrap() == fs::read(full.output()).unwrap());
}

#[test]
fn bytes_depend_on_the_tree_alone() {
    let (one, two) = (Place::new(), Place::new());
    build(&one, false);
    build(&two, true);
    let mut archives = Vec::new();
    for (place, threads) in [(&one, 1), (&one, 2), (&two, 3), (&two, 16)] {
        let _ = fs::remove_file(place.output());
        place.packed(&reproducible(threads));
        archives.push(fs::read(place.output()).unwrap());
    }
    for archive in &archives[1..] {
        assert!(*archive == archives[0]);
    }
    let packed = Packed::open(&one.output());
    assert_eq!(packed.archive.info().time, None);
    assert!(packed.entries.values().all(|entry| entry.metadata.owner.is_none()));
}

#[test]
fn latest_time_limits_all_times() {
    let place = Place::new();
    place.write("now", "x");
    let latest = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
    let packed = {
        let mut packing = reproducible(2);
        packing.options.metadata.latest = Some(latest);
        place.packed(&packing)
    };
    assert_eq!(packed.entry("now").modified, Some(latest));
    assert_eq!(packed.archive.info().time, Some(latest));
    let root = packed.archive.info().attributes.iter().find(|attribute| &*attribute.name == b"root-time").unwrap();
    assert_eq!(&*root.value, b"1000000000.000000000");
}

#[test]
fn small_windows_keep_all_entries() {
    let place = Place::new();
    build(&place, false);
    let all = place.packed(&Packing::new());
    let size = |place: &Place| fs::metadata(place.output()).unwrap().len();
    let whole = size(&place);
    for window_names in [1, 7, 100] {
        fs::remove_file(place.output()).unwrap();
        let packed = place.packed(&Packing::with(|packing| packing.source.window_names = window_names));
        assert_eq!(packed.paths(), all.paths());
        for path in packed.entries.keys() {
            let (entry, expected) = (packed.entry(path), all.entry(path));
            assert_eq!((entry.size, entry.kind, entry.modified), (expected.size, expected.kind, expected.modified));
        }
        // Links are found across windows.
        let group = |path: &str| packed.entry(path).link_group;
        assert!(group("v0/large.bin") != 0 && group("v0/large.bin") == group("v1/again.bin"));
        assert!(group("v3/img/000.png") != 0 && group("v3/img/000.png") == group("v0/img/z.png"));
        assert_eq!(group("v2/large.bin"), 0);
        assert!(size(&place) < whole + whole / 4, "{} {whole}", size(&place));
    }
}

#[test]
fn link_groups_of_different_windows_are_distinct() {
    let place = Place::new();
    let pairs = 30;
    for number in 0..pairs {
        let first = place.write(&format!("{number:02}/a"), format!("content {number}"));
        fs::hard_link(first, place.input(format!("{number:02}/b"))).unwrap();
    }
    let packed = place.packed(&Packing::with(|packing| packing.source.window_names = 7));
    let mut groups = std::collections::BTreeSet::new();
    for number in 0..pairs {
        let group = |name: &str| packed.entry(format!("{number:02}/{name}")).link_group;
        assert!(group("a") != 0 && group("a") == group("b"), "{number}");
        assert!(groups.insert(group("a")), "{number}");
    }
}
