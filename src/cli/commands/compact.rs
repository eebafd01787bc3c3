//! `nra compact`

use std::path::PathBuf;

use crate::args::ResourceArgs;
use crate::change::{RewriteArgs, writable_path};
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_convert::compact::{Compaction, compact, plan};
use nra_format::nra::writer::WriterOptions;
use nra_text::{self, ArchiveField};

/// Arguments of `nra compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra compact photos.nra -n
  nra compact photos.nra
  nra compact photos.nra --keep 3 -o small.nra")]
pub struct Args {
    /// Archive to compact
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    #[command(flatten)]
    rewrite: RewriteArgs,
    /// Keep the newest N commits, renumbered from 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep: u64,
    /// Show how much would be saved without writing anything
    ///
    /// Archives of up to 64 MiB, or a quarter of --memory, are compacted in memory to get an exact number. For larger ones, the number does not include the index.
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Removes old commits and the data that only they use.
/// On error, the archive stays unchanged.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = writable_path(&args.archive)?;
    let target = args.rewrite.target(&path, "compact")?;
    let name = nra_text::quoted(&path);
    let mut options = WriterOptions::balanced();
    options.threads = args.resources.threads();
    options.memory_bytes = args.resources.memory.unwrap_or(options.memory_bytes);
    options.encryption = args.keys.unlock_file(&path)?;
    let progress = ui.progress("compacting");
    let done = if args.dry_run {
        plan(&path, args.keep, &options, &progress).map(Some)
    } else {
        compact(&path, args.keep, None, &target, &options, &progress)
    };
    drop(progress);
    let done = done.map_err(|error| args.rewrite.explain(error, &name))?;
    let line = match &done {
        Some(done) if args.dry_run && done.dropped_commits == 0 && done.after_bytes >= done.before_bytes => {
            format!("{name}: already compact")
        }
        None => format!("{name}: already compact"),
        Some(done) => summary_line(done, args, &name, ui),
    };
    ui.console().note(&line);
    let written = done.is_some() && !args.dry_run;
    let done = done.unwrap_or_default();
    let summary = record! {
        ..ArchiveField::new(args.rewrite.output.as_ref().unwrap_or(&path)),
        dry_run: args.dry_run,
        written,
        commits: done.commits,
        removed_commits: done.dropped_commits,
        before_bytes: done.before_bytes,
        after_bytes: done.after_bytes,
        moved_blocks: done.moved_blocks,
        repacked_blocks: done.repacked_blocks,
    };
    ui.finish(Outcome::Done, "summary", &summary)
}

fn summary_line(done: &Compaction, args: &Args, name: &str, ui: &Ui) -> String {
    let commits = nra_text::counted(done.dropped_commits, "commit", "commits");
    let (before, after) = (ui.size(done.before_bytes), ui.size(done.after_bytes));
    let kept = nra_text::count(done.commits);
    if args.dry_run {
        let about = if done.estimated { "about " } else { "" };
        return format!("{name}: {before} → {about}{after}; would remove {commits} and keep {kept}");
    }
    let saved = nra_text::percent(done.before_bytes.saturating_sub(done.after_bytes), done.before_bytes);
    let undo = match (&args.rewrite.output, done.dropped_commits) {
        (Some(_), _) => format!("; {name} is unchanged"),
        (None, 0) => String::new(),
        (None, _) => " permanently".to_owned(),
    };
    format!("{name}: {before} → {after} ({saved} saved); removed {commits}{undo}, kept {kept}")
}
