//! `nra log`

use serde::Serialize;

use crate::archive_errors;
use crate::args::{ArchiveArg, ResourceArgs};
use crate::open_archive;
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

/// A commit as JSON.
#[derive(Debug, Serialize)]
struct CommitRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    message: &'a str,
    entries: u64,
    files: u64,
    content_bytes: u64,
    added_bytes: u64,
}

/// The final count as JSON.
#[derive(Debug, Default, Serialize)]
struct Summary {
    commits: u64,
}

/// Lists commits, newest first.
///
/// # Errors
///
/// If the archive cannot be read or has no history.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let opened = open_archive::open(&args.archive, &args.resources, ui)?;
    let info = opened.archive.info();
    ui.list("log", "commits");
    if info.commit.is_none() {
        open_archive::remark(&opened, ui);
        let why = if opened.archive.is_index_damaged() {
            "its commits cannot be found".to_owned()
        } else {
            format!("{} archives have no history", info.container)
        };
        return Err(Failure::failed(format!("{}: {why}", opened.name)));
    }
    let mut summary = Summary::default();
    for commit in opened.archive.commits().take(args.count.unwrap_or(usize::MAX)) {
        let Some(commit) = archive_errors::intact(commit, ui.console())? else { break };
        summary.commits += 1;
        print(&commit, ui)?;
    }
    ui.flush()?;
    open_archive::remark(&opened, ui);
    ui.finish(Outcome::Done, "summary", &summary)
}

fn print(commit: &CommitInfo, ui: &mut Ui) -> CommandResult<()> {
    if ui.is_json() {
        return ui.record(&CommitRecord {
            record: "commit",
            number: commit.number,
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
