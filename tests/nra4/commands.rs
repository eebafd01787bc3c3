//! Commands on archives of earlier versions.

use std::process::{Command, Output};

use super::folder;

fn nra(arguments: &[&str]) -> Output {
    nra_with_key(arguments, None)
}

fn nra_with_key(arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nra"));
    command.args(arguments).current_dir(folder()).env_remove("NRA_ENCRYPTION_KEY").env_remove("NRA_PASSWORD");
    if let Some(key) = key {
        command.env("NRA_ENCRYPTION_KEY", key);
    }
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

/// Runs a command that must succeed without warnings. Returns its output.
fn stdout_of(arguments: &[&str]) -> String {
    let output = nra(arguments);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

const ARCHIVE: &str = "beta-from-zip-lz4.nra";

#[test]
fn every_reading_command_accepts_earlier_archives() {
    let list = stdout_of(&["list", ARCHIVE]);
    assert!(list.lines().any(|line| line == "train/class_a/0001.txt"), "{list}");
    assert!(list.lines().any(|line| line == "train"), "{list}");
    let content = stdout_of(&["cat", ARCHIVE, "train/class_a/0001.txt"]);
    let digests = stdout_of(&["list", "--digest", ARCHIVE]);
    let digest = nra::format::digest::Digest::of(content.as_bytes()).to_string();
    assert!(digests.lines().any(|line| line.contains(&digest) && line.contains("train/class_a/0001.txt")), "{digests}");
    assert!(stdout_of(&["info", ARCHIVE]).contains("NRA 4.5"));
    assert!(stdout_of(&["info", "v1-size.nra"]).contains("NRA 1"));
    assert!(stdout_of(&["verify", ARCHIVE]).contains("ok"));
    assert!(stdout_of(&["find", ARCHIVE, "--name", "0001.txt"]).contains("train/class_a/0001.txt"));
    let word = content.split_whitespace().next().unwrap();
    assert!(stdout_of(&["grep", "-l", ARCHIVE, word]).contains("train/class_a/0001.txt"));
    assert!(stdout_of(&["du", ARCHIVE]).contains("train"));
}

#[test]
fn extract_restores_all_files() {
    let target = tempfile::tempdir().unwrap();
    let output = nra(&["extract", "beta-zstd.nra", "-C", target.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for member in super::expected()["archives"]["beta-zstd.nra"]["members"].as_array().unwrap() {
        use sha2::Digest as _;
        let content = std::fs::read(target.path().join(member["name"].as_str().unwrap())).unwrap();
        assert_eq!(super::hex(&sha2::Sha256::digest(&content)), member["sha256"].as_str().unwrap());
    }
}

#[test]
fn list_reports_entries_hidden_by_the_same_name() {
    let output = nra(&["list", "beta-appended-same-name.nra"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("1 entry is hidden by an earlier entry of the same name: small.txt")
    );
}

#[test]
fn convert_keeps_contents_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let (new, old, again) = (path("new.nra"), path("old.nra"), path("again.nra"));
    for arguments in
        [&["convert", ARCHIVE, &new, "-q"][..], &["convert", &new, &old, "--to", "nra4", "-q"], &["convert", &old, &again, "-q"]]
    {
        let output = nra(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(stdout_of(&["info", &new]).contains("NRA 5"));
    assert!(stdout_of(&["info", &old]).contains("NRA 4.5"));
    assert_eq!(stdout_of(&["list", "--digest", &old]), stdout_of(&["list", "--digest", ARCHIVE]));
    assert_eq!(stdout_of(&["list", "--digest", &again]), stdout_of(&["list", "--digest", &new]));
    assert!(stdout_of(&["verify", &old]).contains("ok"));
    let piped = nra(&["convert", ARCHIVE, "-", "--to", "nra4"]);
    assert_eq!((piped.status.code(), piped.stdout.len()), (Some(2), 0));
}

#[test]
fn encrypted_archives_are_read_and_written_with_their_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let key = super::expected()["test_key_hex"].as_str().unwrap().to_owned();
    let plain = stdout_of(&["cat", "beta-zstd.nra", "small.txt"]);
    let arguments = ["cat", "beta-encrypted.nra", "small.txt"];
    let read = nra_with_key(&arguments, Some(&key));
    assert_eq!((read.status.code(), read.stdout), (Some(0), plain.clone().into_bytes()));
    for wrong in [None, Some("11".repeat(32))] {
        let read = nra_with_key(&arguments, wrong.as_deref());
        assert_eq!((read.status.code(), read.stdout.len()), (Some(5), 0), "{}", String::from_utf8_lossy(&read.stderr));
    }
    let again = path("again.nra");
    let arguments = ["convert", "beta-encrypted.nra", &again, "--to", "nra4", "-e", "-q"];
    let converted = nra_with_key(&arguments, Some(&key));
    assert_eq!(converted.status.code(), Some(0), "{}", String::from_utf8_lossy(&converted.stderr));
    let read = nra_with_key(&["cat", &again, "small.txt"], Some(&key));
    assert_eq!((read.status.code(), read.stdout), (Some(0), plain.into_bytes()));
    assert_eq!(nra(&["cat", &again, "small.txt"]).status.code(), Some(5));
}

#[test]
fn missing_key_is_reported_with_the_archive_name() {
    let wrong = "11".repeat(32);
    for (arguments, key) in [
        (&["grep", "beta-encrypted.nra", "a"][..], Some(&*wrong)),
        (&["grep", "beta-encrypted.nra", "a"], None),
        (&["list", "--digest", "beta-encrypted.nra"], Some(&*wrong)),
        (&["cat", "beta-encrypted.nra", "small.txt"], Some(&*wrong)),
    ] {
        let output = nra_with_key(arguments, key);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {err}");
        assert!(err.contains("beta-encrypted.nra: ") && err.contains("hint:") == key.is_none(), "{arguments:?}: {err}");
    }
    // Names are not encrypted; list reports that contents are.
    for key in [None, Some(&*wrong)] {
        let output = nra_with_key(&["list", "beta-encrypted.nra"], key);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(err.contains("contents need the key"), "{err}");
    }
    let key = super::expected()["test_key_hex"].as_str().unwrap().to_owned();
    let output = nra_with_key(&["list", "beta-encrypted.nra"], Some(&key));
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn wrong_key_is_not_skipped_as_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.nra").into_os_string().into_string().unwrap();
    for (more, key) in [(&[][..], Some("11".repeat(32))), (&["--to", "nra4"], Some("11".repeat(32))), (&[], None)] {
        let arguments = [&["convert", "--keep-going", "beta-encrypted.nra", &path], more].concat();
        let output = nra_with_key(&arguments, key.as_deref());
        assert_eq!(output.status.code(), Some(5), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!std::path::Path::new(&path).exists());
    }
}

#[test]
fn convert_counts_skipped_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let mut bytes = super::fixture("beta-multiblock.nra");
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    std::fs::write(path("damaged.nra"), bytes).unwrap();
    let output = nra(&["convert", "--json", "--keep-going", &path("damaged.nra"), &path("out.nra4"), "--to", "nra4"]);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["entries"], &summary["skipped"]), (&2.into(), &1.into()));
}

#[test]
fn convert_suggests_a_level_if_the_archive_grows() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let convert = |input: &str, more: &[&str]| {
        let output = nra(&[&["convert", "-f", input, &path("out.nra")], more].concat());
        assert_eq!(output.status.code(), Some(0));
        (String::from_utf8_lossy(&output.stderr).contains("-l 19"), std::fs::metadata(path("out.nra")).unwrap().len())
    };
    let before = super::fixture("beta-from-tar-l19.nra").len() as u64;
    let (has_hint, len) = convert("beta-from-tar-l19.nra", &[]);
    assert!(has_hint && len > before, "{len}");
    let (has_hint, len) = convert("beta-from-tar-l19.nra", &["-l", "19"]);
    assert!(!has_hint && len < before, "{len}");
    for other in ["beta-multiblock.nra", "v1-size.nra"] {
        assert!(!convert(other, &[]).0, "{other}");
    }
}
