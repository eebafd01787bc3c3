//! Help about the program as a whole.

use std::fmt::Write as _;

use clap::Command;

/// How the program is called.
pub const USAGE: &str = "nra COMMAND [OPTIONS] [ARGUMENTS]\n       nra ARCHIVE    looks around in it, on a terminal";

/// Table of exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed (grep: nothing found)
  2    wrong command line (grep: a file or pattern that is not there, too)
  3    done, but something was skipped or degraded
  4    archive damaged or unsupported
  5    wrong or missing key
  130  interrupted (129 when hung up, 131 by ctrl-\\, 143 when terminated)";

/// Commands by what they are for. Those that are not built in are not shown.
pub const GROUPS: [(&str, &[&str]); 7] = [
    ("make an archive", &["pack", "convert"]),
    ("take files out", &["extract", "cat"]),
    ("look at it", &["list", "find", "grep", "du", "info", "browse"]),
    ("its history", &["log", "diff"]),
    ("change it", &["add", "rm", "mv", "mkdir", "attr", "key", "revert", "compact"]),
    ("keep it whole", &["verify", "protect", "repair", "salvage"]),
    ("about nra", &["formats", "completions", "man", "version", "help"]),
];

/// Gives the program the help that fits a small screen.
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
Options of every command:
  -q, -v           print errors only; say more
  --json, --jsonl  print the result for programs
nra COMMAND -h tells about a command, nra --help about all of them.

Examples:
  nra pack photos
  nra list photos.nra -l
  nra extract photos.nra '*.jpg' -C there",
    );
    definition.override_help(text)
}
