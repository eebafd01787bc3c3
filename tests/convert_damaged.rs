//! What comes of a damaged archive when it is converted: entries with their own content, or none, and it is told.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nra::format::archive::{OpenOptions, open_path};
use nra::format::entry::Kind;
use tempfile::TempDir;

const FILES: usize = 3_000;
const DAMAGES: usize = 24;

fn nra(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nra")).args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn content(number: usize, generation: usize) -> String {
    format!("file {number} of generation {generation}\n").repeat(1 + number % 7)
}

/// Makes an archive of two commits; returns its bytes and what its files hold.
fn archive(folder: &Path) -> (Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>) {
    let top = folder.join("tree");
    let mut files = BTreeMap::new();
    for number in 0..FILES {
        let name = format!("d{:02}/f{number:04}", number % 40);
        fs::create_dir_all(top.join(&name).parent().unwrap()).unwrap();
        fs::write(top.join(&name), content(number, 1)).unwrap();
        files.insert(name.into_bytes(), content(number, 1).into_bytes());
    }
    assert!(nra(folder, &["pack", "tree", "-o", "whole.nra"]).status.success());
    for number in (0..FILES).step_by(3) {
        let name = format!("d{:02}/f{number:04}", number % 40);
        fs::write(top.join(&name), content(number, 2)).unwrap();
        files.insert(name.into_bytes(), content(number, 2).into_bytes());
    }
    assert!(nra(folder, &["add", "whole.nra", "tree"]).status.success());
    (fs::read(folder.join("whole.nra")).unwrap(), files)
}

/// Reads the files of an archive of any kind.
fn files_of(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let archive = open_path(path, &OpenOptions::default()).unwrap();
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap).filter(|entry| entry.kind == Kind::File);
    entries.map(|entry| (entry.path.as_bytes().to_vec(), archive.read_all(&entry, 1 << 20).unwrap())).collect()
}

#[test]
fn files_come_with_their_own_content_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let (whole, files) = archive(folder.path());
    let sound = folder.path().join("whole.nra");
    assert!(files_of(&sound) == files, "the archive holds what the tree does");
    let mut lossy = 0;
    for damage in 0..DAMAGES {
        // Mostly towards the end, where the index lies; what it does not have twice is the content in front of it.
        let start = whole.len() * (if damage % 6 == 5 { damage } else { DAMAGES + damage }) / (2 * DAMAGES);
        let mut bytes = whole.clone();
        let end = (start + 200).min(bytes.len());
        bytes[start..end].fill(0);
        fs::write(folder.path().join("damaged.nra"), &bytes).unwrap();
        for kind in ["nra", "tar", "zip", "nra4"] {
            let output = format!("out.{kind}");
            let path = folder.path().join(&output);
            let strict = nra(folder.path(), &["convert", "damaged.nra", &output]);
            match strict.status.code() {
                // Earlier commits stay behind, which is told and no damage.
                Some(0 | 3) => assert!(files_of(&path) == files, "damage {damage} passed to {kind} in silence"),
                Some(4) => assert!(!path.exists(), "damage {damage}: a {kind} is left"),
                code => panic!("damage {damage}, {kind}: {code:?} {}", String::from_utf8_lossy(&strict.stderr)),
            }
            let _ = fs::remove_file(&path);
            let lenient = nra(folder.path(), &["convert", "damaged.nra", &output, "--keep-going"]);
            let said = String::from_utf8_lossy(&lenient.stderr).into_owned();
            let found = files_of(&path);
            for (name, content) in &found {
                assert!(files.get(name) == Some(content) || is_earlier(name, content), "damage {damage}, {kind}: {name:?}");
            }
            let complete = found == files;
            assert!(complete || matches!(lenient.status.code(), Some(3 | 4)), "damage {damage}, {kind}: {said}");
            assert!(complete || said.contains("warning"), "damage {damage}, {kind}: {said}");
            lossy += usize::from(!complete);
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(lossy > 0, "no damage hurt anything");
}

/// Says whether this is the content that the file had in the first commit: where the records of the second are gone, it comes back.
fn is_earlier(name: &[u8], found: &[u8]) -> bool {
    let number = std::str::from_utf8(&name[name.len() - 4..]).unwrap().parse().unwrap();
    content(number, 1).as_bytes() == found
}
