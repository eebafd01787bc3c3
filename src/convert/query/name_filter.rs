//! Filters names while the user types: by a glob or a part of the name.

use globset::{Candidate, GlobBuilder, GlobMatcher};

/// A filter over file names that ignores case.
#[derive(Debug, Clone)]
pub enum NameFilter {
    /// Accepts every name.
    All,
    /// Accepts names that match a glob.
    Glob(Box<GlobMatcher>),
    /// Accepts names that contain this lower-case text.
    Contains(String),
}

impl NameFilter {
    /// Parses the typed text. Text that is not a valid glob is searched for literally.
    pub fn new(text: &str) -> Self {
        let glob = text.contains(['*', '?', '[', '{']).then(|| GlobBuilder::new(text).case_insensitive(true).build().ok());
        match glob.flatten() {
            Some(glob) => Self::Glob(Box::new(glob.compile_matcher())),
            None if text.is_empty() => Self::All,
            None => Self::Contains(text.to_lowercase()),
        }
    }

    /// Returns whether the filter accepts a name. Text is compared with the name as shown on the
    /// screen.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Glob(glob) => glob.is_match_candidate(&Candidate::new(&*String::from_utf8_lossy(name))),
            Self::Contains(text) => nra_text::printable(name).to_lowercase().contains(text),
        }
    }
}
