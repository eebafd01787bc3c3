//! `nra revert`

use crate::args::PatternArgs;
use crate::changing::{Change, ChangeArgs};
use crate::commands::diff;
use crate::inputs;
use crate::reading;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_convert::change::revert;
use nra_convert::diff::Difference;
use nra_format::nra::changes::Change as Step;
use nra_format::progress::Warning;

/// What is not matched stays as it is.
const PATTERN_HELP: &str =
    "Path, directory (with all below it) or glob of what is made as it was: what was added there since goes; all if left out";

const PATTERN_LONG_HELP: &str = "Path, directory (with all below it) or glob of what is made as it was: what was added there since goes; all if left out

A path from the top of the archive. In globs * and ? stop at /, ** does not; a glob without / matches at any depth. What is in the way and was not named stays, which is told.";

/// Arguments of `nra revert`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("archive", |archive| archive.help("Archive to change; A@N means commit N of A")), mut_arg("patterns", |patterns| patterns.help(PATTERN_HELP).long_help(PATTERN_LONG_HELP)), after_help = "\
Examples:
  nra revert photos.nra
  nra revert photos.nra --at 3 -n
  nra revert photos.nra@3 'train/**'")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Commit to return to (nra log lists them); the one before the newest if left out
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    #[command(flatten)]
    patterns: PatternArgs,
}

/// Makes an earlier commit the newest state again, by one more commit.
///
/// # Errors
///
/// When the archive can't be changed, has no such commit, or nothing of what was named differs.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let selection = inputs::selection(&args.patterns)?;
    let (archive, at) = reading::locate(&args.change.archive, args.at)?;
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
    if done.entries == 0 && done.left_out > 0 {
        return Err(Failure::failed(format!("{}: nothing that was named can be brought back; nothing was changed", change.name)));
    }
    if done.entries == 0 && !selection.is_all() {
        return Err(Failure::failed(format!(
            "{}: nothing that was named differs from commit {commit}; nothing was changed",
            change.name
        ))
        .hint(format!("nra diff {} --at {commit} shows what does; quote globs", change.name)));
    }
    for pattern in selection.unmatched() {
        let message = format!("nothing that it matches differs from commit {commit}");
        ui.console().warn(Warning::degraded(pattern, message));
    }
    let what =
        if done.entries == 0 { "attributes of the archive".into() } else { nra_text::counted(done.entries, "entry", "entries") };
    if args.change.message.is_empty() {
        let whole = if selection.is_all() { String::new() } else { format!("{what} ") };
        change.writer.set_message(format!("{whole}back to commit {commit}"))?;
    }
    change.finish(&format!("brought {what} back to commit {commit}"), ui)
}

/// Returns the number of the commit before the newest one.
fn before_newest(change: &Change) -> CommandResult<u64> {
    match change.before() {
        Some(number) => Ok(number),
        None => Err(Failure::usage(format!("{}: there is no commit before the newest", change.name))),
    }
}
