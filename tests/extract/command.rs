//! `nra extract` on archives of `nra pack`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::tree::{Facts, describe};
use crate::common::{NRA, child, noise};

/// A directory with an archive `tree.nra` of several top entries.
struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let sandbox = Self { directory: tempfile::tempdir().unwrap() };
        let tree = sandbox.at("tree");
        std::fs::create_dir_all(tree.join("d/e")).unwrap();
        std::fs::write(tree.join("a.txt"), "alpha").unwrap();
        std::fs::write(tree.join("d/b.txt"), "beta").unwrap();
        std::fs::write(tree.join("d/e/c.txt"), "gamma").unwrap();
        sandbox.pack("tree", "tree.nra");
        sandbox
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn pack(&self, tree: &str, archive: &str) {
        let output = self.output(&["pack", "-q", tree, "-o", archive]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn output(&self, arguments: &[&str]) -> Output {
        run(Path::new(NRA), self.directory.path(), arguments)
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
fn several_top_entries_are_extracted_to_a_directory_without_overwriting() {
    let sandbox = Sandbox::new();
    std::fs::rename(sandbox.at("tree"), sandbox.at("kept")).unwrap();
    let (code, out, err) = sandbox.nra(&["extract", "tree.nra"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.starts_with("extracted 3 files, 14 B → tree, "), "{err}");
    assert_eq!(sandbox.read("tree/d/e/c.txt"), "gamma");
    std::fs::write(sandbox.at("tree/a.txt"), "mine").unwrap();
    let (code, _, err) = sandbox.nra(&["extract", "tree.nra"]);
    assert_eq!(code, 1);
    assert_eq!(err.lines().next(), Some("nra: exists already: tree/a.txt, tree/d/b.txt, tree/d/e/c.txt"));
    assert!(err.contains("hint: nothing was written; use -f to replace, -k to skip"), "{err}");
    assert_eq!(sandbox.nra(&["extract", "tree.nra", "-k"]).0, 0);
    assert_eq!(sandbox.read("tree/a.txt"), "mine");
    let (code, _, err) = sandbox.nra(&["x", "tree.nra", "--backup"]);
    assert!(code == 0 && err.contains(", 3 backed up to NAME~ → tree"), "{err}");
    assert_eq!((sandbox.read("tree/a.txt"), sandbox.read("tree/a.txt~")), ("alpha".into(), "mine".into()));
}

#[test]
fn resumed_extraction_restores_directory_times() {
    let sandbox = Sandbox::new();
    let modified = |path: &str| std::fs::metadata(sandbox.at(path)).unwrap().modified().unwrap();
    let set = |path: &str, time| std::fs::File::open(sandbox.at(path)).unwrap().set_modified(time).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_000_000_000_123_456_789);
    ["tree/d/e", "tree/d", "tree"].into_iter().for_each(|path| set(path, old));
    sandbox.pack("tree", "old.nra");
    // The result of an interrupted extraction: its directories have their times.
    assert_eq!(sandbox.nra(&["extract", "old.nra", "-C", "out", "-x", "b.txt", "-x", "c.txt", "-q"]).0, 0);
    set("out", old);
    // Directories of the user have other times.
    std::fs::create_dir_all(sandbox.at("other/d")).unwrap();
    for target in ["out", "other"] {
        assert_eq!(sandbox.nra(&["extract", "old.nra", "-C", target, "-k", "-q"]), (0, String::new(), String::new()));
        assert_eq!(sandbox.read(&format!("{target}/d/e/c.txt")), "gamma");
    }
    assert_eq!(["out", "out/d", "out/d/e", "other/d/e"].map(modified), [old; 4]);
    assert!(["other", "other/d"].map(modified).iter().all(|time| *time != old));
}

#[test]
fn skipped_entries_report_no_lost_mode_bits() {
    let sandbox = Sandbox::new();
    for path in ["tree/a.txt", "tree/d"] {
        std::fs::set_permissions(sandbox.at(path), std::fs::Permissions::from_mode(0o6755)).unwrap();
    }
    sandbox.pack("tree", "set.nra");
    let (code, _, err) = sandbox.nra(&["extract", "set.nra", "-C", "out"]);
    assert!(code == 0 && err.contains("set-id bits or capabilities of 2 entries not restored"), "{err}");
    for policy in ["-k", "-u"] {
        let (code, _, err) = sandbox.nra(&["extract", "set.nra", "-C", "out", policy]);
        assert!(code == 0 && !err.contains("set-id"), "{policy}: {err}");
    }
}

#[test]
fn empty_archive_is_extracted_to_an_empty_directory() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.at("empty")).unwrap();
    assert_eq!(sandbox.nra(&["pack", "empty", "-q"]).0, 0);
    std::fs::remove_dir(sandbox.at("empty")).unwrap();
    assert_eq!(sandbox.nra(&["extract", "empty.nra", "-q"]), (0, String::new(), String::new()));
    assert!(sandbox.at("empty").is_dir());
}

#[test]
fn patterns_select_entries_and_unmatched_ones_are_reported() {
    let sandbox = Sandbox::new();
    let (code, _, err) = sandbox.nra(&["extract", "tree.nra", "d", "nope", "-C", "out"]);
    assert_eq!(code, 3);
    assert!(err.contains("nope: no entry matches"), "{err}");
    assert!(sandbox.at("out/d/e/c.txt").exists() && !sandbox.at("out/a.txt").exists());
    let (code, _, err) = sandbox.nra(&["extract", "tree.nra", "nope", "-C", "other"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("nra: tree.nra: no entry matches nope\nhint: "), "{err}");
    assert!(!sandbox.at("other").exists());
    // If rules exclude everything, the target is still created.
    assert_eq!(sandbox.nra(&["extract", "tree.nra", "-x", "*", "-C", "other", "-q"]).0, 0);
    assert!(sandbox.at("other").is_dir());
    // A single top entry is extracted to the current directory.
    std::fs::remove_dir_all(sandbox.at("tree")).unwrap();
    assert_eq!(sandbox.nra(&["extract", "tree.nra", "d/e"]).0, 0);
    assert_eq!(sandbox.read("d/e/c.txt"), "gamma");
}

#[test]
fn content_is_written_to_standard_output() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.nra(&["extract", "tree.nra", "-o", "-", "d"]), (0, "betagamma".into(), String::new()));
    let (code, _, err) = sandbox.nra(&["extract", "tree.nra", "-o", "file"]);
    assert_eq!(code, 2);
    assert!(err.contains("-C DIR"), "{err}");
}

#[test]
fn dry_run_and_json_list_actions() {
    let sandbox = Sandbox::new();
    let (code, out, _) = sandbox.nra(&["extract", "tree.nra", "-n", "-C", "out", "--strip-components", "1"]);
    assert_eq!((code, out.as_str()), (0, "create b.txt\ncreate e/\ncreate e/c.txt\n"));
    assert!(!sandbox.at("out").exists());
    let (code, out, err) = sandbox.nra(&["extract", "tree.nra", "--jsonl", "-v", "-C", "out"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let records: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = records.last().unwrap();
    assert_eq!(
        (records.len(), &last["type"], &last["files"], &last["content_bytes"]),
        (6, &"summary".into(), &3.into(), &14.into())
    );
    assert!(records[..5].iter().all(|record| record["type"] == "entry" && record["action"] == "create"));
    let (code, out, _) = sandbox.nra(&["extract", "tree.nra", "--json", "-C", "out"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &document["kind"]), (1, &"exists".into()));
}

#[test]
fn damaged_entries_are_skipped_with_exit_code_4() {
    let sandbox = Sandbox::new();
    let noise = noise(5000, 1);
    std::fs::create_dir(sandbox.at("two")).unwrap();
    std::fs::write(sandbox.at("two/fine.bin"), &noise[..2500]).unwrap();
    std::fs::write(sandbox.at("two/bad.bin"), &noise[2500..]).unwrap();
    let output = sandbox.output(&["pack", "-q", "two", "-o", "two.nra", "--codec", "none"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut bytes = std::fs::read(sandbox.at("two.nra")).unwrap();
    let at = bytes.windows(100).position(|window| *window == noise[3000..3100]).unwrap();
    bytes[at] ^= 1;
    std::fs::write(sandbox.at("two.nra"), bytes).unwrap();
    let (code, _, err) = sandbox.nra(&["extract", "two.nra", "-C", "out"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("nra: warning: bad.bin: "), "{err}");
    assert!(std::fs::read(sandbox.at("out/fine.bin")).unwrap() == noise[..2500]);
    assert!(!sandbox.at("out/bad.bin").exists());
}

#[test]
fn max_size_rejects_larger_content() {
    let sandbox = Sandbox::new();
    let (code, _, err) = sandbox.nra(&["extract", "tree.nra", "-C", "out", "--max-size", "13"]);
    assert_eq!((code, err.as_str()), (1, "nra: tree.nra: 14 B of content exceed --max-size 13 B\n"));
    assert!(!sandbox.at("out").exists());
}

#[test]
fn full_disk_is_reported_with_the_number_of_complete_entries() {
    child::run_on_small_disk("command::full_disk_is_reported_with_the_number_of_complete_entries", |directory| {
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

/// Creates one entry of every kind that the current user can create.
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
    std::fs::write(top.join("large"), noise(40 << 20, 1)).unwrap();
    // Not every file system supports them.
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

const ALL: Facts = Facts {
    file_modes: true,
    directory_modes: true,
    file_times: true,
    directory_times: true,
    nanoseconds: true,
    links: true,
    owners: true,
    attributes: true,
};

fn round_trip(program: &Path, directory: &Path) {
    make_everything(&directory.join("in"));
    let succeed = |arguments: &[&str]| {
        let output = run(program, directory, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !text.contains("warning"), "{text}");
    };
    succeed(&["pack", "in", "-o", "in.nra"]);
    succeed(&["extract", "in.nra", "-C", "out"]);
    let [before, after] = ["in", "out"].map(|name| describe(&directory.join(name), ALL));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    let root = |name: &str| directory.join(name).metadata().map(|metadata| (metadata.mode(), metadata.mtime_nsec())).unwrap();
    assert_eq!(root("in"), root("out"));
    // Lets the owner remove the directory.
    for top in ["in", "out"] {
        std::fs::set_permissions(directory.join(top).join("dir"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn round_trip_restores_all_metadata() {
    let sandbox = Sandbox::new();
    round_trip(Path::new(NRA), sandbox.directory.path());
}

#[test]
fn round_trip_restores_all_metadata_for_unprivileged_user() {
    child::run("command::round_trip_restores_all_metadata_for_unprivileged_user", true, |directory| {
        round_trip(&directory.join("../nra"), &directory);
    });
}
