//! Patterns that leave entries out and take them back in, in the order given: the last one that matches decides.
//!
//! Packing and reading share them, so that one line of `-x` means the same on both ways.

use globset::{Candidate, GlobSet, GlobSetBuilder};

use crate::pattern::{Pattern, compile};
use nra_format::error::{Error, Result};

/// Patterns in the order given. Without any, nothing is skipped.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    globs: Vec<globset::Glob>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    leave_out: bool,
    directories_only: bool,
}

impl Rules {
    /// Adds a pattern that leaves out what it matches, or takes it back in when it starts with `!`. The last pattern that
    /// matches decides; what lies below a directory skipped is skipped with it.
    ///
    /// A pattern with a leading `/` or `./` matches from the top of the archive, any other at every depth. `*` and `?` do not match
    /// `/`, `**` does. A pattern that ends with `/` matches directories only.
    ///
    /// # Errors
    ///
    /// `Usage` when it is not a valid glob.
    pub fn exclude(&mut self, pattern: &str) -> Result<()> {
        match pattern.strip_prefix('!') {
            Some(rest) => self.add(rest, false),
            None => self.add(pattern.strip_prefix("\\!").map_or(pattern, |_| &pattern[1..]), true),
        }
    }

    /// Adds a pattern that takes back in what an earlier one skipped.
    ///
    /// # Errors
    ///
    /// As [`Rules::exclude`].
    pub fn include(&mut self, pattern: &str) -> Result<()> {
        self.add(pattern, false)
    }

    /// Says whether nothing can be skipped.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn add(&mut self, text: &str, leave_out: bool) -> Result<()> {
        let wrong = |why: String| Error::Usage { detail: format!("pattern '{text}' is not valid: {why}") };
        let pattern = Pattern::read(text.as_bytes());
        if pattern.body.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        let glob = pattern.glob(!pattern.at_top).and_then(|glob| compile(&glob)).map_err(wrong)?;
        self.globs.push(glob);
        self.rules.push(Rule { leave_out, directories_only: pattern.is_directory });
        Ok(())
    }

    /// Makes the rules ready for use.
    ///
    /// # Errors
    ///
    /// `Usage` when they are too large together.
    pub(crate) fn compile(&self) -> Result<RuleSet> {
        let mut builder = GlobSetBuilder::new();
        for glob in &self.globs {
            builder.add(glob.clone());
        }
        let set =
            builder.build().map_err(|e| Error::Usage { detail: format!("the patterns do not work together: {}", e.kind()) })?;
        Ok(RuleSet { rules: self.rules.clone(), set })
    }
}

/// [`Rules`] ready for use.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    set: GlobSet,
}

impl RuleSet {
    /// Says whether nothing can be skipped.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Says whether the patterns leave out the entry with this path, whatever they say of the directories above it.
    pub(crate) fn leaves_out(&self, path: &[u8], directory: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let matches = self.set.matches_candidate(&Candidate::from_bytes(path));
        let deciding = matches.into_iter().rev().map(|i| self.rules[i]).find(|rule| directory || !rule.directories_only);
        deciding.is_some_and(|rule| rule.leave_out)
    }

    /// Says whether the patterns leave out the entry with this path or a directory above it.
    pub(crate) fn leaves_out_within(&self, path: &[u8], directory: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let mut above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        above.any(|above| self.leaves_out(above, true)) || self.leaves_out(path, directory)
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
    fn the_last_match_wins() {
        let rule_set = rules(&["*.txt", "!keep.txt", "/top", "./here", "deep/er", "cache/"]);
        for (path, directory, out) in [
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
            assert_eq!(rule_set.leaves_out(path.as_bytes(), directory), out, "{path}");
        }
        assert!(Rules::default().exclude("a[").is_err());
        assert!(Rules::default().exclude("").is_err());
        assert!(!rules(&[]).leaves_out(b"a", false) && rules(&[]).is_empty());
    }

    #[test]
    fn a_star_stays_within_a_component() {
        let rules = rules(&["/a/*/c", "/b/**/c", "\\!x", "[!y]z"]);
        assert!(rules.leaves_out(b"a/b/c", false));
        assert!(!rules.leaves_out(b"a/b/b/c", false));
        assert!(rules.leaves_out(b"b/1/2/3/c", false));
        assert!(rules.leaves_out(b"q/!x", false));
        assert!(rules.leaves_out(b"az", false) && !rules.leaves_out(b"yz", false));
    }

    #[test]
    fn names_that_are_not_utf8_match() {
        assert!(rules(&["*.log"]).leaves_out(b"d\xff/\xfe.log", false));
    }

    #[test]
    fn what_lies_below_goes_with_its_directory() {
        let rules = rules(&["cache/", "!keep"]);
        assert!(rules.leaves_out_within(b"a/cache/x/keep", false) && !rules.leaves_out(b"a/cache/x/keep", false));
        assert!(rules.leaves_out_within(b"cache", true) && !rules.leaves_out_within(b"cache", false));
        assert!(!rules.leaves_out_within(b"a/b", false));
    }
}
