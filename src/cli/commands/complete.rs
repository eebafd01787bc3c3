//! `nra complete`: answers the completion scripts of shells.
//!
//! The first line of the output is the type of the candidates: `words` or `paths`, or `files` or
//! `directories`, which the shell lists itself. Each further line is a candidate, followed by a tab
//! and its description. Everything is derived from the definition of the command line. Completion
//! never prompts for a password.

mod words;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, Command, Parser, ValueEnum, ValueHint};

use crate::args::{ArchiveArg, ResourceArgs};
use crate::command_line::{CommandLine, is_option, value_name};
use crate::open_archive;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_format::entry::Kind;

/// Most paths in the output: with more, a shell only asks whether to show them.
const MAX_OFFERED: usize = 2_000;

/// Arguments of `nra complete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra complete fish -- cat photos.nra train/00")]
pub struct Args {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: CompletionShell,
    /// Words up to the cursor; for bash, the typed line
    #[arg(value_name = "WORD", last = true)]
    words: Vec<OsString>,
}

/// A shell, by how it passes the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// Candidates at the cursor.
enum Candidates {
    /// Words of the command line with descriptions.
    Words(Vec<(String, String)>),
    /// Paths in an archive; directories end with `/`.
    Paths(Vec<String>),
    Files,
    Directories,
}

/// Prints the candidates at the cursor.
pub fn run(args: &Args, definition: &Command, ui: &mut Ui) -> CommandResult {
    let (mut words, replaced) = match (args.shell, &args.words[..]) {
        (CompletionShell::Bash, [line]) => words::split(line.as_bytes()),
        (_, words) => (words.iter().map(|word| word.as_bytes().to_vec()).collect(), 0),
    };
    let current = words.pop().unwrap_or_default();
    let home = std::env::var_os("HOME").unwrap_or_default();
    let words: Vec<OsString> = words.into_iter().map(|word| OsString::from_vec(words::expand_home(word, &home))).collect();
    let mut definition = definition.clone();
    definition.build();
    let offer = candidates(&CommandLine::parse(&definition, &words), OsStr::from_bytes(&current));
    let (kind, candidates) = match offer {
        Candidates::Words(words) => ("words", words),
        Candidates::Paths(paths) => ("paths", paths.into_iter().map(|path| (path, String::new())).collect()),
        Candidates::Files => ("files", Vec::new()),
        Candidates::Directories => ("directories", Vec::new()),
    };
    ui.line(kind)?;
    for (candidate, what) in &candidates {
        // bash replaces only the text after the last of its own separators.
        let candidate = candidate.get(replaced..).unwrap_or(candidate);
        if what.is_empty() { ui.line(candidate)? } else { ui.line(format_args!("{candidate}\t{what}"))? }
    }
    Ok(Outcome::Done)
}

fn candidates(line: &CommandLine<'_>, current: &OsStr) -> Candidates {
    if let Some(option) = line.pending {
        return value(option, line, current, "");
    }
    if !line.options_ended && (is_option(current) || current == "-") {
        return option(line, current);
    }
    if line.positionals.is_empty() && line.command.has_subcommands() {
        let verbs = verbs(line.command, current);
        // nra ARCHIVE opens it.
        return if verbs.is_empty() { Candidates::Files } else { Candidates::Words(verbs) };
    }
    line.next_positional().map_or_else(|| Candidates::Words(Vec::new()), |argument| value(argument, line, current, ""))
}

/// Returns the subcommands that start with the typed text.
fn verbs(command: &Command, current: &OsStr) -> Vec<(String, String)> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    starting(shown.map(|command| (command.get_name(), about(command))), current)
}

/// Completes options or the value after `--option=`.
fn option(line: &CommandLine<'_>, current: &OsStr) -> Candidates {
    let typed = current.as_bytes();
    if let Some(at) = typed.iter().position(|&byte| byte == b'=').filter(|_| typed.starts_with(b"--")) {
        let prefix = std::str::from_utf8(&typed[..=at]).unwrap_or_default();
        let option = line.long(&typed[2..at]);
        let offer = option.map(|option| value(option, line, OsStr::from_bytes(&typed[at + 1..]), prefix));
        return offer.unwrap_or_else(|| Candidates::Words(Vec::new()));
    }
    let options = line.command.get_arguments().filter(|argument| !argument.is_hide_set() && !argument.is_positional());
    let named = options.filter_map(|option| {
        let name = match (option.get_long(), option.get_short()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => return None,
        };
        Some((name, option.get_help().map(ToString::to_string).unwrap_or_default()))
    });
    Candidates::Words(starting(named, current))
}

/// Completes values of an argument; `prefix` precedes them in the same word.
fn value(argument: &Arg, line: &CommandLine<'_>, current: &OsStr, prefix: &str) -> Candidates {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        let shown = shown.map(|value| (value.get_name(), value.get_help().map(ToString::to_string).unwrap_or_default()));
        let values = starting(shown, current).into_iter().map(|(value, what)| (format!("{prefix}{value}"), what));
        return Candidates::Words(values.collect());
    }
    match (value_name(argument), argument.get_value_hint()) {
        ("COMMAND|DIR", _) => match verbs(line.root, current) {
            verbs if verbs.is_empty() => Candidates::Directories,
            verbs => Candidates::Words(verbs),
        },
        ("DIR", _) => Candidates::Directories,
        ("PATTERN" | "PATH" | "FROM" | "TO", _) => Candidates::Paths(inside(line, current).unwrap_or_default()),
        ("INPUT", _) | (_, ValueHint::AnyPath) => Candidates::Files,
        _ => Candidates::Words(Vec::new()),
    }
}

/// Keeps words that start with the typed text.
fn starting<T: AsRef<str>>(words: impl Iterator<Item = (T, String)>, typed: &OsStr) -> Vec<(String, String)> {
    let fits = words.filter(|(word, _)| word.as_ref().as_bytes().starts_with(typed.as_bytes()));
    fits.map(|(word, what)| (word.as_ref().to_owned(), what)).collect()
}

/// Arguments for opening an archive.
#[derive(Debug, Parser)]
struct OpenArgs {
    #[command(flatten)]
    archive: ArchiveArg,
}

/// Returns the paths one level down that start with the typed text; `None` if there is no archive
/// or it cannot be opened.
fn inside(line: &CommandLine<'_>, current: &OsStr) -> Option<Vec<String>> {
    let archive = line.value_of("ARCHIVE")?;
    let mut words: Vec<OsString> = vec!["nra".into()];
    let known = <OpenArgs as clap::CommandFactory>::command();
    for (option, value) in &line.option_values {
        let is_known = known.get_arguments().any(|argument| argument.get_id() == option.get_id());
        if let Some(long) = option.get_long().filter(|_| is_known) {
            words.extend([format!("--{long}").into(), (*value).to_owned()]);
        }
    }
    words.extend(["--".into(), archive.to_owned()]);
    let mut argument = OpenArgs::try_parse_from(words).ok()?.archive;
    argument.keys = argument.keys.silent();
    let opened = open_archive::open_quietly(&argument, &ResourceArgs::default()).ok()?;
    let typed = current.as_bytes();
    let directory = typed.iter().rposition(|&byte| byte == b'/').map(|slash| &typed[..slash]);
    let entries = opened.archive.children(directory).filter_map(Result::ok);
    // Names with control characters cannot be typed anyway.
    let paths = entries.filter_map(|entry| {
        let path = std::str::from_utf8(entry.path.as_bytes()).ok()?;
        let fits = path.as_bytes().starts_with(typed) && !path.chars().any(char::is_control);
        let slash = if entry.kind == Kind::Directory { "/" } else { "" };
        fits.then(|| format!("{path}{slash}"))
    });
    Some(paths.take(MAX_OFFERED).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &str) -> Candidates {
        let mut definition = crate::definition();
        definition.build();
        let mut words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let current = words.pop().unwrap();
        candidates(&CommandLine::parse(&definition, &words), &current)
    }

    #[test]
    fn position_determines_candidates() {
        for (line, expected) in [
            ("comp", "compact completions"),
            ("complete", ""),
            ("-q lis", "list"),
            ("key c", "change"),
            ("list a --sort s", "size"),
            ("list a --sort=s", "--sort=size"),
            ("list a --dig", "--digest"),
            ("completions z", "zsh"),
            ("list a --at ", ""),
            ("grep a ", ""),
            ("help verif", "verify"),
            ("man verif", "verify"),
        ] {
            match complete(line) {
                Candidates::Words(words) => {
                    let words: Vec<_> = words.into_iter().map(|(word, _)| word).collect();
                    assert_eq!(words.join(" "), expected, "{line}");
                }
                Candidates::Files => assert_eq!((line, expected), ("complete", "")),
                _ => panic!("{line}"),
            }
        }
        let lines = ["list ", "extract ", "pack ", "pack a b", "add a ", "diff a ", "convert a ", "list a -T ", "photos.n"];
        for line in lines.into_iter().chain(cfg!(feature = "tui").then_some("browse ")) {
            assert!(matches!(complete(line), Candidates::Files), "{line}");
        }
        for line in ["extract a -C ", "extract a --directory=o", "man ./"] {
            assert!(matches!(complete(line), Candidates::Directories), "{line}");
        }
        for line in ["cat a ", "rm a x y", "mv a b c", "list -- a -", "du a ", "-q extract a ", "grep a x "] {
            assert!(matches!(complete(line), Candidates::Paths(_)), "{line}");
        }
    }
}
