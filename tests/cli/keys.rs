//! Encrypted archives: sources of keys and messages about wrong ones.

use std::fs;
use std::path::Path;

use crate::{Outcome, Sandbox, nra, outcome, schema};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Runs with variables set.
pub fn run(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = nra();
    command.args(arguments).current_dir(directory).env_remove("NRA_PASSWORD").env_remove("NRA_ENCRYPTION_KEY");
    outcome(command.envs(variables.iter().copied()).output().unwrap())
}

fn good(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.out, outcome.err);
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory.path();
    fs::create_dir(directory.join("in")).unwrap();
    fs::write(directory.join("in/quite-secret.txt"), "what is in it").unwrap();
    fs::write(directory.join("pass"), "sesame\n").unwrap();
    fs::write(directory.join("hex"), format!("{KEY}\n")).unwrap();
    fs::write(directory.join("raw"), (0..32).collect::<Vec<u8>>()).unwrap();
    sandbox
}

#[test]
fn key_comes_from_options_and_variables() {
    let sandbox = sandbox();
    let at = sandbox.directory.path();
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
        let outcome = cat(archive, variables, options);
        assert_eq!(
            (outcome.code, &*outcome.out, &*outcome.err),
            (Some(0), "what is in it", ""),
            "{archive} {variables:?} {options:?}"
        );
    }
    // An unused key is reported: it may be the wrong archive.
    let outcome = cat("plain.nra", &[], &["--password", "sesame"]);
    assert!(outcome.code == Some(0) && outcome.err.contains("not encrypted"), "{}", outcome.err);
    for (archive, variables, options, message) in [
        ("p.nra", &[][..], &[][..], "a password or key is needed"),
        ("p.nra", &[("NRA_PASSWORD", "open")], &[], "the password or key is wrong"),
        ("p.nra", &[], &["--key-file", "raw"], "the password or key is wrong"),
        ("p.nra", &[("NRA_ENCRYPTION_KEY", "12")], &[], "64 hexadecimal digits"),
        ("p.nra", &[], &["--key-file", "pass"], "is not a key"),
        ("p.nra", &[], &["-p"], "no terminal"),
    ] {
        let outcome = cat(archive, variables, options);
        assert!(
            outcome.code == Some(5) && outcome.out.is_empty() && outcome.err.contains(message),
            "{:?} {}",
            outcome.code,
            outcome.err
        );
        assert!(!outcome.err.contains("quite"), "{}", outcome.err);
    }
    let outcome = run(at, &[], &["pack", "in", "-o", "n.nra", "-e"]);
    assert!(outcome.code == Some(5) && outcome.err.contains("--password-file") && !at.join("n.nra").exists(), "{}", outcome.err);
}

#[test]
fn key_adds_changes_and_removes_keys() {
    let sandbox = sandbox();
    let at = sandbox.directory.path();
    let password = [("NRA_PASSWORD", "sesame")];
    let key = [("NRA_ENCRYPTION_KEY", KEY)];
    good(&run(at, &password, &["pack", "in", "-o", "a.nra", "-e"]));
    let outcome = run(at, &[], &["key", "list", "a.nra"]);
    assert!(outcome.code == Some(0) && outcome.out.contains("password (Argon2id"), "{}{}", outcome.out, outcome.err);
    good(&run(at, &password, &["key", "add", "a.nra", "--new-key-file", "raw", "--label", "backup"]));
    let outcome = run(at, &[], &["key", "list", "a.nra", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(listed["keys"][1]["label"], "backup");
    listed["keys"].as_array().unwrap().iter().for_each(schema::check);
    good(&run(at, &key, &["verify", "a.nra"]));
    let outcome = run(at, &password, &["key", "add", "a.nra", "--new-key-file", "raw"]);
    assert!(outcome.code == Some(1) && outcome.err.contains("this password or key is already key 2"), "{}", outcome.err);
    let outcome = run(at, &key, &["key", "add", "a.nra"]);
    assert!(outcome.code == Some(5) && outcome.err.contains("hint: use --new-password-file"), "{}", outcome.err);
    let whole = fs::read(at.join("a.nra")).unwrap();
    for (arguments, start) in [
        (&["key", "add", "a.nra", "--new-password", "x", "-n"][..], "added key 3 in commit 3 (+"),
        (&["key", "remove", "a.nra", "1", "-n"], "removed key 1 in commit 3 (+"),
        (&["key", "change", "a.nra", "-n", "--new-password", "x"], "changed key 2 in commit 3 (+"),
    ] {
        let outcome = run(at, &key, arguments);
        good(&outcome);
        assert!(outcome.err.starts_with(start) && outcome.err.ends_with(": dry run, nothing written\n"), "{}", outcome.err);
    }
    assert!(fs::read(at.join("a.nra")).unwrap() == whole, "nothing was written");
    good(&run(at, &key, &["key", "change", "a.nra", "1", "--new-password", "changed"]));
    assert_eq!(run(at, &password, &["list", "a.nra"]).code, Some(5));
    good(&run(at, &[("NRA_PASSWORD", "changed")], &["list", "a.nra"]));
    good(&run(at, &key, &["key", "remove", "a.nra", "1"]));
    assert_eq!(run(at, &[("NRA_PASSWORD", "changed")], &["list", "a.nra"]).code, Some(5));
    let outcome = run(at, &key, &["key", "remove", "a.nra", "1"]);
    assert!(outcome.code != Some(0) && outcome.err.contains("last key"), "{}", outcome.err);
    let outcome = run(at, &[], &["key", "list", "plain.nra"]);
    assert_eq!(outcome.code, Some(1));
    good(&run(at, &key, &["add", "a.nra", "pass"]));
    good(&run(at, &key, &["mv", "a.nra", "pass", "moved"]));
    let outcome = run(at, &key, &["cat", "a.nra", "moved"]);
    assert_eq!(outcome.out, "sesame\n");
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
    let sandbox = sandbox();
    let at = sandbox.directory.path();
    good(&run(at, &[], &["pack", "in", "-o", "k.nra", "--key-file", "hex"]));
    let outcome = run(at, &[], &["info", "k.nra"]);
    assert!(
        outcome.code == Some(5) && outcome.out.contains("AES-256-GCM") && outcome.out.contains("\nkey           1: key\n"),
        "{}{}",
        outcome.out,
        outcome.err
    );
    let outcome = run(at, &[], &["info", "k.nra", "--key-file", "hex"]);
    assert!(outcome.code == Some(0) && outcome.out.contains("encrypted") && outcome.out.contains("1 file"), "{}", outcome.out);
    let outcome = run(at, &[], &["info", "k.nra", "--key-file", "hex", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(info["encryption"]["keys"], 1);
    schema::check(&info);
}
