//! `nra du`

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::archive_errors;
use crate::args::{ArchiveArg, ResourceArgs, RuleArgs};
use crate::inputs;
use crate::open_archive::{self, Opened};
use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_convert::select::Selection;
use nra_format::Error;
use nra_format::archive::Totals;
use nra_format::entry::{Entry, Kind};
use nra_format::path::{EntryPath, normal};
use nra_text::{self, PathField};

/// Arguments of `nra du`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra du photos.nra --depth 1
  nra du photos.nra -x '*.jpg' --depth 0
  nra du photos.nra train --bytes | sort -n")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Directory or file to measure (default: the whole archive)
    ///
    /// A file with several hard links counts under each of its names, as in all sums of content.
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    #[command(flatten)]
    rules: RuleArgs,
    /// Print N levels of directories; 0 prints only the total
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Print the stored size, too
    #[arg(long)]
    stored: bool,
    /// Print the number of entries, too
    #[arg(long)]
    entries: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Sums over a directory and all below it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sums {
    entries: u64,
    content_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.content_bytes = self.content_bytes.saturating_add(other.content_bytes);
        self.stored_bytes = self.stored_bytes.zip(other.stored_bytes).map(|(own, others)| own.saturating_add(others));
    }
}

impl From<Totals> for Sums {
    fn from(totals: Totals) -> Self {
        Self { entries: totals.entries, content_bytes: totals.content_bytes, stored_bytes: None }
    }
}

/// A directory whose children are being visited.
struct Level<'a> {
    directory: Entry,
    children: Box<dyn Iterator<Item = Result<Entry, Error>> + Send + 'a>,
}

/// Prints sums of directories, each after those below it.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let fail = |error| archive_errors::explain(error, &opened.name);
    ui.list("du", "directories");
    let top = args.path.as_ref().map(|path| nra_text::unquoted(path.as_bytes()));
    let start = match top.as_ref().map(|path| normal(path)).filter(|path| !path.is_empty()) {
        Some(path) => Some(opened.archive.find(path).map_err(fail)?.ok_or_else(|| open_archive::not_found(path, &opened))?.1),
        None => None,
    };
    let name = start.as_ref().map_or(&b"."[..], |entry| entry.path.as_bytes());
    let range = opened.archive.subtree(start.as_ref().map(|entry| entry.path.as_bytes())).map_err(fail)?;
    let selection = Selection::all().without(&inputs::rules(&args.rules)?)?;
    let sums = if args.stored || !selection.is_all() {
        count_below(range, start.as_ref(), args, &selection, &opened, ui)?
    } else {
        if args.depth != Some(0) {
            print_below(start.as_ref(), args, &opened, ui)?;
        }
        opened.archive.totals(range).map_err(fail)?.into()
    };
    print(name, sums, args, ui)?;
    ui.flush()?;
    open_archive::report_remarks(&opened, ui);
    ui.finish(Outcome::Done, "summary", &sums)
}

/// Prints the directories below `start`.
fn print_below(start: Option<&Entry>, args: &Args, opened: &Opened, ui: &mut Ui) -> CommandResult<()> {
    let archive = &*opened.archive;
    let mut top = archive.children(start.map(|entry| entry.path.as_bytes()));
    // An explicit stack instead of recursion: archives may nest deeper than the call stack.
    let mut levels: Vec<Level<'_>> = Vec::new();
    loop {
        let next = levels.last_mut().map_or_else(|| top.next(), |level| level.children.next());
        match next {
            Some(entry) => {
                let Some(entry) = archive_errors::intact(entry, ui.console())? else { continue };
                if entry.kind != Kind::Directory {
                    continue;
                }
                let deeper = args.depth.is_none_or(|depth| levels.len() + 1 < depth);
                let children = if deeper { archive.children(Some(entry.path.as_bytes())) } else { Box::new(std::iter::empty()) };
                levels.push(Level { directory: entry, children });
            }
            None => {
                let Some(level) = levels.pop() else { return Ok(()) };
                let path = level.directory.path.as_bytes();
                let totals = archive.subtree(Some(path)).and_then(|range| archive.totals(range));
                if let Some(totals) = archive_errors::intact(totals, ui.console())? {
                    print(path, totals.into(), args, ui)?;
                }
            }
        }
    }
}

/// Visits all entries and prints the directories below `start`. Stored sizes and sums over some
/// entries only are not in the index pages.
fn count_below(
    range: Range<u64>,
    start: Option<&Entry>,
    args: &Args,
    selection: &Selection,
    opened: &Opened,
    ui: &mut Ui,
) -> CommandResult<Sums> {
    let none = Sums { stored_bytes: args.stored.then_some(0), ..Sums::default() };
    let mut sum = none;
    let base = start.map_or(0, |entry| entry.path.components().count());
    let mut open: Vec<(EntryPath, Sums)> = Vec::new();
    for entry in opened.archive.entries(range) {
        let Some(entry) = archive_errors::intact(entry, ui.console())? else { continue };
        if !selection.matches(&entry) {
            continue;
        }
        while let Some((path, sums)) = open.pop_if(|(directory, _)| !entry.path.is_below(directory)) {
            finish_directory(&path, sums, base, args, open.last_mut().map_or(&mut sum, |(_, above)| above), ui)?;
        }
        let stored = match args.stored {
            // Damaged entries count as empty.
            true => opened.intact(opened.archive.stored_bytes(&entry), &entry, ui.console())?.unwrap_or(Some(0)),
            false => None,
        };
        let own = Sums { entries: 1, content_bytes: entry.size, stored_bytes: stored };
        if entry.kind == Kind::Directory && start.is_none_or(|start| start.path != entry.path) {
            let mut sums = none;
            sums.add(own);
            open.push((entry.path, sums));
        } else {
            open.last_mut().map_or(&mut sum, |(_, sums)| sums).add(own);
        }
    }
    while let Some((path, sums)) = open.pop() {
        finish_directory(&path, sums, base, args, open.last_mut().map_or(&mut sum, |(_, above)| above), ui)?;
    }
    Ok(sum)
}

/// Prints a completed directory and adds its sums to those of its parent.
fn finish_directory(path: &EntryPath, sums: Sums, base: usize, args: &Args, above: &mut Sums, ui: &mut Ui) -> CommandResult<()> {
    above.add(sums);
    if args.depth.is_none_or(|depth| path.components().count() - base <= depth) {
        print(path.as_bytes(), sums, args, ui)
    } else {
        Ok(())
    }
}

fn print(path: &[u8], sums: Sums, args: &Args, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        let Sums { entries, content_bytes, stored_bytes } = sums;
        return ui.record(&record! { "directory" => ..PathField::new(path), entries, content_bytes, stored_bytes });
    }
    let mut line = format!("{:>10}", ui.column(sums.content_bytes));
    if args.stored {
        let stored = sums.stored_bytes.map_or_else(|| "-".to_owned(), |stored| ui.column(stored));
        line.push_str(&format!("  {stored:>10}"));
    }
    if args.entries {
        line.push_str(&format!("  {:>10}", sums.entries));
    }
    ui.name_line(line + "  ", path, "")
}
