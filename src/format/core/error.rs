//! What can go wrong, by culprit.
//!
//! Text is lower case without a full stop and never repeats its source; the binary alone turns errors into words for people
//! (`cli::report`).

use std::{fmt, io};

use crate::container::Engine;
use crate::path::Quoted;

/// Result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {action} {subject}")]
    Io {
        /// What was tried, as a verb phrase that fits after "cannot": `read`, `create directory`.
        action: &'static str,
        /// What it was tried on.
        subject: Subject,
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
    /// A file that is no archive of a kind that nra reads.
    #[error("{}: it {guess}", wanted.map_or_else(|| "no archive that nra reads".to_owned(), |engine| format!("not {}", engine.name())))]
    NotAnArchive {
        /// What it looks like.
        guess: FileGuess,
        /// The kind that was asked for.
        wanted: Option<Engine>,
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
    /// There is more than the caller allows; nothing is wrong with the archive.
    #[error("{resource} is {found}, more than the limit of {limit}")]
    ResourceLimit {
        /// What was counted.
        resource: Resource,
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
    /// Something stands in the target where entries go; nothing was written.
    #[error("{}", conflict(*kind, paths, *count))]
    Conflict {
        /// What stands there.
        kind: ConflictKind,
        /// The first of them, as the user reaches them.
        paths: Vec<Vec<u8>>,
        /// How many there are.
        count: u64,
    },
    /// The archive is encrypted, and no key was given.
    #[error("the archive is encrypted: a password or key is needed")]
    KeyNeeded,
    /// The archive is encrypted, and the key that was given does not open it.
    #[error("the password or key is wrong")]
    WrongKey,
    /// An entry is encrypted in an archive that is open, and no key was given, or one that does not open it.
    #[error("{} is encrypted: {}", Quoted::new(path), if *wrong { "the password or key is wrong" } else { "a password or key is needed" })]
    EntryLocked {
        /// Path of the entry.
        path: Vec<u8>,
        /// A key was given.
        wrong: bool,
    },
    /// The monitor asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// What standard input is called.
pub const STANDARD_INPUT: &str = "standard input";

/// What the system refused something with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A file of this name.
    File(Vec<u8>),
    /// The archive that is written, by a writer that does not know its name.
    Output,
    /// Standard output.
    StandardOutput,
    /// Standard input.
    StandardInput,
}

impl Subject {
    /// Returns the name of a file, or what stands in its place.
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

/// What a caller bounds, and may raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Entries.
    Entries,
    /// Bytes of content.
    Content,
    /// Decoded bytes for each stored one.
    Ratio,
    /// Bytes of a stream that is kept in memory.
    Stream,
    /// Bytes of the dictionaries of a 7z folder.
    Dictionaries,
    /// Bytes of what restores damage.
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

/// What a file looks like that is no archive, or not the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileGuess {
    /// It has no content.
    Empty,
    /// It begins with zero bytes.
    Zeros,
    /// It begins with text.
    Text,
    /// Something that has a name.
    Like(String),
    /// None of these.
    Unknown,
}

impl fmt::Display for FileGuess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("is empty"),
            Self::Zeros => f.write_str("begins with zero bytes only"),
            Self::Text => f.write_str("looks like text"),
            Self::Like(kind) => write!(f, "looks like {kind}"),
            Self::Unknown => f.write_str("looks like no kind that is known"),
        }
    }
}

/// What can stand in the way of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// A file, symlink or the like where one goes.
    Exists,
    /// A directory where a file or the like goes.
    Directory,
    /// A file or symlink where a directory goes.
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

/// An [`Error::Corrupt`] that can be given several times.
#[derive(Debug)]
pub struct Corruption {
    structure: &'static str,
    offset: u64,
    detail: String,
}

impl Corruption {
    /// Keeps what `error` says, if it is about the bytes of the file.
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Corrupt { structure, offset, detail } => Some(Self { structure, offset: *offset, detail: detail.clone() }),
            _ => None,
        }
    }

    /// Gives the error again.
    pub fn error(&self) -> Error {
        Error::corrupt(self.structure, self.offset, self.detail.as_str())
    }

    /// Memory that it takes beside its own size, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.detail.len()
    }
}

impl Error {
    /// Returns an [`Error::Io`] for `action` on a file of this name, or another subject; an error of this type that came through [`std::io`] is
    /// returned as it was.
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

    /// Says of which entry an error about a missing or wrong key is.
    #[must_use]
    pub fn of_entry(self, path: &[u8]) -> Self {
        match self {
            Self::KeyNeeded => Self::EntryLocked { path: path.to_vec(), wrong: false },
            Self::WrongKey => Self::EntryLocked { path: path.to_vec(), wrong: true },
            other => other,
        }
    }

    /// Says whether the medium does not give the bytes, which is damage like any other. A connection that broke or a file that
    /// may not be read is none: its bytes are what they were.
    pub fn is_unreadable(&self) -> bool {
        let system = rustix::io::Errno::IO.raw_os_error();
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(system))
    }
}

/// Returns the words of a system error without its number.
pub fn reason(error: &io::Error) -> String {
    // Errors that did not come from the system have words of programmers.
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
