//! `docs/cli.md` is made from the definition of the command line: with `NRA_BLESS=1` this test writes it, otherwise it compares.
#![allow(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

const HEAD: &str = "\
# The command line

This page is made from the program's own definitions by `tests/cli_docs.rs`; `NRA_BLESS=1 cargo test --test cli_docs` writes it anew.

- The result goes to standard output, everything else to standard error. A pipe never gets a bar, a colour or a question.
- `ARCHIVE` is told by its content, never by its name; `-` reads it from standard input into memory (at most 1 GiB, or `--memory`).
- `ARCHIVE@N`, or `--at N`, is an archive as it was at commit N (`nra log` lists them); a file that really has that name wins.
- `PATTERN` is a path from the top of the archive, a directory (itself and all below it) or a glob. `*` and `?` stop at `/`, `**` does not;
  a glob without `/` matches at any depth, and a directory that matches brings all below it. Quote globs. A
  pattern that matches nothing is named: code 1 when nothing was done, 3 when others matched.
- `-x`, `--include` and `--exclude-from` take away from what is named, in the order given: the last rule that matches wins, and what lies below a directory left out is
  left out with it. They mean the same for files that are packed and for entries that are read.
- A leading `/` ties a glob to the top everywhere. Without it `a/*.c` as `PATTERN` is at the top, too, like any path of an entry; as `-x` it is at any depth: `-x a/*.c`
  leaves out `a/x.c` and `b/a/x.c`, `-x /a/*.c` only the former.
- `-T FILE` names paths one a line (`-0`: each ended by NUL), never globs; a list without a name is an error, not everything.
- Names and lines of content go into pipes and files byte for byte, one a line; a name with control characters in it is quoted: `$'a\\nb'`. On a terminal everything that
  would not show as itself is quoted. `PATTERN`, `PATH` and lines of `-T` may be quoted in the same way, so that every name that `nra list` prints can be given back. `-0` neither quotes nor reads quotes.
- Sizes are in powers of 1,024 (`--si`, `--bytes` change that) and are read with the units K, M, G, T, P, E (KiB the same, kB = 1,000). Times are UTC.
- Colours: `--color`, else `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`, else whether it is a terminal. `NRA_ACCESSIBLE=1` draws no bars and no lines.
- Warnings of one wording are printed five times, then counted; `-v` prints all, `--log-file` keeps all.
- The first interrupt stops long work cleanly, the second at once. `SIGUSR1` prints one line on how far work that shows progress is.
- Short forms: `ls`, `l` = list; `x` = extract; `t` = verify; `c` = pack. Option names may not be cut short.
";

const TAIL: &str = "\
## Exit codes

| code | meaning |
| --- | --- |
| 0 | done; `grep`: something was found |
| 1 | failed; `grep`: nothing was found |
| 2 | wrong command line; `grep`: a file or pattern that is not there, too |
| 3 | done, but something was skipped or degraded |
| 4 | archive damaged or not supported |
| 5 | wrong or missing key |
| 130 | interrupted (129 when hung up, 131 by ctrl-\\, 143 when terminated) |

A reader that closes the pipe ends the program quietly with code 0, unless what it did not take is an archive.

What `extract` leaves out on purpose is told in one remark and is no reason for code 3: set-id bits, the sticky bit of a file and `security.capability`
without `--special`, and, unless root extracts, `security.*` and `trusted.*` attributes. Root restores the latter without being asked, but for the
capability. What was to be restored and was refused, and devices without `--special`, are told one by one and give code 3.

`pack --reproducible` leaves `security.*` and `trusted.*` attributes out: they belong to a machine. Its bytes depend on `--memory` when a tree has
more names than fit into an eighth of that (64 bytes a name; a million at most).

## JSON

`--json` prints one document, `--jsonl` one object a line. Each object has a `type`; the last line is of type `summary` (or the single object of `info`, `version` …),
or `error`. A list as document is an object with the type of the command, the objects in an array and the summary in `summary`; when it ends early, `error` takes the place of `summary`.
Every last object has the exit code as `code`. Sizes are bytes, times RFC 3339 in UTC. Fields keep their names; new ones may be added. Paths that are not UTF-8
have their bytes beside them in base64 (`path_b64`). `--progress json` writes objects of type `progress` to standard error.

";

#[test]
fn the_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = page(root);
    let path = root.join("docs/cli.md");
    if std::env::var_os("NRA_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((number, (is, should))) = written.lines().zip(page.lines()).enumerate().find(|(_, (is, should))| is != should) {
        panic!(
            "docs/cli.md, line {}:\n  is     {is}\n  should {should}\nNRA_BLESS=1 cargo test --test cli_docs writes it anew",
            number + 1
        );
    }
    assert_eq!(written, page, "docs/cli.md ends too early or too late; NRA_BLESS=1 cargo test --test cli_docs writes it anew");
}

fn page(root: &Path) -> String {
    let mut definition = nra::cli::definition();
    definition.build();
    let commands: Vec<&Command> =
        definition.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help").collect();
    let mut page = format!("{HEAD}\n## Commands\n\n| command | |\n| --- | --- |\n");
    for command in &commands {
        let name = command.get_name();
        writeln!(page, "| [`{name}`](#nra-{name}) | {} |", about(command)).unwrap();
    }
    page.push_str("\n## General options\n\nThey stand before or behind the command.\n\n");
    options(&mut page, definition.get_arguments().filter(|argument| argument.is_global_set()));
    for command in commands {
        section(&mut page, command, "nra");
    }
    page.push('\n');
    page.push_str(TAIL);
    schemas(&mut page, root);
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    page
}

fn section(page: &mut String, command: &Command, above: &str) {
    let usage = command.clone().render_usage().to_string();
    let name = format!("{above} {}", command.get_name());
    let level = if above == "nra" { "##" } else { "###" };
    write!(page, "\n{level} {name}\n\n{}.\n\n    {}\n\n", about(command), usage.trim_start_matches("Usage: ")).unwrap();
    options(page, command.get_arguments().filter(|argument| !argument.is_global_set()));
    if let Some(examples) = command.get_after_help() {
        for line in examples.to_string().lines() {
            match line.strip_prefix("  ") {
                Some(example) => writeln!(page, "    {example}").unwrap(),
                None => write!(page, "\n{line}\n\n").unwrap(),
            }
        }
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        section(page, below, &name);
    }
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let mut rows = Vec::new();
    for argument in
        arguments.filter(|argument| !argument.is_hide_set() && argument.get_id() != "help" && argument.get_id() != "version")
    {
        let value = argument.get_value_names().into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let takes = argument.get_action().takes_values();
        let mut forms = Vec::new();
        forms.extend(argument.get_short().map(|short| format!("-{short}")));
        let aliases = argument.get_visible_aliases().unwrap_or_default();
        forms.extend(
            argument
                .get_long()
                .into_iter()
                .chain(aliases)
                .map(|long| if takes { format!("--{long} {value}") } else { format!("--{long}") }),
        );
        let shown = if forms.is_empty() { value } else { forms.join("`, `") };
        let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        // The first paragraph is the short help, which has no full stop.
        let help = help.split("\n\n").map(str::trim).collect::<Vec<_>>().join(". ");
        rows.push(format!("| `{shown}` | {} |", help.replace('\n', " ").replace('|', "\\|").replace('*', "\\*")));
    }
    if !rows.is_empty() {
        write!(page, "| | |\n| --- | --- |\n{}\n", rows.join("\n")).unwrap();
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Lists the types of objects, from the schemas.
fn schemas(page: &mut String, root: &Path) {
    page.push_str("| type | what | fields (those in brackets may be missing) |\n| --- | --- | --- |\n");
    let mut files: Vec<_> = std::fs::read_dir(root.join("docs/schema")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let schema: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let required = schema["required"].as_array().unwrap();
        let fields = schema["properties"].as_object().unwrap().keys().filter(|name| *name != "type").map(|name| {
            if required.iter().any(|required| required == name) { format!("`{name}`") } else { format!("[`{name}`]") }
        });
        let name = file.file_stem().unwrap().to_str().unwrap();
        let fields = fields.collect::<Vec<_>>().join(" ");
        writeln!(page, "| [`{name}`](schema/{name}.json) | {} | {fields} |", schema["description"].as_str().unwrap()).unwrap();
    }
}
