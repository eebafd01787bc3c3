//! `nra add`

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::args::ResourceArgs;
use crate::cli::changing::{self, Before, newest};
use crate::cli::commands::pack;
use crate::cli::inputs::InputArgs;
use crate::cli::keys::KeyArgs;
use crate::cli::packing::PackingArgs;
use crate::cli::reading;
use crate::cli::report::{CommandResult, Outcome};
use crate::cli::text;
use crate::cli::ui::{self, Ui};
use crate::convert::pack::add;
use crate::format::path::Quoted;
use crate::format::source::FileSource;

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
    /// Skip files whose size and time the archive has
    #[arg(short, long)]
    update: bool,
    /// List what would be added and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    keys: KeyArgs,
}

/// What was added, for programs.
#[derive(Debug, Serialize)]
struct Summary {
    archive: String,
    commit: u64,
    added: u64,
    replaced: u64,
    unchanged: u64,
    left_out: u64,
    entries: u64,
    files: u64,
    content_bytes: u64,
    deduplicated_bytes: u64,
    archive_bytes: u64,
    added_bytes: u64,
    seconds: f64,
}

/// Adds files and directories to an archive.
///
/// # Errors
///
/// When an input is missing or the archive can't be changed.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let inputs = args.inputs.inputs()?;
    let path = newest(&args.archive)?;
    let name = Quoted::new(path.as_os_str().as_encoded_bytes()).to_string();
    let mut options = args.packing.options()?;
    if args.dry_run {
        let resources = ResourceArgs::default();
        let known = args.update.then(|| reading::open_at(&path, None, &args.keys, &resources)).transpose()?;
        return pack::list("add", &inputs, &path, &options, known.as_ref().map(|known| &*known.archive), ui);
    }
    options.writer.encryption = args.keys.unlock(&path)?;
    let before = FileSource::open(&path).and_then(|file| Before::of(&file)).map_err(|error| changing::explain(error, &name))?;
    let progress = ui.progress("adding");
    let result = add(&inputs, &path, &options, args.update, &progress);
    progress.finish();
    let elapsed = progress.elapsed();
    drop(progress);
    let stats = result.map_err(|error| before.explain(error, &path, &name))?;
    let written = stats.written;
    let mut what = format!("added {}", text::counted(written.added, "entry", "entries"));
    if written.replaced > 0 {
        what += &format!(", replaced {}", text::count(written.replaced));
    }
    if stats.unchanged > 0 {
        what += &format!(", {} unchanged", text::count(stats.unchanged));
    }
    if stats.left_out > 0 {
        what += &format!(", {} left out", text::count(stats.left_out));
    }
    let changed = written.added + written.replaced + written.removed > 0;
    let last = if changed { written.commit - 1 } else { written.commit };
    changing::say(&what, &name, &written, last, &before, ui);
    let outcome = if stats.left_out > 0 { Outcome::Degraded } else { Outcome::Done };
    let summary = Summary {
        archive: path.to_string_lossy().into_owned(),
        commit: written.commit,
        added: written.added,
        replaced: written.replaced,
        unchanged: stats.unchanged,
        left_out: stats.left_out,
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        deduplicated_bytes: written.deduplicated_bytes,
        archive_bytes: written.archive_bytes,
        added_bytes: before.growth(&written),
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}
