//! What can go wrong, by culprit.
//!
//! Text is lower case without a full stop and never repeats its source; the binary alone turns errors into words for people
//! (`cli::report`).

use std::io;

use crate::format::path::Quoted;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {action} {}", Quoted::new(path))]
    Io {
        /// What was tried, as a verb phrase that fits after "cannot": `read`, `create directory`.
        action: &'static str,
        /// File concerned, or a description such as `standard output`.
        path: Vec<u8>,
        /// What the system said.
        source: io::Error,
    },
    /// The archive's bytes contradict its format.
    #[error("{structure} at offset {offset} is damaged: {detail}")]
    Corrupt {
        /// Part of the format, in the spec's words: `frame header`, `entry page`.
        structure: &'static str,
        /// File offset of that part.
        offset: u64,
        /// What was expected and what was found.
        detail: String,
    },
    /// A valid file that this version of nra cannot handle.
    #[error("{what} {found} is not supported (known: {known})")]
    Unsupported {
        /// Kind of thing: `format version`, `required feature`.
        what: &'static str,
        /// The one in the file.
        found: String,
        /// Those that would work.
        known: String,
    },
    /// A count or length is beyond what nra accepts.
    #[error("{what} is {found}, more than the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// The archive has no entry of this path.
    #[error("no entry {}", Quoted::new(path))]
    NotFound {
        /// The path that was looked up.
        path: Vec<u8>,
    },
    /// The caller asked for something that makes no sense.
    #[error("{detail}")]
    Usage {
        /// What is wrong with the request.
        detail: String,
    },
    /// The monitor asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl Error {
    /// Returns an [`Error::Io`] for `action` on `path`.
    pub fn io(action: &'static str, path: impl AsRef<[u8]>, source: io::Error) -> Self {
        Self::Io { action, path: path.as_ref().to_vec(), source }
    }

    /// Returns an [`Error::Corrupt`].
    pub fn corrupt(structure: &'static str, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corrupt { structure, offset, detail: detail.into() }
    }
}
