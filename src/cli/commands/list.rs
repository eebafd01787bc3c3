//! `nra list`

use std::cmp::Ordering;

use clap::ValueEnum;

use crate::args::{ArchiveArg, PatternArgs, ResourceArgs};
use crate::inputs;
use crate::listing::{self, Columns, Facts, Totals};
use crate::open_archive::{self, Opened};
use crate::report::CommandResult;
use crate::tree;
use crate::ui::Ui;
use nra_format::entry::Entry;

/// Arguments of `nra list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra list photos.nra
  nra list photos.nra -l 'train/**/*.json'
  nra list photos.nra --tree --depth 2
  nra list photos.nra --sort size -r | head")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Print type, mode, size, ratio and time
    #[arg(short, long)]
    long: bool,
    /// Print entries as a tree
    #[arg(long, conflicts_with_all = ["null", "sort", "reverse"])]
    tree: bool,
    /// Print at most N levels
    #[arg(long, value_name = "N", requires = "tree")]
    depth: Option<usize>,
    /// Sort by path (default), name, size, time or kind
    #[arg(long, value_name = "KEY", value_enum, hide_possible_values = true)]
    sort: Option<Key>,
    /// Reverse the sort order
    #[arg(short, long)]
    reverse: bool,
    /// Print the digest of the content (24 bytes of BLAKE3)
    #[arg(long)]
    digest: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Key {
    Path,
    Name,
    Size,
    Time,
    Kind,
}

impl Key {
    fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        match self {
            Self::Path => a.path.cmp(&b.path),
            Self::Name => a.path.name().cmp(b.path.name()),
            Self::Size => a.size.cmp(&b.size),
            Self::Time => a.modified.cmp(&b.modified),
            Self::Kind => a.kind.cmp(&b.kind),
        }
    }
}

/// Entries whose digests are looked up together, if content can be read in any order.
const DIGESTS: usize = 1_024;

/// Lists entries.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    let mut totals = Totals::default();
    ui.list("list", "entries");
    let entries = opened.entries(&selection, ui)?;
    if args.tree && !ui.is_json() {
        let mut rows = tree::Rows::default();
        for entry in entries {
            let entry = entry?;
            totals.count(&entry);
            rows.push(&entry, args.depth);
        }
        rows.print(args.long, ui)?;
    } else {
        let sorts = args.sort.is_some() || args.reverse;
        let digests_at_once = if opened.archive.is_sequential() { usize::MAX } else { DIGESTS };
        let at_once = match (sorts, args.digest) {
            (true, _) => usize::MAX,
            (false, true) => digests_at_once,
            (false, false) => 1,
        };
        let mut window = Vec::new();
        for entry in entries {
            let entry = entry?;
            if args.depth.is_some_and(|depth| entry.path.components().count() > depth) {
                continue;
            }
            window.push(entry);
            if window.len() >= at_once {
                print(&window, args, &opened, &mut totals, ui)?;
                window.clear();
            }
        }
        if sorts {
            let key = args.sort.unwrap_or(Key::Path);
            // The sort is stable: equal keys stay in path order, even in reverse.
            window.sort_by(|a, b| if args.reverse { key.compare(b, a) } else { key.compare(a, b) });
        }
        print(&window, args, &opened, &mut totals, ui)?;
    }
    ui.flush()?;
    let outcome = open_archive::conclude(&opened, &selection, totals.entries > 0, ui)?;
    ui.finish(outcome, "summary", &totals)
}

fn print(entries: &[Entry], args: &Args, opened: &Opened, totals: &mut Totals, ui: &mut Ui) -> CommandResult<()> {
    let columns = Columns { long: args.long, digest: args.digest, null: args.patterns.lists.null };
    let digests = if args.digest { listing::digests(entries, opened, ui)? } else { vec![None; entries.len()] };
    for (entry, digest) in entries.iter().zip(digests) {
        totals.count(entry);
        let facts = Facts { digest, ..listing::facts(entry, columns, opened, ui)? };
        ui.entry(entry, facts, columns)?;
    }
    Ok(())
}
