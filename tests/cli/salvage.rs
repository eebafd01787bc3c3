//! `nra salvage`: messages, output and exit codes.

use std::fs;

use crate::keys::run;
use crate::{Room, sample, schema};

#[test]
fn salvage_creates_undamaged_archive() {
    let room = Room::new();
    let listed = room.out(&["list", "rich.nra", "-l"]);
    let mut bytes = sample::rich();
    let end = bytes.len();
    // Damage the superblock, the commit, the footer and the index before them.
    bytes[..256].fill(0);
    bytes[end - 700..].fill(0);
    sample::save(room.directory.path(), "broken.nra", &bytes);
    let dry = room.run(&["salvage", "broken.nra", "-o", "new.nra", "-n"]);
    assert!(dry.code == Some(4) && dry.err.contains("salvaged 13 entries"), "{}", dry.err);
    assert!(dry.err.contains(": dry run, nothing written\n") && !room.directory.path().join("new.nra").exists(), "{}", dry.err);
    let said = room.run(&["salvage", "broken.nra", "-o", "new.nra"]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert!(said.err.contains("salvaged 13 entries") && said.err.contains("block indexes"), "{}", said.err);
    let (list, verify) = (room.out(&["list", "new.nra", "-l"]), room.run(&["verify", "new.nra"]));
    let names = |list: &str| list.lines().map(|line| line.split("03:04:05").last().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!((names(&list), verify.code), (names(&listed), Some(0)));
    // Nothing is replaced that was not to be, least of all the damaged archive.
    let said = room.run(&["salvage", "broken.nra", "-o", "new.nra"]);
    assert!(said.code == Some(1) && said.err.contains("use -f to replace new.nra, or -o"), "{}", said.err);
    let said = room.run(&["salvage", "broken.nra", "-o", "broken.nra", "-f"]);
    assert!(said.code == Some(2) && said.err.contains("itself"), "{}", said.err);
    assert_eq!(fs::read(room.directory.path().join("broken.nra")).unwrap(), bytes);
    let said = room.run(&["salvage", "broken.nra", "-o", "new.nra", "-f", "--jsonl"]);
    let summary: serde_json::Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    schema::check(&summary);
    assert_eq!((&summary["entries"], &summary["lost_entries"], &summary["index_rebuilt"]), (&13.into(), &0.into(), &true.into()));
    assert_eq!(summary["unreadable_index_parts"], 0);
}

#[test]
fn salvage_copies_undamaged_archive_and_rejects_empty_file() {
    let room = Room::new();
    let said = room.run(&["salvage", "rich.nra", "-o", "new.nra"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    fs::write(room.directory.path().join("none"), [7; 3_000]).unwrap();
    let said = room.run(&["salvage", "none", "-o", "none.nra"]);
    assert_eq!(said.code, Some(4), "{}", said.err);
    assert!(said.err.contains("no recoverable entries found") && !said.err.contains("nra verify"), "{}", said.err);
    assert!(!room.directory.path().join("none.nra").exists());
}

#[test]
fn salvage_of_other_formats_suggests_convert() {
    let room = Room::new();
    for (name, format) in [("a.zip", "zip"), ("a.tar", "tar"), ("a.shard", "Shard"), ("a.nra4", "NRA 4.5")] {
        room.run(&["convert", "rich.nra", name]);
        let said = room.run(&["salvage", name, "-o", "new.nra"]);
        assert_eq!(said.code, Some(4), "{name}: {}", said.err);
        assert_eq!(said.err.lines().count(), 2, "{}", said.err);
        assert!(said.err.contains(&format!("supports only NRA 5 archives, not {format}")), "{}", said.err);
        assert!(said.err.contains(&format!("hint: use nra convert --keep-going {name} OUT")), "{}", said.err);
        assert!(!room.directory.path().join("new.nra").exists());
    }
}

#[test]
fn salvage_writes_nothing_without_entries() {
    let room = Room::new();
    // One block of content that does not compress: its names are at its end.
    let mut content = vec![0; 100_000];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    fs::write(room.directory.path().join("noise"), content).unwrap();
    room.run(&["pack", "noise", "-o", "noise.nra"]);
    let whole = fs::read(room.directory.path().join("noise.nra")).unwrap();
    fs::write(room.directory.path().join("half.nra"), &whole[..whole.len() / 2]).unwrap();
    let said = room.run(&["salvage", "half.nra", "-o", "new.nra"]);
    assert!(said.code == Some(4) && said.err.contains("no recoverable entries found"), "{}", said.err);
    assert!(!room.directory.path().join("new.nra").exists());
    // Without the superblock, only salvage recognizes the archive.
    fs::write(room.directory.path().join("tail.nra"), &whole[609..]).unwrap();
    let said = room.run(&["list", "tail.nra"]);
    assert!(said.code == Some(4) && said.err.contains("nra salvage tail.nra -o OUT"), "{}", said.err);
}

#[test]
fn salvage_keeps_encryption() {
    let room = Room::new();
    let at = room.directory.path();
    fs::create_dir(at.join("in")).unwrap();
    fs::write(at.join("in/quite-secret"), "what is in it").unwrap();
    let password = [("NRA_PASSWORD", "sesame")];
    assert_eq!(run(at, &password, &["pack", "in", "-o", "a.nra", "-e"]).code, Some(0));
    let mut bytes = fs::read(at.join("a.nra")).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0);
    fs::write(at.join("a.nra"), bytes).unwrap();
    for variables in [&[][..], &[("NRA_PASSWORD", "open")]] {
        let said = run(at, variables, &["salvage", "a.nra", "-o", "new.nra"]);
        assert!(said.code == Some(5) && !said.err.contains("quite") && !at.join("new.nra").exists(), "{}", said.err);
    }
    assert_eq!(run(at, &password, &["salvage", "a.nra", "-o", "new.nra"]).code, Some(4));
    let said = run(at, &[], &["cat", "new.nra", "quite-secret"]);
    assert_eq!(said.code, Some(5), "{}", said.err);
    let said = run(at, &password, &["cat", "new.nra", "quite-secret"]);
    assert_eq!((said.code, &*said.out), (Some(0), "what is in it"));
    assert!(!fs::read(at.join("new.nra")).unwrap().windows(6).any(|window| window == b"secret"));
}
