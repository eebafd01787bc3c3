//! Steps shared by commands that read an archive: opening, selecting entries, reporting damage.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive_errors::{self, or_damage};
use crate::args::{ArchiveArg, ContainerArgs, ResourceArgs};
use crate::console::Console;
use crate::interruptible::InterruptibleReader;
use crate::password_args::KeyArgs;
use crate::report::{CommandResult, Failure, Outcome};
use crate::signals;
use crate::ui::Ui;
use crate::watched_file::WatchedFile;
use nra_convert::select::Selection;
use nra_format::Error;
use nra_format::Result as FormatResult;
use nra_format::archive::{self, Archive, OpenOptions, extension_mismatch, open_path, open_stream};
use nra_format::container::Container;
use nra_format::entry::Entry;
use nra_format::error::{STANDARD_INPUT, Subject};
use nra_format::nra::reader::NraReader;
use nra_format::path::Quoted;
use nra_format::progress::{Severity, Warning};
use nra_format::source::{FileSource, is_locked};

/// An opened archive and its name for messages.
pub struct Opened {
    /// The archive.
    pub archive: Box<dyn Archive>,
    /// Its quoted name.
    pub name: String,
    /// Its file; `-` is standard input.
    pub path: PathBuf,
    /// A key was given although the archive is not encrypted: it may be the wrong archive.
    needless_key: bool,
}

impl Opened {
    /// Iterates over the selected entries. Reports damage of the index as a warning.
    pub fn entries<'a>(
        &'a self,
        selection: &'a Selection,
        ui: &Ui,
    ) -> CommandResult<impl Iterator<Item = CommandResult<Entry>> + use<'a>> {
        let entries = selection.entries(&*self.archive).map_err(|error| archive_errors::explain(error, &self.name))?;
        let console = Arc::clone(ui.console());
        Ok(entries.filter_map(move |entry| archive_errors::intact(entry, &console).transpose()))
    }

    /// Returns the result of reading an entry. Reports damage as a warning and returns `None`.
    pub fn intact<T>(&self, result: FormatResult<T>, entry: &Entry, console: &Console) -> CommandResult<Option<T>> {
        or_damage(result, entry.path.as_bytes(), console).map_err(|error| archive_errors::explain(error, &self.name))
    }
}

/// Opens the archive of the command line. `-` is read from standard input into memory.
pub fn open(argument: &ArchiveArg, resources: &ResourceArgs, ui: &Ui) -> CommandResult<Opened> {
    open_with(&argument.archive, argument.at, &argument.container, &argument.keys, resources, Some(ui))
}

/// As [`open`], without progress.
pub fn open_quietly(argument: &ArchiveArg, resources: &ResourceArgs) -> CommandResult<Opened> {
    open_with(&argument.archive, argument.at, &argument.container, &argument.keys, resources, None)
}

/// Opens the archive `name` (see [`locate`]), at commit `at` if that is given.
pub fn open_at(name: &Path, at: Option<u64>, keys: &KeyArgs, resources: &ResourceArgs, ui: &Ui) -> CommandResult<Opened> {
    open_with(name, at, &ContainerArgs::default(), keys, resources, Some(ui))
}

fn open_with(
    name: &Path,
    at: Option<u64>,
    container: &ContainerArgs,
    keys: &KeyArgs,
    resources: &ResourceArgs,
    ui: Option<&Ui>,
) -> CommandResult<Opened> {
    let (path, commit) = locate(name, at)?;
    let mut options = OpenOptions { commit, ..OpenOptions::default() };
    container.apply(&mut options);
    resources.apply(&mut options);
    let name = match commit {
        _ if is_stdin(&path) => STANDARD_INPUT.to_owned(),
        Some(number) => Quoted::new(&[path.as_os_str().as_bytes(), b"@", number.to_string().as_bytes()].concat()).to_string(),
        None => nra_text::quoted(&path),
    };
    // A named pipe, such as a shell creates for <(…).
    let is_pipe = path.metadata().is_ok_and(|status| status.file_type().is_fifo());
    let opened = if is_stdin(&path) || is_pipe {
        // A stream cannot be read again when it turns out to be encrypted.
        options.key = keys.for_opening(&name)?;
        if is_pipe {
            let pipe = File::open(&path).map_err(|error| Error::io("open", path.as_os_str().as_bytes(), error));
            pipe.and_then(|mut pipe| open_stream(&mut pipe, path.as_os_str().as_bytes(), &options))
        } else {
            open_stdin(&options)?
        }
    } else {
        keys.open(&name, |key| {
            options.key = key;
            let Some(ui) = ui else { return open_path(&path, &options) };
            let progress = Arc::new(ui.opening());
            archive::open_settled(&path, &mut || {
                archive::open(Arc::new(WatchedFile::new(FileSource::open(&path)?, &progress)), &options)
            })
        })?
    };
    let archive = opened.map_err(|error| {
        match &error {
            // An archive that cannot be opened cannot be verified either.
            Error::Corrupt { .. } => Failure::from(error).context(&name).hint(archive_errors::unreadable_hint(&path)),
            _ => archive_errors::explain(error, &name),
        }
    })?;
    let needless_key = keys.is_given() && !archive.info().encrypted;
    Ok(Opened { archive, name, path, needless_key })
}

/// Splits `name` into file and commit: `A@N` is commit N of A, unless a file of exactly that name
/// exists. Fails if `at` is a different commit or the name is a URL.
pub fn locate(name: &Path, at: Option<u64>) -> CommandResult<(PathBuf, Option<u64>)> {
    let bytes = name.as_os_str().as_bytes();
    if is_url(bytes) && name.symlink_metadata().is_err() {
        let failure = Failure::failed(format!("cannot open {}: URLs are not supported", Quoted::new(bytes)));
        return Err(failure.hint("download the archive first, or pipe it: curl URL | nra list -"));
    }
    let split = bytes.iter().rposition(|&byte| byte == b'@').filter(|&sign| sign > 0).and_then(|sign| {
        let digits = std::str::from_utf8(&bytes[sign + 1..]).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        Some((&bytes[..sign], digits?.parse().ok()?))
    });
    let Some((path, number)) = split.filter(|_| name.symlink_metadata().is_err()) else { return Ok((name.into(), at)) };
    match at {
        Some(other) if other != number => {
            Err(Failure::usage(format!("{} and --at {other} name different commits", Quoted::new(bytes))))
        }
        _ => Ok((OsStr::from_bytes(path).into(), Some(number))),
    }
}

/// Returns whether a name is a URL.
pub fn is_url(name: &[u8]) -> bool {
    let scheme = name.windows(3).position(|part| part == b"://");
    scheme.is_some_and(|end| end > 0 && name[..end].iter().all(u8::is_ascii_alphanumeric))
}

fn open_stdin(options: &OpenOptions) -> CommandResult<FormatResult<Box<dyn Archive>>> {
    Ok(open_stream(&mut stdin()?.lock(), Subject::StandardInput, options))
}

/// Returns standard input for reading an archive.
/// Fails if it is a terminal.
pub fn stdin() -> CommandResult<io::Stdin> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::usage("cannot read an archive from a terminal").hint("name a file or pipe an archive to nra"));
    }
    Ok(stdin)
}

/// Returns standard input for work that can be interrupted while it waits for data.
pub fn interruptible_stdin() -> CommandResult<InterruptibleReader> {
    InterruptibleReader::new(stdin()?, signals::stopped).map_err(|error| Error::io("read", Subject::StandardInput, error).into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the failure for a missing entry, which may be hidden by a damaged index.
pub fn not_found(path: &[u8], opened: &Opened) -> Failure {
    if opened.archive.is_index_damaged() {
        let text = format!("{}: entry {} not found, but the index is damaged", opened.name, Quoted::new(path));
        return Failure::damaged(text).hint(format!("use nra verify {} to list the damage", opened.name));
    }
    archive_errors::explain(Error::NotFound { path: path.to_vec() }, &opened.name)
}

/// Reports remarks about the archive and patterns without a match. Call it before the last output.
/// Fails if there are patterns and none of them matched.
pub fn conclude(opened: &Opened, selection: &Selection, matched: bool, ui: &Ui) -> CommandResult<Outcome> {
    report_remarks(opened, ui);
    if !matched && !selection.unmatched().is_empty() && ui.console().severity() != Some(Severity::Damage) {
        return Err(no_match(selection, &opened.name, ""));
    }
    warn_unmatched(selection, ui);
    Ok(Outcome::Done)
}

/// Returns the failure that no entry of `archive` matches, with `consequence` appended.
pub fn no_match(selection: &Selection, archive: &str, consequence: &str) -> Failure {
    let unmatched = selection.unmatched();
    let shown = |pattern: &&[u8]| {
        let error = selection.glob_error(pattern).map_or_else(String::new, |error| format!(" (invalid glob: {error})"));
        format!("{}{error}", Quoted::new(pattern))
    };
    let names: Vec<String> = unmatched.iter().take(3).map(shown).collect();
    let more = unmatched.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {} more", nra_text::count(more as u64)) } else { String::new() };
    let failure = Failure::failed(format!("{archive}: no entry matches {}{more}{consequence}", names.join(", ")));
    failure.hint(format!("use nra list {archive} to list its entries; quote globs"))
}

/// Warns about patterns that match no entry.
pub fn warn_unmatched(selection: &Selection, ui: &Ui) {
    for pattern in selection.unmatched() {
        ui.console().warn(Warning::degraded(pattern, "no entry matches"));
    }
}

/// Warns if the extension of an archive does not fit its format. Returns whether it warned.
pub fn warn_extension_mismatch(path: &Path, container: Container, ui: &Ui) -> bool {
    let misleads = extension_mismatch(path.as_os_str().as_bytes(), container);
    let is_misnamed = misleads.is_some();
    if let Some(message) = misleads {
        let path = path.as_os_str().as_bytes().to_vec();
        ui.console().warn(Warning::remark(path, message));
    }
    is_misnamed
}

/// Reports remarks about the state of the archive.
pub fn report_remarks(opened: &Opened, ui: &Ui) {
    if opened.needless_key {
        let message = format!("{}: not encrypted, so it may come from anyone; the key was not used", opened.name);
        ui.console().warn(Warning::remark([], message));
    }
    warn_extension_mismatch(&opened.path, opened.archive.container(), ui);
    let damage = opened.archive.is_index_damaged();
    let severity = match (damage, opened.archive.skips_entries()) {
        (true, _) => Severity::Damage,
        (false, true) => Severity::Degraded,
        (false, false) => Severity::Remark,
    };
    // Data of a running append is not the remains of an unfinished one.
    let changing =
        NraReader::downcast(&*opened.archive).filter(|reader| !damage && reader.has_trailing_bytes() && is_locked(&opened.path));
    let mut remarks = changing.map_or_else(|| opened.archive.remarks(), NraReader::remarks_during_append);
    if damage && remarks.is_empty() {
        remarks.push("the index is damaged; entries were found by scanning blocks".to_owned());
    }
    for remark in remarks {
        ui.console().warn(Warning::new(severity, [], format!("{}: {remark}", opened.name)));
    }
}

/// Builds a thread pool of the size of `-j`, or one thread for a sequential archive.
pub fn thread_pool(resources: &ResourceArgs, archive: &dyn Archive) -> CommandResult<rayon::ThreadPool> {
    let threads = if archive.is_sequential() { 1 } else { resources.threads() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}
