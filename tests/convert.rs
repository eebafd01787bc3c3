//! `nra convert` and the reading face of tar archives, against other programs where they are installed.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const NRA: &str = env!("CARGO_BIN_EXE_nra");

fn nra(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(NRA).args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// Runs nra and wants this exit code; returns what it said on standard error.
fn expect(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = nra(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "nra {arguments:?}: {said}");
    said
}

/// Runs another program; `None` when it is not installed.
fn other(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).current_dir(folder).env("LC_ALL", "C.UTF-8").output().ok()
}

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
    assert!(said.contains(", 1 left out") && said.contains("b: left out"), "{said}");
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
            let said = expect(at, &["convert", input, "limited.nra", option, value], 4);
            assert!(said.contains(option), "{said}");
            assert!(!at.join("limited.nra").exists());
        }
    }
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

#[test]
fn a_name_that_exists_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    tree(at);
    expect(at, &["pack", "tree", "-o", "first.nra"], 0);
    expect(at, &["convert", "first.nra", "first.tar"], 0);
    assert!(expect(at, &["convert", "first.tar"], 1).contains("-f replaces"));
    assert!(expect(at, &["convert", "first.nra", "first.nra", "-f"], 2).contains("is the input"));
    expect(at, &["convert", "first.nra", "first.tar", "-f"], 0);
}

/// Rows of the table in `docs/convert.md` that say what is lost on the way to tar.
fn lost_to_tar() -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/convert.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    cells.filter(|cells| cells.len() == 3 && cells[1] == "lost").map(|cells| cells[0].to_owned()).collect()
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
    write("message of the commit", WriterOptions { message: "why".into(), ..WriterOptions::default() }, file());
    let mut device = Entry::new(EntryPath::try_from("device").unwrap(), Kind::BlockDevice);
    device.device = Some(Device { major: 1 << 22, minor: 0 });
    write("device numbers above 2,097,151", WriterOptions::default(), device);
    write("earlier commits", WriterOptions::default(), file());
    fs::write(at.join("more"), "more").unwrap();
    expect(at, &["add", "earlier commits", "more"], 0);
    let rows = lost_to_tar();
    assert_eq!(rows.len(), 5, "{rows:?}");
    for row in rows {
        let said = expect(at, &["convert", &row, "out.tar", "-f"], 3);
        assert!(said.contains("kept"), "{row}: {said}");
    }
    write("nothing special", WriterOptions::default(), file());
    expect(at, &["convert", "nothing special", "out.tar", "-f"], 0);
}
