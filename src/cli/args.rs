//! Options that mean the same on every command.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};

use crate::keys::KeyArgs;
use nra_convert::pack::OwnerPolicy;
use nra_format::archive::{Engine, OpenOptions};
use nra_format::names::NameEncoding;
use nra_text::parse_size;

/// When to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProgressWhen {
    /// A bar on a terminal, lines for long runs elsewhere.
    #[default]
    Auto,
    /// Lines also where there is no terminal.
    Always,
    /// Nothing.
    Never,
    /// JSON lines, one a second and one at the end.
    Json,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "General options")]
pub struct GlobalArgs {
    /// Print errors only
    #[arg(short, long, global = true, hide_short_help = true)]
    pub quiet: bool,
    /// Say more: each entry that is written or damaged; twice: timings too
    #[arg(short, long, global = true, action = ArgAction::Count, hide_short_help = true)]
    pub verbose: u8,
    /// When to show progress on standard error: auto, always, never, json
    #[arg(long, global = true, value_name = "WHEN", value_enum, hide_possible_values = true, hide_short_help = true)]
    pub progress: Option<ProgressWhen>,
    /// Show no progress
    #[arg(long, global = true, conflicts_with = "progress", hide_short_help = true)]
    pub no_progress: bool,
    /// Print the result as one JSON document
    #[arg(long, global = true, hide_short_help = true)]
    pub json: bool,
    /// Print the result as one JSON object a line
    #[arg(long, global = true, conflicts_with = "json", hide_short_help = true)]
    pub jsonl: bool,
    /// When to use colours: auto, always, never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub color: ColorWhen,
    /// Print sizes as numbers of bytes
    #[arg(long, global = true, hide_short_help = true)]
    pub bytes: bool,
    /// Print sizes in powers of 1,000 (the default is 1,024)
    #[arg(long, global = true, conflicts_with = "bytes", hide_short_help = true)]
    pub si: bool,
    /// Append all messages to FILE
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub log_file: Option<PathBuf>,
    /// Answer all questions with yes
    #[arg(short, long, global = true, hide_short_help = true)]
    pub yes: bool,
    /// Answer all questions with no
    #[arg(long, global = true, conflicts_with = "yes", hide_short_help = true)]
    pub no: bool,
}

impl GlobalArgs {
    /// Returns the answer to all questions.
    pub fn answer(&self) -> Option<bool> {
        if self.yes { Some(true) } else { self.no.then_some(false) }
    }

    /// Returns when to show progress.
    pub fn progress_when(&self) -> ProgressWhen {
        if self.no_progress { ProgressWhen::Never } else { self.progress.unwrap_or_default() }
    }
}

/// Threads and memory, for commands that read or write content.
#[derive(Debug, Clone, Default, Args)]
pub struct ResourceArgs {
    /// Threads to work with, 1024 at most; 0 = one a core
    #[arg(short = 'j', long, value_name = "N", default_value_t = 0, hide_default_value = true, hide_short_help = true, value_parser = value_parser!(u16).range(..=1024))]
    pub(crate) threads: u16,
    /// Memory to work with (64M, 1.5G), 32M at least
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    pub memory: Option<u64>,
}

impl ResourceArgs {
    /// Returns how many threads to work with, 1 or more.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => available_parallelism().map_or(1, usize::from),
            threads => usize::from(threads),
        }
    }

    /// Sets what opening an archive may take.
    pub fn apply(&self, options: &mut OpenOptions) {
        options.threads = NonZero::new(self.threads()).unwrap_or(NonZero::<usize>::MIN);
        if let Some(memory) = self.memory {
            options.cache_bytes = memory;
            // A stream is kept whole, whatever is left for caches.
            options.stream_limit = options.stream_limit.max(memory);
        }
    }
}

/// Least memory that can be asked for, bytes: a run of 8 MiB for each of two workers, and what is read ahead of them.
pub const MIN_MEMORY: u64 = 32 << 20;

/// Takes what is said of memory from the command line.
///
/// # Errors
///
/// When it is no size, or less than what works.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let memory = parse_size(text)?;
    if memory < MIN_MEMORY { Err("32M is the least that nra works with".into()) } else { Ok(memory) }
}

/// How the container of an archive is read, where it does not tell that itself.
#[derive(Debug, Clone, Default, Args)]
pub struct ContainerArgs {
    /// Take the archive for one of this kind, whatever its content looks like: nra, tar, tar.gz, zip …
    #[arg(long, value_name = "KIND", value_parser = parse_from, hide_short_help = true)]
    pub from: Option<&'static Engine>,
    /// Encoding of names in zip and tar archives that do not tell it: cp437, cp850, shift_jis, gbk, koi8-r, windows-1251 …
    #[arg(long, value_name = "ENCODING", value_parser = parse_names, hide_short_help = true)]
    pub names: Option<NameEncoding>,
    /// Stop when a compressed archive grows to more than N times its length, beyond the first GiB (default: 2,000)
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub limit_ratio: Option<u64>,
}

impl ContainerArgs {
    /// Puts them into the options that an archive is opened with.
    pub fn apply(&self, options: &mut OpenOptions) {
        options.engine = self.from.map(|engine| engine.name);
        options.names = self.names;
        options.stream_ratio = self.limit_ratio.unwrap_or(options.stream_ratio);
    }
}

fn parse_from(text: &str) -> Result<&'static Engine, String> {
    Engine::named(text)
        .ok_or_else(|| "nra reads nra, nra4, shard, zip, tar, tar.gz and others; nra formats lists them".to_owned())
}

fn parse_names(text: &str) -> Result<NameEncoding, String> {
    NameEncoding::named(text).ok_or_else(|| {
        "known are code pages such as cp437, cp850 and cp866, and names such as shift_jis, gbk, koi8-r and latin1".to_owned()
    })
}

/// The archive a command reads.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArg {
    /// Archive to read; - is standard input; A@N is A at commit N
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,
    /// Read the archive as it was at commit N (nra log lists them)
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub at: Option<u64>,
    /// How the container is read.
    #[command(flatten)]
    pub container: ContainerArgs,
    /// Keys and passwords.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// What of the metadata goes along, whichever way entries go.
#[derive(Debug, Clone, Default, Args)]
pub struct KeepArgs {
    /// Leave owners out
    #[arg(long, hide_short_help = true)]
    pub no_owner: bool,
    /// Take owners as numbers alone, without their names
    #[arg(long, hide_short_help = true)]
    pub numeric_owner: bool,
    /// Leave extended attributes and ACLs out
    #[arg(long, hide_short_help = true)]
    pub no_xattrs: bool,
    /// Leave times out
    #[arg(long, hide_short_help = true)]
    pub no_times: bool,
    /// Keep the holes of files, as is always done
    #[arg(long, hide_short_help = true)]
    pub sparse: bool,
}

impl KeepArgs {
    /// Returns what is recorded of owners.
    pub fn owner(&self) -> OwnerPolicy {
        match (self.no_owner, self.numeric_owner) {
            (true, _) => OwnerPolicy::Omit,
            (_, true) => OwnerPolicy::Ids,
            _ => OwnerPolicy::Names,
        }
    }
}

/// Which entries a command is about.
#[derive(Debug, Clone, Default, Args)]
pub struct PatternArgs {
    /// Path, directory or glob (*, **, ?); all if left out
    ///
    /// A path from the top of the archive; a directory brings all below it. In globs * and ? stop at /, ** does not; a glob without / matches at any depth.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<OsString>,
    /// Rules that leave entries out.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Files that list paths.
    #[command(flatten)]
    pub lists: ListArgs,
}

/// Lists of paths of entries.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Take the paths that FILE names too, one a line, - is standard input
    ///
    /// They are taken as they stand, never as globs; a directory brings all below it.
    #[arg(short = 'T', long, value_name = "FILE", hide_short_help = true)]
    pub files_from: Vec<PathBuf>,
    /// Paths end with NUL, not with a line end: in FILE, and where paths are printed
    #[arg(short = '0', long, hide_short_help = true)]
    pub null: bool,
}

/// One rule about what is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Leave out what matches this glob.
    Exclude(OsString),
    /// Keep what matches this glob.
    Include(OsString),
    /// Rules, one a line, from this file.
    ExcludeFrom(PathBuf),
}

/// What is left out, in the order of the command line: the last rule that matches wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleArgs(pub Vec<Rule>);

/// The options as clap knows them; their order is restored from their places.
#[derive(Args)]
struct RawRuleArgs {
    /// Leave out what matches GLOB
    ///
    /// The last rule that matches wins. A GLOB matches at any depth, one that begins with / at the top, one that ends with / only directories; what
    /// lies below a directory left out is left out with it. !GLOB keeps, as --include does.
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<OsString>,
    /// Keep what matches GLOB although an earlier -x leaves it out
    #[arg(long, value_name = "GLOB", hide_short_help = true)]
    include: Vec<OsString>,
    /// Read globs to leave out from FILE, one a line; !GLOB keeps
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    exclude_from: Vec<PathBuf>,
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let raw = RawRuleArgs::from_arg_matches(matches)?;
        let places = |name: &str| matches.indices_of(name).into_iter().flatten().collect::<Vec<_>>();
        let mut rules: Vec<(usize, Rule)> = Vec::new();
        rules.extend(places("exclude").into_iter().zip(raw.exclude.into_iter().map(Rule::Exclude)));
        rules.extend(places("include").into_iter().zip(raw.include.into_iter().map(Rule::Include)));
        rules.extend(places("exclude_from").into_iter().zip(raw.exclude_from.into_iter().map(Rule::ExcludeFrom)));
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        RawRuleArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RawRuleArgs::augment_args_for_update(command)
    }
}

/// What a walk leaves out.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// Rules that leave entries out.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Leave out the files of version control systems (.git, .svn, .hg …)
    #[arg(long, hide_short_help = true)]
    pub ignore_vcs: bool,
    /// Leave out what .gitignore files name
    #[arg(long, hide_short_help = true)]
    pub gitignore: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterArgs,
    }

    #[test]
    fn rules_keep_their_order() {
        let line = Line::parse_from(["nra", "-x", "a", "--include", "b", "--exclude-from", "f", "-x=c", "--gitignore"]);
        assert_eq!(
            line.filter.rules.0,
            [Rule::Exclude("a".into()), Rule::Include("b".into()), Rule::ExcludeFrom("f".into()), Rule::Exclude("c".into()),]
        );
        assert!(line.filter.gitignore && !line.filter.ignore_vcs);
    }
}
