//! Zip archives, read back by nra and by other programs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::tree::{Facts, describe};
use crate::common::{expect, noise, nra, other, skip_peer};
use crate::count_entries;

/// What a zip archive keeps.
const EXACT: Facts = Facts {
    file_modes: true,
    directory_modes: true,
    file_times: true,
    directory_times: false,
    nanoseconds: false,
    links: false,
    owners: false,
    attributes: false,
};

/// Creates a tree that a zip archive can hold completely. Times are whole seconds.
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

/// Reads a zip archive with the Python library, which compares checksums, and compares it with a directory.
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
fn round_trip_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    let expected = describe(&at.join("tree"), EXACT);
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
            assert_eq!(describe(&at.join(out), EXACT), expected, "{zip} {archive}");
        }
    }
    let sizes: Vec<u64> = (0..3).map(|number| fs::metadata(at.join(format!("{number}.zip"))).unwrap().len()).collect();
    assert!(sizes[0] < sizes[2] && sizes[1] < sizes[2], "{sizes:?}");
}

#[test]
fn other_programs_read_written_archives() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.zip"], 0);
    for (program, arguments, facts) in [
        ("python3", vec!["-W", "error", "-c", PYTHON, "first.zip", "tree"], Facts::default()),
        ("unzip", vec!["-q", "first.zip", "-d", "out"], EXACT),
        ("bsdtar", vec!["-xpf", "first.zip", "-C", "out"], EXACT),
        ("7zz", vec!["x", "-snld", "-oout", "first.zip"], Facts::default()),
    ] {
        let _ = fs::remove_dir_all(at.join("out"));
        fs::create_dir(at.join("out")).unwrap();
        let Some(output) = other(at, program, &arguments) else { continue };
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{program}: {stderr}");
        if program != "python3" {
            assert_eq!(describe(&at.join("out"), facts), describe(&at.join("tree"), facts), "{program}");
        }
    }
}

#[test]
fn members_longer_than_memory_are_streamed() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    let text: Vec<u8> = (0..2_500_000u32).flat_map(|number| format!("{}\n", number / 7).into_bytes()).collect();
    fs::write(at.join("tree/text"), &text).unwrap();
    fs::write(at.join("tree/noise"), noise(12 << 20, 1)).unwrap();
    fs::write(at.join("tree/z"), "last").unwrap();
    let expected = describe(&at.join("tree"), EXACT);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    for codec in [&[][..], &["--codec", "zstd"], &["--codec", "none"]] {
        let line = [&["convert", "first.nra", "long.zip", "-f", "--memory", "32M"], codec].concat();
        expect(at, &line, 0);
        expect(at, &["extract", "long.zip", "-C", "out"], 0);
        assert_eq!(describe(&at.join("out"), EXACT), expected, "{codec:?}");
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
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && stderr.is_empty(), "{program} {codec:?}: {stderr}");
        }
        // From a pipe.
        let stream = Command::new("bsdtar")
            .args(["-xOf", "-"])
            .current_dir(at)
            .stdin(fs::File::open(at.join("long.zip")).unwrap())
            .output()
            .inspect_err(|_| skip_peer("bsdtar"));
        if let Ok(output) = stream {
            assert!(output.status.success(), "{codec:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.stdout.len() as u64, text.len() as u64 + (12 << 20) + 4, "{codec:?}");
        }
    }
}

#[test]
fn output_does_not_depend_on_threads_or_pipe() {
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
fn many_members_are_written_with_zip64_end() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    // From a tar archive, so that no files are created.
    let mut builder = tar::Builder::new(Vec::new());
    for number in 0..70_000u32 {
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{number}"), &[][..]).unwrap();
    }
    fs::write(at.join("many.tar"), builder.into_inner().unwrap()).unwrap();
    expect(at, &["convert", "many.tar", "many.zip"], 0);
    assert_eq!(count_entries(at, "many.zip"), 70_000);
    let python = "import zipfile\nwith zipfile.ZipFile('many.zip') as z: assert len(z.infolist()) == 70000";
    let Some(output) = other(at, "python3", &["-W", "error", "-c", python]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn losses_are_reported() {
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
    let stderr = expect(at, &["convert", "first.nra", "first.zip"], 3);
    for part in ["b: a hard link", "holes: its holes", "a: an attribute"].iter().chain(fifo.then_some(&"pipe: skipped")) {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert_eq!(nra(at, &["cat", "first.zip", "b"]).stdout, b"content");
    let mut expected = b"start".to_vec();
    expected.resize(4 << 20, 0);
    assert!(nra(at, &["cat", "first.zip", "holes"]).stdout == expected);
    // Owners and fractions of a second are lost from every file, so their loss is only a remark.
    fs::create_dir(at.join("plain")).unwrap();
    fs::write(at.join("plain/a"), "content").unwrap();
    expect(at, &["pack", "plain"], 0);
    expect(at, &["convert", "plain.nra", "plain.zip"], 0);
}

#[test]
fn failures_leave_no_output() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(&at.join("tree"));
    expect(at, &["pack", "tree", "-o", "first.nra", "--codec", "none"], 0);
    let mut bytes = fs::read(at.join("first.nra")).unwrap();
    let content = noise(100_000, 1);
    let place = bytes.windows(64).position(|window| window == &content[..64]).unwrap();
    bytes[place] ^= 1;
    fs::write(at.join("damaged.nra"), bytes).unwrap();
    let stderr = expect(at, &["convert", "damaged.nra", "damaged.zip"], 4);
    assert!(stderr.contains("noise") && stderr.contains("--keep-going"), "{stderr}");
    assert!(!at.join("damaged.zip").exists());
    expect(at, &["convert", "damaged.nra", "damaged.zip", "--keep-going"], 4);
    expect(at, &["verify", "damaged.zip"], 0);
    let listed = nra(at, &["list", "damaged.zip"]).stdout;
    assert!(!String::from_utf8_lossy(&listed).lines().any(|line| line == "noise"));
    for (extra, part) in [
        (&["-e"][..], "only NRA archives can be encrypted"),
        (&["--codec", "lz4"], "zip archives do not support lz4"),
        (&["-l", "15"], "--level 15 is out of range for deflate (1 to 9)"),
    ] {
        let stderr = expect(at, &[&["convert", "first.nra", "no.zip"], extra].concat(), 2);
        assert!(stderr.contains(part), "{stderr}");
        assert!(!at.join("no.zip").exists());
    }
    assert!(expect(at, &["convert", "first.nra", "first.zip", "--limit-entries", "2"], 1).contains("--limit-entries"));
    assert!(!at.join("first.zip").exists());
}

#[test]
fn long_unsupported_members_are_skipped() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    fs::write(at.join("tree/a"), "first").unwrap();
    fs::write(at.join("tree/b"), noise(12 << 20, 1)).unwrap();
    fs::write(at.join("tree/c"), "last").unwrap();
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "odd.zip", "--codec", "none"], 0);
    // Changes its method to an unknown one.
    let mut bytes = fs::read(at.join("odd.zip")).unwrap();
    for (mark, name, method) in [(b"PK\x03\x04", 30, 8), (b"PK\x01\x02", 46, 10)] {
        let is_header = |at: &usize| bytes[*at..].starts_with(mark) && bytes.get(at + name) == Some(&b'b');
        let start = (0..bytes.len()).find(is_header).expect("a header of b");
        bytes[start + method] = 77;
    }
    fs::write(at.join("odd.zip"), bytes).unwrap();
    for output in ["out.zip", "out.tar", "out.nra"] {
        let stderr = expect(at, &["convert", "odd.zip", output, "--memory", "32M"], 4);
        assert!(stderr.contains("(entry b) is not supported"), "{output}: {stderr}");
        let stderr = expect(at, &["convert", "odd.zip", output, "--memory", "32M", "--keep-going"], 3);
        assert!(stderr.contains("b: skipped"), "{output}: {stderr}");
        assert_eq!(nra(at, &["list", output]).stdout, b"a\nc\n", "{output}");
    }
}
