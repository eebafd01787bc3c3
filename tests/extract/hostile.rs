//! Archives and targets that lead outside the target.

use std::os::unix::fs::symlink;

use nra::format::Error;
use nra::format::entry::Kind;
use nra::format::error::ConflictKind;
use nra::format::progress::Severity;

use crate::fake::{Fake, group, mode};
use crate::{Place, expect, messages};

#[test]
fn entries_below_archived_symlink_are_skipped() {
    for target in ["../outside", "/tmp", ".", ".."] {
        let place = Place::new();
        let archive = Fake::new().symlink("a", target).file("a/evil", b"x").dir("a/b").file("a/b/evil", b"x").file("ok", b"fine");
        let (result, warnings) = place.extract(&archive);
        let stats = result.unwrap();
        assert_eq!((stats.files, stats.symlinks, stats.skipped), (1, 1, 3));
        assert_eq!(warnings.len(), 3);
        assert!(warnings.iter().all(|warning| warning.severity == Severity::Degraded));
        assert_eq!(place.tree(), expect([("a", &format!("symlink {target}")), ("ok", "file 644 fine")]));
        place.check_outside();
    }
}

#[test]
fn repeated_paths_in_any_order_do_not_escape() {
    let place = Place::new();
    let archive =
        Fake::new().file("a/evil", b"x").symlink("a", "../outside").file("a/evil2", b"x").file("b", b"1").file("b", b"2");
    let (result, _) = place.extract(&archive);
    assert_eq!(result.unwrap().skipped, 3);
    let tree = place.tree();
    assert_eq!(tree["a"], "dir 755");
    assert!(tree["b"] == "file 644 1" || tree["b"] == "file 644 2");
    place.check_outside();
}

#[test]
fn combined_symlinks_do_not_lead_outside() {
    let place = Place::new();
    let archive = Fake::new().symlink("a", "b").file("a/x", b"x").symlink("b", "..").file("b/x", b"x").symlink("c", "a/outside");
    let (result, _) = place.extract(&archive);
    let stats = result.unwrap();
    assert_eq!((stats.symlinks, stats.skipped), (3, 2));
    place.check_outside();
}

#[test]
fn existing_symlink_is_not_used_as_directory() {
    for target in ["../outside", "real"] {
        let place = Place::new();
        std::fs::create_dir(place.at("real")).unwrap();
        symlink(target, place.at("sub")).unwrap();
        let archive = Fake::new().file("ok", b"fine").dir("sub").file("sub/evil", b"x").dir("sub/d");
        let (result, _) = place.extract(&archive);
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::Conflict { kind: ConflictKind::NotDirectory, count: 1, .. }), "{error}");
        assert_eq!(place.tree(), expect([("real", "dir 755"), ("sub", &format!("symlink {target}"))]));
        // With a policy, the symlink is replaced, not its target.
        let (result, _) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = nra::convert::Overwrite::Replace);
        result.unwrap();
        let tree = place.tree();
        assert_eq!((&*tree["sub"], &*tree["sub/evil"], &*tree["real"]), ("dir 755", "file 644 x", "dir 755"));
        assert!(!tree.contains_key("real/evil"));
        place.check_outside();
    }
}

#[test]
fn existing_symlink_is_not_used_as_implied_directory() {
    let place = Place::new();
    symlink("../outside", place.at("sub")).unwrap();
    let (result, _) = place.extract(&Fake::new().file("sub/deep/evil", b"x"));
    assert!(matches!(result.unwrap_err(), Error::Conflict { kind: ConflictKind::NotDirectory, .. }));
    place.check_outside();
}

#[test]
fn existing_symlink_is_not_followed_as_file() {
    use nra::convert::Overwrite;
    let archive = Fake::new().file("conf", b"new");
    for (overwrite, expected) in [
        (Overwrite::Refuse, expect([("conf", "symlink ../outside/keep.txt")])),
        (Overwrite::Skip, expect([("conf", "symlink ../outside/keep.txt")])),
        (Overwrite::Replace, expect([("conf", "file 644 new")])),
        (Overwrite::Backup, expect([("conf", "file 644 new"), ("conf~", "symlink ../outside/keep.txt")])),
        (Overwrite::Rename, expect([("conf", "symlink ../outside/keep.txt"), ("conf (2)", "file 644 new")])),
    ] {
        let place = Place::new();
        symlink("../outside/keep.txt", place.at("conf")).unwrap();
        let (result, _) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = overwrite);
        assert_eq!(result.is_err(), overwrite == Overwrite::Refuse);
        assert_eq!(place.tree(), expected, "{overwrite:?}");
        place.check_outside();
    }
}

#[test]
fn false_link_group_keeps_content_separate() {
    let place = Place::new();
    let archive =
        Fake::new().file_with("a", b"one", group(1)).file_with("b", b"other", group(1)).file_with("c", b"two", group(1));
    let (result, _) = place.extract(&archive);
    assert_eq!(result.unwrap().files, 3);
    assert_eq!(place.tree()["b"], "file 644 other");
    place.check_outside();
}

#[test]
fn hard_links_are_made_to_extracted_files_only() {
    // "a" exists and is kept, so the second entry of the group must not become a link to it.
    let place = Place::new();
    symlink("../outside/keep.txt", place.at("a")).unwrap();
    let archive = Fake::new().file_with("a", b"new", group(1)).file_with("b", b"new", group(1)).file_with("c", b"new", group(1));
    let (result, _) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = nra::convert::Overwrite::Skip);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.links, stats.kept), (2, 1, 1));
    assert_eq!(place.tree()["b"], "file 644 new");
    place.check_outside();
}

#[test]
fn set_id_bits_and_devices_need_special() {
    let place = Place::new();
    let archive = Fake::new()
        .device("console", 5, 1)
        .entry("dir", Kind::Directory, mode(0o3775))
        .file_with("dir/su", b"x", mode(0o6755))
        .file_with("su", b"x", mode(0o4755));
    let (result, warnings) = place.extract(&archive);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.skipped, stats.untrusted), (2, 1, 4));
    let tree = place.tree();
    assert_eq!((&*tree["su"], &*tree["dir/su"], tree.contains_key("console")), ("file 755 x", "file 755 x", false));
    assert_eq!(messages(&warnings), ["console: skipped: a device", "set-id bits or capabilities of 3 entries not restored",]);
    assert_eq!(warnings.iter().filter(|warning| warning.severity == Severity::Degraded).count(), 1);
}

#[test]
fn too_long_names_are_skipped() {
    let place = Place::new();
    let long = "n".repeat(300);
    let archive = Fake::new().dir(&long).file(&format!("{long}/x"), b"x").file(&"m".repeat(300), b"x").file("ok", b"fine");
    let (result, warnings) = place.extract(&archive);
    assert_eq!(result.unwrap().skipped, 3);
    assert_eq!(warnings.len(), 3);
    assert_eq!(place.tree(), expect([("ok", "file 644 fine")]));
}

#[test]
fn paths_longer_than_path_max_are_extracted() {
    let place = Place::new();
    let name = "d".repeat(100);
    let mut archive = Fake::new();
    let mut path = name.clone();
    for _ in 0..600 {
        archive = archive.dir(&path);
        path = format!("{path}/{name}");
    }
    archive = archive.file(&path, b"deep");
    let (result, warnings) = place.extract(&archive);
    assert_eq!(messages(&warnings), Vec::<String>::new());
    let stats = result.unwrap();
    assert_eq!((stats.directories, stats.files), (600, 1));
    // Descends by handles, because no path is long enough.
    let mut handle = std::fs::File::open(place.out()).unwrap();
    for _ in 0..600 {
        handle = rustix::fs::openat(&handle, &*name, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap().into();
    }
    let mut file: std::fs::File =
        rustix::fs::openat(&handle, &*name, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap().into();
    let mut content = String::new();
    std::io::Read::read_to_string(&mut file, &mut content).unwrap();
    assert_eq!(content, "deep");
}

#[test]
fn deep_directories_are_extracted() {
    let place = Place::new();
    let mut archive = Fake::new();
    let mut path = String::from("d");
    for _ in 0..5_000 {
        archive = archive.dir(&path);
        path.push_str("/d");
    }
    let (result, _) = place.extract(&archive);
    assert_eq!(result.unwrap().directories, 5_000);
}

#[test]
fn content_of_false_length_is_rejected() {
    let place = Place::new();
    let archive = Fake::new()
        .file_with("long", b"too much", |entry| entry.size = 3)
        .file_with("short", b"little", |entry| entry.size = 60)
        .file("ok", b"fine");
    let (result, warnings) = place.extract(&archive);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.damaged), (1, 2));
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Damage));
    assert_eq!(place.tree(), expect([("ok", "file 644 fine")]));
}

mod any_archive {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::fake::{Run, xattrs};
    use nra::convert::Overwrite;

    #[derive(Debug, Clone)]
    enum Made {
        File(u64),
        Damaged,
        Directory(u16),
        Symlink(&'static str),
        Fifo,
        Device,
    }

    fn path() -> impl Strategy<Value = String> {
        vec(prop::sample::select(vec!["a", "b", "c", "keep.txt", "outside"]), 1..4).prop_map(|names| names.join("/"))
    }

    fn made() -> impl Strategy<Value = Made> {
        prop_oneof![
            4 => (0..3u64).prop_map(Made::File),
            1 => Just(Made::Damaged),
            2 => prop::sample::select(vec![0, 0o555, 0o755, 0o7777]).prop_map(Made::Directory),
            3 => prop::sample::select(vec!["..", "../outside", "../outside/keep.txt", "a", "/tmp", ".", "b/../..", "c/keep.txt"])
                .prop_map(Made::Symlink),
            1 => Just(Made::Fifo),
            1 => Just(Made::Device),
        ]
    }

    fn overwrite() -> impl Strategy<Value = Overwrite> {
        prop::sample::select(vec![
            Overwrite::Refuse,
            Overwrite::Replace,
            Overwrite::Skip,
            Overwrite::KeepNewer,
            Overwrite::Backup,
            Overwrite::Rename,
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Extracts entries in any order, with repeated paths, twice, to a target with symlinks that lead outside.
        #[test]
        fn no_archive_changes_files_outside_the_target(
            entries in vec((path(), made()), 1..12),
            links in vec((path(), prop::sample::select(vec!["..", "../outside", "../../outside", "a"])), 0..3),
            overwrites in [overwrite(), overwrite()],
            (strip, flat, memory) in (0..2usize, any::<bool>(), prop::sample::select(vec![0, 600, 1 << 20])),
        ) {
            let place = Place::new();
            let mut made: Vec<String> = Vec::new();
            for (path, target) in links {
                // The test itself must not follow the symlinks that it creates.
                let below = |other: &String| path == *other || path.starts_with(&format!("{other}/"));
                let place = place.at(&path);
                if !made.iter().any(below) && !place.exists() {
                    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
                    symlink(target, &place).unwrap();
                    made.push(path);
                }
            }
            let mut archive = Fake::new();
            for (path, made) in &entries {
                archive = match made {
                    Made::File(number) => archive.file_with(path, b"content", group(*number)),
                    Made::Damaged => archive.runs(path, vec![Run::Data(b"half".to_vec()), Run::Damage], |_| {}),
                    Made::Directory(bits) => archive.entry(path, Kind::Directory, |entry| {
                        mode(*bits)(entry);
                        xattrs(&[("user.x", b"1")])(entry);
                    }),
                    Made::Symlink(target) => archive.symlink(path, target),
                    Made::Fifo => archive.entry(path, Kind::Fifo, |_| {}),
                    Made::Device => archive.device(path, 1, 3),
                };
            }
            for overwrite in overwrites {
                // It may fail, but it must end and change nothing outside.
                let _ = place.extract_with(&archive, |extraction| {
                    extraction.sink.overwrite = overwrite;
                    (extraction.sink.strip_components, extraction.sink.flat, extraction.options.memory_bytes) = (strip, flat && strip == 0, memory);
                });
            }
            place.check_outside();
            let left = place.tree().into_keys().find(|path| path.contains(".part"));
            prop_assert_eq!(left, None);
        }
    }
}
