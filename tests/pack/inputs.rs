//! The paths of inputs in the archive.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nra::convert::{Destination, Filter, Input};
use nra::format::entry::Kind;
use nra::format::progress::{Recorder, Severity};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Packed, Packing, Place, pack, survey};

fn tree() -> Place {
    let place = Place::new();
    place.write("a.txt", "a");
    place.write("sub/b.txt", "b");
    place.write("sub/deep/c.log", "c");
    place
}

fn paths(place: &Place, inputs: &[Input], packing: &Packing) -> (Vec<String>, usize) {
    let _ = fs::remove_file(place.output());
    let (result, warnings) = place.pack_inputs(inputs, packing);
    result.unwrap();
    (Packed::open(&place.output()).paths(), warnings.len())
}

fn relative(place: &Place, path: &str) -> Input {
    Input { directory: Some(place.at("in")), path: path.into(), keep_path: false }
}

#[test]
fn one_directory_is_packed_by_content_and_several_inputs_by_name() {
    let place = tree();
    let options = Packing::new();
    let input = |path: &str| Input::new(place.at(path));
    assert_eq!(paths(&place, &[input("in")], &options).0, ["a.txt", "sub", "sub/b.txt", "sub/deep", "sub/deep/c.log"]);
    assert_eq!(paths(&place, &[input("in/a.txt")], &options).0, ["a.txt"]);
    let both = paths(&place, &[input("in/sub"), input("in/a.txt")], &options);
    assert_eq!(both.0, ["a.txt", "sub", "sub/b.txt", "sub/deep", "sub/deep/c.log"]);
    assert_eq!(paths(&place, &[relative(&place, "sub")], &options).0, ["b.txt", "deep", "deep/c.log"]);
    // The real name of a directory is used.
    assert_eq!(paths(&place, &[input("in/sub/."), input("in/a.txt")], &options).0[1], "sub");
    assert_eq!(paths(&place, &[input("in/sub/deep/.."), input("in/a.txt")], &options).0[1], "sub");
}

#[test]
fn repeated_inputs_are_stored_once() {
    let place = tree();
    let input = |path: &str| Input::new(place.at(path));
    let (found, warnings) =
        paths(&place, &[input("in/sub"), input("in/sub"), input("in/a.txt"), input("in/a.txt")], &Packing::new());
    assert_eq!((found.len(), warnings), (5, 0));
    let kept = |path: &str| Input { keep_path: true, ..relative(&place, path) };
    let (found, warnings) =
        paths(&place, &[kept("./sub"), kept("sub/b.txt"), kept("sub/deep/c.log"), kept("a.txt")], &Packing::new());
    assert_eq!(found, ["a.txt", "sub", "sub/b.txt", "sub/deep", "sub/deep/c.log"]);
    assert_eq!(warnings, 0);
}

#[test]
fn conflicting_inputs_are_reported() {
    let place = tree();
    place.write("other/a.txt", "another");
    let (result, warnings) =
        place.pack_inputs(&[Input::new(place.input("a.txt")), Input::new(place.input("other/a.txt"))], &Packing::new());
    result.unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].severity == Severity::Degraded && warnings[0].path.ends_with(b"other/a.txt"));
    assert_eq!(Packed::open(&place.output()).content("a.txt"), b"a");
}

#[test]
fn prefix_is_prepended_to_paths() {
    let place = tree();
    let prefixed = Packing::with(|packing| packing.source.prefix = b"/x/y/".to_vec());
    let (found, _) = paths(&place, &[Input::new(place.at("in"))], &prefixed);
    assert_eq!(found, ["x", "x/y", "x/y/a.txt", "x/y/sub", "x/y/sub/b.txt", "x/y/sub/deep", "x/y/sub/deep/c.log"]);
    let packed = Packed::open(&place.output());
    // The first is implied, the second has the metadata of the input.
    assert!(packed.entry("x").implied && !packed.entry("x/y").implied);
    let bad = Packing::with(|packing| packing.source.prefix = b"../x".to_vec());
    fs::remove_file(place.output()).unwrap();
    assert!(place.pack(&bad).0.is_err());
}

#[test]
fn filters_apply_to_paths_in_the_archive() {
    let place = tree();
    let mut filter = Filter::default();
    filter.rules.exclude("/sub/deep").unwrap();
    filter.rules.exclude("*.txt").unwrap();
    filter.rules.include("b.txt").unwrap();
    let filtered = Packing::with(|packing| (packing.source.filter, packing.source.prefix) = (filter, b"p".to_vec()));
    assert_eq!(paths(&place, &[Input::new(place.at("in"))], &filtered).0, ["p", "p/sub", "p/sub/b.txt"]);
}

#[test]
fn single_symlink_to_directory_is_followed() {
    let place = tree();
    symlink("in", place.at("link")).unwrap();
    assert_eq!(paths(&place, &[Input::new(place.at("link"))], &Packing::new()).0.len(), 5);
    let (found, _) = paths(&place, &[Input::new(place.at("link")), Input::new(place.input("a.txt"))], &Packing::new());
    assert_eq!(found, ["a.txt", "link"]);
    assert_eq!(Packed::open(&place.output()).entry("link").kind, Kind::Symlink);
}

#[test]
fn missing_input_is_reported_before_writing() {
    let place = tree();
    fs::write(place.output(), "precious").unwrap();
    let inputs = [Input::new(place.at("in")), Input::new(place.at("no such"))];
    let monitor = Recorder::default();
    let destination = Destination::File { path: place.output(), overwrite: true };
    let error = pack(&inputs, destination, &Packing::new(), &monitor).unwrap_err();
    assert!(error.to_string().contains("no such"), "{error}");
    assert_eq!(fs::read(place.output()).unwrap(), b"precious");
}

#[test]
fn missing_file_of_a_list_is_skipped() {
    let place = tree();
    let kept = |path: &str| Input { keep_path: true, ..relative(&place, path) };
    let (result, warnings) = place.pack_inputs(&[kept("a.txt"), kept("gone")], &Packing::new());
    result.unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].severity == Severity::Degraded && warnings[0].path.ends_with(b"gone"),
        "{warnings:?}"
    );
    assert_eq!(Packed::open(&place.output()).paths(), ["a.txt"]);
    fs::remove_file(place.output()).unwrap();
    assert!(place.pack_inputs(&[kept("gone"), kept("lost")], &Packing::new()).0.is_err());
}

#[test]
fn dry_run_visits_the_same_paths() {
    let place = tree();
    mknodat(CWD, place.input("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let mut found = Vec::new();
    survey(&[Input::new(place.at("in"))], &place.output(), &Packing::new(), &Recorder::default(), &mut |path, kind| {
        found.push(format!("{path} {kind:?}"));
        Ok(())
    })
    .unwrap();
    assert_eq!(
        found,
        ["a.txt File", "pipe Fifo", "sub Directory", "sub/b.txt File", "sub/deep Directory", "sub/deep/c.log File"]
    );
    assert!(!Path::new(&place.output()).exists());
}
