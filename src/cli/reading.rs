//! What all reading commands do: open the archive, choose entries, say what was not found or is damaged.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::args::{ArchiveArg, ContainerArgs, ResourceArgs};
use crate::awaited::Awaited;
use crate::console::Console;
use crate::keys::{self, KeyArgs};
use crate::opening::Watched;
use crate::report::{CommandResult, Failure, Outcome};
use crate::signals;
use crate::ui::Ui;
use nra_convert::select::Selection;
use nra_format::Error;
use nra_format::Result as FormatResult;
use nra_format::archive::{self, Archive, OpenOptions, is_nra, misnamed, open_path, open_stream};
use nra_format::entry::Entry;
use nra_format::error::{Looks, STANDARD_INPUT, Subject};
use nra_format::nra::reader::NraReader;
use nra_format::path::Quoted;
use nra_format::progress::{Severity, Warning};
use nra_format::source::{FileSource, is_locked};

/// An opened archive and what it is called in messages.
pub struct Opened {
    /// The archive.
    pub archive: Box<dyn Archive>,
    /// Its name as the user may write it, quoted.
    pub name: String,
    /// Its file; `-` is standard input.
    pub path: PathBuf,
    /// A key was given, but it is not encrypted: it may not be the archive that was meant.
    needless_key: bool,
}

/// Opens the archive of the command line; `-` is read from standard input into memory.
///
/// # Errors
///
/// What is wrong with it, with its name.
pub fn open(argument: &ArchiveArg, resources: &ResourceArgs, ui: &Ui) -> CommandResult<Opened> {
    open_with(&argument.archive, argument.at, &argument.container, &argument.keys, resources, Some(ui))
}

/// As [`open`], without a sign of life.
///
/// # Errors
///
/// As [`open`].
pub fn open_quietly(argument: &ArchiveArg, resources: &ResourceArgs) -> CommandResult<Opened> {
    open_with(&argument.archive, argument.at, &argument.container, &argument.keys, resources, None)
}

/// Opens the archive that `name` stands for (see [`locate`]), at commit `at` if that is given.
///
/// # Errors
///
/// As [`open`].
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
        None => Quoted::new(path.as_os_str().as_bytes()).to_string(),
    };
    // A pipe with a name, such as a shell makes of <(…).
    let is_pipe = path.metadata().is_ok_and(|status| status.file_type().is_fifo());
    let opened = if is_stdin(&path) || is_pipe {
        // A stream is gone when it turns out that it is encrypted.
        options.key = keys.to_open(&name)?;
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
            archive::settled(&path, &mut || archive::open(Arc::new(Watched::new(FileSource::open(&path)?, &progress)), &options))
        })?
    };
    let archive = opened.map_err(|error| {
        match &error {
            // What does not open can't be verified either.
            Error::Corrupt { .. } => Failure::from(error).context(&name).hint(lost(&path)),
            _ => explain(error, &name),
        }
    })?;
    let needless_key = keys.is_given() && !archive.info().encrypted;
    Ok(Opened { archive, name, path, needless_key })
}

/// Says what can be done about an archive that is too damaged to be opened.
pub fn lost(path: &Path) -> &'static str {
    if FileSource::open(path).is_ok_and(|source| is_nra(&source)) {
        "get another copy, or let nra salvage take out what is left"
    } else {
        "get another copy: without its index nothing of it is found"
    }
}

/// Tells the file and the commit that `name` stands for: `A@N` is A at commit N, unless there is a file of exactly that name.
///
/// # Errors
///
/// When `at` says another commit, or it is a URL.
pub fn locate(name: &Path, at: Option<u64>) -> CommandResult<(PathBuf, Option<u64>)> {
    let bytes = name.as_os_str().as_bytes();
    if is_url(bytes) && name.symlink_metadata().is_err() {
        let failure = Failure::failed(format!("cannot open {}: URLs are not read by this version", Quoted::new(bytes)));
        return Err(failure.hint("fetch the archive first; - reads it from standard input: curl URL | nra list -"));
    }
    let split = bytes.iter().rposition(|&byte| byte == b'@').filter(|&sign| sign > 0).and_then(|sign| {
        let digits = std::str::from_utf8(&bytes[sign + 1..]).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        Some((&bytes[..sign], digits?.parse().ok()?))
    });
    let Some((path, number)) = split.filter(|_| name.symlink_metadata().is_err()) else { return Ok((name.into(), at)) };
    match at {
        Some(other) if other != number => {
            Err(Failure::usage(format!("{} and --at {other} name two commits", Quoted::new(bytes))))
        }
        _ => Ok((OsStr::from_bytes(path).into(), Some(number))),
    }
}

/// Says whether a name is that of something on another machine.
pub fn is_url(name: &[u8]) -> bool {
    let scheme = name.windows(3).position(|part| part == b"://");
    scheme.is_some_and(|end| end > 0 && name[..end].iter().all(u8::is_ascii_alphanumeric))
}

fn open_stdin(options: &OpenOptions) -> CommandResult<FormatResult<Box<dyn Archive>>> {
    Ok(open_stream(&mut stdin()?.lock(), Subject::StandardInput, options))
}

/// Returns standard input, to read an archive from.
///
/// # Errors
///
/// When it is a terminal.
pub fn stdin() -> CommandResult<io::Stdin> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Failure::usage("standard input is a terminal, not an archive").hint("name a file, or pipe an archive in"));
    }
    Ok(stdin)
}

/// Returns standard input for work that stops cleanly: an interrupt ends the wait for what does not come.
///
/// # Errors
///
/// As [`stdin`]; when the system gives no thread.
pub fn awaited_stdin() -> CommandResult<Awaited> {
    Awaited::new(stdin()?, signals::stopped).map_err(|error| Error::io("read", Subject::StandardInput, error).into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Turns an error into a failure that names the archive, and hints at what to do about it.
pub fn explain(error: Error, archive: &str) -> Failure {
    explain_at(error, archive, archive)
}

/// As [`explain`], for an error that came up while the content of `entry` was read.
pub fn explain_entry(error: Error, archive: &str, entry: &Entry) -> Failure {
    explain_at(error, archive, &format!("{archive}: {}", entry.path))
}

fn explain_at(error: Error, archive: &str, place: &str) -> Failure {
    let hint = match &error {
        Error::Io { .. } | Error::Cancelled | Error::Usage { .. } => None,
        Error::Corrupt { .. } => Some(format!("nra verify {archive} tells what is damaged")),
        Error::NotAnArchive { looks: Looks::Unknown | Looks::Zeros, .. } => Some(format!(
            "nra formats lists what is read; if this is what is left of an NRA 5 archive, nra salvage {archive} -o OUT takes it out"
        )),
        Error::NotAnArchive { .. } => Some("nra formats lists what is read".to_owned()),
        Error::NotFound { .. } => Some(format!("nra list {archive} shows what is in it")),
        other => keys::hint(other, archive),
    };
    let named = !matches!(error, Error::Io { .. } | Error::Cancelled);
    let failure = Failure::from(error);
    let failure = if named { failure.context(place) } else { failure };
    hint.into_iter().fold(failure, Failure::hint)
}

/// Tells that an entry is not there: where the index is damaged, that may be the fault of the damage.
pub fn not_found(path: &[u8], opened: &Opened) -> Failure {
    if opened.archive.is_recovered() {
        let text = format!("{}: no entry {} where the index is damaged", opened.name, Quoted::new(path));
        return Failure::damaged(text).hint(format!("nra verify {} tells what is damaged", opened.name));
    }
    explain(Error::NotFound { path: path.to_vec() }, &opened.name)
}

/// Takes what was read of the index, or turns the damage that hides entries into a warning.
///
/// # Errors
///
/// Everything but damage.
pub fn intact<T>(result: Result<T, Error>, console: &Console) -> CommandResult<Option<T>> {
    Ok(or_damage(result, b"", console)?)
}

/// Says what came to light about the archive, and which patterns matched nothing. Call it before the last output.
///
/// # Errors
///
/// When there were patterns and nothing matched any of them.
pub fn conclude(opened: &Opened, selection: &Selection, matched: bool, ui: &Ui) -> CommandResult<Outcome> {
    remark(opened, ui);
    let unmatched = selection.unmatched();
    if !matched && !unmatched.is_empty() && ui.console().severity() != Some(Severity::Damage) {
        let shown = |pattern: &&[u8]| {
            let fault = selection.fault(pattern).map_or_else(String::new, |fault| format!(" (no glob: {fault})"));
            format!("{}{fault}", Quoted::new(pattern))
        };
        let names: Vec<String> = unmatched.iter().take(3).map(shown).collect();
        let more = if unmatched.len() > 3 { format!(" and {} more", unmatched.len() - 3) } else { String::new() };
        let failure = Failure::failed(format!("{}: no entry matches {}{more}", opened.name, names.join(", ")));
        return Err(failure.hint(format!("nra list {} shows what is in it; quote globs", opened.name)));
    }
    for pattern in unmatched {
        ui.console().warn(Warning::degraded(pattern, "no entry matches"));
    }
    Ok(Outcome::Done)
}

/// Says so when the name of an archive promises another container than `format`; returns whether it does.
pub fn remark_name(path: &Path, format: &str, ui: &Ui) -> bool {
    let misleads = misnamed(path.as_os_str().as_bytes(), format);
    let is_misnamed = misleads.is_some();
    if let Some(message) = misleads {
        let path = path.as_os_str().as_bytes().to_vec();
        ui.console().warn(Warning::remark(path, message));
    }
    is_misnamed
}

/// Says what came to light about the state of the archive.
pub fn remark(opened: &Opened, ui: &Ui) {
    if opened.needless_key {
        let message = format!("{}: it is not encrypted, so anybody may have made it; the key was not used", opened.name);
        ui.console().warn(Warning::remark([], message));
    }
    remark_name(&opened.path, opened.archive.format(), ui);
    let damage = opened.archive.is_recovered();
    let severity = match (damage, opened.archive.omits_entries()) {
        (true, _) => Severity::Damage,
        (false, true) => Severity::Degraded,
        (false, false) => Severity::Remark,
    };
    let mut remarks = opened.archive.remarks();
    // What an append has written so far is no remains of one.
    if let Some(remains) =
        NraReader::of(&*opened.archive).and_then(NraReader::remains).filter(|_| !damage && is_locked(&opened.path))
    {
        remarks.retain(|remark| remark != remains);
    }
    if damage && remarks.is_empty() {
        remarks.push("the index is damaged; entries were found without it".to_owned());
    }
    for remark in remarks {
        ui.console().warn(Warning::new(severity, [], format!("{}: {remark}", opened.name)));
    }
}

/// Builds the threads that `-j` asks for; one for an archive that is read from its start to its end.
///
/// # Errors
///
/// When the system gives none.
pub fn threads(resources: &ResourceArgs, archive: &dyn Archive) -> CommandResult<rayon::ThreadPool> {
    let threads = if archive.is_sequential() { 1 } else { resources.threads() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}

/// Takes what was read of an entry's content, or turns its damage into a warning that names the entry.
///
/// # Errors
///
/// Everything but damage, with the name of the archive.
pub fn intact_content<T>(result: Result<T, Error>, path: &[u8], archive: &str, console: &Console) -> CommandResult<Option<T>> {
    or_damage(result, path, console).map_err(|error| explain(error, archive))
}

/// Takes what was read of an entry, or turns its damage into a warning that names the entry.
///
/// # Errors
///
/// Everything but damage.
pub fn or_damage<T>(result: Result<T, Error>, path: &[u8], console: &Console) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ (Error::Corrupt { .. } | Error::Limit { .. } | Error::Beyond { .. } | Error::Unsupported { .. })) => {
            console.warn(Warning::damage(path, error.to_string()));
            Ok(None)
        }
        Err(error) if path.is_empty() => Err(error),
        Err(error) => Err(error.of_entry(path)),
    }
}
