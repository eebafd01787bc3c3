//! Failures in words: the only place that turns an error into a message, hints and an exit code.
//!
//! Promises: one line `nra: what failed: why`, then `hint:` lines; nothing that a terminal would act on.

use std::io;

use serde::Serialize;

use crate::code::Code;

use nra_format::error::{Bound, Subject, reason};

/// What a command ended with when it did not fail; warnings may still raise the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for is there.
    Done,
    /// Nothing was found: code 1 without a message.
    Nothing,
    /// Something was left out: code 3.
    Degraded,
    /// Damage was found, and said: code 4.
    Damaged,
}

impl Outcome {
    /// Returns the exit code.
    pub fn code(self) -> Code {
        match self {
            Self::Done => Code::Done,
            Self::Nothing => Code::Failed,
            Self::Degraded => Code::Degraded,
            Self::Damaged => Code::Damaged,
        }
    }
}

/// Result of a command.
pub type CommandResult<T = Outcome> = std::result::Result<T, Failure>;

/// Why a command failed, ready to be told.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    kind: &'static str,
    message: String,
    hints: Vec<String>,
    /// The reader of our output went away: nobody is left to tell.
    closed_pipe: bool,
}

/// The failure as an object for programs.
#[derive(Debug, Serialize)]
pub struct FailureRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    code: u8,
    kind: &'a str,
    message: &'a str,
    hint: Option<String>,
}

impl Failure {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, kind: code.kind(), message: nra_text::harmless(&message.into()), hints: Vec::new(), closed_pipe: false }
    }

    /// The work failed: code 1. `message` is "what failed: why".
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }

    /// The command line makes no sense: code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// The archive is damaged or not supported: code 4.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Code::Damaged, message)
    }

    /// A password or key is missing or wrong: code 5.
    pub fn key(message: impl Into<String>) -> Self {
        Self::new(Code::Key, message)
    }

    /// A signal has asked to stop.
    pub fn stopped(signal: i32) -> Self {
        Self::new(Code::of_signal(signal), nra_format::Error::Cancelled.to_string())
    }

    /// Writing the result failed.
    pub fn output(error: &io::Error) -> Self {
        let failure = Self::failed(format!("cannot write standard output: {}", reason(error)));
        Self { closed_pipe: error.kind() == io::ErrorKind::BrokenPipe, ..failure }
    }

    /// Where 1 means that nothing was found, a failure is code 2.
    #[must_use]
    pub fn trouble(mut self) -> Self {
        if self.code == Code::Failed {
            self.code = Code::Usage;
        }
        self
    }

    /// Adds a next step for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(nra_text::harmless(&hint.into()));
        self
    }

    /// Puts what was being done in front of the message.
    #[must_use]
    pub fn context(mut self, what: impl std::fmt::Display) -> Self {
        self.message = nra_text::harmless(&format!("{what}: {}", self.message));
        self
    }

    /// Returns the exit code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Says whether what comes next may still go well: an entry is damaged or missing, nothing else is wrong.
    pub fn is_about_entry(&self) -> bool {
        matches!(self.code, Code::Failed | Code::Damaged) && !self.closed_pipe && self.kind != "io"
    }

    /// Says whether the end should be a quiet one.
    pub fn is_closed_pipe(&self) -> bool {
        self.closed_pipe
    }

    /// Returns the lines for people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("nra: {}", self.message)];
        lines.extend(self.hints.iter().map(|hint| format!("hint: {hint}")));
        lines
    }

    /// Returns the object for programs.
    pub fn record(&self) -> FailureRecord<'_> {
        let hint = (!self.hints.is_empty()).then(|| self.hints.join("; "));
        FailureRecord { record: "error", code: self.code.number(), kind: self.kind, message: &self.message, hint }
    }
}

impl From<nra_format::Error> for Failure {
    fn from(error: nra_format::Error) -> Self {
        use nra_format::Error;
        let text = match &error {
            Error::Io { source, .. } => format!("{error}: {}", reason(source)),
            _ => error.to_string(),
        };
        match &error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self { kind: "io", ..Self::failed(text) }.hint("free some space, or choose another target")
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Self { kind: "exists", ..Self::failed(text) }
            }
            Error::Io { source, action, subject } => {
                // Standard output closed by its reader is an end, not a failure; an archive that is cut short is one.
                let closed_pipe =
                    source.kind() == io::ErrorKind::BrokenPipe && *action == "write" && *subject == Subject::StandardOutput;
                Self { kind: "io", closed_pipe, ..Self::failed(text) }
            }
            Error::Corrupt { .. } => Self { kind: "corrupt", ..Self::damaged(text) },
            Error::Unsupported { .. } | Error::NotAnArchive { .. } => Self { kind: "unsupported", ..Self::damaged(text) },
            Error::Beyond { bound: Bound::Stream, limit, .. } => {
                let text = format!("standard input has more than {limit} bytes");
                Self { kind: "limit", ..Self::failed(text) }.hint("save it to a file, or raise --memory")
            }
            // Nothing is wrong with the archive: it is more than was asked for.
            Error::Beyond { bound, .. } => {
                let option = match bound {
                    Bound::Entries => "--limit-entries",
                    Bound::Content => "--limit-size",
                    Bound::Ratio => "--limit-ratio",
                    Bound::Stream | Bound::Dictionaries | Bound::Restoring => "--memory",
                };
                Self { kind: "limit", ..Self::failed(text) }.hint(format!("{option} raises the limit"))
            }
            Error::Limit { .. } => Self { kind: "limit", ..Self::damaged(text) },
            Error::NotFound { .. } => Self { kind: "not-found", ..Self::failed(text) },
            Error::Usage { .. } => Self::usage(text),
            Error::InTheWay { obstacle: nra_format::error::Obstacle::Exists, .. } => {
                Self { kind: "exists", ..Self::failed(text) }
                    .hint("-f replaces, -k skips, -u replaces what is older, --backup moves it aside; nothing was written")
            }
            Error::InTheWay { .. } => Self { kind: "exists", ..Self::failed(text) }
                .hint("move it away, or choose another directory with -C; nothing was written"),
            Error::KeyNeeded | Error::WrongKey | Error::EntryLocked { .. } => Self::new(Code::Key, text),
            Error::Cancelled => Self::new(crate::signals::code(), text),
        }
    }
}

/// Makes a panic one line instead of a dump, wherever it happens.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let why = info.payload_as_str().unwrap_or("unknown reason");
        let place = info.location().map_or_else(String::new, |place| format!(" ({}:{})", place.file(), place.line()));
        let line = format!("nra: internal error: {}{place}\n", nra_text::harmless(why));
        let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_code() {
        let code = |error: nra_format::Error| Failure::from(error).code();
        assert_eq!(code(nra_format::Error::io("open", "a", io::ErrorKind::NotFound.into())), Code::Failed);
        assert_eq!(code(nra_format::Error::corrupt("tail", 1, "x")), Code::Damaged);
        assert_eq!(code(nra_format::Error::NotFound { path: b"a".to_vec() }), Code::Failed);
        assert_eq!(code(nra_format::Error::Usage { detail: "x".into() }), Code::Usage);
        assert_eq!(code(nra_format::Error::Limit { what: "x", found: 2, limit: 1 }), Code::Damaged);
        assert_eq!(code(nra_format::Error::Beyond { bound: Bound::Entries, found: 2, limit: 1 }), Code::Failed);
    }

    #[test]
    fn messages_name_what_and_why() {
        let error = nra_format::Error::io("open", "a b", io::Error::from_raw_os_error(2));
        assert_eq!(Failure::from(error).lines(), ["nra: cannot open 'a b': no such file or directory"]);
        let lines = Failure::failed("x\u{1b}[1m").hint("try\n y").lines();
        assert_eq!(lines, ["nra: x\\x1b[1m", "hint: try\\n y"]);
    }

    #[test]
    fn reasons_are_for_people() {
        assert_eq!(reason(&io::ErrorKind::AlreadyExists.into()), "it exists already");
        assert_eq!(reason(&io::Error::from_raw_os_error(17)), "file exists");
        assert_eq!(reason(&io::Error::other("Strange thing")), "strange thing");
        assert_eq!(reason(&io::Error::other("EOF of it")), "EOF of it");
    }

    #[test]
    fn a_closed_pipe_is_known() {
        assert!(Failure::output(&io::ErrorKind::BrokenPipe.into()).is_closed_pipe());
        assert!(!Failure::output(&io::ErrorKind::StorageFull.into()).is_closed_pipe());
        let written = |subject: Subject| Failure::from(nra_format::Error::io("write", subject, io::ErrorKind::BrokenPipe.into()));
        assert!(written(Subject::StandardOutput).is_closed_pipe() && !written(Subject::Output).is_closed_pipe());
        // A file may be called like a stream.
        for name in ["the archive", "standard output"] {
            let failure = written(name.into());
            assert!(!failure.is_closed_pipe());
            assert!(failure.lines()[0].starts_with(&format!("nra: cannot write '{name}': ")));
        }
    }
}
