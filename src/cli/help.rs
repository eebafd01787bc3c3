//! Help about the program as a whole.

use std::fmt::Write as _;

use clap::Command;

/// Usage of the program.
pub const USAGE: &str = "nra COMMAND [OPTIONS] [ARGUMENTS]\n       nra ARCHIVE    open the browser";

/// Table of exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure (grep: no match; diff: differences found)
  2    invalid command line (grep, diff: any failure)
  3    success, but something was skipped or degraded
  4    archive damaged or unsupported
  5    wrong or missing key
  130  interrupted (129 hangup, 131 ctrl-\\, 143 terminated)";

/// Commands grouped by purpose. Commands that are not built in are not shown.
pub const GROUPS: [(&str, &[&str]); 7] = [
    ("create", &["pack", "convert"]),
    ("extract", &["extract", "cat"]),
    ("inspect", &["list", "find", "grep", "du", "info", "browse"]),
    ("history", &["log", "diff"]),
    ("change", &["add", "rm", "mv", "mkdir", "attr", "key", "revert", "compact"]),
    ("check and repair", &["verify", "protect", "repair", "salvage"]),
    ("program", &["formats", "completions", "man", "version", "help"]),
];

/// Replaces the help of the program by a short one that fits a small screen.
pub fn short(definition: Command) -> Command {
    let about = definition.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\nUsage: {USAGE}\n\nCommands:\n");
    for (purpose, verbs) in GROUPS {
        let shown: Vec<&str> =
            verbs.iter().copied().filter(|verb| *verb == "help" || definition.find_subcommand(verb).is_some()).collect();
        let _ = writeln!(text, "  {purpose:<16} {}", shown.join(", "));
    }
    text.push_str(
        "
General options:
  -q, -v           print errors only; print more
  --json, --jsonl  print the result as JSON
Run nra COMMAND -h for help on a command, nra --help for everything.

Examples:
  nra pack photos
  nra list photos.nra -l
  nra extract photos.nra '*.jpg' -C target",
    );
    definition.override_help(text)
}
