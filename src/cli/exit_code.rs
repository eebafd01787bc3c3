//! Exit codes.

use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTERM};

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Done = 0,
    /// Failure.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// Success, but something was skipped or degraded.
    Degraded = 3,
    /// The archive is damaged or unsupported.
    Damaged = 4,
    /// The key is wrong or missing.
    Key = 5,
    /// Stopped because the terminal hung up.
    HungUp = 129,
    /// Interrupted (ctrl-c).
    Interrupted = 130,
    /// Quit (ctrl-\).
    Quit = 131,
    /// Terminated.
    Terminated = 143,
}

impl Code {
    /// Returns the number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the code for a signal that stopped the process.
    pub fn of_signal(signal: i32) -> Self {
        match signal {
            SIGHUP => Self::HungUp,
            SIGQUIT => Self::Quit,
            SIGTERM => Self::Terminated,
            _ => Self::Interrupted,
        }
    }
}
