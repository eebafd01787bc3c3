//! Failures and warnings about an archive: names, hints, and damage that does not stop a command.

use std::path::Path;
use std::sync::Arc;

use crate::console::Console;
use crate::report::{CommandResult, Failure};
use nra_format::Error;
use nra_format::archive::detect_source;
use nra_format::container::Engine;
use nra_format::entry::Entry;
use nra_format::error::FileGuess;
use nra_format::nra::reader::NraReader;
use nra_format::progress::Warning;
use nra_format::source::{FileSource, ReadAt};

/// Hint when the key is missing and there is no terminal.
pub const KEY_HINT: &str = "use --password-file, --key-file, NRA_PASSWORD or NRA_ENCRYPTION_KEY";

/// Converts an error into a failure that names the archive and adds a hint.
pub fn explain(error: Error, archive: &str) -> Failure {
    explain_at(error, archive, archive)
}

/// As [`explain`], for an error while reading the content of `entry`.
pub fn explain_entry(error: Error, archive: &str, entry: &Entry) -> Failure {
    explain_at(error, archive, &format!("{archive}: {}", entry.path))
}

fn explain_at(error: Error, archive: &str, subject: &str) -> Failure {
    let hint = match &error {
        Error::Io { .. } | Error::Cancelled | Error::Usage { .. } => None,
        Error::Corrupt { .. } => Some(format!("use nra verify {archive} to list the damage")),
        Error::NotAnArchive { guess: FileGuess::Unknown | FileGuess::Zeros, .. } => Some(format!(
            "use nra formats to list supported formats; for the remains of an NRA 5 archive, use nra salvage {archive} -o OUT"
        )),
        Error::NotAnArchive { .. } => Some("use nra formats to list supported formats".to_owned()),
        Error::NotFound { .. } => Some(format!("use nra list {archive} to list its entries")),
        other => key_hint(other, archive),
    };
    let named = !matches!(error, Error::Io { .. } | Error::Cancelled);
    let failure = Failure::from(error);
    let failure = if named { failure.context(subject) } else { failure };
    hint.into_iter().fold(failure, Failure::hint)
}

/// Returns a hint for an archive that is too damaged to be opened.
pub fn unreadable_hint(path: &Path) -> &'static str {
    let engine = FileSource::open(path).and_then(|source| detect_source(&(Arc::new(source) as Arc<dyn ReadAt>)));
    if matches!(engine, Ok(Some(Engine::Nra5))) {
        "use another copy, or nra salvage to recover readable entries"
    } else {
        "use another copy: without its index, the archive cannot be read"
    }
}

/// Returns the result of reading the index; reports damage as a warning and returns `None`.
pub fn intact<T>(result: Result<T, Error>, console: &Console) -> CommandResult<Option<T>> {
    Ok(or_damage(result, b"", console)?)
}

/// Returns the result of reading an entry. Reports damage as a warning and returns `None`.
pub fn or_damage<T>(result: Result<T, Error>, path: &[u8], console: &Console) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ (Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } | Error::Unsupported { .. })) => {
            console.warn(Warning::damage(path, error.to_string()));
            Ok(None)
        }
        Err(error) if path.is_empty() => Err(error),
        Err(error) => Err(error.of_entry(path)),
    }
}

/// Returns whether the file at `path` is an encrypted NRA 5 archive.
pub fn is_encrypted(path: &Path) -> bool {
    FileSource::open(path).is_ok_and(|source| matches!(NraReader::keys(Arc::new(source)), Ok(Some(_))))
}

/// Returns a hint for a missing or wrong key.
pub fn key_hint(error: &Error, archive: &str) -> Option<String> {
    match error {
        Error::KeyNeeded | Error::EntryLocked { wrong: false, .. } => {
            Some("use -p to enter the password, or --password-file, --key-file, NRA_PASSWORD or NRA_ENCRYPTION_KEY".to_owned())
        }
        // Other containers have no list of keys.
        Error::WrongKey if is_encrypted(Path::new(archive)) => Some(format!("use nra key list {archive} to list its keys")),
        _ => None,
    }
}
