//! The status line.

use std::time::Duration;

/// A message in the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its text.
    pub text: String,
    /// Its severity.
    pub tone: Tone,
    /// When it disappears.
    pub until: Duration,
}

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Information.
    Info,
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// The status line.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// The message.
    pub message: Option<Message>,
    /// Previous messages, for screen readers: the newest is the last.
    pub previous: Vec<String>,
}
