//! `nra convert`

mod targets;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use self::targets::{title, to_nra4, to_shard, to_tar, to_zip};
use crate::args::{ContainerArgs, KeepArgs, ResourceArgs};
use crate::changing::{DRY_RUN, same_file};
use crate::commands::pack;
use crate::keys::{self, KeyArgs};
use crate::opening::Watched;
use crate::packing::{self, CompressionArgs, OwnerArgs, RecoveryArgs};
use crate::progress::Progress;
use crate::reading;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use nra_convert::kinds::{Kind, default_output, extensions, kind_of, unwritten};
use nra_convert::pack::{Destination, OwnerPolicy};
use nra_convert::transfer::{Fidelity, Input, Limits, PlainInput, TransferOptions, TransferStats, reads_in_order, transfer};
use nra_format::Error;
use nra_format::archive::{self, Archive, OpenOptions, misnamed, open_path, open_stream};
use nra_format::codec::Codec;
use nra_format::crypt::{Argon2Cost, Keyring, Secret};
use nra_format::error::{STANDARD_INPUT, Subject};
use nra_format::path::Quoted;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::source::{FileSource, ReadAt};
use nra_text::{self, ArchiveField, parse_size};

/// Arguments of `nra convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra convert data.tar.gz
  nra convert data.tar.zst data.nra --preset random
  nra convert data.nra data.tar.zst
  nra convert data.nra data.zip
  nra convert - -o data.nra < data.tgz")]
pub struct Args {
    /// Archive to convert, of any kind that is read; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Archive to write, - is standard output; else IN with .nra
    ///
    /// The default lies beside IN; endings such as .tar.gz go whole. The ending tells the kind, if it is a known one; otherwise .nra is written.
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// The same as OUT
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "output", hide_short_help = true)]
    output_option: Option<PathBuf>,
    /// Kind of OUT, whatever its name: zip, tar.zst …
    ///
    /// nra, nra4 (for versions before 5), zip, shard, mosh, smpl, gemm, wshard, gshard, tshard, cshard, tar, tar.gz, tar.zst, tar.xz, tar.bz2, tar.lz4.
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    to: Option<Kind>,
    /// Whose Shard files OUT is to be like, byte for byte: go, python; else those IN came from
    #[arg(long, value_name = "NAME", value_enum, hide_short_help = true)]
    dialect: Option<DialectName>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// Tell what would come of it and write nothing
    #[arg(short = 'n', long, hide_short_help = true)]
    dry_run: bool,
    /// Convert IN as it was at commit N (nra log lists them); IN@N does, too
    #[arg(long, value_name = "N", hide_short_help = true)]
    at: Option<u64>,
    /// Keep what is not hurt when IN is damaged
    #[arg(long)]
    keep_going: bool,
    /// Message of the commit; in tar and zip archives, their comment, in Shard files the description
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    message: String,
    /// Don't wait until the archive is safely on disk
    #[arg(long, hide_short_help = true)]
    no_sync: bool,
    /// Encrypt OUT, with the password or key that opens IN or with a new password
    #[arg(short, long, hide_short_help = true)]
    encrypt: bool,
    #[command(flatten)]
    container: ContainerArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    compression: CompressionArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Programs that write Shard files.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum DialectName {
    /// The reference of the format
    Go,
    /// The published Python package
    Python,
}

/// What is kept of each entry.
#[derive(Debug, clap::Args)]
struct FidelityArgs {
    /// Same input and options, same bytes: no owner, no time of converting; obeys SOURCE_DATE_EPOCH
    #[arg(long, hide_short_help = true)]
    reproducible: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    keep: KeepArgs,
}

/// What the input may grow to.
#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Stop when IN has more content than SIZE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    limit_size: Option<u64>,
    /// Stop when IN has more than N entries (default: 100,000,000)
    #[arg(long, value_name = "N", hide_short_help = true)]
    limit_entries: Option<u64>,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    Kind::named(text).ok_or_else(|| format!("nra writes {}", written()))
}

/// Lists the endings of what is written.
fn written() -> String {
    extensions().collect::<Vec<_>>().join(" ")
}

/// Tells the kind that the name of the output asks for.
fn kind_by_name(output: &Path) -> CommandResult<Kind> {
    let Some(extension) = unwritten(output) else { return Ok(kind_of(output).unwrap_or(Kind::Nra)) };
    let shown = Quoted::new(output.as_os_str().as_bytes());
    let failure = Failure::usage(format!("cannot write {shown}: nra makes nothing that is called {extension}"));
    Err(failure.hint(format!("it writes {}", written())).hint("--to KIND writes that kind, whatever the name"))
}

/// What was converted.
#[derive(Debug, Default, Serialize)]
struct Report {
    entries: u64,
    files: u64,
    input_bytes: u64,
    content_bytes: u64,
    deduplicated_bytes: u64,
    archive_bytes: u64,
    left_out: u64,
    #[serde(skip)]
    incomplete: bool,
}

impl From<TransferStats> for Report {
    fn from(stats: TransferStats) -> Self {
        let written = stats.written;
        Self {
            entries: written.entries,
            files: written.files,
            input_bytes: stats.input_bytes,
            content_bytes: written.content_bytes,
            deduplicated_bytes: written.deduplicated_bytes,
            archive_bytes: written.archive_bytes,
            left_out: stats.left_out,
            incomplete: stats.incomplete,
        }
    }
}

/// What was converted, for programs.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    archive: ArchiveField,
    dry_run: bool,
    #[serde(flatten)]
    report: Report,
    seconds: f64,
}

/// Converts an archive.
///
/// # Errors
///
/// When the input can't be read or the archive can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let (in_path, commit) = reading::locate(&args.input, args.at)?;
    let from_stdin = in_path == Path::new("-");
    let output = match args.output.as_ref().or(args.output_option.as_ref()) {
        Some(output) => output.clone(),
        None if from_stdin => {
            return Err(Failure::usage("an archive from standard input needs a name for the output").hint("-o FILE gives it"));
        }
        None => default_output(&in_path, commit),
    };
    let kind = args.to.map_or_else(|| kind_by_name(&output), Ok)?;
    let to_stdout = output == Path::new("-");
    if to_stdout && !args.dry_run {
        ui.refuse_archive(args.overwrite)?;
    }
    if !to_stdout && same_file(&in_path, &output) {
        let shown = Quoted::new(output.as_os_str().as_bytes()).to_string();
        return Err(Failure::usage(format!("{shown} is the input")).hint("-o FILE chooses another output"));
    }
    if args.dry_run && !args.overwrite {
        pack::refuse_existing(&output)?;
    }
    let mut options = options(args, kind)?;
    options.open.commit = commit;
    let name = if from_stdin { STANDARD_INPUT.to_owned() } else { Quoted::new(args.input.as_os_str().as_bytes()).to_string() };
    let input = if from_stdin {
        Input::Stream(Box::new(reading::awaited_stdin()?), Subject::StandardInput)
    } else {
        Input::File(in_path.clone())
    };
    if args.encrypt && !matches!(kind, Kind::Nra | Kind::Nra4) {
        return Err(Failure::usage("only .nra archives can be encrypted"));
    }
    if args.dialect.is_some() && !matches!(kind, Kind::Shard(_)) {
        return Err(Failure::usage("--dialect is for Shard files").hint("--to shard writes one, whatever its name"));
    }
    if to_stdout && let Some(what) = needs_file(kind) {
        let failure = Failure::usage(format!("{what} can't go to standard output: its first bytes are written last"));
        return Err(failure.hint("-o FILE writes it to a file"));
    }
    if args.recovery.is_given() && (to_stdout || kind != Kind::Nra) {
        return Err(Failure::usage("recovery data needs an .nra archive in a file").hint("-o FILE.nra writes to one"));
    }
    tell_idle(args, kind, ui);
    let is_encrypted = !from_stdin && keys::is_encrypted(&in_path);
    // What is to encrypt is typed twice, also where it opens something before.
    options.open.key = if args.encrypt && args.keys.asks() { Some(args.keys.for_new()?) } else { args.keys.to_open(&name)? };
    if is_encrypted && options.open.key.is_none() {
        options.open.key = args.keys.when_needed(&name)?;
    }
    let source = Source { name: &name, path: (!from_stdin).then_some(&in_path), open: options.open.clone() };
    let mut earlier_key = None;
    if args.encrypt {
        let secret = options.open.key.clone().map_or_else(|| args.keys.for_new(), Ok)?;
        match (kind, secret) {
            (Kind::Nra4, Secret::Raw(key)) => earlier_key = Some(key),
            (Kind::Nra4, Secret::Password(_)) => {
                let failure = Failure::usage("versions before 5 know keys, not passwords");
                return Err(failure.hint("--key-file FILE or NRA_ENCRYPTION_KEY gives a key"));
            }
            (_, secret) => options.writer.encryption = Some(Keyring::create(&secret, Argon2Cost::default(), "")?),
        }
    } else if args.keys.is_given()
        && kind == Kind::Nra
        && let Some(secret) = &options.open.key
    {
        // As with `pack`, where there is nothing else that it could be for. What was typed once may be mistyped, and nobody would open what comes of it.
        options.plain = if args.keys.asks() {
            PlainInput::Refused
        } else {
            PlainInput::Encrypted(Keyring::create(secret, Argon2Cost::default(), "")?)
        };
    }
    let destination = if args.dry_run {
        Destination::Nowhere
    } else if to_stdout {
        Destination::Stream(Box::new(std::io::stdout()))
    } else {
        Destination::File { path: output.clone(), overwrite: args.overwrite }
    };
    let input = if kind == Kind::Nra {
        input
    } else {
        let opened = match input {
            Input::File(path) => open_file(&path, &options, ui),
            input => open_input(input, &options.open),
        };
        let opened = opened.map_err(|error| explain(error, &source, &output, args.keep_going))?;
        if args.keys.is_given() && !args.encrypt && !opened.info().encrypted {
            let message = format!("{name}: it is not encrypted; the key was not used");
            ui.console().warn(Warning::remark([], message));
        }
        Input::Archive(opened)
    };
    let progress = ui.progress("converting");
    let monitor = &Of { progress: &progress, input: &name };
    let result = match kind {
        Kind::Nra => transfer(input, destination, &options, monitor).map(Report::from),
        Kind::Nra4 => {
            let title = title(args, &output);
            to_nra4(title, earlier_key, input, destination, &options, monitor)?
        }
        Kind::Tar(compression) => to_tar(args, input, destination, compression, &options, monitor)?,
        Kind::Shard(role) => to_shard(args, role, input, destination, &options, monitor)?,
        Kind::Zip => to_zip(args, input, destination, &options, monitor)?,
    };
    progress.finish();
    let elapsed = progress.elapsed();
    drop(progress);
    let report = result.map_err(|error| explain(error, &source, &output, args.keep_going))?;
    let line = summary_line(&report, elapsed, ui);
    ui.console().note(&if args.dry_run { format!("{line}: {DRY_RUN}") } else { line });
    if kind == Kind::Nra && !args.compression.is_given() && has_grown(&report) {
        ui.console().note("IN was compressed more densely; -l 19 or --best makes OUT smaller");
    }
    if !args.dry_run {
        args.recovery.protect(&output, args.resources.memory, ui)?;
    }
    let outcome = match (report.incomplete, report.left_out) {
        (true, _) => Outcome::Damaged,
        (false, 0) => Outcome::Done,
        (false, _) => Outcome::Degraded,
    };
    let summary = Summary { archive: ArchiveField::new(&output), dry_run: args.dry_run, report, seconds: ui::seconds(elapsed) };
    ui.finish(outcome, "summary", &summary)
}

/// Says of which archive a warning is that is about none of its entries.
struct Of<'a> {
    progress: &'a Progress,
    input: &'a str,
}

impl Monitor for Of<'_> {
    fn add(&self, counter: Counter, amount: u64) {
        self.progress.add(counter, amount);
    }
    fn expect(&self, counter: Counter, amount: u64) {
        self.progress.expect(counter, amount);
    }
    fn current(&self, path: &[u8]) {
        self.progress.current(path);
    }
    fn warn(&self, mut warning: Warning) {
        if warning.path.is_empty() {
            warning.message = format!("{}: {}", self.input, warning.message);
        }
        self.progress.warn(warning);
    }
    fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }
}

/// Opens a file to be read by its index, while it is shown how far that is, and says what is wrong with its name.
fn open_file(path: &Path, options: &TransferOptions, ui: &Ui) -> Result<Arc<dyn Archive>, Error> {
    let progress = Arc::new(ui.opening());
    let archive: Arc<dyn Archive> = Arc::from(archive::settled(path, &mut || {
        archive::open(Arc::new(Watched::new(FileSource::open(path)?, &progress)), &options.open)
    })?);
    let name = path.as_os_str().as_bytes();
    if let Some(message) = misnamed(name, &archive.info().format) {
        progress.warn(Warning::remark(name, message));
    }
    Ok(archive)
}

/// Opens what is no file to be read by its index.
fn open_input(input: Input, options: &OpenOptions) -> Result<Arc<dyn Archive>, Error> {
    match input {
        Input::File(path) => open_path(&path, options).map(Arc::from),
        Input::Stream(mut stream, name) => open_stream(&mut stream, &name, options).map(Arc::from),
        Input::Archive(archive) => Ok(archive),
    }
}

fn options(args: &Args, kind: Kind) -> CommandResult<TransferOptions> {
    let fidelity = &args.fidelity;
    // What levels there are depends on what is written.
    let own = CompressionArgs::default();
    let compression = if matches!(kind, Kind::Nra | Kind::Nra4) { &args.compression } else { &own };
    let mut writer = packing::writer_options(compression, &args.resources, &args.message)?;
    writer.reproducible = fidelity.reproducible;
    let latest = if fidelity.reproducible { packing::source_date_epoch()? } else { None };
    if fidelity.reproducible {
        writer.time = latest;
    }
    let owner = match fidelity.owner.policy(&fidelity.keep) {
        OwnerPolicy::Names | OwnerPolicy::Ids if fidelity.reproducible => OwnerPolicy::Omit,
        owner => owner,
    };
    let mut open = OpenOptions::default();
    args.container.apply(&mut open);
    args.resources.apply(&mut open);
    let limits = Limits::default();
    Ok(TransferOptions {
        writer,
        open,
        fidelity: Fidelity {
            owner,
            xattrs: !fidelity.keep.no_xattrs,
            times: !fidelity.keep.no_times,
            latest,
            portable: fidelity.reproducible,
        },
        limits: Limits {
            bytes: args.limits.limit_size.unwrap_or(limits.bytes),
            entries: args.limits.limit_entries.unwrap_or(limits.entries),
            ratio: args.container.limit_ratio.unwrap_or(limits.ratio),
        },
        keep_going: args.keep_going,
        recompress: args.compression.is_given(),
        plain: PlainInput::default(),
        sync: !args.no_sync,
    })
}

/// Tells which options about compression do nothing to what is written.
fn tell_idle(args: &Args, kind: Kind, ui: &Ui) {
    let (what, used): (_, &[&str]) = match kind {
        Kind::Nra => return,
        Kind::Nra4 => ("an archive of NRA 4.5", &["--level", "--codec"]),
        Kind::Tar(None) => ("a tar archive that is not compressed", &[]),
        Kind::Tar(Some(_)) => ("a compressed tar archive", &["--level"]),
        Kind::Zip if args.compression.codec() == Some(Codec::None) => ("a zip archive of stored members", &["--codec"]),
        Kind::Zip => ("a zip archive", &["--level", "--codec"]),
        Kind::Shard(_) => ("a Shard file", &["--codec", "--align"]),
    };
    for option in args.compression.given().filter(|option| !used.contains(option)) {
        let message = format!("{option} has no effect on {what}");
        ui.console().warn(Warning::remark([], message));
    }
}

/// Returns what is written in another order than it is read in.
fn needs_file(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Shard(_) => Some("a Shard file"),
        Kind::Nra4 => Some("an archive of NRA 4.5"),
        Kind::Nra | Kind::Tar(_) | Kind::Zip => None,
    }
}

/// What is converted, for messages about it.
struct Source<'a> {
    /// What it is called.
    name: &'a str,
    /// Its file, unless it is standard input.
    path: Option<&'a Path>,
    open: OpenOptions,
}

impl Source<'_> {
    /// Returns what is to be done about damage, when the work has `kept_going` or not.
    fn advice(&self, kept_going: bool) -> Option<&'static str> {
        let keeps = (!kept_going).then_some("--keep-going keeps what is not hurt");
        let Some(path) = self.path else { return keeps };
        // What is read in order gives what it can. What has an index needs that.
        let in_order = FileSource::open(path).and_then(|source| reads_in_order(&(Arc::new(source) as Arc<dyn ReadAt>)));
        if in_order.unwrap_or(true) {
            return keeps;
        }
        match open_path(path, &self.open) {
            Ok(_) => keeps,
            Err(Error::Corrupt { .. }) => Some(reading::lost(path)),
            Err(_) => None,
        }
    }
}

fn explain(error: Error, source: &Source<'_>, output: &Path, kept_going: bool) -> Failure {
    let input = source.name;
    match error {
        Error::Io { .. } | Error::Cancelled => pack::explain(error, output),
        Error::Corrupt { .. } | Error::Unsupported { .. } => {
            let failure = Failure::from(error).context(input);
            source.advice(kept_going).into_iter().fold(failure, Failure::hint)
        }
        Error::NotAnArchive { .. } => Failure::from(error).context(input).hint("nra formats lists what is read"),
        error => {
            let hint = keys::hint(&error, input);
            let failure = Failure::from(error).context(input);
            hint.into_iter().fold(failure, Failure::hint)
        }
    }
}

/// Says whether the archive is larger than what it was made of by more than an index takes.
fn has_grown(report: &Report) -> bool {
    const SMALL: u64 = 16 << 10;
    report.archive_bytes > SMALL && report.archive_bytes - report.archive_bytes / 16 > report.input_bytes
}

/// One line about what was done: files, bytes in and out, deduplication, time.
fn summary_line(report: &Report, elapsed: std::time::Duration, ui: &Ui) -> String {
    let mut line = format!(
        "converted {}, {} → {}",
        nra_text::counted(report.files, "file", "files"),
        ui.size(report.input_bytes),
        ui.size(report.archive_bytes),
    );
    if report.deduplicated_bytes > 0 {
        line += &format!(", {} deduplicated", nra_text::percent(report.deduplicated_bytes, report.content_bytes));
    }
    if report.left_out > 0 {
        line += &format!(", {} left out", nra_text::count(report.left_out));
    }
    line + &format!(", {}", nra_text::duration(elapsed))
}
