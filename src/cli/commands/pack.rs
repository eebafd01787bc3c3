//! `nra pack`

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::inputs::InputArgs;
use crate::keys::KeyArgs;
use crate::packing::{PackingArgs, RecoveryArgs};
use crate::reading;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::pack::{Destination, PackStats, default_output, pack, survey};
use nra_format::Error;
use nra_format::container::Container;
use nra_format::crypt::{Argon2Cost, Keyring};
use nra_format::entry::Kind;
use nra_format::path::{EntryPath, Quoted};
use nra_format::progress::Monitor;
use nra_text::{self, ArchiveField, PathField};

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
    /// Archive to write; - for standard output (default: INPUT.nra)
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

/// A path to pack as JSON.
#[derive(Debug, Serialize)]
struct EntryRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    kind: &'static str,
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

/// The result of a dry run as JSON.
#[derive(Debug, Serialize)]
struct DryRun {
    #[serde(flatten)]
    archive: ArchiveField,
    entries: u64,
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
    let mut options = args.packing.options()?;
    options.sync = !args.no_sync;
    if args.dry_run {
        if !args.overwrite {
            check_not_existing(&output)?;
        }
        return list("pack", &output, &mut |progress, visit| survey(&inputs, &output, &options, progress, visit), ui);
    }
    if args.encrypt || args.keys.is_given() {
        // Report a missing key before reading any input.
        let keyring = Keyring::create(&args.keys.for_new()?, Argon2Cost::default(), "")?;
        options.writer.encryption = Some(keyring);
    }
    let to_stdout = output == Path::new("-");
    if to_stdout {
        ui.check_archive_output(args.overwrite)?;
    }
    if to_stdout && args.recovery.is_given() {
        return Err(Failure::usage("--recovery requires an archive in a file").hint("use -o FILE"));
    }
    if reading::remark_name(&output, Container::Nra5, ui) {
        ui.console().note("hint: use nra convert to write other archive formats");
    }
    let destination = if to_stdout {
        Destination::Stream(Box::new(std::io::stdout()))
    } else {
        Destination::File { path: output.clone(), overwrite: args.overwrite }
    };
    let progress = ui.progress("packing");
    let result = pack(&inputs, destination, &options, &progress);
    progress.finish();
    let elapsed = progress.elapsed();
    drop(progress);
    let stats = result.map_err(|error| explain(error, &output))?;
    ui.console().note(&summary_line(&stats, elapsed, ui));
    args.recovery.protect(&output, args.packing.memory(), ui)?;
    let written = stats.written;
    let outcome = if stats.left_out > 0 { Outcome::Degraded } else { Outcome::Done };
    let summary = Summary {
        archive: ArchiveField::new(&output),
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        deduplicated_bytes: written.deduplicated_bytes,
        stored_bytes: written.stored_bytes,
        archive_bytes: written.archive_bytes,
        skipped: stats.left_out,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}

/// Checks that the output does not exist, as writing it would.
///
/// # Errors
///
/// If there is a file of that name.
pub fn check_not_existing(output: &Path) -> CommandResult<()> {
    if output == Path::new("-") || !std::fs::metadata(output).is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let exists = std::io::ErrorKind::AlreadyExists.into();
    Err(explain(Error::io("create", output.as_os_str().as_encoded_bytes(), exists), output))
}

/// Receives each entry that would be stored.
pub type Visit<'a> = &'a mut dyn FnMut(&EntryPath, Kind) -> Result<(), Error>;

/// Lists the entries that `command` would store in `output`, as enumerated by `survey`.
///
/// # Errors
///
/// As `survey` does.
pub fn list(
    command: &'static str,
    output: &Path,
    survey: &mut dyn FnMut(&dyn Monitor, Visit<'_>) -> Result<(), Error>,
    ui: &mut Ui,
) -> CommandResult {
    ui.list(command, "entries");
    let mut entries = 0;
    let mut failure = None;
    let progress = ui.progress("scanning");
    let result = survey(&progress, &mut |path, kind| {
        entries += 1;
        let bytes = path.as_bytes();
        let printed = if ui.is_json() {
            ui.record(&EntryRecord { record: "entry", path: PathField::new(bytes), kind: nra_text::kind(kind) })
        } else {
            ui.name_line("", bytes, "")
        };
        printed.map_err(|error| {
            failure = Some(error);
            Error::Cancelled
        })
    });
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    result?;
    ui.finish(Outcome::Done, "summary", &DryRun { archive: ArchiveField::new(output), entries })
}

/// Converts an error of writing `output` into a failure.
pub fn explain(error: Error, output: &Path) -> Failure {
    let exists = matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists);
    if matches!(error, Error::Cancelled) {
        let failure = Failure::from(error);
        return if output == Path::new("-") { failure } else { failure.hint(format!("{} was not written", shown(output))) };
    }
    let own = matches!(&error, Error::Io { action: "pack", .. });
    let failure = Failure::from(error);
    if own {
        return failure.hint("use -o to choose another name for the archive");
    }
    if exists {
        return failure.hint(format!("use -f to replace {}, or -o for another name", shown(output)));
    }
    failure
}

fn shown(path: &Path) -> String {
    Quoted::new(path.as_os_str().as_encoded_bytes()).to_string()
}

/// Returns the summary: files, bytes in and out, ratio, deduplication, time.
fn summary_line(stats: &PackStats, elapsed: std::time::Duration, ui: &Ui) -> String {
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
    if stats.left_out > 0 {
        line += &format!(", {} skipped", nra_text::count(stats.left_out));
    }
    line + &format!(", {}", nra_text::duration(elapsed))
}
