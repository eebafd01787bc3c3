//! Turns errors into a message, hints and an exit code. This is the only place that does so.
//!
//! A message is `nra: what failed: reason`, then `hint:` lines, without control characters.

use std::io;

use serde::Serialize;

use crate::exit_code::Code;

use nra_format::error::{ConflictKind, Resource, Subject, reason};

/// Result of a command that did not fail. Warnings may still raise the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything requested was done.
    Done,
    /// Nothing was found, or there are differences: code 1 without a message.
    Nothing,
    /// Something was skipped: code 3.
    Degraded,
    /// Damage was found and reported: code 4.
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

/// The cause of a failure, finer than its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum FailureKind {
    Failed,
    Usage,
    Damaged,
    Key,
    Interrupted,
    Io,
    Exists,
    Corrupt,
    Unsupported,
    Limit,
    NotFound,
}

/// Why a command failed, ready to be printed.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    kind: FailureKind,
    message: String,
    hints: Vec<String>,
    /// The reader of the output is gone, so nothing is printed.
    closed_pipe: bool,
}

/// The failure as JSON.
#[derive(Debug, Serialize)]
pub struct FailureRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    code: u8,
    kind: FailureKind,
    message: &'a str,
    /// Always present, perhaps `null`.
    hint: Option<String>,
}

impl Failure {
    fn new(code: Code, kind: FailureKind, message: impl Into<String>) -> Self {
        Self { code, kind, message: nra_text::harmless(&message.into()), hints: Vec::new(), closed_pipe: false }
    }

    /// Failure: code 1. `message` is "what failed: reason".
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, FailureKind::Failed, message)
    }

    /// Invalid command line: code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, FailureKind::Usage, message)
    }

    /// Damaged or unsupported archive: code 4.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Code::Damaged, FailureKind::Damaged, message)
    }

    /// Missing or wrong password or key: code 5.
    pub fn key(message: impl Into<String>) -> Self {
        Self::new(Code::Key, FailureKind::Key, message)
    }

    /// Stopped by a signal.
    pub fn stopped(signal: i32) -> Self {
        Self::new(Code::of_signal(signal), FailureKind::Interrupted, nra_format::Error::Cancelled.to_string())
    }

    /// Writing the result failed.
    pub fn output(error: &io::Error) -> Self {
        let failure = Self::failed(format!("cannot write standard output: {}", reason(error)));
        Self { closed_pipe: error.kind() == io::ErrorKind::BrokenPipe, ..failure }
    }

    /// Changes code 1 to 2, for commands in which 1 is not a failure.
    #[must_use]
    pub fn with_code_2(mut self) -> Self {
        if self.code == Code::Failed {
            self.code = Code::Usage;
        }
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(nra_text::harmless(&hint.into()));
        self
    }

    /// Prepends the object that the message is about.
    #[must_use]
    pub fn context(mut self, what: impl std::fmt::Display) -> Self {
        self.message = nra_text::harmless(&format!("{what}: {}", self.message));
        self
    }

    /// Returns the exit code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns whether the failure concerns one entry only, so that the command can continue.
    pub fn is_about_entry(&self) -> bool {
        matches!(self.code, Code::Failed | Code::Damaged) && !self.closed_pipe && self.kind != FailureKind::Io
    }

    /// Returns whether the command ends without a message.
    pub fn is_closed_pipe(&self) -> bool {
        self.closed_pipe
    }

    /// Returns the lines to print.
    #[cfg(test)]
    pub fn lines(&self) -> Vec<String> {
        self.labelled_lines().map(|(label, text)| format!("{label}: {text}")).collect()
    }

    /// Returns label and text of each line to print.
    pub fn labelled_lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let hints = self.hints.iter().map(|hint| ("hint", hint.as_str()));
        std::iter::once(("nra", self.message.as_str())).chain(hints)
    }

    /// Returns the failure as JSON.
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
                Self::new(Code::Failed, FailureKind::Io, text).hint("free some space or choose another target")
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Self::new(Code::Failed, FailureKind::Exists, text)
            }
            Error::Io { source, subject, .. } => {
                // A closed standard output ends the command. A truncated archive is a failure.
                let closed_pipe = source.kind() == io::ErrorKind::BrokenPipe && *subject == Subject::StandardOutput;
                Self { closed_pipe, ..Self::new(Code::Failed, FailureKind::Io, text) }
            }
            Error::Corrupt { .. } => Self::new(Code::Damaged, FailureKind::Corrupt, text),
            Error::Unsupported { .. } | Error::NotAnArchive { .. } => {
                Self::new(Code::Damaged, FailureKind::Unsupported, text)
            }
            Error::ResourceLimit { resource: Resource::Stream, limit, .. } => {
                let text = format!("standard input is longer than {limit} bytes");
                Self::new(Code::Failed, FailureKind::Limit, text).hint("save it to a file or raise --memory")
            }
            // The archive is fine, but exceeds a limit of the command line.
            Error::ResourceLimit { resource, .. } => {
                let option = match resource {
                    Resource::Entries => "--limit-entries",
                    Resource::Content => "--limit-size",
                    Resource::Ratio => "--limit-ratio",
                    Resource::Stream | Resource::Dictionaries | Resource::Recovery => "--memory",
                };
                Self::new(Code::Failed, FailureKind::Limit, text).hint(format!("use {option} to raise the limit"))
            }
            Error::Limit { .. } => Self::new(Code::Damaged, FailureKind::Limit, text),
            Error::NotFound { .. } => Self::new(Code::Failed, FailureKind::NotFound, text),
            Error::Usage { .. } => Self::usage(text),
            Error::Conflict { kind, .. } => Self::new(Code::Failed, FailureKind::Exists, text).hint(match kind {
                ConflictKind::Exists => {
                    "nothing was written; use -f to replace, -k to skip, -u to replace older files, or --backup to rename existing ones"
                }
                _ => "nothing was written; move it away or extract to another directory with -C",
            }),
            Error::KeyNeeded | Error::WrongKey | Error::EntryLocked { .. } => Self::key(text),
            Error::Cancelled => Self::new(crate::signals::code(), FailureKind::Interrupted, text),
        }
    }
}

/// Prints a panic as one line.
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
    fn errors_map_to_exit_codes() {
        let code = |error: nra_format::Error| Failure::from(error).code();
        assert_eq!(code(nra_format::Error::io("open", "a", io::ErrorKind::NotFound.into())), Code::Failed);
        assert_eq!(code(nra_format::Error::corrupt("footer", 1, "x")), Code::Damaged);
        assert_eq!(code(nra_format::Error::NotFound { path: b"a".to_vec() }), Code::Failed);
        assert_eq!(code(nra_format::Error::Usage { detail: "x".into() }), Code::Usage);
        assert_eq!(code(nra_format::Error::Limit { what: "x", found: 2, limit: 1 }), Code::Damaged);
        assert_eq!(code(nra_format::Error::ResourceLimit { resource: Resource::Entries, found: 2, limit: 1 }), Code::Failed);
    }

    #[test]
    fn messages_name_object_and_reason() {
        let error = nra_format::Error::io("open", "a b", io::Error::from_raw_os_error(2));
        assert_eq!(Failure::from(error).lines(), ["nra: cannot open 'a b': no such file or directory"]);
        let lines = Failure::failed("x\u{1b}[1m").hint("try\n y").lines();
        assert_eq!(lines, ["nra: x\\x1b[1m", "hint: try\\n y"]);
    }

    #[test]
    fn system_errors_become_readable_reasons() {
        assert_eq!(reason(&io::ErrorKind::AlreadyExists.into()), "it exists already");
        assert_eq!(reason(&io::Error::from_raw_os_error(17)), "file exists");
        assert_eq!(reason(&io::Error::other("Strange thing")), "strange thing");
        assert_eq!(reason(&io::Error::other("EOF of it")), "EOF of it");
    }

    #[test]
    fn closed_output_pipe_is_detected() {
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
