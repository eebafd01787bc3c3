//! Tests of the program from the outside: output, messages, exit codes, JSON.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod change;
mod completion;
mod history;
mod keys;
mod names;
mod recovery;
mod salvage;
mod sample;
mod schema;
mod select;
mod shard;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Exit code and output of the program.
struct Outcome {
    code: Option<i32>,
    out: String,
    err: String,
}

fn nra() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nra"));
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "NRA_ACCESSIBLE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

fn outcome(output: Output) -> Outcome {
    let text =
        |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Outcome { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program in a directory with the archives of [`sample`].
struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        sample::save(directory.path(), "rich.nra", &sample::rich());
        Self { directory }
    }

    /// Runs the program. JSON in its output is checked against the schemas.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let outcome = outcome(nra().args(arguments).current_dir(self.directory.path()).output().unwrap());
        if arguments.iter().any(|argument| ["--json", "--jsonl"].contains(argument)) {
            schema::check_output(&outcome.out);
        }
        outcome
    }

    /// Runs the program successfully and returns its standard output.
    fn out(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{arguments:?}");
        outcome.out
    }

    fn fails(&self, arguments: &[&str], code: i32, message: &str) {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(code), message), "{arguments:?}");
    }
}

fn commands() -> Vec<String> {
    let definition = nra::cli::definition();
    definition.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn short_help_fits_one_screen() {
    let keys = ["key list", "key add", "key remove", "key change"].map(str::to_owned);
    for command in commands().into_iter().chain(keys) {
        let outcome = outcome(nra().args(command.split(' ')).arg("-h").env("COLUMNS", "80").output().unwrap());
        assert_eq!(outcome.code, Some(0), "{command}");
        let lines = outcome.out.lines().count();
        assert!(lines <= 24, "nra {command} -h has {lines} lines");
        assert!(outcome.out.lines().all(|line| line.chars().count() <= 80), "{command}: {}", outcome.out);
        assert!(outcome.out.contains("Examples:"), "{command}");
        let examples = outcome.out.split("Examples:").nth(1).unwrap();
        assert!(examples.lines().skip(1).all(|line| line.starts_with("  nra ")), "{command}: {examples}");
    }
    let outcome = outcome(nra().arg("-h").output().unwrap());
    assert!(outcome.out.lines().count() <= 24 && outcome.out.lines().all(|line| line.chars().count() <= 80), "{}", outcome.out);
    let (groups, examples) = outcome.out.split_once("Examples:").unwrap();
    assert!(examples.lines().skip(1).all(|line| line.starts_with("  nra ")), "{examples}");
    let words: Vec<&str> = groups.split([' ', ',', '\n']).collect();
    for command in commands() {
        assert!(words.contains(&command.as_str()), "{command}");
    }
}

#[test]
fn entries_are_listed_in_path_order() {
    let sandbox = Sandbox::new();
    assert_eq!(
        sandbox.out(&["list", "rich.nra"]),
        "docs\ndocs/a b.txt\ndocs/empty\n$'docs/esc\\x1b[31m.txt'\ndocs/latin\u{fffd}.txt\ndocs/sub\ndocs/sub/deep\n\
         docs/sub/deep/lines.log\nimage.bin\nlink\nnull\nowned\npipe\n"
    );
    assert_eq!(
        sandbox.out(&["ls", "rich.nra", "docs/sub", "*.bin"]),
        "docs/sub\ndocs/sub/deep\ndocs/sub/deep/lines.log\nimage.bin\n"
    );
    assert_eq!(
        sandbox.out(&["list", "rich.nra", "--sort", "size", "-r", "docs/sub", "owned"]).lines().next(),
        Some("docs/sub/deep/lines.log")
    );
    assert_eq!(
        sandbox.out(&["list", "rich.nra", "-l", "link", "null"]),
        "lrw-r--r--           -      -  2026-01-02 03:04:05  link -> docs/a b.txt\n\
         crw-r--r--        1, 3      -  2026-01-02 03:04:05  null\n"
    );
    let owned = sandbox.out(&["list", "rich.nra", "-l", "owned"]);
    assert!(owned.starts_with("-rw-------         5 B  ") && owned.ends_with(" %  2026-01-02 03:04:05  owned\n"), "{owned}");
    assert_eq!(
        sandbox.out(&["list", "rich.nra", "--tree", "docs/sub"]),
        "└── docs/\n    └── sub/\n        └── deep/\n            └── lines.log\n"
    );
}

#[test]
fn list_digest_matches_content() {
    let sandbox = Sandbox::new();
    let digest = nra::format::digest::Digest::of(b"mine\n").to_string();
    assert_eq!(sandbox.out(&["list", "--digest", "rich.nra", "owned"]), format!("{digest}  owned\n"));
}

#[test]
fn null_option_terminates_names_with_nul() {
    let sandbox = Sandbox::new();
    let output = nra().args(["list", "-0", "rich.nra", "docs/*.txt"]).current_dir(sandbox.directory.path()).output().unwrap();
    assert_eq!(output.stdout, b"docs/a b.txt\0docs/esc\x1b[31m.txt\0docs/latin\xff.txt\0");
}

#[test]
fn messages_and_json_contain_no_control_characters() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["list", "--json", "rich.nra"][..],
        &["grep", "rich.nra", "two", "--jsonl"],
        &["list", "rich.nra", "\u{1b}[31m"],
        &["list", "\u{1b}[31m"],
        &["\u{1b}[31m"],
        &["list", "rich.nra", "--\u{1b}[31m"],
        &["list", "rich.nra", "--sort", "\u{1b}[31m"],
        &["extract", "rich.nra", "docs", "-v", "-C", "target"],
        &["--help"],
    ] {
        let outcome = sandbox.run(arguments);
        assert!(
            !outcome.out.contains('\u{1b}') && !outcome.err.contains('\u{1b}'),
            "{arguments:?}: {}{}",
            outcome.out,
            outcome.err
        );
    }
}

#[test]
fn colours_follow_option_and_environment() {
    let sandbox = Sandbox::new();
    let colored = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = nra();
        command.args(arguments).current_dir(sandbox.directory.path()).envs(variables.iter().copied());
        outcome(command.output().unwrap()).out.contains("\u{1b}[")
    };
    let list = ["list", "rich.nra", "docs/sub"];
    assert!(!colored(&list, &[]));
    assert!(colored(&["list", "rich.nra", "docs/sub", "--color", "always"], &[("NO_COLOR", "1")]));
    assert!(colored(&list, &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&list, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!colored(&["list", "rich.nra", "docs/sub", "--color=never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["list", "rich.nra", "docs/sub", "--json", "--color=always"], &[]));
}

#[test]
fn cat_prints_content_and_ranges() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs/a b.txt", "./owned"]), "one\ntwo\nthree two\nmine\n");
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs/a b.txt", "--range", "4-6"]), "two");
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs/a b.txt", "--range", "-4"]), "two\n");
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs/a b.txt", "--range=18-"]), "");
    sandbox.fails(
        &["cat", "rich.nra", "docs/a b.txt", "--range=100-"],
        1,
        "nra: rich.nra: 'docs/a b.txt': range starts past the end of the file (18 bytes)\n",
    );
    assert_eq!(sandbox.out(&["cat", "rich.nra", "docs/empty"]), "");
}

#[test]
fn archive_is_read_from_standard_input() {
    let mut child = nra().args(["cat", "-", "owned"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&sample::rich()).unwrap();
    assert_eq!(outcome(child.wait_with_output().unwrap()).out, "mine\n");
}

#[test]
fn messages_name_problem_and_reason() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.directory.path().join("text"), "hello\n").unwrap();
    for (arguments, code, message) in [
        (&["list", "gone.nra"][..], 1, "nra: cannot open gone.nra: no such file or directory\n"),
        (&["list", "."], 1, "nra: cannot open .: is a directory\n"),
        (
            &["list", "text"],
            4,
            "nra: text: not a supported archive: it looks like text\nhint: use nra formats to list supported formats\n",
        ),
        (
            &["list", "-"],
            4,
            "nra: standard input: not a supported archive: it is empty\nhint: use nra formats to list supported formats\n",
        ),
        (&["cat", "rich.nra", "nope"], 1, "nra: rich.nra: no entry nope\nhint: use nra list rich.nra to list its entries\n"),
        (&["cat", "rich.nra", "docs"], 1, "nra: rich.nra: docs: not a file but a directory\n"),
        (&["cat", "rich.nra", "link"], 1, "nra: rich.nra: link: not a file but a symlink to 'docs/a b.txt'\n"),
        (
            &["list", "rich.nra", "nope"],
            1,
            "nra: rich.nra: no entry matches nope\nhint: use nra list rich.nra to list its entries; quote globs\n",
        ),
        (&["list", "rich.nra", "nope", "owned"], 3, "nra: warning: nope: no entry matches\n"),
        (&["list", "rich.nra", "nope", "owned", "-q"], 3, ""),
        (
            &["list", "rich.nra", "a["],
            1,
            "nra: rich.nra: no entry matches 'a[' (invalid glob: unclosed character class; missing ']')\n\
             hint: use nra list rich.nra to list its entries; quote globs\n",
        ),
        (&["du", "rich.nra", "nope"], 1, "nra: rich.nra: no entry nope\nhint: use nra list rich.nra to list its entries\n"),
        (&["grep", "rich.nra", "zebra"], 1, ""),
        (
            &["grep", "rich.nra", "("],
            2,
            "nra: invalid regular expression '(': unclosed group\nhint: use -F to search for plain text\n",
        ),
        (
            &["grep", "zebra", "rich.nra"],
            2,
            "nra: cannot open zebra: no such file or directory\nhint: put the archive first: nra grep rich.nra REGEX\n",
        ),
        (
            &["list", "rich.nra", "--lnog"],
            2,
            "nra: unknown option --lnog\nhint: did you mean --long?\nhint: use nra list --help for help\n",
        ),
        (&["lits", "rich.nra"], 2, "nra: unknown command lits\nhint: did you mean nra list?\nhint: use nra --help for help\n"),
        (
            &["rich.nra"],
            2,
            "nra: nra rich.nra opens the browser and requires a terminal\nhint: use nra list rich.nra to list its entries\nhint: use nra --help for help\n",
        ),
        (&["cat", "rich.nra"], 2, "nra: missing PATH\nhint: use nra cat --help for help\n"),
        (&["nosuch", "list"], 2, "nra: unknown command nosuch\nhint: use nra --help for help\n"),
        (&["-xf", "rich.nra"], 2, "nra: unknown option -x\nhint: did you mean nra extract?\nhint: use nra --help for help\n"),
        (&["-q"], 2, "nra: missing command\nhint: use nra --help for help\n"),
        (
            &["stream", "-u", "http://host/a.nra", "--file-id", "a"],
            1,
            "nra: cannot open http://host/a.nra: URLs are not supported\n\
             hint: download the archive first, or pipe it: curl URL | nra list -\n",
        ),
        (
            &["list", "rich.nra", "-dash"],
            2,
            "nra: unknown option -d\nhint: put -- before -dash to use it as a name\nhint: use nra list --help for help\n",
        ),
        (
            &["mount", "rich.nra", "x"],
            2,
            "nra: nra mount is not supported
hint: use nra browse ARCHIVE or nra extract ARCHIVE instead\nhint: use nra --help for help\n",
        ),
        (
            &["ritch.nra"],
            2,
            "nra: unknown command ritch.nra\nhint: did you mean the file rich.nra?\nhint: use nra --help for help\n",
        ),
        (&["extract", "rich.nra", "--max-size", "100"], 1, "nra: rich.nra: 615 B of content exceed --max-size 100 B\n"),
        (
            &["pack", "rich.nra", "-o", "rich.nra", "-f"],
            1,
            "nra: cannot pack rich.nra: it is the output file\nhint: use -o to choose another name for the archive\n",
        ),
        (&["pack", ".", "-o", "x.nra", "--prefix", ""], 2, "nra: --prefix is empty (use . for the top directory)\n"),
        (&["extract", "rich.nra", "-T", "-"], 1, "nra: standard input lists no paths\n"),
        (
            &["list", "rich.nra", "--memory", "1M"],
            2,
            "nra: --memory 1M: at least 32M is required\nhint: use nra list --help for help\n",
        ),
        (
            &["pack", ".", "--codec", "lz4", "--best"],
            2,
            "nra: only zstd has compression levels
hint: omit --codec, or omit --level, --fast and --best\n",
        ),
        (
            &["pack", "-", "-o", "x.nra"],
            2,
            "nra: cannot pack standard input: it has no name
hint: use ./- for a file named -, or -T - to read input names from standard input\n",
        ),
        (
            &["list", "rich.nra", "--memory", "1X"],
            2,
            "nra: --memory 1X: unknown unit 'X' (use K, M, G, T, P or E, optionally followed by iB or B)\nhint: use nra list --help for help\n",
        ),
    ] {
        sandbox.fails(arguments, code, message);
    }
}

#[test]
fn missing_command_is_usage_error() {
    let outcome = outcome(nra().output().unwrap());
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""));
    assert!(outcome.err.contains("Usage: nra"), "{}", outcome.err);
}

#[test]
fn grep_and_find_match_lines_names_and_sizes() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.out(&["grep", "rich.nra", "-n", "two", "docs/a b.txt"]), "docs/a b.txt:2:two\ndocs/a b.txt:3:three two\n");
    assert_eq!(sandbox.out(&["grep", "rich.nra", "-c", "error"]), "docs/sub/deep/lines.log:40\n");
    assert_eq!(sandbox.out(&["grep", "rich.nra", "-il", "TWO", "image.bin", "owned"]), "image.bin\n");
    assert_eq!(sandbox.out(&["grep", "rich.nra", "two", "image.bin"]), "image.bin: binary file matches\n");
    assert_eq!(sandbox.out(&["grep", "-q", "rich.nra", "two"]), "");
    assert_eq!(
        sandbox.out(&["find", "rich.nra", "--name", "*.log", "--size", "+100", "--type", "f"]),
        "docs/sub/deep/lines.log\n"
    );
    assert_eq!(sandbox.out(&["find", "rich.nra", "--type", "l,p"]), "link\npipe\n");
    assert_eq!(sandbox.out(&["find", "rich.nra", "--newer", "2026-01-03"]), "");
    assert_eq!(
        sandbox.out(&["find", "rich.nra", "docs/sub", "--older", "2026-01-03", "--size", "-1K"]),
        "docs/sub/deep/lines.log\n"
    );
    assert_eq!(
        sandbox.out(&["du", "rich.nra", "--bytes"]),
        "       560  docs/sub/deep\n       560  docs/sub\n       603  docs\n       615  .\n"
    );
    let stored = sandbox.out(&["du", "rich.nra", "--bytes", "--stored", "--entries", "--depth", "1"]);
    let columns: Vec<Vec<&str>> = stored.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        matches!(&columns[..], [docs, all] if docs[0] == "603" && docs[2..] == ["8", "docs"] && all[2..] == ["13", "."]),
        "{stored}"
    );
    assert!(columns[0][1].parse::<u64>().unwrap() < 603, "{stored}");
    assert_eq!(sandbox.out(&["du", "rich.nra", "docs/sub", "--depth", "0"]), "     560 B  docs/sub\n");
}

/// Checks the lines of `--jsonl` and the document of `--json` against the schemas and each other.
fn check_json(sandbox: &Sandbox, arguments: &[&str], code: i32) {
    let lines = sandbox.run(&[arguments, &["--jsonl"]].concat());
    assert_eq!(lines.code, Some(code), "{arguments:?}: {}", lines.err);
    let lines: Vec<Value> = lines.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        schema::check(line);
    }
    let last = lines.last().unwrap();
    assert_eq!(last["code"], code, "{arguments:?}");
    let document = sandbox.run(&[arguments, &["--json"]].concat());
    assert_eq!(document.code, Some(code), "{arguments:?}");
    let document: Value =
        serde_json::from_str(&document.out).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", document.out));
    let records = document.as_object().unwrap().values().find_map(Value::as_array).filter(|_| document.get("summary").is_some());
    match records {
        Some(records) => {
            let without_warnings: Vec<&Value> =
                lines[..lines.len() - 1].iter().filter(|line| line["type"] != "warning").collect();
            assert_eq!(records.iter().collect::<Vec<_>>(), without_warnings, "{arguments:?}");
            assert_eq!(document["summary"]["code"], code);
        }
        None => schema::check(&document),
    }
}

#[test]
fn json_matches_schemas() {
    let sandbox = Sandbox::new();
    for (arguments, code) in [
        (&["list", "rich.nra"][..], 0),
        (&["list", "rich.nra", "--digest", "docs"], 0),
        (&["list", "rich.nra", "owned", "nope"], 3),
        (&["list", "rich.nra", "nope"], 1),
        (&["list", "gone.nra"], 1),
        (&["list", "rich.nra", "--no-such-option"], 2),
        (&["no-such-command"], 2),
        (&["cat", "rich.nra", "owned", "image.bin"], 0),
        (&["cat", "rich.nra", "nope"], 1),
        (&["cat", "rich.nra", "owned", "nope", "docs"], 3),
        (&["info", "rich.nra"], 0),
        (&["find", "rich.nra", "--type", "f"], 0),
        (&["grep", "rich.nra", "two"], 0),
        (&["grep", "rich.nra", "two", "-l"], 0),
        (&["grep", "rich.nra", "two", "-c"], 0),
        (&["grep", "rich.nra", "zebra"], 1),
        (&["du", "rich.nra"], 0),
        (&["du", "rich.nra", "--stored", "docs"], 0),
        (&["extract", "rich.nra", "-n", "-C", "target", "docs"], 0),
        (&["extract", "gone.nra"], 1),
        (&["pack", "rich.nra", "-n", "-o", "new.nra"], 0),
        (&["pack", "rich.nra", "-f", "-o", "new.nra"], 0),
        (&["pack", "gone"], 1),
        (&["verify", "rich.nra"], 0),
        (&["verify", "rich.nra", "--quick", "docs", "nope"], 3),
        (&["formats"], 0),
        (&["version"], 0),
        (&["completions", "bash"], 0),
        (&["man"], 0),
    ] {
        check_json(&sandbox, arguments, code);
    }
}

#[test]
fn damage_is_reported_and_other_entries_stay_readable() {
    let sandbox = Sandbox::new();
    let mut bytes = sample::rich();
    // The payload of the first block follows superblock and frame header.
    bytes[256 + 64 + 4] ^= 1;
    sample::save(sandbox.directory.path(), "bad.nra", &bytes);
    let outcome = sandbox.run(&["verify", "bad.nra"]);
    assert_eq!(outcome.code, Some(4));
    assert!(
        outcome.out.starts_with("damaged: block payload at offset 320: ")
            && outcome.out.contains("affects 6 entries\n    docs/a b.txt\n"),
        "{}",
        outcome.out
    );
    assert!(outcome.err.starts_with("nra: bad.nra is damaged in 1 place; 6 entries affected ("), "{}", outcome.err);
    check_json(&sandbox, &["verify", "bad.nra"], 4);
    let outcome = sandbox.run(&["cat", "bad.nra", "owned"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(4), ""));
    assert!(outcome.err.starts_with("nra: bad.nra: owned: block at offset 256 is damaged: "), "{}", outcome.err);
    assert!(outcome.err.ends_with("\nhint: use nra verify bad.nra to list the damage\n"), "{}", outcome.err);
    assert_eq!(sandbox.out(&["list", "bad.nra", "owned", "pipe"]), "owned\npipe\n");
    let outcome = sandbox.run(&["grep", "bad.nra", "two"]);
    assert_eq!(outcome.code, Some(4));
    assert_eq!(outcome.err.lines().count(), 6, "{}", outcome.err);
    sample::save(sandbox.directory.path(), "cut.nra", &bytes[..200]);
    let outcome = sandbox.run(&["list", "cut.nra"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.err);
    assert!(sandbox.out(&["verify", "rich.nra"]).starts_with("rich.nra: ok (13 entries, 615 B, 1 block, "));
    assert_eq!(sandbox.out(&["verify", "-q", "rich.nra"]), "");
}

#[test]
fn cat_continues_after_damaged_entry() {
    let sandbox = Sandbox::new();
    let input = sandbox.directory.path().join("in");
    std::fs::create_dir(&input).unwrap();
    let noise: Vec<u8> = (0..9_000u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 23) as u8).collect();
    std::fs::write(input.join("noise"), &noise).unwrap();
    std::fs::write(input.join("text"), "what is whole\n").unwrap();
    assert_eq!(sandbox.run(&["pack", "in", "-o", "two.nra", "--codec", "none"]).code, Some(0));
    let mut bytes = std::fs::read(sandbox.directory.path().join("two.nra")).unwrap();
    let at = bytes.windows(100).position(|part| part == &noise[..100]).unwrap();
    bytes[at + 50] ^= 1;
    sample::save(sandbox.directory.path(), "two.nra", &bytes);
    for (arguments, code, out) in [
        (&["cat", "two.nra", "noise", "text"][..], 4, "what is whole\n"),
        (&["cat", "two.nra", "text", "noise", "nope", "text"], 4, "what is whole\nwhat is whole\n"),
        (&["cat", "two.nra", "text", "nope"], 3, "what is whole\n"),
        (&["cat", "two.nra", "noise", "nope"], 4, ""),
    ] {
        let outcome = sandbox.run(arguments);
        assert_eq!((outcome.code, outcome.out.as_str()), (Some(code), out), "{arguments:?} {}", outcome.err);
        for name in arguments[2..].iter().filter(|name| **name != "text") {
            let is_reported = [format!("nra: two.nra: {name}: "), format!("nra: warning: {name}: ")]
                .iter()
                .any(|lead| outcome.err.contains(lead));
            assert!(is_reported || outcome.err.contains("no entry nope"), "{}", outcome.err);
        }
    }
}

#[test]
fn missing_entry_with_damaged_index_is_damage() {
    let sandbox = Sandbox::new();
    let mut bytes = sample::rich();
    // The commit and everything after it.
    let len = bytes.len();
    bytes[len - 300..].fill(0);
    sample::save(sandbox.directory.path(), "bad.nra", &bytes);
    for arguments in [&["cat", "bad.nra", "nope"][..], &["du", "bad.nra", "nope"], &["list", "bad.nra", "nope"]] {
        let outcome = sandbox.run(arguments);
        assert_eq!(outcome.code, Some(4), "{arguments:?} {}", outcome.err);
        assert!(outcome.err.contains("nope"), "{}", outcome.err);
    }
}

#[test]
fn archive_is_read_from_named_pipe() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let writer = std::thread::spawn(move || std::fs::write(pipe, sample::rich()).unwrap());
    assert_eq!(sandbox.out(&["cat", "pipe", "owned"]), "mine\n");
    writer.join().unwrap();
}

#[test]
fn cat_json_reports_missing_entries() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&["cat", "rich.nra", "nope", "owned", "--json"]);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    let warning = &document["summary"]["warnings"][0];
    assert_eq!((&warning["path"], &warning["message"]), (&"nope".into(), &"entry not found".into()), "{document}");
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), "nra: warning: nope: entry not found\n"));
}

#[test]
fn extract_fails_if_pattern_matches_nothing() {
    let sandbox = Sandbox::new();
    for arguments in [&["extract", "rich.nra", "nope", "-n"][..], &["extract", "rich.nra", "nope"]] {
        let message = "nra: rich.nra: no entry matches nope\nhint: use nra list rich.nra to list its entries; quote globs\n";
        sandbox.fails(arguments, 1, message);
    }
    assert_eq!(sandbox.run(&["extract", "rich.nra", "nope", "owned", "-n"]).code, Some(3));
}

#[test]
fn accessible_mode_draws_no_lines() {
    let sandbox = Sandbox::new();
    let outcome = outcome(
        nra()
            .args(["list", "--tree", "rich.nra", "docs/sub"])
            .env("NRA_ACCESSIBLE", "1")
            .current_dir(sandbox.directory.path())
            .output()
            .unwrap(),
    );
    assert_eq!(outcome.out, "  docs/\n    sub/\n      deep/\n        lines.log\n");
}

#[test]
fn legacy_command_lines_work() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&["unpack-beta", "-i", "rich.nra", "-o", "there", "-q"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), ""));
    assert_eq!(std::fs::read(sandbox.directory.path().join("there/owned")).unwrap(), b"mine\n");
    let outcome = sandbox.run(&["pack-beta", "-i", "there", "-o", "again.nra", "-n", "Title", "--codec", "zstd"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.err);
    assert!(sandbox.out(&["info-beta", "-i", "again.nra"]).contains("Title"));
    let outcome = sandbox.run(&["append", "-i", "rich.nra", "-a", "again.nra", "-q"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
    assert_eq!(sandbox.out(&["stream-beta", "-i", "again.nra", "--file-id", "owned"]), "mine\n");
    assert_eq!(sandbox.run(&["unpack", "--archive", "again.nra", "-o", "third", "--file-id", "owned"]).code, Some(0));
    assert_eq!(std::fs::read(sandbox.directory.path().join("third/owned")).unwrap(), b"mine\n");
}

#[test]
fn closed_pipe_ends_silently() {
    let directory = tempfile::tempdir().unwrap();
    let path = sample::save(directory.path(), "many.nra", &sample::many(20_000));
    let mut child = nra().args(["list", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let outcome = outcome(child.wait_with_output().unwrap());
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
}

#[test]
fn full_disk_is_failure() {
    let sandbox = Sandbox::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for arguments in [&["list", "rich.nra"][..], &["cat", "rich.nra", "owned"], &["info", "rich.nra", "--json"], &["version"]] {
        let outcome = outcome(nra().args(arguments).current_dir(sandbox.directory.path()).stdout(full()).output().unwrap());
        assert_eq!(outcome.code, Some(1), "{arguments:?}");
        assert!(outcome.err.starts_with("nra: cannot write standard output: no space left on device\n"), "{}", outcome.err);
    }
}

#[test]
fn log_file_contains_all_messages() {
    let sandbox = Sandbox::new();
    sandbox.run(&["list", "rich.nra", "nope", "owned", "-q", "--log-file", "log"]);
    let log = std::fs::read_to_string(sandbox.directory.path().join("log")).unwrap();
    assert_eq!(log, "nra: warning: nope: no entry matches\n");
}

#[test]
fn man_writes_all_pages() {
    let sandbox = Sandbox::new();
    let outcome = sandbox.run(&["man", "pages"]);
    assert_eq!(outcome.code, Some(0));
    let nested = ["key-list", "key-add", "key-remove", "key-change"].map(str::to_owned);
    for command in commands().iter().filter(|command| *command != "help").chain(&nested) {
        let page = std::fs::read_to_string(sandbox.directory.path().join(format!("pages/nra-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH nra-{command} 1")), "{command}: {}", &page[..200]);
        for section in ["NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {section}\n")) || page.contains(&format!(".SH \"{section}\"\n")),
                "{command}: {section}"
            );
        }
    }
    let page = sandbox.out(&["man", "key", "add"]);
    assert!(page.contains("new\\-label") || page.contains("\\-\\-label"), "{page}");
    assert_eq!(page, std::fs::read_to_string(sandbox.directory.path().join("pages/nra-key-add.1")).unwrap());
    // Pages refer to existing pages.
    for file in std::fs::read_dir(sandbox.directory.path().join("pages")).unwrap() {
        let page = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for (end, _) in page.match_indices("\\fR(1)") {
            let start = page[..end].rfind("\\fB").unwrap() + 3;
            let name = page[start..end].replace("\\-", "-");
            assert!(sandbox.directory.path().join(format!("pages/{name}.1")).exists(), "{name}");
        }
    }
    sandbox.fails(
        &["man", "pack", "x"],
        2,
        "nra: unknown command nra pack x
hint: use nra man DIR to write all pages\n",
    );
}

#[test]
fn progress_json_matches_schema() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.directory.path().join("in")).unwrap();
    std::fs::write(sandbox.directory.path().join("in/a\x1b"), "content").unwrap();
    for (arguments, verb) in [
        (&["pack", "in", "-o", "new.nra"][..], "packing"),
        (&["verify", "rich.nra"], "verifying"),
        (&["extract", "rich.nra", "docs", "-C", "out"], "extracting"),
        (&["grep", "rich.nra", "two"], "searching"),
    ] {
        let outcome = sandbox.run(&[arguments, &["--progress", "json"]].concat());
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.err);
        let lines: Vec<Value> = outcome.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        lines.iter().for_each(schema::check);
        let last = lines.last().unwrap_or_else(|| panic!("{arguments:?}: {}", outcome.err));
        assert_eq!((last["type"].as_str(), last["verb"].as_str()), (Some("progress"), Some(verb)), "{last}");
        assert!(last["entries"].as_u64().unwrap() > 0, "{last}");
    }
}
