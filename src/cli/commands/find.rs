//! `nra find`

mod expression;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use self::expression::Expression;
use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::inputs;
use crate::listing::{self, Columns};
use crate::reading;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::select::Selection;
use nra_format::entry::{Entry, Kind, Timestamp};

/// Arguments of `nra find`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra find photos.nra --name '*.json' --size +1M
  nra find photos.nra --size 0 --type f -0 | xargs -0 -n 1 echo")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    patterns: PatternArgs,
    /// The last part of the path matches GLOB (one of several)
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,
    /// The whole path matches GLOB (one of several)
    #[arg(long, value_name = "GLOB", hide_short_help = true)]
    path: Vec<OsString>,
    /// +1M at least, -1M at most, 1M exactly; two give a range
    #[arg(long, value_name = "SIZE", value_parser = parse_size_test, allow_hyphen_values = true)]
    size: Vec<SizeTest>,
    /// Modified at T or later: 2026-01-31, 7d (ago) …
    ///
    /// T is a date, a time as in 2026-01-31T12:00:00Z (without a zone: UTC), @SECONDS since 1970, or an age such as 90s, 90m, 12h, 7d, 2w.
    #[arg(long, value_name = "T", value_parser = nra_text::parse_time)]
    newer: Option<Timestamp>,
    /// Modified before T
    #[arg(long, value_name = "T", value_parser = nra_text::parse_time, hide_short_help = true)]
    older: Option<Timestamp>,
    /// f file, d directory, l symlink, p fifo, c, b device (f,l)
    #[arg(long = "type", value_name = "KIND", value_enum, value_delimiter = ',', hide_possible_values = true)]
    kind: Vec<KindArg>,
    /// EXPR holds: 'size > 1M and not name ~ *.json'; each of several
    ///
    /// EXPR joins tests with and, or, not and parentheses; and binds tighter than or. Tests: size, stored (bytes in the archive) and ratio (stored by size: 0.5 or
    /// 50%) with = != < <= > >=, for files; modified with the same, or newer T (at T or later) and older T; type with = and != and a letter as of --type; name, path,
    /// target, user, group and attr NAME with = and != for the exact text, ~ and !~ for a glob (path: a PATTERN); attr NAME alone asks whether there is one (extended attributes too). A test
    /// about something that an entry does not have is false. A value with a space or a parenthesis stands in "" or ''.
    #[arg(long, value_name = "EXPR", value_parser = parse_expression)]
    expr: Vec<Arc<Expression>>,
    /// Print kind, mode, size, ratio, time, headers too
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A kind of entry by letter or word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    #[value(name = "f", alias = "file")]
    File,
    #[value(name = "d", alias = "directory", alias = "dir")]
    Directory,
    #[value(name = "l", alias = "symlink", alias = "link")]
    Symlink,
    #[value(name = "p", alias = "fifo")]
    Fifo,
    #[value(name = "c", alias = "character-device")]
    CharacterDevice,
    #[value(name = "b", alias = "block-device")]
    BlockDevice,
}

impl KindArg {
    fn kind(self) -> Kind {
        match self {
            Self::File => Kind::File,
            Self::Directory => Kind::Directory,
            Self::Symlink => Kind::Symlink,
            Self::Fifo => Kind::Fifo,
            Self::CharacterDevice => Kind::CharacterDevice,
            Self::BlockDevice => Kind::BlockDevice,
        }
    }
}

/// A bound for sizes, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeTest {
    AtLeast(u64),
    AtMost(u64),
    Exactly(u64),
}

fn parse_size_test(text: &str) -> Result<SizeTest, String> {
    if let Some(size) = text.strip_prefix('+') {
        nra_text::parse_size(size).map(SizeTest::AtLeast)
    } else if let Some(size) = text.strip_prefix('-') {
        nra_text::parse_size(size).map(SizeTest::AtMost)
    } else {
        nra_text::parse_size(text).map(SizeTest::Exactly)
    }
}

fn parse_expression(text: &str) -> Result<Arc<Expression>, expression::Fault> {
    expression::parse(text).map(Arc::new)
}

/// What an entry must be to be found.
struct Tests<'a> {
    args: &'a Args,
    names: globset::GlobSet,
    paths: Selection,
    kinds: Vec<Kind>,
}

impl<'a> Tests<'a> {
    fn new(args: &'a Args) -> CommandResult<Self> {
        let mut names = globset::GlobSetBuilder::new();
        for name in &args.name {
            let glob = globset::GlobBuilder::new(name).backslash_escape(true).build();
            names.add(glob.map_err(|error| Failure::usage(format!("--name {name}: {}", error.kind())))?);
        }
        let names = names.build().map_err(|error| Failure::usage(format!("--name: {error}")))?;
        let paths = Selection::new(args.path.iter().map(|path| path.as_bytes()))?;
        Ok(Self { args, names, paths, kinds: args.kind.iter().map(|kind| kind.kind()).collect() })
    }

    fn pass(&self, entry: &Entry, stored: &dyn Fn(&Entry) -> CommandResult<Option<u64>>) -> CommandResult<bool> {
        let holds = (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && self.args.size.iter().all(|test| match *test {
                SizeTest::AtLeast(size) => entry.size >= size,
                SizeTest::AtMost(size) => entry.size <= size,
                SizeTest::Exactly(size) => entry.size == size,
            })
            && (self.args.size.is_empty() || entry.kind == Kind::File)
            && self.args.newer.is_none_or(|bound| entry.modified.is_some_and(|time| time >= bound))
            && self.args.older.is_none_or(|bound| entry.modified.is_some_and(|time| time < bound))
            && (self.args.name.is_empty() || self.names.is_match_candidate(&globset::Candidate::from_bytes(entry.path.name())))
            && (self.paths.is_all() || self.paths.matches(entry));
        for expression in &self.args.expr {
            if !holds || !expression.holds(entry, stored)? {
                return Ok(false);
            }
        }
        Ok(holds)
    }
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    entries: u64,
    content_bytes: u64,
}

/// Finds entries.
///
/// # Errors
///
/// When the archive can't be read, or a pattern matches nothing.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let tests = Tests::new(args)?;
    let opened = reading::open(&args.archive, &args.resources, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    let mut summary = Summary::default();
    let mut seen = false;
    ui.list("find", "entries");
    let columns = Columns { long: args.long, digest: false, null: args.patterns.lists.null };
    let console = ui.console().clone();
    let stored = |entry: &Entry| {
        let stored = reading::intact_content(opened.archive.stored_bytes(entry), entry.path.as_bytes(), &opened.name, &console)?;
        Ok(stored.flatten())
    };
    for entry in selection.entries(&*opened.archive).map_err(|error| reading::explain(error, &opened.name))? {
        let Some(entry) = reading::intact(entry, ui.console())? else { continue };
        seen = true;
        if tests.pass(&entry, &stored)? {
            summary.entries += 1;
            summary.content_bytes = summary.content_bytes.saturating_add(entry.size);
            let facts = listing::facts(&entry, columns, &opened, ui)?;
            ui.entry(&entry, facts, columns)?;
        }
    }
    ui.flush()?;
    let outcome = reading::conclude(&opened, &selection, seen, ui)?;
    ui.finish(outcome, "summary", &summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        assert_eq!(parse_size_test("+1M"), Ok(SizeTest::AtLeast(1 << 20)));
        assert_eq!(parse_size_test("-1k"), Ok(SizeTest::AtMost(1 << 10)));
        assert_eq!(parse_size_test("7"), Ok(SizeTest::Exactly(7)));
        assert!(parse_size_test("+").is_err());
    }
}
