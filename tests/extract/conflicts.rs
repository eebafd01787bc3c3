//! Files that already exist in the target.

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use nra::convert::{Action, Answer, DirectoryStats, Overwrite};
use nra::format::Error;
use nra::format::entry::Kind;
use nra::format::error::ConflictKind;
use nra::format::progress::Severity;

use crate::fake::{Fake, Run, group, mode, time};
use crate::{Place, expect, messages};

fn archive() -> Fake {
    Fake::new()
        .file_with("a.txt", b"new", time(1_000_000_000, 0))
        .dir("d")
        .file("d/b", b"new")
        .symlink("d/l", "x")
        .file("z", b"fine")
}

fn occupied() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.at("d")).unwrap();
    std::fs::write(place.at("a.txt"), "old").unwrap();
    std::fs::write(place.at("d/b"), "old").unwrap();
    std::fs::write(place.at("d/l"), "old").unwrap();
    std::fs::write(place.at("d/mine"), "mine").unwrap();
    place
}

#[test]
fn conflicts_without_policy_write_nothing() {
    let place = occupied();
    let before = place.tree();
    let archive = archive();
    let (result, _) = place.extract(&archive);
    let error = result.unwrap_err();
    let path = |name: &str| place.at(name).display().to_string();
    assert_eq!(error.to_string(), format!("exists already: {}, {}, {}", path("a.txt"), path("d/b"), path("d/l")));
    assert!(matches!(error, Error::Conflict { kind: ConflictKind::Exists, count: 3, .. }));
    assert_eq!(place.tree(), before);
    assert_eq!(archive.reads.into_inner(), 0);
}

#[test]
fn each_policy_resolves_file_conflicts() {
    for (overwrite, a, b, extra) in [
        (Overwrite::Replace, "new", "new", vec![]),
        (Overwrite::Skip, "old", "old", vec![]),
        (Overwrite::Backup, "new", "new", vec!["a.txt~", "d/b~", "d/l~"]),
        (Overwrite::Rename, "old", "old", vec!["a (2).txt", "d/b (2)", "d/l (2)"]),
    ] {
        let place = occupied();
        let (result, warnings) = place.extract_with(&archive(), |extraction| extraction.sink.overwrite = overwrite);
        result.unwrap();
        assert!(warnings.is_empty());
        let tree = place.tree();
        assert_eq!(tree["a.txt"], format!("file 644 {a}"), "{overwrite:?}");
        assert_eq!(tree["d/b"], format!("file 644 {b}"), "{overwrite:?}");
        assert_eq!((&*tree["z"], &*tree["d/mine"]), ("file 644 fine", "file 644 mine"));
        for path in &extra {
            assert!(tree.contains_key(*path), "{overwrite:?} {path}: {tree:?}");
        }
        assert_eq!(tree.len(), 6 + extra.len(), "{tree:?}");
    }
}

#[test]
fn backups_are_numbered() {
    let place = occupied();
    for _ in 0..3 {
        place.extract_with(&Fake::new().file("z", b"x"), |extraction| extraction.sink.overwrite = Overwrite::Backup).0.unwrap();
    }
    let names: Vec<_> = place.tree().into_keys().filter(|name| name.starts_with('z')).collect();
    assert_eq!(names, ["z", "z~", "z~2"]);
}

#[test]
fn keep_newer_skips_older_entries() {
    let place = occupied();
    let archive = Fake::new()
        .file_with("a.txt", b"new", time(1_000_000_000, 0))
        .dir("d")
        .file_with("d/b", b"new", time(99_000_000_000, 0))
        .file("d/l", b"of unknown age");
    let (result, _) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = Overwrite::KeepNewer);
    let stats = result.unwrap();
    assert_eq!((stats.files, stats.kept), (1, 2));
    let tree = place.tree();
    assert_eq!((&*tree["a.txt"], &*tree["d/b"], &*tree["d/l"]), ("file 644 old", "file 644 new", "file 644 old"));
}

/// Returns a target with a directory where the archive has the file `z`.
fn with_directory() -> Place {
    let place = Place::new();
    std::fs::create_dir(place.at("z")).unwrap();
    std::fs::write(place.at("z/precious"), "x").unwrap();
    place
}

#[test]
fn existing_directory_is_never_replaced_by_a_file() {
    let place = with_directory();
    let (result, _) = place.extract(&archive());
    assert!(matches!(result.unwrap_err(), Error::Conflict { kind: ConflictKind::Directory, .. }));
    assert_eq!(place.tree().len(), 2);
    for overwrite in [Overwrite::Replace, Overwrite::KeepNewer, Overwrite::Skip] {
        let place = with_directory();
        let (_, predicted) = dry_run(&place, &archive(), overwrite);
        let (result, warnings) = place.extract_with(&archive(), |extraction| extraction.sink.overwrite = overwrite);
        let stats = result.unwrap();
        assert_eq!((stats.files, stats.kept, stats.skipped), (2, 0, 1), "{overwrite:?}");
        assert_eq!((predicted.made(), predicted.kept, predicted.skipped), (stats.made(), 0, 1));
        assert_eq!(messages(&warnings), ["z: a directory is in the way"]);
        let tree = place.tree();
        assert_eq!((&*tree["d/b"], &*tree["z/precious"], tree.len()), ("file 644 new", "file 644 x", 6), "{tree:?}");
    }
}

#[test]
fn existing_directory_is_kept_by_backup_and_rename() {
    for (overwrite, made, precious) in [(Overwrite::Backup, "z", "z~/precious"), (Overwrite::Rename, "z (2)", "z/precious")] {
        let place = with_directory();
        let (actions, predicted) = dry_run(&place, &archive(), overwrite);
        let (result, warnings) = place.extract_with(&archive(), |extraction| extraction.sink.overwrite = overwrite);
        let stats = result.unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let tree = place.tree();
        assert_eq!((&*tree[precious], &*tree[made]), ("file 644 x", "file 644 fine"), "{tree:?}");
        assert_eq!((predicted.files, predicted.kept, predicted.bytes), (stats.files, stats.kept, stats.bytes));
        assert_eq!(actions.last().map(|(path, _)| path.as_str()), Some("z"));
    }
}

#[test]
fn file_instead_of_directory_is_reported_once() {
    let place = Place::new();
    std::fs::write(place.at("d"), "x").unwrap();
    let (result, _) = place.extract(&archive());
    let expected = format!("something else stands where the archive has a directory: {}", place.at("d").display());
    assert_eq!(result.unwrap_err().to_string(), expected);
    assert_eq!(place.tree(), expect([("d", "file 644 x")]));
}

#[test]
fn renamed_directory_gets_an_unused_name() {
    let archive = Fake::new().dir("d").file("d/x", b"1").dir("d (2)").file("d (2)/x", b"2");
    let place = Place::new();
    std::fs::write(place.at("d"), "old").unwrap();
    let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = Overwrite::Rename);
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(result.unwrap().renamed, 1);
    let tree = place.tree();
    assert_eq!((&*tree["d (3)/x"], &*tree["d (2)/x"], &*tree["d"]), ("file 644 1", "file 644 2", "file 644 old"));
}

#[test]
fn renamed_directory_contains_its_entries() {
    let whole = Fake::new()
        .dir("d")
        .file_with("d/h", b"x", group(1))
        .dir("d/sub")
        .file("d/sub/b", b"new")
        .file_with("d/sub/h", b"x", group(1))
        .symlink("d/sub/l", "x")
        .file("z", b"fine");
    let implied = Fake::new().file("d/sub/b", b"new").file("z", b"fine");
    for (archive, renamed) in [(whole, 1), (implied, 0)] {
        let place = Place::new();
        // A symlink to a directory is not followed either.
        std::os::unix::fs::symlink(place.dir.path().join("outside"), place.at("d")).unwrap();
        std::fs::create_dir(place.at("d (2)")).unwrap();
        let actions = Mutex::new(Vec::new());
        let observe = |event: &nra::convert::Event<'_>| {
            actions.lock().unwrap().push(String::from_utf8(event.path.to_vec()).unwrap());
        };
        let (result, warnings) = place.extract_with(&archive, |extraction| {
            extraction.sink.overwrite = Overwrite::Rename;
            // With one entry per batch.
            extraction.options.memory_bytes = 1;
            extraction.sink.observe = Some(&observe);
        });
        let stats = result.unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((stats.renamed, stats.skipped, stats.kept), (renamed, 0, 0));
        let tree = place.tree();
        assert_eq!((&*tree["d (3)/sub/b"], &*tree["z"], &*tree["d (2)"]), ("file 644 new", "file 644 fine", "dir 755"));
        assert!(tree["d"].starts_with("symlink "), "{tree:?}");
        assert!(actions.lock().unwrap().iter().all(|path| tree.contains_key(path)), "{actions:?}");
        if renamed > 0 {
            let inode = |path| place.at(path).metadata().unwrap().ino();
            assert_eq!(inode("d (3)/h"), inode("d (3)/sub/h"));
        }
        place.check_outside();
    }
}

#[test]
fn each_policy_resolves_file_instead_of_directory() {
    let implied = Fake::new().file("d/b", b"new").symlink("d/l", "x");
    let old = Fake::new().entry("d", Kind::Directory, time(1_000_000_000, 0)).file("d/b", b"new").symlink("d/l", "x");
    let new = Fake::new().entry("d", Kind::Directory, time(99_000_000_000, 0)).file("d/b", b"new").symlink("d/l", "x");
    for (archive, overwrite, omitted, action) in [
        (&old, Overwrite::Replace, 0, Some(Action::Replace)),
        (&implied, Overwrite::Replace, 0, Some(Action::Create)),
        (&old, Overwrite::Backup, 0, Some(Action::Backup)),
        (&old, Overwrite::Skip, 3, None),
        (&implied, Overwrite::Skip, 2, None),
        (&old, Overwrite::KeepNewer, 3, None),
        (&new, Overwrite::KeepNewer, 0, Some(Action::Replace)),
    ] {
        let place = Place::new();
        std::fs::write(place.at("d"), "x").unwrap();
        let (actions, predicted) = dry_run(&place, archive, overwrite);
        assert_eq!(actions.first().map(|(_, action)| *action), action, "{overwrite:?}");
        let (result, warnings) = place.extract_with(archive, |extraction| extraction.sink.overwrite = overwrite);
        let stats = result.unwrap();
        assert_eq!((stats.skipped, warnings.len()), (omitted, usize::try_from(omitted).unwrap()), "{warnings:?}");
        assert_eq!((predicted.made(), predicted.skipped), (stats.made(), stats.skipped), "{overwrite:?}");
        let tree = place.tree();
        if action.is_none() {
            assert_eq!(tree, expect([("d", "file 644 x")]));
        } else {
            assert_eq!((&*tree["d/b"], &*tree["d/l"]), ("file 644 new", "symlink x"));
            assert_eq!(tree.get("d~").map(String::as_str), (overwrite == Overwrite::Backup).then_some("file 644 x"));
        }
    }
}

/// Returns the actions that a dry run reports, and its statistics.
fn dry_run(place: &Place, archive: &Fake, overwrite: Overwrite) -> (Vec<(String, Action)>, DirectoryStats) {
    let before = place.tree();
    let actions = Mutex::new(Vec::new());
    let observe = |event: &nra::convert::Event<'_>| {
        actions.lock().unwrap().push((String::from_utf8(event.path.to_vec()).unwrap(), event.action));
    };
    let (result, _) = place.extract_with(archive, |extraction| {
        (extraction.sink.overwrite, extraction.dry_run) = (overwrite, true);
        extraction.sink.observe = Some(&observe);
    });
    assert_eq!(place.tree(), before);
    (actions.into_inner().unwrap(), result.unwrap())
}

#[test]
fn dry_run_skips_the_same_entries() {
    let device = |entry: &mut nra::format::entry::Entry| entry.device = Some(nra::format::entry::Device { major: 1, minor: 3 });
    let archive = Fake::new().entry("dev", Kind::CharacterDevice, device).file("f", b"x").file("sub/f", b"y");
    for dry_run in [true, false] {
        let place = Place::new();
        let (result, warnings) =
            place.extract_with(&archive, |extraction| (extraction.sink.flat, extraction.dry_run) = (true, dry_run));
        let stats = result.unwrap();
        let paths: Vec<_> = warnings.iter().map(|warning| String::from_utf8_lossy(&warning.path).into_owned()).collect();
        assert_eq!((stats.files, stats.bytes, stats.skipped), (1, 1, 2), "{dry_run}");
        assert!(paths.contains(&"dev".to_owned()) && paths.contains(&"sub/f".to_owned()), "{paths:?}");
    }
}

#[test]
fn existing_directories_keep_metadata_unless_replaced() {
    let archive = Fake::new().entry("d", Kind::Directory, |entry| {
        mode(0o700)(entry);
        time(1_000_000_000, 5)(entry);
    });
    let place = occupied();
    place.extract(&archive).0.unwrap();
    assert_eq!(place.tree()["d"], "dir 755");
    place.extract_with(&archive, |extraction| extraction.sink.overwrite = Overwrite::Replace).0.unwrap();
    assert_eq!(place.tree()["d"], "dir 700");
    assert_eq!(place.at("d").metadata().unwrap().mtime_nsec(), 5);
}

#[test]
fn user_is_asked_once_per_conflict() {
    let place = occupied();
    let asked = Mutex::new(Vec::new());
    let ask = |conflict: &nra::convert::Conflict<'_>| {
        let path = String::from_utf8(conflict.path.to_vec()).unwrap();
        let overwrite = if path == "a.txt" { Overwrite::Rename } else { Overwrite::Replace };
        let all = path == "d/b";
        asked.lock().unwrap().push(format!("{path} {}", conflict.size));
        Ok(Answer { overwrite, all })
    };
    let (result, _) = place.extract_with(&archive(), |extraction| extraction.sink.ask = Some(&ask));
    result.unwrap();
    assert_eq!(asked.into_inner().unwrap(), ["a.txt 3", "d/b 3"]);
    let tree = place.tree();
    assert_eq!((&*tree["a.txt"], &*tree["a (2).txt"]), ("file 644 old", "file 644 new"));
    assert_eq!((&*tree["d/b"], &*tree["d/l"]), ("file 644 new", "symlink x"));
}

#[test]
fn user_is_asked_about_directories() {
    let place = with_directory();
    std::fs::write(place.at("d"), "old").unwrap();
    let asked = Mutex::new(Vec::new());
    let ask = |conflict: &nra::convert::Conflict<'_>| {
        let path = String::from_utf8(conflict.path.to_vec()).unwrap();
        asked.lock().unwrap().push((path, conflict.wants_directory, conflict.is_directory));
        Ok(Answer { overwrite: Overwrite::Rename, all: false })
    };
    // The second archive has no entry for the directory itself.
    for archive in [archive(), Fake::new().file("d/b", b"new").file("z", b"fine")] {
        place.extract_with(&archive, |extraction| extraction.sink.ask = Some(&ask)).0.unwrap();
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        let d = asked.iter().position(|(path, ..)| path == "d").unwrap();
        assert_eq!(asked[d..], [("d".to_owned(), true, false), ("z".to_owned(), false, true)]);
    }
    let tree = place.tree();
    assert_eq!((&*tree["d"], &*tree["z/precious"]), ("file 644 old", "file 644 x"));
    assert_eq!((&*tree["d (2)/b"], &*tree["d (3)/b"], &*tree["z (3)"]), ("file 644 new", "file 644 new", "file 644 fine"));
}

#[test]
fn cancelled_question_writes_nothing() {
    let place = occupied();
    let before = place.tree();
    let ask = |_: &nra::convert::Conflict<'_>| Err(Error::Cancelled);
    let (result, _) = place.extract_with(&archive(), |extraction| extraction.sink.ask = Some(&ask));
    assert!(matches!(result.unwrap_err(), Error::Cancelled));
    assert_eq!(place.tree(), before);
}

#[test]
fn existing_file_is_kept_if_its_replacement_is_damaged() {
    for overwrite in [Overwrite::Replace, Overwrite::Backup] {
        let place = occupied();
        let archive = Fake::new().runs("a.txt", vec![Run::Data(b"half".to_vec()), Run::Damage], |_| {});
        let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = overwrite);
        assert_eq!(result.unwrap().damaged, 1);
        assert!(warnings[0].severity == Severity::Damage);
        let tree = place.tree();
        assert_eq!((&*tree["a.txt"], tree.len()), ("file 644 old", 5), "{tree:?}");
    }
}

#[test]
fn second_run_gives_the_same_tree() {
    let archive = Fake::new().file_with("a", b"x", group(1)).file_with("h", b"x", group(1)).symlink("l", "a").dir("z");
    let place = Place::new();
    place.extract(&archive).0.unwrap();
    let before = place.tree();
    for overwrite in [Overwrite::Replace, Overwrite::Skip] {
        let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.overwrite = overwrite);
        result.unwrap();
        assert!(warnings.is_empty());
        assert_eq!(place.tree(), before);
        assert_eq!(place.at("a").metadata().unwrap().ino(), place.at("h").metadata().unwrap().ino());
    }
}

#[test]
fn dry_run_reports_actions_and_changes_nothing() {
    let (actions, _) = dry_run(&occupied(), &archive(), Overwrite::Backup);
    let expected = [
        ("a.txt", Action::Backup),
        ("d", Action::Merge),
        ("d/b", Action::Backup),
        ("d/l", Action::Backup),
        ("z", Action::Create),
    ];
    assert_eq!(actions, expected.map(|(path, action)| (path.to_owned(), action)));
}
