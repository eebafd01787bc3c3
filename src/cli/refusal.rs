//! Command lines that were not understood, in words: what is wrong, and what may have been meant.

use std::error::Error as _;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::line::Line;
use crate::reading;
use crate::report::Failure;
use nra_format::path::Quoted;

/// What other programs call a command: their words, ours.
const HABITS: [(&[&str], &str); 21] = [
    (&["create", "cf", "cvf", "czf", "cjf", "tar", "zip", "compress"], "pack"),
    (&["xf", "xvf", "xzf", "xjf", "unzip", "untar", "decompress"], "extract"),
    (&["tf", "tvf", "tzf", "dir", "show", "contents"], "list"),
    (&["test", "check", "fsck"], "verify"),
    (&["delete", "remove", "del"], "rm"),
    (&["rename", "move"], "mv"),
    (&["view", "open"], "browse"),
    (&["insert", "update"], "add"),
    (&["print", "read"], "cat"),
    (&["search", "rg"], "grep"),
    (&["locate", "fd"], "find"),
    (&["stat", "stats", "status"], "info"),
    (&["history", "snapshots", "commits"], "log"),
    (&["compare", "cmp"], "diff"),
    (&["size", "usage"], "du"),
    (&["recover", "rescue"], "salvage"),
    (&["fix", "heal"], "repair"),
    (&["gc", "prune", "vacuum"], "compact"),
    (&["undo", "rollback", "reset", "checkout"], "revert"),
    (&["passwd", "password", "rekey"], "key"),
    (&["recompress", "repack"], "convert"),
];

/// Commands that do not exist yet, and what is done in their place.
const PLANNED: [(&str, &str); 5] = [
    ("mount", "nra browse ARCHIVE looks around in it, nra extract takes out what is needed"),
    ("umount", "nra does not mount archives either"),
    ("serve", "any server of files that knows ranges serves archives"),
    ("push", "nra add ARCHIVE INPUT grows an archive that rsync or scp copies"),
    ("pull", "rsync or scp copies an archive, nra salvage reads one that did not arrive whole"),
];

/// Commands that take something away: a guess at them must be near.
const DESTRUCTIVE: [&str; 3] = ["rm", "mv", "compact"];

/// Names of a directory that are compared with a mistyped one.
const LOOKED_AT: usize = 10_000;

/// Turns what the argument parser refused into a failure with its hints.
pub fn explain(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let mut definition = crate::definition();
    definition.build();
    let mut line = Line::read(&definition, arguments.get(1..).unwrap_or_default());
    let failure = match error.kind() {
        ErrorKind::InvalidSubcommand if line.verbs.is_empty() || line.verbs[0] == "help" => unknown_verb(&definition, &line),
        ErrorKind::UnknownArgument if is_at_front(error, arguments) => {
            line.verbs.clear();
            unknown_option(error, arguments)
        }
        _ => {
            let failure = Failure::usage(words(error, arguments));
            let guess = suggestion(error);
            let failure = match dashed_name(error, arguments).filter(|_| guess.is_none()) {
                Some(name) => failure.hint(format!("-- in front of {} makes it a name", Quoted::new(name.as_bytes()))),
                None => failure,
            };
            guess.into_iter().fold(failure, |failure, guess| failure.hint(format!("did you mean {guess}?")))
        }
    };
    let verbs: String = line.verbs.iter().filter(|verb| **verb != "help").map(|verb| format!(" {verb}")).collect();
    failure.hint(format!("nra{verbs} --help lists what there is"))
}

/// Says what is wrong.
fn words(error: &clap::Error, arguments: &[OsString]) -> String {
    let argument = text(error, ContextKind::InvalidArg).map(bare);
    let value = text(error, ContextKind::InvalidValue);
    match (error.kind(), argument, value) {
        (ErrorKind::MissingRequiredArgument, ..) => {
            let missing = texts(error, ContextKind::InvalidArg);
            let missing: Vec<_> = missing.iter().map(|argument| bare(argument)).collect();
            format!("{} {} missing", list(&missing, "and"), if missing.len() == 1 { "is" } else { "are" })
        }
        (ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ..) => {
            "a command is missing".to_owned()
        }
        (ErrorKind::InvalidSubcommand, ..) => {
            format!("no command {}", Quoted::new(text(error, ContextKind::InvalidSubcommand).unwrap_or_default()))
        }
        (ErrorKind::UnknownArgument, Some(argument), _) if argument.starts_with('-') => {
            format!("there is no option {}", Quoted::new(argument))
        }
        (ErrorKind::UnknownArgument, Some(argument), _) => format!("one argument too many: {}", Quoted::new(argument)),
        (ErrorKind::ArgumentConflict, Some(argument), _) => {
            let others = texts(error, ContextKind::PriorArg);
            let others: Vec<_> = others.iter().map(|other| bare(other)).filter(|other| *other != argument).collect();
            if others.is_empty() {
                format!("{argument} is given twice")
            } else {
                format!("{argument} and {} exclude each other", list(&others, "and"))
            }
        }
        (ErrorKind::InvalidValue, Some(argument), Some("")) => {
            let name = text(error, ContextKind::InvalidArg).and_then(|form| form.split_once(' '));
            let name = name.map_or("a value", |(_, name)| bare(name));
            format!("{argument} needs {name} behind it")
        }
        (ErrorKind::InvalidValue, Some(argument), Some(value)) => {
            let known = texts(error, ContextKind::ValidValue);
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            format!("{argument} {}: {}", Quoted::new(value), list(&known, "or") + " is expected")
        }
        (ErrorKind::ValueValidation, Some(argument), Some(value)) => {
            let why = error.source().map_or_else(|| "is not possible".to_owned(), |why| plain(&why.to_string()));
            format!("{argument} {}: {why}", Quoted::new(value))
        }
        (ErrorKind::InvalidUtf8, ..) => {
            let bad: Vec<_> = arguments.iter().filter(|argument| argument.to_str().is_none()).collect();
            let bad: Vec<_> = bad.iter().map(|argument| Quoted::new(argument.as_bytes()).to_string()).collect();
            format!("{} is not UTF-8 text", bad.join(", "))
        }
        _ => {
            let text = error.to_string();
            let lines = text.strip_prefix("error: ").unwrap_or(&text).lines().map(str::trim);
            let message: Vec<_> = lines.take_while(|line| !line.is_empty() && !line.starts_with("Usage:")).collect();
            message.join(" ")
        }
    }
}

/// Turns the words of number parsers into those of people.
fn plain(why: &str) -> String {
    if why.contains("invalid digit") || why.contains("empty string") {
        return "not a whole number".to_owned();
    }
    if why.contains("too large to fit") {
        return "too large".to_owned();
    }
    let range = why.split_once(" is not in ").and_then(|(_, range)| range.split_once("..="));
    range.map_or_else(|| why.to_owned(), |(least, most)| format!("{least} to {most} is possible"))
}

/// The nearest word that there is, as clap found it.
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
fn bare(form: &str) -> &str {
    let name = form.split_once([' ', '=']).map_or(form, |(name, _)| name);
    name.trim_end_matches("...").trim_matches(['<', '>', '[', ']'])
}

fn list(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., end] => format!("{} {last} {end}", words.join(", ")),
    }
}

/// Returns the word that is no option but may be a name: letters of which one is unknown, or a file that is there.
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

/// Says whether what is unknown stands where a command should.
fn is_at_front(error: &clap::Error, arguments: &[OsString]) -> bool {
    let first = arguments.get(1).and_then(|word| word.to_str()).filter(|word| word.starts_with('-'));
    let letter = text(error, ContextKind::InvalidArg).unwrap_or_default().trim_start_matches('-');
    first.is_some_and(|word| word.trim_start_matches('-').contains(letter))
}

/// An option in front of any command: perhaps the letters of tar.
fn unknown_option(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let failure = Failure::usage(words(error, arguments));
    if let Some(guess) = suggestion(error) {
        return failure.hint(format!("did you mean {guess}?"));
    }
    // clap tells only the first of letters that stand together.
    let first = arguments.get(1).and_then(|word| word.to_str()).and_then(|word| word.strip_prefix('-'));
    let verb = match first.and_then(|letters| letters.bytes().find(|letter| b"cxt".contains(letter))) {
        Some(b'c') => "pack",
        Some(b'x') => "extract",
        Some(_) => "list",
        None => return failure,
    };
    failure.hint(format!("did you mean nra {verb}?"))
}

/// A word that is no command may be a mistyped one, or a file.
fn unknown_verb(root: &Command, line: &Line<'_>) -> Failure {
    let word = line.named.first().copied().unwrap_or_default();
    let (path, shown) = (Path::new(word), Quoted::new(word.as_bytes()));
    let guess = nearest(root, &word.to_string_lossy()).map(|verb| format!("did you mean nra {verb}?"));
    let failure = if path.is_dir() {
        Failure::usage(format!("{shown} is a directory, not a command")).hint(format!("nra pack {shown} packs it"))
    } else if path.exists() {
        let (what, browse) = if line.named.len() == 1 {
            ("opens the browser, which needs a terminal", None)
        } else {
            ("…: a command is missing", Some(format!("nra browse {shown} … opens the browser with options")))
        };
        let failure = Failure::usage(format!("nra {shown} {what}")).hint(format!("nra list {shown} shows what is in it"));
        browse.into_iter().fold(failure, Failure::hint)
    } else if reading::is_url(word.as_bytes()) {
        Failure::usage(format!("cannot open {shown}: URLs are not read by this version"))
            .hint("fetch the archive first; - reads it from standard input: curl URL | nra list -")
    } else if let Some((verb, instead)) = PLANNED.iter().find(|(verb, _)| word == *verb) {
        Failure::usage(format!("nra {verb} is not built into this version")).hint(*instead)
    } else {
        let failure = Failure::usage(format!("no command {shown}, and no file of that name"));
        // A name may be a mistyped verb or a mistyped file: both guesses are told.
        let file = near_file(path).map(|file| format!("did you mean the file {}?", Quoted::new(file.as_bytes())));
        file.into_iter().fold(failure, Failure::hint)
    };
    guess.into_iter().fold(failure, Failure::hint)
}

/// Returns the name beside `path` that is spelled nearly like it.
fn near_file(path: &Path) -> Option<OsString> {
    let word = path.file_name()?.to_str()?;
    let within = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = std::fs::read_dir(within).ok()?.take(LOOKED_AT).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let length = word.chars().count();
    // Short names are near to anything.
    let near = names
        .filter(|name| length > 3 && name.chars().count().abs_diff(length) <= 2)
        .map(|name| (distance(word, &name), name))
        .filter(|(steps, _)| *steps <= if length > 6 { 2 } else { 1 });
    near.min().map(|(_, name)| path.with_file_name(name).into_os_string())
}

/// Returns the command that `word` stands for elsewhere, or that is spelled nearly like it.
fn nearest<'a>(root: &'a Command, word: &str) -> Option<&'a str> {
    let word = word.to_lowercase();
    let verbs: Vec<&str> =
        root.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name()).collect();
    if let Some((_, verb)) = HABITS.iter().find(|(words, _)| words.contains(&word.as_str())) {
        return verbs.into_iter().find(|known| known == verb);
    }
    let length = word.chars().count();
    let far = |verb: &str| if DESTRUCTIVE.contains(&verb) { 1 } else { (length / 3).clamp(1, 2) };
    let near = verbs
        .into_iter()
        .map(|verb| (distance(&word, verb), verb))
        .filter(|(steps, verb)| *steps <= far(verb) && *steps < length);
    near.min_by_key(|(steps, _)| *steps).map(|(_, verb)| verb)
}

/// Counts the letters to add, take away, change, or swap with the next to come from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut steps = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                steps = steps.min(rows[i - 1][j - 1] + 1);
            }
            row.push(steps);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_near_or_known() {
        let mut root = crate::definition();
        root.build();
        for (word, expected) in [
            ("lits", Some("list")),
            ("LIST", Some("list")),
            ("extarct", Some("extract")),
            ("create", Some("pack")),
            ("xf", Some("extract")),
            ("tf", Some("list")),
            ("unzip", Some("extract")),
            ("test", Some("verify")),
            ("delete", Some("rm")),
            ("rn", Some("rm")),
            ("view", Some("browse")),
            ("stream-beta", None),
            ("bogus", None),
            ("x7", None),
            ("", None),
        ] {
            assert_eq!(nearest(&root, word), expected, "{word}");
        }
        for (words, verb) in HABITS {
            assert!(cfg!(not(feature = "tui")) || root.find_subcommand(verb).is_some(), "{verb}");
            for word in words {
                assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            }
        }
    }

    #[test]
    fn refusals_are_words_of_people() {
        for (line, message) in [
            ("list", "ARCHIVE is missing"),
            ("cat a", "PATH is missing"),
            ("list a --lnog", "there is no option --lnog"),
            ("mkdir a b c", "one argument too many: c"),
            ("list a --sort", "--sort needs KEY behind it"),
            ("list a --sort up", "--sort up: path, name, size, time or kind is expected"),
            ("list a -j abc", "--threads abc: not a whole number"),
            ("list a -j 5000", "--threads 5000: 0 to 1024 is possible"),
            ("list a --at -1", "there is no option -1"),
            ("list a --tree --sort size", "--tree and --sort exclude each other"),
            ("list a --json --jsonl", "--json and --jsonl exclude each other"),
            ("list a --memory 1M", "--memory 1M: 32M is the least that nra works with"),
            ("key", "a command is missing"),
            ("key nope", "no command nope"),
        ] {
            let arguments: Vec<OsString> = ["nra"].into_iter().chain(line.split(' ')).map(OsString::from).collect();
            let error = crate::definition().try_get_matches_from(&arguments).unwrap_err();
            assert_eq!(words(&error, &arguments), message, "{line}");
        }
    }
}
