//! `nra pack`

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dry_run;
use crate::inputs::InputArgs;
use crate::key_args::KeyArgs;
use crate::open_archive;
use crate::pack_args::{PackingArgs, RecoveryArgs};
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::{Destination, Format, NraSink, Sink, Source, Stats, convert, default_output};
use nra_format::container::Container;
use nra_format::crypt::{Argon2Cost, Keyring};
use nra_text::{self, ArchiveField};

/// Arguments of `nra pack`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra pack photos notes.txt -o both.nra -p
  nra pack data -x '*.tmp' --preset dense
  nra pack data -o - | ssh host 'cat > data.nra'")]
pub struct Args {
    #[command(flatten)]
    inputs: InputArgs,
    /// Archive to write; - for standard output
    ///
    /// The default is the name of the first input with .nra, next to it.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// List what would be packed without writing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not wait until the archive is on disk
    #[arg(long, hide_short_help = true)]
    no_sync: bool,
    /// Encrypt content, names and index
    ///
    /// nra prompts for the password unless an option or variable gives a password or key. -p, --password, --password-file and --key-file imply -e; variables do not. Encrypted archives always differ, even with --reproducible.
    #[arg(short, long)]
    encrypt: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    packing: PackingArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
}

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    archive: ArchiveField,
    entries: u64,
    files: u64,
    content_bytes: u64,
    deduplicated_bytes: u64,
    stored_bytes: u64,
    archive_bytes: u64,
    skipped: u64,
    seconds: f64,
}

/// Packs files and directories.
///
/// # Errors
///
/// If an input is missing or the archive cannot be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let inputs = args.inputs.inputs()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => default_output(&inputs)?,
    };
    let mut packing = args.packing.packing()?;
    packing.options.sync = !args.no_sync;
    packing.source.inputs = inputs;
    if args.dry_run {
        if !args.overwrite {
            crate::output::check_not_existing(&output)?;
        }
        let destination = Destination::File { path: output.clone(), overwrite: args.overwrite };
        let sink = Sink::Archive(destination, Format::Nra(NraSink::default()));
        return dry_run::list("pack", &output, Source::Walk(packing.source), sink, &packing.options, ui);
    }
    if args.encrypt || args.keys.is_given() {
        // Report a missing key before reading any input.
        let keyring = Keyring::create(&args.keys.for_new()?, Argon2Cost::default(), "")?;
        packing.writer.encryption = Some(keyring);
    }
    let to_stdout = output == Path::new("-");
    if to_stdout {
        ui.check_archive_output(args.overwrite)?;
    }
    if to_stdout && args.recovery.is_given() {
        return Err(Failure::usage("--recovery requires an archive in a file").hint("use -o FILE"));
    }
    if open_archive::remark_name(&output, Container::Nra5, ui) {
        ui.console().note("hint: use nra convert to write other archive formats");
    }
    let destination = if to_stdout {
        Destination::Stream(Box::new(std::io::stdout()))
    } else {
        Destination::File { path: output.clone(), overwrite: args.overwrite }
    };
    let progress = ui.progress("packing");
    let sink = Sink::Archive(destination, Format::Nra(NraSink { writer: packing.writer, ..NraSink::default() }));
    let result = convert(Source::Walk(packing.source), sink, &packing.options, &progress);
    progress.finish();
    let elapsed = progress.elapsed();
    drop(progress);
    let stats = result.map_err(|error| crate::output::explain(error, &output))?;
    ui.console().note(&summary_line(&stats, elapsed, ui));
    args.recovery.protect(&output, args.packing.memory(), ui)?;
    let written = stats.written;
    let outcome = if stats.skipped > 0 { Outcome::Degraded } else { Outcome::Done };
    let summary = Summary {
        archive: ArchiveField::new(&output),
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        deduplicated_bytes: written.deduplicated_bytes,
        stored_bytes: written.stored_bytes,
        archive_bytes: written.archive_bytes,
        skipped: stats.skipped,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}

/// Returns the summary: files, bytes in and out, ratio, deduplication, time.
fn summary_line(stats: &Stats, elapsed: std::time::Duration, ui: &Ui) -> String {
    let written = &stats.written;
    let mut line = format!(
        "packed {}, {} → {}",
        nra_text::counted(written.files, "file", "files"),
        ui.size(written.content_bytes),
        ui.size(written.archive_bytes),
    );
    if let Some(share) = nra_text::share(written.archive_bytes, written.content_bytes) {
        line += &format!(" ({share})");
    }
    if written.deduplicated_bytes > 0 {
        line += &format!(", {} deduplicated", nra_text::percent(written.deduplicated_bytes, written.content_bytes));
    }
    if stats.skipped > 0 {
        line += &format!(", {} skipped", nra_text::count(stats.skipped));
    }
    line + &format!(", {}", nra_text::duration(elapsed))
}
