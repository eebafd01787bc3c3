//! `nra salvage`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_errors;
use crate::args::ResourceArgs;
use crate::change::check_different_file;
use crate::dry_run::DRY_RUN;
use crate::output;
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::{Destination, NewArchive, NraSink, Options, Sink, Source, UnreadableAsZero, convert};
use nra_format::Error;
use nra_format::archive::{Archive, OpenOptions, open_path};
use nra_format::nra::reader::{NraReader, open_for_salvage};
use nra_format::nra::writer::WriterOptions;
use nra_format::progress::{Severity, Warning};
use nra_format::source::{FileSource, ReadAt};
use nra_text::{self, ArchiveField, PathField};

/// Arguments of `nra salvage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra salvage broken.nra -o rescued.nra
  nra salvage half.nra.part -o rescued.nra --json")]
pub struct Args {
    /// Damaged archive or fragment of one
    archive: PathBuf,
    /// Archive to write
    ///
    /// It contains the newest readable state as a single commit. Encrypted archives stay encrypted,
    /// with the same keys.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// Show what would be recovered without writing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Set the commit message (default: the name of the damaged archive)
    #[arg(short, long, value_name = "TEXT", hide_short_help = true)]
    message: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Recovers readable entries from a damaged archive to a new one.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = nra_text::quoted(&args.archive);
    let mut options = OpenOptions::default();
    args.resources.apply(&mut options);
    let source: Arc<dyn ReadAt> = Arc::new(UnreadableAsZero(FileSource::open(&args.archive)?));
    // Keep the damaged archive: a later attempt may recover more.
    check_different_file(&args.archive, Some(&args.output), "choose another name to keep the damaged archive")?;
    let opened = args.keys.open(&name, |key| {
        options.key = key;
        open_for_salvage(Arc::clone(&source), &options)
    })?;
    let (archive, base) = opened.map_err(|error| explain(error, &args.archive, &name))?;
    if archive.entry_count() == 0 && archive.is_index_damaged() {
        return Err(Failure::damaged(format!("{name}: no recoverable entries found")));
    }
    let mut writer = WriterOptions::balanced();
    // Encrypted content stays encrypted.
    writer.encryption = archive.keyring().cloned();
    let defaults = Options::default();
    let recovery = Options {
        message: args.message.clone().unwrap_or_else(|| format!("salvaged from {}", args.archive.to_string_lossy())),
        threads: args.resources.threads(),
        memory_bytes: args.resources.memory.unwrap_or(defaults.memory_bytes),
        ..defaults
    };
    if args.dry_run {
        output::check_not_existing(&args.output, args.overwrite)?;
    }
    let destination = Destination::File { path: args.output.clone(), overwrite: args.overwrite };
    let sink = Sink::Archive(destination, NewArchive::Nra(NraSink { writer, ..NraSink::default() }));
    let sink = if args.dry_run { sink.dry_run() } else { sink };
    let progress = ui.progress("salvaging");
    let result = convert(Source::Damaged(&archive), sink, &recovery, &progress);
    let elapsed = progress.end();
    let stats = result.map_err(|error| output::explain(error, &args.output))?;
    let console = ui.console();
    let warn = |message: String, is_damage| {
        let severity = if is_damage { Severity::Damage } else { Severity::Remark };
        console.warn(Warning::new(severity, [], format!("{name}: {message}")));
    };
    if base > 0 {
        warn(format!("skipped {base} bytes before the archive"), true);
    } else if base < 0 {
        warn(format!("the first {} bytes of the archive are missing", base.unsigned_abs()), true);
    }
    for remark in archive.remarks() {
        warn(remark, archive.is_index_damaged());
    }
    let written = &stats.written;
    let mut line =
        format!("salvaged {}, {}", nra_text::counted(written.entries, "entry", "entries"), ui.size(written.content_bytes));
    if stats.damaged > 0 {
        line += &format!(", {} lost", nra_text::counted(stats.damaged, "entry", "entries"));
    }
    if stats.unreadable > 0 {
        line += &format!(", {} of the index unreadable", nra_text::counted(stats.unreadable, "part", "parts"));
    }
    line += &format!(", {}", nra_text::duration(elapsed));
    console.note(&if args.dry_run { format!("{line}: {DRY_RUN}") } else { line });
    let recovered = archive.is_index_damaged();
    let complete = stats.damaged == 0 && stats.unreadable == 0 && !recovered && base == 0;
    let output = PathField::new(args.output.as_os_str().as_encoded_bytes());
    let summary = record! {
        ..ArchiveField::new(&args.archive),
        output: output.path,
        output_b64: output.path_b64,
        dry_run: args.dry_run,
        index_rebuilt: recovered,
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        archive_bytes: written.archive_bytes,
        lost_entries: stats.damaged,
        unreadable_index_parts: stats.unreadable,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(if complete { Outcome::Done } else { Outcome::Damaged }, "summary", &summary)
}

/// Explains why nothing can be recovered: the file has another format, or no entry is left.
fn explain(error: Error, path: &Path, name: &str) -> Failure {
    if !matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. } | Error::NotAnArchive { .. }) {
        return archive_errors::explain(error, name);
    }
    match open_path(path, &OpenOptions::default()) {
        Ok(other) if NraReader::downcast(&*other).is_none() => {
            let container = other.container();
            Failure::damaged(format!("{name}: salvage supports only NRA 5 archives, not {container}"))
                .hint(format!("use nra convert --keep-going {name} OUT to keep readable entries"))
        }
        _ if matches!(error, Error::Corrupt { .. }) => {
            Failure::from(error).context(format!("{name}: no recoverable entries found"))
        }
        _ => archive_errors::explain(error, name),
    }
}
