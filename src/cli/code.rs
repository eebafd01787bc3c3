//! Exit codes.

use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTERM};

/// How the process ends. The numbers are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// Everything was done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Done, but something was skipped or degraded.
    Degraded = 3,
    /// The archive is damaged or of an unsupported kind.
    Damaged = 4,
    /// The key is wrong or missing.
    Key = 5,
    /// Stopped when its terminal was hung up.
    HungUp = 129,
    /// Stopped by an interrupt.
    Interrupted = 130,
    /// Stopped by the other key that does so.
    Quit = 131,
    /// Stopped by a request to terminate.
    Terminated = 143,
}

impl Code {
    /// Returns the exit code.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the code of a signal that asked to stop.
    pub fn of_signal(signal: i32) -> Self {
        match signal {
            SIGHUP => Self::HungUp,
            SIGQUIT => Self::Quit,
            SIGTERM => Self::Terminated,
            _ => Self::Interrupted,
        }
    }

    /// Name of the code in JSON.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Degraded => "degraded",
            Self::Damaged => "damaged",
            Self::Key => "key",
            Self::HungUp | Self::Interrupted | Self::Quit | Self::Terminated => "interrupted",
        }
    }
}
