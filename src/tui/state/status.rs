//! The status line.

use std::time::Duration;

/// A sentence in the status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The sentence.
    pub text: String,
    /// How bad it is.
    pub tone: Tone,
    /// When it goes away.
    pub until: Duration,
}

/// How bad news is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good or neutral.
    Info,
    /// To be noticed.
    Warning,
    /// Something failed.
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
