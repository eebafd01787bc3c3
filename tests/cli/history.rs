//! Commits: `log`, `--at`, `ARCHIVE@N`.

use crate::{Sandbox, sample, schema};

#[test]
fn commits_are_listed_and_readable() {
    let sandbox = Sandbox::new();
    let log = sandbox.out(&["log", "rich.nra"]);
    assert!(log.starts_with("   1  -                    +") && log.contains("in 13 entries"), "{log}");
    let lines: Vec<serde_json::Value> =
        sandbox.out(&["log", "rich.nra", "--jsonl"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(schema::check);
    assert_eq!((&lines[0]["number"], &lines[1]["commits"]), (&1.into(), &1.into()));
    let length = std::fs::metadata(sandbox.directory.path().join("rich.nra")).unwrap().len();
    assert_eq!(lines[0]["added_bytes"], length);
    for arguments in [&["list", "rich.nra@1"][..], &["list", "rich.nra", "--at", "1"], &["list", "rich.nra@1", "--at=1"]] {
        assert_eq!(sandbox.out(arguments), sandbox.out(&["list", "rich.nra"]));
    }
}

#[test]
fn missing_commit_is_rejected() {
    let sandbox = Sandbox::new();
    let message = "nra: rich.nra@2: there is no commit 2; the archive has only commit 1\n";
    for arguments in [&["list", "rich.nra@2"][..], &["cat", "rich.nra", "owned", "--at", "2"], &["log", "rich.nra@2"]] {
        sandbox.fails(arguments, 2, message);
    }
    sandbox.fails(&["list", "rich.nra@1", "--at", "2"], 2, "nra: rich.nra@1 and --at 2 name different commits\n");
}

#[test]
fn file_named_like_commit_takes_precedence() {
    let sandbox = Sandbox::new();
    sample::save(sandbox.directory.path(), "rich.nra@2", &sample::rich());
    assert_eq!(sandbox.out(&["list", "rich.nra@2"]), sandbox.out(&["list", "rich.nra"]));
    assert_eq!(sandbox.run(&["list", "rich.nra@3"]).code, Some(2));
    assert_eq!(sandbox.run(&["list", "none.nra@1"]).code, Some(1));
}

#[test]
fn diff_reports_differences_in_exit_code() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&["extract", "rich.nra", "-C", "there", "-q"]);
    assert_eq!(outcome.code, Some(3), "a device is skipped: {}", outcome.err);
    let owned = sandbox.directory.path().join("there/owned");
    let same = ["diff", "rich.nra", "there", "--content"];
    assert_eq!(sandbox.run(&same).out, "- null\n");
    std::fs::write(&owned, "MINE\n").unwrap();
    std::fs::write(sandbox.directory.path().join("there/docs/new"), "").unwrap();
    let outcome = sandbox.run(&same);
    assert_eq!(
        (outcome.code, outcome.out.as_str(), outcome.err.as_str()),
        (Some(1), "+ docs/new\n- null\n~ owned  (content)\n", "")
    );
    let outcome = sandbox.run(&["diff", "rich.nra", "there"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(1), "+ docs/new\n- null\n~ owned  (time)\n"));
    for line in sandbox.run(&["diff", "rich.nra", "there", "--jsonl"]).out.lines() {
        schema::check(&serde_json::from_str(line).unwrap());
    }
    let all: serde_json::Value = serde_json::from_str(&sandbox.run(&["diff", "rich.nra", "there", "--json"]).out).unwrap();
    assert_eq!((&all["differences"][0]["change"], &all["summary"]["identical"]), (&"added".into(), &false.into()));
    let identical: serde_json::Value = serde_json::from_str(&sandbox.out(&["diff", "rich.nra", "rich.nra", "--json"])).unwrap();
    assert_eq!((&identical["summary"]["identical"], &identical["summary"]["unchanged"]), (&true.into(), &13.into()));
    sandbox.fails(
        &["diff", "rich.nra"],
        2,
        "nra: rich.nra: commit 1 is the first one
hint: give a second archive or directory\n",
    );
    assert_eq!(sandbox.run(&["diff", "rich.nra", "none.nra"]).code, Some(2));
    assert_eq!(sandbox.run(&["diff", "there"]).code, Some(2));
}

#[test]
fn convert_reads_commit_and_dry_run_writes_nothing() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["rm", "rich.nra", "docs"]).code, Some(0));
    for kind in ["nra", "nra4", "shard", "zip", "tar.zst"] {
        let output = format!("out.{kind}");
        let line = ["convert", "rich.nra", &output, "--to", kind, "--owner", "7:8", "--json"];
        let dry = sandbox.run(&[&line[..], &["-n"]].concat());
        assert!(!sandbox.directory.path().join(&output).exists(), "{kind}");
        let real = sandbox.run(&line);
        let read = |outcome: &crate::Outcome| {
            let mut summary: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
            schema::check(&summary);
            let is_dry = summary["dry_run"].as_bool();
            summary.as_object_mut().unwrap().retain(|name, _| name != "seconds" && name != "dry_run");
            (is_dry, summary)
        };
        let ((was_dry, expected), (is_dry, done)) = (read(&dry), read(&real));
        assert_eq!((was_dry, is_dry, dry.code), (Some(true), Some(false), real.code), "{kind}");
        // NRA archives differ only in their IDs.
        assert_eq!(expected, done, "{kind}");
        let length = std::fs::metadata(sandbox.directory.path().join(&output)).unwrap().len();
        assert_eq!(done["archive_bytes"].as_u64(), Some(length), "{kind}");
        let again = sandbox.run(&[&line[..], &["-n"]].concat());
        assert!(again.code == Some(1) && again.err.contains("use -f to replace"), "{kind}: {}", again.err);
    }
    let entries = sandbox.out(&["list", "out.tar.zst", "--jsonl"]);
    let entry: serde_json::Value = serde_json::from_str(entries.lines().next().unwrap()).unwrap();
    assert_eq!((entry["uid"].as_u64(), entry["gid"].as_u64()), (Some(7), Some(8)));
    for (input, at) in [("rich.nra@1", &[][..]), ("rich.nra", &["--at", "1"])] {
        let outcome = sandbox.run(&[&["convert", input, "-o", "first.nra", "-f"][..], at].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.err);
        assert!(sandbox.out(&["list", "first.nra"]).starts_with("docs\n"));
    }
    let outcome = sandbox.run(&["convert", "rich.nra@9"]);
    assert!(outcome.code == Some(2) && outcome.err.contains("there is no commit 9"), "{}", outcome.err);
}
