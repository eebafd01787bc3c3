//! `nra extract` on archives that `nra pack` made.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::child;

/// A directory with a program and an archive `tree.nra` of several top entries.
struct Room {
    directory: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let room = Self { directory: tempfile::tempdir().unwrap() };
        let tree = room.at("tree");
        std::fs::create_dir_all(tree.join("d/e")).unwrap();
        std::fs::write(tree.join("a.txt"), "alpha").unwrap();
        std::fs::write(tree.join("d/b.txt"), "beta").unwrap();
        std::fs::write(tree.join("d/e/c.txt"), "gamma").unwrap();
        room.pack("tree", "tree.nra");
        room
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn pack(&self, tree: &str, archive: &str) {
        let output = self.output(&["pack", "-q", tree, "-o", archive]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn output(&self, arguments: &[&str]) -> Output {
        run(Path::new(env!("CARGO_BIN_EXE_nra")), self.directory.path(), arguments)
    }

    /// Returns exit code, standard output, standard error.
    fn nra(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.output(arguments);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap()
    }
}

fn run(program: &Path, directory: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn several_names_go_into_a_folder_and_what_exists_is_safe() {
    let room = Room::new();
    std::fs::rename(room.at("tree"), room.at("kept")).unwrap();
    let (code, out, err) = room.nra(&["extract", "tree.nra"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.starts_with("extracted 3 files, 14 B → tree, "), "{err}");
    assert_eq!(room.read("tree/d/e/c.txt"), "gamma");
    std::fs::write(room.at("tree/a.txt"), "mine").unwrap();
    let (code, _, err) = room.nra(&["extract", "tree.nra"]);
    assert_eq!(code, 1);
    assert_eq!(err.lines().next(), Some("nra: exists already: tree/a.txt, tree/d/b.txt, tree/d/e/c.txt"));
    assert!(err.contains("hint: nothing was written; use -f to replace, -k to skip"), "{err}");
    assert_eq!(room.nra(&["extract", "tree.nra", "-k"]).0, 0);
    assert_eq!(room.read("tree/a.txt"), "mine");
    let (code, _, err) = room.nra(&["x", "tree.nra", "--backup"]);
    assert!(code == 0 && err.contains(", 3 backed up to NAME~ → tree"), "{err}");
    assert_eq!((room.read("tree/a.txt"), room.read("tree/a.txt~")), ("alpha".into(), "mine".into()));
}

#[test]
fn an_extraction_that_goes_on_ends_like_one_that_was_never_stopped() {
    let room = Room::new();
    let modified = |path: &str| std::fs::metadata(room.at(path)).unwrap().modified().unwrap();
    let set = |path: &str, time| std::fs::File::open(room.at(path)).unwrap().set_modified(time).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_000_000_000_123_456_789);
    ["tree/d/e", "tree/d", "tree"].into_iter().for_each(|path| set(path, old));
    room.pack("tree", "old.nra");
    // As far as one got that was stopped: its directories have their times.
    assert_eq!(room.nra(&["extract", "old.nra", "-C", "out", "-x", "b.txt", "-x", "c.txt", "-q"]).0, 0);
    set("out", old);
    // One that somebody made has not.
    std::fs::create_dir_all(room.at("other/d")).unwrap();
    for target in ["out", "other"] {
        assert_eq!(room.nra(&["extract", "old.nra", "-C", target, "-k", "-q"]), (0, String::new(), String::new()));
        assert_eq!(room.read(&format!("{target}/d/e/c.txt")), "gamma");
    }
    assert_eq!(["out", "out/d", "out/d/e", "other/d/e"].map(modified), [old; 4]);
    assert!(["other", "other/d"].map(modified).iter().all(|time| *time != old));
}

#[test]
fn what_is_not_made_loses_nothing() {
    let room = Room::new();
    for path in ["tree/a.txt", "tree/d"] {
        std::fs::set_permissions(room.at(path), std::fs::Permissions::from_mode(0o6755)).unwrap();
    }
    room.pack("tree", "set.nra");
    let (code, _, err) = room.nra(&["extract", "set.nra", "-C", "out"]);
    assert!(code == 0 && err.contains("set-id bits or capabilities of 2 entries not restored"), "{err}");
    for policy in ["-k", "-u"] {
        let (code, _, err) = room.nra(&["extract", "set.nra", "-C", "out", policy]);
        assert!(code == 0 && !err.contains("set-id"), "{policy}: {err}");
    }
}

#[test]
fn an_empty_directory_comes_back() {
    let room = Room::new();
    std::fs::create_dir(room.at("empty")).unwrap();
    assert_eq!(room.nra(&["pack", "empty", "-q"]).0, 0);
    std::fs::remove_dir(room.at("empty")).unwrap();
    assert_eq!(room.nra(&["extract", "empty.nra", "-q"]), (0, String::new(), String::new()));
    assert!(room.at("empty").is_dir());
}

#[test]
fn patterns_choose_and_missing_ones_are_said() {
    let room = Room::new();
    let (code, _, err) = room.nra(&["extract", "tree.nra", "d", "nope", "-C", "out"]);
    assert_eq!(code, 3);
    assert!(err.contains("nope: no entry matches"), "{err}");
    assert!(room.at("out/d/e/c.txt").exists() && !room.at("out/a.txt").exists());
    let (code, _, err) = room.nra(&["extract", "tree.nra", "nope", "-C", "other"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("nra: tree.nra: no entry matches nope\nhint: "), "{err}");
    assert!(!room.at("other").exists());
    // Rules may leave out everything: where it would have gone is there all the same.
    assert_eq!(room.nra(&["extract", "tree.nra", "-x", "*", "-C", "other", "-q"]).0, 0);
    assert!(room.at("other").is_dir());
    // One name at the top goes straight here.
    std::fs::remove_dir_all(room.at("tree")).unwrap();
    assert_eq!(room.nra(&["extract", "tree.nra", "d/e"]).0, 0);
    assert_eq!(room.read("d/e/c.txt"), "gamma");
}

#[test]
fn content_goes_to_standard_output() {
    let room = Room::new();
    assert_eq!(room.nra(&["extract", "tree.nra", "-o", "-", "d"]), (0, "betagamma".into(), String::new()));
    let (code, _, err) = room.nra(&["extract", "tree.nra", "-o", "file"]);
    assert_eq!(code, 2);
    assert!(err.contains("-C DIR"), "{err}");
}

#[test]
fn a_dry_run_and_json_say_what_happens() {
    let room = Room::new();
    let (code, out, _) = room.nra(&["extract", "tree.nra", "-n", "-C", "out", "--strip-components", "1"]);
    assert_eq!((code, out.as_str()), (0, "create b.txt\ncreate e/\ncreate e/c.txt\n"));
    assert!(!room.at("out").exists());
    let (code, out, err) = room.nra(&["extract", "tree.nra", "--jsonl", "-v", "-C", "out"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let records: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = records.last().unwrap();
    assert_eq!(
        (records.len(), &last["type"], &last["files"], &last["content_bytes"]),
        (6, &"summary".into(), &3.into(), &14.into())
    );
    assert!(records[..5].iter().all(|record| record["type"] == "entry" && record["action"] == "create"));
    let (code, out, _) = room.nra(&["extract", "tree.nra", "--json", "-C", "out"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &document["kind"]), (1, &"exists".into()));
}

#[test]
fn damage_costs_its_entries_and_is_code_4() {
    let room = Room::new();
    // Content that does not shrink stands in the archive as it is.
    let noise: Vec<u8> = (0..5000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[6]).collect();
    std::fs::create_dir(room.at("two")).unwrap();
    std::fs::write(room.at("two/fine.bin"), &noise[..2500]).unwrap();
    std::fs::write(room.at("two/hurt.bin"), &noise[2500..]).unwrap();
    let output = room.output(&["pack", "-q", "two", "-o", "two.nra", "--codec", "none"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut bytes = std::fs::read(room.at("two.nra")).unwrap();
    let at = bytes.windows(100).position(|window| *window == noise[3000..3100]).unwrap();
    bytes[at] ^= 1;
    std::fs::write(room.at("two.nra"), bytes).unwrap();
    let (code, _, err) = room.nra(&["extract", "two.nra", "-C", "out"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("nra: warning: hurt.bin: "), "{err}");
    assert!(std::fs::read(room.at("out/fine.bin")).unwrap() == noise[..2500]);
    assert!(!room.at("out/hurt.bin").exists());
}

#[test]
fn too_much_content_is_refused() {
    let room = Room::new();
    let (code, _, err) = room.nra(&["extract", "tree.nra", "-C", "out", "--max-size", "13"]);
    assert_eq!((code, err.as_str()), (1, "nra: tree.nra: 14 B of content exceed --max-size 13 B\n"));
    assert!(!room.at("out").exists());
}

#[test]
fn a_full_disk_is_told_with_what_is_there() {
    child::run_on_small_disk("command::a_full_disk_is_told_with_what_is_there", |directory| {
        let program = directory.join("../nra");
        std::fs::create_dir(directory.join("in")).unwrap();
        std::fs::write(directory.join("in/a"), "alpha").unwrap();
        std::fs::write(directory.join("in/b"), vec![7; 40 << 20]).unwrap();
        assert!(run(&program, &directory, &["pack", "-q", "in", "-o", "in.nra"]).status.success());
        let output = run(&program, &directory, &["extract", "in.nra", "-j1", "-C", "out"]);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("nra: warning: out: the content takes up to "), "{text}");
        assert!(text.contains("nra: cannot write out/b: no space left on device\n"), "{text}");
        assert!(text.contains("hint: 1 entry was extracted completely; use -k to continue with the rest\n"), "{text}");
        assert!(directory.join("out/a").exists() && !directory.join("out/b").exists());
    });
}

/// Makes one of everything that the present user can make.
fn make_everything(top: &Path) {
    std::fs::create_dir_all(top.join("dir/empty")).unwrap();
    std::fs::write(top.join("dir/file"), "content").unwrap();
    std::fs::write(top.join("dir/read only"), "secret").unwrap();
    std::fs::write(top.join("empty file"), "").unwrap();
    std::fs::hard_link(top.join("dir/file"), top.join("linked")).unwrap();
    symlink("dir/file", top.join("link")).unwrap();
    symlink("/nowhere/at all", top.join("dangling")).unwrap();
    std::fs::write(top.join("odd\n\u{1b}[1m\u{202e}name"), "odd").unwrap();
    std::fs::write(top.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"not \xff utf-8")), "odd").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, top.join("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o620), 0)
        .unwrap();
    let sparse = std::fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 20 << 20).unwrap();
    let large: Vec<u8> = (0..40u64 << 17).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    std::fs::write(top.join("large"), large).unwrap();
    // Not every file system has them.
    let _ = rustix::fs::setxattr(top.join("dir/file"), "user.note", b"\0value", rustix::fs::XattrFlags::empty());
    let _ = rustix::fs::setxattr(top.join("dir"), "user.note", b"of a directory", rustix::fs::XattrFlags::empty());
    let set = |path: &str, mode| std::fs::set_permissions(top.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    set("dir/read only", 0o440);
    set("dir/empty", 0o711);
    if rustix::process::geteuid().is_root() {
        let path = top.join("owned");
        std::fs::write(&path, "owned").unwrap();
        std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).unwrap();
        std::os::unix::fs::lchown(top.join("link"), Some(1), Some(2)).unwrap();
    }
    let time = |path: &str, seconds, nanoseconds| {
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds },
        };
        rustix::fs::utimensat(rustix::fs::CWD, top.join(path), &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
    };
    time("dir/file", 1_000_000_000, 1);
    time("link", -7, 999_999_999);
    set("dir", 0o555);
    time("dir", 1_500_000_000, 123_456_789);
}

/// Describes everything below `top`, inodes by the first path that has them.
fn describe(top: &Path) -> Vec<String> {
    let (mut todo, mut paths) = (vec![top.to_owned()], Vec::new());
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            }
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut inodes = std::collections::HashMap::new();
    let line = |path: &PathBuf| {
        let metadata = path.symlink_metadata().unwrap();
        let kind = metadata.file_type();
        let first = inodes.entry(metadata.ino()).or_insert_with(|| path.strip_prefix(top).unwrap().to_owned()).clone();
        let content = if kind.is_file() {
            blake3::hash(&std::fs::read(path).unwrap()).to_hex().to_string()
        } else if kind.is_symlink() {
            format!("{:?}", std::fs::read_link(path).unwrap())
        } else {
            format!("fifo: {}", kind.is_fifo())
        };
        let mut note = [0; 100];
        let note = rustix::fs::lgetxattr(path, "user.note", &mut note).map(|len| note[..len].to_vec()).ok();
        let holes = metadata.blocks() * 512 < metadata.len() / 2;
        format!(
            "{:?} as {first:?}: {:o} {}:{} {}.{} {content} {note:?} holes: {holes}",
            path.strip_prefix(top).unwrap(),
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            metadata.mtime(),
            metadata.mtime_nsec()
        )
    };
    paths.iter().map(line).collect()
}

fn round_trip(program: &Path, directory: &Path) {
    make_everything(&directory.join("in"));
    let succeed = |arguments: &[&str]| {
        let output = run(program, directory, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !text.contains("warning"), "{text}");
    };
    succeed(&["pack", "in", "-o", "in.nra"]);
    succeed(&["extract", "in.nra", "-C", "out"]);
    let (before, after) = (describe(&directory.join("in")), describe(&directory.join("out")));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    let root = |name: &str| directory.join(name).metadata().map(|metadata| (metadata.mode(), metadata.mtime_nsec())).unwrap();
    assert_eq!(root("in"), root("out"));
    // So that the directory can be removed by its owner.
    for top in ["in", "out"] {
        std::fs::set_permissions(directory.join(top).join("dir"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn everything_comes_back() {
    let room = Room::new();
    round_trip(Path::new(env!("CARGO_BIN_EXE_nra")), room.directory.path());
}

#[test]
fn everything_comes_back_to_a_plain_user() {
    child::run("command::everything_comes_back_to_a_plain_user", true, |directory| {
        round_trip(&directory.join("../nra"), &directory);
    });
}
