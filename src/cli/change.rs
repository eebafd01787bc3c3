//! Steps shared by commands that change an archive: opening it for a commit, finishing, reporting
//! the result and how to undo it.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_errors;
use crate::args::ResourceArgs;
use crate::dry_run::DRY_RUN;
use crate::open_archive;
use crate::password_args::KeyArgs;
use crate::record::record;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::compact::Target;
use nra_convert::named;
use nra_convert::select::Selection;
use nra_format::Error;
use nra_format::crypt::Keyring;
use nra_format::nra::recovery::find_current;
use nra_format::nra::writer::{AppendDestination, Writer, WriterOptions, WriterStats};
use nra_format::path::{EntryPath, Quoted, normal};
use nra_format::progress::Warning;
use nra_format::source::{FileSource, FileStore, ReadAt, Rehearsal, Store};
use nra_text::{self, ArchiveField};

/// Options of commands that change an archive.
#[derive(Debug, Clone, clap::Args)]
pub struct ChangeArgs {
    /// Archive to change
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,
    /// Show what would be done without changing anything
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Set the commit message
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    pub message: String,
    /// Keys and passwords.
    #[command(flatten)]
    pub keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Where commands that rewrite an archive write it.
#[derive(Debug, clap::Args)]
pub struct RewriteArgs {
    /// Write to OUT instead of changing the archive
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(short = 'f', long, alias = "force", requires = "output")]
    overwrite: bool,
}

impl RewriteArgs {
    /// Returns the target for rewriting `archive`, which must not be OUT. `action` is for a hint.
    pub fn target(&self, archive: &Path, action: &str) -> CommandResult<Target> {
        check_different_file(archive, self.output.as_deref(), &format!("omit -o to {action} in place"))?;
        Ok(match &self.output {
            Some(output) => Target::File { path: output.clone(), overwrite: self.overwrite },
            None => Target::InPlace,
        })
    }

    /// Converts an error of rewriting the archive `name` into a failure.
    pub fn explain(&self, error: Error, name: &str) -> Failure {
        let exists = matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists);
        let failure = explain(error, name);
        if exists { failure.hint("use -f to replace it, or -o for another name") } else { failure }
    }
}

/// An archive opened for a commit.
pub struct Change {
    /// The writer of the commit.
    pub writer: Writer<AppendDestination>,
    /// Its name, quoted.
    pub name: String,
    path: PathBuf,
    /// Its keys, unlocked, if it is encrypted.
    pub keys: Option<Keyring>,
    dry_run: bool,
    commit: u64,
    before: PriorState,
    /// `nra revert` can undo the change. It does not restore keys.
    pub is_revertible: bool,
}

impl ChangeArgs {
    /// Opens the archive for a commit.
    pub fn begin(&self) -> CommandResult<Change> {
        self.begin_at(&writable_path(&self.archive)?)
    }

    /// As [`ChangeArgs::begin`], after the commit number was split from the name of the archive.
    pub fn begin_at(&self, path: &Path) -> CommandResult<Change> {
        let path = check_not_stdin(path)?.to_owned();
        let name = nra_text::quoted(&path);
        let fail = |error| explain(error, &name);
        // Lock the file before unlocking the keys, so that nobody changes them in between.
        let file = FileStore::open(&path).map_err(fail)?;
        let store: Arc<dyn Store> = if self.dry_run { Arc::new(Rehearsal(file)) } else { Arc::new(file) };
        let source: Arc<dyn ReadAt> = Arc::new(Arc::clone(&store));
        let before = PriorState::of(&*source).map_err(fail)?;
        let mut options = WriterOptions { message: self.message.clone(), ..WriterOptions::balanced() };
        options.threads = self.resources.threads();
        options.memory_bytes = self.resources.memory.unwrap_or(options.memory_bytes);
        options.encryption = self.keys.unlock(&source, &name)?;
        let keys = options.encryption.clone();
        let writer = Writer::append(store, options).map_err(fail)?;
        let commit = writer.base().and_then(|base| nra_format::archive::Archive::info(&**base).commit).unwrap_or_default();
        Ok(Change { writer, name, path, keys, dry_run: self.dry_run, commit, before, is_revertible: true })
    }
}

impl Change {
    /// Returns whether this is a dry run.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Returns the number of the commit before the newest one, if there is one.
    pub fn before(&self) -> Option<u64> {
        self.commit.checked_sub(1).filter(|number| *number > 0)
    }

    /// Converts an error into a failure that names the archive. A conflict with the content of the
    /// archive is not a usage error.
    pub fn explain(&self, error: Error) -> Failure {
        match error {
            Error::Usage { detail } => Failure::failed(format!("{}: {detail}", self.name)),
            error => explain(error, &self.name),
        }
    }

    /// Fails if the number of selected entries is 0. Warns about patterns without a match.
    pub fn check_selected(&self, selection: &Selection, count: u64, ui: &Ui) -> CommandResult<()> {
        if count == 0 && selection.unmatched().is_empty() {
            let message = format!("{}: all matching entries are excluded; nothing was changed", self.name);
            return Err(Failure::failed(message));
        }
        if count == 0 {
            return Err(open_archive::no_match(selection, &self.name, "; nothing was changed"));
        }
        open_archive::warn_unmatched(selection, ui);
        Ok(())
    }

    /// Writes the commit (except in a dry run) and reports `what` was done: `removed 3 entries`.
    /// On error, the archive stays unchanged.
    pub fn finish(self, what: &str, ui: &mut Ui) -> CommandResult {
        let Self { writer, name, path, dry_run, commit, before, is_revertible, .. } = self;
        let progress = ui.progress("writing");
        let finished = writer.finish(&progress);
        drop(progress);
        let (end, stats) = finished.map_err(|error| before.explain(error, &path, &name))?;
        drop(end);
        ui.flush()?;
        let finished = FinishedCommit { name: &name, before: commit, is_protected: before.is_protected, is_revertible, dry_run };
        finished.report(what, &stats, ui);
        let summary = record! {
            ..ArchiveField::new(&path),
            commit: (!dry_run).then_some(stats.commit),
            dry_run,
            added: stats.added,
            replaced: stats.replaced,
            removed: stats.removed,
            entries: stats.entries,
            added_bytes: stats.added_bytes,
        };
        ui.finish(Outcome::Done, "summary", &summary)
    }
}

/// A finished commit.
pub struct FinishedCommit<'a> {
    /// Name of the archive, quoted.
    pub name: &'a str,
    /// Number of the preceding commit.
    pub before: u64,
    /// The archive had recovery data.
    pub is_protected: bool,
    /// `nra revert` can undo it.
    pub is_revertible: bool,
    /// This is a dry run.
    pub dry_run: bool,
}

impl FinishedCommit<'_> {
    /// Reports what was done, the added size and how to undo it.
    pub fn report(&self, what: &str, stats: &WriterStats, ui: &Ui) {
        let Self { name, before, is_protected, is_revertible, dry_run } = *self;
        if stats.commit == before {
            return ui.console().note(&format!("{name}: no changes"));
        }
        let done = format!("{what} in commit {} (+{})", stats.commit, ui.size(stats.added_bytes));
        let earlier = commit_name(name, before);
        ui.console().note(&if dry_run {
            format!("{done}: {DRY_RUN}")
        } else if !is_revertible {
            done
        } else {
            format!("{done}; undo with nra revert {name}, or read {earlier}")
        });
        if is_protected {
            let verb = if dry_run { "would remove" } else { "removed" };
            let message = format!("this change {verb} the recovery data of {name}; run nra protect {name} to add it again");
            ui.console().warn(Warning::remark([], message));
        }
    }
}

fn commit_name(name: &str, before: u64) -> String {
    match name.strip_suffix('\'') {
        Some(open) => format!("{open}@{before}'"),
        None => format!("{name}@{before}"),
    }
}

/// Returns the file of the archive to change.
/// Fails for an earlier commit and for standard input.
pub fn writable_path(name: &Path) -> CommandResult<PathBuf> {
    match open_archive::locate(check_not_stdin(name)?, None)? {
        (path, None) => Ok(path),
        (_, Some(_)) => {
            let shown = nra_text::quoted(name);
            Err(Failure::usage(format!("cannot change {shown}: only the newest commit can be changed")))
        }
    }
}

fn check_not_stdin(name: &Path) -> CommandResult<&Path> {
    match name.as_os_str() == "-" {
        true => Err(Failure::usage("cannot change an archive from standard input")),
        false => Ok(name),
    }
}

/// Checks that the output is not the archive itself.
pub fn check_different_file(archive: &Path, output: Option<&Path>, hint: &str) -> CommandResult<()> {
    if output.is_some_and(|output| same_file(archive, output)) {
        return Err(Failure::usage("OUT is the archive itself").hint(hint));
    }
    Ok(())
}

/// Returns whether two paths name the same file.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|own| identity(other) == Some(own))
}

/// State of an archive before an attempt to change it.
#[derive(Debug, Clone, Copy)]
pub struct PriorState {
    /// It had recovery data.
    pub is_protected: bool,
    length: u64,
}

impl PriorState {
    /// Reads the state of the archive at `path`.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Self::of(&FileSource::open(path)?)
    }

    fn of(source: &dyn ReadAt) -> Result<Self, Error> {
        Ok(Self { is_protected: find_current(source)?.is_some(), length: source.len() })
    }

    /// Converts an error of the attempt into a failure that reports the state of the archive.
    pub fn explain(self, error: Error, path: &Path, name: &str) -> Failure {
        let is_full = matches!(&error, Error::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge));
        let failure = explain(named(error, path.as_os_str().as_bytes()), name);
        let is_there = |file: &FileSource| find_current(file).is_ok_and(|recovery| recovery.is_some());
        let now = FileSource::open(path);
        if self.is_protected && !now.as_ref().is_ok_and(is_there) {
            return failure.hint(format!("this attempt removed the recovery data; run nra protect {name} to add it again"));
        }
        // The writer has removed what it wrote.
        if is_full && now.is_ok_and(|file| file.len() == self.length) {
            return failure.hint(format!("{name} is unchanged"));
        }
        failure
    }
}

/// Converts an error of changing an archive into a failure.
pub fn explain(error: Error, archive: &str) -> Failure {
    match &error {
        Error::Io { source, .. } if source.kind() == ErrorKind::ResourceBusy => {
            Failure::from(error).hint("try again when the other process has finished; reading is possible meanwhile")
        }
        Error::Unsupported { .. } | Error::NotAnArchive { .. } => archive_errors::explain(error, archive)
            .hint(format!("only NRA 5 archives can be changed; use nra convert {archive} to create one")),
        Error::Corrupt { .. } => archive_errors::explain(error, archive)
            .hint(format!("damaged archives cannot be changed; use nra salvage {archive} -o OUT to recover readable entries")),
        Error::Cancelled => Failure::from(error).hint(format!("{archive} is unchanged")),
        _ => archive_errors::explain(error, archive),
    }
}

/// Parses a path in an archive. Leading `./` and leading and trailing slashes are ignored.
pub fn entry_path(text: &OsStr) -> CommandResult<EntryPath> {
    EntryPath::new(normal(&nra_text::unquoted(text.as_bytes()))).map_err(|error| {
        let shown = Quoted::new(text.as_bytes()).to_string();
        Failure::usage(format!("invalid path {shown}: {error}"))
    })
}
