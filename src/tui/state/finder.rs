//! Search while typing: over paths, commands or archives.

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

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// What Enter opens.
    pub goal: Goal,
    /// Its text.
    pub text: String,
    /// Indexes of the matched characters; a letter with its accents counts as one.
    pub matched: Vec<u32>,
}

/// What a result opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// To an entry.
    Entry(EntryPath),
    /// To an action.
    Action(Action),
    /// To an archive.
    Archive(PathBuf),
}

/// Requests paths that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRequest {
    /// The directory to search below.
    pub directory: Option<EntryPath>,
    /// The typed text.
    pub pattern: String,
}

/// The results so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindResponse {
    /// The best results, the best first.
    pub hits: Vec<Hit>,
    /// Number of matches.
    pub matches: u64,
    /// Number of paths searched.
    pub searched: u64,
    /// The search is complete.
    pub complete: bool,
    /// Why the search ended early.
    pub error: Option<String>,
}

/// The results of the last search, to step through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchResults {
    /// The best results.
    pub paths: Vec<EntryPath>,
    /// Index of the current one.
    pub at: usize,
    /// Number of all matches.
    pub matches: u64,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Finder {
    /// What is searched.
    pub over: Over,
    /// In a directory: whether to search the whole archive instead of that directory.
    pub whole: Option<bool>,
    /// The typed text.
    pub input: Input,
    /// The results.
    pub hits: Vec<Hit>,
    /// Index of the result under the cursor.
    pub cursor: usize,
    /// Number of matches.
    pub matches: u64,
    /// Number of paths searched.
    pub searched: u64,
    /// The search is complete.
    pub complete: bool,
    /// Why it ended early.
    pub error: Option<String>,
    /// The results are for the typed text.
    pub answered: bool,
}

impl Finder {
    /// Starts a search.
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
    pub fn show_results(&mut self, answer: FindResponse) {
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
