//! The end of the program, once the last job has ended.

use std::time::Duration;

/// The program is to end with the last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quit {
    /// Since when.
    pub since: Duration,
    /// What is planned goes with it: that was asked, and nothing has been planned, or written, since.
    pub drops: bool,
}
