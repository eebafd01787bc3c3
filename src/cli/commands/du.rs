//! `nra du`

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::cli::args::{ArchiveArg, ResourceArgs};
use crate::cli::reading::{self, Opened};
use crate::cli::report::{CommandResult, Outcome};
use crate::cli::text::PathField;
use crate::cli::ui::Ui;
use crate::format::Error;
use crate::format::archive::Totals;
use crate::format::entry::{Entry, Kind};

/// Arguments of `nra du`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra du photos.nra --depth 1
  nra du photos.nra train --bytes | sort -n")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Directory or file to measure; the whole archive if left out
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// Levels of directories to print; 0 = only the sum
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Print the number of entries too
    #[arg(long)]
    entries: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Sums of a directory as JSON.
#[derive(Debug, Serialize)]
struct DirectoryRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    entries: u64,
    content_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Summary {
    entries: u64,
    content_bytes: u64,
}

/// A directory whose children are being gone through.
struct Level<'a> {
    directory: Entry,
    children: Box<dyn Iterator<Item = Result<Entry, Error>> + Send + 'a>,
}

/// Prints sums of directories, each after those below it.
///
/// # Errors
///
/// When the archive can't be read, or has no such path.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = reading::open(&args.archive, &args.resources)?;
    let fail = |error| reading::explain(error, &opened.name);
    ui.list("du", "directories");
    let top = args.path.as_ref().map(|path| trimmed(path.as_bytes())).filter(|path| !path.is_empty());
    let start = match top {
        Some(path) => {
            Some(opened.archive.find(path).map_err(fail)?.ok_or_else(|| fail(Error::NotFound { path: path.to_vec() }))?.1)
        }
        None => None,
    };
    if args.depth != Some(0) {
        print_below(start.as_ref(), args, &opened, ui)?;
    }
    let range = opened.archive.subtree(top).map_err(fail)?;
    let totals = opened.archive.totals(range).map_err(fail)?;
    print(start.as_ref().map_or(b".", |entry| entry.path.as_bytes()), totals, args, ui)?;
    ui.flush()?;
    reading::remark(&opened, ui);
    ui.finish(Outcome::Done, "summary", &Summary { entries: totals.entries, content_bytes: totals.content_bytes })
}

fn trimmed(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    if path == b"." { b"" } else { path }
}

/// Prints the directories below `start`.
fn print_below(start: Option<&Entry>, args: &Args, opened: &Opened, ui: &mut Ui) -> CommandResult<()> {
    let archive = &*opened.archive;
    let mut top = archive.children(start.map(|entry| entry.path.as_bytes()));
    // A stack of its own instead of recursion: archives may nest deeper than the call stack.
    let mut levels: Vec<Level<'_>> = Vec::new();
    loop {
        let next = levels.last_mut().map_or_else(|| top.next(), |level| level.children.next());
        match next {
            Some(entry) => {
                let Some(entry) = reading::intact(entry, ui.console())? else { continue };
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
                if let Some(totals) = reading::intact(totals, ui.console())? {
                    print(path, totals, args, ui)?;
                }
            }
        }
    }
}

fn print(path: &[u8], totals: Totals, args: &Args, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        let (entries, content_bytes) = (totals.entries, totals.content_bytes);
        return ui.record(&DirectoryRecord { record: "directory", path: PathField::new(path), entries, content_bytes });
    }
    let name = ui.name(path).into_owned();
    let size = ui.size(totals.content_bytes);
    if args.entries {
        ui.line(format_args!("{size:>10}  {:>10}  {name}", totals.entries))
    } else {
        ui.line(format_args!("{size:>10}  {name}"))
    }
}
