//! Conversions whose result does not depend on the format.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::tree::describe;
use crate::common::{NRA, expect, nra, other};
use crate::{EXACT, packed_tree, tree};

/// Returns the number of bytes of stored content.
fn stored_bytes(folder: &Path, archive: &str) -> u64 {
    let output = nra(folder, &["info", archive, "--json", "--password", "x"]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    info["stored_bytes"].as_u64().unwrap()
}

#[test]
fn blocks_are_copied_between_archives() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let expected = describe(&tree(at), EXACT);
    // Not the default level of conversions.
    expect(at, &["pack", "tree", "-o", "first.nra", "-l", "1", "-m", "the first"], 0);
    expect(at, &["attr", "first.nra", "set", "label=5", "--entry", "none"], 0);
    let before = stored_bytes(at, "first.nra");
    let stderr = expect(at, &["convert", "first.nra", "moved.nra"], 3);
    assert!(stderr.contains("earlier commits are not kept"), "{stderr}");
    let stderr = expect(at, &["convert", "moved.nra", "locked.nra", "-e", "--password", "x"], 0);
    assert!(!stderr.contains("is encrypted"), "{stderr}");
    let stderr = expect(at, &["convert", "locked.nra", "open.nra", "--password", "x"], 0);
    assert!(stderr.contains("the input is encrypted, but the output is not"), "{stderr}");
    for archive in ["moved.nra", "locked.nra", "open.nra"] {
        assert_eq!(stored_bytes(at, archive), before, "{archive}");
        expect(at, &["verify", archive, "--password", "x"], 0);
        let out = format!("out-{archive}");
        expect(at, &["extract", archive, "-C", &out, "--password", "x"], 0);
        assert_eq!(describe(&at.join(out), EXACT), expected, "{archive}");
        let attributes = nra(at, &["attr", archive, "--entry", "none", "--password", "x"]).stdout;
        assert_eq!(String::from_utf8_lossy(&attributes), "none: label=5\n", "{archive}");
    }
    expect(at, &["convert", "first.nra", "anew.nra", "-l", "19"], 3);
    assert!(stored_bytes(at, "anew.nra") < before);
    expect(at, &["extract", "anew.nra", "-C", "out-anew"], 0);
    assert_eq!(describe(&at.join("out-anew"), EXACT), expected);
    // Limits and options for metadata apply too.
    expect(at, &["convert", "first.nra", "x.nra", "--limit-entries", "3"], 1);
    expect(at, &["convert", "moved.nra", "bare.nra", "--no-times", "--no-owner"], 0);
    let listed = String::from_utf8(nra(at, &["list", "bare.nra", "--json"]).stdout).unwrap();
    assert!(!listed.contains("\"mtime\"") && !listed.contains("\"uid\""), "{listed}");
}

#[test]
fn pipes_are_converted() {
    let folder = packed_tree();
    let at = folder.path();
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
fn output_does_not_depend_on_threads() {
    let folder = packed_tree();
    let at = folder.path();
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
fn holes_of_short_files_are_kept() {
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
fn compressed_file_is_an_archive_of_one_entry() {
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
fn closed_pipe_is_a_failure() {
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
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.code() == Some(1) && stderr.contains("cannot write the archive: broken pipe"),
            "{arguments:?}: {stderr}"
        );
    }
}
