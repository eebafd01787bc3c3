//! Jobs that need a password.

use std::ops::Range;
use std::sync::Arc;

use crate::state::task::Task;

/// A job to restart: title, task, marked entries.
pub type Unbegun = (String, Task, Arc<Vec<Range<u64>>>);

/// Jobs that need a password, and what is known about it.
#[derive(Debug, Clone, Default)]
pub struct Passwords {
    /// Jobs to restart.
    pub tasks: Vec<Unbegun>,
    /// The password is to be asked for; true if a wrong one was given.
    pub question: Option<bool>,
    /// The user has given none.
    pub declined: bool,
}

impl Passwords {
    /// Drops the jobs and the question.
    pub fn forget(&mut self) {
        (self.tasks, self.question) = (Vec::new(), None);
    }
}
