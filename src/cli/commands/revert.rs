//! `nra revert`

use crate::args::PatternArgs;
use crate::change::{Change, ChangeArgs};
use crate::commands::diff;
use crate::inputs;
use crate::open_archive;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::change::revert;
use nra_convert::diff::Difference;
use nra_format::nra::changes::Change as Step;
use nra_format::progress::Warning;

/// Replaces the help of PATTERN.
const PATTERN_HELP: &str = "Entries to restore: path, directory or glob (default: all)";

const PATTERN_LONG_HELP: &str = "Entries to restore: path, directory or glob (default: all)

Matching entries added since the commit are removed. Entries that do not match are never changed, even if they conflict with restored ones; nra reports such conflicts.

Paths start at the top directory of the archive. In globs, * and ? do not match /, but ** does. A glob without / matches at any depth.";

/// Arguments of `nra revert`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("archive", |archive| archive.help("Archive to change; A@N for commit N of A")), mut_arg("patterns", |patterns| patterns.help(PATTERN_HELP).long_help(PATTERN_LONG_HELP)), after_help = "\
Examples:
  nra revert photos.nra
  nra revert photos.nra --at 3 -n
  nra revert photos.nra@3 'train/**'")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Restore commit N (default: the one before the newest)
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    #[command(flatten)]
    patterns: PatternArgs,
}

/// Restores an earlier commit as a new commit.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let selection = inputs::selection(&args.patterns)?;
    let (archive, at) = open_archive::locate(&args.change.archive, args.at)?;
    let mut change = args.change.begin_at(&archive)?;
    let commit = match at {
        Some(number) => number,
        None => before_newest(&change)?,
    };
    ui.list("revert", "differences");
    let progress = ui.progress("comparing");
    let shown = change.is_dry() || ui.is_json();
    let mut print = |step: &Step| match step {
        _ if !shown => Ok(()),
        Step::Added(entry) => diff::print(&Difference::Added(entry.clone()), ui),
        Step::Removed(entry) => diff::print(&Difference::Removed(entry.clone()), ui),
        Step::Changed(now, then) => diff::print(&Difference::Changed(now.clone(), then.clone(), Vec::new()), ui),
    };
    let done = revert(&mut change.writer, commit, &selection, &progress, &mut print)?;
    drop(progress);
    if done.entries == 0 && done.skipped > 0 {
        return Err(Failure::failed(format!(
            "{}: none of the selected entries can be restored; nothing was changed",
            change.name
        )));
    }
    if done.entries == 0 && !selection.is_all() {
        return Err(Failure::failed(format!(
            "{}: no selected entry differs from commit {commit}; nothing was changed",
            change.name
        ))
        .hint(format!("use nra diff {} --at {commit} to list the differences; quote globs", change.name)));
    }
    for pattern in selection.unmatched() {
        let message = format!("no matching entry differs from commit {commit}");
        ui.console().warn(Warning::degraded(pattern, message));
    }
    let what =
        if done.entries == 0 { "attributes of the archive".into() } else { nra_text::counted(done.entries, "entry", "entries") };
    if args.change.message.is_empty() {
        let message = if selection.is_all() {
            format!("restored commit {commit}")
        } else {
            format!("restored {what} from commit {commit}")
        };
        change.writer.set_message(message)?;
    }
    change.finish(&format!("restored {what} from commit {commit}"), ui)
}

/// Returns the number of the commit before the newest one.
fn before_newest(change: &Change) -> CommandResult<u64> {
    match change.before() {
        Some(number) => Ok(number),
        None => Err(Failure::usage(format!("{}: cannot undo the first commit", change.name))),
    }
}
