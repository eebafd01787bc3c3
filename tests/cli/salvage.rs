//! `nra salvage`: messages, output and exit codes.

use std::fs;

use crate::keys::run;
use crate::{Sandbox, sample, schema};

#[test]
fn salvage_creates_undamaged_archive() {
    let sandbox = Sandbox::new();
    let listed = sandbox.out(&["list", "rich.nra", "-l"]);
    let mut bytes = sample::rich();
    let end = bytes.len();
    // Damage the superblock, the commit, the footer and the index before them.
    bytes[..256].fill(0);
    bytes[end - 700..].fill(0);
    sample::save(sandbox.directory.path(), "broken.nra", &bytes);
    let dry = sandbox.run(&["salvage", "broken.nra", "-o", "new.nra", "-n"]);
    assert!(dry.code == Some(4) && dry.err.contains("salvaged 13 entries"), "{}", dry.err);
    assert!(
        dry.err.contains(": dry run, nothing written\n") && !sandbox.directory.path().join("new.nra").exists(),
        "{}",
        dry.err
    );
    let outcome = sandbox.run(&["salvage", "broken.nra", "-o", "new.nra"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.err);
    assert!(outcome.err.contains("salvaged 13 entries") && outcome.err.contains("block indexes"), "{}", outcome.err);
    let (list, verify) = (sandbox.out(&["list", "new.nra", "-l"]), sandbox.run(&["verify", "new.nra"]));
    let names = |list: &str| list.lines().map(|line| line.split("03:04:05").last().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!((names(&list), verify.code), (names(&listed), Some(0)));
    // Existing files are not replaced, and the damaged archive never is.
    let outcome = sandbox.run(&["salvage", "broken.nra", "-o", "new.nra"]);
    assert!(outcome.code == Some(1) && outcome.err.contains("use -f to replace new.nra, or -o"), "{}", outcome.err);
    let outcome = sandbox.run(&["salvage", "broken.nra", "-o", "broken.nra", "-f"]);
    assert!(outcome.code == Some(2) && outcome.err.contains("itself"), "{}", outcome.err);
    assert_eq!(fs::read(sandbox.directory.path().join("broken.nra")).unwrap(), bytes);
    let outcome = sandbox.run(&["salvage", "broken.nra", "-o", "new.nra", "-f", "--jsonl"]);
    let summary: serde_json::Value = serde_json::from_str(outcome.out.lines().last().unwrap()).unwrap();
    schema::check(&summary);
    assert_eq!((&summary["entries"], &summary["lost_entries"], &summary["index_rebuilt"]), (&13.into(), &0.into(), &true.into()));
    assert_eq!(summary["unreadable_index_parts"], 0);
}

#[test]
fn salvage_copies_undamaged_archive_and_rejects_empty_file() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&["salvage", "rich.nra", "-o", "new.nra"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    fs::write(sandbox.directory.path().join("none"), [7; 3_000]).unwrap();
    let outcome = sandbox.run(&["salvage", "none", "-o", "none.nra"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.err);
    assert!(outcome.err.contains("no recoverable entries found") && !outcome.err.contains("nra verify"), "{}", outcome.err);
    assert!(!sandbox.directory.path().join("none.nra").exists());
}

#[test]
fn salvage_of_other_formats_suggests_convert() {
    let sandbox = Sandbox::new();
    for (name, format) in [("a.zip", "zip"), ("a.tar", "tar"), ("a.shard", "Shard"), ("a.nra4", "NRA 4.5")] {
        sandbox.run(&["convert", "rich.nra", name]);
        let outcome = sandbox.run(&["salvage", name, "-o", "new.nra"]);
        assert_eq!(outcome.code, Some(4), "{name}: {}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 2, "{}", outcome.err);
        assert!(outcome.err.contains(&format!("supports only NRA 5 archives, not {format}")), "{}", outcome.err);
        assert!(outcome.err.contains(&format!("hint: use nra convert --keep-going {name} OUT")), "{}", outcome.err);
        assert!(!sandbox.directory.path().join("new.nra").exists());
    }
}

#[test]
fn salvage_writes_nothing_without_entries() {
    let sandbox = Sandbox::new();
    // One block of incompressible content. The names follow the content.
    let mut content = vec![0; 100_000];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    fs::write(sandbox.directory.path().join("noise"), content).unwrap();
    sandbox.run(&["pack", "noise", "-o", "noise.nra"]);
    let whole = fs::read(sandbox.directory.path().join("noise.nra")).unwrap();
    fs::write(sandbox.directory.path().join("half.nra"), &whole[..whole.len() / 2]).unwrap();
    let outcome = sandbox.run(&["salvage", "half.nra", "-o", "new.nra"]);
    assert!(outcome.code == Some(4) && outcome.err.contains("no recoverable entries found"), "{}", outcome.err);
    assert!(!sandbox.directory.path().join("new.nra").exists());
    // Without the superblock, only salvage recognizes the archive.
    fs::write(sandbox.directory.path().join("tail.nra"), &whole[609..]).unwrap();
    let outcome = sandbox.run(&["list", "tail.nra"]);
    assert!(outcome.code == Some(4) && outcome.err.contains("nra salvage tail.nra -o OUT"), "{}", outcome.err);
}

#[test]
fn salvage_keeps_encryption() {
    let sandbox = Sandbox::new();
    let at = sandbox.directory.path();
    fs::create_dir(at.join("in")).unwrap();
    fs::write(at.join("in/quite-secret"), "what is in it").unwrap();
    let password = [("NRA_PASSWORD", "sesame")];
    assert_eq!(run(at, &password, &["pack", "in", "-o", "a.nra", "-e"]).code, Some(0));
    let mut bytes = fs::read(at.join("a.nra")).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0);
    fs::write(at.join("a.nra"), bytes).unwrap();
    for variables in [&[][..], &[("NRA_PASSWORD", "open")]] {
        let outcome = run(at, variables, &["salvage", "a.nra", "-o", "new.nra"]);
        assert!(outcome.code == Some(5) && !outcome.err.contains("quite") && !at.join("new.nra").exists(), "{}", outcome.err);
    }
    assert_eq!(run(at, &password, &["salvage", "a.nra", "-o", "new.nra"]).code, Some(4));
    let outcome = run(at, &[], &["cat", "new.nra", "quite-secret"]);
    assert_eq!(outcome.code, Some(5), "{}", outcome.err);
    let outcome = run(at, &password, &["cat", "new.nra", "quite-secret"]);
    assert_eq!((outcome.code, &*outcome.out), (Some(0), "what is in it"));
    assert!(!fs::read(at.join("new.nra")).unwrap().windows(6).any(|window| window == b"secret"));
}
