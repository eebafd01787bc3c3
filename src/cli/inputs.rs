//! What is packed or read, as the command line says it: names, `-C` and `-T` in the order given, patterns, what is left out.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::args::{FilterArgs, ListArgs, PatternArgs, Rule, RuleArgs};
use crate::report::{CommandResult, Failure};
use nra_convert::pack::{Filter, Input};
use nra_convert::rules::Rules;
use nra_convert::select::Selection;
use nra_format::Error;
use nra_format::error::{STANDARD_INPUT, Subject};
use nra_format::path::Quoted;
use nra_text::unquoted;

/// Longest list of names or patterns that is read, bytes.
const LIST_MAX: u64 = 4 << 30;

/// One thing said about inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRule {
    /// Pack this file or directory.
    Path(OsString),
    /// Names that follow are relative to this directory.
    Directory(PathBuf),
    /// Pack what this file names.
    List(PathBuf),
}

/// What is packed, in the order of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputArgs {
    /// In order.
    pub rules: Vec<InputRule>,
    /// Names in lists end with NUL instead of a line end.
    pub null: bool,
}

/// The options as clap knows them; their order is restored from their places.
#[derive(Args)]
struct RawInputArgs {
    /// Files and directories to pack
    ///
    /// One directory alone: its content. Several inputs: each under its own name.
    #[arg(value_name = "INPUT")]
    inputs: Vec<OsString>,
    /// Change to DIR before reading the names behind this
    #[arg(short = 'C', long = "directory", value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Pack what FILE names, one a line, under the names given there; - is standard input
    #[arg(short = 'T', long = "files-from", value_name = "FILE", hide_short_help = true)]
    lists: Vec<PathBuf>,
    /// Names in FILE end with NUL
    #[arg(short = '0', long, hide_short_help = true)]
    null: bool,
}

impl FromArgMatches for InputArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let raw = RawInputArgs::from_arg_matches(matches)?;
        let places = |name: &str| matches.indices_of(name).into_iter().flatten().collect::<Vec<_>>();
        let mut rules: Vec<(usize, InputRule)> = Vec::new();
        rules.extend(places("inputs").into_iter().zip(raw.inputs.into_iter().map(InputRule::Path)));
        rules.extend(places("directories").into_iter().zip(raw.directories.into_iter().map(InputRule::Directory)));
        rules.extend(places("lists").into_iter().zip(raw.lists.into_iter().map(InputRule::List)));
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self { rules: rules.into_iter().map(|(_, rule)| rule).collect(), null: raw.null })
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
    /// Returns the inputs; lists are read now.
    ///
    /// # Errors
    ///
    /// When a list can't be read, or nothing is named at all.
    pub fn inputs(&self) -> CommandResult<Vec<Input>> {
        let mut inputs = Vec::new();
        let mut directory: Option<PathBuf> = None;
        if let Some(InputRule::Directory(last)) = self.rules.last() {
            let shown = Quoted::new(last.as_os_str().as_encoded_bytes());
            return Err(Failure::usage(format!("-C {shown} has no input behind it")).hint("-C DIR . packs what is in it"));
        }
        for rule in &self.rules {
            match rule {
                InputRule::Path(path) => {
                    if path.is_empty() {
                        return Err(Failure::usage("an input is an empty name"));
                    }
                    if path == "-" {
                        let failure =
                            Failure::usage("- is no input: what comes from standard input has no name to be stored under");
                        return Err(failure.hint("./- names a file of that name; -T - reads names of inputs from standard input"));
                    }
                    inputs.push(Input { directory: directory.clone(), path: path.into(), keep_path: false });
                }
                // As with cd, a relative one starts from the one before.
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
            let failure = Failure::usage("nothing to pack was named");
            return Err(failure.hint("nra pack DIR packs the content of a directory to DIR.nra"));
        }
        Ok(inputs)
    }
}

/// Returns the filter that the options describe.
///
/// # Errors
///
/// As [`rules`].
pub fn filter(args: &FilterArgs) -> CommandResult<Filter> {
    Ok(Filter { rules: rules(&args.rules)?, gitignore: args.gitignore, skip_vcs: args.ignore_vcs, ..Filter::default() })
}

/// Returns the rules about what is left out; files of patterns are read now.
///
/// # Errors
///
/// When a pattern makes no sense, nothing is left out that could be kept, or a file of patterns can't be read.
pub fn rules(args: &RuleArgs) -> CommandResult<Rules> {
    let mut rules = Rules::default();
    for rule in &args.0 {
        match rule {
            Rule::Exclude(glob) => rules.exclude(text(glob)?)?,
            Rule::Include(glob) if rules.is_empty() => {
                let glob = Quoted::new(glob.as_bytes());
                let failure = Failure::usage(format!("--include {glob} keeps what is left out, but nothing is before it"));
                return Err(failure.hint(
                    "-x '*' in front of it leaves out all else, the directories above included; a PATTERN chooses without rules",
                ));
            }
            Rule::Include(glob) => rules.include(text(glob)?)?,
            Rule::ExcludeFrom(path) => {
                let list = read_list(path)?;
                let list =
                    std::str::from_utf8(&list).map_err(|_| Failure::usage(format!("{} is not UTF-8 text", shown(path))))?;
                let globs = list.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
                globs
                    .map(|glob| glob.strip_prefix('\\').filter(|rest| rest.starts_with('#')).unwrap_or(glob))
                    .try_for_each(|glob| rules.exclude(glob))?;
            }
        }
    }
    Ok(rules)
}

/// Returns the selection that patterns, rules and lists describe; lists are read now.
///
/// # Errors
///
/// When a glob makes no sense, or a list can't be read or names nothing.
pub fn selection(args: &PatternArgs) -> CommandResult<Selection> {
    // A quoted name is that of one entry, whatever would make it a glob.
    let (quoted, patterns): (Vec<_>, Vec<_>) =
        args.patterns.iter().map(|pattern| unquoted(pattern.as_bytes())).partition(|pattern| matches!(pattern, Cow::Owned(_)));
    let selection = Selection::new(patterns)?.and_paths(quoted).and_paths(listed(&args.lists)?);
    Ok(selection.without(&rules(&args.rules)?)?)
}

/// Returns the paths that lists name; they are read now.
///
/// # Errors
///
/// When a list can't be read or names nothing: what is read from it was to narrow something down.
pub fn listed(args: &ListArgs) -> CommandResult<Vec<Box<[u8]>>> {
    let mut paths: Vec<Box<[u8]>> = Vec::new();
    for list in &args.files_from {
        let before = paths.len();
        paths.extend(names(&read_list(list)?, args.null).map(|name| Box::from(&*name)));
        if paths.len() == before {
            return Err(Failure::failed(format!("{} names no entry", shown(list))));
        }
    }
    Ok(paths)
}

/// Returns the names in a list; in lines those may be quoted as in output.
fn names(text: &[u8], null: bool) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let end = if null { 0 } else { b'\n' };
    let names = text.split(move |&byte| byte == end).filter(|name| !name.is_empty());
    names.map(move |name| if null { Cow::Borrowed(name) } else { unquoted(name) })
}

/// Returns what a list is called in messages.
fn shown(list: &Path) -> String {
    if is_stdin(list) { STANDARD_INPUT.to_owned() } else { Quoted::new(list.as_os_str().as_bytes()).to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn text(glob: &OsStr) -> CommandResult<&str> {
    glob.to_str().ok_or_else(|| Failure::usage(format!("pattern {} is not UTF-8 text", Quoted::new(glob.as_bytes()))))
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

/// Reads all there is, if that is no more than `most` bytes.
fn read_whole(from: impl Read, most: u64) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, format!("a list has at most {most} bytes")));
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
    fn directories_count_for_what_follows() {
        let line = Line::parse_from(["nra", "a", "-C", "x", "b", "-C", "y", "c", "-C", "/z", "d"]);
        let inputs = line.inputs.inputs().unwrap();
        let shown: Vec<_> = inputs.iter().map(|input| (input.directory.as_deref(), input.path.as_path())).collect();
        let at = |directory: &'static str, path: &'static str| (Some(Path::new(directory)), Path::new(path));
        assert_eq!(shown, [(None, Path::new("a")), at("x", "b"), at("x/y", "c"), at("/z", "d")]);
    }

    #[test]
    fn nothing_named_is_an_error() {
        for line in [&["nra", "-C", "x"][..], &["nra", "a", "-C", "x"]] {
            let failure = Line::parse_from(line).inputs.inputs().unwrap_err();
            assert!(format!("{failure:?}").contains("-C x has no input behind it"), "{failure:?}");
        }
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        assert_eq!(read_whole(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(read_whole(&b"abcd"[..], 3).is_err());
    }
}
