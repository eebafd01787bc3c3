//! The status line.

use std::time::Duration;

/// A message in the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub text: String,
    pub tone: Tone,
    pub until: Duration,
}

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, Default)]
pub struct Status {
    pub message: Option<Message>,
    /// Previous messages, for screen readers: the newest is the last.
    pub previous: Vec<String>,
}
