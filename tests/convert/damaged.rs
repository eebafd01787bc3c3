//! Damaged inputs: entries are converted with their own content or skipped and reported.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use nra::format::archive::{OpenOptions, open_path};
use nra::format::entry::Kind;
use tempfile::TempDir;

use crate::common::{expect, noise, nra};
use crate::packed_tree;

const FILES: usize = 3_000;

const DAMAGES: usize = 24;

fn content(number: usize, generation: usize) -> String {
    format!("file {number} of generation {generation}\n").repeat(1 + number % 7)
}

/// Creates an archive of two commits. Returns its bytes and the content of its files.
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

/// Returns the content of all files of an archive.
fn files_of(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let archive = open_path(path, &OpenOptions::default()).unwrap();
    let entries = archive.entries(0..archive.entry_count()).map(Result::unwrap).filter(|entry| entry.kind == Kind::File);
    entries.map(|entry| (entry.path.as_bytes().to_vec(), archive.read_all(&entry, 1 << 20).unwrap())).collect()
}

#[test]
fn files_are_converted_correctly_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let (whole, files) = archive(folder.path());
    assert!(files_of(&folder.path().join("whole.nra")) == files, "the archive contains the tree");
    let mut lossy = 0;
    for damage in 0..DAMAGES {
        // Mostly in the second half, which holds the index. Only the content before it has no second copy.
        let start = match damage {
            // The first block, which cannot be recovered.
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
                // 3: earlier commits are not kept.
                Some(0 | 3) => assert!(files_of(&path) == files, "damage {damage} in {kind} was not reported"),
                Some(4) => assert!(!path.exists(), "damage {damage}: the {kind} was not removed"),
                code => panic!("damage {damage}, {kind}: {code:?} {}", String::from_utf8_lossy(&strict.stderr)),
            }
            let _ = fs::remove_file(&path);
            let lenient = nra(folder.path(), &["convert", "damaged.nra", &output, "--keep-going"]);
            let stderr = String::from_utf8_lossy(&lenient.stderr).into_owned();
            assert!(path.exists(), "damage {damage}, {kind}: {stderr}");
            let found = files_of(&path);
            for (name, content) in &found {
                assert!(files.get(name) == Some(content) || is_earlier(name, content), "damage {damage}, {kind}: {name:?}");
            }
            let complete = found == files;
            assert!(complete || matches!(lenient.status.code(), Some(3 | 4)), "damage {damage}, {kind}: {stderr}");
            assert!(complete || stderr.contains("warning"), "damage {damage}, {kind}: {stderr}");
            lossy += usize::from(!complete);
            fs::remove_file(&path).unwrap();
        }
    }
    assert!(lossy >= 4, "the first block affects every kind");
}

#[test]
fn damaged_earlier_commit_is_ignored() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("tree")).unwrap();
    fs::write(folder.path().join("tree/a"), "first\n").unwrap();
    assert!(nra(folder.path(), &["pack", "tree", "-o", "whole.nra"]).status.success());
    let first = usize::try_from(fs::metadata(folder.path().join("whole.nra")).unwrap().len()).unwrap();
    fs::write(folder.path().join("tree/b"), "second\n").unwrap();
    assert!(nra(folder.path(), &["add", "whole.nra", "tree"]).status.success());
    let (files, mut bytes) = (files_of(&folder.path().join("whole.nra")), fs::read(folder.path().join("whole.nra")).unwrap());
    // The commit precedes the footer, the last 64 bytes.
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

/// Returns whether the file had this content in the first commit. It reappears if the records of the second commit are lost.
fn is_earlier(name: &[u8], found: &[u8]) -> bool {
    let number = std::str::from_utf8(&name[name.len() - 4..]).unwrap().parse().unwrap();
    content(number, 1).as_bytes() == found
}

/// Creates archives of two small files and returns their extensions.
fn small(folder: &Path) -> [&'static str; 7] {
    let kinds = ["tar", "tar.gz", "tar.zst", "tar.xz", "tar.bz2", "tar.lz4", "zip"];
    fs::create_dir(folder.join("small")).unwrap();
    fs::write(folder.join("small/a"), "first\n").unwrap();
    fs::write(folder.join("small/b"), "second\n").unwrap();
    assert!(nra(folder, &["pack", "small", "-o", "small.nra"]).status.success());
    for kind in kinds {
        // Only owners and fractions of a second are lost.
        assert!(nra(folder, &["convert", "small.nra", &format!("small.{kind}")]).status.success());
    }
    kinds
}

/// Runs the commands that read a whole archive. Returns the name, exit code and messages of each.
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
fn trailing_bytes_are_reported() {
    let folder = TempDir::new().unwrap();
    for kind in small(folder.path()) {
        let whole = fs::read(folder.path().join(format!("small.{kind}"))).unwrap();
        let name = format!("case.{kind}");
        for (trailing, is_reported) in
            [(&[0u8; 700][..], false), (b"junk", true), (&[0xa5; 2_000], true), (&[&[0; 600][..], b"x"].concat(), true)]
        {
            // tar itself ignores data after the end.
            let code = if is_reported && kind != "tar" { 3 } else { 0 };
            fs::write(folder.path().join(&name), [&whole, trailing].concat()).unwrap();
            for (command, found, stderr) in runs(folder.path(), &name) {
                assert_eq!(found, Some(code), "{kind}, {} trailing bytes, {command}: {stderr}", trailing.len());
                assert_eq!(is_reported, stderr.contains("warning"), "{kind}, {command}: {stderr}");
            }
        }
    }
}

#[test]
fn damaged_header_of_a_following_part_is_damage() {
    let folder = TempDir::new().unwrap();
    for kind in small(folder.path()).into_iter().filter(|kind| *kind != "zip") {
        let whole = fs::read(folder.path().join(format!("small.{kind}"))).unwrap();
        let name = format!("case.{kind}");
        for bit in [6, 13, 22] {
            let mut broken = whole.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            fs::write(folder.path().join(&name), [&whole[..], &broken].concat()).unwrap();
            for (command, code, stderr) in runs(folder.path(), &name) {
                assert_eq!(code, Some(4), "{kind}, bit {bit}, {command}: {stderr}");
            }
            let kept = nra(folder.path(), &["convert", &name, "-f", "-o", "kept.nra", "--keep-going"]);
            assert_eq!(kept.status.code(), Some(4), "{kind}: {}", String::from_utf8_lossy(&kept.stderr));
            assert_eq!(files_of(&folder.path().join("kept.nra")), files_of(&folder.path().join("small.nra")), "{kind}");
        }
    }
}

#[test]
fn hard_links_to_damaged_content_are_skipped() {
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
    let content = noise(3_000, 1);
    let place = bytes.windows(content.len()).position(|window| window == content).expect("stored uncompressed");
    bytes[place + 1_000] ^= 1;
    fs::write(at.join("damaged.nra"), bytes).unwrap();
    for output in ["out.tar", "out.tar.gz", "out.zip", "out.nra"] {
        let converted = nra(at, &["convert", "damaged.nra", output, "--keep-going"]);
        let stderr = String::from_utf8_lossy(&converted.stderr);
        assert_eq!(converted.status.code(), Some(4), "{output}: {stderr}");
        assert!(
            stderr.contains("a: skipped") && stderr.contains("b: skipped") && stderr.contains(", 2 skipped"),
            "{output}: {stderr}"
        );
        let names: Vec<_> = files_of(&at.join(output)).into_keys().collect();
        assert_eq!(names, [b"c", b"d"], "{output}");
        let verified = nra(at, &["verify", output]);
        assert_eq!(verified.status.code(), Some(0), "{output}: {}", String::from_utf8_lossy(&verified.stderr));
    }
}

#[test]
fn damage_in_a_stream_names_its_file() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, len) in [("a", 1_000), ("b", 400_000), ("c", 50_000)] {
        fs::write(at.join("tree").join(name), noise(len, 1)).unwrap();
    }
    assert!(nra(at, &["pack", "tree", "-o", "whole.nra", "-m", "a word"]).status.success());
    for kind in ["tar", "tar.gz"] {
        let input = format!("part.{kind}");
        assert!(nra(at, &["convert", "whole.nra", &input]).status.success());
        let bytes = fs::read(at.join(&input)).unwrap();
        for len in [bytes.len() / 2, 100_000] {
            fs::write(at.join(&input), &bytes[..len]).unwrap();
            let strict = nra(at, &["convert", &input, "out.nra"]);
            let stderr = String::from_utf8_lossy(&strict.stderr);
            assert!(strict.status.code() == Some(4) && stderr.contains("(entry b)"), "{kind}: {stderr}");
            let lenient = nra(at, &["convert", &input, "out.nra", "-f", "--keep-going"]);
            let stderr = String::from_utf8_lossy(&lenient.stderr);
            assert!(lenient.status.code() == Some(4) && stderr.contains("b: skipped: "), "{kind}: {stderr}");
            assert!(stderr.contains(", 1 skipped"), "{kind}: {stderr}");
            assert_eq!(files_of(&at.join("out.nra")).into_keys().collect::<Vec<_>>(), [b"a"], "{kind}");
            assert_eq!(open_path(&at.join("out.nra"), &OpenOptions::default()).unwrap().info().message, "a word", "{kind}");
            fs::remove_file(at.join("out.nra")).unwrap();
            // The other commands and targets report the same.
            for arguments in
                [&["list", &input][..], &["extract", &input, "-C", "out"], &["convert", &input, "out.tar", "--keep-going"]]
            {
                let done = nra(at, arguments);
                let stderr = String::from_utf8_lossy(&done.stderr);
                assert!(done.status.code() == Some(4) && stderr.contains("b: skipped: "), "{arguments:?}: {stderr}");
                assert!(arguments[0] == "list" || stderr.contains(", 1 skipped"), "{arguments:?}: {stderr}");
            }
            let verified = nra(at, &["verify", &input]);
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
fn keep_going_keeps_a_compressed_file_up_to_the_damage() {
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
        let stderr = String::from_utf8_lossy(&converted.stderr);
        assert!(converted.status.code() == Some(4) && stderr.contains("warning"), "{output}: {stderr}");
        let archive = open_path(&at.join(output), &OpenOptions::default()).unwrap();
        let entry = archive.entries(0..archive.entry_count()).next().expect("the file is there").unwrap();
        let part = archive.read_all(&entry, 8 << 20).unwrap();
        assert!(part.len() > 100_000 && part.len() < whole.len() && whole.starts_with(&part), "{output}: {}", part.len());
    }
}

#[test]
fn damage_leaves_no_output_without_keep_going() {
    let folder = packed_tree();
    let at = folder.path();
    for kind in ["tar", "tar.gz", "tar.zst"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        let bytes = fs::read(at.join(&tar)).unwrap();
        let input = format!("part.{kind}");
        fs::write(at.join(&input), &bytes[..bytes.len() / 2]).unwrap();
        let stderr = expect(at, &["convert", &input, "kept.nra"], 4);
        assert!(stderr.contains("truncated") && stderr.contains("--keep-going"), "{stderr}");
        assert!(!at.join("kept.nra").exists());
        expect(at, &["convert", &input, "kept.nra", "--keep-going"], 4);
        expect(at, &["verify", "kept.nra"], 0);
        fs::remove_file(at.join("kept.nra")).unwrap();
        // Reading commands list the entries before the damage.
        expect(at, &["list", &input], 4);
    }
    let names: Vec<_> = fs::read_dir(at).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{names:?}");
}

#[test]
fn keep_going_skips_and_counts_damaged_entries() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // Incompressible content is stored uncompressed, each file as one chunk.
    fs::create_dir(at.join("tree")).unwrap();
    for (name, seed) in [("a", 1), ("b", 2), ("c", 3)] {
        fs::write(at.join("tree").join(name), noise(3_000, seed)).unwrap();
    }
    expect(at, &["pack", "tree", "-o", "whole.nra"], 0);
    let mut bytes = fs::read(at.join("whole.nra")).unwrap();
    let content = noise(3_000, 2);
    let place = bytes.windows(content.len()).position(|window| window == content).expect("stored uncompressed");
    bytes[place + 1_000] ^= 1;
    fs::write(at.join("damaged.nra"), bytes).unwrap();
    expect(at, &["convert", "damaged.nra", "out.nra"], 4);
    assert!(!at.join("out.nra").exists());
    let stderr = expect(at, &["convert", "damaged.nra", "out.nra", "--keep-going"], 4);
    assert!(stderr.contains(", 1 skipped") && stderr.contains("b: skipped"), "{stderr}");
    expect(at, &["verify", "out.nra"], 0);
}
