//! Selection of entries: patterns, lists, exclude rules and expressions.

use super::Sandbox;

#[test]
fn exclude_rules_apply_to_all_commands() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("rules"), "# text\n*.txt\n!a b.txt\n").unwrap();
    let list = |arguments: &[&str]| sandbox.out(&[&["list", "rich.nra"], arguments].concat());
    assert_eq!(list(&["docs", "-x", "*.txt"]), "docs\ndocs/empty\ndocs/sub\ndocs/sub/deep\ndocs/sub/deep/lines.log\n");
    assert_eq!(list(&["-x", "*", "--include", "owned"]), "owned\n");
    assert_eq!(list(&["docs", "-x", "sub/", "--exclude-from", "rules"]), "docs\ndocs/a b.txt\ndocs/empty\n");
    // The last rule wins. Nothing below an excluded directory is included.
    assert_eq!(list(&["docs/sub", "-x", "deep", "--include", "lines.log"]), "docs/sub\n");
    assert_eq!(list(&["owned", "-x", "!owned", "-x", "owned"]), "");
    assert_eq!(sandbox.out(&["find", "rich.nra", "docs", "--type", "f", "-x", "*.txt"]), "docs/empty\ndocs/sub/deep/lines.log\n");
    assert_eq!(sandbox.out(&["grep", "rich.nra", "two", "-l", "--exclude", "docs"]), "image.bin\n");
    assert_eq!(sandbox.out(&["grep", "rich.nra", "-x", "two", "docs/a b.txt", "-n"]), "docs/a b.txt:2:two\n");
    let whole = sandbox.out(&["du", "rich.nra", "--bytes", "--depth", "0", "--entries"]);
    let less = sandbox.out(&["du", "rich.nra", "--bytes", "--depth", "0", "--entries", "-x", "docs"]);
    assert!(whole.trim_end().ends_with(" 13  .") && less.trim_end().ends_with(" 5  ."), "{whole}{less}");
    let verified = sandbox.out(&["verify", "rich.nra", "docs", "-x", "*.txt"]);
    assert!(verified.contains("ok (5 entries,"), "{verified}");
    let outcome = sandbox.run(&["extract", "rich.nra", "docs", "-C", "out", "-x", "*.txt"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    assert!(sandbox.directory.path().join("out/docs/sub/deep/lines.log").exists());
    assert!(!sandbox.directory.path().join("out/docs/a b.txt").exists());
}

#[test]
fn file_lists_contain_literal_names() {
    let sandbox = Sandbox::new();
    let path = |name: &str| sandbox.directory.path().join(name);
    std::fs::write(path("names"), "docs/sub/deep\nowned\n\n").unwrap();
    std::fs::write(path("raw"), b"docs/latin\xff.txt\0owned\0").unwrap();
    std::fs::write(path("globs"), "own*\nowned\n").unwrap();
    std::fs::write(path("empty"), "\n").unwrap();
    assert_eq!(sandbox.out(&["list", "rich.nra", "-T", "names"]), "docs/sub/deep\ndocs/sub/deep/lines.log\nowned\n");
    assert_eq!(
        sandbox.out(&["list", "rich.nra", "link", "--files-from", "names", "-x", "*.log"]),
        "docs/sub/deep\nlink\nowned\n"
    );
    // Output of -0 is accepted by -0.
    let outcome = sandbox.run(&["list", "rich.nra", "-0T", "raw"]);
    assert_eq!(
        (outcome.code, outcome.out.ends_with("\0owned\0"), outcome.out.matches('\0').count()),
        (Some(0), true, 2),
        "{}",
        outcome.out
    );
    let outcome = sandbox.run(&["cat", "rich.nra", "-0", "-T", "raw"]);
    assert_eq!((outcome.code, outcome.out.ends_with(" two\nmine\n")), (Some(0), true), "{}", outcome.out);
    // A listed name is not a glob. A name without a match is reported like a pattern.
    let outcome = sandbox.run(&["list", "rich.nra", "-T", "globs"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(3), "owned\n"));
    assert!(outcome.err.contains("own*") && outcome.err.contains("no entry matches"), "{}", outcome.err);
    // An empty list does not select everything.
    for command in ["list", "find", "verify", "rm", "cat"] {
        sandbox.fails(&[command, "rich.nra", "-T", "empty"], 1, "nra: empty lists no paths\n");
    }
    assert_eq!(sandbox.run(&["rm", "rich.nra", "-x", "owned"]).code, Some(2));
    let outcome = sandbox.run(&["rm", "rich.nra", "-n", "-T", "names"]);
    assert_eq!(
        (outcome.code, outcome.out.as_str()),
        (Some(0), "docs/sub/deep\ndocs/sub/deep/lines.log\nowned\n"),
        "{}",
        outcome.err
    );
}

#[test]
fn include_without_exclude_is_rejected() {
    let sandbox = Sandbox::new();
    for arguments in [&["list", "rich.nra", "--include", "*.txt"][..], &["pack", ".", "-o", "x.nra", "--include", "*.txt"]] {
        let outcome = sandbox.run(arguments);
        assert_eq!(outcome.code, Some(2), "{}", outcome.err);
        assert!(outcome.err.starts_with("nra: --include '*.txt' must follow an --exclude"), "{}", outcome.err);
    }
    assert_eq!(sandbox.run(&["list", "rich.nra", "-x", "a["]).code, Some(2));
    assert_eq!(sandbox.run(&["list", "rich.nra", "--exclude-from", "missing"]).code, Some(1));
}

#[test]
fn find_evaluates_expressions() {
    let sandbox = Sandbox::new();
    let find = |expression: &str| sandbox.out(&["find", "rich.nra", "--expr", expression]);
    assert_eq!(find("size > 100 and name ~ *.log"), "docs/sub/deep/lines.log\n");
    assert_eq!(find("not type = f and not type = d"), "link\nnull\npipe\n");
    assert_eq!(find("path ~ docs/sub and (type = d or ratio < 90%)"), "docs/sub\ndocs/sub/deep\ndocs/sub/deep/lines.log\n");
    assert_eq!(find("target = 'docs/a b.txt'"), "link\n");
    assert_eq!(find("newer 2200-01-01"), "");
    assert_eq!(sandbox.out(&["find", "rich.nra", "--expr", "type = f", "--expr", "size = 5", "--type", "f"]), "owned\n");
    let outcome = sandbox.run(&["find", "rich.nra", "--expr", "size > 1 nam = x"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("expected 'and' or 'or' at character 10: 'nam = x'"), "{}", outcome.err);
}

#[test]
fn grep_searches_files_of_any_length() {
    let sandbox = Sandbox::new();
    let mut text = String::new();
    for number in 0..300_000 {
        text += &format!("line {number}\n");
    }
    std::fs::create_dir(sandbox.directory.path().join("in")).unwrap();
    std::fs::write(sandbox.directory.path().join("in/long"), &text).unwrap();
    std::fs::write(sandbox.directory.path().join("in/short"), "line x\n").unwrap();
    assert_eq!(sandbox.run(&["pack", "in", "-o", "long.nra"]).code, Some(0));
    let found = sandbox.out(&["grep", "long.nra", "line", "-n"]);
    assert_eq!(found.lines().count(), 300_001);
    assert!(found.contains("long:300000:line 299999\nshort:1:line x\n"));
    assert_eq!(sandbox.out(&["grep", "long.nra", "line", "-c"]), "long:300000\nshort:1\n");
    assert_eq!(sandbox.out(&["grep", "long.nra", "line", "-l", "-0"]), "long\0short\0");
}

#[test]
fn pack_sets_media_type_and_owner() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.directory.path().join("in/raw")).unwrap();
    for name in ["a.jpg", "b.txt", "raw/c.jpg"] {
        std::fs::write(sandbox.directory.path().join("in").join(name), name).unwrap();
    }
    let outcome = sandbox.run(&[
        "pack",
        "in",
        "-o",
        "typed.nra",
        "--media-type",
        "*.jpg=image/jpeg",
        "--media-type",
        "raw=image/x-raw",
        "--tag",
        "new",
        "--owner",
        "4321:1234",
        "--reproducible",
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    let listed = sandbox.out(&["list", "typed.nra", "-l"]);
    let tags: Vec<&str> = listed.lines().map(|line| line.rsplit("  ").next().unwrap()).collect();
    assert_eq!(tags, ["[new, media-type=image/jpeg]", "[new]", "[new]", "[new, media-type=image/x-raw]"], "{listed}");
    assert_eq!(sandbox.out(&["find", "typed.nra", "--expr", "attr media-type ~ image/*"]), "a.jpg\nraw/c.jpg\n");
    for line in sandbox.out(&["list", "typed.nra", "--jsonl"]).lines().filter(|line| line.contains("\"entry\"")) {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((entry["uid"].as_u64(), entry["gid"].as_u64(), entry.get("user")), (Some(4321), Some(1234), None), "{line}");
    }
    assert_eq!(sandbox.run(&["pack", "in", "-o", "x.nra", "--media-type", "jpg"]).code, Some(2));
    let outcome = sandbox.run(&["pack", "in", "-o", "x.nra", "--owner", "nobody-of-this-name"]);
    assert!(outcome.code == Some(2) && outcome.err.contains("use a number instead"), "{}", outcome.err);
}

#[test]
fn owner_syntax_matches_chown() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("f"), "x").unwrap();
    let owner = |owner: &str| {
        let outcome = sandbox.run(&["pack", "f", "-o", "owned.nra", "-f", "--owner", owner]);
        assert_eq!(outcome.code, Some(0), "{owner}: {}", outcome.err);
        let line = sandbox.out(&["list", "owned.nra", "--jsonl"]);
        let entry: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        ["uid", "gid", "user", "group"].map(|name| entry.get(name).map_or_else(String::new, ToString::to_string))
    };
    let [user_id, group_id, user, group] = owner("4321");
    assert_eq!((user_id.as_str(), user.as_str()), ("4321", ""));
    let [own_id, ..] = owner(":1234");
    assert_ne!(own_id, "4321");
    assert_eq!(owner(":1234")[1..], ["1234".to_owned(), owner(":1234")[2].clone(), String::new()]);
    // The group is unchanged.
    assert_eq!(owner("4321"), ["4321".to_owned(), group_id, user, group]);
    assert_eq!(owner("root:"), ["0", "0", "\"root\"", "\"root\""]);
    assert_eq!(owner("0:"), ["0", "0", "", ""]);
    for (wrong, why) in [
        (":", "expected a user or a group"),
        ("", "expected a user or a group"),
        ("99999999999", "user ID is too large (at most 4294967294)"),
        ("0:4294967295", "group ID is too large (at most 4294967294)"),
        ("4000000000:", "unknown login group (use USER:GROUP)"),
    ] {
        let outcome = sandbox.run(&["pack", "f", "-o", "x.nra", "--owner", wrong]);
        assert!(outcome.code == Some(2) && outcome.err.contains(why), "{wrong}: {}", outcome.err);
    }
}

#[test]
fn misleading_extension_is_reported() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("f"), "x").unwrap();
    let outcome = sandbox.run(&["pack", "f", "-o", "f.zip", "--prefix", "."]);
    assert_eq!(outcome.code, Some(0));
    let message = "nra: warning: f.zip: its name ends with .zip, but it is NRA 5\nhint: use nra convert to write other archive formats\npacked 1 file, ";
    assert!(outcome.err.starts_with(message), "{}", outcome.err);
    assert_eq!(sandbox.run(&["list", "f.zip"]).out, "f\n");
}
