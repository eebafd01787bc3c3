//! Errors, by cause.
//!
//! Messages are lower case, have no full stop and do not include their source. The command line adds context and hints (`cli::report`).

use std::{fmt, io};

use crate::container::Engine;
use crate::path::Quoted;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("cannot {action} {subject}")]
    Io {
        /// The attempted action, a verb phrase that fits after "cannot": `read`, `create directory`.
        action: &'static str,
        /// The object of the action.
        subject: Subject,
        /// The error of the system.
        source: io::Error,
    },
    /// The bytes of the archive violate its format.
    #[error("{structure} at offset {offset} is damaged: {detail}")]
    Corrupt {
        /// Structure of the format, named as in the specification: `frame header`, `entry page`.
        structure: &'static str,
        /// File offset of the structure.
        offset: u64,
        /// Expected and found values.
        detail: String,
    },
    /// The file is valid, but this version of nra does not support it.
    #[error("{what} {found} is not supported (known: {known})")]
    Unsupported {
        /// Kind of feature: `format version`, `required feature`.
        what: &'static str,
        /// The value in the file.
        found: String,
        /// The supported values.
        known: String,
    },
    /// The file is not an archive that nra can read.
    #[error("{}: it {guess}", wanted.map_or_else(|| "not a supported archive".to_owned(), |engine| format!("not {}", engine.name())))]
    NotAnArchive {
        /// What the file seems to be.
        guess: FileGuess,
        /// The requested engine.
        wanted: Option<Engine>,
    },
    /// A count or length exceeds a limit of the format or of nra.
    #[error("{what} is {found}, more than the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The actual amount.
        found: u64,
        /// The largest allowed amount.
        limit: u64,
    },
    /// The archive is valid, but exceeds a limit that the caller set.
    #[error("{resource} is {found}, more than the limit of {limit}")]
    ResourceLimit {
        /// The limited resource.
        resource: Resource,
        /// The actual amount.
        found: u64,
        /// The largest allowed amount.
        limit: u64,
    },
    /// The archive has no entry of this path.
    #[error("no entry {}", Quoted::new(path))]
    NotFound {
        /// The requested path.
        path: Vec<u8>,
    },
    /// The request is invalid.
    #[error("{detail}")]
    Usage {
        /// Why the request is invalid. For people only: nothing depends on the text.
        detail: String,
    },
    /// Existing files conflict with entries to be extracted. Nothing was written.
    #[error("{}", conflict(*kind, paths, *count))]
    Conflict {
        /// The kind of conflict.
        kind: ConflictKind,
        /// The first conflicting paths, relative to the working directory of the user.
        paths: Vec<Vec<u8>>,
        /// Number of conflicts.
        count: u64,
    },
    /// The archive is encrypted and no key was given.
    #[error("the archive is encrypted: a password or key is needed")]
    KeyNeeded,
    /// The archive is encrypted and the given key does not open it.
    #[error("the password or key is wrong")]
    WrongKey,
    /// An entry of an open archive is encrypted and the key is missing or wrong.
    #[error("{} is encrypted: {}", Quoted::new(path), if *wrong { "the password or key is wrong" } else { "a password or key is needed" })]
    EntryLocked {
        /// Path of the entry.
        path: Vec<u8>,
        /// A key was given, but does not fit.
        wrong: bool,
    },
    /// The monitor requested cancellation.
    #[error("interrupted")]
    Cancelled,
}

/// The name of standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

/// The object of a failed system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The file of this name.
    File(Vec<u8>),
    /// The archive being written, if the writer does not know its name.
    Output,
    /// Standard output.
    StandardOutput,
    /// Standard input.
    StandardInput,
}

impl Subject {
    /// Returns the file name, or a description of the object.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::File(name) => name,
            Self::Output => b"the archive",
            Self::StandardOutput => b"standard output",
            Self::StandardInput => STANDARD_INPUT.as_bytes(),
        }
    }
}

impl<T: AsRef<[u8]>> From<T> for Subject {
    fn from(name: T) -> Self {
        Self::File(name.as_ref().to_vec())
    }
}

impl From<&Self> for Subject {
    fn from(subject: &Self) -> Self {
        subject.clone()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name) => Quoted::new(name).fmt(f),
            other => f.write_str(&String::from_utf8_lossy(other.name())),
        }
    }
}

/// A resource that callers limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Entries.
    Entries,
    /// Bytes of content.
    Content,
    /// Ratio of decoded to stored bytes.
    Ratio,
    /// Length of a stream that is read into memory, bytes.
    Stream,
    /// Memory for the dictionaries of a 7z folder, bytes.
    Dictionaries,
    /// Memory for restoring damaged bytes, bytes.
    Recovery,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "number of entries",
            Self::Content => "length of the content",
            Self::Ratio => "ratio of decoded to stored bytes",
            Self::Stream => "length of the stream",
            Self::Dictionaries => "memory for decoding 7z",
            Self::Recovery => "memory for restoring damage",
        })
    }
}

/// A guess at what a file is that is not an archive, or not of the requested format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileGuess {
    /// The file is empty.
    Empty,
    /// The file starts with zero bytes.
    Zeros,
    /// The file starts with text.
    Text,
    /// A file of this format.
    Like(String),
    /// Unknown.
    Unknown,
}

impl fmt::Display for FileGuess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::Zeros => f.write_str("starts with zero bytes"),
            Self::Text => f.write_str("looks like text"),
            Self::Like(kind) => write!(f, "looks like {kind}"),
            Self::Unknown => f.write_str("has an unknown format"),
        }
    }
}

/// A kind of conflict on extraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// The file exists.
    Exists,
    /// A directory exists in place of a file.
    Directory,
    /// A file or symlink exists in place of a directory.
    NotDirectory,
}

fn conflict(kind: ConflictKind, paths: &[Vec<u8>], count: u64) -> String {
    let what = match kind {
        ConflictKind::Exists => "exists already",
        ConflictKind::Directory => "a directory stands where the archive has something else",
        ConflictKind::NotDirectory => "something else stands where the archive has a directory",
    };
    let names: Vec<String> = paths.iter().map(|path| Quoted::new(path).to_string()).collect();
    let more = count.saturating_sub(paths.len() as u64);
    let names = names.join(", ");
    if more == 0 { format!("{what}: {names}") } else { format!("{what}: {names} and {more} more") }
}

/// An [`Error::Corrupt`] that can be returned repeatedly.
#[derive(Debug)]
pub struct Corruption {
    structure: &'static str,
    offset: u64,
    detail: String,
}

impl Corruption {
    /// Copies an [`Error::Corrupt`]; `None` for other errors.
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Corrupt { structure, offset, detail } => Some(Self { structure, offset: *offset, detail: detail.clone() }),
            _ => None,
        }
    }

    /// Returns the error.
    pub fn error(&self) -> Error {
        Error::corrupt(self.structure, self.offset, self.detail.as_str())
    }

    /// Returns the memory it occupies beside its own size, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.detail.len()
    }
}

impl Error {
    /// Returns an [`Error::Io`]. If `source` wraps an error of this type, returns that error unchanged.
    pub fn io(action: &'static str, subject: impl Into<Subject>, source: io::Error) -> Self {
        match source.downcast::<Self>() {
            Ok(error) => error,
            Err(source) => Self::Io { action, subject: subject.into(), source },
        }
    }

    /// Returns an [`Error::Corrupt`].
    pub fn corrupt(structure: &'static str, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corrupt { structure, offset, detail: detail.into() }
    }

    /// Returns an [`Error::Usage`].
    pub fn usage(detail: impl Into<String>) -> Self {
        Self::Usage { detail: detail.into() }
    }

    /// Attributes an error about a missing or wrong key to an entry.
    #[must_use]
    pub fn of_entry(self, path: &[u8]) -> Self {
        match self {
            Self::KeyNeeded => Self::EntryLocked { path: path.to_vec(), wrong: false },
            Self::WrongKey => Self::EntryLocked { path: path.to_vec(), wrong: true },
            other => other,
        }
    }

    /// Returns whether the storage medium failed, which counts as damage. A broken connection or a missing permission does not.
    pub fn is_unreadable(&self) -> bool {
        let system = rustix::io::Errno::IO.raw_os_error();
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(system))
    }
}

/// Returns the message of a system error without its number.
pub fn reason(error: &io::Error) -> String {
    // Messages of errors that did not come from the system are written for programmers.
    if error.raw_os_error().is_none() && error.get_ref().is_none() {
        match error.kind() {
            io::ErrorKind::AlreadyExists => return "it exists already".to_owned(),
            io::ErrorKind::NotFound => return "no such file or directory".to_owned(),
            io::ErrorKind::UnexpectedEof => return "it ends too early".to_owned(),
            io::ErrorKind::WriteZero => return "nothing more can be written".to_owned(),
            _ => {}
        }
    }
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    let mut characters = text.chars();
    match characters.next() {
        Some(first) if characters.clone().next().is_some_and(|second| second.is_lowercase() || second == ' ') => {
            first.to_lowercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}
