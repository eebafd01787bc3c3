//! Recovery data: `protect`, `repair`, `pack --recovery`, and its handling by other commands.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::{Room, schema};

impl Room {
    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        let document: Value = serde_json::from_str(&said.out).unwrap();
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
    let room = Room::new();
    let archive = room.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let said = room.run(&["protect", "rich.nra", "--recovery", "20", "-n"]);
    assert!(said.err.starts_with("rich.nra: would add recovery data: "), "{}", said.err);
    assert_eq!(fs::read(&archive).unwrap(), plain);
    let summary = room.json(&["protect", "rich.nra", "--recovery", "20", "--json"], 0);
    assert_eq!((&summary["percent"], &summary["protected_bytes"]), (&20.into(), &plain.len().into()));
    let whole = fs::read(&archive).unwrap();
    assert_eq!(whole.len() as u64, plain.len() as u64 + summary["recovery_bytes"].as_u64().unwrap());
    assert!(room.out(&["info", "rich.nra"]).contains("\nrecovery      can restore 20 % of damage; "));
    assert_eq!(room.json(&["info", "rich.nra", "--json"], 0)["recovery"]["percent"], 20);
    assert!(room.out(&["verify", "rich.nra"]).ends_with(", recovery data)\n"));
    assert_eq!(room.json(&["repair", "rich.nra", "--json"], 0)["written"], false);
    assert_eq!(room.run(&["repair", "rich.nra", "-n"]).code, Some(0));

    // Head and some of the content.
    let len = plain.len() / 10;
    damage(&archive, 0, len);
    let verdict = room.run(&["verify", "rich.nra"]);
    assert_eq!(verdict.code, Some(4));
    assert!(verdict.err.contains("hint: use nra repair rich.nra to restore it"), "{}", verdict.err);
    let told = room.run(&["repair", "rich.nra", "-n"]);
    assert_eq!(told.code, Some(3));
    assert!(told.out.starts_with("damaged: ") && told.err.ends_with("all of it can be restored\n"), "{}{}", told.out, told.err);
    let summary = room.json(&["repair", "rich.nra", "-o", "out.nra", "--json"], 0);
    assert_eq!((&summary["written"], &summary["undamaged"], &summary["restorable"]), (&true.into(), &false.into(), &true.into()));
    assert!(fs::read(room.file("out.nra")).unwrap() == whole);
    assert_eq!(room.run(&["repair", "rich.nra", "-o", "out.nra"]).code, Some(1), "it exists");
    let said = room.run(&["repair", "rich.nra"]);
    assert!(said.code == Some(0) && said.err.starts_with("rich.nra: restored: "), "{}", said.err);
    assert!(fs::read(&archive).unwrap() == whole);
}

#[test]
fn repair_keeps_archive_if_damage_exceeds_recovery_data() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let said = room.run(&["repair", "rich.nra"]);
    assert_eq!(said.code, Some(1), "whether it is whole, nobody has said");
    assert!(said.err.starts_with("nra: rich.nra has no recovery data\nhint: "), "{}", said.err);
    room.run(&["protect", "rich.nra", "--recovery", "5"]);
    damage(&archive, 300, plain.len() / 2);
    let before = fs::read(&archive).unwrap();
    assert_eq!(room.run(&["repair", "rich.nra", "-n"]).code, Some(4));
    let said = room.run(&["repair", "rich.nra"]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert!(said.err.contains("exceeds the recovery data of 5 %"), "{}", said.err);
    assert!(said.err.contains("hint: use nra salvage rich.nra -o OUT"), "{}", said.err);
    assert!(fs::read(&archive).unwrap() == before);
    let left = fs::read_dir(room.directory.path())
        .unwrap()
        .filter(|item| item.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn change_removes_recovery_data_and_compact_keeps_it() {
    let room = Room::new();
    room.run(&["protect", "rich.nra", "--recovery", "7"]);
    fs::write(room.file("text"), "some text").unwrap();
    for change in [&["mkdir", "rich.nra", "new"][..], &["add", "rich.nra", "text"], &["attr", "rich.nra", "set", "name=x"]] {
        let said = room.run(change);
        assert!(said.code == Some(0) && said.err.contains("run nra protect rich.nra to add it again"), "{}", said.err);
        // The reported growth does not include the removed recovery data.
        assert!(said.err.contains(" (+") && !said.err.contains("(+0 B)"), "{}", said.err);
        assert_eq!(room.json(&["info", "rich.nra", "--json"], 0)["recovery"], Value::Null);
        room.run(&["protect", "rich.nra", "--recovery", "7"]);
    }
    let said = room.run(&["compact", "rich.nra", "-o", "small.nra"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(room.json(&["info", "small.nra", "--json"], 0)["recovery"]["percent"], 7);
    assert_eq!(room.run(&["verify", "small.nra", "-q"]).code, Some(0));
}

#[test]
fn output_must_differ_from_archive() {
    let room = Room::new();
    room.run(&["protect", "rich.nra"]);
    room.run(&["mkdir", "rich.nra", "new"]);
    room.run(&["protect", "rich.nra"]);
    std::os::unix::fs::symlink("rich.nra", room.file("link.nra")).unwrap();
    let before = fs::read(room.file("rich.nra")).unwrap();
    for command in ["compact", "repair"] {
        for output in ["rich.nra", "link.nra"] {
            let said = room.run(&[command, "rich.nra", "-o", output, "-f"]);
            assert!(said.code == Some(2) && said.err.contains("OUT is the archive itself"), "{command} {output}: {}", said.err);
        }
    }
    assert!(fs::read(room.file("rich.nra")).unwrap() == before);
}

#[test]
fn recovery_respects_memory_limit() {
    let room = Room::new();
    for command in ["protect", "repair"] {
        assert_eq!(room.run(&[command, "rich.nra", "--memory", "1M"]).code, Some(2));
    }
    // Groups of 8 MiB.
    let mut bytes = vec![0; 20 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    fs::write(room.file("large"), bytes).unwrap();
    room.run(&["pack", "large", "-o", "large.nra", "--no-sync"]);
    assert_eq!(room.json(&["protect", "large.nra", "--json", "-n"], 0)["groups"], 1);
    assert_eq!(room.json(&["protect", "large.nra", "--json", "-n", "--memory", "32M"], 0)["groups"], 3);
    assert_eq!(room.json(&["protect", "large.nra", "--json", "--memory", "32M"], 0)["groups"], 3);
    let whole = fs::read(room.file("large.nra")).unwrap();
    damage(&room.file("large.nra"), 9 << 20, 700_000);
    assert_eq!(room.run(&["repair", "large.nra", "--memory", "32M"]).code, Some(0));
    assert!(fs::read(room.file("large.nra")).unwrap() == whole);
    // Restoring one large group needs more memory.
    room.run(&["protect", "large.nra"]);
    damage(&room.file("large.nra"), 9 << 20, 700_000);
    let said = room.run(&["repair", "large.nra", "--memory", "32M"]);
    assert!(said.code == Some(1) && said.err.contains("hint: use --memory to raise the limit"), "{}", said.err);
    assert_eq!(room.run(&["repair", "large.nra"]).code, Some(0));
}

#[test]
fn protect_rejects_other_files() {
    let room = Room::new();
    fs::write(room.file("text"), "some text").unwrap();
    fs::write(room.file("long"), [7; 5_000]).unwrap();
    for name in ["text", "long"] {
        for command in ["protect", "compact", "mkdir"] {
            let said = room.run(&if command == "mkdir" { vec![command, name, "x"] } else { vec![command, name] });
            assert_eq!(said.code, Some(4), "{}", said.err);
            assert!(said.err.contains("a file that is not an NRA archive") && said.err.contains("nra convert"), "{}", said.err);
        }
        assert_eq!(room.run(&["protect", name, "-n"]).code, Some(4));
    }
}

#[test]
fn pack_adds_recovery_data() {
    let room = Room::new();
    fs::write(room.file("text"), "some text").unwrap();
    let said = room.run(&["pack", "text", "-o", "text.nra", "--recovery", "30"]);
    assert!(said.code == Some(0) && said.err.contains("added 30 % recovery data ("), "{}", said.err);
    let whole = fs::read(room.file("text.nra")).unwrap();
    damage(&room.file("text.nra"), 0, 256);
    assert_eq!(room.run(&["repair", "text.nra"]).code, Some(0));
    assert!(fs::read(room.file("text.nra")).unwrap() == whole);
    assert_eq!(room.run(&["pack", "text", "-o", "-", "--recovery", "30"]).code, Some(2));
    assert_eq!(room.run(&["pack", "text", "-o", "x.nra", "--recovery", "101"]).code, Some(2));
}

#[test]
fn trailing_bytes_are_reported_but_not_damage() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    for round in 0..2 {
        let whole = fs::read(&archive).unwrap();
        fs::write(&archive, [&whole[..], b"junk\n"].concat()).unwrap();
        let said = room.run(&["list", "rich.nra"]);
        assert!(said.code == Some(0) && said.err.contains("5 bytes after"), "{}", said.err);
        let said = room.run(&["verify", "rich.nra"]);
        assert!(said.code == Some(3) && said.err.contains("5 bytes after"), "{}", said.err);
        assert!(said.out.contains(": ok (") && !said.err.contains("missing"), "{}{}", said.out, said.err);
        // Once more with recovery data.
        fs::write(&archive, &plain).unwrap();
        assert!(round == 1 || room.run(&["protect", "rich.nra"]).code == Some(0));
    }
}

#[test]
fn running_change_is_not_damage() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    fs::write(room.file("text"), "some text").unwrap();
    room.run(&["add", "rich.nra", "text"]);
    let whole = fs::read(&archive).unwrap();
    fs::write(&archive, [&whole[..], &[7; 700]].concat()).unwrap();
    let store = nra::format::source::FileStore::open(&archive).unwrap();
    let said = room.run(&["verify", "rich.nra"]);
    assert!(said.code == Some(0) && said.err.contains("another process is changing the archive"), "{}", said.err);
    drop(store);
    assert_eq!(room.run(&["verify", "rich.nra"]).code, Some(3));
}

#[test]
fn lost_footer_is_not_reported_as_lost_index() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    let mut bytes = fs::read(&archive).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0);
    fs::write(&archive, bytes).unwrap();
    let said = room.run(&["verify", "rich.nra", "--json"]);
    assert!(said.code == Some(4) && !said.err.contains("missing"), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["summary"]["complete"], true);
    let said = room.run(&["verify", "rich.nra"]);
    assert!(said.err.contains("0 entries affected") && said.err.contains("nra salvage rich.nra -o OUT"), "{}", said.err);
    assert!(!said.err.contains("nra extract"), "{}", said.err);
}

#[test]
fn failed_change_keeps_recovery_data() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    room.run(&["protect", "rich.nra", "--recovery", "30"]);
    let whole = fs::read(&archive).unwrap();
    let mut noise = vec![0; 3 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    fs::write(room.file("noise"), noise).unwrap();
    for arguments in [&["add", "rich.nra", "noise"][..], &["protect", "rich.nra", "--recovery", "90"]] {
        // Limit the file size to little more than the archive; the signal is ignored.
        let limit = whole.len().div_ceil(512);
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_nra")]).args(arguments);
        let output = command.current_dir(room.directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(!said.contains("recovery data went"), "{said}");
        assert!(fs::read(&archive).unwrap() == whole, "{arguments:?}: {said}");
        assert_eq!(room.run(&["repair", "rich.nra", "-n"]).code, Some(0));
    }
}
