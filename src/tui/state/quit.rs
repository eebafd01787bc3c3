//! The end of the program, once the last job has ended.

use std::time::Duration;

/// The program quits after the last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quit {
    /// Since when.
    pub since: Duration,
    /// The user agreed to drop the pending changes, which have not changed since.
    pub drops: bool,
}
