//! The output archive: destination, checks and errors.

use std::io::ErrorKind;
use std::path::Path;

use crate::report::{CommandResult, Failure};
use nra_convert::{Destination, InputIsOutput};
use nra_format::Error;
use nra_text::quoted;

/// Returns whether the output is standard output.
pub fn is_stdout(output: &Path) -> bool {
    output == Path::new("-")
}

/// Returns the destination for the name `output`.
pub fn destination(output: &Path, overwrite: bool) -> Destination {
    if is_stdout(output) {
        Destination::Stream(Box::new(std::io::stdout()))
    } else {
        Destination::File { path: output.to_owned(), overwrite }
    }
}

/// Fails if the output exists, as writing it without `overwrite` would. For dry runs.
pub fn check_not_existing(output: &Path, overwrite: bool) -> CommandResult<()> {
    if overwrite || is_stdout(output) || !output.is_file() {
        return Ok(());
    }
    Err(explain(Error::io("create", output.as_os_str().as_encoded_bytes(), ErrorKind::AlreadyExists.into()), output))
}

/// Converts an error of writing `output` into a failure.
pub fn explain(error: Error, output: &Path) -> Failure {
    let hint = match &error {
        Error::Cancelled if !is_stdout(output) => Some(format!("{} was not written", quoted(output))),
        Error::Io { source, .. } if source.get_ref().is_some_and(|cause| cause.is::<InputIsOutput>()) => {
            Some("use -o to choose another name for the archive".to_owned())
        }
        Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists => {
            Some(format!("use -f to replace {}, or -o for another name", quoted(output)))
        }
        _ => None,
    };
    hint.into_iter().fold(Failure::from(error), Failure::hint)
}
