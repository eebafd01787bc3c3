//! Parses an incomplete or invalid command line for completion and hints.
//!
//! It follows the rules of clap but never fails: invalid words are ignored.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// A parsed command line.
pub struct CommandLine<'a> {
    /// The program.
    pub root: &'a Command,
    /// The innermost command so far.
    pub command: &'a Command,
    /// Names of the command and its parents, without the program.
    pub verbs: Vec<&'a str>,
    /// Values of the positional arguments.
    pub positionals: Vec<&'a OsStr>,
    /// Options with their values, in order.
    pub option_values: Vec<(&'a Arg, &'a OsStr)>,
    /// The option whose value is the next word.
    pub pending: Option<&'a Arg>,
    /// `--` has ended the options.
    pub options_ended: bool,
}

impl<'a> CommandLine<'a> {
    /// Parses `words`, which follow the program name. `root` must have been built.
    pub fn parse(root: &'a Command, words: &'a [OsString]) -> Self {
        let mut line = Self {
            root,
            command: root,
            verbs: Vec::new(),
            positionals: Vec::new(),
            option_values: Vec::new(),
            pending: None,
            options_ended: false,
        };
        words.iter().for_each(|word| line.push(word));
        line
    }

    fn push(&mut self, word: &'a OsStr) {
        if let Some(option) = self.pending.take() {
            self.option_values.push((option, word));
        } else if self.options_ended || !is_option(word) {
            self.push_name(word);
        } else if word == "--" {
            self.options_ended = true;
        } else if let Some(long) = word.as_bytes().strip_prefix(b"--") {
            let (name, value) = match long.iter().position(|&byte| byte == b'=') {
                Some(at) => (&long[..at], Some(OsStr::from_bytes(&long[at + 1..]))),
                None => (long, None),
            };
            let Some(option) = self.long(name).filter(|option| takes_value(option)) else { return };
            match value {
                Some(value) => self.option_values.push((option, value)),
                None => self.pending = Some(option),
            }
        } else {
            self.push_short_options(&word.as_bytes()[1..]);
        }
    }

    /// Parses combined short options. The first one with a value consumes the rest.
    fn push_short_options(&mut self, letters: &'a [u8]) {
        for (at, &letter) in letters.iter().enumerate() {
            let option = self.command.get_arguments().find(|option| option.get_short() == Some(char::from(letter)));
            let Some(option) = option.filter(|option| takes_value(option)) else { continue };
            match &letters[at + 1..] {
                [] => self.pending = Some(option),
                value => self.option_values.push((option, OsStr::from_bytes(value.strip_prefix(b"=").unwrap_or(value)))),
            }
            return;
        }
    }

    fn push_name(&mut self, word: &'a OsStr) {
        let verb = self.positionals.is_empty().then(|| self.command.find_subcommand(word)).flatten();
        match verb {
            Some(command) => {
                self.command = command;
                self.verbs.push(command.get_name());
            }
            None => self.positionals.push(word),
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

    /// Returns the positional argument that the next name would belong to.
    pub fn next_positional(&self) -> Option<&'a Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let last = all.last().copied()?;
        let is_open = |argument: &Arg| argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        all.get(self.positionals.len()).copied().or_else(|| Some(last).filter(|last| is_open(last)))
    }

    /// Returns the value of the positional argument with this value name.
    pub fn value_of(&self, value_name: &str) -> Option<&'a OsStr> {
        let index = self.command.get_positionals().position(|argument| self::value_name(argument) == value_name)?;
        self.positionals.get(index).copied()
    }
}

/// Returns whether a word is an option or `--`.
pub fn is_option(word: &OsStr) -> bool {
    word.len() > 1 && word.as_bytes().starts_with(b"-")
}

/// Returns the value name of an argument.
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
    fn commands_options_and_names_are_distinguished() {
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
            let line = CommandLine::parse(&root, &words);
            let shown: Vec<_> = line.positionals.iter().filter_map(|name| name.to_str()).collect();
            assert_eq!((line.verbs.join(" ").as_str(), shown.join(" ").as_str()), (verbs, named), "{words:?}");
            assert_eq!(line.pending.map(|option| option.get_id().as_str()), pending, "{words:?}");
        }
    }
}
