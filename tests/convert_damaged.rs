//! What comes of a damaged archive when it is converted: entries with their own content, or none, and it is told.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use common::{noise, nra};
use nra::format::archive::{OpenOptions, open_path};
use nra::format::entry::Kind;
use tempfile::TempDir;

const FILES: usize = 3_000;
const DAMAGES: usize = 24;

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
        let start = match damage {
            // The first block, which nothing makes good.
            0 => 200,
            _ if damage % 6 == 5 => whole.len() * damage / (2 * DAMAGES),
            _ => whole.len() * (DAMAGES + damage) / (2 * DAMAGES),
        };
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
            assert!(path.exists(), "damage {damage}, {kind}: {said}");
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
    assert!(lossy >= 4, "the first block hurts every kind");
}

#[test]
fn a_damaged_commit_of_the_past_does_not_matter() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("tree")).unwrap();
    fs::write(folder.path().join("tree/a"), "first\n").unwrap();
    assert!(nra(folder.path(), &["pack", "tree", "-o", "whole.nra"]).status.success());
    let first = usize::try_from(fs::metadata(folder.path().join("whole.nra")).unwrap().len()).unwrap();
    fs::write(folder.path().join("tree/b"), "second\n").unwrap();
    assert!(nra(folder.path(), &["add", "whole.nra", "tree"]).status.success());
    let (files, mut bytes) = (files_of(&folder.path().join("whole.nra")), fs::read(folder.path().join("whole.nra")).unwrap());
    // In front of the tail, the last 64 bytes, stands the commit.
    bytes[first - 120..first - 70].fill(0);
    fs::write(folder.path().join("damaged.nra"), &bytes).unwrap();
    assert_eq!(nra(folder.path(), &["log", "damaged.nra"]).status.code(), Some(4));
    for kind in ["nra", "tar", "zip", "nra4"] {
        let output = folder.path().join(format!("out.{kind}"));
        let converted = nra(folder.path(), &["convert", "damaged.nra", output.to_str().unwrap()]);
        assert!(matches!(converted.status.code(), Some(0 | 3)), "{kind}: {}", String::from_utf8_lossy(&converted.stderr));
        assert_eq!(files_of(&output), files, "{kind}");
    }
}

/// Says whether this is the content that the file had in the first commit: where the records of the second are gone, it comes back.
fn is_earlier(name: &[u8], found: &[u8]) -> bool {
    let number = std::str::from_utf8(&name[name.len() - 4..]).unwrap().parse().unwrap();
    content(number, 1).as_bytes() == found
}

/// Makes archives of two small files; returns their endings. None of them has another one in a row.
fn small(folder: &Path) -> [&'static str; 7] {
    let kinds = ["tar", "tar.gz", "tar.zst", "tar.xz", "tar.bz2", "tar.lz4", "zip"];
    fs::create_dir(folder.join("small")).unwrap();
    fs::write(folder.join("small/a"), "first\n").unwrap();
    fs::write(folder.join("small/b"), "second\n").unwrap();
    assert!(nra(folder, &["pack", "small", "-o", "small.nra"]).status.success());
    for kind in kinds {
        // Owners and fractions of a second are told, and nothing else is lost.
        assert!(nra(folder, &["convert", "small.nra", &format!("small.{kind}")]).status.success());
    }
    kinds
}

/// Runs what reads a whole archive; returns each command with its exit code and what it said.
fn runs(folder: &Path, archive: &str) -> Vec<(&'static str, Option<i32>, String)> {
    let commands: [(&str, &[&str]); 5] = [
        ("list", &["list", archive]),
        ("verify", &["verify", archive]),
        ("extract", &["extract", archive, "-f", "-C", "out"]),
        ("convert", &["convert", archive, "-f", "-o", "out.nra"]),
        ("convert to tar", &["convert", archive, "-f", "-o", "out.tar"]),
    ];
    let run = |(name, arguments): &(&'static str, &[&str])| {
        let output = nra(folder, arguments);
        (*name, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    commands.iter().map(run).collect()
}

#[test]
fn what_stands_behind_an_archive_is_never_lost_in_silence() {
    let folder = TempDir::new().unwrap();
    for kind in small(folder.path()) {
        let whole = fs::read(folder.path().join(format!("small.{kind}"))).unwrap();
        let name = format!("case.{kind}");
        for (behind, is_told) in
            [(&[0u8; 700][..], false), (b"junk", true), (&[0xa5; 2_000], true), (&[&[0; 600][..], b"x"].concat(), true)]
        {
            // tar itself passes over what follows its end.
            let code = if is_told && kind != "tar" { 3 } else { 0 };
            fs::write(folder.path().join(&name), [&whole, behind].concat()).unwrap();
            for (command, found, said) in runs(folder.path(), &name) {
                assert_eq!(found, Some(code), "{kind}, {} bytes behind, {command}: {said}", behind.len());
                assert_eq!(is_told, said.contains("warning"), "{kind}, {command}: {said}");
            }
        }
    }
}

#[test]
fn a_further_part_whose_head_is_broken_is_damage() {
    let folder = TempDir::new().unwrap();
    for kind in small(folder.path()).into_iter().filter(|kind| *kind != "zip") {
        let whole = fs::read(folder.path().join(format!("small.{kind}"))).unwrap();
        let name = format!("case.{kind}");
        for bit in [6, 13, 22] {
            let mut broken = whole.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            fs::write(folder.path().join(&name), [&whole[..], &broken].concat()).unwrap();
            for (command, code, said) in runs(folder.path(), &name) {
                assert_eq!(code, Some(4), "{kind}, bit {bit}, {command}: {said}");
            }
            let kept = nra(folder.path(), &["convert", &name, "-f", "-o", "kept.nra", "--keep-going"]);
            assert_eq!(kept.status.code(), Some(4), "{kind}: {}", String::from_utf8_lossy(&kept.stderr));
            assert_eq!(files_of(&folder.path().join("kept.nra")), files_of(&folder.path().join("small.nra")), "{kind}");
        }
    }
}

#[test]
fn hard_links_go_with_their_content() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, seed) in [("a", 1), ("c", 2)] {
        fs::write(at.join("tree").join(name), noise(3_000, seed)).unwrap();
    }
    fs::hard_link(at.join("tree/a"), at.join("tree/b")).unwrap();
    fs::hard_link(at.join("tree/c"), at.join("tree/d")).unwrap();
    assert!(nra(at, &["pack", "tree", "-o", "whole.nra"]).status.success());
    let mut bytes = fs::read(at.join("whole.nra")).unwrap();
    let hit = noise(3_000, 1);
    let place = bytes.windows(hit.len()).position(|window| window == hit).expect("stored as it is");
    bytes[place + 1_000] ^= 1;
    fs::write(at.join("hurt.nra"), bytes).unwrap();
    for output in ["out.tar", "out.tar.gz", "out.zip", "out.nra"] {
        let converted = nra(at, &["convert", "hurt.nra", output, "--keep-going"]);
        let said = String::from_utf8_lossy(&converted.stderr);
        assert_eq!(converted.status.code(), Some(4), "{output}: {said}");
        assert!(said.contains("a: skipped") && said.contains("b: skipped") && said.contains(", 2 skipped"), "{output}: {said}");
        let names: Vec<_> = files_of(&at.join(output)).into_keys().collect();
        assert_eq!(names, [b"c", b"d"], "{output}");
        let verified = nra(at, &["verify", output]);
        assert_eq!(verified.status.code(), Some(0), "{output}: {}", String::from_utf8_lossy(&verified.stderr));
    }
}

#[test]
fn damage_in_a_stream_names_its_file_and_keeps_what_was_said_before() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, len) in [("a", 1_000), ("b", 400_000), ("c", 50_000)] {
        fs::write(at.join("tree").join(name), noise(len, 1)).unwrap();
    }
    assert!(nra(at, &["pack", "tree", "-o", "whole.nra", "-m", "a word"]).status.success());
    for kind in ["tar", "tar.gz"] {
        let cut = format!("cut.{kind}");
        assert!(nra(at, &["convert", "whole.nra", &cut]).status.success());
        let bytes = fs::read(at.join(&cut)).unwrap();
        for len in [bytes.len() / 2, 100_000] {
            fs::write(at.join(&cut), &bytes[..len]).unwrap();
            let strict = nra(at, &["convert", &cut, "out.nra"]);
            let said = String::from_utf8_lossy(&strict.stderr);
            assert!(strict.status.code() == Some(4) && said.contains("(entry b)"), "{kind}: {said}");
            let lenient = nra(at, &["convert", &cut, "out.nra", "-f", "--keep-going"]);
            let said = String::from_utf8_lossy(&lenient.stderr);
            assert!(lenient.status.code() == Some(4) && said.contains("b: skipped: "), "{kind}: {said}");
            assert!(said.contains(", 1 skipped"), "{kind}: {said}");
            assert_eq!(files_of(&at.join("out.nra")).into_keys().collect::<Vec<_>>(), [b"a"], "{kind}");
            assert_eq!(open_path(&at.join("out.nra"), &OpenOptions::default()).unwrap().info().message, "a word", "{kind}");
            fs::remove_file(at.join("out.nra")).unwrap();
            // The same for every command, and on every way.
            for arguments in [&["list", &cut][..], &["extract", &cut, "-C", "out"], &["convert", &cut, "out.tar", "--keep-going"]]
            {
                let done = nra(at, arguments);
                let said = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.code() == Some(4) && said.contains("b: skipped: "), "{arguments:?}: {said}");
                assert!(arguments[0] == "list" || said.contains(", 1 skipped"), "{arguments:?}: {said}");
            }
            let verified = nra(at, &["verify", &cut]);
            assert!(
                String::from_utf8_lossy(&verified.stdout).contains("\n  b\n")
                    || String::from_utf8_lossy(&verified.stderr).contains("1 entry affected"),
                "{verified:?}"
            );
            fs::remove_dir_all(at.join("out")).unwrap();
            fs::remove_file(at.join("out.tar")).unwrap();
        }
    }
}

#[test]
fn of_one_compressed_file_the_part_before_damage_is_kept() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let whole: Vec<u8> = (0..300_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&whole).unwrap();
    let bytes = encoder.finish().unwrap();
    fs::write(at.join("text.gz"), &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(nra(at, &["convert", "text.gz", "out.nra"]).status.code(), Some(4));
    for output in ["out.nra", "out.tar"] {
        let converted = nra(at, &["convert", "text.gz", output, "--keep-going"]);
        let said = String::from_utf8_lossy(&converted.stderr);
        assert!(converted.status.code() == Some(4) && said.contains("warning"), "{output}: {said}");
        let archive = open_path(&at.join(output), &OpenOptions::default()).unwrap();
        let entry = archive.entries(0..archive.entry_count()).next().expect("the file is there").unwrap();
        let part = archive.read_all(&entry, 8 << 20).unwrap();
        assert!(part.len() > 100_000 && part.len() < whole.len() && whole.starts_with(&part), "{output}: {}", part.len());
    }
}
