//! Encrypted archives: sources of keys and messages about wrong ones.

use std::fs;
use std::path::Path;

use crate::{Room, Said, nra, said, schema};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Runs with variables set.
pub fn run(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
    let mut command = nra();
    command.args(arguments).current_dir(directory).env_remove("NRA_PASSWORD").env_remove("NRA_ENCRYPTION_KEY");
    said(command.envs(variables.iter().copied()).output().unwrap())
}

fn good(said: &Said) {
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

fn room() -> Room {
    let room = Room::new();
    let directory = room.directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::write(directory.join("in/quite-secret.txt"), "what is in it").unwrap();
    fs::write(directory.join("pass"), "sesame\n").unwrap();
    fs::write(directory.join("hex"), format!("{KEY}\n")).unwrap();
    fs::write(directory.join("raw"), (0..32).collect::<Vec<u8>>()).unwrap();
    room
}

#[test]
fn key_comes_from_options_and_variables() {
    let room = room();
    let at = room.directory.path();
    let is_encrypted = |archive: &str| !fs::read(at.join(archive)).unwrap().windows(6).any(|window| window == b"secret");
    let cat = |archive: &str, variables: &[(&str, &str)], options: &[&str]| {
        run(at, variables, &[&["cat", archive, "quite-secret.txt"], options].concat())
    };
    good(&run(at, &[], &["pack", "in", "-o", "p.nra", "--password-file", "pass"]));
    good(&run(at, &[], &["pack", "in", "-o", "k.nra", "--key-file", "hex"]));
    good(&run(at, &[("NRA_PASSWORD", "sesame")], &["pack", "in", "-o", "e.nra", "-e"]));
    good(&run(at, &[("NRA_PASSWORD", "sesame")], &["pack", "in", "-o", "plain.nra"]));
    assert!(["p.nra", "k.nra", "e.nra"].into_iter().all(is_encrypted));
    assert!(!is_encrypted("plain.nra"), "variables alone never encrypt");
    for (archive, variables, options) in [
        ("p.nra", &[][..], &["--password", "sesame"][..]),
        ("p.nra", &[], &["--password-file", "pass"]),
        ("p.nra", &[("NRA_PASSWORD", "sesame")], &[]),
        ("p.nra", &[("NRA_PASSWORD", "wrong")], &["--password", "sesame"]),
        ("k.nra", &[], &["--key-file", "raw"]),
        ("k.nra", &[("NRA_ENCRYPTION_KEY", KEY)], &[]),
        ("k.nra", &[("NRA_ENCRYPTION_KEY", KEY), ("NRA_PASSWORD", "sesame")], &[]),
        ("e.nra", &[("NRA_PASSWORD", "sesame")], &[]),
        ("plain.nra", &[("NRA_PASSWORD", "sesame")], &[]),
    ] {
        let said = cat(archive, variables, options);
        assert_eq!((said.code, &*said.out, &*said.err), (Some(0), "what is in it", ""), "{archive} {variables:?} {options:?}");
    }
    // An unused key is reported: it may be the wrong archive.
    let said = cat("plain.nra", &[], &["--password", "sesame"]);
    assert!(said.code == Some(0) && said.err.contains("not encrypted"), "{}", said.err);
    for (archive, variables, options, message) in [
        ("p.nra", &[][..], &[][..], "a password or key is needed"),
        ("p.nra", &[("NRA_PASSWORD", "open")], &[], "the password or key is wrong"),
        ("p.nra", &[], &["--key-file", "raw"], "the password or key is wrong"),
        ("p.nra", &[("NRA_ENCRYPTION_KEY", "12")], &[], "64 hexadecimal digits"),
        ("p.nra", &[], &["--key-file", "pass"], "is not a key"),
        ("p.nra", &[], &["-p"], "no terminal"),
    ] {
        let said = cat(archive, variables, options);
        assert!(said.code == Some(5) && said.out.is_empty() && said.err.contains(message), "{:?} {}", said.code, said.err);
        assert!(!said.err.contains("quite"), "{}", said.err);
    }
    let said = run(at, &[], &["pack", "in", "-o", "n.nra", "-e"]);
    assert!(said.code == Some(5) && said.err.contains("--password-file") && !at.join("n.nra").exists(), "{}", said.err);
}

#[test]
fn key_adds_changes_and_removes_keys() {
    let room = room();
    let at = room.directory.path();
    let password = [("NRA_PASSWORD", "sesame")];
    let key = [("NRA_ENCRYPTION_KEY", KEY)];
    good(&run(at, &password, &["pack", "in", "-o", "a.nra", "-e"]));
    let said = run(at, &[], &["key", "list", "a.nra"]);
    assert!(said.code == Some(0) && said.out.contains("password (Argon2id"), "{}{}", said.out, said.err);
    good(&run(at, &password, &["key", "add", "a.nra", "--new-key-file", "raw", "--label", "backup"]));
    let said = run(at, &[], &["key", "list", "a.nra", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(listed["keys"][1]["label"], "backup");
    listed["keys"].as_array().unwrap().iter().for_each(schema::check);
    good(&run(at, &key, &["verify", "a.nra"]));
    let said = run(at, &password, &["key", "add", "a.nra", "--new-key-file", "raw"]);
    assert!(said.code == Some(1) && said.err.contains("this password or key is already key 2"), "{}", said.err);
    let said = run(at, &key, &["key", "add", "a.nra"]);
    assert!(said.code == Some(5) && said.err.contains("hint: use --new-password-file"), "{}", said.err);
    let whole = fs::read(at.join("a.nra")).unwrap();
    for (arguments, start) in [
        (&["key", "add", "a.nra", "--new-password", "x", "-n"][..], "added key 3 in commit 3 (+"),
        (&["key", "remove", "a.nra", "1", "-n"], "removed key 1 in commit 3 (+"),
        (&["key", "change", "a.nra", "-n", "--new-password", "x"], "changed key 2 in commit 3 (+"),
    ] {
        let said = run(at, &key, arguments);
        good(&said);
        assert!(said.err.starts_with(start) && said.err.ends_with(": dry run, nothing written\n"), "{}", said.err);
    }
    assert!(fs::read(at.join("a.nra")).unwrap() == whole, "nothing was written");
    good(&run(at, &key, &["key", "change", "a.nra", "1", "--new-password", "changed"]));
    assert_eq!(run(at, &password, &["list", "a.nra"]).code, Some(5));
    good(&run(at, &[("NRA_PASSWORD", "changed")], &["list", "a.nra"]));
    good(&run(at, &key, &["key", "remove", "a.nra", "1"]));
    assert_eq!(run(at, &[("NRA_PASSWORD", "changed")], &["list", "a.nra"]).code, Some(5));
    let said = run(at, &key, &["key", "remove", "a.nra", "1"]);
    assert!(said.code != Some(0) && said.err.contains("last key"), "{}", said.err);
    let said = run(at, &[], &["key", "list", "plain.nra"]);
    assert_eq!(said.code, Some(1));
    good(&run(at, &key, &["add", "a.nra", "pass"]));
    good(&run(at, &key, &["mv", "a.nra", "pass", "moved"]));
    let said = run(at, &key, &["cat", "a.nra", "moved"]);
    assert_eq!(said.out, "sesame\n");
    assert_eq!(run(at, &[], &["add", "a.nra", "hex"]).code, Some(5));
    let before = fs::metadata(at.join("a.nra")).unwrap().len();
    assert_eq!(run(at, &[], &["compact", "a.nra"]).code, Some(5));
    good(&run(at, &key, &["compact", "a.nra"]));
    assert!(fs::metadata(at.join("a.nra")).unwrap().len() < before);
    assert_eq!(run(at, &key, &["cat", "a.nra", "moved"]).out, "sesame\n");
    good(&run(at, &key, &["verify", "a.nra"]));
}

#[test]
fn info_without_key_shows_public_properties() {
    let room = room();
    let at = room.directory.path();
    good(&run(at, &[], &["pack", "in", "-o", "k.nra", "--key-file", "hex"]));
    let said = run(at, &[], &["info", "k.nra"]);
    assert!(
        said.code == Some(5) && said.out.contains("AES-256-GCM") && said.out.contains("\nkey           1: key\n"),
        "{}{}",
        said.out,
        said.err
    );
    let said = run(at, &[], &["info", "k.nra", "--key-file", "hex"]);
    assert!(said.code == Some(0) && said.out.contains("encrypted") && said.out.contains("1 file"), "{}", said.out);
    let said = run(at, &[], &["info", "k.nra", "--key-file", "hex", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(info["encryption"]["keys"], 1);
    schema::check(&info);
}
