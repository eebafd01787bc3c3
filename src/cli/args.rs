//! Options shared by several commands.

use std::ffi::OsString;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::thread::available_parallelism;

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use crate::password_args::KeyArgs;
use nra_convert::{MetadataPolicy, OwnerPolicy};
use nra_format::archive::{Format, OpenOptions};
use nra_format::names::NameEncoding;
use nra_text::parse_size;

/// When to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ProgressWhen {
    /// A bar on a terminal, lines for long runs elsewhere.
    #[default]
    Auto,
    /// Lines even without a terminal.
    Always,
    /// None.
    Never,
    /// A JSON line every second and one at the end.
    Json,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless the environment disables them.
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
    /// Print each entry as it is processed; -vv adds timings
    #[arg(short, long, global = true, action = ArgAction::Count, hide_short_help = true)]
    pub verbose: u8,
    /// Show progress on standard error: auto, always, never, json
    #[arg(long, global = true, value_name = "WHEN", value_enum, hide_possible_values = true, hide_short_help = true)]
    pub progress: Option<ProgressWhen>,
    /// Show no progress
    #[arg(long, global = true, conflicts_with = "progress", hide_short_help = true)]
    pub no_progress: bool,
    /// Print the result as one JSON document
    #[arg(long, global = true, hide_short_help = true)]
    pub json: bool,
    /// Print the result as JSON, one object per line
    #[arg(long, global = true, conflicts_with = "json", hide_short_help = true)]
    pub jsonl: bool,
    /// Use colours: auto, always, never
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
    /// Print sizes in bytes
    #[arg(long, global = true, hide_short_help = true)]
    pub bytes: bool,
    /// Print sizes in powers of 1000 instead of 1024
    #[arg(long, global = true, conflicts_with = "bytes", hide_short_help = true)]
    pub si: bool,
    /// Append all messages to FILE
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub log_file: Option<PathBuf>,
    /// Answer yes to all questions
    #[arg(short, long, global = true, hide_short_help = true)]
    pub yes: bool,
    /// Answer no to all questions
    #[arg(long, global = true, conflicts_with = "yes", hide_short_help = true)]
    pub no: bool,
}

impl GlobalArgs {
    /// Returns the answer to all questions, if one was given.
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
    /// Use N threads, at most 1024; 0 means one per core
    #[arg(short = 'j', long, value_name = "N", default_value_t = 0, hide_default_value = true, hide_short_help = true, value_parser = parse_threads)]
    pub(crate) threads: u16,
    /// Limit memory use to SIZE, at least 32M (64M, 1.5G)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, hide_short_help = true)]
    pub memory: Option<u64>,
}

impl ResourceArgs {
    /// Returns the number of threads, at least 1.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => available_parallelism().map_or(1, usize::from),
            threads => usize::from(threads),
        }
    }

    /// Applies thread and memory limits to opening an archive.
    pub fn apply(&self, options: &mut OpenOptions) {
        options.threads = NonZero::new(self.threads()).unwrap_or(NonZero::<usize>::MIN);
        if let Some(memory) = self.memory {
            options.cache_bytes = memory;
            // A stream is buffered in full, in addition to the caches.
            options.stream_limit = options.stream_limit.max(memory);
        }
    }
}

/// Highest number of threads.
const MAX_THREADS: u16 = 1024;

fn parse_threads(text: &str) -> Result<u16, String> {
    parse_number(text, 0..=MAX_THREADS.into()).map(|number| u16::try_from(number).expect("at most MAX_THREADS"))
}

/// Parses a percentage from 1 to 100.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    parse_number(text, 1..=100).map(|number| u8::try_from(number).expect("at most 100"))
}

fn parse_number(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse::<u64>().map_err(|_| "not a whole number".to_owned())?;
    if range.contains(&number) { Ok(number) } else { Err(format!("must be between {} and {}", range.start(), range.end())) }
}

/// Lowest memory limit, bytes: a run of 8 MiB for each of two workers, plus read-ahead.
pub const MIN_MEMORY: u64 = 32 << 20;

/// Parses a memory limit.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let memory = parse_size(text)?;
    if memory < MIN_MEMORY { Err("at least 32M is required".into()) } else { Ok(memory) }
}

/// How to read an archive whose format or encoding cannot be detected.
#[derive(Debug, Clone, Default, Args)]
pub struct ContainerArgs {
    /// Read the archive as FORMAT instead of detecting it: nra, tar, tar.gz, zip …
    #[arg(long, value_name = "FORMAT", value_parser = parse_from, hide_short_help = true)]
    pub from: Option<&'static Format>,
    /// Decode names in zip and tar archives from ENCODING: cp437, shift_jis, koi8-r …
    ///
    /// Applies to names for which the archive declares no encoding. Supported: code pages such as cp437, cp850 and windows-1251, and names such as shift_jis, gbk, koi8-r and latin1.
    #[arg(long, value_name = "ENCODING", value_parser = parse_names, hide_short_help = true)]
    pub names: Option<NameEncoding>,
    /// Stop if a compressed archive expands more than N times (default: 2000)
    ///
    /// The first GiB is always allowed.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub limit_ratio: Option<u64>,
}

impl ContainerArgs {
    /// Applies them to the options for opening an archive.
    pub fn apply(&self, options: &mut OpenOptions) {
        options.engine = self.from.map(|format| format.engine);
        options.names = self.names;
        options.stream_ratio = self.limit_ratio.unwrap_or(options.stream_ratio);
    }
}

fn parse_from(text: &str) -> Result<&'static Format, String> {
    Format::named(text).ok_or_else(|| "unknown format (nra formats lists the supported ones)".to_owned())
}

fn parse_names(text: &str) -> Result<NameEncoding, String> {
    NameEncoding::named(text).ok_or_else(|| {
        "unknown encoding (use a code page such as cp437, or a name such as shift_jis, gbk, koi8-r or latin1)".to_owned()
    })
}

/// The archive that a command reads.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArg {
    /// Archive to read; - for standard input; A@N for commit N of A
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,
    /// Read commit N instead of the newest (see nra log)
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub at: Option<u64>,
    /// How to read the archive.
    #[command(flatten)]
    pub container: ContainerArgs,
    /// Keys and passwords.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Metadata to keep when packing, extracting or converting.
#[derive(Debug, Clone, Default, Args)]
pub struct KeepArgs {
    /// Skip owners
    #[arg(long, hide_short_help = true)]
    pub no_owner: bool,
    /// Use numeric owner IDs without names
    #[arg(long, hide_short_help = true)]
    pub numeric_owner: bool,
    /// Skip extended attributes and ACLs
    #[arg(long, hide_short_help = true)]
    pub no_xattrs: bool,
    /// Skip modification times
    #[arg(long, hide_short_help = true)]
    pub no_times: bool,
    /// Keep holes in sparse files (always on; accepted for compatibility)
    #[arg(long, hide_short_help = true)]
    pub sparse: bool,
}

impl KeepArgs {
    /// Returns which metadata is kept, with these owners.
    pub fn policy(&self, owner: OwnerPolicy) -> MetadataPolicy {
        MetadataPolicy { owner, xattrs: !self.no_xattrs, times: !self.no_times, ..MetadataPolicy::default() }
    }

    /// Returns how owners are recorded.
    pub fn owner(&self) -> OwnerPolicy {
        match (self.no_owner, self.numeric_owner) {
            (true, _) => OwnerPolicy::Omit,
            (_, true) => OwnerPolicy::Ids,
            _ => OwnerPolicy::Names,
        }
    }
}

/// The entries that a command processes.
#[derive(Debug, Clone, Default, Args)]
pub struct PatternArgs {
    /// Select entries: path, directory or glob (default: all)
    ///
    /// Paths start at the top directory of the archive. A directory includes everything below it. In globs, * and ? do not match /, but ** does. A glob without / matches at any depth.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<OsString>,
    /// Exclude rules.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Lists of paths.
    #[command(flatten)]
    pub lists: ListArgs,
}

/// Lists of paths of entries.
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Read paths from FILE, one per line; - for standard input
    ///
    /// Paths are literal, never globs. A directory includes everything below it.
    #[arg(short = 'T', long, value_name = "FILE", hide_short_help = true)]
    pub files_from: Vec<PathBuf>,
    /// Separate paths with NUL instead of newline, in FILE and in output
    #[arg(short = '0', long, hide_short_help = true)]
    pub null: bool,
}

/// One rule that excludes or includes entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Exclude entries that match this glob.
    Exclude(OsString),
    /// Include entries that match this glob.
    Include(OsString),
    /// Read rules from this file, one per line.
    ExcludeFrom(PathBuf),
}

/// Rules in command-line order: the last matching rule wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleArgs(pub Vec<Rule>);

/// The options as clap parses them; their order is restored from their indices.
#[derive(Args)]
struct RawRuleArgs {
    /// Exclude entries that match GLOB
    ///
    /// The last matching rule wins. GLOB matches at any depth; with a leading / only at the top; with a trailing / only directories. Excluding a directory excludes everything below it. !GLOB includes, as --include does.
    #[arg(short = 'x', long, value_name = "GLOB")]
    exclude: Vec<OsString>,
    /// Include entries that match GLOB despite an earlier -x
    #[arg(long, value_name = "GLOB", hide_short_help = true)]
    include: Vec<OsString>,
    /// Read exclude globs from FILE, one per line; !GLOB includes
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    exclude_from: Vec<PathBuf>,
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RawRuleArgs { exclude, include, exclude_from } = RawRuleArgs::from_arg_matches(matches)?;
        let exclude = exclude.into_iter().map(Rule::Exclude).collect();
        let include = include.into_iter().map(Rule::Include).collect();
        let exclude_from = exclude_from.into_iter().map(Rule::ExcludeFrom).collect();
        Ok(Self(in_order(matches, [("exclude", exclude), ("include", include), ("exclude_from", exclude_from)])))
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

/// Merges the values of several arguments in command-line order.
pub fn in_order<T>(matches: &ArgMatches, arguments: [(&str, Vec<T>); 3]) -> Vec<T> {
    let mut values: Vec<(usize, T)> = Vec::new();
    for (name, own) in arguments {
        values.extend(matches.indices_of(name).into_iter().flatten().zip(own));
    }
    values.sort_by_key(|(index, _)| *index);
    values.into_iter().map(|(_, value)| value).collect()
}

/// Files that a directory walk skips.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// Exclude rules.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Skip version control directories (.git, .svn, .hg …)
    #[arg(long, hide_short_help = true)]
    pub ignore_vcs: bool,
    /// Skip files listed in .gitignore files
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
