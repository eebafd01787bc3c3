//! Checks and errors of output archives.

use std::path::Path;

use crate::report::{CommandResult, Failure};
use nra_format::Error;
use nra_format::path::Quoted;

/// Checks that the output does not exist, as writing it would.
///
/// # Errors
///
/// If there is a file of that name.
pub fn check_not_existing(output: &Path) -> CommandResult<()> {
    if output == Path::new("-") || !std::fs::metadata(output).is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let exists = std::io::ErrorKind::AlreadyExists.into();
    Err(explain(Error::io("create", output.as_os_str().as_encoded_bytes(), exists), output))
}

/// Converts an error of writing `output` into a failure.
pub fn explain(error: Error, output: &Path) -> Failure {
    let exists = matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists);
    if matches!(error, Error::Cancelled) {
        let failure = Failure::from(error);
        return if output == Path::new("-") { failure } else { failure.hint(format!("{} was not written", shown(output))) };
    }
    let own = matches!(&error, Error::Io { action: "pack", .. });
    let failure = Failure::from(error);
    if own {
        return failure.hint("use -o to choose another name for the archive");
    }
    if exists {
        return failure.hint(format!("use -f to replace {}, or -o for another name", shown(output)));
    }
    failure
}

fn shown(path: &Path) -> String {
    Quoted::new(path.as_os_str().as_encoded_bytes()).to_string()
}
