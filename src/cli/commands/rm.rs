//! `nra rm`

use crate::args::PatternArgs;
use crate::change::ChangeArgs;
use crate::inputs;
use crate::listing::{Columns, Facts};
use crate::report::CommandResult;
use crate::ui::Ui;
use nra_convert::change::remove;
use nra_format::entry::Entry;

/// Replaces the help of PATTERN: without patterns, nothing is removed.
const PATTERN_HELP: &str = "Entries to remove: path, directory or glob";

/// Arguments of `nra rm`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("patterns", |patterns| patterns.help(PATTERN_HELP).required_unless_present("files_from")), after_help = "\
Examples:
  nra rm photos.nra train/0001.jpg
  nra rm photos.nra '*.tmp' -n
  nra extract photos.nra@3 train/0001.jpg")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    patterns: PatternArgs,
}

/// Removes entries. Earlier commits keep them.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let selection = inputs::selection(&args.patterns)?;
    let mut change = args.change.begin()?;
    ui.list("rm", "entries");
    let progress = ui.progress("removing");
    let shown = change.is_dry() || ui.is_json();
    let mut print = |entry: &Entry| {
        if shown {
            ui.entry(entry, Facts::default(), Columns { null: args.patterns.lists.null, ..Columns::default() })
        } else {
            Ok(())
        }
    };
    let count = remove(&mut change.writer, &selection, &progress, &mut print)?;
    drop(progress);
    change.check_selected(&selection, count, ui)?;
    change.finish(&format!("removed {}", nra_text::counted(count, "entry", "entries")), ui)
}
