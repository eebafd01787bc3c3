//! Trees that other programs pack come out as these programs unpack them, and what nra writes comes out of them as it was. What is not
//! installed is skipped, and said.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{self, NRA, noise, other};
use tempfile::TempDir;

/// What of a tree is compared, beside names, kinds, link targets and content.
#[derive(Clone, Copy)]
struct Facts {
    /// Modes of files, and times of files and directories in seconds.
    files: bool,
    /// Modes of directories.
    directories: bool,
    /// Which files are links of each other.
    links: bool,
}

const ALL: Facts = Facts { files: true, directories: true, links: true };
const NO_LINKS: Facts = Facts { links: false, ..ALL };
/// 7zz leaves directories writable for their owner.
const SEVEN: Facts = Facts { directories: false, ..ALL };
const CONTENT: Facts = Facts { files: false, directories: false, links: false };

fn set_time(path: &Path, seconds: u64) {
    fs::File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a tree of what most archives can hold: links, odd modes, times before and behind what 31 bits hold, a directory that nobody may change.
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
        // Even: unzip takes it from the field that counts by twos.
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
    // Whoever is not root could not pack a file that may not be read.
    let is_root = fs::metadata(top).unwrap().uid() == 0;
    set_mode(&top.join("private"), if is_root { 0 } else { 0o400 });
    set_mode(&top.join("shut"), 0o555);
}

/// What can be seen of a tree, a line for each thing.
fn look(top: &Path, facts: Facts) -> Vec<String> {
    fn walk(top: &Path, at: &Path, facts: Facts, lines: &mut Vec<String>) {
        for item in fs::read_dir(at).unwrap() {
            let path = item.unwrap().path();
            let status = fs::symlink_metadata(&path).unwrap();
            let mode = |wanted: bool| if wanted { status.mode() & 0o7777 } else { 0 };
            let time = if facts.files { status.mtime() } else { 0 };
            let what = if status.is_dir() {
                format!("directory {:o} {time}", mode(facts.directories))
            } else if status.is_symlink() {
                format!("to {:?}", fs::read_link(&path).unwrap())
            } else {
                let links = if facts.links { status.nlink() } else { 0 };
                format!("{:o} {time} {links} {}", mode(facts.files), blake3::hash(&fs::read(&path).unwrap()))
            };
            lines.push(format!("{:?} {what}", path.strip_prefix(top).unwrap()));
            if status.is_dir() {
                walk(top, &path, facts, lines);
            }
        }
    }
    let mut lines = Vec::new();
    walk(top, top, facts, &mut lines);
    lines.sort();
    lines
}

/// Runs a program that must have nothing to complain about; says whether it is installed.
fn clean(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    let Some(output) = other(folder, program, arguments) else { return false };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
    true
}

fn nra(folder: &Path, arguments: &[&str]) {
    assert!(clean(folder, NRA, &[arguments, &["-q"]].concat()));
}

/// Makes a directory anew.
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
fn what_other_programs_pack_comes_out_as_they_unpack_it() {
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
            CONTENT,
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
        let native = look(&at.join("native"), facts);
        assert_eq!(look(&at.join("direct"), facts), native, "{archive}");
        assert_eq!(look(&at.join("converted"), facts), native, "{archive}, converted");
        assert_eq!(look(&at.join("converted"), ALL), look(&at.join("direct"), ALL), "{archive}");
        if facts.directories && facts.links {
            assert_eq!(native, look(&at.join("tree"), ALL), "{archive}: the program itself");
        }
    }
    for directory in ["tree", "native", "direct", "converted"] {
        fresh(&at.join(directory));
    }
}

#[test]
fn what_nra_writes_comes_out_of_other_programs_as_it_was() {
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
        // That zip has no hard links is told, and is nothing that went wrong here.
        let converted = common::nra(at, &["convert", "first.nra", archive]);
        let said = String::from_utf8_lossy(&converted.stderr).into_owned();
        assert_eq!(converted.status.code(), Some(if archive == "out.zip" { 3 } else { 0 }), "{archive}: {said}");
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
                // It wonders at times that are yet to come.
                "tar" => vec!["--warning=no-timestamp", "-xpf", &path],
                _ => vec!["-xpf", &path],
            };
            fresh(&at.join("out"));
            if clean(&at.join("out"), program, &arguments) {
                assert_eq!(look(&at.join("out"), facts), look(&at.join("tree"), facts), "{program} {archive}");
            }
        }
    }
    for directory in ["tree", "out"] {
        fresh(&at.join(directory));
    }
}
