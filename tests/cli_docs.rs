//! Generates `docs/cli.md` from the definition of the command line, and compares it. With `NRA_BLESS=1`, the test writes the page.
//! Checks the links between all documents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

const HEAD: &str = "\
# The command line

This page is generated from the definitions in the program by `tests/cli_docs.rs`. To update it, run
`NRA_BLESS=1 cargo test --test cli_docs`.

## Conventions

Input and output:

- The result goes to standard output. Everything else goes to standard error. Progress bars, colours
  and questions never go to a pipe.
- Names in the output are raw bytes, one per line. Names with control characters are quoted:
  `$'a\\nb'`. On a terminal, all names that would not display correctly are quoted.
- `PATTERN`, `PATH` and the lines of `-T` accept the same quoting, so every name that `nra list`
  prints can be used as an argument.
- `-0` terminates names with NUL and disables quoting.
- Sizes are in powers of 1024, unless `--si` or `--bytes` is given. Arguments accept the units K, M,
  G, T, P and E (K and KiB: 1024; kB: 1000).
- Times are in UTC.
- Colours follow `--color`, then `NO_COLOR`, `CLICOLOR_FORCE` and `CLICOLOR`, then whether the
  output is a terminal.
- `NRA_ACCESSIBLE=1` disables bars and line drawings.

Archives:

- The format of `ARCHIVE` is detected from its content, not from its name.
- `-` reads the archive from standard input into memory (at most 1 GiB, or `--memory`).
- `ARCHIVE@N` and `--at N` read commit N (see `nra log`). A file that is actually called `ARCHIVE@N`
  takes precedence.

Selecting entries:

- `PATTERN` is a path from the top directory of the archive, a directory (which includes everything
  below it) or a glob. Quote globs.
- In globs, `*` and `?` do not match `/`, but `**` does. A glob without `/` matches at any depth. A
  matching directory includes everything below it.
- If a pattern matches nothing, nra reports it. The exit code is 1 if no pattern matched, and 3 if
  others did.
- `-x`, `--include` and `--exclude-from` exclude and include entries. The last matching rule wins.
  Excluding a directory excludes everything below it. The rules work the same for packing and for
  reading.
- A leading `/` anchors a glob at the top. As `PATTERN`, `a/*.c` is anchored even without it. As
  `-x`, it matches at any depth: `-x a/*.c` excludes `a/x.c` and `b/a/x.c`, but `-x /a/*.c` excludes
  only `a/x.c`.
- `-T FILE` reads literal paths, one per line. An empty list is an error; it does not select
  everything.

Messages and signals:

- Warnings with the same message are printed five times and then counted. `-v` prints all of them,
  and `--log-file` records all of them.
- The first interrupt stops long operations cleanly, the second one immediately.
- `SIGUSR1` prints a line of progress.
- Short forms of commands: `ls` and `l` for list, `x` for extract, `t` for verify, `c` for pack.
  Option names cannot be abbreviated.
";

const TAIL: &str = "\
## Exit codes

| code | meaning |
| --- | --- |
| 0 | success (`grep`: found; `diff`: no differences) |
| 1 | failure (`grep`: nothing found; `diff`: differences found) |
| 2 | invalid command line (`grep`, `diff`: any failure) |
| 3 | success, but something was skipped or degraded |
| 4 | archive damaged or unsupported |
| 5 | wrong or missing key |
| 130 | interrupted (129 hangup, 131 ctrl-\\, 143 terminated) |

If a reader closes the pipe, nra exits silently with code 0, unless the output is an archive.

`extract` skips some metadata by default. It reports this in one remark, without code 3:

- set-ID bits, the sticky bit of files and `security.capability`, unless `--special` is given
- `security.*` and `trusted.*` attributes, unless root extracts

Metadata that could not be restored, and devices without `--special`, are reported individually and
cause code 3.

`pack --reproducible` omits `security.*` and `trusted.*` attributes, because they belong to one
machine. The bytes of the archive depend on `--memory` if the names do not fit into an eighth of it
(64 bytes per name, at most a million names).

## JSON

- `--json` prints one document. `--jsonl` prints one object per line.
- Each object has a `type`. The last line is of type `summary` (or the only object of `info`,
  `version` …) or `error`.
- The document of a list has the command as `type`, the objects in an array and the summary in
  `summary`. If the command fails after the list has started, `error` replaces `summary`.
- Each last object contains the exit code as `code`.
- Sizes are in bytes. Times are RFC 3339 in UTC.
- Paths that are not UTF-8 have their bytes in base64 in an additional field (`path_b64`).
- `--progress json` prints objects of type `progress` to standard error.
- Field names are stable. New fields may be added.

";

#[test]
fn cli_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = page(root);
    let path = root.join("docs/cli.md");
    if std::env::var_os("NRA_BLESS").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    if let Some((number, (is, should))) = written.lines().zip(page.lines()).enumerate().find(|(_, (is, should))| is != should) {
        panic!(
            "docs/cli.md, line {}:\n  is     {is}\n  should {should}\nrun NRA_BLESS=1 cargo test --test cli_docs to update it",
            number + 1
        );
    }
    assert_eq!(written, page, "docs/cli.md has a different length; run NRA_BLESS=1 cargo test --test cli_docs to update it");
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
    page.push_str("\n## General options\n\nThese options are accepted before and after the command.\n\n");
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
        let mut was_example = None;
        for line in examples.to_string().lines() {
            let example = line.strip_prefix("  ");
            if was_example.replace(example.is_some()) != Some(example.is_some()) {
                page.push('\n');
            }
            match example {
                Some(example) => writeln!(page, "    {example}").unwrap(),
                None => writeln!(page, "{line}").unwrap(),
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
        let help = help.split("\n\n").map(|paragraph| paragraph.trim().trim_end_matches('.'));
        let help = help.collect::<Vec<_>>().join(". ");
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
    page.push_str("| type | description | fields (optional ones in brackets) |\n| --- | --- | --- |\n");
    let mut files: Vec<_> = fs::read_dir(root.join("docs/schema")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let schema: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let required = schema["required"].as_array().unwrap();
        let fields = schema["properties"].as_object().unwrap().keys().filter(|name| *name != "type").map(|name| {
            if required.iter().any(|required| required == name) { format!("`{name}`") } else { format!("[`{name}`]") }
        });
        let name = file.file_stem().unwrap().to_str().unwrap();
        let fields = fields.collect::<Vec<_>>().join(" ");
        writeln!(page, "| [`{name}`](schema/{name}.json) | {} | {fields} |", schema["description"].as_str().unwrap()).unwrap();
    }
}

/// Adds all Markdown files below a directory.
fn find_documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Returns the anchors of the headings in a document.
fn anchors(document: &str) -> BTreeSet<String> {
    let headings =
        document.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let letters = heading.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
        let anchor = letters.collect::<String>().to_lowercase().replace(' ', "-");
        // A repeated heading gets a number.
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let new = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(new);
    }
    anchors
}

#[test]
fn links_between_documents_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents = vec![root.join("fuzz/README.md"), root.join("bench/README.md")];
    documents.extend(
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.to_string_lossy().ends_with(".md")),
    );
    find_documents(&root.join("docs"), &mut documents);
    find_documents(&root.join("tests"), &mut documents);
    let mut count = 0;
    for document in &documents {
        let text = fs::read_to_string(document).unwrap();
        let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
        let references = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, link)| link);
        for link in inline.chain(references).filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link} does not exist", document.display());
            let found = anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor);
            assert!(found, "{}: {link} has no such heading", document.display());
            count += 1;
        }
    }
    assert!(count > 150, "{count} links");
}
