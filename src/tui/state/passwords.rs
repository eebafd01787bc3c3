//! Jobs that need a password.

use std::ops::Range;
use std::sync::Arc;

use crate::task::Task;

/// A job to begin anew: its name, what it does, and what it took the marks of.
pub type Unbegun = (String, Task, Arc<Vec<Range<u64>>>);

/// What waits for a password of the content, and what is known of the password.
#[derive(Debug, Clone, Default)]
pub struct Passwords {
    /// Jobs to begin anew.
    pub tasks: Vec<Unbegun>,
    /// It is to be asked for as soon as nothing is being typed or chosen: the one that was given, if any, is wrong.
    pub question: Option<bool>,
    /// The user was asked for it and gave none.
    pub declined: bool,
}

impl Passwords {
    /// Asks for nothing any more: what waits, waits in vain.
    pub fn forget(&mut self) {
        (self.tasks, self.question) = (Vec::new(), None);
    }
}
