//! Unusual names in output and arguments.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Output, Stdio};

use super::{Sandbox, nra};

const NAMES: [&[u8]; 9] =
    [b"plain", b"a b", b"a[1]*.txt", b"$'q'", b"tab\tx", b"esc\x1b[31m", b"latin\xff", b"two\nlines", b"-dash"];

fn run(directory: &Path, arguments: &[&OsStr], input: &[u8]) -> Output {
    let mut child = nra()
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A failing command may not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Packs a file of each name, with the name as content.
fn packed(sandbox: &Sandbox) {
    let directory = sandbox.directory.path().join("in");
    std::fs::create_dir(&directory).unwrap();
    for name in NAMES {
        std::fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
    }
    assert_eq!(sandbox.run(&["pack", "in", "-o", "names.nra", "-q"]).code, Some(0));
}

#[test]
fn listed_names_are_accepted_as_arguments() {
    let sandbox = Sandbox::new();
    packed(&sandbox);
    let here = sandbox.directory.path();
    let words = |line: &str| line.split(' ').map(|word| OsStr::new(word).to_owned()).collect::<Vec<_>>();
    let nra = |line: &str, input: &[u8]| {
        let words = words(line);
        run(here, &words.iter().map(|word| word.as_os_str()).collect::<Vec<_>>(), input)
    };
    let listed = nra("list names.nra", b"").stdout;
    assert_eq!(listed.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count(), NAMES.len());
    for (list, take) in
        [("list names.nra", "extract names.nra -C out -T -"), ("list -0 names.nra", "extract names.nra -C null -0 -T -")]
    {
        let done = nra(take, &nra(list, b"").stdout);
        assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).contains("warning")), (Some(0), false));
    }
    for name in NAMES {
        for target in ["out", "null"] {
            assert_eq!(std::fs::read(here.join(target).join(OsStr::from_bytes(name))).unwrap(), name);
        }
    }
    for line in listed.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let line = OsStr::from_bytes(line);
        let content = run(here, &[OsStr::new("cat"), "names.nra".as_ref(), "--".as_ref(), line], b"").stdout;
        assert!(NAMES.contains(&&content[..]), "{line:?}");
        let again = run(here, &[OsStr::new("list"), "names.nra".as_ref(), "--".as_ref(), line], b"").stdout;
        assert_eq!(again, [line.as_bytes(), b"\n"].concat(), "{line:?}");
        let sums = run(here, &[OsStr::new("du"), "--bytes".as_ref(), "names.nra".as_ref(), "--".as_ref(), line], b"");
        assert_eq!(sums.status.code(), Some(0), "{line:?}");
    }
    // As names of files on disk.
    std::fs::create_dir(here.join("from")).unwrap();
    let done = nra("pack -q -C in -T - -o again.nra", &listed);
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
    assert_eq!(nra("list again.nra", b"").stdout, listed);
}

#[test]
fn json_contains_bytes_of_archive_names() {
    let sandbox = Sandbox::new();
    let here = sandbox.directory.path();
    std::fs::write(here.join("f"), "x").unwrap();
    let name = OsStr::from_bytes(b"\xff.nra");
    let lines: [&[&OsStr]; 6] = [
        &["pack".as_ref(), "f".as_ref(), "-o".as_ref(), name],
        &["pack".as_ref(), "f".as_ref(), "-o".as_ref(), name, "-f".as_ref(), "-n".as_ref()],
        &["add".as_ref(), name, "rich.nra".as_ref()],
        &["info".as_ref(), name],
        &["mkdir".as_ref(), name, "d".as_ref()],
        &["compact".as_ref(), name],
    ];
    for line in lines {
        let output = run(here, &[line, &["--jsonl".as_ref()]].concat(), b"");
        let last = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
        let last: serde_json::Value = serde_json::from_slice(last).unwrap();
        assert_eq!((last["archive"].as_str(), last["archive_b64"].as_str()), (Some("\u{fffd}.nra"), Some("/y5ucmE=")), "{last}");
    }
    let output = run(here, &["info".as_ref(), "rich.nra".as_ref(), "--json".as_ref()], b"");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("archive_b64"));
}

#[test]
fn content_is_piped_unchanged() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("text"), b"caf\xe9 error\n\x07 error\n").unwrap();
    assert_eq!(sandbox.run(&["pack", "text", "-q"]).code, Some(0));
    let found = run(sandbox.directory.path(), &["grep", "text.nra", "error"].map(OsStr::new), b"").stdout;
    assert_eq!(found, b"text:caf\xe9 error\ntext:\x07 error\n");
}
