//! `nra convert` to zip, read back by nra and by other programs where they are installed.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{expect, noise, nra, other};
use tempfile::TempDir;

/// Makes a tree of what zip can hold; times are whole seconds.
fn tree(top: &Path) {
    fs::create_dir_all(top.join("deep/er")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    fs::write(top.join("a.txt"), "hello hello hello hello hello\n").unwrap();
    fs::write(top.join("none"), "").unwrap();
    fs::write(top.join("noise"), noise(100_000, 1)).unwrap();
    let text: Vec<u8> = (0..400_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    fs::write(top.join("deep/text"), &text).unwrap();
    fs::write(top.join("deep/er/ünïcode"), "x").unwrap();
    fs::write(top.join("l".repeat(200)), "long").unwrap();
    symlink("a.txt", top.join("soft")).unwrap();
    symlink("nowhere/ü", top.join("dangling")).unwrap();
    fs::set_permissions(top.join("a.txt"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(top.join("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    for (name, seconds) in [("a.txt", 1_600_000_001), ("none", 315_532_800), ("noise", 2_000_000_000), ("empty", 1_234_567_890)] {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::open(top.join(name)).unwrap().set_modified(time).unwrap();
    }
}

/// What can be seen of a tree, a line for each thing; times and modes where `exact`.
fn look(top: &Path, exact: bool) -> Vec<String> {
    fn walk(top: &Path, at: &Path, exact: bool, lines: &mut Vec<String>) {
        for item in fs::read_dir(at).unwrap() {
            let path = item.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(top).unwrap();
            let (mode, time) = if exact { (facts.mode(), facts.mtime()) } else { (0, 0) };
            lines.push(if facts.is_dir() {
                format!("{name:?} directory {mode:o}")
            } else if facts.is_symlink() {
                format!("{name:?} to {:?}", fs::read_link(&path).unwrap())
            } else {
                format!("{name:?} {mode:o} {time} {}", blake3::hash(&fs::read(&path).unwrap()))
            });
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

/// Reads a zip archive with the library of Python, which compares checksums, and wants the files of `tree`.
const PYTHON: &str = r#"
import sys, zipfile, os, stat
names = set()
with zipfile.ZipFile(sys.argv[1]) as archive:
    assert archive.testzip() is None
    for info in archive.infolist():
        names.add(info.filename.rstrip("/"))
        path = os.path.join(sys.argv[2], info.filename)
        mode = info.external_attr >> 16
        facts = os.lstat(path)
        assert mode == facts.st_mode, (info.filename, oct(mode), oct(facts.st_mode))
        if stat.S_ISLNK(mode):
            assert archive.read(info).decode() == os.readlink(path)
        elif stat.S_ISREG(mode):
            with open(path, "rb") as file:
                assert archive.read(info) == file.read(), info.filename
        else:
            assert info.is_dir() and stat.S_ISDIR(mode)
wanted = {os.path.relpath(os.path.join(top, name), sys.argv[2]) for top, dirs, files in os.walk(sys.argv[2]) for name in dirs + files}
assert names == wanted, names ^ wanted
"#;

#[test]
fn there_and_back_nothing_is_lost() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    let expected = look(&at.join("tree"), true);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for (number, extra) in
        [&[][..], &["--codec", "zstd"], &["--codec", "none"], &["-l", "9"], &["--best", "--memory", "32M"]].iter().enumerate()
    {
        let zip = format!("{number}.zip");
        expect(at, &[&["convert", "first.nra", &zip], *extra].concat(), 0);
        expect(at, &["verify", &zip], 0);
        expect(at, &["convert", &zip, "back.nra", "-f"], 0);
        for (archive, out) in [("back.nra", "a"), (zip.as_str(), "b")] {
            let out = format!("{out}{number}");
            expect(at, &["extract", archive, "-C", &out], 0);
            assert_eq!(look(&at.join(out), true), expected, "{zip} {archive}");
        }
    }
    let sizes: Vec<u64> = (0..3).map(|number| fs::metadata(at.join(format!("{number}.zip"))).unwrap().len()).collect();
    assert!(sizes[0] < sizes[2] && sizes[1] < sizes[2], "{sizes:?}");
}

#[test]
fn other_programs_read_what_nra_writes() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.zip"], 0);
    for (program, arguments, exact) in [
        ("python3", vec!["-W", "error", "-c", PYTHON, "first.zip", "tree"], false),
        ("unzip", vec!["-q", "first.zip", "-d", "out"], true),
        ("bsdtar", vec!["-xpf", "first.zip", "-C", "out"], true),
        ("7zz", vec!["x", "-snld", "-oout", "first.zip"], false),
    ] {
        let _ = fs::remove_dir_all(at.join("out"));
        fs::create_dir(at.join("out")).unwrap();
        let Some(output) = other(at, program, &arguments) else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{program}: {said}");
        if program != "python3" {
            assert_eq!(look(&at.join("out"), exact), look(&at.join("tree"), exact), "{program}");
        }
    }
}

#[test]
fn a_member_longer_than_the_budget_streams() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    let text: Vec<u8> = (0..2_500_000u32).flat_map(|number| format!("{}\n", number / 7).into_bytes()).collect();
    fs::write(at.join("tree/text"), &text).unwrap();
    fs::write(at.join("tree/noise"), noise(12 << 20, 1)).unwrap();
    fs::write(at.join("tree/z"), "behind").unwrap();
    let expected = look(&at.join("tree"), true);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for codec in [&[][..], &["--codec", "zstd"], &["--codec", "none"]] {
        let line = [&["convert", "first.nra", "long.zip", "-f", "--memory", "32M"], codec].concat();
        expect(at, &line, 0);
        expect(at, &["extract", "long.zip", "-C", "out"], 0);
        assert_eq!(look(&at.join("out"), true), expected, "{codec:?}");
        fs::remove_dir_all(at.join("out")).unwrap();
        if codec == ["--codec", "zstd"] {
            continue;
        }
        let python = "import sys, zipfile\nwith zipfile.ZipFile('long.zip') as z: assert z.testzip() is None";
        for (program, arguments) in [
            ("python3", vec!["-W", "error", "-c", python]),
            ("unzip", vec!["-tqq", "long.zip"]),
            ("7zz", vec!["t", "long.zip"]),
            ("bsdtar", vec!["-tf", "long.zip"]),
        ] {
            let Some(output) = other(at, program, &arguments) else { continue };
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{program} {codec:?}: {said}");
        }
        // As it comes from a pipe, too.
        let stream = Command::new("bsdtar")
            .args(["-xOf", "-"])
            .current_dir(at)
            .stdin(fs::File::open(at.join("long.zip")).unwrap())
            .output()
            .inspect_err(|_| common::skip_peer("bsdtar"));
        if let Ok(output) = stream {
            assert!(output.status.success(), "{codec:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.stdout.len() as u64, text.len() as u64 + (12 << 20) + 6, "{codec:?}");
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_also_in_a_pipe() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    for number in 0..3_000 {
        fs::write(at.join(format!("tree/empty/{number}")), number.to_string().repeat(number % 50)).unwrap();
    }
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for extra in [&[][..], &["--codec", "zstd"], &["--reproducible"]] {
        let of = |threads: &str, out: &str| {
            let output = nra(at, &[&["convert", "first.nra", out, "--to", "zip", "-f", "-j", threads], extra].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            if out == "-" { output.stdout } else { fs::read(at.join(out)).unwrap() }
        };
        let one = of("1", "out.zip");
        assert!(one == of("4", "out.zip") && one == of("2", "-"), "{extra:?}");
    }
    let listed = nra(at, &["list", "-l", "out.zip", "--json"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).contains("\"user_id\""), "--reproducible keeps no owner");
}

#[test]
fn many_members_need_the_wide_end() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // 70,000 members from a tar archive made here: no need to create the files.
    let mut builder = tar::Builder::new(Vec::new());
    for number in 0..70_000u32 {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{number}"), &[][..]).unwrap();
    }
    fs::write(at.join("many.tar"), builder.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "many.tar", "many.zip"], 0);
    let listed = nra(at, &["list", "many.zip"]).stdout;
    assert_eq!(listed.iter().filter(|&&byte| byte == b'\n').count(), 70_000);
    let python = "import zipfile\nwith zipfile.ZipFile('many.zip') as z: assert len(z.infolist()) == 70000";
    let Some(output) = other(at, "python3", &["-W", "error", "-c", python]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_zip_does_not_hold_is_told() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "content").unwrap();
    fs::hard_link(at.join("tree/a"), at.join("tree/b")).unwrap();
    let mut holes = fs::File::create(at.join("tree/holes")).unwrap();
    holes.write_all(b"start").unwrap();
    holes.set_len(4 << 20).unwrap();
    let fifo = Command::new("mkfifo").arg(at.join("tree/pipe")).status().is_ok_and(|status| status.success());
    expect(at, &["pack", "tree", "-o", "first.nra", "--tag", "colour=red"], 0);
    let said = expect(at, &["convert", "first.nra", "first.zip"], 3);
    for part in ["b: a hard link", "holes: its holes", "a: an attribute"].iter().chain(fifo.then_some(&"pipe: skipped")) {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(nra(at, &["cat", "first.zip", "b"]).stdout, b"content");
    let mut expected = b"start".to_vec();
    expected.resize(4 << 20, 0);
    assert!(nra(at, &["cat", "first.zip", "holes"]).stdout == expected);
    // Only what the system gives to every file: a remark, and all is well.
    fs::create_dir(at.join("plain")).unwrap();
    fs::write(at.join("plain/a"), "content").unwrap();
    expect(at, &["pack", "plain"], 0);
    expect(at, &["convert", "plain.nra", "plain.zip"], 0);
}

#[test]
fn damage_and_mistakes_leave_nothing() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    expect(at, &["pack", "tree", "-o", "first.nra", "--codec", "none"], 0);
    let mut bytes = fs::read(at.join("first.nra")).unwrap();
    let content = noise(100_000, 1);
    let place = bytes.windows(64).position(|window| window == &content[..64]).unwrap();
    bytes[place] ^= 1;
    fs::write(at.join("hurt.nra"), bytes).unwrap();
    let said = expect(at, &["convert", "hurt.nra", "hurt.zip"], 4);
    assert!(said.contains("noise") && said.contains("--keep-going"), "{said}");
    assert!(!at.join("hurt.zip").exists());
    expect(at, &["convert", "hurt.nra", "hurt.zip", "--keep-going"], 4);
    expect(at, &["verify", "hurt.zip"], 0);
    let listed = nra(at, &["list", "hurt.zip"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).lines().any(|line| line == "noise"));
    for (extra, part) in [
        (&["-e"][..], "only NRA archives can be encrypted"),
        (&["--codec", "lz4"], "zip archives do not support lz4"),
        (&["-l", "15"], "--level 15 is out of range for deflate (1 to 9)"),
    ] {
        let said = expect(at, &[&["convert", "first.nra", "no.zip"], extra].concat(), 2);
        assert!(said.contains(part), "{said}");
        assert!(!at.join("no.zip").exists());
    }
    assert!(expect(at, &["convert", "first.nra", "first.zip", "--limit-entries", "2"], 1).contains("--limit-entries"));
    assert!(!at.join("first.zip").exists());
}

#[test]
fn a_long_member_that_does_not_read_is_left_out_as_a_short_one() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "first").unwrap();
    fs::write(at.join("tree/b"), noise(12 << 20, 1)).unwrap();
    fs::write(at.join("tree/c"), "last").unwrap();
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "odd.zip", "--codec", "none"], 0);
    // Its method becomes one that nobody knows.
    let mut bytes = fs::read(at.join("odd.zip")).unwrap();
    for (mark, name, method) in [(b"PK\x03\x04", 30, 8), (b"PK\x01\x02", 46, 10)] {
        let is_header = |at: &usize| bytes[*at..].starts_with(mark) && bytes.get(at + name) == Some(&b'b');
        let start = (0..bytes.len()).find(is_header).expect("a header of b");
        bytes[start + method] = 77;
    }
    fs::write(at.join("odd.zip"), bytes).unwrap();
    for output in ["out.zip", "out.tar", "out.nra"] {
        let said = expect(at, &["convert", "odd.zip", output, "--memory", "32M"], 4);
        assert!(said.contains("(entry b) is not supported"), "{output}: {said}");
        let said = expect(at, &["convert", "odd.zip", output, "--memory", "32M", "--keep-going"], 3);
        assert!(said.contains("b: skipped"), "{output}: {said}");
        assert_eq!(nra(at, &["list", output]).stdout, b"a\nc\n", "{output}");
    }
}
