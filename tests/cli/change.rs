//! Commands that change an archive: `add`, `rm`, `mv`, `mkdir`, `attr`.

use std::fs;

use serde_json::Value;

use crate::{Sandbox, schema};

impl Sandbox {
    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(path)).unwrap()
    }

    /// Runs a dry run, whose messages start with `start`, and checks that the archive is unchanged. Returns its output.
    fn rehearses(&self, arguments: &[&str], start: &str) -> String {
        let before = self.bytes("rich.nra");
        let outcome = self.run(arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.starts_with(start), "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.ends_with(": dry run, nothing written\n"), "{arguments:?}: {}", outcome.err);
        assert!(self.bytes("rich.nra") == before, "{arguments:?}");
        outcome.out
    }

    /// Runs a command that changes the archive. Its messages start with `start`.
    fn changes(&self, arguments: &[&str], start: &str) {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(0), ""), "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.starts_with(start), "{arguments:?}: {}", outcome.err);
        assert!(self.run(&["verify", "rich.nra", "-q"]).code == Some(0), "{arguments:?}");
    }
}

#[test]
fn rm_keeps_entries_in_earlier_commits() {
    let sandbox = Sandbox::new();
    let before = sandbox.bytes("rich.nra");
    let listed = sandbox.rehearses(&["rm", "rich.nra", "docs/sub", "*.bin", "-n"], "removed 4 entries in commit 2 (+");
    assert_eq!(listed, "docs/sub\ndocs/sub/deep\ndocs/sub/deep/lines.log\nimage.bin\n");
    sandbox.fails(
        &["rm", "rich.nra", "*.bin", "-x", "image.bin"],
        1,
        "nra: rich.nra: all matching entries are excluded; nothing was changed\n",
    );
    sandbox.fails(
        &["rm", "rich.nra", "nope"],
        1,
        "nra: rich.nra: no entry matches nope; nothing was changed\nhint: use nra list rich.nra to list its entries; quote globs\n",
    );
    assert_eq!(sandbox.bytes("rich.nra"), before, "nothing was written");
    sandbox.changes(&["rm", "rich.nra", "docs/sub", "*.bin", "-m", "tidy"], "removed 4 entries in commit 2 (+");
    assert_eq!(sandbox.run(&["list", "rich.nra", "image.bin"]).code, Some(1));
    assert_eq!(sandbox.out(&["list", "rich.nra@1", "image.bin"]), "image.bin\n");
    assert!(sandbox.bytes("rich.nra").len() < before.len() + 2_000);
    let outcome = sandbox.run(&["rm", "rich.nra", "nope", "owned", "--json"]);
    assert_eq!(outcome.code, Some(3));
    let summary: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!((&summary["summary"]["removed"], &summary["summary"]["commit"]), (&1.into(), &3.into()));
    assert_eq!(summary["entries"][0]["path"], "owned");
    assert!(sandbox.out(&["log", "rich.nra"]).contains("  tidy\n"));
    assert_eq!(
        sandbox.run(&["diff", "rich.nra@1", "rich.nra"]).out,
        "- docs/sub\n- docs/sub/deep\n- docs/sub/deep/lines.log\n- image.bin\n- owned\n"
    );
    assert_eq!(sandbox.run(&["diff", "rich.nra"]).out, "- owned\n");
}

#[test]
fn mv_and_mkdir_change_paths() {
    let sandbox = Sandbox::new();
    let moves =
        sandbox.rehearses(&["mv", "rich.nra", "docs/sub", "new/place", "-n"], "moved docs/sub to new/place in commit 2 (+");
    assert_eq!(moves, "docs/sub -> new/place\n");
    sandbox.fails(&["mv", "rich.nra", "link", "link"], 1, "nra: rich.nra: link cannot become link: that is its path\n");
    sandbox.changes(&["mv", "rich.nra", "docs/sub", "new/place"], "moved docs/sub to new/place in commit 2 (+");
    assert_eq!(sandbox.out(&["list", "rich.nra", "new"]), "new\nnew/place\nnew/place/deep\nnew/place/deep/lines.log\n");
    assert_eq!(
        sandbox.out(&["cat", "rich.nra", "new/place/deep/lines.log"]),
        sandbox.out(&["cat", "rich.nra@1", "docs/sub/deep/lines.log"])
    );
    sandbox.changes(&["mv", "rich.nra", "owned", "new/"], "moved owned to new/owned in commit 3 (+");
    for top in ["/", ".", "./", "//"] {
        let moves = sandbox.rehearses(&["mv", "rich.nra", "new/owned", top, "-n"], "moved new/owned to owned in commit 4 (+");
        assert_eq!(moves, "new/owned -> owned\n");
    }
    let outcome = sandbox.run(&["mv", "rich.nra", "link", "new/owned"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(1), "nra: rich.nra: link cannot become new/owned: that exists\n"));
    assert_eq!(sandbox.run(&["mv", "rich.nra", "none", "x"]).code, Some(1));
    assert_eq!(sandbox.rehearses(&["mkdir", "rich.nra", "a/b", "-n"], "created a/b in commit 4 (+"), "a/b\n");
    sandbox.changes(&["mkdir", "rich.nra", "/a/b/"], "created a/b in commit 4 (+");
    assert_eq!(sandbox.out(&["list", "rich.nra", "a"]), "a\na/b\n");
    sandbox.fails(&["mkdir", "rich.nra", "a/b"], 1, "nra: rich.nra: a/b exists already\n");
    sandbox.fails(&["mkdir", "rich.nra", "image.bin/x"], 1, "nra: rich.nra: image.bin is not a directory\n");
    let moved: Value = serde_json::from_str(&sandbox.run(&["mv", "rich.nra", "a", "z", "--json"]).out).unwrap();
    schema::check(&moved["moves"][0]);
    assert_eq!(moved["moves"][0]["to"]["path"], "z");
}

#[test]
fn revert_restores_earlier_commit() {
    let sandbox = Sandbox::new();
    sandbox.fails(&["revert", "rich.nra"], 2, "nra: rich.nra: cannot undo the first commit\n");
    let first = sandbox.out(&["list", "rich.nra", "-l"]);
    sandbox.changes(&["rm", "rich.nra", "docs/sub", "*.bin"], "removed 4 entries in commit 2 (+");
    sandbox.changes(&["mkdir", "rich.nra", "new"], "created new in commit 3 (+");
    let listed = sandbox.rehearses(&["revert", "rich.nra", "-n"], "restored 1 entry from commit 2 in commit 4 (+");
    assert_eq!(listed, "- new\n");
    let listed =
        sandbox.rehearses(&["revert", "rich.nra@1", "docs", "new", "-n"], "restored 4 entries from commit 1 in commit 4 (+");
    assert_eq!(listed, "+ docs/sub\n+ docs/sub/deep\n+ docs/sub/deep/lines.log\n- new\n");
    sandbox.changes(&["revert", "rich.nra", "--at", "1", "*.bin"], "restored 1 entry from commit 1 in commit 4 (+");
    assert_eq!(sandbox.out(&["list", "rich.nra", "image.bin", "new"]), "image.bin\nnew\n");
    let outcome = sandbox.run(&["revert", "rich.nra", "--at", "1", "--json"]);
    let done: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(
        (&done["summary"]["added"], &done["summary"]["removed"], &done["summary"]["commit"]),
        (&3.into(), &1.into(), &5.into())
    );
    done["differences"].as_array().unwrap().iter().for_each(schema::check);
    assert_eq!(sandbox.out(&["list", "rich.nra", "-l"]), first);
    sandbox.changes(&["revert", "rich.nra@1"], "rich.nra: no changes");
    let log = sandbox.out(&["log", "rich.nra"]);
    assert!(log.contains("  restored 1 entry from commit 1\n") && log.contains("  restored commit 1\n"), "{log}");
    // A revert can be reverted like any other commit.
    sandbox.changes(&["revert", "rich.nra", "-m", "again"], "restored 4 entries from commit 4 in commit 6 (+");
    assert_eq!(sandbox.out(&["list", "rich.nra", "image.bin", "new"]), "image.bin\nnew\n");
    sandbox.fails(&["revert", "rich.nra@9"], 2, "nra: there is no commit 9; the archive has commits 1 to 6\n");
    sandbox.fails(
        &["revert", "rich.nra", "--at", "1", "nope"],
        1,
        "nra: rich.nra: no selected entry differs from commit 1; nothing was changed\nhint: use nra diff rich.nra --at 1 to list the differences; quote globs\n",
    );
    let outcome = sandbox.run(&["revert", "rich.nra", "--at", "1", "nope", "new"]);
    assert_eq!(outcome.code, Some(3));
    assert!(outcome.err.contains("nope: no matching entry differs from commit 1"), "{}", outcome.err);
}

#[test]
fn revert_restores_archive_attributes() {
    let sandbox = Sandbox::new();
    sandbox.changes(&["attr", "rich.nra", "set", "name=Odd names"], "changed attributes of the archive in commit 2 (+");
    sandbox.changes(&["revert", "rich.nra"], "restored attributes of the archive from commit 1 in commit 3 (+");
    assert_eq!(sandbox.out(&["attr", "rich.nra"]), "");
}

#[test]
fn attr_sets_shows_and_removes_attributes() {
    let sandbox = Sandbox::new();
    sandbox.changes(
        &["attr", "rich.nra", "set", "name=Odd names", "licence=CC0"],
        "changed attributes of the archive in commit 2 (+",
    );
    assert_eq!(sandbox.out(&["attr", "rich.nra"]), "licence=CC0\nname=Odd names\n");
    assert_eq!(sandbox.out(&["attr", "rich.nra", "get", "name"]), "Odd names\n");
    sandbox.fails(&["attr", "rich.nra", "get", "none"], 1, "nra: rich.nra: the archive has no attribute none\n");
    assert!(sandbox.out(&["info", "rich.nra"]).contains("licence       CC0\n"));
    let set = ["attr", "rich.nra", "set", "--entry", "docs/sub/**", "seen", "media-type=text/plain"];
    sandbox.changes(&set, "changed attributes of 2 entries in commit 3 (+");
    sandbox.changes(&set, "rich.nra: no changes");
    assert_eq!(
        sandbox.out(&["attr", "rich.nra", "get", "--entry", "*.log"]),
        "docs/sub/deep/lines.log: seen\ndocs/sub/deep/lines.log: media-type=text/plain\n"
    );
    let dry = sandbox.run(&["attr", "rich.nra", "set", "topic=x", "-n", "--json"]);
    let dry: Value = serde_json::from_str(&dry.out).unwrap();
    schema::check(&dry["attributes"][0]);
    assert_eq!(dry["attributes"][0]["attributes"][2], serde_json::json!({"namespace": "user", "name": "topic", "value": "x"}));
    assert_eq!(dry["summary"]["dry_run"], true);
    sandbox.rehearses(&["attr", "rich.nra", "set", "topic=x", "-n"], "changed attributes of the archive in commit 4 (+");
    let lines = sandbox.out(&["attr", "rich.nra", "--entry", "*.log", "--jsonl"]);
    lines.lines().for_each(|line| schema::check(&serde_json::from_str(line).unwrap()));
    let listed: Value = serde_json::from_str(&sandbox.out(&["list", "rich.nra", "*.log", "--json"])).unwrap();
    schema::check(&listed["entries"][0]);
    assert_eq!(listed["entries"][0]["tags"], serde_json::json!({"media-type": "text/plain", "seen": ""}));
    assert!(sandbox.out(&["list", "-l", "rich.nra", "*.log"]).ends_with("lines.log  [seen, media-type=text/plain]\n"));
    sandbox.changes(&["attr", "rich.nra", "rm", "--entry", "*.log", "seen"], "changed attributes of 1 entry in commit 4 (+");
    sandbox.changes(&["attr", "rich.nra", "rm", "name"], "changed attributes of the archive in commit 5 (+");
    sandbox.fails(&["attr", "rich.nra", "rm", "name"], 1, "nra: rich.nra: the archive has no attribute name\n");
    sandbox.fails(&["attr", "rich.nra", "rm", "name", "x"], 1, "nra: rich.nra: the archive has no attribute name, x\n");
    let outcome = sandbox.run(&["attr", "rich.nra", "rm", "--entry", "*.log", "media-type", "x"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.err);
    assert!(
        outcome.err.contains("matching entries have no attribute x") && outcome.err.contains("in commit 6"),
        "{}",
        outcome.err
    );
    sandbox.fails(
        &["attr", "rich.nra", "rm", "--entry", "*.log", "media-type"],
        1,
        "nra: rich.nra: matching entries have no attribute media-type\n",
    );
    assert_eq!(sandbox.out(&["attr", "rich.nra@2", "get", "name"]), "Odd names\n");
    assert_eq!(sandbox.run(&["attr", "rich.nra", "set", "media-type=x"]).code, Some(2));
    assert_eq!(sandbox.run(&["attr", "rich.nra", "set"]).code, Some(2));
}

#[test]
fn attr_describes_embedding_spaces() {
    let sandbox = Sandbox::new();
    let space = "embedding:clip=model=ViT-B/32;dimension=512;metric=cosine;dtype=f32";
    sandbox.changes(&["attr", "rich.nra", "set", space], "changed attributes of the archive in commit 2 (+");
    assert_eq!(sandbox.out(&["attr", "rich.nra"]), format!("{space}\n"));
    assert!(sandbox.out(&["info", "rich.nra"]).contains("model=ViT-B/32;dimension=512;metric=cosine;dtype=f32\n"));
    let info: Value = serde_json::from_str(&sandbox.out(&["info", "rich.nra", "--json"])).unwrap();
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
        assert_eq!(sandbox.run(&["attr", "rich.nra", "set", &format!("embedding:b{value}")]).code, Some(2), "{value}");
        assert_eq!(
            sandbox.run(&["pack", "rich.nra", "-o", "x.nra", "--attr", &format!("embedding:b{value}")]).code,
            Some(2),
            "{value}"
        );
    }
    // A vector is not text.
    let vector = sandbox.run(&["attr", "rich.nra", "set", "--entry", "*", "embedding:clip=1"]);
    assert_eq!(vector.code, Some(2));
    assert!(vector.err.contains("cannot set embedding vectors"), "{}", vector.err);
    assert_eq!(sandbox.run(&["pack", "rich.nra", "-o", "x.nra", "--tag", space]).code, Some(2));
    sandbox.changes(&["pack", "rich.nra", "-o", "x.nra", "--attr", "embedding:b=model=m;dimension=3"], "");
    assert_eq!(sandbox.out(&["attr", "x.nra", "get", "embedding:b"]), "model=m;dimension=3\n");
    sandbox.changes(&["attr", "rich.nra", "rm", "embedding:clip"], "changed attributes of the archive in commit 3 (+");
    assert_eq!(sandbox.out(&["attr", "rich.nra"]), "");
}

#[test]
fn add_adds_and_updates_files() {
    let sandbox = Sandbox::new();
    sandbox.write("tree/a/one", "1\n");
    sandbox.write("tree/two", "2\n");
    assert_eq!(sandbox.out(&["add", "rich.nra", "tree", "--as", "in", "-n"]), "in\nin/a\nin/a/one\nin/two\n");
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in", "-m", "more"], "added 4 entries in commit 2 (+");
    assert_eq!(sandbox.out(&["cat", "rich.nra", "in/a/one"]), "1\n");
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in", "--update"], "rich.nra: no changes");
    sandbox.write("tree/two", "two\n");
    sandbox.write("tree/three", "3\n");
    assert_eq!(sandbox.out(&["add", "rich.nra", "tree", "--as", "in", "-u", "-n"]), "in\nin/three\nin/two\n");
    let outcome = sandbox.run(&["add", "rich.nra", "tree", "--as", "in", "-u", "--json"]);
    let summary: Value = serde_json::from_str(&outcome.out).unwrap();
    schema::check(&summary);
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(
        (count("commit"), count("added"), count("unchanged"), count("replaced")),
        (3, 1, 2, 2),
        "the directory has a new time"
    );
    assert_eq!(sandbox.out(&["cat", "rich.nra", "in/two"]), "two\n");
    assert_eq!(sandbox.out(&["cat", "rich.nra@2", "in/two"]), "2\n");
    sandbox.fails(&["add", "none.nra", "tree"], 1, "nra: cannot open none.nra: no such file or directory\n");
    sandbox.fails(&["add", "rich.nra@1", "tree"], 2, "nra: cannot change rich.nra@1: only the newest commit can be changed\n");
    assert_eq!(sandbox.run(&["add", "tree/two", "tree"]).code, Some(4));
}

/// A directory is never replaced by a file of the same name, nor a file by a directory.
#[test]
fn add_replaces_entry_of_other_type_only_with_force() {
    let sandbox = Sandbox::new();
    sandbox.write("tree/docs", "a file now\n");
    sandbox.write("tree/image.bin/new", "a directory now\n");
    sandbox.write("tree/more", "x\n");
    let hint = "hint: use -f to replace directories by files and files by directories\n";
    let outcome = sandbox.run(&["add", "rich.nra", "tree"]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.err);
    assert!(outcome.err.contains("added 1 entry, 3 skipped in commit 2"), "{}", outcome.err);
    for why in [
        "docs: skipped: it is a directory in the archive",
        "image.bin: skipped: it is not a directory in the archive",
        "image.bin/new: skipped: image.bin is not a directory in the archive",
        hint,
    ] {
        assert!(outcome.err.contains(why), "{}", outcome.err);
    }
    assert_eq!(sandbox.run(&["diff", "rich.nra"]).out, "+ more\n");
    // A path below an existing file, given by -T or --as.
    let outcome = sandbox.run(&["add", "rich.nra", "tree/more", "--as", "image.bin/x"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.err);
    assert!(outcome.err.ends_with(&format!("nra: rich.nra: nothing was added\n{hint}")), "{}", outcome.err);
    let dry = sandbox.run(&["add", "rich.nra", "tree", "-n"]);
    assert_eq!((dry.code, dry.out.as_str()), (Some(3), "more\n"), "{}", dry.err);
    let below = sandbox.out(&["list", "rich.nra", "docs"]).lines().count() as u64 - 1;
    let outcome = sandbox.run(&["add", "rich.nra", "tree", "-f", "--json"]);
    let summary: Value = serde_json::from_str(&outcome.out).unwrap();
    schema::check(&summary);
    let counts = ["code", "added", "replaced", "removed", "skipped"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counts, [0, 1, 3, below, 0]);
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs", "image.bin/new"]), "a file now\na directory now\n");
}

#[test]
fn add_keeps_tags_of_replaced_file() {
    let sandbox = Sandbox::new();
    sandbox.write("tree/one", "1\n");
    sandbox.write("tree/two", "2\n");
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in"], "added 3 entries");
    sandbox.changes(&["attr", "rich.nra", "set", "--entry", "in/**", "good", "media-type=text/plain"], "changed");
    sandbox.changes(&["attr", "rich.nra", "set", "--entry", "in", "folder"], "changed");
    for update in [&[][..], &["-u"]] {
        sandbox.write("tree/one", &format!("{update:?}\n"));
        let add = ["add", "rich.nra", "tree", "--as", "in", "--tag", "good=very"];
        sandbox.changes(&[&add[..], update].concat(), "added 0 entries, replaced ");
        let tags = sandbox.out(&["attr", "rich.nra", "--entry", "in/one", "--entry", "in"]);
        for tag in ["in: folder", "in/one: good=very", "in/one: media-type=text/plain"] {
            assert!(tags.lines().any(|line| line == tag), "{tags}");
        }
    }
    assert_eq!(sandbox.run(&["add", "rich.nra", "rich.nra"]).code, Some(1));
    assert!(sandbox.run(&["add", "rich.nra"]).err.contains("nothing to add was named"));
}

#[test]
fn reported_growth_excludes_trailing_bytes() {
    let sandbox = Sandbox::new();
    sandbox.write("more", "x\n");
    sandbox.changes(&["add", "rich.nra", "more"], "added 1 entry");
    sandbox.changes(&["rm", "rich.nra", "more"], "removed 1 entry");
    // As after an unfinished append.
    let bytes = sandbox.bytes("rich.nra");
    fs::write(sandbox.directory.path().join("rich.nra"), &bytes[..bytes.len() - 100]).unwrap();
    sandbox.write("more", "other\n");
    let added: Value = serde_json::from_str(&sandbox.run(&["add", "rich.nra", "more", "--json"]).out).unwrap();
    let log: Value = serde_json::from_str(&sandbox.out(&["log", "rich.nra", "--json"])).unwrap();
    assert_eq!(added["added_bytes"], log["commits"][0]["added_bytes"]);
}

#[test]
fn diff_compares_archive_attributes() {
    let sandbox = Sandbox::new();
    sandbox.changes(&["attr", "rich.nra", "set", "name=x"], "changed");
    assert_eq!(sandbox.run(&["diff", "rich.nra"]).out, "~ .  (attributes)\n");
    let outcome = sandbox.run(&["diff", "rich.nra", "--jsonl"]);
    outcome.out.lines().for_each(|line| schema::check(&serde_json::from_str(line).unwrap()));
    assert!(outcome.out.contains("\"identical\":false"), "{}", outcome.out);
    assert_eq!(sandbox.run(&["diff", "rich.nra", "--content"]).code, Some(0));
}

/// Listed values are visible and contain no control characters.
#[test]
fn attr_shows_attributes_of_all_namespaces() {
    use nra::format::entry::{Attribute, Entry, Kind, Metadata, Namespace};
    use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
    let sandbox = Sandbox::new();
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
    fs::write(sandbox.directory.path().join("all.nra"), bytes).unwrap();
    assert_eq!(
        sandbox.out(&["attr", "all.nra", "--entry", "one"]),
        "one: user.x=0\none: same=1\\x1b[2J\none: embedding:clip (2 bytes)\none: same=2\n"
    );
    let shown: Value = serde_json::from_str(&sandbox.out(&["attr", "all.nra", "--entry", "one", "--json"])).unwrap();
    schema::check(&shown["attributes"][0]);
    let listed = &shown["attributes"][0]["attributes"];
    assert_eq!(listed.as_array().unwrap().len(), 4);
    assert_eq!((&listed[2]["namespace"], &listed[2]["value_b64"]), (&"nra".into(), &"/wA=".into()));
    // Every listed attribute can be removed by its name.
    for (expression, found) in
        [("attr user.x", "one\n"), ("attr user.x = 0 and attr embedding:clip", "one\n"), ("attr user.y", "")]
    {
        assert_eq!(sandbox.run(&["find", "all.nra", "--expr", expression]).out, found, "{expression}");
    }
    sandbox
        .changes(&["attr", "all.nra", "rm", "--entry", "one", "user.x", "same"], "changed attributes of 1 entry in commit 2 (+");
    assert_eq!(sandbox.out(&["attr", "all.nra", "--entry", "one"]), "one: embedding:clip (2 bytes)\n");
}

/// Tags are kept even if only the metadata of their file is updated.
#[test]
fn add_update_keeps_tags_and_changes_modes() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.write("tree/one", "1\n");
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in"], "added 2 entries");
    sandbox.changes(&["attr", "rich.nra", "set", "--entry", "in/one", "good"], "changed");
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in", "-u"], "rich.nra: no changes");
    fs::set_permissions(sandbox.directory.path().join("tree/one"), fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.changes(&["add", "rich.nra", "tree", "--as", "in", "-u"], "added 0 entries, replaced 1, 1 unchanged in commit 4");
    assert_eq!(sandbox.out(&["attr", "rich.nra", "--entry", "in/one"]), "in/one: good\n");
    assert!(sandbox.out(&["list", "-l", "rich.nra", "in/one"]).starts_with("-rw-------"));
}

#[test]
fn second_writer_is_rejected() {
    let sandbox = Sandbox::new();
    let store = nra::format::source::FileStore::open(&sandbox.directory.path().join("rich.nra")).unwrap();
    sandbox.fails(
        &["rm", "rich.nra", "owned"],
        1,
        "nra: cannot lock rich.nra: another process is changing it\n\
         hint: try again when the other process has finished; reading is possible meanwhile\n",
    );
    assert_eq!(sandbox.out(&["list", "rich.nra", "owned"]), "owned\n");
    drop(store);
    sandbox.changes(&["rm", "rich.nra", "owned"], "removed 1 entry in commit 2");
}

#[test]
fn running_append_is_not_reported_as_unfinished() {
    let sandbox = Sandbox::new();
    sandbox.changes(&["mkdir", "rich.nra", "new"], "created new in commit 2");
    let path = sandbox.directory.path().join("rich.nra");
    let store = nra::format::source::FileStore::open(&path).unwrap();
    std::fs::write(&path, [sandbox.bytes("rich.nra"), vec![7; 5_000]].concat()).unwrap();
    let outcome = sandbox.run(&["list", "rich.nra", "new"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
    drop(store);
    let outcome = sandbox.run(&["list", "rich.nra", "new"]);
    assert!(outcome.err.contains("5000 bytes after commit 2"), "{}", outcome.err);
}

#[test]
fn compact_removes_old_commits() {
    let sandbox = Sandbox::new();
    let noise: String = (0..20_000u32).map(|i| format!("{:x}", i.wrapping_mul(2_654_435_761))).collect();
    sandbox.write("tree/noise", &noise);
    sandbox.changes(&["add", "rich.nra", "tree", "-m", "one"], "added 1 entry in commit 2");
    sandbox.changes(&["rm", "rich.nra", "noise", "-m", "two"], "removed 1 entry in commit 3");
    let (before, listed) = (sandbox.bytes("rich.nra"), sandbox.out(&["list", "-l", "--digest", "rich.nra"]));
    let outcome = sandbox.run(&["compact", "rich.nra", "-n"]);
    assert_eq!((outcome.code, &outcome.err[..10]), (Some(0), "rich.nra: "), "{}", outcome.err);
    assert!(outcome.err.ends_with("; would remove 2 commits and keep 1\n") && !outcome.err.contains("about"), "{}", outcome.err);
    for keep in ["1", "2", "3"] {
        let after = |arguments: &[&str]| -> Value {
            let outcome = sandbox.run(&[&["compact", "rich.nra", "--keep", keep, "--json"], arguments].concat());
            serde_json::from_str::<Value>(&outcome.out).unwrap()["after_bytes"].clone()
        };
        assert_eq!(after(&["-n"]), after(&["-o", "exact.nra", "-f"]), "{keep}");
    }
    std::fs::remove_file(sandbox.directory.path().join("exact.nra")).unwrap();
    assert_eq!(sandbox.bytes("rich.nra"), before, "nothing was written");
    let outcome = sandbox.run(&["compact", "rich.nra", "--keep", "2", "-o", "two.nra", "--json"]);
    let summary: Value = serde_json::from_str(&outcome.out).unwrap();
    schema::check(&summary);
    assert_eq!((&summary["commits"], &summary["removed_commits"], &summary["written"]), (&2.into(), &1.into(), &true.into()));
    assert_eq!(sandbox.out(&["cat", "two.nra@1", "noise"]), noise);
    assert_eq!(sandbox.run(&["diff", "two.nra", "rich.nra"]).code, Some(0));
    let outcome = sandbox.run(&["compact", "rich.nra", "-o", "two.nra"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.contains("it exists already") && outcome.err.contains("hint: use -f to replace it"), "{}", outcome.err);
    let outcome = sandbox.run(&["compact", "rich.nra"]);
    assert!(outcome.err.contains("removed 2 commits permanently, kept 1"), "{}", outcome.err);
    assert!(sandbox.bytes("rich.nra").len() * 4 < before.len());
    assert_eq!(sandbox.out(&["list", "-l", "--digest", "rich.nra"]), listed);
    assert_eq!(sandbox.run(&["verify", "rich.nra"]).code, Some(0));
    sandbox.changes(&["compact", "rich.nra"], "rich.nra: already compact");
    assert_eq!(
        std::fs::read_dir(sandbox.directory.path())
            .unwrap()
            .filter(|item| { item.as_ref().unwrap().file_name().to_string_lossy().starts_with(".nra-") })
            .count(),
        0
    );
}

#[test]
fn pack_sets_attributes() {
    let sandbox = Sandbox::new();
    sandbox.write("tree/one", "1\n");
    let pack = ["pack", "tree", "--attr", "name=a", "--attr", "name=Tree", "--tag", "raw", "--tag", "media-type=text/plain"];
    assert_eq!(sandbox.run(&pack).code, Some(0));
    assert_eq!(sandbox.out(&["attr", "tree.nra"]), "name=Tree\n");
    assert_eq!(sandbox.out(&["attr", "tree.nra", "--entry", "one"]), "one: raw\none: media-type=text/plain\n");
    assert_eq!(sandbox.run(&["pack", "tree", "-f", "--attr", "=x"]).code, Some(2));
    sandbox.write("tree/two", "2\n");
    assert_eq!(sandbox.run(&["add", "tree.nra", "tree", "-u", "--attr", "licence=CC0", "--tag", "late"]).code, Some(0));
    assert_eq!(sandbox.out(&["attr", "tree.nra"]), "licence=CC0\nname=Tree\n");
    assert_eq!(
        sandbox.out(&["attr", "tree.nra", "--entry", "one", "--entry", "two"]),
        "one: raw\none: media-type=text/plain\ntwo: late\n"
    );
}

#[test]
fn add_update_keeps_hard_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let sandbox = Sandbox::new();
    sandbox.write("t/a", "hello");
    sandbox.write("t/other", "hello");
    let at = |name: &str| sandbox.directory.path().join(name);
    fs::hard_link(at("t/a"), at("t/b")).unwrap();
    sandbox.run(&["pack", "t", "-o", "linked.nra"]);
    fs::set_permissions(at("t/a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sandbox.out(&["add", "linked.nra", "t", "--update", "-n"]), "a\nb\n");
    fs::set_permissions(at("t/other"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sandbox.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    fs::hard_link(at("t/a"), at("t/c")).unwrap();
    assert_eq!(sandbox.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    for keep in ["3", "2", "1"] {
        assert_eq!(sandbox.run(&["compact", "linked.nra", "--keep", keep]).code, Some(0));
        let out = format!("out{keep}");
        assert_eq!(sandbox.run(&["extract", "linked.nra", "-C", &out]).code, Some(0));
        let status = |name: &str| fs::metadata(at(&format!("{out}/{name}"))).unwrap();
        for name in ["a", "b", "c", "other"] {
            assert_eq!((status(name).mode() & 0o777, status(name).len()), (0o600, 5), "{name}");
            assert_eq!(status(name).ino() == status("a").ino(), name != "other", "{name}");
        }
    }
    // A former link that has become a separate file with the same time.
    let modified = fs::metadata(at("t/c")).unwrap().modified().unwrap();
    fs::remove_file(at("t/c")).unwrap();
    sandbox.write("t/c", "hello");
    let file = fs::File::open(at("t/c")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sandbox.run(&["add", "linked.nra", "t", "--update"]).code, Some(0));
    assert_eq!(sandbox.run(&["extract", "linked.nra", "-C", "apart"]).code, Some(0));
    let inode = |name: &str| fs::metadata(at(name)).unwrap().ino();
    assert!(inode("apart/a") == inode("apart/b") && inode("apart/a") != inode("apart/c"));
}

#[test]
fn concurrent_readers_see_no_damage() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let sandbox = Sandbox::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    return number;
                }
                assert_eq!(sandbox.run(&["attr", "rich.nra", "set", &format!("count={number}")]).code, Some(0));
            }
            0
        });
        let outcome: Vec<_> = (0..60)
            .map(|number| sandbox.run(&[["list", "log", "verify"][number % 3], "rich.nra"]))
            .filter(|outcome| outcome.code != Some(0) || outcome.err.contains("damaged"))
            .map(|outcome| outcome.err)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 10);
        assert_eq!(outcome, [""; 0]);
    });
    assert_eq!(sandbox.run(&["verify", "rich.nra"]).code, Some(0));
}
