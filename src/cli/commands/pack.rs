//! `nra pack`

use std::path::PathBuf;

use crate::dry_run;
use crate::inputs::InputArgs;
use crate::open_archive;
use crate::output;
use crate::pack_args::{PackingArgs, RecoveryArgs};
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::{NewArchive, NraSink, Sink, Source, Stats, convert, pack_output};
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

/// Packs files and directories.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let inputs = args.inputs.inputs()?;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => pack_output(&inputs)?,
    };
    let mut packing = args.packing.packing()?;
    packing.options.sync = !args.no_sync;
    packing.source.inputs = inputs;
    let destination = output::destination(&output, args.overwrite);
    if args.dry_run {
        output::check_not_existing(&output, args.overwrite)?;
        let sink = Sink::Archive(destination, NewArchive::Nra(NraSink::default()));
        return dry_run::list("pack", &output, Source::Walk(packing.source), sink, &packing.options, ui);
    }
    if args.encrypt || args.keys.is_given() {
        // Report a missing key before reading any input.
        let keyring = Keyring::create(&args.keys.for_new_archive()?, Argon2Cost::default(), "")?;
        packing.writer.encryption = Some(keyring);
    }
    if output::is_stdout(&output) {
        ui.check_archive_output(args.overwrite)?;
        if args.recovery.is_given() {
            return Err(Failure::usage("--recovery requires an archive in a file").hint("use -o FILE"));
        }
    }
    if open_archive::warn_extension_mismatch(&output, Container::Nra5, ui) {
        ui.console().note("hint: use nra convert to write other archive formats");
    }

    let progress = ui.progress("packing");
    let sink = Sink::Archive(destination, NewArchive::Nra(NraSink { writer: packing.writer, ..NraSink::default() }));
    let result = convert(Source::Walk(packing.source), sink, &packing.options, &progress);
    let elapsed = progress.end();
    let stats = result.map_err(|error| output::explain(error, &output))?;
    ui.console().note(&summary_line(&stats, elapsed, ui));
    args.recovery.protect(&output, args.packing.memory(), ui)?;
    let written = stats.written;
    let outcome = if stats.skipped > 0 { Outcome::Degraded } else { Outcome::Done };
    let summary = record! {
        ..ArchiveField::new(&output),
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
    line + &ui::summary_end(stats, elapsed)
}
