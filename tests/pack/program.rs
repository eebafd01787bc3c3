//! The command `nra pack`.

use std::fs;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{noise, nra_command};
use crate::{Packed, Place};

fn run(place: &Place, arguments: &[&str]) -> Output {
    nra_command(&place.directory).arg("pack").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn small() -> Place {
    let place = Place::new();
    place.write("a.txt", "a".repeat(5000));
    place.write("sub/b.txt", "b");
    place.write("sub/c.tmp", "c");
    place
}

#[test]
fn default_output_is_next_to_the_input() {
    let place = small();
    let output = run(&place, &["in"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty());
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("packed 3 files, 4.9 KiB → ") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(Packed::open(&place.at("in.nra")).paths(), ["a.txt", "sub", "sub/b.txt", "sub/c.tmp"]);
    let again = run(&place, &["in"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("hint: use -f to replace in.nra"), "{}", text(&again.stderr));
    assert_eq!(run(&place, &["in", "-f", "-q"]).stderr, b"");
}

#[test]
fn dry_run_reports_the_same_errors_and_skipped_entries() {
    let place = small();
    let _socket = UnixListener::bind(place.at("in/socket")).unwrap();
    let dry = run(&place, &["in", "-n"]);
    let packed = run(&place, &["in"]);
    assert_eq!((dry.status.code(), packed.status.code()), (Some(3), Some(3)));
    let warning = "nra: warning: in/socket: skipped: a socket";
    for output in [&dry, &packed] {
        assert!(text(&output.stderr).contains(warning), "{}", text(&output.stderr));
    }
    assert!(!text(&dry.stdout).contains("socket"));
    let (dry, again) = (run(&place, &["in", "-n"]), run(&place, &["in"]));
    assert_eq!((dry.status.code(), dry.stdout), (Some(1), Vec::new()));
    assert_eq!(text(&dry.stderr), text(&again.stderr));
    assert_eq!(run(&place, &["in", "-n", "-f"]).status.code(), Some(3));
}

#[test]
fn dry_run_reports_conflicting_inputs() {
    let place = small();
    for (path, content) in [("one/x", "1"), ("one/y", "1"), ("two/x", "2"), ("two/y/z", "2")] {
        fs::create_dir_all(place.at(path).parent().unwrap()).unwrap();
        fs::write(place.at(path), content).unwrap();
    }
    for inputs in [["one/x", "two/x"], ["one/y", "two/y"], ["two/y", "one/y"]] {
        let dry = run(&place, &[&inputs[..], &["-n", "-f", "-o", "x.nra"]].concat());
        let packed = run(&place, &[&inputs[..], &["-f", "-o", "x.nra"]].concat());
        let warnings = |output: &Output| -> Vec<String> {
            text(&output.stderr).lines().filter(|line| line.contains("warning")).map(str::to_owned).collect()
        };
        assert_eq!((dry.status.code(), packed.status.code()), (Some(3), Some(3)), "{inputs:?}");
        assert!(!warnings(&dry).is_empty());
        if inputs[0] == "one/x" {
            assert_eq!(warnings(&dry), warnings(&packed));
        }
    }
}

#[test]
fn options_are_applied() {
    let place = small();
    let arguments = [
        "-C",
        "in",
        "sub",
        "-x",
        "*.tmp",
        "a.txt",
        "-o",
        "x.nra",
        "--prefix",
        "p",
        "-m",
        "why",
        "--preset",
        "dense",
        "--no-sync",
    ];
    let output = run(&place, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let packed = Packed::open(&place.at("x.nra"));
    assert_eq!(packed.paths(), ["p", "p/a.txt", "p/sub", "p/sub/b.txt"]);
    assert_eq!(packed.archive.info().message, "why");
    for arguments in [
        &["in", "-o", "y.nra", "-f", "--codec", "lz4"][..],
        &["in", "-o", "y.nra", "-f", "--codec", "none", "--align", "4096"],
        &["in", "-o", "y.nra", "-f", "--best"],
        &["in", "-o", "y.nra", "-f", "--fast", "--preset", "random", "-j", "1", "--memory", "64M"],
        &["in", "-o", "y.nra", "-f", "-l", "5", "--dict", "auto", "--no-owner", "--no-times", "--no-xattrs", "-L"],
    ] {
        let output = run(&place, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {output:?}");
        assert_eq!(Packed::open(&place.at("y.nra")).paths().len(), 4);
    }
    assert_eq!(run(&place, &["in", "-o", "z.nra", "-l", "40"]).status.code(), Some(2));
    assert_eq!(run(&place, &["in", "-o", "z.nra", "--align", "17"]).status.code(), Some(2));
    assert_eq!(run(&place, &["in", "-o", "z.nra", "-x", "a["]).status.code(), Some(2));
    assert_eq!(run(&place, &[]).status.code(), Some(2));
    assert!(!place.at("z.nra").exists());
}

#[test]
fn options_change_stored_metadata() {
    let place = small();
    std::os::unix::fs::symlink("a.txt", place.input("link")).unwrap();
    place.write("random.bin", noise(100_000, 7));
    rustix::fs::setxattr(place.input("a.txt"), "user.note", b"v", rustix::fs::XattrFlags::empty()).unwrap();
    let packed = |arguments: &[&str]| {
        let output = run(&place, &[&["in", "-o", "y.nra", "-f"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {output:?}");
        (Packed::open(&place.at("y.nra")), place.at("y.nra").metadata().unwrap().len())
    };
    let (usual, size) = packed(&[]);
    let entry = usual.entry("a.txt");
    assert!(entry.metadata.owner.is_some() && entry.modified.is_some());
    assert!(!entry.metadata.attributes.is_empty());
    assert_eq!(usual.entry("link").kind, nra::format::entry::Kind::Symlink);
    assert!(packed(&["--no-owner"]).0.entry("a.txt").metadata.owner.is_none());
    assert!(packed(&["--numeric-owner"]).0.entry("a.txt").metadata.owner.as_ref().unwrap().user.is_empty());
    assert!(packed(&["--no-times"]).0.entry("a.txt").modified.is_none());
    assert!(packed(&["--no-xattrs"]).0.entry("a.txt").metadata.attributes.is_empty());
    let (followed, _) = packed(&["-L"]);
    assert_eq!(followed.content("link"), followed.content("a.txt"));
    // Only without a codec, repetitive content is not compressed.
    assert!(packed(&["--codec", "none"]).1 > size + 4_000);
    assert_ne!(packed(&["--codec", "lz4"]).1, size);
    assert_eq!(run(&place, &["in", "-o", "z.nra", "--dict", "no such"]).status.code(), Some(1));
}

/// Writes about `total` bytes in small and large files below the input.
fn grow(place: &Place, total: usize) {
    for number in 0..total / (2 << 20) {
        let seed = u32::try_from(number).unwrap();
        place.write(&format!("{number}/large"), noise(1 << 20, u64::from(seed)));
        for part in 0..64 {
            place.write(&format!("{number}/{part}"), noise(16 << 10, u64::from(seed * 64 + part + 1_000_000)));
        }
    }
}

/// Runs a program and returns its peak memory, KiB.
fn peak_of(mut command: Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{command:?}");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "writes a quarter of a gigabyte"]
fn memory_does_not_grow_with_input() {
    let peaks = [20 << 20, 200 << 20].map(|total| {
        let place = Place::new();
        grow(&place, total);
        let mut pack = nra_command(&place.directory);
        pack.args(["pack", "in", "-o", "x.nra", "--memory", "32M", "-j", "2", "--no-sync"]);
        let mut extract = nra_command(&place.directory);
        extract.args(["extract", "x.nra", "-C", "back", "--memory", "32M", "-j", "2"]);
        [peak_of(pack), peak_of(extract)]
    });
    for (small, large) in peaks[0].iter().zip(&peaks[1]) {
        // The index of ten times as many files, and the program itself.
        assert!(*large < 40 << 10 && *large < small + (16 << 10), "{peaks:?}");
    }
}

#[test]
fn file_lists_select_inputs() {
    let place = small();
    fs::write(place.at("names"), "in/sub/b.txt\0./in/a.txt\0").unwrap();
    let output = run(&place, &["-T", "names", "-0", "-o", "x.nra"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(Packed::open(&place.at("x.nra")).paths(), ["in", "in/a.txt", "in/sub", "in/sub/b.txt"]);
    fs::write(place.at("globs"), "# comment\n*.txt\n!b.txt\n").unwrap();
    let output = run(&place, &["in", "--exclude-from", "globs", "-o", "y.nra"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(Packed::open(&place.at("y.nra")).paths(), ["sub", "sub/b.txt", "sub/c.tmp"]);
}

#[test]
fn skipped_entries_set_the_exit_code() {
    let place = small();
    let _listener = UnixListener::bind(place.input("sock")).unwrap();
    let output = run(&place, &["in", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output.stderr).contains("in/sock"));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["code"], &summary["skipped"], &summary["files"]), (&3.into(), &1.into(), &3.into()));
    assert_eq!(summary["archive"], "in.nra");
    let missing = run(&place, &["no such", "-o", "z.nra"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("no such"));
    assert!(!place.at("z.nra").exists());
}

#[test]
fn dry_run_lists_entries_and_writes_nothing() {
    let place = small();
    let output = run(&place, &["in", "-n"]);
    assert_eq!(text(&output.stdout), "a.txt\nsub\nsub/b.txt\nsub/c.tmp\n");
    let lines = run(&place, &["in", "-n", "--jsonl"]);
    let last = text(&lines.stdout).lines().last().unwrap().to_owned();
    let summary: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&summary["type"], &summary["entries"]), (&"summary".into(), &4.into()));
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn archive_is_written_to_standard_output() {
    let place = small();
    let output = run(&place, &["in", "-o", "-"]);
    assert_eq!(output.status.code(), Some(0));
    fs::write(place.output(), &output.stdout).unwrap();
    assert_eq!(Packed::open(&place.output()).paths().len(), 4);
    assert!(!place.at("-").exists());
    assert_eq!(run(&place, &["in", "-o", "-", "--json"]).status.code(), Some(2));
}

#[test]
fn source_date_epoch_sets_times() {
    let place = small();
    let pack = |epoch: &str| {
        let arguments = ["pack", "in", "-o", "-", "--reproducible"];
        nra_command(&place.directory).args(arguments).env("SOURCE_DATE_EPOCH", epoch).output().unwrap()
    };
    let (one, two) = (pack("1000000000"), pack("1000000000"));
    assert!(one.status.success() && one.stdout == two.stdout);
    fs::write(place.output(), &one.stdout).unwrap();
    assert_eq!(Packed::open(&place.output()).entry("a.txt").modified.unwrap().seconds, 1_000_000_000);
    assert_eq!(pack("yesterday").status.code(), Some(2));
}

/// Packs a tree and sends `signal` meanwhile. Returns the exit code, the signal that ended the process, and its messages.
fn interrupted(signal: Signal) -> (Place, Option<i32>, Option<i32>, String) {
    let place = Place::new();
    for number in 0..24 {
        place.write(&format!("{number}.bin"), noise(4 << 20, number));
    }
    let arguments = ["pack", "in", "-o", "x.nra", "--codec", "zstd", "-l", "19", "-v", "-j", "1"];
    let mut child = nra_command(&place.directory).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    // `-v` prints an entry when its content is written.
    let mut stderr = child.stderr.take().unwrap();
    std::io::Read::read_exact(&mut stderr, &mut [0]).unwrap();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let drain = std::thread::spawn(move || std::io::read_to_string(stderr));
    let status = child.wait().unwrap();
    let stderr = drain.join().unwrap().unwrap();
    (place, status.code(), status.signal(), stderr)
}

#[test]
fn killed_pack_leaves_no_archive() {
    let (place, _, signal, _) = interrupted(Signal::KILL);
    assert_eq!(signal, Some(9));
    assert!(!place.at("x.nra").exists());
    // On file systems without unnamed files, a temporary file may be left.
    assert!(place.names().iter().all(|name| name == "in" || name.starts_with(".nra-")), "{:?}", place.names());
}

#[test]
fn interrupted_pack_leaves_no_files() {
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let start = std::time::Instant::now();
        let (place, code, _, stderr) = interrupted(signal);
        assert!(stderr.ends_with("nra: interrupted\nhint: x.nra was not written\n"), "{stderr}");
        assert_eq!(code, Some(expected));
        assert_eq!(place.names(), ["in"]);
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
