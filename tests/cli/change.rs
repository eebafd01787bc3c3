//! Commands that change an archive: `add`, `rm`, `mv`, `mkdir`, `attr`.

use std::fs;

use serde_json::Value;

use crate::{Room, schema};

impl Room {
    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(path)).unwrap()
    }

    /// Rehearses a command that would change the archive: it says `start`, and nothing is changed. Returns what it lists.
    fn rehearses(&self, arguments: &[&str], start: &str) -> String {
        let before = self.bytes("rich.nra");
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.err);
        assert!(said.err.starts_with(start), "{arguments:?}: {}", said.err);
        assert!(said.err.ends_with(": dry run, nothing written\n"), "{arguments:?}: {}", said.err);
        assert!(self.bytes("rich.nra") == before, "{arguments:?}");
        said.out
    }

    /// Runs a command that changes the archive and says `start`.
    fn changes(&self, arguments: &[&str], start: &str) {
        let said = self.run(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{arguments:?}: {}", said.err);
        assert!(said.err.starts_with(start), "{arguments:?}: {}", said.err);
        assert!(self.run(&["verify", "rich.nra", "-q"]).code == Some(0), "{arguments:?}");
    }
}

#[test]
fn rm_keeps_entries_in_earlier_commits() {
    let room = Room::new();
    let before = room.bytes("rich.nra");
    let listed = room.rehearses(&["rm", "rich.nra", "docs/sub", "*.bin", "-n"], "removed 4 entries in commit 2 (+");
    assert_eq!(listed, "docs/sub\ndocs/sub/deep\ndocs/sub/deep/lines.log\nimage.bin\n");
    room.fails(
        &["rm", "rich.nra", "*.bin", "-x", "image.bin"],
        1,
        "nra: rich.nra: all matching entries are excluded; nothing was changed\n",
    );
    room.fails(
        &["rm", "rich.nra", "nope"],
        1,
        "nra: rich.nra: no entry matches nope; nothing was changed\nhint: use nra list rich.nra to list its entries; quote globs\n",
    );
    assert_eq!(room.bytes("rich.nra"), before, "nothing was written");
    room.changes(&["rm", "rich.nra", "docs/sub", "*.bin", "-m", "tidy"], "removed 4 entries in commit 2 (+");
    assert_eq!(room.run(&["list", "rich.nra", "image.bin"]).code, Some(1));
    assert_eq!(room.out(&["list", "rich.nra@1", "image.bin"]), "image.bin\n");
    assert!(room.bytes("rich.nra").len() < before.len() + 2_000);
    let said = room.run(&["rm", "rich.nra", "nope", "owned", "--json"]);
    assert_eq!(said.code, Some(3));
    let summary: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&summary["summary"]["removed"], &summary["summary"]["commit"]), (&1.into(), &3.into()));
    assert_eq!(summary["entries"][0]["path"], "owned");
    assert!(room.out(&["log", "rich.nra"]).contains("  tidy\n"));
    assert_eq!(
        room.run(&["diff", "rich.nra@1", "rich.nra"]).out,
        "- docs/sub\n- docs/sub/deep\n- docs/sub/deep/lines.log\n- image.bin\n- owned\n"
    );
    assert_eq!(room.run(&["diff", "rich.nra"]).out, "- owned\n");
}

#[test]
fn mv_and_mkdir_change_paths() {
    let room = Room::new();
    let moves = room.rehearses(&["mv", "rich.nra", "docs/sub", "new/place", "-n"], "moved docs/sub to new/place in commit 2 (+");
    assert_eq!(moves, "docs/sub -> new/place\n");
    room.fails(&["mv", "rich.nra", "link", "link"], 1, "nra: rich.nra: link cannot become link: that is its path\n");
    room.changes(&["mv", "rich.nra", "docs/sub", "new/place"], "moved docs/sub to new/place in commit 2 (+");
    assert_eq!(room.out(&["list", "rich.nra", "new"]), "new\nnew/place\nnew/place/deep\nnew/place/deep/lines.log\n");
    assert_eq!(
        room.out(&["cat", "rich.nra", "new/place/deep/lines.log"]),
        room.out(&["cat", "rich.nra@1", "docs/sub/deep/lines.log"])
    );
    room.changes(&["mv", "rich.nra", "owned", "new/"], "moved owned to new/owned in commit 3 (+");
    for top in ["/", ".", "./", "//"] {
        let moves = room.rehearses(&["mv", "rich.nra", "new/owned", top, "-n"], "moved new/owned to owned in commit 4 (+");
        assert_eq!(moves, "new/owned -> owned\n");
    }
    let said = room.run(&["mv", "rich.nra", "link", "new/owned"]);
    assert_eq!((said.code, said.err.as_str()), (Some(1), "nra: rich.nra: link cannot become new/owned: that exists\n"));
    assert_eq!(room.run(&["mv", "rich.nra", "none", "x"]).code, Some(1));
    assert_eq!(room.rehearses(&["mkdir", "rich.nra", "a/b", "-n"], "created a/b in commit 4 (+"), "a/b\n");
    room.changes(&["mkdir", "rich.nra", "/a/b/"], "created a/b in commit 4 (+");
    assert_eq!(room.out(&["list", "rich.nra", "a"]), "a\na/b\n");
    room.fails(&["mkdir", "rich.nra", "a/b"], 1, "nra: rich.nra: a/b exists already\n");
    room.fails(&["mkdir", "rich.nra", "image.bin/x"], 1, "nra: rich.nra: image.bin is no directory\n");
    let moved: Value = serde_json::from_str(&room.run(&["mv", "rich.nra", "a", "z", "--json"]).out).unwrap();
    schema::check(&moved["moves"][0]);
    assert_eq!(moved["moves"][0]["to"]["path"], "z");
}

#[test]
fn revert_restores_earlier_commit() {
    let room = Room::new();
    room.fails(&["revert", "rich.nra"], 2, "nra: rich.nra: the newest commit is the first one\n");
    let first = room.out(&["list", "rich.nra", "-l"]);
    room.changes(&["rm", "rich.nra", "docs/sub", "*.bin"], "removed 4 entries in commit 2 (+");
    room.changes(&["mkdir", "rich.nra", "new"], "created new in commit 3 (+");
    let listed = room.rehearses(&["revert", "rich.nra", "-n"], "restored 1 entry from commit 2 in commit 4 (+");
    assert_eq!(listed, "- new\n");
    let listed =
        room.rehearses(&["revert", "rich.nra@1", "docs", "new", "-n"], "restored 4 entries from commit 1 in commit 4 (+");
    assert_eq!(listed, "+ docs/sub\n+ docs/sub/deep\n+ docs/sub/deep/lines.log\n- new\n");
    room.changes(&["revert", "rich.nra", "--at", "1", "*.bin"], "restored 1 entry from commit 1 in commit 4 (+");
    assert_eq!(room.out(&["list", "rich.nra", "image.bin", "new"]), "image.bin\nnew\n");
    let said = room.run(&["revert", "rich.nra", "--at", "1", "--json"]);
    let done: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&done["summary"]["added"], &done["summary"]["removed"], &done["summary"]["commit"]),
        (&3.into(), &1.into(), &5.into())
    );
    done["differences"].as_array().unwrap().iter().for_each(schema::check);
    assert_eq!(room.out(&["list", "rich.nra", "-l"]), first);
    room.changes(&["revert", "rich.nra@1"], "rich.nra: no changes");
    let log = room.out(&["log", "rich.nra"]);
    assert!(log.contains("  restored 1 entry from commit 1\n") && log.contains("  restored commit 1\n"), "{log}");
    // A revert can be reverted like any other commit.
    room.changes(&["revert", "rich.nra", "-m", "again"], "restored 4 entries from commit 4 in commit 6 (+");
    assert_eq!(room.out(&["list", "rich.nra", "image.bin", "new"]), "image.bin\nnew\n");
    room.fails(&["revert", "rich.nra@9"], 2, "nra: there is no commit 9; the archive has commits 1 to 6\n");
    room.fails(
        &["revert", "rich.nra", "--at", "1", "nope"],
        1,
        "nra: rich.nra: no selected entry differs from commit 1; nothing was changed\nhint: use nra diff rich.nra --at 1 to list the differences; quote globs\n",
    );
    let said = room.run(&["revert", "rich.nra", "--at", "1", "nope", "new"]);
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("nope: no matching entry differs from commit 1"), "{}", said.err);
}

#[test]
fn revert_restores_archive_attributes() {
    let room = Room::new();
    room.changes(&["attr", "rich.nra", "set", "name=Odd names"], "changed attributes of the archive in commit 2 (+");
    room.changes(&["revert", "rich.nra"], "restored attributes of the archive from commit 1 in commit 3 (+");
    assert_eq!(room.out(&["attr", "rich.nra"]), "");
}

#[test]
fn attr_sets_shows_and_removes_attributes() {
    let room = Room::new();
    room.changes(
        &["attr", "rich.nra", "set", "name=Odd names", "licence=CC0"],
        "changed attributes of the archive in commit 2 (+",
    );
    assert_eq!(room.out(&["attr", "rich.nra"]), "licence=CC0\nname=Odd names\n");
    assert_eq!(room.out(&["attr", "rich.nra", "get", "name"]), "Odd names\n");
    room.fails(&["attr", "rich.nra", "get", "none"], 1, "nra: rich.nra: the archive has no attribute none\n");
    assert!(room.out(&["info", "rich.nra"]).contains("licence       CC0\n"));
    let set = ["attr", "rich.nra", "set", "--entry", "docs/sub/**", "seen", "media-type=text/plain"];
    room.changes(&set, "changed attributes of 2 entries in commit 3 (+");
    room.changes(&set, "rich.nra: no changes");
    assert_eq!(
        room.out(&["attr", "rich.nra", "get", "--entry", "*.log"]),
        "docs/sub/deep/lines.log: seen\ndocs/sub/deep/lines.log: media-type=text/plain\n"
    );
    let dry = room.run(&["attr", "rich.nra", "set", "topic=x", "-n", "--json"]);
    let dry: Value = serde_json::from_str(&dry.out).unwrap();
    schema::check(&dry["attributes"][0]);
    assert_eq!(dry["attributes"][0]["attributes"][2], serde_json::json!({"namespace": "user", "name": "topic", "value": "x"}));
    assert_eq!(dry["summary"]["dry_run"], true);
    room.rehearses(&["attr", "rich.nra", "set", "topic=x", "-n"], "changed attributes of the archive in commit 4 (+");
    let lines = room.out(&["attr", "rich.nra", "--entry", "*.log", "--jsonl"]);
    lines.lines().for_each(|line| schema::check(&serde_json::from_str(line).unwrap()));
    let listed: Value = serde_json::from_str(&room.out(&["list", "rich.nra", "*.log", "--json"])).unwrap();
    schema::check(&listed["entries"][0]);
    assert_eq!(listed["entries"][0]["tags"], serde_json::json!({"media-type": "text/plain", "seen": ""}));
    assert!(room.out(&["list", "-l", "rich.nra", "*.log"]).ends_with("lines.log  [seen, media-type=text/plain]\n"));
    room.changes(&["attr", "rich.nra", "rm", "--entry", "*.log", "seen"], "changed attributes of 1 entry in commit 4 (+");
    room.changes(&["attr", "rich.nra", "rm", "name"], "changed attributes of the archive in commit 5 (+");
    room.fails(&["attr", "rich.nra", "rm", "name"], 1, "nra: rich.nra: the archive has no attribute name\n");
    room.fails(&["attr", "rich.nra", "rm", "name", "x"], 1, "nra: rich.nra: the archive has no attribute name, x\n");
    let said = room.run(&["attr", "rich.nra", "rm", "--entry", "*.log", "media-type", "x"]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("matching entries have no attribute x") && said.err.contains("in commit 6"), "{}", said.err);
    room.fails(
        &["attr", "rich.nra", "rm", "--entry", "*.log", "media-type"],
        1,
        "nra: rich.nra: matching entries have no attribute media-type\n",
    );
    assert_eq!(room.out(&["attr", "rich.nra@2", "get", "name"]), "Odd names\n");
    assert_eq!(room.run(&["attr", "rich.nra", "set", "media-type=x"]).code, Some(2));
    assert_eq!(room.run(&["attr", "rich.nra", "set"]).code, Some(2));
}

#[test]
fn attr_describes_embedding_spaces() {
    let room = Room::new();
    let space = "embedding:clip=model=ViT-B/32;dimension=512;metric=cosine;dtype=f32";
    room.changes(&["attr", "rich.nra", "set", space], "changed attributes of the archive in commit 2 (+");
    assert_eq!(room.out(&["attr", "rich.nra"]), format!("{space}\n"));
    assert!(room.out(&["info", "rich.nra"]).contains("model=ViT-B/32;dimension=512;metric=cosine;dtype=f32\n"));
    let info: Value = serde_json::from_str(&room.out(&["info", "rich.nra", "--json"])).unwrap();
    assert!(
        info["attributes"].as_array().unwrap().iter().any(|one| one["namespace"] == "nra" && one["name"] == "embedding:clip")
    );
    let wrong = [
        "",
        "=",
        "=model=x",
        "=dimension=3",
        "=model=x;dimension=0",
        "=model=x;dimension=+3",
        "=dimension=3;model=x",
        "=model=x;dimension=3;size=9",
    ];
    for value in wrong {
        assert_eq!(room.run(&["attr", "rich.nra", "set", &format!("embedding:b{value}")]).code, Some(2), "{value}");
        assert_eq!(
            room.run(&["pack", "rich.nra", "-o", "x.nra", "--attr", &format!("embedding:b{value}")]).code,
            Some(2),
            "{value}"
        );
    }
    // A vector is not text.
    let vector = room.run(&["attr", "rich.nra", "set", "--entry", "*", "embedding:clip=1"]);
    assert_eq!(vector.code, Some(2));
    assert!(vector.err.contains("cannot set embedding vectors"), "{}", vector.err);
    assert_eq!(room.run(&["pack", "rich.nra", "-o", "x.nra", "--tag", space]).code, Some(2));
    room.changes(&["pack", "rich.nra", "-o", "x.nra", "--attr", "embedding:b=model=m;dimension=3"], "");
    assert_eq!(room.out(&["attr", "x.nra", "get", "embedding:b"]), "model=m;dimension=3\n");
    room.changes(&["attr", "rich.nra", "rm", "embedding:clip"], "changed attributes of the archive in commit 3 (+");
    assert_eq!(room.out(&["attr", "rich.nra"]), "");
}

#[test]
fn add_adds_and_updates_files() {
    let room = Room::new();
    room.write("tree/a/one", "1\n");
    room.write("tree/two", "2\n");
    assert_eq!(room.out(&["add", "rich.nra", "tree", "--as", "in", "-n"]), "in\nin/a\nin/a/one\nin/two\n");
    room.changes(&["add", "rich.nra", "tree", "--as", "in", "-m", "more"], "added 4 entries in commit 2 (+");
    assert_eq!(room.out(&["cat", "rich.nra", "in/a/one"]), "1\n");
    room.changes(&["add", "rich.nra", "tree", "--as", "in", "--update"], "rich.nra: no changes");
    room.write("tree/two", "two\n");
    room.write("tree/three", "3\n");
    assert_eq!(room.out(&["add", "rich.nra", "tree", "--as", "in", "-u", "-n"]), "in\nin/three\nin/two\n");
    let said = room.run(&["add", "rich.nra", "tree", "--as", "in", "-u", "--json"]);
    let summary: Value = serde_json::from_str(&said.out).unwrap();
    schema::check(&summary);
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(
        (count("commit"), count("added"), count("unchanged"), count("replaced")),
        (3, 1, 2, 2),
        "the directory has a new time"
    );
    assert_eq!(room.out(&["cat", "rich.nra", "in/two"]), "two\n");
    assert_eq!(room.out(&["cat", "rich.nra@2", "in/two"]), "2\n");
    room.fails(&["add", "none.nra", "tree"], 1, "nra: cannot open none.nra: no such file or directory\n");
    room.fails(&["add", "rich.nra@1", "tree"], 2, "nra: cannot change rich.nra@1: only the newest commit can be changed\n");
    assert_eq!(room.run(&["add", "tree/two", "tree"]).code, Some(4));
}

/// A directory is never replaced by a file of the same name, nor a file by a directory.
#[test]
fn add_replaces_entry_of_other_type_only_with_force() {
    let room = Room::new();
    room.write("tree/docs", "a file now\n");
    room.write("tree/image.bin/new", "a directory now\n");
    room.write("tree/more", "x\n");
    let hint = "hint: use -f to replace directories by files and files by directories\n";
    let said = room.run(&["add", "rich.nra", "tree"]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("added 1 entry, 3 skipped in commit 2"), "{}", said.err);
    for why in [
        "docs: skipped: in the archive it is a directory",
        "image.bin: skipped: in the archive it is no directory",
        "image.bin/new: skipped: in the archive image.bin is no directory",
        hint,
    ] {
        assert!(said.err.contains(why), "{}", said.err);
    }
    assert_eq!(room.run(&["diff", "rich.nra"]).out, "+ more\n");
    // Below a file that -T or --as names without its directory.
    let said = room.run(&["add", "rich.nra", "tree/more", "--as", "image.bin/x"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.ends_with(&format!("nra: rich.nra: nothing was added\n{hint}")), "{}", said.err);
    let dry = room.run(&["add", "rich.nra", "tree", "-n"]);
    assert_eq!((dry.code, dry.out.as_str()), (Some(3), "more\n"), "{}", dry.err);
    let below = room.out(&["list", "rich.nra", "docs"]).lines().count() as u64 - 1;
    let said = room.run(&["add", "rich.nra", "tree", "-f", "--json"]);
    let summary: Value = serde_json::from_str(&said.out).unwrap();
    schema::check(&summary);
    let counts = ["code", "added", "replaced", "removed", "skipped"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counts, [0, 1, 3, below, 0]);
    assert_eq!(room.out(&["cat", "rich.nra", "docs", "image.bin/new"]), "a file now\na directory now\n");
}

#[test]
fn add_keeps_tags_of_replaced_file() {
    let room = Room::new();
    room.write("tree/one", "1\n");
    room.write("tree/two", "2\n");
    room.changes(&["add", "rich.nra", "tree", "--as", "in"], "added 3 entries");
    room.changes(&["attr", "rich.nra", "set", "--entry", "in/**", "good", "media-type=text/plain"], "changed");
    room.changes(&["attr", "rich.nra", "set", "--entry", "in", "folder"], "changed");
    for update in [&[][..], &["-u"]] {
        room.write("tree/one", &format!("{update:?}\n"));
        let add = ["add", "rich.nra", "tree", "--as", "in", "--tag", "good=very"];
        room.changes(&[&add[..], update].concat(), "added 0 entries, replaced ");
        let tags = room.out(&["attr", "rich.nra", "--entry", "in/one", "--entry", "in"]);
        for tag in ["in: folder", "in/one: good=very", "in/one: media-type=text/plain"] {
            assert!(tags.lines().any(|line| line == tag), "{tags}");
        }
    }
    assert_eq!(room.run(&["add", "rich.nra", "rich.nra"]).code, Some(1));
    assert!(room.run(&["add", "rich.nra"]).err.contains("nothing to add was named"));
}

#[test]
fn reported_growth_excludes_trailing_bytes() {
    let room = Room::new();
    room.write("more", "x\n");
    room.changes(&["add", "rich.nra", "more"], "added 1 entry");
    room.changes(&["rm", "rich.nra", "more"], "removed 1 entry");
    // As if the last commit had been stopped.
    let bytes = room.bytes("rich.nra");
    fs::write(room.directory.path().join("rich.nra"), &bytes[..bytes.len() - 100]).unwrap();
    room.write("more", "other\n");
    let added: Value = serde_json::from_str(&room.run(&["add", "rich.nra", "more", "--json"]).out).unwrap();
    let log: Value = serde_json::from_str(&room.out(&["log", "rich.nra", "--json"])).unwrap();
    assert_eq!(added["added_bytes"], log["commits"][0]["added_bytes"]);
}

#[test]
fn diff_compares_archive_attributes() {
    let room = Room::new();
    room.changes(&["attr", "rich.nra", "set", "name=x"], "changed");
    assert_eq!(room.run(&["diff", "rich.nra"]).out, "~ .  (attributes)\n");
    let said = room.run(&["diff", "rich.nra", "--jsonl"]);
    said.out.lines().for_each(|line| schema::check(&serde_json::from_str(line).unwrap()));
    assert!(said.out.contains("\"identical\":false"), "{}", said.out);
    assert_eq!(room.run(&["diff", "rich.nra", "--content"]).code, Some(0));
}

/// All that a listing names has a value that can be seen, and none gives orders to a terminal.
#[test]
fn attr_shows_attributes_of_all_namespaces() {
    use nra::format::entry::{Attribute, Entry, Kind, Metadata, Namespace};
    use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
    let room = Room::new();
    let mut entry = Entry::new("one".try_into().unwrap(), Kind::File);
    let attribute =
        |namespace, name: &str, value: &[u8]| Attribute { namespace, name: name.as_bytes().into(), value: value.into() };
    let attributes = [
        attribute(Namespace::Xattr, "user.x", b"0"),
        attribute(Namespace::User, "same", b"1\x1b[2J"),
        attribute(Namespace::Nra, "embedding:clip", b"\xff\x00"),
        attribute(Namespace::Foreign, "same", b"2"),
    ];
    entry.metadata = std::sync::Arc::new(Metadata { attributes: attributes.as_slice().into(), ..Metadata::default() });
    let mut writer = Writer::create(Vec::new(), WriterOptions::balanced()).unwrap();
    writer.add(entry, NewContent::None).unwrap();
    let bytes = writer.finish(&nra::format::progress::Recorder::default()).unwrap().0;
    fs::write(room.directory.path().join("all.nra"), bytes).unwrap();
    assert_eq!(
        room.out(&["attr", "all.nra", "--entry", "one"]),
        "one: user.x=0\none: same=1\\x1b[2J\none: embedding:clip (2 bytes)\none: same=2\n"
    );
    let shown: Value = serde_json::from_str(&room.out(&["attr", "all.nra", "--entry", "one", "--json"])).unwrap();
    schema::check(&shown["attributes"][0]);
    let listed = &shown["attributes"][0]["attributes"];
    assert_eq!(listed.as_array().unwrap().len(), 4);
    assert_eq!((&listed[2]["namespace"], &listed[2]["value_b64"]), (&"nra".into(), &"/wA=".into()));
    // Every listed attribute can be removed by its name.
    for (expression, found) in
        [("attr user.x", "one\n"), ("attr user.x = 0 and attr embedding:clip", "one\n"), ("attr user.y", "")]
    {
        assert_eq!(room.run(&["find", "all.nra", "--expr", expression]).out, found, "{expression}");
    }
    room.changes(&["attr", "all.nra", "rm", "--entry", "one", "user.x", "same"], "changed attributes of 1 entry in commit 2 (+");
    assert_eq!(room.out(&["attr", "all.nra", "--entry", "one"]), "one: embedding:clip (2 bytes)\n");
}

/// Tags stay when the file they belong to is updated without being read.
#[test]
fn add_update_keeps_tags_and_changes_modes() {
    use std::os::unix::fs::PermissionsExt;
    let room = Room::new();
    room.write("tree/one", "1\n");
    room.changes(&["add", "rich.nra", "tree", "--as", "in"], "added 2 entries");
    room.changes(&["attr", "rich.nra", "set", "--entry", "in/one", "good"], "changed");
    room.changes(&["add", "rich.nra", "tree", "--as", "in", "-u"], "rich.nra: no changes");
    fs::set_permissions(room.directory.path().join("tree/one"), fs::Permissions::from_mode(0o600)).unwrap();
    room.changes(&["add", "rich.nra", "tree", "--as", "in", "-u"], "added 0 entries, replaced 1, 1 unchanged in commit 4");
    assert_eq!(room.out(&["attr", "rich.nra", "--entry", "in/one"]), "in/one: good\n");
    assert!(room.out(&["list", "-l", "rich.nra", "in/one"]).starts_with("-rw-------"));
}

#[test]
fn second_writer_is_rejected() {
    let room = Room::new();
    let store = nra::format::source::FileStore::open(&room.directory.path().join("rich.nra")).unwrap();
    room.fails(
        &["rm", "rich.nra", "owned"],
        1,
        "nra: cannot lock rich.nra: another process is changing it\n\
         hint: try again when the other process has finished; reading is possible meanwhile\n",
    );
    assert_eq!(room.out(&["list", "rich.nra", "owned"]), "owned\n");
    drop(store);
    room.changes(&["rm", "rich.nra", "owned"], "removed 1 entry in commit 2");
}

#[test]
fn running_append_is_not_reported_as_unfinished() {
    let room = Room::new();
    room.changes(&["mkdir", "rich.nra", "new"], "created new in commit 2");
    let path = room.directory.path().join("rich.nra");
    let store = nra::format::source::FileStore::open(&path).unwrap();
    std::fs::write(&path, [room.bytes("rich.nra"), vec![7; 5_000]].concat()).unwrap();
    let said = room.run(&["list", "rich.nra", "new"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    drop(store);
    let said = room.run(&["list", "rich.nra", "new"]);
    assert!(said.err.contains("5000 bytes after commit 2"), "{}", said.err);
}

#[test]
fn compact_removes_old_commits() {
    let room = Room::new();
    let noise: String = (0..20_000u32).map(|i| format!("{:x}", i.wrapping_mul(2_654_435_761))).collect();
    room.write("tree/noise", &noise);
    room.changes(&["add", "rich.nra", "tree", "-m", "one"], "added 1 entry in commit 2");
    room.changes(&["rm", "rich.nra", "noise", "-m", "two"], "removed 1 entry in commit 3");
    let (before, listed) = (room.bytes("rich.nra"), room.out(&["list", "-l", "--digest", "rich.nra"]));
    let said = room.run(&["compact", "rich.nra", "-n"]);
    assert_eq!((said.code, &said.err[..10]), (Some(0), "rich.nra: "), "{}", said.err);
    assert!(said.err.ends_with("; would remove 2 commits and keep 1\n") && !said.err.contains("about"), "{}", said.err);
    for keep in ["1", "2", "3"] {
        let after = |arguments: &[&str]| -> Value {
            let said = room.run(&[&["compact", "rich.nra", "--keep", keep, "--json"], arguments].concat());
            serde_json::from_str::<Value>(&said.out).unwrap()["after_bytes"].clone()
        };
        assert_eq!(after(&["-n"]), after(&["-o", "exact.nra", "-f"]), "{keep}");
    }
    std::fs::remove_file(room.directory.path().join("exact.nra")).unwrap();
    assert_eq!(room.bytes("rich.nra"), before, "nothing was written");
    let said = room.run(&["compact", "rich.nra", "--keep", "2", "-o", "two.nra", "--json"]);
    let summary: Value = serde_json::from_str(&said.out).unwrap();
    schema::check(&summary);
    assert_eq!((&summary["commits"], &summary["removed_commits"], &summary["written"]), (&2.into(), &1.into(), &true.into()));
    assert_eq!(room.out(&["cat", "two.nra@1", "noise"]), noise);
    assert_eq!(room.run(&["diff", "two.nra", "rich.nra"]).code, Some(0));
    let said = room.run(&["compact", "rich.nra", "-o", "two.nra"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("it exists already") && said.err.contains("hint: use -f to replace it"), "{}", said.err);
    let said = room.run(&["compact", "rich.nra"]);
    assert!(said.err.contains("removed 2 commits permanently, kept 1"), "{}", said.err);
    assert!(room.bytes("rich.nra").len() * 4 < before.len());
    assert_eq!(room.out(&["list", "-l", "--digest", "rich.nra"]), listed);
    assert_eq!(room.run(&["verify", "rich.nra"]).code, Some(0));
    room.changes(&["compact", "rich.nra"], "rich.nra: already compact");
    assert_eq!(
        std::fs::read_dir(room.directory.path())
            .unwrap()
            .filter(|item| { item.as_ref().unwrap().file_name().to_string_lossy().starts_with(".nra-") })
            .count(),
        0
    );
}

#[test]
fn pack_sets_attributes() {
    let room = Room::new();
    room.write("tree/one", "1\n");
    let pack = ["pack", "tree", "--attr", "name=a", "--attr", "name=Tree", "--tag", "raw", "--tag", "media-type=text/plain"];
    assert_eq!(room.run(&pack).code, Some(0));
    assert_eq!(room.out(&["attr", "tree.nra"]), "name=Tree\n");
    assert_eq!(room.out(&["attr", "tree.nra", "--entry", "one"]), "one: raw\none: media-type=text/plain\n");
    assert_eq!(room.run(&["pack", "tree", "-f", "--attr", "=x"]).code, Some(2));
    room.write("tree/two", "2\n");
    assert_eq!(room.run(&["add", "tree.nra", "tree", "-u", "--attr", "licence=CC0", "--tag", "late"]).code, Some(0));
    assert_eq!(room.out(&["attr", "tree.nra"]), "licence=CC0\nname=Tree\n");
    assert_eq!(
        room.out(&["attr", "tree.nra", "--entry", "one", "--entry", "two"]),
        "one: raw\none: media-type=text/plain\ntwo: late\n"
    );
}

#[test]
fn add_update_keeps_hard_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let room = Room::new();
    room.write("t/a", "hello");
    room.write("t/other", "hello");
    let at = |name: &str| room.directory.path().join(name);
    fs::hard_link(at("t/a"), at("t/b")).unwrap();
    room.run(&["pack", "t", "-o", "linked.nra"]);
    fs::set_permissions(at("t/a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(room.out(&["add", "linked.nra", "t", "--update", "-n"]), "a\nb\n");
    fs::set_permissions(at("t/other"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(room.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    fs::hard_link(at("t/a"), at("t/c")).unwrap();
    assert_eq!(room.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    for keep in ["3", "2", "1"] {
        assert_eq!(room.run(&["compact", "linked.nra", "--keep", keep]).code, Some(0));
        let out = format!("out{keep}");
        assert_eq!(room.run(&["extract", "linked.nra", "-C", &out]).code, Some(0));
        let status = |name: &str| fs::metadata(at(&format!("{out}/{name}"))).unwrap();
        for name in ["a", "b", "c", "other"] {
            assert_eq!((status(name).mode() & 0o777, status(name).len()), (0o600, 5), "{name}");
            assert_eq!(status(name).ino() == status("a").ino(), name != "other", "{name}");
        }
    }
    // A name that has become a file of its own, of the same time.
    let modified = fs::metadata(at("t/c")).unwrap().modified().unwrap();
    fs::remove_file(at("t/c")).unwrap();
    room.write("t/c", "hello");
    let file = fs::File::open(at("t/c")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(room.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    assert_eq!(room.run(&["extract", "linked.nra", "-C", "apart"]).code, Some(0));
    let inode = |name: &str| fs::metadata(at(name)).unwrap().ino();
    assert!(inode("apart/a") == inode("apart/b") && inode("apart/a") != inode("apart/c"));
}

#[test]
fn concurrent_readers_see_no_damage() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let room = Room::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    return number;
                }
                assert_eq!(room.run(&["attr", "rich.nra", "set", &format!("count={number}")]).code, Some(0));
            }
            0
        });
        let said: Vec<_> = (0..60)
            .map(|number| room.run(&[["list", "log", "verify"][number % 3], "rich.nra"]))
            .filter(|said| said.code != Some(0) || said.err.contains("damaged"))
            .map(|said| said.err)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 10);
        assert_eq!(said, [""; 0]);
    });
    assert_eq!(room.run(&["verify", "rich.nra"]).code, Some(0));
}
