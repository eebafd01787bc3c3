//! `nra add`

use std::path::PathBuf;

use crate::change::{self, FinishedCommit, writable_path};
use crate::dry_run;
use crate::inputs::InputArgs;
use crate::pack_args::PackingArgs;
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::{CommitSink, Sink, Source, convert};
use nra_text::{self, ArchiveField};

/// Arguments of `nra add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra add photos.nra notes.txt --as docs
  nra add photos.nra photos --update -m 'second week'
  nra add photos.nra -C .. new.jpg -n")]
pub struct Args {
    /// Archive to change
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Skip files with unchanged size and time
    #[arg(short, long)]
    update: bool,
    /// Replace directories by files and files by directories
    ///
    /// Replacing a directory removes everything below it.
    #[arg(short = 'f', long, alias = "force", hide_short_help = true)]
    overwrite: bool,
    /// List what would be added without changing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

/// Hint about entries of another type at the same path.
const CONFLICT_HINT: &str = "use -f to replace directories by files and files by directories";

/// Adds files and directories to an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = writable_path(&args.archive)?;
    let name = nra_text::quoted(&path);
    if args.inputs.rules.is_empty() {
        return Err(
            Failure::usage("nothing to add was named").hint(format!("use nra add {name} FILE to add a file or directory"))
        );
    }
    let inputs = args.inputs.inputs()?;
    let mut packing = args.packing.packing()?;
    packing.source.inputs = inputs;
    packing.writer.encryption = args.keys.unlock_file(&path)?;
    let commit = CommitSink { writer: packing.writer, update: args.update, overwrite: args.overwrite };
    let sink = Sink::Commit(path.clone(), commit);
    if args.dry_run {
        return dry_run::list("add", &path, Source::Walk(packing.source), sink, &packing.options, ui);
    }
    let before = change::PriorState::at(&path).map_err(|error| change::explain(error, &name))?;
    let progress = ui.progress("adding");
    let result = convert(Source::Walk(packing.source), sink, &packing.options, &progress);
    let elapsed = progress.end();
    let stats = result.map_err(|error| before.explain(error, &path, &name))?;
    let written = stats.written;
    let changed = written.added + written.replaced + written.removed > 0;
    if !changed && stats.unchanged == 0 && stats.conflicts > 0 {
        return Err(Failure::failed(format!("{name}: nothing was added")).hint(CONFLICT_HINT));
    }
    let mut what = format!("added {}", nra_text::counted(written.added, "entry", "entries"));
    let parts = [
        (written.replaced, "replaced ", ""),
        (written.removed, "removed ", ""),
        (stats.unchanged, "", " unchanged"),
        (stats.skipped, "", " skipped"),
    ];
    for (count, before, after) in parts.into_iter().filter(|(count, ..)| *count > 0) {
        what += &format!(", {before}{}{after}", nra_text::count(count));
    }
    let commit = if changed { written.commit - 1 } else { written.commit };
    FinishedCommit { name: &name, before: commit, is_protected: before.is_protected, is_revertible: true, dry_run: false }
        .report(&what, &written, ui);
    if stats.conflicts > 0 {
        ui.console().note(&format!("hint: {CONFLICT_HINT}"));
    }
    let outcome = if stats.skipped > 0 { Outcome::Degraded } else { Outcome::Done };
    let summary = record! {
        ..ArchiveField::new(&path),
        commit: written.commit,
        added: written.added,
        replaced: written.replaced,
        removed: written.removed,
        unchanged: stats.unchanged,
        skipped: stats.skipped,
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        deduplicated_bytes: written.deduplicated_bytes,
        archive_bytes: written.archive_bytes,
        added_bytes: written.added_bytes,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}
