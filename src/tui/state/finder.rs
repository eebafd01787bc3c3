//! Search by typing: over the names in the archive, or over the commands.

use std::path::PathBuf;

use tui_input::Input;

use crate::action::Action;
use nra_format::path::EntryPath;

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Paths below the directory.
    Paths,
    /// Commands by name.
    Commands,
    /// Archives that can be opened.
    Archives,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// What Enter leads to.
    pub goal: Goal,
    /// What is shown.
    pub text: String,
    /// Places of the characters that matched, counted as they are seen: a letter with its accents is one.
    pub matched: Vec<u32>,
}

/// Where a hit leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// To an entry.
    Entry(EntryPath),
    /// To an action.
    Action(Action),
    /// To an archive.
    Archive(PathBuf),
}

/// Asks for paths that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRequest {
    /// Below which directory.
    pub directory: Option<EntryPath>,
    /// What was typed.
    pub pattern: String,
}

/// What has been found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindResponse {
    /// The best hits, the best first.
    pub hits: Vec<Hit>,
    /// How many match.
    pub matches: u64,
    /// How many were looked at.
    pub searched: u64,
    /// Nothing more will come.
    pub complete: bool,
    /// Why the search ended early.
    pub error: Option<String>,
}

/// The paths that were found last, to be gone through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchResults {
    /// The best of them.
    pub paths: Vec<EntryPath>,
    /// Which of these was gone to.
    pub at: usize,
    /// How many there are in all.
    pub matches: u64,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Finder {
    /// What is searched.
    pub over: Over,
    /// Within a directory: whether the whole archive is searched instead of what is below it.
    pub whole: Option<bool>,
    /// What has been typed.
    pub input: Input,
    /// What has been found.
    pub hits: Vec<Hit>,
    /// Index of the hit under the cursor.
    pub cursor: usize,
    /// How many match.
    pub matches: u64,
    /// How many were looked at.
    pub searched: u64,
    /// The search is over.
    pub complete: bool,
    /// Why it ended early.
    pub error: Option<String>,
    /// What has been found is for what is typed now.
    pub answered: bool,
}

impl Finder {
    /// Begins a search.
    pub fn new(over: Over) -> Self {
        Self {
            over,
            whole: None,
            input: Input::default(),
            hits: Vec::new(),
            cursor: 0,
            matches: 0,
            searched: 0,
            complete: false,
            error: None,
            answered: false,
        }
    }

    /// Shows search results.
    pub fn take(&mut self, answer: FindResponse) {
        self.hits = answer.hits;
        self.cursor = self.cursor.min(self.hits.len().saturating_sub(1));
        (self.matches, self.searched, self.complete) = (answer.matches, answer.searched, answer.complete);
        self.error = answer.error;
        self.answered = !self.hits.is_empty() || self.complete || self.error.is_some();
    }

    /// Moves the cursor.
    pub fn step(&mut self, rows: isize) {
        self.cursor = self.cursor.saturating_add_signed(rows).min(self.hits.len().saturating_sub(1));
    }
}
