//! Selects entries by path or glob.
//!
//! A pattern is a path from the top of the archive. It selects the entry and everything below it. A
//! pattern with `*`, `?`, `[` or `{` is a glob; without a `/` it matches at any depth. Every
//! pattern also selects the entry with exactly that path, even if it is a glob or an invalid one.
//! [`Rules`] exclude entries from the selection.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Candidate, GlobSet, GlobSetBuilder};

use crate::exclude_rules::{RuleSet, Rules};
use crate::pattern::{Pattern, compile};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::path::{EntryPath, normal};

/// A set of patterns. Without patterns it selects every entry.
#[derive(Debug, Default)]
pub struct Selection {
    patterns: Vec<SelectionPattern>,
    /// Maps the normal form of each pattern to its index.
    literals: HashMap<Box<[u8]>, usize>,
    globs: GlobSet,
    /// Index of the pattern of each glob in `globs`.
    glob_patterns: Vec<usize>,
    /// Index of a pattern such as `.` or `/`, which selects everything.
    everything: Option<usize>,
    /// Instead of patterns: ranges of entry numbers, with the paths of their first and last entry.
    ranges: Option<Vec<(Range<u64>, [EntryPath; 2])>>,
    /// Excluded entries.
    rules: RuleSet,
}

#[derive(Debug)]
struct SelectionPattern {
    /// As given.
    text: Vec<u8>,
    /// All matches are at or below this path; `None` = anywhere.
    root: Option<Box<[u8]>>,
    /// Why it is not a valid glob although it looks like one. It then matches only as a path.
    glob_error: Option<String>,
    matched: AtomicBool,
}

impl Selection {
    /// Returns the selection of every entry.
    pub fn all() -> Self {
        Self::default()
    }

    /// Compiles patterns.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if a pattern is empty, or the patterns together are too large.
    pub fn new<T: AsRef<[u8]>>(patterns: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut selection = Self::default();
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            let text = pattern.as_ref();
            // Probably an empty variable in a script.
            if text.is_empty() {
                return Err(Error::Usage { detail: "empty pattern (use . to select everything)".into() });
            }
            let pattern = Pattern::parse(text);
            let Some(number) = selection.literal(text) else { continue };
            // Globs must be valid UTF-8, paths need not.
            if !pattern.is_glob() || std::str::from_utf8(text).is_err() {
                continue;
            }
            let anywhere = !pattern.at_top && !pattern.body.contains(&b'/');
            let forms = pattern.glob(anywhere).and_then(|glob| Ok((compile(&glob)?, compile(&format!("{glob}/**"))?)));
            match forms {
                Ok((itself, below)) => {
                    globs.add(itself).add(below);
                    selection.glob_patterns.extend([number; 2]);
                    selection.patterns[number].root = pattern.literal_directory().map(Box::from);
                }
                Err(error) => selection.patterns[number].glob_error = Some(error),
            }
        }
        selection.globs =
            globs.build().map_err(|error| Error::Usage { detail: format!("the patterns together are too large: {error}") })?;
        Ok(selection)
    }

    /// Also selects these paths and everything below them. They are never globs.
    pub fn and_paths<T: AsRef<[u8]>>(mut self, paths: impl IntoIterator<Item = T>) -> Self {
        for path in paths {
            self.literal(path.as_ref());
        }
        self
    }

    /// Excludes entries that match the rules, and everything below excluded directories.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the rules together are too large.
    pub fn without(mut self, rules: &Rules) -> Result<Self> {
        self.rules = rules.compile()?;
        Ok(self)
    }

    /// Adds a path and returns its index, or `None` if it was already added.
    fn literal(&mut self, text: &[u8]) -> Option<usize> {
        let normal = normal(text);
        if self.literals.contains_key(normal) {
            return None;
        }
        let number = self.patterns.len();
        if normal.is_empty() {
            self.everything = Some(number);
        }
        self.literals.insert(normal.into(), number);
        self.patterns.push(SelectionPattern {
            text: text.to_vec(),
            root: Some(normal.into()),
            glob_error: None,
            matched: AtomicBool::new(false),
        });
        Some(number)
    }

    /// Returns the selection of the entries with these numbers. The ranges must be sorted and
    /// disjoint.
    ///
    /// # Errors
    ///
    /// If the first or last entry of a range cannot be read.
    pub fn of_numbers(archive: &dyn Archive, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Self> {
        let ends = |range: Range<u64>| {
            let paths = [archive.entry(range.start)?.path, archive.entry(range.end - 1)?.path];
            Ok((range, paths))
        };
        let ranges: Result<_> = ranges.into_iter().filter(|range| !range.is_empty()).map(ends).collect();
        Ok(Self { ranges: Some(ranges?), ..Self::default() })
    }

    /// Returns whether there are neither patterns nor rules, so that every entry is selected.
    pub fn is_all(&self) -> bool {
        self.has_only_rules() && self.rules.is_empty()
    }

    /// Returns whether only rules restrict the selection.
    pub(crate) fn has_only_rules(&self) -> bool {
        self.patterns.is_empty() && self.ranges.is_none()
    }

    /// Returns whether the entry is selected, and records which patterns match it, even if a rule
    /// excludes it.
    pub fn matches(&self, entry: &Entry) -> bool {
        let is_directory = entry.kind == Kind::Directory;
        self.matches_path(&entry.path) && !self.rules.excludes_with_parents(entry.path.as_bytes(), is_directory)
    }

    /// As [`Self::matches`], without rules.
    fn matches_path(&self, path: &EntryPath) -> bool {
        if self.has_only_rules() {
            return true;
        }
        if let Some(ranges) = &self.ranges {
            let after = ranges.partition_point(|(_, [first, _])| first <= path);
            return after > 0 && *path <= ranges[after - 1].1[1];
        }
        let mut any = false;
        let mut found = |number: usize| {
            any = true;
            self.patterns[number].matched.store(true, Ordering::Relaxed);
        };
        if let Some(number) = self.everything {
            found(number);
        }
        if !self.literals.is_empty() {
            let bytes = path.as_bytes();
            let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
            for end in ends.chain([bytes.len()]) {
                if let Some(&number) = self.literals.get(&bytes[..end]) {
                    found(number);
                }
            }
        }
        if !self.glob_patterns.is_empty() {
            for glob in self.globs.matches_candidate(&Candidate::from_bytes(path.as_bytes())) {
                found(self.glob_patterns[glob]);
            }
        }
        any
    }

    /// Returns the numbers of the entries that can match, as disjoint ranges in path order. Other
    /// entries need not be read.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub fn ranges(&self, archive: &dyn Archive) -> Result<Vec<Range<u64>>> {
        let whole = 0..archive.entry_count();
        if let Some(ranges) = &self.ranges {
            return Ok(ranges.iter().map(|(range, _)| range.clone()).collect());
        }
        if self.has_only_rules() || self.patterns.iter().any(|pattern| pattern.root.as_deref().is_none_or(<[u8]>::is_empty)) {
            return Ok(vec![whole]);
        }
        let mut ranges = Vec::with_capacity(self.patterns.len());
        for root in self.patterns.iter().filter_map(|pattern| pattern.root.as_deref()) {
            let range = archive.subtree(Some(root))?;
            if !range.is_empty() {
                ranges.push(range);
            }
        }
        ranges.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Ok(merged)
    }

    /// Iterates over the selected entries in path order. Errors of single index pages are items of
    /// the iterator.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub fn entries<'a>(&'a self, archive: &'a dyn Archive) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send + 'a>> {
        let ranges = self.ranges(archive)?;
        let candidates = ranges.into_iter().flat_map(|range| archive.entries(range));
        if self.rules.is_empty() && (self.has_only_rules() || self.ranges.is_some()) {
            return Ok(Box::new(candidates));
        }
        Ok(Box::new(candidates.filter(|entry| entry.as_ref().map_or(true, |entry| self.matches(entry)))))
    }

    /// Returns why a pattern is not a valid glob although it looks like one.
    pub fn glob_error(&self, pattern: &[u8]) -> Option<&str> {
        self.patterns.iter().find(|known| *known.text == *pattern)?.glob_error.as_deref()
    }

    /// Returns the patterns that have matched nothing so far, as given.
    pub fn unmatched(&self) -> Vec<&[u8]> {
        self.patterns.iter().filter(|pattern| !pattern.matched.load(Ordering::Relaxed)).map(|pattern| &*pattern.text).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::pattern::PATTERN_MAX;
    use nra_format::archive::{OpenOptions, open};
    use nra_format::entry::Kind;
    use nra_format::nra::writer::{NewContent, Writer, WriterOptions};
    use nra_format::progress::Recorder;
    use nra_format::source::MemorySource;

    fn path(text: &str) -> EntryPath {
        EntryPath::try_from(text).unwrap()
    }

    fn selection(patterns: &[&str]) -> Selection {
        Selection::new(patterns).unwrap()
    }

    #[test]
    fn empty_pattern_is_rejected() {
        assert!(matches!(Selection::new([&b"a"[..], b""]), Err(Error::Usage { .. })));
        assert!(Selection::new([b"."]).is_ok());
    }

    #[test]
    fn patterns_select_matching_paths() {
        for (pattern, matching, others) in [
            ("a", &["a", "a/b", "a/b/c"][..], &["ab", "b/a", "A"][..]),
            ("a/b/", &["a/b", "a/b/c"], &["a", "a/bc"]),
            ("./a", &["a", "a/b"], &["b/a"]),
            ("/a/b", &["a/b"], &["a", "c/a/b"]),
            (".", &["a", "b/c"], &[]),
            ("*.txt", &["x.txt", "a/b/x.txt", "d.txt/below"], &["x.txtx", "x.TXT"]),
            ("/*.txt", &["x.txt"], &["a/x.txt"]),
            ("a/*", &["a/b", "a/b/c"], &["a", "b/a/x"]),
            ("a/*/c", &["a/b/c", "a/b/c/d"], &["a/c", "a/b/b/c"]),
            ("a/**/c", &["a/c", "a/b/c", "a/b/b/c"], &["a/b"]),
            ("**/c", &["c", "a/c"], &["a/cc"]),
            ("a[1]", &["a[1]", "a1", "b/a1", "a[1]/x"], &["a2"]),
            ("{a,b}/x", &["a/x", "b/x"], &["c/x"]),
            ("a\\*b", &["a*b"], &["axb", "a\\b"]),
        ] {
            let selection = selection(&[pattern]);
            for text in matching {
                assert!(selection.matches_path(&path(text)), "{pattern} should match {text}");
            }
            for text in others {
                assert!(!selection.matches_path(&path(text)), "{pattern} should not match {text}");
            }
        }
        assert!(Selection::all().matches_path(&path("a")));
    }

    #[test]
    fn paths_that_are_not_utf8_can_be_selected() {
        let selection = Selection::new([&b"\xff*"[..]]).unwrap();
        assert!(selection.matches_path(&EntryPath::new(*b"\xff*/x").unwrap()));
        assert!(!Selection::new([&b"*.\xff"[..]]).unwrap().matches_path(&path("a")));
        assert!(Selection::new(["*"]).unwrap().matches_path(&EntryPath::new(*b"\xfe\n\xff").unwrap()));
    }

    #[test]
    fn unmatched_patterns_are_recorded() {
        let selection = selection(&["a", "*.txt", "b", "a/x", "b/"]);
        assert!(selection.matches_path(&path("a/x")));
        assert_eq!(selection.unmatched(), [&b"*.txt"[..], b"b"]);
        assert!(selection.matches_path(&path("b/c.txt")));
        assert!(selection.unmatched().is_empty());
        assert!(!selection.matches_path(&path("c")));
    }

    #[test]
    fn invalid_globs_match_as_paths() {
        let selection = selection(&["a["]);
        assert_eq!(selection.glob_error(b"a["), Some("unclosed character class; missing ']'"));
        assert_eq!(selection.unmatched(), [b"a["]);
        assert!(
            selection.matches_path(&path("a[")) && selection.matches_path(&path("a[/b")) && !selection.matches_path(&path("a"))
        );
        assert!(selection.unmatched().is_empty());
        let long = "*".repeat(PATTERN_MAX + 1);
        assert!(Selection::new([&long]).unwrap().glob_error(long.as_bytes()).is_some());
    }

    #[test]
    fn listed_paths_are_not_globs() {
        let selection = selection(&["*.c"]).and_paths(["a*", "d/", "a*"]);
        for (text, expected) in [("a*", true), ("a*/x", true), ("ab", false), ("d/x", true), ("x.c", true)] {
            assert_eq!(selection.matches_path(&path(text)), expected, "{text}");
        }
        assert_eq!(selection.patterns.len(), 3);
        assert!(Selection::all().and_paths(["a"]).and_paths(["b"]).unmatched().len() == 2);
    }

    #[test]
    fn rules_exclude_selected_entries() {
        let mut rules = Rules::default();
        for rule in ["*.tmp", "!keep.tmp", "cache/"] {
            rules.exclude(rule).unwrap();
        }
        let selection = selection(&["a", "b/x.tmp"]).without(&rules).unwrap();
        for (text, kind, expected) in [
            ("a", Kind::Directory, true),
            ("a/x.tmp", Kind::File, false),
            ("a/keep.tmp", Kind::File, true),
            ("a/cache", Kind::Directory, false),
            ("a/cache/y", Kind::File, false),
            ("a/sub/cache", Kind::File, true),
            ("b/x.tmp", Kind::File, false),
            ("c", Kind::File, false),
        ] {
            assert_eq!(selection.matches(&Entry::new(path(text), kind)), expected, "{text}");
        }
        // An excluded entry still counts as a match of its pattern.
        assert!(selection.unmatched().is_empty());
        assert!(!Selection::all().without(&rules).unwrap().is_all());
        assert!(Selection::all().without(&Rules::default()).unwrap().is_all());
    }

    #[test]
    fn glob_is_searched_below_its_literal_directory() {
        for (pattern, root) in
            [("a/b/*.c", Some("a/b")), ("a/*/c", Some("a")), ("*/c", None), ("*.c", None), ("/*.c", None), ("a\\*b/c*", None)]
        {
            assert_eq!(selection(&[pattern]).patterns[0].root.as_deref(), root.map(str::as_bytes), "{pattern}");
        }
    }

    /// Returns an archive with files at `paths` and the directories above them.
    fn archive(paths: &BTreeSet<String>) -> Box<dyn Archive> {
        let mut directories = BTreeSet::new();
        for file in paths {
            directories.extend(file.match_indices('/').map(|(end, _)| file[..end].to_owned()));
        }
        let options = WriterOptions { threads: 1, ..WriterOptions::balanced() };
        let mut writer = Writer::create(Vec::new(), options).unwrap();
        for directory in &directories {
            writer.add(Entry::new(path(directory), Kind::Directory), NewContent::None).unwrap();
        }
        for file in paths.iter().filter(|file| !directories.contains(*file)) {
            writer.add(Entry::new(path(file), Kind::File), NewContent::None).unwrap();
        }
        let (bytes, _) = writer.finish(&Recorder::default()).unwrap();
        open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).unwrap()
    }

    #[test]
    fn numbers_select_only_their_entries() {
        let archive = archive(&["a*", "ab", "b/c", "b/d", "e"].map(str::to_owned).into());
        // a*, ab, b, b/c, b/d, e
        let selection = Selection::of_numbers(&*archive, [0..1, 3..5, 6..6]).unwrap();
        let found: Vec<EntryPath> = selection.entries(&*archive).unwrap().map(|entry| entry.unwrap().path).collect();
        assert_eq!(found.iter().map(|path| path.as_bytes()).collect::<Vec<_>>(), [&b"a*"[..], b"b/c", b"b/d"]);
        for entry in archive.entries(0..archive.entry_count()) {
            let path = entry.unwrap().path;
            assert_eq!(selection.matches_path(&path), found.contains(&path), "{path}");
        }
        assert!(!selection.is_all() && selection.unmatched().is_empty());
        assert!(!Selection::of_numbers(&*archive, []).unwrap().is_all());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn ranges_contain_all_matches(
            paths in prop::collection::btree_set("[ab!](/[ab!]){0,3}", 1..12),
            patterns in prop::collection::vec("[/]?[ab*?!](/([ab!*?]|[*][*])){0,3}[/]?", 0..4),
        ) {
            let archive = archive(&paths);
            let selection = Selection::new(&patterns).unwrap();
            let all: Vec<EntryPath> = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path).collect();
            let expected: Vec<&EntryPath> = all.iter().filter(|path| selection.matches_path(path)).collect();
            let fresh = Selection::new(&patterns).unwrap();
            let found: Vec<EntryPath> = fresh.entries(&*archive).unwrap().map(|entry| entry.unwrap().path).collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(fresh.unmatched(), selection.unmatched());
        }
    }
}
