//! Search while typing: over paths, commands or archives.

use std::path::PathBuf;

use tui_input::Input;

use crate::keymap::Action;
use nra_format::path::EntryPath;

/// The object of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindKind {
    /// Paths below the directory.
    Paths,
    Commands,
    Archives,
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub target: HitTarget,
    pub text: String,
    /// Indexes of the matched characters; a letter with its accents counts as one.
    pub matched: Vec<u32>,
}

/// The target of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HitTarget {
    Entry(EntryPath),
    Action(Action),
    Archive(PathBuf),
}

/// Requests paths that match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindRequest {
    pub directory: Option<EntryPath>,
    pub pattern: String,
}

/// The results so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindResponse {
    pub hits: Vec<Hit>,
    pub matches: u64,
    pub searched: u64,
    pub complete: bool,
    /// The reason the search ended early.
    pub error: Option<String>,
}

/// The results of the last search, to step through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchResults {
    /// The best results.
    pub paths: Vec<EntryPath>,
    pub at: usize,
    /// Number of all matches.
    pub matches: u64,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Finder {
    pub over: FindKind,
    /// In a directory: whether to search the whole archive instead of that directory.
    pub whole: Option<bool>,
    pub input: Input,
    pub results: FindResponse,
    pub cursor: usize,
    /// The results are for the typed text.
    pub answered: bool,
}

impl Finder {
    pub fn new(over: FindKind) -> Self {
        let (input, results) = (Input::default(), FindResponse::default());
        Self { over, whole: None, input, results, cursor: 0, answered: false }
    }

    pub fn show_results(&mut self, results: FindResponse) {
        self.answered = !results.hits.is_empty() || results.complete || results.error.is_some();
        self.results = results;
        self.step(0);
    }

    /// Moves the cursor.
    pub fn step(&mut self, rows: isize) {
        self.cursor = self.cursor.saturating_add_signed(rows).min(self.results.hits.len().saturating_sub(1));
    }
}
