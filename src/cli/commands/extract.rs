//! `nra extract`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::archive_errors;
use crate::args::{ArchiveArg, KeepArgs, PatternArgs, ResourceArgs};
use crate::console::Console;
use crate::inputs;
use crate::open_archive::{self, Opened};
use crate::record::record;
use crate::report::{CommandResult, Failure};
use crate::ui::{self, Ui};
use nra_convert::select::Selection;
use nra_convert::{
    Action, Answer, Conflict, DirectorySink, DirectoryStats, DirectoryTarget, Event, Limits, Options, Overwrite, Sink, Source,
    convert,
};
use nra_format::Error;
use nra_format::Result;
use nra_format::archive::{Access, Extension, Part};
use nra_format::entry::Kind;
use nra_format::error::{Resource, Subject};
use nra_format::path::Quoted;
use nra_format::zeros::each_zero;
use nra_text::{self, PathField, parse_size};

/// Default for `--memory`.
const MEMORY: u64 = 256 << 20;
/// Open files that are enough for all handles that are kept.
const OPEN_FILES: u64 = 17_000;
/// Name of the folder if the archive's name is unsuitable: `..nra` without its extension is `.`.
const NAMELESS: &[u8] = b"archive";
/// Arguments of `nra extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra extract photos.nra
  nra extract photos.nra 'train/**.json' -C /data")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Extract to DIR, which is created if missing
    #[arg(short = 'C', long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Write content to standard output (-o -)
    #[arg(short, long, value_name = "-", conflicts_with_all = ["directory", "dry_run"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyArgs,
    /// Strip the first N components of each path
    #[arg(long, alias = "strip", value_name = "N", default_value_t = 0, hide_default_value = true)]
    strip_components: usize,
    /// Extract all files to one directory
    #[arg(long, conflicts_with = "strip_components")]
    flat: bool,
    /// Show what would be done without writing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Fail if there is more than SIZE of content
    ///
    /// Hard links to the same file count once.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    max_size: Option<u64>,
    #[command(flatten)]
    fidelity: FidelityArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Policy for existing files.
#[derive(Debug, Clone, clap::Args)]
#[group(multiple = false)]
struct PolicyArgs {
    /// Replace existing files
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// Skip existing files
    #[arg(short = 'k', long, alias = "keep-existing")]
    skip_existing: bool,
    /// Replace existing files that are older
    #[arg(short = 'u', long, alias = "update")]
    keep_newer: bool,
    /// Rename existing files to NAME~ (NAME~2 …)
    #[arg(long)]
    backup: bool,
}

/// Metadata to restore.
#[derive(Debug, Clone, clap::Args)]
struct FidelityArgs {
    /// Restore set-ID bits, capabilities and device nodes (trusted archives only)
    #[arg(long, hide_short_help = true)]
    special: bool,
    #[command(flatten)]
    keep: KeepArgs,
    /// Restore modes exactly, ignoring the umask (default for root)
    #[arg(long, hide_short_help = true)]
    preserve_permissions: bool,
}

impl PolicyArgs {
    /// Returns the requested policy.
    fn overwrite(&self) -> Option<Overwrite> {
        let policies = [
            (self.overwrite, Overwrite::Replace),
            (self.skip_existing, Overwrite::Skip),
            (self.keep_newer, Overwrite::KeepNewer),
            (self.backup, Overwrite::Backup),
        ];
        policies.into_iter().find_map(|(given, overwrite)| given.then_some(overwrite))
    }
}

/// Extracts an archive.
/// Damaged entries are skipped; other errors end the command.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let memory = args.resources.memory.unwrap_or(MEMORY);
    // Half for caches, half for extraction.
    let opened = open_archive::open(&args.archive, &ResourceArgs { memory: Some(memory / 2), ..args.resources.clone() }, ui)?;
    let selection = inputs::selection(&args.patterns)?;
    if let Some(output) = &args.output {
        if output.as_os_str() != "-" {
            return Err(
                Failure::usage("extract supports only -o - (standard output)").hint("use -C DIR to extract to a directory")
            );
        }
        return to_stdout(&opened, &selection, ui);
    }
    allow_many_open_files();
    let mut directory = directory(args, &opened, ui);
    let options = options(args, memory);
    let dialog = Dialog { console: ui.console().clone(), failure: Mutex::new(None) };
    let ask = |conflict: &Conflict<'_>| dialog.ask(conflict);
    let settled = args.policy.overwrite().is_some() || dialog.console.options().answer.is_some();
    if !settled && !args.dry_run && dialog.console.options().interactive {
        directory.ask = Some(&ask);
    }
    ui.list("extract", "entries");
    let progress = ui.progress("extracting");
    let records = args.dry_run || ui.console().verbose() > 0;
    let shared = Mutex::new(&mut *ui);
    let done = AtomicU64::new(0);
    let observe = |event: &Event<'_>| {
        done.fetch_add(1, Ordering::Relaxed);
        if records {
            let mut ui = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(failure) = report_entry(event, args.dry_run, &mut ui) {
                dialog.record_failure(failure);
            }
        }
    };
    directory.observe = Some(&observe);
    let sink = Sink::Directory(directory);
    let sink = if args.dry_run { sink.dry_run() } else { sink };
    let result = convert(Source::Archive(&*opened.archive, &selection), sink, &options, &progress);
    let elapsed = progress.end();
    ui.flush()?;
    let stats = match (result, dialog.failure.into_inner().unwrap_or_else(PoisonError::into_inner)) {
        (_, Some(failure)) => return Err(failure),
        (Ok(stats), None) => stats.directory,
        (Err(error), None) => {
            let stopped = matches!(error, Error::Cancelled | Error::Io { .. });
            let failure = explain(error, &opened.name, ui);
            return Err(match done.into_inner() {
                0 => failure,
                done if stopped => failure.hint(format!(
                    "{} extracted completely; use -k to continue with the rest",
                    nra_text::counted(done, "entry was", "entries were")
                )),
                _ => failure,
            });
        }
    };
    let outcome =
        open_archive::conclude(&opened, &selection, stats.made() + stats.kept + stats.skipped + done.into_inner() > 0, ui)?;
    if stats.untrusted > 0 && !args.fidelity.special {
        ui.console().note("hint: use --special to restore devices, set-ID bits and capabilities from archives you trust");
    }
    print_summary(&stats, args.dry_run, elapsed, ui);
    let summary = record! {
        target: PathField::new(stats.target.as_os_str().as_bytes()),
        dry_run: args.dry_run,
        files: stats.files,
        links: stats.links,
        directories: stats.directories,
        symlinks: stats.symlinks,
        special_files: stats.specials,
        content_bytes: stats.bytes,
        renamed: stats.renamed,
        backups: stats.backups,
        kept: stats.kept,
        skipped: stats.skipped,
        damaged: stats.damaged,
        seconds: ui::seconds(elapsed),
    };
    ui.finish(outcome, "summary", &summary)
}

fn directory<'a>(args: &Args, opened: &Opened, ui: &Ui) -> DirectorySink<'a> {
    let target = match &args.directory {
        Some(directory) => DirectoryTarget::Exactly(directory.clone()),
        None => DirectoryTarget::Auto { base: PathBuf::from("."), name: folder_name(&opened.path, &opened.name) },
    };
    let mut sink = DirectorySink::new(target);
    let exact = args.fidelity.preserve_permissions || rustix::process::geteuid().is_root();
    // With a umask of zero, files are created with their final mode, which saves a call per file.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    if !exact {
        rustix::process::umask(umask);
    }
    let answer = ui.console().options().answer;
    let answered = answer.map(|yes| if yes { Overwrite::Replace } else { Overwrite::Skip });
    sink.umask = Some(umask.bits());
    sink.exact_modes = Some(exact);
    sink.overwrite = args.policy.overwrite().or(answered).unwrap_or(Overwrite::Refuse);
    sink.strip_components = args.strip_components;
    sink.flat = args.flat;
    sink.special = args.fidelity.special;
    sink
}

fn options(args: &Args, memory: u64) -> Options {
    let keep = &args.fidelity.keep;
    let limits = Limits::default();
    Options {
        metadata: keep.policy(keep.owner()),
        limits: Limits { bytes: args.max_size.unwrap_or(limits.bytes), ..limits },
        threads: args.resources.threads(),
        memory_bytes: memory,
        ..Options::default()
    }
}

/// Raises the limit of open files: directories stay open while files are created in them.
fn allow_many_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let useful = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < useful) {
        limit.current = Some(useful);
        // If this fails, fewer directories stay open.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Returns the name of the folder for an archive: its name without extension, if that is suitable.
fn folder_name(archive: &Path, shown: &str) -> Vec<u8> {
    let name = stem(archive, shown);
    if matches!(&*name, b"" | b"." | b"..") || name.contains(&b'/') { NAMELESS.to_vec() } else { name }
}

fn stem(archive: &Path, shown: &str) -> Vec<u8> {
    let Some(name) = archive.file_name().filter(|name| *name != "-").map(OsStrExt::as_bytes) else {
        return shown.replace(' ', "-").into_bytes();
    };
    match Extension::of(name) {
        Some(extension) => extension.stem(name).to_vec(),
        // The folder must not have the name of the archive itself.
        None => [name, b".d"].concat(),
    }
}

fn explain(error: Error, name: &str, ui: &Ui) -> Failure {
    match error {
        // The conflict concerns the target, not the archive.
        Error::Conflict { .. } | Error::Usage { .. } => error.into(),
        Error::ResourceLimit { resource: Resource::Content, found, limit } => {
            let (found, limit) = (ui.size(found), ui.size(limit));
            Failure::failed(format!("{name}: {found} of content exceed --max-size {limit}"))
        }
        error => archive_errors::explain(error, name),
    }
}

/// Asks about conflicts and keeps failures from callbacks of the library.
struct Dialog {
    console: std::sync::Arc<Console>,
    failure: Mutex<Option<Failure>>,
}

impl Dialog {
    fn record_failure(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    fn ask(&self, conflict: &Conflict<'_>) -> Result<Answer> {
        let path = Quoted::new(conflict.path);
        let entry = conflict.entry;
        let what =
            |is_directory, size| if is_directory { "a directory".to_owned() } else { nra_text::counted(size, "byte", "bytes") };
        let there = format!("{}, {}", what(conflict.is_directory, conflict.size), nra_text::table_time(conflict.modified));
        let new = entry.modified.map_or_else(String::new, |time| format!(", {}", nra_text::table_time(time)));
        let new = format!("{}{new}", what(conflict.wants_directory, entry.size));
        let question = format!("{path} exists ({there}; in the archive: {new}).");
        let choices = [
            ('r', "rename"),
            ('o', "overwrite"),
            ('s', "skip"),
            ('R', "rename all"),
            ('O', "overwrite all"),
            ('S', "skip all"),
            ('q', "quit"),
        ];
        let key = self.console.choose(&question, &choices, 'r', "-f, -k, -u or --backup").map_err(|failure| {
            self.record_failure(failure);
            Error::Cancelled
        })?;
        let overwrite = match key.to_ascii_lowercase() {
            'o' => Overwrite::Replace,
            's' => Overwrite::Skip,
            'q' => {
                self.record_failure(Failure::failed("nothing was written"));
                return Err(Error::Cancelled);
            }
            _ => Overwrite::Rename,
        };
        Ok(Answer { overwrite, all: key.is_ascii_uppercase() })
    }
}

/// Reports one entry: as JSON, on standard output in a dry run, otherwise on standard error.
fn report_entry(event: &Event<'_>, dry_run: bool, ui: &mut Ui) -> CommandResult<()> {
    let action = action(event.action);
    if ui.is_json() {
        let PathField { path, path_b64 } = PathField::new(event.path);
        let (kind, size) = (nra_text::kind(event.entry.kind), event.entry.size);
        return ui.record(&record! { "entry" => action, path, path_b64, kind, size });
    }
    let slash = if event.entry.kind == Kind::Directory { "/" } else { "" };
    if dry_run {
        return ui.name_line(format_args!("{action} "), event.path, slash);
    }
    let name = nra_text::name(event.path, true);
    ui.console().line(&format!("{action} {}{slash}", String::from_utf8_lossy(&name)));
    Ok(())
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Replace => "replace",
        Action::Backup => "backup",
        Action::Rename => "rename",
        Action::Link => "link",
        Action::Keep => "keep",
        Action::Merge => "merge",
        Action::Refuse => "exists",
    }
}

fn print_summary(stats: &DirectoryStats, dry_run: bool, elapsed: Duration, ui: &Ui) {
    if ui.is_json() || dry_run {
        return;
    }
    let mut parts = vec![format!("{}, {}", nra_text::counted(stats.files, "file", "files"), ui.size(stats.bytes))];
    let rest = [
        (stats.renamed, "renamed"),
        (stats.backups, "backed up to NAME~"),
        (stats.kept, "existing kept"),
        (stats.skipped, "skipped"),
    ];
    parts.extend(rest.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", nra_text::count(*count))));
    let target = nra_text::quoted(&stats.target);
    ui.console().note(&format!("extracted {} → {target}, {}", parts.join(", "), nra_text::duration(elapsed)));
}

/// Writes the content of the selected files, in path order.
fn to_stdout(opened: &Opened, selection: &Selection, ui: &mut Ui) -> CommandResult {
    if ui.is_json() {
        return Err(Failure::usage("cannot write both content and JSON to standard output")
            .hint("use nra cat --json to get content as JSON"));
    }
    let failed = |error| Error::io("write", Subject::StandardOutput, error);
    let mut any = false;
    for entry in opened.entries(selection, ui)? {
        let entry = entry?;
        any = true;
        if entry.kind != Kind::File {
            continue;
        }
        let out = ui.out();
        let result = opened.archive.with_content(&entry, Access::Sequential, &mut |part| match part {
            Part::Data(bytes) => out.write_all(bytes).map_err(failed),
            Part::Hole(length) => each_zero(length, |zeros| out.write_all(zeros)).map_err(failed),
        });
        opened.intact(result, &entry, ui.console())?;
    }
    ui.flush()?;
    open_archive::conclude(opened, selection, any, ui)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_named_after_archive() {
        for (archive, expected) in [
            ("photos.nra", "photos"),
            ("/a/b/photos.NRA", "photos"),
            ("a.tar.gz", "a"),
            ("v1.2.nra", "v1.2"),
            ("data", "data.d"),
            (".nra", ".nra.d"),
            ("-", "standard-input"),
            ("..nra", "archive"),
            ("...nra", "archive"),
            ("/a/...NRA", "archive"),
            ("..tar.gz", "archive"),
            ("...tar.gz", "archive"),
            ("....nra", "..."),
            ("..", "standard-input"),
            ("/", "standard-input"),
        ] {
            assert_eq!(folder_name(Path::new(archive), "standard input"), expected.as_bytes(), "{archive}");
        }
        for shown in ["", ".", "..", "a/..", "/"] {
            assert_eq!(folder_name(Path::new(".."), shown), NAMELESS, "{shown}");
        }
    }
}
