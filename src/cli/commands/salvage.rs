//! `nra salvage`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::args::ResourceArgs;
use crate::changing::{DRY_RUN, refuse_same};
use crate::commands::pack::{self, refuse_existing};
use crate::keys::KeyArgs;
use crate::reading;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::pack::Destination;
use nra_convert::salvage::{Patient, salvage};
use nra_format::Error;
use nra_format::archive::{Archive, OpenOptions, open_path};
use nra_format::nra::reader::{NraReader, open_remains};
use nra_format::nra::writer::WriterOptions;
use nra_format::path::Quoted;
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
    /// Damaged archive, or what is left of one
    archive: PathBuf,
    /// Archive to write what still reads to
    ///
    /// It holds the newest state that can be found, as one commit. What was encrypted stays encrypted, with the same keys.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// Tell what would be taken and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Message of the commit; else where it was salvaged from
    #[arg(short, long, value_name = "TEXT", hide_short_help = true)]
    message: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// What was taken, for programs.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    archive: ArchiveField,
    output: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_b64: Option<String>,
    dry_run: bool,
    /// The index did not serve: entries were found by the blocks.
    recovered: bool,
    entries: u64,
    files: u64,
    content_bytes: u64,
    archive_bytes: u64,
    lost: u64,
    /// Parts of the index that do not read: nothing is known of their entries.
    unreadable: u64,
    seconds: f64,
}

/// Writes what reads of a damaged archive into a new one.
///
/// # Errors
///
/// When nothing reads, or the new archive can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = Quoted::new(args.archive.as_os_str().as_encoded_bytes()).to_string();
    let mut options = OpenOptions::default();
    args.resources.apply(&mut options);
    options.key = args.keys.to_open(&name)?;
    let source: Arc<dyn ReadAt> = Arc::new(Patient(FileSource::open(&args.archive)?));
    // The damaged one may hold what a later attempt brings out.
    refuse_same(&args.archive, Some(&args.output), "choose another name: what was not saved is gone with it")?;
    let opened = match open_remains(Arc::clone(&source), &options) {
        Err(Error::KeyNeeded) => match args.keys.when_needed(&name)? {
            Some(secret) => {
                options.key = Some(secret);
                open_remains(source, &options)
            }
            None => Err(Error::KeyNeeded),
        },
        opened => opened,
    };
    let (archive, base) = opened.map_err(|error| nothing(error, &args.archive, &name))?;
    if archive.entry_count() == 0 && archive.is_recovered() {
        return Err(Failure::damaged(format!("{name}: nothing that is left of it tells of an entry")));
    }
    let mut writer = WriterOptions::balanced();
    // What was secret stays so.
    writer.encryption = archive.keyring().cloned();
    writer.message = args.message.clone().unwrap_or_else(|| format!("salvaged from {}", args.archive.to_string_lossy()));
    writer.threads = args.resources.threads();
    writer.memory_bytes = args.resources.memory.unwrap_or(writer.memory_bytes);
    if args.dry_run && !args.overwrite {
        refuse_existing(&args.output)?;
    }
    let destination = if args.dry_run {
        Destination::Nowhere
    } else {
        Destination::File { path: args.output.clone(), overwrite: args.overwrite }
    };
    let progress = ui.progress("salvaging");
    let result = salvage(&archive, destination, writer, true, &progress);
    progress.finish();
    let elapsed = progress.elapsed();
    drop(progress);
    let stats = result.map_err(|error| pack::explain(error, &args.output))?;
    let console = ui.console();
    let warn = |message: String, is_damage| {
        let severity = if is_damage { Severity::Damage } else { Severity::Remark };
        console.warn(Warning::new(severity, [], format!("{name}: {message}")));
    };
    if base > 0 {
        warn(format!("{base} bytes in front of the archive were left out"), true);
    } else if base < 0 {
        warn(format!("the first {} bytes of the archive are missing", base.unsigned_abs()), true);
    }
    for remark in archive.remarks() {
        warn(remark, archive.is_recovered());
    }
    let written = &stats.written;
    let mut line =
        format!("salvaged {}, {}", nra_text::counted(written.entries, "entry", "entries"), ui.size(written.content_bytes));
    if stats.lost > 0 {
        line += &format!(", {} lost", nra_text::counted(stats.lost, "entry", "entries"));
    }
    if stats.unreadable > 0 {
        line += &format!(", {} of the index unreadable", nra_text::counted(stats.unreadable, "part", "parts"));
    }
    line += &format!(", {}", nra_text::duration(elapsed));
    console.note(&if args.dry_run { format!("{line}: {DRY_RUN}") } else { line });
    let recovered = archive.is_recovered();
    let whole = stats.lost == 0 && stats.unreadable == 0 && !recovered && base == 0;
    let output = PathField::new(args.output.as_os_str().as_encoded_bytes());
    let summary = Summary {
        archive: ArchiveField::new(&args.archive),
        output: output.path.into_owned(),
        output_b64: output.path_b64,
        dry_run: args.dry_run,
        recovered,
        entries: written.entries,
        files: written.files,
        content_bytes: written.content_bytes,
        archive_bytes: written.archive_bytes,
        lost: stats.lost,
        unreadable: stats.unreadable,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(if whole { Outcome::Done } else { Outcome::Damaged }, "summary", &summary)
}

/// Says why nothing comes out of a file: it is another kind of archive, or nothing is left.
fn nothing(error: Error, path: &Path, name: &str) -> Failure {
    if !matches!(error, Error::Corrupt { .. } | Error::Unsupported { .. } | Error::NotAnArchive { .. }) {
        return reading::explain(error, name);
    }
    match open_path(path, &OpenOptions::default()) {
        Ok(other) if NraReader::of(&*other).is_none() => {
            let format = &other.info().format;
            Failure::damaged(format!("{name}: salvaging works on archives of NRA 5, this is {format}"))
                .hint(format!("nra convert --keep-going {name} OUT takes what still reads"))
        }
        _ if matches!(error, Error::Corrupt { .. }) => {
            Failure::from(error).context(format!("{name}: nothing in it tells of an entry of an NRA 5 archive"))
        }
        _ => reading::explain(error, name),
    }
}
