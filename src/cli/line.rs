//! How far a command line has come: the command, what was named, what is typed now.
//!
//! Serves completion and the hints about lines that were refused. It is read as clap would, but never fails: what makes no sense is passed
//! over.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// A command line read from left to right.
pub struct Line<'a> {
    /// The program.
    pub root: &'a Command,
    /// The command reached so far.
    pub command: &'a Command,
    /// Names of the command and those above it, without the program's.
    pub verbs: Vec<&'a str>,
    /// What was named for the command's positional arguments.
    pub named: Vec<&'a OsStr>,
    /// Options with their values, in the order given.
    pub given: Vec<(&'a Arg, &'a OsStr)>,
    /// The option whose value comes next.
    pub pending: Option<&'a Arg>,
    /// `--` has ended the options.
    pub ended: bool,
}

impl<'a> Line<'a> {
    /// Reads `words`, which follow the program's name. `root` must have been built.
    pub fn read(root: &'a Command, words: &'a [OsString]) -> Self {
        let mut line =
            Self { root, command: root, verbs: Vec::new(), named: Vec::new(), given: Vec::new(), pending: None, ended: false };
        words.iter().for_each(|word| line.take(word));
        line
    }

    fn take(&mut self, word: &'a OsStr) {
        if let Some(option) = self.pending.take() {
            self.given.push((option, word));
        } else if self.ended || !is_option(word) {
            self.take_name(word);
        } else if word == "--" {
            self.ended = true;
        } else if let Some(long) = word.as_bytes().strip_prefix(b"--") {
            let (name, value) = match long.iter().position(|&byte| byte == b'=') {
                Some(at) => (&long[..at], Some(OsStr::from_bytes(&long[at + 1..]))),
                None => (long, None),
            };
            let Some(option) = self.long(name).filter(|option| takes_value(option)) else { return };
            match value {
                Some(value) => self.given.push((option, value)),
                None => self.pending = Some(option),
            }
        } else {
            self.take_letters(&word.as_bytes()[1..]);
        }
    }

    /// Takes letters that may stand together: the first with a value takes the rest for it.
    fn take_letters(&mut self, letters: &'a [u8]) {
        for (at, &letter) in letters.iter().enumerate() {
            let option = self.command.get_arguments().find(|option| option.get_short() == Some(char::from(letter)));
            let Some(option) = option.filter(|option| takes_value(option)) else { continue };
            match &letters[at + 1..] {
                [] => self.pending = Some(option),
                value => self.given.push((option, OsStr::from_bytes(value.strip_prefix(b"=").unwrap_or(value)))),
            }
            return;
        }
    }

    fn take_name(&mut self, word: &'a OsStr) {
        let verb = self.named.is_empty().then(|| self.command.find_subcommand(word)).flatten();
        match verb {
            Some(command) => {
                self.command = command;
                self.verbs.push(command.get_name());
            }
            None => self.named.push(word),
        }
    }

    /// Returns the option of a long name.
    pub fn long(&self, name: &[u8]) -> Option<&'a Arg> {
        let name = std::str::from_utf8(name).ok()?;
        let is_it = |option: &&Arg| {
            option.get_long() == Some(name) || option.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        };
        self.command.get_arguments().find(is_it)
    }

    /// Returns the positional argument that a further name would be for.
    pub fn next_positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let last = all.last().copied()?;
        let is_open = |argument: &Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        all.get(self.named.len()).copied().or_else(|| Some(last).filter(|last| is_open(last)))
    }

    /// Returns what was named for the positional argument of this value name.
    pub fn value_of(&self, value_name: &str) -> Option<&'a OsStr> {
        let place = self.command.get_positionals().position(|argument| self::value_name(argument) == value_name)?;
        self.named.get(place).copied()
    }
}

/// Says whether a word is an option, or ends them.
pub fn is_option(word: &OsStr) -> bool {
    word.len() > 1 && word.as_bytes().starts_with(b"-")
}

/// Returns what the value of an argument is called.
pub fn value_name(argument: &Arg) -> &str {
    argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values() && option.get_num_args().is_none_or(|range| range.min_values() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_options_and_names_are_told_apart() {
        let mut root = crate::definition();
        root.build();
        for (words, verbs, named, pending) in [
            ("", "", "", None),
            ("-q list a.nra", "list", "a.nra", None),
            ("list --sort", "list", "", Some("sort")),
            ("list --sort size a.nra x", "list", "a.nra x", None),
            ("list --sort=size -rl a.nra -x", "list", "a.nra", Some("exclude")),
            ("list -x*.tmp a.nra", "list", "a.nra", None),
            ("extract -C out a.nra", "extract", "a.nra", None),
            ("x a.nra", "extract", "a.nra", None),
            ("key add -- a.nra -C", "key add", "a.nra -C", None),
            ("nothing list", "", "nothing list", None),
            ("add a.nra b --as", "add", "a.nra b", Some("prefix")),
        ] {
            let words: Vec<OsString> = words.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
            let line = Line::read(&root, &words);
            let shown: Vec<_> = line.named.iter().filter_map(|name| name.to_str()).collect();
            assert_eq!((line.verbs.join(" ").as_str(), shown.join(" ").as_str()), (verbs, named), "{words:?}");
            assert_eq!(line.pending.map(|option| option.get_id().as_str()), pending, "{words:?}");
        }
    }
}
