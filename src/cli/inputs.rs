//! Inputs of a command: names, `-C` and `-T` in command-line order, patterns and exclude rules.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::args::{FilterArgs, ListArgs, PatternArgs, Rule, RuleArgs, in_order};
use crate::report::{CommandResult, Failure};
use nra_convert::exclude_rules::Rules;
use nra_convert::select::Selection;
use nra_convert::{Filter, Input};
use nra_format::Error;
use nra_format::error::{STANDARD_INPUT, Subject};
use nra_format::path::Quoted;
use nra_text::unquoted;

/// Longest list of names or patterns, bytes.
const LIST_MAX: u64 = 4 << 30;

/// An argument that names inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRule {
    /// Pack this file or directory.
    Path(OsString),
    /// Names that follow are relative to this directory.
    Directory(PathBuf),
    /// Pack the files listed in this file.
    List(PathBuf),
}

/// The inputs in command-line order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputArgs {
    /// The arguments in order.
    pub rules: Vec<InputRule>,
    /// Names in lists are separated by NUL instead of newline.
    pub null: bool,
}

/// The options as clap parses them; their order is restored from their indices.
#[derive(Args)]
struct RawInputArgs {
    /// Files and directories to pack
    ///
    /// A single directory is packed by its content. Several inputs are stored under their own
    /// names.
    #[arg(value_name = "INPUT")]
    inputs: Vec<OsString>,
    /// Change to DIR before reading the following names
    #[arg(short = 'C', long = "directory", value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Pack the paths listed in FILE, one per line; - for standard input
    ///
    /// Entries are stored under the paths given in FILE.
    #[arg(short = 'T', long = "files-from", value_name = "FILE", hide_short_help = true)]
    lists: Vec<PathBuf>,
    /// Separate names in FILE with NUL instead of newline
    #[arg(short = '0', long, hide_short_help = true)]
    null: bool,
}

impl FromArgMatches for InputArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RawInputArgs { inputs, directories, lists, null } = RawInputArgs::from_arg_matches(matches)?;
        let inputs = inputs.into_iter().map(InputRule::Path).collect();
        let directories = directories.into_iter().map(InputRule::Directory).collect();
        let lists = lists.into_iter().map(InputRule::List).collect();
        let rules = in_order(matches, [("inputs", inputs), ("directories", directories), ("lists", lists)]);
        Ok(Self { rules, null })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for InputArgs {
    fn augment_args(command: Command) -> Command {
        RawInputArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RawInputArgs::augment_args_for_update(command)
    }
}

impl InputArgs {
    /// Returns the inputs, including those read from lists.
    pub fn inputs(&self) -> CommandResult<Vec<Input>> {
        let mut inputs = Vec::new();
        let mut directory: Option<PathBuf> = None;
        if let Some(InputRule::Directory(last)) = self.rules.last() {
            let shown = nra_text::quoted(last);
            return Err(
                Failure::usage(format!("-C {shown} must precede an input")).hint("use -C DIR . to pack the content of DIR")
            );
        }
        for rule in &self.rules {
            match rule {
                InputRule::Path(path) => {
                    if path.is_empty() {
                        return Err(Failure::usage("empty input name"));
                    }
                    if path == "-" {
                        let failure = Failure::usage("cannot pack standard input: it has no name");
                        return Err(failure.hint("use ./- for a file named -, or -T - to read input names from standard input"));
                    }
                    inputs.push(Input { directory: directory.clone(), path: path.into(), keep_path: false });
                }
                // As with cd, a relative directory starts from the preceding one.
                InputRule::Directory(next) => {
                    directory = Some(directory.map_or_else(|| next.clone(), |before| before.join(next)));
                }
                InputRule::List(list) => {
                    let text = read_list(list)?;
                    inputs.extend(names(&text, self.null).map(|name| Input {
                        directory: directory.clone(),
                        path: OsStr::from_bytes(&name).into(),
                        keep_path: true,
                    }));
                }
            }
        }
        if inputs.is_empty() {
            let failure = Failure::usage("no inputs given");
            return Err(failure.hint("use nra pack DIR to pack a directory to DIR.nra"));
        }
        Ok(inputs)
    }
}

/// Returns the filter that the options describe.
pub fn filter(args: &FilterArgs) -> CommandResult<Filter> {
    Ok(Filter { rules: rules(&args.rules)?, gitignore: args.gitignore, skip_vcs: args.ignore_vcs, ..Filter::default() })
}

/// Returns the exclude rules, including those read from files.
/// An include rule before all exclude rules is an error.
pub fn rules(args: &RuleArgs) -> CommandResult<Rules> {
    let mut rules = Rules::default();
    for rule in &args.0 {
        match rule {
            Rule::Exclude(glob) => rules.exclude(text(glob)?)?,
            Rule::Include(glob) if rules.is_empty() => {
                let glob = Quoted::new(glob.as_bytes());
                let failure = Failure::usage(format!("--include {glob} must follow an --exclude"));
                return Err(failure.hint("put -x '*' before it to exclude everything else, or give a PATTERN to select entries"));
            }
            Rule::Include(glob) => rules.include(text(glob)?)?,
            Rule::ExcludeFrom(path) => {
                let list = read_list(path)?;
                let list =
                    std::str::from_utf8(&list).map_err(|_| Failure::usage(format!("{} is not valid UTF-8", shown(path))))?;
                let globs = list.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
                globs
                    .map(|glob| glob.strip_prefix('\\').filter(|rest| rest.starts_with('#')).unwrap_or(glob))
                    .try_for_each(|glob| rules.exclude(glob))?;
            }
        }
    }
    Ok(rules)
}

/// Returns the selection described by patterns, rules and lists.
pub fn selection(args: &PatternArgs) -> CommandResult<Selection> {
    // A quoted name stands for one entry, even if it contains glob characters.
    let (quoted, patterns): (Vec<_>, Vec<_>) =
        args.patterns.iter().map(|pattern| unquoted(pattern.as_bytes())).partition(|pattern| matches!(pattern, Cow::Owned(_)));
    let selection = Selection::new(patterns)?.and_paths(quoted).and_paths(listed(&args.lists)?);
    Ok(selection.without(&rules(&args.rules)?)?)
}

/// Reads the paths from all lists.
/// An empty list is an error, because it would select everything.
pub fn listed(args: &ListArgs) -> CommandResult<Vec<Box<[u8]>>> {
    let mut paths: Vec<Box<[u8]>> = Vec::new();
    for list in &args.files_from {
        let before = paths.len();
        paths.extend(names(&read_list(list)?, args.null).map(|name| Box::from(&*name)));
        if paths.len() == before {
            return Err(Failure::failed(format!("{} lists no paths", shown(list))));
        }
    }
    Ok(paths)
}

/// Splits a list into names. Lines may be quoted as in the output of nra list.
fn names(text: &[u8], null: bool) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let end = if null { 0 } else { b'\n' };
    let names = text.split(move |&byte| byte == end).filter(|name| !name.is_empty());
    names.map(move |name| if null { Cow::Borrowed(name) } else { unquoted(name) })
}

/// Returns the name of a list for messages.
fn shown(list: &Path) -> String {
    if is_stdin(list) { STANDARD_INPUT.to_owned() } else { nra_text::quoted(list) }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn text(glob: &OsStr) -> CommandResult<&str> {
    glob.to_str().ok_or_else(|| Failure::usage(format!("pattern {} is not valid UTF-8", Quoted::new(glob.as_bytes()))))
}

fn read_list(path: &Path) -> CommandResult<Vec<u8>> {
    let read = if is_stdin(path) {
        read_whole(std::io::stdin().lock(), LIST_MAX)
    } else {
        std::fs::File::open(path).and_then(|file| read_whole(file, LIST_MAX))
    };
    let name = if is_stdin(path) { Subject::StandardInput } else { path.as_os_str().as_bytes().into() };
    Ok(read.map_err(|error| Error::io("read", name, error))?)
}

/// Reads everything, up to `most` bytes.
fn read_whole(from: impl Read, most: u64) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        inputs: InputArgs,
    }

    #[test]
    fn directory_option_applies_to_following_inputs() {
        let line = Line::parse_from(["nra", "a", "-C", "x", "b", "-C", "y", "c", "-C", "/z", "d"]);
        let inputs = line.inputs.inputs().unwrap();
        let shown: Vec<_> = inputs.iter().map(|input| (input.directory.as_deref(), input.path.as_path())).collect();
        let at = |directory: &'static str, path: &'static str| (Some(Path::new(directory)), Path::new(path));
        assert_eq!(shown, [(None, Path::new("a")), at("x", "b"), at("x/y", "c"), at("/z", "d")]);
    }

    #[test]
    fn missing_inputs_are_rejected() {
        for line in [&["nra", "-C", "x"][..], &["nra", "a", "-C", "x"]] {
            let failure = Line::parse_from(line).inputs.inputs().unwrap_err();
            assert!(format!("{failure:?}").contains("-C x must precede an input"), "{failure:?}");
        }
    }

    #[test]
    fn oversized_list_is_rejected() {
        assert_eq!(read_whole(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(read_whole(&b"abcd"[..], 3).is_err());
    }
}
