//! Decides which names a walk skips.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::exclude_rules::{RuleSet, Rules};
use crate::pattern::PATTERN_MAX;
use nra_format::error::Result;

/// Names of the directories in which version control systems store their data.
const VCS_NAMES: [&[u8]; 11] =
    [b".git", b".hg", b".svn", b".bzr", b".jj", b".pijul", b"_darcs", b"CVS", b"RCS", b"SCCS", b".arch-ids"];

/// First bytes of the tag file of a cache directory.
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// Name of the tag file of a cache directory.
pub(crate) const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
/// Name of the files that [`Filter::gitignore`] follows.
pub(crate) const GITIGNORE: &[u8] = b".gitignore";

/// Selects the files to pack. The default selects all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Patterns for paths in the archive.
    pub rules: Rules,
    /// Follow `.gitignore` files, each below its own directory.
    pub gitignore: bool,
    /// Skip the data of version control systems, such as `.git`, `.hg` and `.svn`.
    pub skip_vcs: bool,
    /// Skip the content of directories with a valid `CACHEDIR.TAG`. The directory and its tag are
    /// packed.
    pub skip_caches: bool,
}

/// A [`Filter`] ready for use.
#[derive(Debug)]
pub(crate) struct FilterMatcher {
    rules: RuleSet,
    /// As in [`Filter`].
    pub(crate) gitignore: bool,
    /// As in [`Filter`].
    pub(crate) skip_caches: bool,
    skip_vcs: bool,
}

impl FilterMatcher {
    /// Compiles the patterns of `filter`.
    pub(crate) fn new(filter: &Filter) -> Result<Self> {
        let Filter { gitignore, skip_caches, skip_vcs, .. } = *filter;
        Ok(Self { rules: filter.rules.compile()?, gitignore, skip_caches, skip_vcs })
    }

    /// Returns whether decisions depend on the path of an entry.
    pub(crate) fn needs_paths(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns whether a name is skipped in any directory.
    pub(crate) fn skips_name(&self, name: &[u8]) -> bool {
        self.skip_vcs && VCS_NAMES.contains(&name)
    }

    /// Returns whether the patterns skip the entry with this path in the archive.
    pub(crate) fn skips_path(&self, path: &[u8], directory: bool) -> bool {
        self.rules.excludes(path, directory)
    }
}

/// The `.gitignore` files that apply in a directory, innermost first.
#[derive(Debug)]
pub(crate) struct Ignores {
    matcher: Gitignore,
    /// Length of the stored path of the directory of the file, including the slash.
    skip: usize,
    above: Option<Arc<Ignores>>,
}

impl Ignores {
    /// Parses the `.gitignore` of the directory with this stored path. Invalid lines are ignored,
    /// as in git.
    pub(crate) fn new(text: &[u8], directory: &[u8], above: Option<Arc<Ignores>>) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in text.split(|&b| b == b'\n').filter(|line| line.len() <= PATTERN_MAX) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Ok(line) = std::str::from_utf8(line) {
                // An invalid pattern matches nothing.
                let _ = builder.add_line(None, line);
            }
        }
        let matcher = builder.build().unwrap_or_else(|_| Gitignore::empty());
        Self { matcher, skip: if directory.is_empty() { 0 } else { directory.len() + 1 }, above }
    }

    /// Returns whether the entry with this stored path is skipped.
    pub(crate) fn skips(&self, path: &[u8], directory: bool) -> bool {
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

    #[test]
    fn inner_gitignore_has_precedence() {
        let outer = Arc::new(Ignores::new(b"*.o\n/build\r\n# comment\n", b"", None));
        let inner = Ignores::new(b"!keep.o\n", b"sub", Some(outer.clone()));
        assert!(outer.skips(b"a.o", false) && outer.skips(b"build", true) && !outer.skips(b"x/build", true));
        assert!(inner.skips(b"sub/a.o", false) && !inner.skips(b"sub/keep.o", false));
    }
}
