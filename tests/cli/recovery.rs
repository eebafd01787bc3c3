//! Recovery data: `protect`, `repair`, `pack --recovery`, and its handling by other commands.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::{Sandbox, schema};

impl Sandbox {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(code), "{arguments:?}: {}", outcome.err);
        let document: Value = serde_json::from_str(&outcome.out).unwrap();
        let summary = if document["summary"].is_object() { document["summary"].clone() } else { document };
        schema::check(&summary);
        summary
    }
}

/// Zeros some bytes of a file.
fn damage(path: &PathBuf, from: usize, len: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[from..from + len].fill(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn repair_restores_reported_damage() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let outcome = sandbox.run(&["protect", "rich.nra", "--recovery", "20", "-n"]);
    assert!(outcome.err.starts_with("rich.nra: would add recovery data: "), "{}", outcome.err);
    assert_eq!(fs::read(&archive).unwrap(), plain);
    let summary = sandbox.json(&["protect", "rich.nra", "--recovery", "20", "--json"], 0);
    assert_eq!((&summary["percent"], &summary["protected_bytes"]), (&20.into(), &plain.len().into()));
    let whole = fs::read(&archive).unwrap();
    assert_eq!(whole.len() as u64, plain.len() as u64 + summary["recovery_bytes"].as_u64().unwrap());
    assert!(sandbox.out(&["info", "rich.nra"]).contains("\nrecovery      can restore 20 % of damage; "));
    assert_eq!(sandbox.json(&["info", "rich.nra", "--json"], 0)["recovery"]["percent"], 20);
    assert!(sandbox.out(&["verify", "rich.nra"]).ends_with(", recovery data)\n"));
    assert_eq!(sandbox.json(&["repair", "rich.nra", "--json"], 0)["written"], false);
    assert_eq!(sandbox.run(&["repair", "rich.nra", "-n"]).code, Some(0));

    // The superblock and some content.
    let len = plain.len() / 10;
    damage(&archive, 0, len);
    let verdict = sandbox.run(&["verify", "rich.nra"]);
    assert_eq!(verdict.code, Some(4));
    assert!(verdict.err.contains("hint: use nra repair rich.nra to restore it"), "{}", verdict.err);
    let prediction = sandbox.run(&["repair", "rich.nra", "-n"]);
    assert_eq!(prediction.code, Some(3));
    let (out, err) = (prediction.out, prediction.err);
    assert!(out.starts_with("damaged: ") && err.ends_with("all of it can be restored\n"), "{out}{err}");
    let summary = sandbox.json(&["repair", "rich.nra", "-o", "out.nra", "--json"], 0);
    assert_eq!((&summary["written"], &summary["undamaged"], &summary["restorable"]), (&true.into(), &false.into(), &true.into()));
    assert!(fs::read(sandbox.file("out.nra")).unwrap() == whole);
    assert_eq!(sandbox.run(&["repair", "rich.nra", "-o", "out.nra"]).code, Some(1), "it exists");
    let outcome = sandbox.run(&["repair", "rich.nra"]);
    assert!(outcome.code == Some(0) && outcome.err.starts_with("rich.nra: restored: "), "{}", outcome.err);
    assert!(fs::read(&archive).unwrap() == whole);
}

#[test]
fn repair_keeps_archive_if_damage_exceeds_recovery_data() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let outcome = sandbox.run(&["repair", "rich.nra"]);
    assert_eq!(outcome.code, Some(1), "whether it is whole, nobody has outcome");
    assert!(outcome.err.starts_with("nra: rich.nra has no recovery data\nhint: "), "{}", outcome.err);
    sandbox.run(&["protect", "rich.nra", "--recovery", "5"]);
    damage(&archive, 300, plain.len() / 2);
    let before = fs::read(&archive).unwrap();
    assert_eq!(sandbox.run(&["repair", "rich.nra", "-n"]).code, Some(4));
    let outcome = sandbox.run(&["repair", "rich.nra"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.err);
    assert!(outcome.err.contains("exceeds the recovery data of 5 %"), "{}", outcome.err);
    assert!(outcome.err.contains("hint: use nra salvage rich.nra -o OUT"), "{}", outcome.err);
    assert!(fs::read(&archive).unwrap() == before);
    let left = fs::read_dir(sandbox.directory.path())
        .unwrap()
        .filter(|item| item.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn change_removes_recovery_data_and_compact_keeps_it() {
    let sandbox = Sandbox::new();
    sandbox.run(&["protect", "rich.nra", "--recovery", "7"]);
    fs::write(sandbox.file("text"), "some text").unwrap();
    for change in [&["mkdir", "rich.nra", "new"][..], &["add", "rich.nra", "text"], &["attr", "rich.nra", "set", "name=x"]] {
        let outcome = sandbox.run(change);
        assert!(outcome.code == Some(0) && outcome.err.contains("run nra protect rich.nra to add it again"), "{}", outcome.err);
        // The reported growth does not include the removed recovery data.
        assert!(outcome.err.contains(" (+") && !outcome.err.contains("(+0 B)"), "{}", outcome.err);
        assert_eq!(sandbox.json(&["info", "rich.nra", "--json"], 0)["recovery"], Value::Null);
        sandbox.run(&["protect", "rich.nra", "--recovery", "7"]);
    }
    let outcome = sandbox.run(&["compact", "rich.nra", "-o", "small.nra"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    assert_eq!(sandbox.json(&["info", "small.nra", "--json"], 0)["recovery"]["percent"], 7);
    assert_eq!(sandbox.run(&["verify", "small.nra", "-q"]).code, Some(0));
}

#[test]
fn output_must_differ_from_archive() {
    let sandbox = Sandbox::new();
    sandbox.run(&["protect", "rich.nra"]);
    sandbox.run(&["mkdir", "rich.nra", "new"]);
    sandbox.run(&["protect", "rich.nra"]);
    std::os::unix::fs::symlink("rich.nra", sandbox.file("link.nra")).unwrap();
    let before = fs::read(sandbox.file("rich.nra")).unwrap();
    for command in ["compact", "repair"] {
        for output in ["rich.nra", "link.nra"] {
            let outcome = sandbox.run(&[command, "rich.nra", "-o", output, "-f"]);
            assert!(
                outcome.code == Some(2) && outcome.err.contains("OUT is the archive itself"),
                "{command} {output}: {}",
                outcome.err
            );
        }
    }
    assert!(fs::read(sandbox.file("rich.nra")).unwrap() == before);
}

#[test]
fn recovery_respects_memory_limit() {
    let sandbox = Sandbox::new();
    for command in ["protect", "repair"] {
        assert_eq!(sandbox.run(&[command, "rich.nra", "--memory", "1M"]).code, Some(2));
    }
    // Groups of 8 MiB.
    let mut bytes = vec![0; 20 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    fs::write(sandbox.file("large"), bytes).unwrap();
    sandbox.run(&["pack", "large", "-o", "large.nra", "--no-sync"]);
    assert_eq!(sandbox.json(&["protect", "large.nra", "--json", "-n"], 0)["groups"], 1);
    assert_eq!(sandbox.json(&["protect", "large.nra", "--json", "-n", "--memory", "32M"], 0)["groups"], 3);
    assert_eq!(sandbox.json(&["protect", "large.nra", "--json", "--memory", "32M"], 0)["groups"], 3);
    let whole = fs::read(sandbox.file("large.nra")).unwrap();
    damage(&sandbox.file("large.nra"), 9 << 20, 700_000);
    assert_eq!(sandbox.run(&["repair", "large.nra", "--memory", "32M"]).code, Some(0));
    assert!(fs::read(sandbox.file("large.nra")).unwrap() == whole);
    // Restoring one large group needs more memory.
    sandbox.run(&["protect", "large.nra"]);
    damage(&sandbox.file("large.nra"), 9 << 20, 700_000);
    let outcome = sandbox.run(&["repair", "large.nra", "--memory", "32M"]);
    assert!(outcome.code == Some(1) && outcome.err.contains("hint: use --memory to raise the limit"), "{}", outcome.err);
    assert_eq!(sandbox.run(&["repair", "large.nra"]).code, Some(0));
}

#[test]
fn protect_rejects_other_files() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.file("text"), "some text").unwrap();
    fs::write(sandbox.file("long"), [7; 5_000]).unwrap();
    for name in ["text", "long"] {
        for command in ["protect", "compact", "mkdir"] {
            let outcome = sandbox.run(&if command == "mkdir" { vec![command, name, "x"] } else { vec![command, name] });
            assert_eq!(outcome.code, Some(4), "{}", outcome.err);
            assert!(
                outcome.err.contains("a file that is not an NRA archive") && outcome.err.contains("nra convert"),
                "{}",
                outcome.err
            );
        }
        assert_eq!(sandbox.run(&["protect", name, "-n"]).code, Some(4));
    }
}

#[test]
fn pack_adds_recovery_data() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.file("text"), "some text").unwrap();
    let outcome = sandbox.run(&["pack", "text", "-o", "text.nra", "--recovery", "30"]);
    assert!(outcome.code == Some(0) && outcome.err.contains("added 30 % recovery data ("), "{}", outcome.err);
    let whole = fs::read(sandbox.file("text.nra")).unwrap();
    damage(&sandbox.file("text.nra"), 0, 256);
    assert_eq!(sandbox.run(&["repair", "text.nra"]).code, Some(0));
    assert!(fs::read(sandbox.file("text.nra")).unwrap() == whole);
    assert_eq!(sandbox.run(&["pack", "text", "-o", "-", "--recovery", "30"]).code, Some(2));
    assert_eq!(sandbox.run(&["pack", "text", "-o", "x.nra", "--recovery", "101"]).code, Some(2));
}

#[test]
fn trailing_bytes_are_reported_but_not_damage() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    for round in 0..2 {
        let whole = fs::read(&archive).unwrap();
        fs::write(&archive, [&whole[..], b"junk\n"].concat()).unwrap();
        let outcome = sandbox.run(&["list", "rich.nra"]);
        assert!(outcome.code == Some(0) && outcome.err.contains("5 bytes after"), "{}", outcome.err);
        let outcome = sandbox.run(&["verify", "rich.nra"]);
        assert!(outcome.code == Some(3) && outcome.err.contains("5 bytes after"), "{}", outcome.err);
        assert!(outcome.out.contains(": ok (") && !outcome.err.contains("missing"), "{}{}", outcome.out, outcome.err);
        // Once more with recovery data.
        fs::write(&archive, &plain).unwrap();
        assert!(round == 1 || sandbox.run(&["protect", "rich.nra"]).code == Some(0));
    }
}

#[test]
fn running_change_is_not_damage() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    fs::write(sandbox.file("text"), "some text").unwrap();
    sandbox.run(&["add", "rich.nra", "text"]);
    let whole = fs::read(&archive).unwrap();
    fs::write(&archive, [&whole[..], &[7; 700]].concat()).unwrap();
    let store = nra::format::source::FileStore::open(&archive).unwrap();
    let outcome = sandbox.run(&["verify", "rich.nra"]);
    assert!(outcome.code == Some(0) && outcome.err.contains("another process is changing the archive"), "{}", outcome.err);
    drop(store);
    assert_eq!(sandbox.run(&["verify", "rich.nra"]).code, Some(3));
}

#[test]
fn lost_footer_is_not_reported_as_lost_index() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    let mut bytes = fs::read(&archive).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0);
    fs::write(&archive, bytes).unwrap();
    let outcome = sandbox.run(&["verify", "rich.nra", "--json"]);
    assert!(outcome.code == Some(4) && !outcome.err.contains("missing"), "{}", outcome.err);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(document["summary"]["complete"], true);
    let outcome = sandbox.run(&["verify", "rich.nra"]);
    assert!(outcome.err.contains("0 entries affected") && outcome.err.contains("nra salvage rich.nra -o OUT"), "{}", outcome.err);
    assert!(!outcome.err.contains("nra extract"), "{}", outcome.err);
}

#[test]
fn failed_change_keeps_recovery_data() {
    let sandbox = Sandbox::new();
    let archive = sandbox.file("rich.nra");
    sandbox.run(&["protect", "rich.nra", "--recovery", "30"]);
    let whole = fs::read(&archive).unwrap();
    let mut noise = vec![0; 3 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    fs::write(sandbox.file("noise"), noise).unwrap();
    for arguments in [&["add", "rich.nra", "noise"][..], &["protect", "rich.nra", "--recovery", "90"]] {
        // Limit the file size to little more than the archive; the signal is ignored.
        let limit = whole.len().div_ceil(512);
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_nra")]).args(arguments);
        let output = command.current_dir(sandbox.directory.path()).output().unwrap();
        let outcome = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {outcome}");
        assert!(!outcome.contains("recovery data went"), "{outcome}");
        assert!(fs::read(&archive).unwrap() == whole, "{arguments:?}: {outcome}");
        assert_eq!(sandbox.run(&["repair", "rich.nra", "-n"]).code, Some(0));
    }
}
