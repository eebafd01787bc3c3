//! The target directory and the paths in it.

use std::os::unix::fs::symlink;

use nra::convert::select::Selection;
use nra::convert::{DirectoryStats, DirectoryTarget};
use nra::format::Result;
use nra::format::error::{ConflictKind, Error};
use nra::format::progress::Recorder;

use crate::fake::Fake;
use crate::{Extraction, Place, expect, messages};

fn auto(place: &Place, archive: &Fake, patterns: &[&str]) -> Result<DirectoryStats> {
    let mut extraction = Extraction::to_target(DirectoryTarget::Auto { base: place.out(), name: b"named".to_vec() });
    extraction.sink.umask = Some(0o022);
    extraction.run(archive, &Selection::new(patterns).unwrap(), &Recorder::default())
}

#[test]
fn several_top_entries_get_a_directory() {
    let several = Fake::new().dir("a").file("a/x", b"x").file("b", b"x");
    let place = Place::new();
    assert_eq!(auto(&place, &several, &[]).unwrap().target, place.at("named"));
    assert_eq!(place.tree().into_keys().collect::<Vec<_>>(), ["named", "named/a", "named/a/x", "named/b"]);
    // Only selected entries count.
    let place = Place::new();
    assert_eq!(auto(&place, &several, &["a"]).unwrap().target, place.out());
    assert_eq!(place.tree().into_keys().collect::<Vec<_>>(), ["a", "a/x"]);
}

#[test]
fn directory_name_must_be_one_component() {
    let several = Fake::new().file("a", b"x").file("b", b"x");
    let one = Fake::new().file("a", b"x");
    for name in ["", ".", "..", "../outside", "a/b", "/", "a/"] {
        let place = Place::new();
        let mut extraction = Extraction::to_target(DirectoryTarget::Auto { base: place.out(), name: name.into() });
        extraction.sink.umask = Some(0o022);
        for archive in [&several, &one] {
            let result = extraction.run(archive, &Selection::new(&[] as &[&str]).unwrap(), &Recorder::default());
            assert!(matches!(result, Err(Error::Usage { .. })), "{name}: {result:?}");
        }
        assert!(place.tree().is_empty());
        place.check_outside();
    }
}

#[test]
fn existing_directory_is_merged_without_overwriting() {
    let archive = Fake::new().file("a", b"x").file("b", b"x");
    let place = Place::new();
    std::fs::create_dir(place.at("named")).unwrap();
    std::fs::write(place.at("named/mine"), "mine").unwrap();
    auto(&place, &archive, &[]).unwrap();
    assert_eq!(place.tree().len(), 4);
    assert!(matches!(auto(&place, &archive, &[]).unwrap_err(), Error::Conflict { kind: ConflictKind::Exists, count: 2, .. }));
}

#[test]
fn only_a_named_target_may_be_a_symlink() {
    let archive = Fake::new().file("a", b"x").file("b", b"x");
    let place = Place::new();
    symlink("../outside", place.at("named")).unwrap();
    assert!(matches!(auto(&place, &archive, &[]).unwrap_err(), Error::Conflict { kind: ConflictKind::NotDirectory, .. }));
    place.check_outside();
    std::fs::create_dir(place.at("real")).unwrap();
    symlink("real", place.at("link")).unwrap();
    place.extract_with(&archive, |extraction| extraction.sink.target = DirectoryTarget::Exactly(place.at("link"))).0.unwrap();
    assert_eq!(place.tree()["real/a"], "file 644 x");
}

#[test]
fn strip_components_removes_leading_directories() {
    let archive =
        Fake::new().dir("a").file("a/x", b"1").dir("a/d").file("a/d/y", b"2").dir("b").file("b/x", b"3").file("top", b"4");
    let place = Place::new();
    let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.strip_components = 1);
    assert_eq!(result.unwrap().files, 2);
    assert_eq!(messages(&warnings), ["b/x: another entry has the same path in the target"]);
    assert_eq!(place.tree(), expect([("d", "dir 755"), ("d/y", "file 644 2"), ("x", "file 644 1")]));
    // Two directories become one.
    let archive = Fake::new().dir("a").dir("a/d").file("a/d/x", b"1").dir("b").dir("b/d").file("b/d/y", b"2");
    let place = Place::new();
    place.extract_with(&archive, |extraction| extraction.sink.strip_components = 1).0.unwrap();
    assert_eq!(place.tree(), expect([("d", "dir 755"), ("d/x", "file 644 1"), ("d/y", "file 644 2")]));
}

#[test]
fn flat_extracts_files_without_directories() {
    let archive = Fake::new().dir("a").file("a/x", b"1").symlink("a/l", "x").file("b/c/x", b"2").file("b/y", b"3");
    let place = Place::new();
    let (result, warnings) = place.extract_with(&archive, |extraction| extraction.sink.flat = true);
    assert_eq!(result.unwrap().skipped, 1);
    assert_eq!(warnings.len(), 1);
    assert_eq!(place.tree(), expect([("l", "symlink x"), ("x", "file 644 1"), ("y", "file 644 3")]));
}

#[test]
fn missing_target_is_created() {
    let place = Place::new();
    let archive = Fake::new().file("a", b"x");
    place.extract_with(&archive, |extraction| extraction.sink.target = DirectoryTarget::Exactly(place.at("p/q"))).0.unwrap();
    assert_eq!(place.tree(), expect([("p", "dir 755"), ("p/q", "dir 755"), ("p/q/a", "file 644 x")]));
    // A dry run does not create it.
    let (result, _) = place.extract_with(&archive, |extraction| {
        extraction.sink.target = DirectoryTarget::Exactly(place.at("r"));
        extraction.dry_run = true;
    });
    result.unwrap();
    assert!(!place.at("r").exists());
}
