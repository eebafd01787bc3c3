//! Recovery data: `protect`, `repair`, `pack --recovery`, and what other commands say of it.

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
fn damage_is_told_and_repaired() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let said = room.run(&["protect", "rich.nra", "--recovery", "20", "-n"]);
    assert!(said.err.starts_with("rich.nra: recovery data would take "), "{}", said.err);
    assert_eq!(fs::read(&archive).unwrap(), plain);
    let summary = room.json(&["protect", "rich.nra", "--recovery", "20", "--json"], 0);
    assert_eq!((&summary["percent"], &summary["protected_bytes"]), (&20.into(), &plain.len().into()));
    let whole = fs::read(&archive).unwrap();
    assert_eq!(whole.len() as u64, plain.len() as u64 + summary["recovery_bytes"].as_u64().unwrap());
    assert!(room.out(&["info", "rich.nra"]).contains("\nrecovery      restores 20 % of damage; "));
    assert_eq!(room.json(&["info", "rich.nra", "--json"], 0)["recovery"]["percent"], 20);
    assert!(room.out(&["verify", "rich.nra"]).ends_with(", recovery data)\n"));
    assert_eq!(room.json(&["repair", "rich.nra", "--json"], 0)["written"], false);

    // Head and some of the content.
    let len = plain.len() / 10;
    damage(&archive, 0, len);
    let verdict = room.run(&["verify", "rich.nra"]);
    assert_eq!(verdict.code, Some(4));
    assert!(verdict.err.contains("hint: nra repair rich.nra restores all of it"), "{}", verdict.err);
    let told = room.run(&["repair", "rich.nra", "-n"]);
    assert_eq!(told.code, Some(0));
    assert!(told.out.starts_with("damaged: ") && told.err.ends_with("all of it can be restored\n"), "{}{}", told.out, told.err);
    let summary = room.json(&["repair", "rich.nra", "-o", "out.nra", "--json"], 0);
    assert_eq!((&summary["written"], &summary["whole"], &summary["restorable"]), (&true.into(), &false.into(), &true.into()));
    assert!(fs::read(room.file("out.nra")).unwrap() == whole);
    assert_eq!(room.run(&["repair", "rich.nra", "-o", "out.nra"]).code, Some(1), "it exists");
    let said = room.run(&["repair", "rich.nra"]);
    assert!(said.code == Some(0) && said.err.starts_with("rich.nra: restored: "), "{}", said.err);
    assert!(fs::read(&archive).unwrap() == whole);
}

#[test]
fn more_damage_than_that_leaves_the_archive_alone() {
    let room = Room::new();
    let archive = room.file("rich.nra");
    let plain = fs::read(&archive).unwrap();
    let said = room.run(&["repair", "rich.nra"]);
    assert_eq!(said.code, Some(4));
    assert!(said.err.starts_with("nra: rich.nra has no recovery data\nhint: "), "{}", said.err);
    room.run(&["protect", "rich.nra", "--recovery", "5"]);
    damage(&archive, 300, plain.len() / 2);
    let before = fs::read(&archive).unwrap();
    let said = room.run(&["repair", "rich.nra"]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert!(said.err.contains("is damaged, more than the recovery data of 5 % restores"), "{}", said.err);
    assert!(said.err.contains("hint: nra salvage rich.nra -o OUT"), "{}", said.err);
    assert!(fs::read(&archive).unwrap() == before);
    let left = fs::read_dir(room.directory.path())
        .unwrap()
        .filter(|item| item.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_change_drops_it_and_says_so_and_compacting_keeps_it() {
    let room = Room::new();
    room.run(&["protect", "rich.nra", "--recovery", "7"]);
    let said = room.run(&["mkdir", "rich.nra", "new"]);
    assert!(said.code == Some(0) && said.err.contains("nra protect rich.nra makes it anew"), "{}", said.err);
    assert_eq!(room.json(&["info", "rich.nra", "--json"], 0)["recovery"], Value::Null);
    room.run(&["protect", "rich.nra", "--recovery", "7"]);
    let said = room.run(&["compact", "rich.nra", "-o", "small.nra"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(room.json(&["info", "small.nra", "--json"], 0)["recovery"]["percent"], 7);
    assert_eq!(room.run(&["verify", "small.nra", "-q"]).code, Some(0));
}

#[test]
fn an_archive_is_packed_with_it() {
    let room = Room::new();
    fs::write(room.file("text"), "some text").unwrap();
    let said = room.run(&["pack", "text", "-o", "text.nra", "--recovery", "30"]);
    assert!(said.code == Some(0) && said.err.contains("recovery data of 30 % takes "), "{}", said.err);
    let whole = fs::read(room.file("text.nra")).unwrap();
    damage(&room.file("text.nra"), 0, 256);
    assert_eq!(room.run(&["repair", "text.nra"]).code, Some(0));
    assert!(fs::read(room.file("text.nra")).unwrap() == whole);
    assert_eq!(room.run(&["pack", "text", "-o", "-", "--recovery", "30"]).code, Some(2));
    assert_eq!(room.run(&["pack", "text", "-o", "x.nra", "--recovery", "101"]).code, Some(2));
}
