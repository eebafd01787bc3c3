//! `nra convert`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_errors;
use crate::args::{ContainerArgs, KeepArgs, ResourceArgs};
use crate::change::same_file;
use crate::dry_run::DRY_RUN;
use crate::open_archive;
use crate::output;
use crate::pack_args::{self, CompressionArgs, OwnerArgs, RecoveryArgs};
use crate::password_args::KeyArgs;
use crate::progress::Progress;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::{self, Ui};
use crate::watched_file::WatchedFile;
use nra_convert::select::Selection;
use nra_convert::target::{Request, Target, convert_output, extensions, target_of, unsupported};
use nra_convert::{Limits, MetadataPolicy, NraSink, Options, PlainInput, Sink, Source, Stats, convert, reads_in_order};
use nra_format::Error;
use nra_format::archive::{self, Archive, OpenOptions, extension_mismatch, open_path, open_stream};
use nra_format::codec::Codec;
use nra_format::crypt::{Argon2Cost, Keyring, Secret};
use nra_format::error::{STANDARD_INPUT, Subject};
use nra_format::nra::writer::WriterOptions;
use nra_format::progress::{Counter, Monitor, Warning};
use nra_format::shard::Dialect;
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
    /// Archive to convert, in any supported format; - for standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Archive to write; - for standard output (default: IN with .nra)
    ///
    /// The default is created next to IN; double extensions such as .tar.gz are replaced as a whole. The extension of OUT selects the format; without a known extension, nra writes NRA 5.
    #[arg(value_name = "OUT")]
    output: Option<PathBuf>,
    /// Same as OUT
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "output", hide_short_help = true)]
    output_option: Option<PathBuf>,
    /// Write this format, whatever the name: zip, tar.zst …
    ///
    /// Supported: nra, nra4 (for nra before version 5), zip, shard, mosh, smpl, gemm, wshard, gshard, tshard, cshard, tar, tar.gz, tar.zst, tar.xz, tar.bz2, tar.lz4.
    #[arg(long, value_name = "FORMAT", value_parser = parse_target)]
    to: Option<Target>,
    /// Write Shard files byte-identical to those of: go, python
    ///
    /// The default is the program that wrote IN, if it is a Shard file.
    #[arg(long, value_name = "NAME", value_enum, hide_short_help = true)]
    dialect: Option<DialectName>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// Show what would be done without writing anything
    #[arg(short = 'n', long, hide_short_help = true)]
    dry_run: bool,
    /// Convert commit N of IN (see nra log); same as IN@N
    #[arg(long, value_name = "N", hide_short_help = true)]
    at: Option<u64>,
    /// Skip damaged entries and keep the rest
    #[arg(long)]
    keep_going: bool,
    /// Set the commit message, archive comment or description
    ///
    /// Tar and zip archives store it as comment, Shard files as description.
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    message: String,
    /// Do not wait until the archive is on disk
    #[arg(long, hide_short_help = true)]
    no_sync: bool,
    /// Encrypt OUT with the password or key of IN, or with a new password
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

/// Implementations that write Shard files.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum DialectName {
    /// The reference implementation
    Go,
    /// The Python package
    Python,
}

impl From<DialectName> for Dialect {
    fn from(name: DialectName) -> Self {
        match name {
            DialectName::Go => Self::Go,
            DialectName::Python => Self::Python,
        }
    }
}

/// Metadata kept for each entry.
#[derive(Debug, clap::Args)]
struct FidelityArgs {
    /// Create the same bytes from the same input and options
    ///
    /// Omits owners and the time of conversion. Respects SOURCE_DATE_EPOCH.
    #[arg(long, hide_short_help = true)]
    reproducible: bool,
    #[command(flatten)]
    owner: OwnerArgs,
    #[command(flatten)]
    keep: KeepArgs,
}

/// Limits for the decompressed input.
#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Stop if IN contains more than SIZE of content
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    limit_size: Option<u64>,
    /// Stop if IN contains more than N entries (default: 100000000)
    #[arg(long, value_name = "N", hide_short_help = true)]
    limit_entries: Option<u64>,
}

fn parse_target(text: &str) -> Result<Target, String> {
    Target::named(text).ok_or_else(|| format!("unsupported output format (use {})", supported_extensions()))
}

/// Lists the extensions of supported output formats.
fn supported_extensions() -> String {
    extensions().collect::<Vec<_>>().join(" ")
}

/// Returns the format for the extension of the output.
fn target_by_extension(output: &Path) -> CommandResult<Target> {
    let Some(extension) = unsupported(output) else { return Ok(target_of(output).unwrap_or(Target::Nra)) };
    let shown = nra_text::quoted(output);
    let failure = Failure::usage(format!("cannot write {shown}: writing {extension} archives is not supported"));
    Err(failure
        .hint(format!("use an extension of a supported format ({})", supported_extensions()))
        .hint("use --to FORMAT to ignore the extension"))
}

/// Converts an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let (in_path, commit) = open_archive::locate(&args.input, args.at)?;
    let from_stdin = in_path == Path::new("-");
    let output = match args.output.as_ref().or(args.output_option.as_ref()) {
        Some(output) => output.clone(),
        None if from_stdin => {
            return Err(Failure::usage("missing output name: the input is standard input").hint("use -o FILE"));
        }
        None => convert_output(&in_path, commit),
    };
    let target = args.to.map_or_else(|| target_by_extension(&output), Ok)?;
    let to_stdout = output::is_stdout(&output);
    if to_stdout && !args.dry_run {
        ui.check_archive_output(args.overwrite)?;
    }
    if !to_stdout && same_file(&in_path, &output) {
        let shown = nra_text::quoted(&output);
        return Err(Failure::usage(format!("output {shown} is the input")).hint("use -o FILE for another output"));
    }
    if args.dry_run {
        output::check_not_existing(&output, args.overwrite)?;
    }
    let (mut options, mut writer) = options(args, target)?;
    options.open.commit = commit;
    let name = if from_stdin { STANDARD_INPUT.to_owned() } else { nra_text::quoted(&args.input) };
    if args.encrypt && !target.format().encrypt {
        return Err(Failure::usage("only NRA archives can be encrypted"));
    }
    if args.dialect.is_some() && !matches!(target, Target::Shard(_)) {
        return Err(Failure::usage("--dialect requires a Shard file as output").hint("use --to shard to write one"));
    }
    if to_stdout && !target.format().stream {
        let what = if target == Target::Nra4 { "an NRA 4.5 archive" } else { "a Shard file" };
        let failure = Failure::usage(format!("cannot write {what} to standard output: its first bytes are written last"));
        return Err(failure.hint("use -o FILE to write it to a file"));
    }
    if args.recovery.is_given() && (to_stdout || target != Target::Nra) {
        return Err(Failure::usage("--recovery requires an NRA archive in a file as output").hint("use -o FILE.nra"));
    }
    warn_unused_options(args, target, ui);
    let is_encrypted = !from_stdin && archive_errors::is_encrypted(&in_path);
    // A new password is typed twice, even if it opens the input, too.
    options.open.key =
        if args.encrypt && args.keys.prompts() { Some(args.keys.for_new_archive()?) } else { args.keys.for_opening(&name)? };
    if is_encrypted && options.open.key.is_none() {
        options.open.key = args.keys.prompt(&name)?;
    }
    let named = Named { name: &name, path: (!from_stdin).then_some(&in_path), open: options.open.clone() };
    let (mut earlier_key, mut plain) = (None, PlainInput::default());
    if args.encrypt {
        let secret = options.open.key.clone().map_or_else(|| args.keys.for_new_archive(), Ok)?;
        match (target, secret) {
            (Target::Nra4, Secret::UserKey(key)) => earlier_key = Some(key),
            (Target::Nra4, Secret::Password(_)) => {
                let failure = Failure::usage("nra before version 5 supports keys only, not passwords");
                return Err(failure.hint("use --key-file or NRA_ENCRYPTION_KEY"));
            }
            (_, secret) => writer.encryption = Some(Keyring::create(&secret, Argon2Cost::default(), "")?),
        }
    } else if args.keys.is_given()
        && target == Target::Nra
        && let Some(secret) = &options.open.key
    {
        // As with `pack`, a key without an encrypted input encrypts the output. A password typed
        // only once may be mistyped, so it must not encrypt anything.
        plain = if args.keys.prompts() {
            PlainInput::Reject
        } else {
            PlainInput::Encrypt(Keyring::create(secret, Argon2Cost::default(), "")?)
        };
    }
    let request = Request {
        nra: NraSink { writer, recompress: args.compression.is_given(), plain },
        codec: args.compression.codec(),
        level: args.compression.level(),
        align: args.compression.align,
        dialect: args.dialect.map(Dialect::from),
        key: earlier_key,
    };
    let format = target.new_archive_with(&output, request).map_err(pack_args::unsupported_setting)?;
    let sink = Sink::Archive(output::destination(&output, args.overwrite), format);
    let sink = if args.dry_run { sink.dry_run() } else { sink };
    let (opened, all) = (open_indexed(target, &named, &output, args, &options, ui)?, Selection::all());
    let source = match &opened {
        Some(archive) => Source::Archive(&**archive, &all),
        None if from_stdin => Source::Stream(Box::new(open_archive::interruptible_stdin()?), Subject::StandardInput),
        None => Source::File(in_path.clone()),
    };
    let progress = ui.progress("converting");
    let monitor = &NamedMonitor { progress: &progress, input: &name };
    let result = convert(source, sink, &options, monitor);
    let elapsed = progress.end();
    let stats = result.map_err(|error| explain(error, &named, &output, args.keep_going))?;
    let line = summary_line(&stats, elapsed, ui);
    ui.console().note(&if args.dry_run { format!("{line}: {DRY_RUN}") } else { line });
    if target == Target::Nra && !args.compression.is_given() && has_grown(&stats) {
        ui.console().note("hint: IN was compressed better; use -l 19 or --best for a smaller OUT");
    }
    if !args.dry_run {
        args.recovery.protect(&output, args.resources.memory, ui)?;
    }
    let outcome = match (stats.incomplete, stats.skipped) {
        (true, _) => Outcome::Damaged,
        (false, 0) => Outcome::Done,
        (false, _) => Outcome::Degraded,
    };
    let written = &stats.written;
    let summary = record! {
        ..ArchiveField::new(&output),
        dry_run: args.dry_run,
        entries: written.entries,
        files: written.files,
        input_bytes: stats.input_bytes,
        content_bytes: written.content_bytes,
        deduplicated_bytes: written.deduplicated_bytes,
        archive_bytes: written.archive_bytes,
        skipped: stats.skipped,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}

/// Prepends the name of the archive to warnings that do not concern an entry.
struct NamedMonitor<'a> {
    progress: &'a Progress,
    input: &'a str,
}

impl Monitor for NamedMonitor<'_> {
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

/// Opens the input through its index, unless the target reads it sequentially where possible.
fn open_indexed(
    target: Target,
    named: &Named<'_>,
    output: &Path,
    args: &Args,
    options: &Options,
    ui: &Ui,
) -> CommandResult<Option<Box<dyn Archive>>> {
    if target == Target::Nra {
        return Ok(None);
    }
    let opened = match named.path {
        Some(path) => open_file(path, options, ui),
        None => open_stream(&mut open_archive::interruptible_stdin()?, &Subject::StandardInput, &options.open),
    };
    let opened = opened.map_err(|error| explain(error, named, output, args.keep_going))?;
    if args.keys.is_given() && !args.encrypt && !opened.info().encrypted {
        let message = format!("{}: not encrypted; the key was not used", named.name);
        ui.console().warn(Warning::remark([], message));
    }
    Ok(Some(opened))
}

/// Opens a file through its index, with progress, and warns about a wrong extension.
fn open_file(path: &Path, options: &Options, ui: &Ui) -> Result<Box<dyn Archive>, Error> {
    let progress = Arc::new(ui.opening());
    let archive = archive::open_settled(path, &mut || {
        archive::open(Arc::new(WatchedFile::new(FileSource::open(path)?, &progress)), &options.open)
    })?;
    let name = path.as_os_str().as_bytes();
    if let Some(message) = extension_mismatch(name, archive.container()) {
        progress.warn(Warning::remark(name, message));
    }
    Ok(archive)
}

fn options(args: &Args, target: Target) -> CommandResult<(Options, WriterOptions)> {
    let fidelity = &args.fidelity;
    // The supported levels depend on the output format.
    let own = CompressionArgs::default();
    let compression = if matches!(target, Target::Nra | Target::Nra4) { &args.compression } else { &own };
    let writer = pack_args::writer_options(compression, &args.resources, &args.message)?;
    let mut open = OpenOptions::default();
    args.container.apply(&mut open);
    args.resources.apply(&mut open);
    let limits = Limits::default();
    let options = Options {
        open,
        metadata: MetadataPolicy {
            latest: if fidelity.reproducible { pack_args::source_date_epoch()? } else { None },
            ..fidelity.keep.policy(fidelity.owner.policy(&fidelity.keep))
        },
        limits: Limits {
            bytes: args.limits.limit_size.unwrap_or(limits.bytes),
            entries: args.limits.limit_entries.unwrap_or(limits.entries),
            ratio: args.container.limit_ratio.unwrap_or(limits.ratio),
        },
        keep_going: args.keep_going,
        reproducible: fidelity.reproducible,
        message: args.message.clone(),
        threads: writer.threads,
        memory_bytes: writer.memory_bytes,
        sync: !args.no_sync,
    };
    Ok((options, writer))
}

/// Warns about compression options without effect on the output format.
fn warn_unused_options(args: &Args, target: Target, ui: &Ui) {
    let (what, used): (_, &[&str]) = match target {
        Target::Nra => return,
        Target::Nra4 => ("NRA 4.5 archives", &["--level", "--codec"]),
        Target::Tar(None) => ("uncompressed tar archives", &[]),
        Target::Tar(Some(_)) => ("compressed tar archives", &["--level"]),
        Target::Zip if args.compression.codec() == Some(Codec::None) => ("uncompressed zip archives", &["--codec"]),
        Target::Zip => ("zip archives", &["--level", "--codec"]),
        Target::Shard(_) => ("Shard files", &["--codec", "--align"]),
    };
    for option in args.compression.given().filter(|option| !used.contains(option)) {
        let message = format!("{option} has no effect on {what}");
        ui.console().warn(Warning::remark([], message));
    }
}

/// The input, for messages.
struct Named<'a> {
    /// Its name.
    name: &'a str,
    /// Its file, unless it is standard input.
    path: Option<&'a Path>,
    open: OpenOptions,
}

impl Named<'_> {
    /// Returns a hint about damage. `kept_going` is whether `--keep-going` was given.
    fn damage_hint(&self, kept_going: bool) -> Option<&'static str> {
        let keeps = (!kept_going).then_some("use --keep-going to skip damaged entries");
        let Some(path) = self.path else { return keeps };
        // Formats read sequentially yield all entries before the damage. Others need the index.
        let in_order = FileSource::open(path).and_then(|source| reads_in_order(&(Arc::new(source) as Arc<dyn ReadAt>)));
        if in_order.unwrap_or(true) {
            return keeps;
        }
        match open_path(path, &self.open) {
            Ok(_) => keeps,
            Err(Error::Corrupt { .. }) => Some(archive_errors::unreadable_hint(path)),
            Err(_) => None,
        }
    }
}

fn explain(error: Error, source: &Named<'_>, output: &Path, kept_going: bool) -> Failure {
    let input = source.name;
    match error {
        Error::Io { .. } | Error::Cancelled => output::explain(error, output),
        Error::Corrupt { .. } | Error::Unsupported { .. } => {
            let failure = Failure::from(error).context(input);
            source.damage_hint(kept_going).into_iter().fold(failure, Failure::hint)
        }
        Error::NotAnArchive { .. } => Failure::from(error).context(input).hint("use nra formats to list supported formats"),
        error => {
            let hint = archive_errors::key_hint(&error, input);
            let failure = Failure::from(error).context(input);
            hint.into_iter().fold(failure, Failure::hint)
        }
    }
}

/// Returns whether the archive is larger than its input by more than the size of an index.
fn has_grown(stats: &Stats) -> bool {
    const SMALL: u64 = 16 << 10;
    let archive_bytes = stats.written.archive_bytes;
    archive_bytes > SMALL && archive_bytes - archive_bytes / 16 > stats.input_bytes
}

/// Returns the summary: files, bytes in and out, deduplication, time.
fn summary_line(stats: &Stats, elapsed: std::time::Duration, ui: &Ui) -> String {
    let written = &stats.written;
    let files = nra_text::counted(written.files, "file", "files");
    let line = format!("converted {files}, {} → {}", ui.size(stats.input_bytes), ui.size(written.archive_bytes));
    line + &ui::summary_end(stats, elapsed)
}
