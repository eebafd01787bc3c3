//! Converts errors of the argument parser into messages with suggestions.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::command_line::CommandLine;
use crate::open_archive;
use crate::report::Failure;
use crate::suggestions;
use nra_format::path::Quoted;

/// Commands that are not implemented, with alternatives.
const PLANNED: [(&str, &str); 5] = [
    ("mount", "use nra browse ARCHIVE or nra extract ARCHIVE instead"),
    ("umount", "nra cannot mount archives either"),
    ("serve", "use any HTTP file server with range requests"),
    ("push", "use nra add ARCHIVE INPUT and copy the archive with rsync or scp"),
    ("pull", "copy the archive with rsync or scp; nra salvage reads incomplete copies"),
];

/// Converts an error of the argument parser into a failure with hints.
pub fn explain(error: &clap::Error, definition: &Command, arguments: &[OsString]) -> Failure {
    let mut definition = definition.clone();
    definition.build();
    let mut line = CommandLine::parse(&definition, arguments.get(1..).unwrap_or_default());
    let failure = match error.kind() {
        ErrorKind::InvalidSubcommand if line.verbs.is_empty() || line.verbs[0] == "help" => unknown_verb(&definition, &line),
        ErrorKind::UnknownArgument if is_before_command(error, arguments) => {
            line.verbs.clear();
            unknown_option(error, arguments)
        }
        _ => {
            let failure = Failure::usage(message(error, arguments));
            let guess = suggestion(error);
            let failure = match dashed_name(error, arguments).filter(|_| guess.is_none()) {
                Some(name) => failure.hint(format!("put -- before {} to use it as a name", Quoted::new(name.as_bytes()))),
                None => failure,
            };
            guess.into_iter().fold(failure, |failure, guess| failure.hint(format!("did you mean {guess}?")))
        }
    };
    let verbs: String = line.verbs.iter().filter(|verb| **verb != "help").map(|verb| format!(" {verb}")).collect();
    failure.hint(format!("use nra{verbs} --help for help"))
}

fn message(error: &clap::Error, arguments: &[OsString]) -> String {
    let argument = text(error, ContextKind::InvalidArg).map(argument_name);
    let value = text(error, ContextKind::InvalidValue);
    match (error.kind(), argument, value) {
        (ErrorKind::MissingRequiredArgument, ..) => {
            let missing = texts(error, ContextKind::InvalidArg);
            let missing: Vec<_> = missing.iter().map(|argument| argument_name(argument)).collect();
            format!("missing {}", join_words(&missing, "and"))
        }
        (ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ..) => "missing command".to_owned(),
        (ErrorKind::InvalidSubcommand, ..) => {
            format!("unknown command {}", Quoted::new(text(error, ContextKind::InvalidSubcommand).unwrap_or_default()))
        }
        (ErrorKind::UnknownArgument, Some(argument), _) if argument.starts_with('-') => {
            format!("unknown option {}", Quoted::new(argument))
        }
        (ErrorKind::UnknownArgument, Some(argument), _) => format!("unexpected argument {}", Quoted::new(argument)),
        (ErrorKind::ArgumentConflict, Some(argument), _) => {
            let others = texts(error, ContextKind::PriorArg);
            let others: Vec<_> = others.iter().map(|other| argument_name(other)).filter(|other| *other != argument).collect();
            if others.is_empty() {
                format!("{argument} cannot be repeated")
            } else {
                format!("{argument} cannot be combined with {}", join_words(&others, "and"))
            }
        }
        (ErrorKind::InvalidValue, Some(argument), Some("")) => {
            let name = text(error, ContextKind::InvalidArg).and_then(|form| form.split_once(' '));
            let name = name.map_or("a value", |(_, name)| argument_name(name));
            format!("missing {name} after {argument}")
        }
        (ErrorKind::InvalidValue, Some(argument), Some(value)) => {
            let known = texts(error, ContextKind::ValidValue);
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            format!("invalid {argument} {} (use {})", Quoted::new(value), join_words(&known, "or"))
        }
        (ErrorKind::ValueValidation, Some(argument), Some(value)) => {
            let reason = error.source().map_or_else(|| "invalid value".to_owned(), reason);
            format!("{argument} {}: {reason}", Quoted::new(value))
        }
        (ErrorKind::InvalidUtf8, ..) => {
            let bad: Vec<_> = arguments.iter().filter(|argument| argument.to_str().is_none()).collect();
            let bad: Vec<_> = bad.iter().map(|argument| Quoted::new(argument.as_bytes()).to_string()).collect();
            format!("{} is not valid UTF-8", bad.join(", "))
        }
        _ => {
            // clap returns the message of other errors only together with the usage.
            let text = error.to_string();
            let lines = text.strip_prefix("error: ").unwrap_or(&text).lines().map(str::trim);
            let message: Vec<_> = lines.take_while(|line| !line.is_empty() && !line.starts_with("Usage:")).collect();
            message.join(" ")
        }
    }
}

/// Returns the reason for an invalid value.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "too large".to_owned(),
        Some(_) => "not a whole number".to_owned(),
        None => error.to_string(),
    }
}

/// Returns the similar word that clap suggests.
fn suggestion(error: &clap::Error) -> Option<String> {
    [ContextKind::SuggestedArg, ContextKind::SuggestedValue, ContextKind::SuggestedSubcommand]
        .into_iter()
        .find_map(|kind| texts(error, kind).pop())
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::String(text)) => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Returns the name in `--sort <KEY>` or `<PATH>...`.
fn argument_name(form: &str) -> &str {
    let name = form.split_once([' ', '=']).map_or(form, |(name, _)| name);
    name.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

fn join_words(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., end] => format!("{} {last} {end}", words.join(", ")),
    }
}

/// Returns the word that was parsed as an option but may be a name: combined letters with an
/// unknown one, or an existing file.
fn dashed_name<'a>(error: &clap::Error, arguments: &'a [OsString]) -> Option<&'a OsString> {
    let unknown = (error.kind() == ErrorKind::UnknownArgument).then(|| text(error, ContextKind::InvalidArg)).flatten()?;
    let letter = unknown.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    arguments.iter().skip(2).take_while(|word| *word != "--").find(|word| {
        let is_it = word.to_str().is_some_and(|word| match letter {
            Some(letter) => !word.starts_with("--") && word.starts_with('-') && word.contains(letter),
            None => word == unknown,
        });
        is_it && (word.len() > 2 || Path::new(word).symlink_metadata().is_ok())
    })
}

/// Returns whether the unknown option is in the position of the command.
fn is_before_command(error: &clap::Error, arguments: &[OsString]) -> bool {
    let first = arguments.get(1).and_then(|word| word.to_str()).filter(|word| word.starts_with('-'));
    let letter = text(error, ContextKind::InvalidArg).unwrap_or_default().trim_start_matches('-');
    first.is_some_and(|word| word.trim_start_matches('-').contains(letter))
}

/// An unknown option before the command: perhaps the letters of tar.
fn unknown_option(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let failure = Failure::usage(message(error, arguments));
    if let Some(guess) = suggestion(error) {
        return failure.hint(format!("did you mean {guess}?"));
    }
    // clap reports only the first of combined letters.
    let first = arguments.get(1).and_then(|word| word.to_str()).and_then(|word| word.strip_prefix('-'));
    let verb = match first.and_then(|letters| letters.bytes().find(|letter| b"cxt".contains(letter))) {
        Some(b'c') => "pack",
        Some(b'x') => "extract",
        Some(_) => "list",
        None => return failure,
    };
    failure.hint(format!("did you mean nra {verb}?"))
}

/// An unknown command may be a mistyped one or a file.
fn unknown_verb(root: &Command, line: &CommandLine<'_>) -> Failure {
    let word = line.positionals.first().copied().unwrap_or_default();
    let (path, shown) = (Path::new(word), Quoted::new(word.as_bytes()));
    let guess = suggestions::similar_command(root, &word.to_string_lossy()).map(|verb| format!("did you mean nra {verb}?"));
    let failure = if path.is_dir() {
        Failure::usage(format!("{shown} is a directory, not a command")).hint(format!("use nra pack {shown} to pack it"))
    } else if path.exists() {
        let (what, browse) = if line.positionals.len() == 1 {
            ("opens the browser and requires a terminal", None)
        } else {
            ("…: missing command", Some(format!("use nra browse {shown} … to open the browser with options")))
        };
        let failure = Failure::usage(format!("nra {shown} {what}")).hint(format!("use nra list {shown} to list its entries"));
        browse.into_iter().fold(failure, Failure::hint)
    } else if open_archive::is_url(word.as_bytes()) {
        Failure::usage(format!("cannot open {shown}: URLs are not supported"))
            .hint("download the archive first, or pipe it: curl URL | nra list -")
    } else if let Some((verb, instead)) = PLANNED.iter().find(|(verb, _)| word == *verb) {
        Failure::usage(format!("nra {verb} is not supported")).hint(*instead)
    } else {
        let failure = Failure::usage(format!("unknown command {shown}"));
        // The word may be a mistyped command or file: suggest both.
        let file = suggestions::similar_file(path).map(|file| format!("did you mean the file {}?", Quoted::new(file.as_bytes())));
        file.into_iter().fold(failure, Failure::hint)
    };
    guess.into_iter().fold(failure, Failure::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_readable() {
        for (line, expected) in [
            ("list", "missing ARCHIVE"),
            ("cat a", "missing PATH"),
            ("list a --lnog", "unknown option --lnog"),
            ("mkdir a b c", "unexpected argument c"),
            ("list a --sort", "missing KEY after --sort"),
            ("list a --sort up", "invalid --sort up (use path, name, size, time or kind)"),
            ("list a -j abc", "--threads abc: not a whole number"),
            ("list a -j 5000", "--threads 5000: must be between 0 and 1024"),
            ("list a --at -1", "unknown option -1"),
            ("list a --tree --sort size", "--tree cannot be combined with --sort"),
            ("list a --json --jsonl", "--json cannot be combined with --jsonl"),
            ("list a --memory 1M", "--memory 1M: at least 32M is required"),
            ("key", "missing command"),
            ("key nope", "unknown command nope"),
        ] {
            let arguments: Vec<OsString> = ["nra"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let error = crate::definition().try_get_matches_from(&arguments).unwrap_err();
            assert_eq!(message(&error, &arguments), expected, "{line}");
        }
    }
}
