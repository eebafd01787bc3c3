//! Commits: `log`, `--at`, `ARCHIVE@N`.

use crate::{Room, sample, schema};

#[test]
fn commits_are_listed_and_read() {
    let room = Room::new();
    let log = room.out(&["log", "rich.nra"]);
    assert!(log.starts_with("   1  -                    +") && log.contains("in 13 entries"), "{log}");
    let lines: Vec<serde_json::Value> =
        room.out(&["log", "rich.nra", "--jsonl"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(schema::check);
    assert_eq!((&lines[0]["number"], &lines[1]["commits"]), (&1.into(), &1.into()));
    let length = std::fs::metadata(room.directory.path().join("rich.nra")).unwrap().len();
    assert_eq!(lines[0]["added_bytes"], length);
    for arguments in [&["list", "rich.nra@1"][..], &["list", "rich.nra", "--at", "1"], &["list", "rich.nra@1", "--at=1"]] {
        assert_eq!(room.out(arguments), room.out(&["list", "rich.nra"]));
    }
}

#[test]
fn commits_that_are_not_there_are_refused() {
    let room = Room::new();
    let message = "nra: rich.nra@2: there is no commit 2; the archive has only commit 1\n";
    for arguments in [&["list", "rich.nra@2"][..], &["cat", "rich.nra", "owned", "--at", "2"], &["log", "rich.nra@2"]] {
        room.fails(arguments, 2, message);
    }
    room.fails(&["list", "rich.nra@1", "--at", "2"], 2, "nra: rich.nra@1 and --at 2 name two commits\n");
}

#[test]
fn a_file_of_exactly_that_name_wins() {
    let room = Room::new();
    sample::save(room.directory.path(), "rich.nra@2", &sample::rich());
    assert_eq!(room.out(&["list", "rich.nra@2"]), room.out(&["list", "rich.nra"]));
    assert_eq!(room.run(&["list", "rich.nra@3"]).code, Some(2));
    assert_eq!(room.run(&["list", "none.nra@1"]).code, Some(1));
}
