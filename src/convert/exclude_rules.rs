//! Patterns that exclude and include entries. The last matching pattern decides.
//!
//! Packing and reading share them, so that `-x` works the same way in both.

use globset::{Candidate, GlobSet, GlobSetBuilder};

use crate::pattern::{Pattern, compile};
use nra_format::error::{Error, Result};

/// Patterns in the order given. Without patterns, nothing is excluded.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    globs: Vec<globset::Glob>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    excludes: bool,
    directories_only: bool,
}

impl Rules {
    /// Adds a pattern that excludes matching entries, or includes them if it starts with `!`. The
    /// last matching pattern decides. Everything below an excluded directory is excluded, too.
    ///
    /// A pattern with a leading `/` or `./` matches from the top of the archive, any other at every
    /// depth. `*` and `?` do not match `/`, `**` does. A pattern that ends with `/` matches only
    /// directories.
    ///
    /// # Errors
    ///
    /// `Usage` if it is not a valid glob.
    pub fn exclude(&mut self, pattern: &str) -> Result<()> {
        match pattern.strip_prefix('!') {
            Some(rest) => self.add(rest, false),
            None => self.add(pattern.strip_prefix("\\!").map_or(pattern, |_| &pattern[1..]), true),
        }
    }

    /// Adds a pattern that includes entries despite an earlier exclude pattern.
    ///
    /// # Errors
    ///
    /// As [`Rules::exclude`].
    pub fn include(&mut self, pattern: &str) -> Result<()> {
        self.add(pattern, false)
    }

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn add(&mut self, text: &str, excludes: bool) -> Result<()> {
        let invalid = |reason: String| Error::Usage { detail: format!("invalid pattern '{text}': {reason}") };
        let pattern = Pattern::parse(text.as_bytes());
        if pattern.body.is_empty() {
            return Err(invalid("empty".to_owned()));
        }
        let glob = pattern.glob(!pattern.at_top).and_then(|glob| compile(&glob)).map_err(invalid)?;
        self.globs.push(glob);
        self.rules.push(Rule { excludes, directories_only: pattern.is_directory });
        Ok(())
    }

    /// Compiles the rules. Fails if the patterns together are too large.
    pub(crate) fn compile(&self) -> Result<RuleSet> {
        let mut builder = GlobSetBuilder::new();
        for glob in &self.globs {
            builder.add(glob.clone());
        }
        let too_large = |error: globset::Error| format!("the patterns together are too large: {}", error.kind());
        let set = builder.build().map_err(|error| Error::Usage { detail: too_large(error) })?;
        Ok(RuleSet { rules: self.rules.clone(), set })
    }
}

/// Compiled [`Rules`].
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    set: GlobSet,
}

impl RuleSet {
    /// Returns whether there are no patterns.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether the patterns exclude the entry with this path. Its parents are not
    /// considered.
    pub(crate) fn excludes(&self, path: &[u8], directory: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let matches = self.set.matches_candidate(&Candidate::from_bytes(path));
        let deciding = matches.into_iter().rev().map(|i| self.rules[i]).find(|rule| directory || !rule.directories_only);
        deciding.is_some_and(|rule| rule.excludes)
    }

    /// Returns whether the patterns exclude the entry with this path or one of its parents.
    pub(crate) fn excludes_with_parents(&self, path: &[u8], directory: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let mut parents = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        parents.any(|parent| self.excludes(parent, true)) || self.excludes(path, directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> RuleSet {
        let mut rules = Rules::default();
        for pattern in patterns {
            rules.exclude(pattern).unwrap();
        }
        rules.compile().unwrap()
    }

    #[test]
    fn last_matching_rule_decides() {
        let rule_set = rules(&["*.txt", "!keep.txt", "/top", "./here", "deep/er", "cache/"]);
        for (path, directory, expected) in [
            ("here", false, true),
            ("x/here", false, false),
            ("a.txt", false, true),
            ("x/a.txt", false, true),
            ("x/keep.txt", false, false),
            ("top", false, true),
            ("x/top", false, false),
            ("x/deep/er", false, true),
            ("cache", false, false),
            ("x/cache", true, true),
        ] {
            assert_eq!(rule_set.excludes(path.as_bytes(), directory), expected, "{path}");
        }
        assert!(Rules::default().exclude("a[").is_err());
        assert!(Rules::default().exclude("").is_err());
        assert!(!rules(&[]).excludes(b"a", false) && rules(&[]).is_empty());
    }

    #[test]
    fn star_matches_within_a_component() {
        let rules = rules(&["/a/*/c", "/b/**/c", "\\!x", "[!y]z"]);
        assert!(rules.excludes(b"a/b/c", false));
        assert!(!rules.excludes(b"a/b/b/c", false));
        assert!(rules.excludes(b"b/1/2/3/c", false));
        assert!(rules.excludes(b"q/!x", false));
        assert!(rules.excludes(b"az", false) && !rules.excludes(b"yz", false));
    }

    #[test]
    fn names_that_are_not_utf8_match() {
        assert!(rules(&["*.log"]).excludes(b"d\xff/\xfe.log", false));
    }

    #[test]
    fn entries_below_an_excluded_directory_are_excluded() {
        let rules = rules(&["cache/", "!keep"]);
        assert!(rules.excludes_with_parents(b"a/cache/x/keep", false) && !rules.excludes(b"a/cache/x/keep", false));
        assert!(rules.excludes_with_parents(b"cache", true) && !rules.excludes_with_parents(b"cache", false));
        assert!(!rules.excludes_with_parents(b"a/b", false));
    }
}
