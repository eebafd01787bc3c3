//! What a walk leaves out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::format::error::{Error, Result};

/// Longest pattern accepted, bytes: beyond that the automaton becomes larger than any list of names.
const PATTERN_MAX: usize = 4_096;

/// Names that version control systems keep their data under.
const VCS_NAMES: [&[u8]; 11] =
    [b".git", b".hg", b".svn", b".bzr", b".jj", b".pijul", b"_darcs", b"CVS", b"RCS", b"SCCS", b".arch-ids"];

/// What the tag file of a cache directory begins with.
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// Name of the tag file of a cache directory.
pub(crate) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// Name of the files that `gitignore` obeys.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// Chooses what is packed. The default takes everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    patterns: Patterns,
    /// Obey `.gitignore` files, each below its own directory.
    pub gitignore: bool,
    /// Leave out the data of version control systems: `.git`, `.hg`, `.svn` and their like.
    pub skip_vcs: bool,
    /// Leave out what is in directories with a valid `CACHEDIR.TAG` (the directory and its tag stay).
    pub skip_caches: bool,
}

impl Filter {
    /// Adds a pattern that leaves out what it matches, or takes it back in when it starts with `!`. The last pattern that
    /// matches decides; what lies below a directory left out is not looked at.
    ///
    /// A pattern with a leading `/` matches from the top of the archive, any other at every depth. `*` and `?` do not match
    /// `/`, `**` does. A pattern that ends with `/` matches directories only.
    ///
    /// # Errors
    ///
    /// `Usage` when it is not a valid glob.
    pub fn exclude(&mut self, pattern: &str) -> Result<()> {
        match pattern.strip_prefix('!') {
            Some(rest) => self.patterns.add(rest, false),
            None => self.patterns.add(pattern.strip_prefix("\\!").map_or(pattern, |_| &pattern[1..]), true),
        }
    }

    /// Adds a pattern that takes back in what an earlier one left out.
    ///
    /// # Errors
    ///
    /// As [`Filter::exclude`].
    pub fn include(&mut self, pattern: &str) -> Result<()> {
        self.patterns.add(pattern, false)
    }
}

/// Patterns in the order given.
#[derive(Debug, Clone, Default)]
struct Patterns {
    rules: Vec<Rule>,
    globs: Vec<globset::Glob>,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    leave_out: bool,
    directories_only: bool,
}

impl Patterns {
    fn add(&mut self, pattern: &str, leave_out: bool) -> Result<()> {
        let wrong = |why: String| Error::Usage { detail: format!("pattern '{pattern}' is not valid: {why}") };
        if pattern.len() > PATTERN_MAX {
            return Err(wrong(format!("more than {PATTERN_MAX} bytes")));
        }
        let (body, directories_only) = match pattern.strip_suffix('/') {
            Some(body) => (body, true),
            None => (pattern, false),
        };
        let body = body.strip_prefix("./").unwrap_or(body);
        let anchored = match body.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None => format!("**/{body}"),
        };
        if anchored.is_empty() || anchored == "**/" {
            return Err(wrong("it is empty".to_owned()));
        }
        let glob = GlobBuilder::new(&anchored).literal_separator(true).build().map_err(|e| wrong(e.kind().to_string()))?;
        self.globs.push(glob);
        self.rules.push(Rule { leave_out, directories_only });
        Ok(())
    }
}

/// A [`Filter`] ready for use.
#[derive(Debug)]
pub(crate) struct Sieve {
    rules: Vec<Rule>,
    set: GlobSet,
    /// As in [`Filter`].
    pub(crate) gitignore: bool,
    /// As in [`Filter`].
    pub(crate) skip_caches: bool,
    skip_vcs: bool,
}

impl Sieve {
    /// Compiles the patterns of `filter`.
    pub(crate) fn new(filter: &Filter) -> Result<Self> {
        let mut builder = GlobSetBuilder::new();
        for glob in &filter.patterns.globs {
            builder.add(glob.clone());
        }
        let set =
            builder.build().map_err(|e| Error::Usage { detail: format!("the patterns do not work together: {}", e.kind()) })?;
        let Filter { gitignore, skip_caches, skip_vcs, .. } = *filter;
        Ok(Self { rules: filter.patterns.rules.clone(), set, gitignore, skip_caches, skip_vcs })
    }

    /// Says whether decisions need the path of an entry.
    pub(crate) fn needs_paths(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Says whether a name is left out wherever it stands.
    pub(crate) fn leaves_out_name(&self, name: &[u8]) -> bool {
        self.skip_vcs && VCS_NAMES.contains(&name)
    }

    /// Says whether the patterns leave out the entry with this path in the archive.
    pub(crate) fn leaves_out_path(&self, path: &[u8], directory: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let matches = self.set.matches_candidate(&Candidate::from_bytes(path));
        let deciding = matches.into_iter().rev().map(|i| self.rules[i]).find(|rule| directory || !rule.directories_only);
        deciding.is_some_and(|rule| rule.leave_out)
    }
}

/// The `.gitignore` files that apply in a directory, innermost first.
#[derive(Debug)]
pub(crate) struct Ignores {
    matcher: Gitignore,
    /// Length of the stored path of the directory that the file lies in, with the slash behind it.
    skip: usize,
    above: Option<Arc<Ignores>>,
}

impl Ignores {
    /// Reads the text of a `.gitignore` in the directory of this stored path. Lines that make no sense are ignored, as git does.
    pub(crate) fn new(text: &[u8], directory: &[u8], above: Option<Arc<Ignores>>) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in text.split(|&b| b == b'\n').filter(|line| line.len() <= PATTERN_MAX) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Ok(line) = std::str::from_utf8(line) {
                // A line that is no pattern matches nothing.
                let _ = builder.add_line(None, line);
            }
        }
        let matcher = builder.build().unwrap_or_else(|_| Gitignore::empty());
        Self { matcher, skip: if directory.is_empty() { 0 } else { directory.len() + 1 }, above }
    }

    /// Says whether the entry with this stored path is left out.
    pub(crate) fn leave_out(&self, path: &[u8], directory: bool) -> bool {
        let mut at = Some(self);
        while let Some(ignores) = at {
            let relative = Path::new(OsStr::from_bytes(path.get(ignores.skip..).unwrap_or_default()));
            match ignores.matcher.matched(relative, directory) {
                ignore::Match::None => at = ignores.above.as_deref(),
                ignore::Match::Ignore(_) => return true,
                ignore::Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieve(patterns: &[&str]) -> Sieve {
        let mut filter = Filter::default();
        for pattern in patterns {
            filter.exclude(pattern).unwrap();
        }
        Sieve::new(&filter).unwrap()
    }

    #[test]
    fn the_last_match_wins() {
        let filter = sieve(&["*.txt", "!keep.txt", "/top", "deep/er", "cache/"]);
        for (path, directory, out) in [
            ("a.txt", false, true),
            ("x/a.txt", false, true),
            ("x/keep.txt", false, false),
            ("top", false, true),
            ("x/top", false, false),
            ("x/deep/er", false, true),
            ("cache", false, false),
            ("x/cache", true, true),
        ] {
            assert_eq!(filter.leaves_out_path(path.as_bytes(), directory), out, "{path}");
        }
        assert!(Filter::default().exclude("a[").is_err());
        assert!(Filter::default().exclude("").is_err());
        assert!(!sieve(&[]).leaves_out_path(b"a", false));
    }

    #[test]
    fn a_star_stays_within_a_component() {
        let filter = sieve(&["/a/*/c", "/b/**/c", "\\!x", "[!y]z"]);
        assert!(filter.leaves_out_path(b"a/b/c", false));
        assert!(!filter.leaves_out_path(b"a/b/b/c", false));
        assert!(filter.leaves_out_path(b"b/1/2/3/c", false));
        assert!(filter.leaves_out_path(b"q/!x", false));
        assert!(filter.leaves_out_path(b"az", false) && !filter.leaves_out_path(b"yz", false));
    }

    #[test]
    fn names_that_are_not_utf8_match() {
        assert!(sieve(&["*.log"]).leaves_out_path(b"d\xff/\xfe.log", false));
    }

    #[test]
    fn inner_gitignore_files_decide_first() {
        let outer = Arc::new(Ignores::new(b"*.o\n/build\r\n# comment\n", b"", None));
        let inner = Ignores::new(b"!keep.o\n", b"sub", Some(outer.clone()));
        assert!(outer.leave_out(b"a.o", false) && outer.leave_out(b"build", true) && !outer.leave_out(b"x/build", true));
        assert!(inner.leave_out(b"sub/a.o", false) && !inner.leave_out(b"sub/keep.o", false));
    }
}
