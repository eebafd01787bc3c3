//! What all commands do that change an archive: open it for a commit, finish, say what was done and how to undo it.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::args::ResourceArgs;
use crate::keys::KeyArgs;
use crate::reading;
use crate::report::{CommandResult, Failure, Outcome};
use crate::ui::Ui;
use nra_convert::pack::named;
use nra_format::Error;
use nra_format::crypt::Keyring;
use nra_format::nra::recovery::standing;
use nra_format::nra::writer::{StoreEnd, Writer, WriterOptions, WriterStats};
use nra_format::path::{EntryPath, Quoted, normal};
use nra_format::progress::Warning;
use nra_format::source::{FileSource, FileStore, ReadAt, Rehearsal, Store};
use nra_text::{self, ArchiveField};

/// What is said behind what would be done.
pub const DRY_RUN: &str = "not done, this was a dry run";

/// The archive that a command changes, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct ChangeArgs {
    /// Archive to change
    #[arg(value_name = "ARCHIVE")]
    pub archive: PathBuf,
    /// Tell what would be done and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Message of the commit
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true, hide_short_help = true)]
    pub message: String,
    /// Keys and passwords.
    #[command(flatten)]
    pub keys: KeyArgs,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
pub struct ChangeSummary {
    #[serde(flatten)]
    archive: ArchiveField,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<u64>,
    dry_run: bool,
    added: u64,
    replaced: u64,
    removed: u64,
    /// Entries of the archive afterwards.
    entries: u64,
    /// Bytes by which the archive file grew.
    added_bytes: u64,
}

/// An archive in change.
pub struct Change {
    /// What is done to it.
    pub writer: Writer<StoreEnd>,
    /// Its name, quoted.
    pub name: String,
    path: PathBuf,
    /// Its keys, unlocked, if it is encrypted.
    pub keys: Option<Keyring>,
    dry_run: bool,
    commit: u64,
    before: Before,
    /// `nra revert` undoes it: keys it leaves alone.
    pub is_undone: bool,
}

impl ChangeArgs {
    /// Opens the archive for a commit.
    ///
    /// # Errors
    ///
    /// When it can't be changed.
    pub fn begin(&self) -> CommandResult<Change> {
        self.begin_at(&newest(&self.archive)?)
    }

    /// As [`ChangeArgs::begin`], where the name of the archive has been told from the number of a commit.
    ///
    /// # Errors
    ///
    /// When it can't be changed.
    pub fn begin_at(&self, path: &Path) -> CommandResult<Change> {
        let path = refuse_stdin(path)?.to_owned();
        let name = Quoted::new(path.as_os_str().as_bytes()).to_string();
        let fail = |error| explain(error, &name);
        // Locked before it is unlocked: nobody changes its keys in between.
        let file = FileStore::open(&path).map_err(fail)?;
        let store: Arc<dyn Store> = if self.dry_run { Arc::new(Rehearsal(file)) } else { Arc::new(file) };
        let source: Arc<dyn ReadAt> = Arc::new(Arc::clone(&store));
        let before = Before::of(&*source).map_err(fail)?;
        let mut options = WriterOptions { message: self.message.clone(), ..WriterOptions::balanced() };
        options.threads = self.resources.threads();
        options.memory_bytes = self.resources.memory.unwrap_or(options.memory_bytes);
        options.encryption = self.keys.unlock(&source, &name)?;
        let keys = options.encryption.clone();
        let writer = Writer::append(store, options).map_err(fail)?;
        let commit = writer.base().and_then(|base| nra_format::archive::Archive::info(&**base).commit).unwrap_or_default();
        Ok(Change { writer, name, path, keys, dry_run: self.dry_run, commit, before, is_undone: true })
    }
}

impl Change {
    /// Says whether nothing is to be changed.
    pub fn is_dry(&self) -> bool {
        self.dry_run
    }

    /// Returns the number of the commit before the newest one, if there is one.
    pub fn before(&self) -> Option<u64> {
        self.commit.checked_sub(1).filter(|number| *number > 0)
    }

    /// Turns an error of the work into a failure that names the archive. That something is in the way there is no mistake of the command line.
    pub fn explain(&self, error: Error) -> Failure {
        match error {
            Error::Usage { detail } => Failure::failed(format!("{}: {detail}", self.name)),
            error => explain(error, &self.name),
        }
    }

    /// Writes the commit, or finds out what it would come to, and says `what` was done: `removed 3 entries`.
    ///
    /// # Errors
    ///
    /// When the archive can't be written; it is as it was then.
    pub fn finish(self, what: &str, ui: &mut Ui) -> CommandResult {
        let Self { writer, name, path, dry_run, commit, before, is_undone, .. } = self;
        let progress = ui.progress("writing");
        let finished = writer.finish(&progress);
        drop(progress);
        let (end, stats) = finished.map_err(|error| before.explain(error, &path, &name))?;
        drop(end);
        ui.flush()?;
        let made = Made { name: &name, before: commit, is_protected: before.is_protected, is_undone, dry_run };
        made.say(what, &stats, ui);
        let summary = ChangeSummary {
            archive: ArchiveField::new(&path),
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

/// A commit that was made.
pub struct Made<'a> {
    /// Name of the archive, quoted.
    pub name: &'a str,
    /// Number of the commit before it.
    pub before: u64,
    /// The archive had recovery data.
    pub is_protected: bool,
    /// `nra revert` undoes it.
    pub is_undone: bool,
    /// It was not written.
    pub dry_run: bool,
}

impl Made<'_> {
    /// Tells what was done, what it cost, how to get back.
    pub fn say(&self, what: &str, stats: &WriterStats, ui: &Ui) {
        let Self { name, before, is_protected, is_undone, dry_run } = *self;
        if stats.commit == before {
            return ui.console().note(&format!("{name}: nothing has changed"));
        }
        let done = format!("{what} in commit {} (+{})", stats.commit, ui.size(stats.added_bytes));
        let earlier = before_name(name, before);
        ui.console().note(&if dry_run {
            format!("{done}: {DRY_RUN}")
        } else if !is_undone {
            done
        } else {
            format!("{done}; {earlier} is the archive as it was, nra revert {name} goes back to it")
        });
        if is_protected {
            let verb = if dry_run { "would go" } else { "went" };
            let message = format!("the recovery data of {name} {verb} with this change; nra protect {name} makes it anew");
            ui.console().warn(Warning::remark([], message));
        }
    }
}

fn before_name(name: &str, before: u64) -> String {
    match name.strip_suffix('\'') {
        Some(open) => format!("{open}@{before}'"),
        None => format!("{name}@{before}"),
    }
}

/// Returns the file of the archive to change, which can't be an earlier commit.
///
/// # Errors
///
/// When it is one, or standard input.
pub fn newest(name: &Path) -> CommandResult<PathBuf> {
    match reading::locate(refuse_stdin(name)?, None)? {
        (path, None) => Ok(path),
        (_, Some(number)) => {
            let shown = Quoted::new(name.as_os_str().as_bytes()).to_string();
            Err(Failure::usage(format!("{shown}: commit {number} cannot be changed, only the newest state of an archive can")))
        }
    }
}

fn refuse_stdin(name: &Path) -> CommandResult<&Path> {
    match name.as_os_str() == "-" {
        true => Err(Failure::usage("an archive from standard input cannot be changed")),
        false => Ok(name),
    }
}

/// Refuses an output that is the archive itself: nobody would keep others from changing it meanwhile.
///
/// # Errors
///
/// When it is.
pub fn refuse_same(archive: &Path, output: Option<&Path>, hint: &str) -> CommandResult<()> {
    if output.is_some_and(|output| same_file(archive, output)) {
        return Err(Failure::usage("OUT is the archive itself").hint(hint));
    }
    Ok(())
}

/// Says whether two names are of one file.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|own| identity(other) == Some(own))
}

/// What an archive was before an attempt to change it.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// It had recovery data.
    pub is_protected: bool,
    length: u64,
}

impl Before {
    /// Looks at the archive at `path`.
    ///
    /// # Errors
    ///
    /// When it can't be read.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Self::of(&FileSource::open(path)?)
    }

    fn of(source: &dyn ReadAt) -> Result<Self, Error> {
        Ok(Self { is_protected: standing(source)?.is_some(), length: source.len() })
    }

    /// Turns an error of the attempt into a failure that says what is left: recovery data that was there may have gone with what was begun.
    pub fn explain(self, error: Error, path: &Path, name: &str) -> Failure {
        let is_full = matches!(&error, Error::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge));
        let failure = explain(named(error, path.as_os_str().as_bytes()), name);
        let is_there = |file: &FileSource| standing(file).is_ok_and(|recovery| recovery.is_some());
        let now = FileSource::open(path);
        if self.is_protected && !now.as_ref().is_ok_and(is_there) {
            return failure.hint(format!("its recovery data went with this attempt; nra protect {name} makes it anew"));
        }
        // What was written is taken away again.
        if is_full && now.is_ok_and(|file| file.len() == self.length) {
            return failure.hint(format!("{name} is as it was"));
        }
        failure
    }
}

/// Turns an error of changing an archive into a failure.
pub fn explain(error: Error, archive: &str) -> Failure {
    match &error {
        Error::Io { source, .. } if source.kind() == ErrorKind::ResourceBusy => {
            Failure::from(error).hint("wait until it has ended, and try again; reading goes on meanwhile")
        }
        Error::Unsupported { .. } | Error::NotAnArchive { .. } => reading::explain(error, archive)
            .hint(format!("only archives of NRA 5 are changed; nra convert {archive} makes one of another")),
        Error::Corrupt { .. } => reading::explain(error, archive)
            .hint(format!("only whole archives are changed; nra salvage {archive} -o OUT makes one of what still reads")),
        Error::Cancelled => Failure::from(error).hint(format!("{archive} is as it was")),
        _ => reading::explain(error, archive),
    }
}

/// Takes a path in an archive from the command line: slashes at its ends and `./` in front don't count.
///
/// # Errors
///
/// When it is no path.
pub fn entry_path(text: &OsStr) -> CommandResult<EntryPath> {
    EntryPath::new(normal(&nra_text::unquoted(text.as_bytes()))).map_err(|error| {
        let shown = Quoted::new(text.as_bytes()).to_string();
        Failure::usage(format!("{shown} is no path in an archive: {error}"))
    })
}

/// Returns the failure of patterns that match nothing.
pub fn nothing_matches(unmatched: &[&[u8]], archive: &str) -> Failure {
    if unmatched.is_empty() {
        return Failure::failed(format!("{archive}: what the patterns match is left out again; nothing was changed"));
    }
    let names: Vec<String> = unmatched.iter().take(3).map(|pattern| Quoted::new(pattern).to_string()).collect();
    let more =
        if unmatched.len() > 3 { format!(" and {} more", nra_text::count(unmatched.len() as u64 - 3)) } else { String::new() };
    let failure = Failure::failed(format!("{archive}: no entry matches {}{more}; nothing was changed", names.join(", ")));
    failure.hint(format!("nra list {archive} shows what is in it; quote globs"))
}
