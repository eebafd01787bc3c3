//! Errors about one entry.

use nra_format::error::Error;
use nra_format::path::{EntryPath, Quoted};

/// Adds the path of the entry to an error.
pub(crate) fn within(error: Error, path: &EntryPath) -> Error {
    let error = error.of_entry(path.as_bytes());
    let path = Quoted::new(path.as_bytes()).to_string();
    // Some containers add the path themselves.
    let named = |text: String| if text.contains(&path) { text } else { format!("{text} (entry {path})") };
    match error {
        Error::Corrupt { structure, offset, detail } => Error::Corrupt { structure, offset, detail: named(detail) },
        Error::Unsupported { what, found, known } => Error::Unsupported { what, found: named(found), known },
        // The archive caused the request, not the user.
        Error::Usage { detail } => Error::corrupt("entry", 0, named(detail)),
        error => error,
    }
}
