//! `nra convert` and the reading face of tar archives, against other programs where they are installed.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

mod common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{NRA, expect, nra, other};
use tempfile::TempDir;

/// Makes a tree with every kind of thing that a plain user can make.
fn tree(folder: &Path) -> PathBuf {
    let top = folder.join("tree");
    fs::create_dir_all(top.join("deep/er/est")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("a.txt"), "hello\n").unwrap();
    fs::write(top.join("none"), "").unwrap();
    let large: Vec<u8> = (0..700_000u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
    fs::write(top.join("deep/large.bin"), &large).unwrap();
    fs::write(top.join("deep/er/est/ünïcode"), "x").unwrap();
    let long = top.join("l".repeat(120)).join("m".repeat(140));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("n".repeat(100)), "long").unwrap();
    fs::hard_link(top.join("a.txt"), top.join("z-link")).unwrap();
    symlink("a.txt", top.join("soft")).unwrap();
    symlink("t/".repeat(90), top.join("long-soft")).unwrap();
    fs::set_permissions(top.join("a.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_600_000_000, 123_456_789);
    fs::File::open(top.join("a.txt")).unwrap().set_modified(time).unwrap();
    top
}

/// What can be seen of a tree, a line for each thing; times in seconds or, if `exact`, in nanoseconds.
fn look(top: &Path, exact: bool) -> Vec<String> {
    fn walk(top: &Path, at: &Path, exact: bool, lines: &mut Vec<String>) {
        for item in fs::read_dir(at).unwrap() {
            let path = item.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(top).unwrap();
            let what = if facts.is_dir() {
                format!("directory {:o}", facts.mode())
            } else if facts.is_symlink() {
                format!("to {:?}", fs::read_link(&path).unwrap())
            } else {
                let nanoseconds = if exact { facts.mtime_nsec() } else { 0 };
                let digest = blake3::hash(&fs::read(&path).unwrap());
                format!("{:o} {} {}.{nanoseconds} {} {digest}", facts.mode(), facts.len(), facts.mtime(), facts.nlink())
            };
            lines.push(format!("{name:?} {what}"));
            if facts.is_dir() {
                walk(top, &path, exact, lines);
            }
        }
    }
    let mut lines = Vec::new();
    walk(top, top, exact, &mut lines);
    lines.sort();
    lines
}

const KINDS: [&str; 6] = ["tar", "tar.gz", "tar.zst", "tar.xz", "tar.bz2", "tar.lz4"];

#[test]
fn there_and_back_nothing_is_lost() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = look(&tree(at), true);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in KINDS {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        expect(at, &["convert", &tar, "-o", "second.nra", "-f"], 0);
        expect(at, &["verify", "second.nra"], 0);
        for (archive, out) in [("second.nra", "a"), (tar.as_str(), "b")] {
            let out = format!("{out}-{kind}");
            expect(at, &["extract", archive, "-C", &out], 0);
            assert_eq!(look(&at.join(out), true), expected, "{kind} {archive}");
        }
        expect(at, &["verify", &tar], 0);
    }
    let listed = nra(at, &["list", "first.tar.gz"]).stdout;
    assert_eq!(nra(at, &["list", "first.nra"]).stdout, listed);
    assert_eq!(nra(at, &["cat", "first.tar.zst", "a.txt"]).stdout, b"hello\n");
}

#[test]
fn other_programs_read_what_nra_writes() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = look(&tree(at), false);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in ["tar", "tar.gz"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        let python = "import tarfile, sys\nwith tarfile.open(sys.argv[1]) as t: t.extractall(sys.argv[2], filter='tar')";
        for (program, arguments) in [
            ("tar", vec!["-xf", tar.as_str(), "-C", "out"]),
            ("bsdtar", vec!["-xf", tar.as_str(), "-C", "out"]),
            ("python3", vec!["-W", "error", "-c", python, tar.as_str(), "out"]),
        ] {
            let _ = fs::remove_dir_all(at.join("out"));
            fs::create_dir(at.join("out")).unwrap();
            let Some(output) = other(at, program, &arguments) else { continue };
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{program} {kind}: {said}");
            assert_eq!(look(&at.join("out"), false), expected, "{program} {kind}");
        }
    }
}

#[test]
fn what_other_programs_write_is_read() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = look(&tree(at), false);
    for (program, arguments) in [
        ("tar", vec!["--format=gnu", "-cf"]),
        ("tar", vec!["--format=pax", "-cf"]),
        ("tar", vec!["-czf"]),
        ("bsdtar", vec!["--format=pax", "-cf"]),
        ("bsdtar", vec!["--format=gnutar", "-cf"]),
    ] {
        let arguments = [arguments.as_slice(), &["made", "-C", "tree", "."]].concat();
        let Some(output) = other(at, program, &arguments) else { continue };
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        expect(at, &["convert", "made", "made.nra", "-f"], 0);
        for archive in ["made", "made.nra"] {
            let _ = fs::remove_dir_all(at.join("out"));
            expect(at, &["extract", archive, "-C", "out"], 0);
            assert_eq!(look(&at.join("out"), false), expected, "{program} {arguments:?} {archive}");
        }
    }
}

#[test]
fn a_pipe_goes_through() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    let convert = |input: &str, arguments: &[&str]| {
        let stdin = fs::File::open(at.join(input)).unwrap();
        Command::new(NRA).args(arguments).current_dir(at).stdin(stdin).output().unwrap()
    };
    let out = convert("first.tar.gz", &["convert", "-", "-"]);
    assert!(out.status.success());
    fs::write(at.join("piped.nra"), out.stdout).unwrap();
    assert_eq!(nra(at, &["list", "piped.nra"]).stdout, nra(at, &["list", "first.nra"]).stdout);
    let out = convert("piped.nra", &["convert", "-", "-", "--to", "tar"]);
    assert!(out.status.success());
    fs::write(at.join("piped.tar"), out.stdout).unwrap();
    expect(at, &["verify", "piped.tar"], 0);
    let out = convert("first.tar.gz", &["convert", "-"]);
    assert_eq!(out.status.code(), Some(2), "without a name for the output");
}

#[test]
fn damage_leaves_nothing_unless_asked() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in ["tar", "tar.gz", "tar.zst"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        let bytes = fs::read(at.join(&tar)).unwrap();
        let cut = format!("cut.{kind}");
        fs::write(at.join(&cut), &bytes[..bytes.len() / 2]).unwrap();
        let said = expect(at, &["convert", &cut, "cut.nra"], 4);
        assert!(said.contains("truncated") && said.contains("--keep-going"), "{said}");
        assert!(!at.join("cut.nra").exists());
        expect(at, &["convert", &cut, "cut.nra", "--keep-going"], 4);
        expect(at, &["verify", "cut.nra"], 0);
        fs::remove_file(at.join("cut.nra")).unwrap();
        // The reading face serves what came before.
        expect(at, &["list", &cut], 4);
    }
    let names: Vec<_> = fs::read_dir(at).unwrap().map(|item| item.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{names:?}");
}

#[test]
fn entries_that_do_not_read_are_left_out_and_counted() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // Content that does not shrink lies in the archive as it is, each file as a piece of its own.
    let noise =
        |seed: u32| (0..3_000u32).map(|i| (i.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, seed) in [("a", 1), ("b", 5_000), ("c", 10_000)] {
        fs::write(at.join("tree").join(name), noise(seed)).unwrap();
    }
    expect(at, &["pack", "tree", "-o", "whole.nra"], 0);
    let mut bytes = fs::read(at.join("whole.nra")).unwrap();
    let hit = noise(5_000);
    let place = bytes.windows(hit.len()).position(|window| window == hit).expect("stored as it is");
    bytes[place + 1_000] ^= 1;
    fs::write(at.join("hurt.nra"), bytes).unwrap();
    expect(at, &["convert", "hurt.nra", "out.nra"], 4);
    assert!(!at.join("out.nra").exists());
    let said = expect(at, &["convert", "hurt.nra", "out.nra", "--keep-going"], 4);
    assert!(said.contains(", 1 skipped") && said.contains("b: skipped"), "{said}");
    expect(at, &["verify", "out.nra"], 0);
}

#[test]
fn limits_end_the_work_with_the_option_that_raises_them() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    for (option, value) in [("--limit-entries", "3"), ("--limit-size", "1000")] {
        for input in ["first.nra", "first.tar.gz"] {
            let said = expect(at, &["convert", input, "limited.nra", option, value], 1);
            assert!(said.contains(option), "{said}");
            assert!(!at.join("limited.nra").exists());
        }
    }
    // Entries are those that `list` tells, without the directory above them.
    if other(at, "tar", &["-cf", "top.tar", "-C", "tree", "."]).is_some_and(|output| output.status.success()) {
        let listed = nra(at, &["list", "top.tar"]).stdout.iter().filter(|&&byte| byte == b'\n').count();
        for (limit, code) in [(listed - 1, 1), (listed, 0)] {
            for output in ["limited.nra", "limited.tar"] {
                expect(at, &["convert", "top.tar", output, "--limit-entries", &limit.to_string()], code);
            }
        }
    }
}

#[test]
fn what_grows_too_much_ends_whatever_comes_in_and_goes_out() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::File::create(at.join("tree/hole")).unwrap().set_len(40 << 30).unwrap();
    fs::write(at.join("tree/small"), "x").unwrap();
    if fs::metadata(at.join("tree/hole")).unwrap().blocks() != 0 {
        common::skip("no holes here");
        return;
    }
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    // Blocks that move as they are do not grow.
    expect(at, &["convert", "first.nra", "moved.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar", "--limit-ratio", "100000000"], 0);
    for input in ["first.nra", "first.tar"] {
        for output in ["out.tar", "out.zip", "out.nra4", "out.nra"] {
            for further in [&[][..], &["--keep-going"]] {
                let level: &[&str] = if output == "out.tar" { &[] } else { &["-l", "1"] };
                let said = expect(at, &[&["convert", input, output], level, further].concat(), 1);
                assert!(said.contains("use --limit-ratio to raise the limit"), "{input} {output}: {said}");
                assert!(!at.join(output).exists());
            }
        }
    }
    expect(at, &["convert", "first.tar", "back.nra", "--limit-ratio", "100000000"], 0);
}

#[test]
fn a_limit_on_reading_is_raised_by_an_option() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // 1.1 GiB of zero bytes in some hundred frames of zstd, each the same.
    let frame = zstd_frame(&vec![0; 16 << 20]);
    fs::write(at.join("zeros.zst"), frame.repeat(70)).unwrap();
    for command in ["list", "verify"] {
        let said = expect(at, &[command, "zeros.zst"], 1);
        assert!(said.contains("use --limit-ratio to raise the limit"), "{command}: {said}");
        expect(at, &[command, "zeros.zst", "--limit-ratio", "100000000"], 0);
    }
}

/// Compresses with zstd.
fn zstd_frame(content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    zstd_safe::compress(&mut frame, content, 3).unwrap();
    frame
}

#[test]
fn holes_of_short_files_stay_holes() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    let file = fs::File::create(at.join("tree/short")).unwrap();
    file.set_len(100_000).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    let blocks = fs::metadata(at.join("tree/short")).unwrap().blocks();
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "second.nra", "-l", "1"], 0);
    for archive in ["first.nra", "second.nra"] {
        expect(at, &["extract", archive, "-C", archive.trim_end_matches(".nra")], 0);
    }
    assert_eq!(fs::metadata(at.join("first/short")).unwrap().blocks(), blocks);
    assert_eq!(fs::metadata(at.join("second/short")).unwrap().blocks(), blocks);
}

#[test]
fn one_compressed_file_is_an_archive_of_one_entry() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::write(at.join("notes.txt"), "some notes\n").unwrap();
    let Some(output) = other(at, "gzip", &["-k", "notes.txt"]) else { return };
    assert!(output.status.success());
    assert_eq!(nra(at, &["list", "notes.txt.gz"]).stdout, b"notes.txt\n");
    assert_eq!(nra(at, &["cat", "notes.txt.gz", "notes.txt"]).stdout, b"some notes\n");
    expect(at, &["convert", "notes.txt.gz"], 0);
    assert_eq!(nra(at, &["cat", "notes.txt.nra", "notes.txt"]).stdout, b"some notes\n");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for (kind, extra) in [("nra", &["--reproducible"][..]), ("tar.gz", &[]), ("tar.zst", &[])] {
        let outputs = ["1", "3"].map(|threads| {
            let out = format!("t{threads}.{kind}");
            expect(at, &[&["convert", "first.nra", &out, "-j", threads], extra].concat(), 0);
            fs::read(at.join(out)).unwrap()
        });
        assert!(outputs[0] == outputs[1], "{kind}");
    }
}

/// Bytes of content as stored.
fn stored_bytes(folder: &Path, archive: &str) -> u64 {
    let output = nra(folder, &["info", archive, "--json", "--password", "x"]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    info["stored_bytes"].as_u64().unwrap()
}

#[test]
fn blocks_move_between_archives_as_they_are() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = look(&tree(at), true);
    // Not the level that converting would take by itself.
    expect(at, &["pack", "tree", "-o", "first.nra", "-l", "1", "-m", "the first"], 0);
    expect(at, &["attr", "first.nra", "set", "label=5", "--entry", "none"], 0);
    let before = stored_bytes(at, "first.nra");
    let said = expect(at, &["convert", "first.nra", "moved.nra"], 3);
    assert!(said.contains("earlier commits are not kept"), "{said}");
    let said = expect(at, &["convert", "moved.nra", "locked.nra", "-e", "--password", "x"], 0);
    assert!(!said.contains("is encrypted"), "{said}");
    let said = expect(at, &["convert", "locked.nra", "open.nra", "--password", "x"], 0);
    assert!(said.contains("the input is encrypted, what is made of it is not"), "{said}");
    for archive in ["moved.nra", "locked.nra", "open.nra"] {
        assert_eq!(stored_bytes(at, archive), before, "{archive}");
        expect(at, &["verify", archive, "--password", "x"], 0);
        let out = format!("out-{archive}");
        expect(at, &["extract", archive, "-C", &out, "--password", "x"], 0);
        assert_eq!(look(&at.join(out), true), expected, "{archive}");
        let attributes = nra(at, &["attr", archive, "--entry", "none", "--password", "x"]).stdout;
        assert_eq!(String::from_utf8_lossy(&attributes), "none: label=5\n", "{archive}");
    }
    expect(at, &["convert", "first.nra", "anew.nra", "-l", "19"], 3);
    assert!(stored_bytes(at, "anew.nra") < before);
    expect(at, &["extract", "anew.nra", "-C", "out-anew"], 0);
    assert_eq!(look(&at.join("out-anew"), true), expected);
    // Limits and what is kept of entries hold here too.
    expect(at, &["convert", "first.nra", "x.nra", "--limit-entries", "3"], 1);
    expect(at, &["convert", "moved.nra", "bare.nra", "--no-times", "--no-owner"], 0);
    let listed = String::from_utf8(nra(at, &["list", "bare.nra", "--json"]).stdout).unwrap();
    assert!(!listed.contains("\"mtime\"") && !listed.contains("\"uid\""), "{listed}");
}

#[test]
fn a_name_that_exists_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar"], 0);
    assert!(expect(at, &["convert", "first.tar"], 1).contains("use -f to replace"));
    assert!(expect(at, &["convert", "first.nra", "first.nra", "-f"], 2).contains("is the input"));
    expect(at, &["convert", "first.nra", "first.tar", "-f"], 0);
}

#[test]
fn a_name_of_what_is_not_written_is_refused() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for output in ["out.7z", "out.rar", "out.gz", "out.JAR", "out.tar.lzma"] {
        let said = expect(at, &["convert", "first.nra", output], 2);
        assert!(said.contains(&format!("cannot write {output}")) && said.contains(".tar.zst"), "{said}");
        assert!(!at.join(output).exists());
    }
    expect(at, &["convert", "first.nra", "out.jar", "--to", "zip"], 3);
    expect(at, &["convert", "first.nra", "out.data"], 0);
}

#[test]
fn options_without_effect_are_told() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for (output, option, value, has_effect) in [
        ("x.tar", "--level", "3", false),
        ("x.tar.xz", "--level", "0", true),
        ("x.tar.gz", "--codec", "zstd", false),
        ("x.zip", "--preset", "dense", false),
        ("x.zip", "--codec", "zstd", true),
    ] {
        let output = nra(at, &["convert", "first.nra", output, "-f", option, value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 2), "{said}");
        assert_eq!(said.contains(&format!("{option} has no effect on")), !has_effect, "{said}");
    }
    assert!(expect(at, &["convert", "first.nra", "x.tar.lz4", "-f", "-l", "3"], 2).contains("lz4 has no compression levels"));
}

#[test]
fn a_key_encrypts_what_was_plain() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    for input in ["first.nra", "first.tar.gz"] {
        let said = expect(at, &["convert", input, "sealed.nra", "-f", "--password", "x"], 0);
        assert!(said.contains("it is not encrypted, so the key encrypts"), "{said}");
        expect(at, &["list", "sealed.nra"], 5);
        // The key of an encrypted one opens it, and -e alone encrypts again.
        let said = expect(at, &["convert", "sealed.nra", "plain.nra", "-f", "--password", "x"], 0);
        assert!(said.contains("the input is encrypted, what is made of it is not"), "{said}");
        expect(at, &["list", "plain.nra"], 0);
    }
    let said = expect(at, &["convert", "first.nra", "out.tar", "--password", "x"], 0);
    assert!(said.contains("not encrypted; the key was not used"), "{said}");
}

#[test]
fn an_archive_that_nobody_takes_whole_is_no_success() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra", "--codec", "none"], 0);
    for arguments in
        [&["convert", "first.nra", "-", "--to", "tar"][..], &["convert", "first.nra", "-"], &["pack", "tree", "-o", "-"]]
    {
        let mut child =
            Command::new(NRA).args(arguments).current_dir(at).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && said.contains("cannot write the archive: broken pipe"), "{arguments:?}: {said}");
    }
}

#[test]
fn an_earlier_commit_has_its_number_in_the_name() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["rm", "first.nra", "a.txt"], 0);
    for arguments in [&["convert", "first.nra@1"][..], &["convert", "first.nra", "--at", "1", "-f"]] {
        expect(at, arguments, 0);
        expect(at, &["info", "first@1.nra"], 0);
        fs::remove_file(at.join("first@1.nra")).unwrap();
    }
}

#[test]
fn a_warning_about_the_whole_names_the_input() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["rm", "first.nra", "a.txt"], 0);
    for output in ["out.nra", "out.tar"] {
        let said = expect(at, &["convert", "first.nra", output], 3);
        assert!(said.contains("warning: first.nra: earlier commits are not kept"), "{said}");
    }
}

/// Rows of the table in `docs/convert.md` that say what is lost, by the column of the target, but for what is told once for all entries.
fn lost(column: usize) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/convert.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    cells
        .filter(|cells| {
            cells.len() == 6
                && (cells[column] == "lost" || cells[column] == "zero bytes")
                && !["fractions of a second", "names of owners", "modes, owners, times"].contains(&cells[0])
                && !cells[0].starts_with("`shard:")
        })
        .map(|cells| cells[0].to_owned())
        .collect()
}

#[test]
fn every_loss_of_the_table_is_told() {
    use nra::format::entry::{Attribute, Device, Entry, Kind, Metadata, Namespace};
    use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
    use nra::format::path::EntryPath;
    use nra::format::progress::Recorder;

    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let tag = Attribute { namespace: Namespace::User, name: b"tag"[..].into(), value: b"1"[..].into() };
    let write = |name: &str, options: WriterOptions, entry: Entry| {
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        writer.add(entry, NewContent::None).unwrap();
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        fs::write(at.join(name), bytes).unwrap();
    };
    let file = || Entry::new(EntryPath::try_from("file").unwrap(), Kind::File);
    let mut tagged = file();
    tagged.metadata = Metadata { mode: 0o644, attributes: vec![tag.clone()].into(), ..Metadata::default() }.into();
    write("tags and properties of entries", WriterOptions::default(), tagged);
    write("attributes of the archive", WriterOptions { attributes: vec![tag], ..WriterOptions::default() }, file());
    let mut device = Entry::new(EntryPath::try_from("device").unwrap(), Kind::BlockDevice);
    device.device = Some(Device { major: 1 << 22, minor: 0 });
    write("device numbers above 2,097,151", WriterOptions::default(), device);
    write("earlier commits", WriterOptions::default(), file());
    fs::write(at.join("more"), "more").unwrap();
    expect(at, &["add", "earlier commits", "more"], 0);
    for (name, namespace) in
        [("access control lists written as text", Namespace::Foreign), ("extended attributes", Namespace::Xattr)]
    {
        let mut marked = file();
        let attribute = Attribute { namespace, name: b"SCHILY.acl.access"[..].into(), value: b"user::rw-"[..].into() };
        marked.metadata = Metadata { mode: 0o644, attributes: vec![attribute].into(), ..Metadata::default() }.into();
        write(name, WriterOptions::default(), marked);
    }
    write("devices and pipes", WriterOptions::default(), Entry::new(EntryPath::try_from("pipe").unwrap(), Kind::Fifo));
    let mut link = Entry::new(EntryPath::try_from("link").unwrap(), Kind::Symlink);
    link.target = b"file".as_slice().into();
    write("symlinks and empty directories", WriterOptions::default(), link);
    fs::File::create(at.join("file")).unwrap().set_len(3 << 20).unwrap();
    let whole_seconds = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(at.join("file")).unwrap().set_modified(whole_seconds).unwrap();
    expect(at, &["pack", "file", "-o", "holes"], 0);
    let words = |row: &str, kind: &str| match row {
        "tags and properties of entries" | "access control lists written as text" | "extended attributes" => {
            format!("file: an attribute can't be kept in a {kind}")
        }
        "attributes of the archive" => format!("attributes of the archive can't be kept in a {kind}"),
        "earlier commits" => "earlier commits are not kept".to_owned(),
        "device numbers above 2,097,151" => format!("device: the numbers of a device are too large to be kept in a {kind}"),
        "devices and pipes" if kind == "Shard file" => "pipe: skipped: a Shard file holds nothing but files".to_owned(),
        "devices and pipes" => format!("pipe: skipped: a {kind} holds no devices and pipes"),
        "symlinks and empty directories" => format!("link: skipped: a {kind} holds nothing but files"),
        "holes" => format!("file: its holes are filled with zero bytes in a {kind}"),
        row => panic!("a row that nothing is known of: {row}"),
    };
    let [tar, zip, native, earlier, shard] = [1, 2, 3, 4, 5].map(lost);
    assert_eq!((tar.len(), zip.len()), (4, 7), "{tar:?} {zip:?}");
    // Times of access and change go without a word.
    let silent = "time of access, time of change";
    assert_eq!(native, ["earlier commits", silent]);
    assert_eq!(earlier, ["attributes of the archive", "earlier commits", "holes", silent]);
    assert_eq!(shard.len(), 9, "{shard:?}");
    for (rows, out, kind) in [
        (&tar, "out.tar", "tar archive"),
        (&zip, "out.zip", "zip archive"),
        (&native, "out.nra", ""),
        (&earlier, "out.nra4", "file of NRA 4.5"),
        (&shard, "out.shard", "Shard file"),
    ] {
        for row in rows.iter().filter(|row| *row != silent) {
            let said = expect(at, &["convert", row, out, "-f"], 3);
            assert!(said.contains(&words(row, kind)), "{row} to {out}: {said}");
            // Nothing else is lost, but for what is told once for all entries.
            let once = |line: &&str| line.contains("names of owners") || line.contains("modes, times and owners");
            let told = said.lines().filter(|line| line.contains("warning:") && !once(line)).count();
            assert_eq!(told, 1, "{row} to {out}: {said}");
        }
    }
    // What only the others can't hold is kept here.
    for row in tar.iter().chain(&zip).chain(&shard).filter(|row| !native.contains(row)) {
        expect(at, &["convert", row, "out.nra", "-f"], 0);
    }
    write("nothing special", WriterOptions::default(), file());
    expect(at, &["convert", "nothing special", "out.tar", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.zip", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.nra4", "-f"], 0);
    expect(at, &["convert", "nothing special", "out.shard", "-f"], 0);
}

#[test]
fn comments_become_messages_and_back() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "a").unwrap();
    expect(at, &["pack", "tree", "-o", "first.nra", "-m", "först"], 0);
    let message = |archive: &str| {
        let output = nra(at, &["info", archive, "--json"]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        info["message"].as_str().unwrap().to_owned()
    };
    for kind in ["tar", "tar.gz", "zip"] {
        let (kept, given) = (format!("kept.{kind}"), format!("given.{kind}"));
        expect(at, &["convert", "first.nra", &kept], 0);
        expect(at, &["convert", "first.nra", &given, "-m", "another"], 0);
        assert_eq!((message(&kept).as_str(), message(&given).as_str()), ("först", "another"), "{kind}");
        expect(at, &["convert", &given, "back.nra", "-f"], 0);
        assert_eq!(message("back.nra"), "another", "{kind}");
        expect(at, &["convert", &given, "back.nra", "-f", "-m", "mine"], 0);
        assert_eq!(message("back.nra"), "mine", "{kind}");
    }
    // Other programs take the comment for one.
    for (program, arguments) in [
        ("tar", &["-tf", "kept.tar"][..]),
        ("bsdtar", &["-tf", "kept.tar.gz"]),
        ("unzip", &["-tqq", "kept.zip"]),
        ("7zz", &["t", "-bso0", "kept.zip"]),
        ("python3", &["-W", "error", "-c", "import tarfile\nwith tarfile.open('kept.tar') as t: assert t.getnames() == ['a']"]),
        ("python3", &["-c", "import zipfile\nwith zipfile.ZipFile('kept.zip') as z: assert z.comment.decode() == 'först'"]),
    ] {
        let Some(output) = other(at, program, arguments) else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
    }
    expect(at, &["convert", "first.nra", "out.shard", "-m", "x"], 0);
    assert_eq!(message("out.shard"), "x");
}

#[test]
fn the_top_directory_comes_along() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "a").unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    fs::set_permissions(at.join("tree"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::File::open(at.join("tree")).unwrap().set_modified(time).unwrap();
    let Some(output) = other(at, "tar", &["-cf", "made.tar", "-C", "tree", "."]) else { return };
    assert!(output.status.success());
    expect(at, &["convert", "made.tar", "made.nra"], 0);
    expect(at, &["convert", "made.tar", "plain.nra", "--no-times"], 0);
    let look = |archive: &str, out: &str| {
        expect(at, &["extract", archive, "-C", out], 0);
        let facts = fs::metadata(at.join(out)).unwrap();
        (facts.mode() & 0o7777, facts.mtime())
    };
    assert_eq!(look("made.tar", "from-tar"), (0o750, 1_500_000_000));
    assert_eq!(look("made.nra", "from-nra"), (0o750, 1_500_000_000));
    let (mode, seconds) = look("plain.nra", "without-times");
    assert!(mode == 0o750 && seconds > 1_500_000_000, "{mode:o} {seconds}");
    // The way from NRA to NRA keeps no more than it is asked for.
    expect(at, &["convert", "made.nra", "again.nra", "--no-times"], 0);
    assert!(look("again.nra", "again").1 > 1_500_000_000);
}

#[test]
fn holes_stay_holes_in_tar() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    for (name, starts) in [("tree/middle", &[100_000u64, 5 << 20][..]), ("tree/end", &[0]), ("tree/all", &[])] {
        let file = fs::File::create(at.join(name)).unwrap();
        starts.iter().for_each(|&start| file.write_all_at(&[7; 70_000], start).unwrap());
        file.set_len(8 << 20).unwrap();
    }
    let has_holes = fs::metadata(at.join("tree/all")).unwrap().blocks() == 0;
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for kind in ["tar", "tar.zst"] {
        let tar = format!("first.{kind}");
        expect(at, &["convert", "first.nra", &tar], 0);
        expect(at, &["convert", &tar, "-o", "second.nra", "-f"], 0);
        for archive in [tar.as_str(), "second.nra"] {
            expect(at, &["extract", archive, "-C", "out"], 0);
            assert_eq!(look(&at.join("out"), true), look(&at.join("tree"), true), "{archive}");
            assert!(!has_holes || fs::metadata(at.join("out/all")).unwrap().blocks() == 0, "{archive}");
            fs::remove_dir_all(at.join("out")).unwrap();
        }
    }
    assert!(!has_holes || fs::metadata(at.join("first.tar")).unwrap().len() < 1 << 20);
    // Through tar alone, too.
    expect(at, &["convert", "first.tar", "again.tar"], 0);
    assert_eq!(fs::read(at.join("first.tar")).unwrap(), fs::read(at.join("again.tar")).unwrap());
    let python = "import tarfile, sys\nwith tarfile.open('first.tar') as t: t.extractall('out', filter='tar')";
    for (program, arguments) in [
        ("tar", vec!["-xf", "first.tar", "-C", "out"]),
        ("bsdtar", vec!["-xf", "first.tar", "-C", "out"]),
        ("python3", vec!["-W", "error", "-c", python]),
    ] {
        fs::create_dir(at.join("out")).unwrap();
        if let Some(output) = other(at, program, &arguments) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{program}: {said}");
            assert_eq!(look(&at.join("out"), false), look(&at.join("tree"), false), "{program}");
        }
        fs::remove_dir_all(at.join("out")).unwrap();
    }
}

/// Makes a zip archive of one empty member, as a program of DOS would.
fn dos_zip(name: &[u8]) -> Vec<u8> {
    let len = u16::try_from(name.len()).unwrap().to_le_bytes();
    let local = [b"PK\x03\x04\x14\0\0\0\0\0", &[0, 0, 0x21, 0][..], &[0; 12], &len, &[0; 2], name].concat();
    let central = [b"PK\x01\x02\x14\0\x14\0", &[0; 4][..], &[0, 0, 0x21, 0], &[0; 12], &len, &[0; 16], name].concat();
    let sizes = [(central.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    [&local[..], &central, b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &sizes, &[0; 2]].concat()
}

#[test]
fn targets_that_hard_links_repeat_count_as_content() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut tar = tar::Builder::new(Vec::new());
    let mut append = |name: &str, kind: tar::EntryType, target: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o777);
        tar.append_link(&mut header, name, target).unwrap();
    };
    append("link", tar::EntryType::Symlink, &"t/".repeat(1_500));
    for number in 0..10 {
        append(&format!("name{number}"), tar::EntryType::Link, "link");
    }
    fs::write(at.join("links.tar"), tar.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "links.tar", "out.nra", "--limit-size", "20K"], 1);
    expect(at, &["convert", "links.tar", "out.nra", "--limit-size", "40K"], 0);
    assert_eq!(nra(at, &["list", "out.nra"]).stdout.iter().filter(|&&byte| byte == b'\n').count(), 11);
}

#[test]
fn names_come_from_the_encoding_that_is_told() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..4].copy_from_slice(b"\x93\xfa\x96{");
    header.set_size(0);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, &[][..]).unwrap();
    fs::write(at.join("japan.tar"), tar.into_inner().unwrap()).unwrap();
    fs::write(at.join("japan.zip"), dos_zip(b"\x93\xfa\x96{")).unwrap();
    fs::write(at.join("old.zip"), dos_zip(b"\x81ber\\a")).unwrap();
    for (archive, names, expected) in [
        ("old.zip", &[][..], "über\nüber/a\n"),
        ("old.zip", &["--names", "cp866"], "Бber\nБber/a\n"),
        ("japan.zip", &["--names", "shift_jis"], "日本\n"),
        ("japan.tar", &["--names", "cp932"], "日本\n"),
    ] {
        let listed = nra(at, &[&["list", archive], names].concat()).stdout;
        assert_eq!(String::from_utf8_lossy(&listed), expected, "{archive} {names:?}");
        expect(at, &[&["convert", archive, "out.nra", "-f"], names].concat(), 0);
        assert_eq!(String::from_utf8_lossy(&nra(at, &["list", "out.nra"]).stdout), expected, "{archive} {names:?}");
    }
    expect(at, &["extract", "japan.zip", "--names", "sjis", "-C", "out"], 0);
    assert!(at.join("out/日本").exists());
    let said = expect(at, &["list", "japan.zip", "--names", "klingon"], 2);
    assert!(said.contains("shift_jis"), "{said}");
}

#[test]
fn a_kind_can_be_told_and_a_name_that_misleads_is_remarked() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar.gz"], 0);
    fs::rename(at.join("first.tar.gz"), at.join("first.zip")).unwrap();
    for line in [&["list", "first.zip"][..], &["convert", "first.zip", "a.nra"], &["convert", "first.zip", "a.tar"]] {
        let said = expect(at, line, 0);
        assert_eq!(said.matches("its name ends with .zip, but it is tar, gzip").count(), 1, "{line:?}: {said}");
    }
    assert_eq!(expect(at, &["list", "first.zip", "-q"], 0), "");
    assert!(!expect(at, &["list", "first.nra"], 0).contains("its name"));
    let said = expect(at, &["convert", "first.zip", "b.nra", "--from", "zip"], 4);
    assert!(said.contains("not zip: it looks like gzip"), "{said}");
    expect(at, &["convert", "first.zip", "b.nra", "--from", "tar.gz"], 0);
    expect(at, &["list", "first.zip", "--from", "rar"], 2);
    // A zip archive in whose front another one stands can't be told from a pipe's first bytes.
    expect(at, &["convert", "first.nra", "inner.zip"], 3);
    let both = [fs::read(at.join("first.zip")).unwrap(), fs::read(at.join("inner.zip")).unwrap()].concat();
    fs::write(at.join("both"), both).unwrap();
    let stdin = fs::File::open(at.join("both")).unwrap();
    let line = ["convert", "-", "-o", "c.nra", "--from", "zip"];
    let status = Command::new(NRA).args(line).current_dir(at).stdin(stdin).output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert_eq!(nra(at, &["cat", "c.nra", "a.txt"]).stdout, b"hello\n");
}

#[test]
fn a_tar_archive_keeps_the_order_of_another_one() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let names = ["p/", "p/b/", "p/b/empty", "p/a/", "p/a/3", "p/a/1", "p/a/none/", "q"];
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_ustar();
        let is_directory = name.ends_with('/');
        header.set_entry_type(if is_directory { tar::EntryType::Directory } else { tar::EntryType::Regular });
        header.set_mode(0o755);
        let content: &[u8] = if is_directory || name.ends_with("empty") { b"" } else { b"content" };
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content).unwrap();
    }
    fs::write(at.join("first.tar"), builder.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "first.tar", "second.tar"], 0);
    let bytes = fs::read(at.join("second.tar")).unwrap();
    let mut archive = tar::Archive::new(&bytes[..]);
    let found: Vec<_> = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(found, names.map(PathBuf::from));
}

/// Writes a tar archive of files (with their content), links (with their target) and directories.
fn records(records: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for &(name, kind, what) in records {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        if kind.is_file() {
            header.set_size(what.len() as u64);
            builder.append_data(&mut header, name, what.as_bytes()).unwrap();
        } else if kind.is_dir() {
            builder.append_data(&mut header, name, &[][..]).unwrap();
        } else {
            builder.append_link(&mut header, name, what).unwrap();
        }
    }
    builder.into_inner().unwrap()
}

#[test]
fn what_comes_last_has_the_name_also_of_a_link_that_waits() {
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let (link, target) = (("l", Link, "t"), ("t", Regular, "of t"));
    for (case, list) in [
        vec![link, target, ("l", Regular, "own")],
        vec![link, ("l", Regular, "own"), target],
        vec![link, ("l", Directory, ""), target],
        vec![link, ("l", Symlink, "u"), target],
        vec![link, ("l", Link, "u"), ("u", Regular, "of u"), target],
        vec![("m", Link, "l"), link, ("l", Regular, "own"), target],
    ]
    .into_iter()
    .enumerate()
    {
        let (tar, archive) = (format!("{case}.tar"), format!("{case}.nra"));
        fs::write(at.join(&tar), records(&list)).unwrap();
        let said = expect(at, &["convert", &tar, &archive], 0);
        assert!(said.contains("l: replaced"), "{case}: {said}");
        let last = list.iter().rfind(|(name, ..)| *name == "l").unwrap();
        for from in [&tar, &archive] {
            let found = nra(at, &["cat", from, "l"]).stdout;
            let expected = match last.1 {
                Regular => "own",
                Link => "of u",
                _ => "",
            };
            assert_eq!(String::from_utf8_lossy(&found), expected, "{case} {from}");
            expect(at, &["extract", from, "-C", &format!("{from}.d")], 0);
        }
        assert_eq!(look(&at.join(format!("{tar}.d")), true), look(&at.join(format!("{archive}.d")), true), "{case}");
    }
}
