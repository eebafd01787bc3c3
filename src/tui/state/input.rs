//! Keys that wait for a response, and what they wait for.

use std::collections::VecDeque;
use std::fmt;

use zeroize::Zeroizing;

use crate::key::Key;
use crate::keymap::Action;
use crate::state::PendingCheck;

/// Input from the keyboard.
#[derive(Clone, PartialEq, Eq)]
pub enum Typed {
    Key(Key),
    /// Pasted text. It may be a password.
    Text(Zeroizing<String>),
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "{key:?}"),
            Self::Text(_) => f.write_str("Text(…)"),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Keys and text, in the order typed.
    pub queue: VecDeque<Typed>,
    /// An action that is checked first.
    pub checking: Option<PendingCheck>,
    /// A copy is being made for an editor.
    pub copying: bool,
    /// The action to run once the marks are known.
    pub after_marks: Option<Action>,
}
