//! nra extracts archives of other programs as these do, and other programs extract archives of nra. Programs that are not installed
//! are skipped.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::tree::{Facts, describe};
use crate::common::{self, NRA, noise, other};
use tempfile::TempDir;

const ALL: Facts = Facts {
    file_modes: true,
    directory_modes: true,
    file_times: true,
    directory_times: true,
    links: true,
    nanoseconds: false,
    owners: false,
    attributes: false,
};
const NO_LINKS: Facts = Facts { links: false, ..ALL };
/// 7zz makes directories writable for their owner.
const SEVEN: Facts = Facts { directory_modes: false, ..ALL };

fn set_time(path: &Path, seconds: u64) {
    fs::File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a tree that most archives can hold: links, unusual modes, times of more than 31 bits, a read-only directory.
fn make(top: &Path) {
    for directory in ["deep/er", "empty", "shut"] {
        fs::create_dir_all(top.join(directory)).unwrap();
    }
    let text: Vec<u8> = (0..30_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let noise = noise(100_000, 1);
    for (name, content) in [
        ("a.txt", b"hello\n".as_slice()),
        ("none", b""),
        ("private", b"secret"),
        ("deep/text", &text),
        ("deep/noise", &noise),
        ("deep/er/ünïcode", b"x"),
        ("shut/in", b"y"),
    ] {
        fs::write(top.join(name), content).unwrap();
    }
    symlink("a.txt", top.join("soft")).unwrap();
    symlink("nowhere/ü", top.join("dangling")).unwrap();
    fs::hard_link(top.join("a.txt"), top.join("z-link")).unwrap();
    set_mode(&top.join("a.txt"), 0o751);
    set_mode(&top.join("empty"), 0o700);
    for (name, seconds) in [
        ("a.txt", 1_600_000_001),
        ("none", 1_600_000_002),
        ("private", 1_600_000_003),
        // Even, because unzip reads it from a field in units of two seconds.
        ("deep/text", 4_102_444_802),
        ("deep/noise", 2_000_000_000),
        ("deep/er/ünïcode", 1_600_000_004),
        ("shut/in", 1_600_000_005),
        ("empty", 1_234_567_890),
        ("deep/er", 1_111_111_111),
        ("deep", 1_222_222_222),
        ("shut", 1_333_333_333),
    ] {
        set_time(&top.join(name), seconds);
    }
    // Only root can pack an unreadable file.
    let is_root = fs::metadata(top).unwrap().uid() == 0;
    set_mode(&top.join("private"), if is_root { 0 } else { 0o400 });
    set_mode(&top.join("shut"), 0o555);
}

/// Runs a program that must succeed without messages. Returns whether it is installed.
fn clean(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    let Some(output) = other(folder, program, arguments) else { return false };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{program} {arguments:?}: {stderr}");
    true
}

fn nra(folder: &Path, arguments: &[&str]) {
    assert!(clean(folder, NRA, &[arguments, &["-q"]].concat()));
}

/// Replaces a directory with an empty one.
fn fresh(path: &Path) {
    if path.exists() {
        let closed = path.join("shut");
        if closed.exists() {
            set_mode(&closed, 0o755);
        }
        fs::remove_dir_all(path).unwrap();
    }
    fs::create_dir(path).unwrap();
}

const PY_TAR: &str =
    "import tarfile, os\nwith tarfile.open('../py.tar.gz', 'w:gz') as t:\n  for n in sorted(os.listdir('.')): t.add(n)";
const PY_UNTAR: &str = "import tarfile, sys\nwith tarfile.open(sys.argv[1]) as t: t.extractall('.', filter='fully_trusted')";

#[test]
fn archives_of_other_programs_are_extracted_as_by_them() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    make(&at.join("tree"));
    let files = ["a.txt", "dangling", "deep", "empty", "none", "private", "shut", "soft", "z-link"];
    let with = |line: &str| line.split(' ').map(str::to_owned).chain(files.map(str::to_owned)).collect::<Vec<_>>();
    let alone = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let python =
        |text: &str, more: &[&str]| ["-W", "error", "-c", text].iter().chain(more).map(|&word| word.to_owned()).collect();
    for (archive, facts, program, pack, unpacker, unpack) in [
        ("gnu.tar", ALL, "tar", with("--format=gnu -cf ../gnu.tar"), "tar", alone("--warning=no-timestamp -xpf ../gnu.tar")),
        ("pax.tar", ALL, "tar", with("--format=pax -cf ../pax.tar"), "tar", alone("--warning=no-timestamp -xpf ../pax.tar")),
        ("v7.tar", ALL, "tar", with("--format=v7 -cf ../v7.tar"), "tar", alone("--warning=no-timestamp -xpf ../v7.tar")),
        (
            "ustar.tar.gz",
            ALL,
            "tar",
            with("--format=ustar -czf ../ustar.tar.gz"),
            "tar",
            alone("--warning=no-timestamp -xpf ../ustar.tar.gz"),
        ),
        ("bsd.tar.xz", ALL, "bsdtar", with("--format=pax -cJf ../bsd.tar.xz"), "bsdtar", alone("-xpf ../bsd.tar.xz")),
        ("bsd.zip", NO_LINKS, "bsdtar", with("--format=zip -cf ../bsd.zip"), "bsdtar", alone("-xpf ../bsd.zip")),
        ("bsd.7z", NO_LINKS, "bsdtar", with("--format=7zip -cf ../bsd.7z"), "bsdtar", alone("-xpf ../bsd.7z")),
        ("info.zip", NO_LINKS, "zip", with("-qry ../info.zip"), "unzip", alone("-q ../info.zip")),
        ("stored.zip", NO_LINKS, "zip", with("-qry0 ../stored.zip"), "unzip", alone("-q ../stored.zip")),
        ("bz.zip", NO_LINKS, "zip", with("-qry -Z bzip2 ../bz.zip"), "unzip", alone("-q ../bz.zip")),
        ("seven.7z", SEVEN, "7zz", with("a -snl -snh ../seven.7z"), "7zz", alone("x -snld ../seven.7z")),
        ("seven.zip", SEVEN, "7zz", with("a -tzip -snl ../seven.zip"), "7zz", alone("x -snld ../seven.zip")),
        ("seven.tar", SEVEN, "7zz", with("a -ttar -snl -snh ../seven.tar"), "7zz", alone("x -snld ../seven.tar")),
        ("py.tar.gz", ALL, "python3", python(PY_TAR, &[]), "python3", python(PY_UNTAR, &["../py.tar.gz"])),
        (
            "py.zip",
            Facts::default(),
            "python3",
            alone("-m zipfile -c ../py.zip a.txt deep empty none"),
            "python3",
            alone("-m zipfile -e ../py.zip ."),
        ),
    ] {
        for directory in ["native", "direct", "converted"] {
            fresh(&at.join(directory));
        }
        let call = |folder: &str, program: &str, line: &[String]| {
            clean(&at.join(folder), program, &line.iter().map(String::as_str).collect::<Vec<_>>())
        };
        if !call("tree", program, &pack) || !call("native", unpacker, &unpack) {
            continue;
        }
        nra(at, &["verify", archive]);
        nra(at, &["extract", archive, "-C", "direct"]);
        nra(at, &["convert", archive, "x.nra", "-f"]);
        nra(at, &["extract", "x.nra", "-C", "converted"]);
        let native = describe(&at.join("native"), facts);
        assert_eq!(describe(&at.join("direct"), facts), native, "{archive}");
        assert_eq!(describe(&at.join("converted"), facts), native, "{archive}, converted");
        assert_eq!(describe(&at.join("converted"), ALL), describe(&at.join("direct"), ALL), "{archive}");
        if facts.directory_modes && facts.links {
            assert_eq!(native, describe(&at.join("tree"), ALL), "{archive}: the program itself");
        }
    }
    for directory in ["tree", "native", "direct", "converted"] {
        fresh(&at.join(directory));
    }
}

#[test]
fn other_programs_extract_written_archives() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("tree")).unwrap();
    make(&at.join("tree"));
    nra(at, &["pack", "tree", "-o", "first.nra"]);
    for (archive, unpackers) in [
        ("out.tar", &["tar", "bsdtar", "7zz", "python3"][..]),
        ("out.tar.gz", &["tar", "bsdtar", "python3"]),
        ("out.tar.zst", &["tar", "bsdtar"]),
        ("out.tar.xz", &["tar", "bsdtar", "python3"]),
        ("out.tar.bz2", &["tar", "bsdtar", "python3"]),
        ("out.zip", &["unzip", "bsdtar", "7zz"]),
    ] {
        // Zip archives have no hard links, which is reported.
        let converted = common::nra(at, &["convert", "first.nra", archive]);
        let stderr = String::from_utf8_lossy(&converted.stderr).into_owned();
        assert_eq!(converted.status.code(), Some(if archive == "out.zip" { 3 } else { 0 }), "{archive}: {stderr}");
        let path = format!("../{archive}");
        for &program in unpackers {
            let facts = match (program, archive) {
                ("7zz", "out.zip") => Facts { links: false, ..SEVEN },
                ("7zz", _) => SEVEN,
                (_, "out.zip") => NO_LINKS,
                _ => ALL,
            };
            let arguments: Vec<&str> = match program {
                "unzip" => vec!["-q", &path],
                "7zz" => vec!["x", "-snld", &path],
                "python3" => vec!["-W", "error", "-c", PY_UNTAR, &path],
                // tar would warn about times in the future.
                "tar" => vec!["--warning=no-timestamp", "-xpf", &path],
                _ => vec!["-xpf", &path],
            };
            fresh(&at.join("out"));
            if clean(&at.join("out"), program, &arguments) {
                assert_eq!(describe(&at.join("out"), facts), describe(&at.join("tree"), facts), "{program} {archive}");
            }
        }
    }
    for directory in ["tree", "out"] {
        fresh(&at.join(directory));
    }
}
