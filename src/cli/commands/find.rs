//! `nra find`

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use regex::bytes::Regex;

use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::console::Console;
use crate::inputs;
use crate::listing::{self, Columns, Totals};
use crate::open_archive::{self, Opened};
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::query::{self, Comparison, Condition, Field, KINDS, Matcher, ParseError, Query, Test, content};
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
    /// Match file names with GLOB (repeat for alternatives)
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,
    /// Match the whole path with GLOB; repeat for alternatives
    #[arg(long, value_name = "GLOB", hide_short_help = true)]
    path: Vec<OsString>,
    /// Match file sizes: +1M (min), -1M (max) or 1M (exact)
    ///
    /// Give the option twice for a range.
    #[arg(long, value_name = "SIZE", value_parser = parse_size_test, allow_hyphen_values = true)]
    size: Vec<SizeTest>,
    /// Match entries modified since T: 2026-01-31, 7d (ago)
    ///
    /// T is a date, a time such as 2026-01-31T12:00:00Z (UTC if it has no time zone), @SECONDS since 1970, or an age such as 90s, 90m, 12h, 7d or 2w.
    #[arg(long, value_name = "T", value_parser = nra_text::parse_time)]
    newer: Option<Timestamp>,
    /// Match entries modified before T
    #[arg(long, value_name = "T", value_parser = nra_text::parse_time, hide_short_help = true)]
    older: Option<Timestamp>,
    /// Match types: f file, d directory, l symlink (f,l)
    ///
    /// Further types: p fifo, c character device, b block device. Separate several types with
    /// commas.
    #[arg(long = "type", value_name = "KIND", value_enum, value_delimiter = ',', hide_possible_values = true)]
    kind: Vec<KindArg>,
    /// Match EXPR: 'size > 1M and not name ~ *.json'
    ///
    /// EXPR combines tests with and, or, not and parentheses; and binds tighter than or. If the option is repeated, all expressions must match.
    ///
    /// Quantities: size, stored (bytes in the archive), ratio (stored size divided by size: 0.5 or 50%) and modified, with =, !=, <, <=, > or >=. newer T and older T work as the options of these names. size, stored and ratio match only files.
    ///
    /// Text: name, path, target, user, group and attr NAME, with = or != for the exact text and ~ or !~ for a glob (for path: a PATTERN). attr NAME alone matches entries with that attribute, including extended attributes.
    ///
    /// Others: type with = or != and a letter as in --type; has REGEX for files with matching content (case matters only if REGEX has an upper-case letter); is intact and is damaged for files whose whole content is readable or not.
    ///
    /// A test of a property that an entry does not have is false. Quote a value that contains
    /// spaces or parentheses with "" or ''.
    #[arg(long, value_name = "EXPR", value_parser = parse_expression)]
    expr: Vec<Query>,
    /// Print type, mode, size, ratio and time
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A kind of entry by letter or word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KindArg(Kind);

impl ValueEnum for KindArg {
    fn value_variants<'a>() -> &'a [Self] {
        const VARIANTS: [KindArg; KINDS.len()] = [
            KindArg(KINDS[0].0),
            KindArg(KINDS[1].0),
            KindArg(KINDS[2].0),
            KindArg(KINDS[3].0),
            KindArg(KINDS[4].0),
            KindArg(KINDS[5].0),
        ];
        &VARIANTS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (_, letter, words) = KINDS.iter().find(|(kind, ..)| *kind == self.0)?;
        Some(PossibleValue::new(*letter).aliases(*words))
    }
}

/// A bound for sizes, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SizeTest(Comparison, u64);

fn parse_size_test(text: &str) -> Result<SizeTest, String> {
    let (comparison, size) = if let Some(size) = text.strip_prefix('+') {
        (Comparison::AtLeast, size)
    } else if let Some(size) = text.strip_prefix('-') {
        (Comparison::AtMost, size)
    } else {
        (Comparison::Equal, text)
    };
    Ok(SizeTest(comparison, nra_text::parse_size(size)?))
}

fn parse_expression(text: &str) -> Result<Query, ParseError> {
    Query::parse_expression(text)
}

/// Returns the query that the options describe.
fn query(args: &Args) -> CommandResult<Query> {
    let mut conditions = Vec::new();
    if !args.kind.is_empty() {
        conditions.push(Condition::Any(args.kind.iter().map(|kind| Test::Kind(kind.0, true).into()).collect()));
    }
    conditions.extend(args.size.iter().map(|SizeTest(comparison, size)| Test::Size(*comparison, *size).into()));
    conditions.extend(args.newer.map(|bound| Test::Modified(Comparison::AtLeast, bound).into()));
    conditions.extend(args.older.map(|bound| Test::Modified(Comparison::Less, bound).into()));
    if !args.name.is_empty() {
        let test = |name: &String| {
            let glob = Matcher::glob(name).map_err(|error| Failure::usage(format!("--name {name}: {error}")))?;
            Ok(Test::Text(Field::Name, glob, true).into())
        };
        conditions.push(Condition::Any(args.name.iter().map(test).collect::<CommandResult<_>>()?));
    }
    if !args.path.is_empty() {
        let paths = Selection::new(args.path.iter().map(|path| path.as_bytes()))?;
        conditions.push(Test::Text(Field::Path, Matcher::Selected(Arc::new(paths)), true).into());
    }
    Ok(args.expr.iter().cloned().fold(Condition::All(conditions).into(), Query::and))
}

/// Reads facts from an archive and reports damaged content.
struct Facts<'a> {
    opened: &'a Opened,
    console: &'a Console,
}

impl query::Facts for Facts<'_> {
    type Error = Failure;

    fn stored_bytes(&self, entry: &Entry) -> CommandResult<Option<u64>> {
        Ok(self.opened.intact(self.opened.archive.stored_bytes(entry), entry, self.console)?.flatten())
    }

    fn contains_match(&self, entry: &Entry, regex: &Regex) -> CommandResult<bool> {
        let found = content::contains_match(&*self.opened.archive, entry, regex, &|| true);
        Ok(self.opened.intact(found, entry, self.console)?.unwrap_or(false))
    }

    fn is_intact(&self, entry: &Entry) -> CommandResult<bool> {
        let intact = content::is_intact(&*self.opened.archive, entry, &|| true);
        Ok(self.opened.intact(intact, entry, self.console)?.unwrap_or(false))
    }
}

/// Finds entries.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let query = query(args)?;
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    let mut totals = Totals::default();
    let mut seen = false;
    ui.list("find", "entries");
    let columns = Columns { long: args.long, digest: false, null: args.patterns.lists.null };
    let console = ui.console().clone();
    let facts = Facts { opened: &opened, console: &console };
    for entry in opened.entries(&selection, ui)? {
        let entry = entry?;
        seen = true;
        if query.matches(&entry, &facts)? {
            totals.count(&entry);
            let details = listing::facts(&entry, columns, &opened, ui)?;
            ui.entry(&entry, details, columns)?;
        }
    }
    ui.flush()?;
    let outcome = open_archive::conclude(&opened, &selection, seen, ui)?;
    ui.finish(outcome, "summary", &totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_bounds_are_parsed() {
        assert_eq!(parse_size_test("+1M"), Ok(SizeTest(Comparison::AtLeast, 1 << 20)));
        assert_eq!(parse_size_test("-1k"), Ok(SizeTest(Comparison::AtMost, 1 << 10)));
        assert_eq!(parse_size_test("7"), Ok(SizeTest(Comparison::Equal, 7)));
        assert!(parse_size_test("+").is_err());
    }
}
