//! `nra log`

use crate::archive_errors;
use crate::args::{ArchiveArg, ResourceArgs};
use crate::open_archive;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_format::archive::CommitInfo;

/// Arguments of `nra log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra log photos.nra
  nra log photos.nra --count 1 --json
  nra list photos.nra@3
  nra extract photos.nra --at 3 'train/**'")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// List only the newest N commits
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Lists commits, newest first.
/// Fails if the archive has no history.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let info = opened.archive.info();
    ui.list("log", "commits");
    if info.commit.is_none() {
        open_archive::report_remarks(&opened, ui);
        let why = if opened.archive.is_index_damaged() {
            "its commits cannot be found".to_owned()
        } else {
            format!("{} archives have no history", info.container)
        };
        return Err(Failure::failed(format!("{}: {why}", opened.name)));
    }
    let mut commits = 0;
    for commit in opened.archive.commits().take(args.count.unwrap_or(usize::MAX)) {
        let Some(commit) = archive_errors::intact(commit, ui.console())? else { break };
        commits += 1;
        print(&commit, ui)?;
    }
    ui.flush()?;
    open_archive::report_remarks(&opened, ui);
    ui.finish(Outcome::Done, "summary", &record! { commits })
}

fn print(commit: &CommitInfo, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        return ui.record(&record! {
            "commit" => number: commit.number,
            time: commit.time.map(nra_text::rfc3339),
            message: &commit.message,
            entries: commit.entries,
            files: commit.files,
            content_bytes: commit.content_bytes,
            added_bytes: commit.added_bytes,
        });
    }
    let time = commit.time.map_or_else(|| "-".to_owned(), nra_text::table_time);
    let entries = nra_text::counted(commit.entries, "entry", "entries");
    let (added, content) = (ui.column(commit.added_bytes), ui.column(commit.content_bytes));
    let line = format!("{:>4}  {time:<19}  +{added:<10}  {content:>10} in {entries}", commit.number);
    let message = commit.message.lines().next().unwrap_or_default();
    let separator = if message.is_empty() { "" } else { "  " };
    ui.line(format_args!("{line}{separator}{}", nra_text::harmless(message)))
}
