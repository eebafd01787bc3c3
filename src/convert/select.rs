//! Which entries are meant: literal paths, directories with all below them, globs.
//!
//! A pattern is a path from the top of the archive; a directory stands for itself and everything below it. With `*`, `?`, `[` or `{` it is
//! a glob, at any depth when there is no `/` in it; a directory that matches brings everything below it. A path that is spelled exactly like a glob, or like one that makes no sense, is found too. From what the patterns
//! mean, [`Rules`] may leave something out again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Candidate, GlobSet, GlobSetBuilder};

use crate::pattern::{Pattern, compile};
use crate::rules::{RuleSet, Rules};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::path::{EntryPath, normal};

/// A set of patterns. Without any it means every entry.
#[derive(Debug, Default)]
pub struct Selection {
    patterns: Vec<Wanted>,
    /// Normal form of each pattern to its number.
    literals: HashMap<Box<[u8]>, usize>,
    globs: GlobSet,
    /// Number of the pattern of each glob in `globs`.
    owners: Vec<usize>,
    /// A pattern such as `.` or `/`: everything.
    everything: Option<usize>,
    /// Instead of patterns: these numbers, and the paths of the first and last entry of each range.
    chosen: Option<Vec<(Range<u64>, [EntryPath; 2])>>,
    /// What is skipped of that.
    rules: RuleSet,
}

/// One of the patterns.
#[derive(Debug)]
struct Wanted {
    /// As it was given.
    text: Vec<u8>,
    /// Everything it can match lies at or below this path; `None` = anywhere.
    root: Option<Box<[u8]>>,
    /// Why it is no glob although it looks like one: then it is a path alone.
    fault: Option<String>,
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
    /// [`Error::Usage`] when a pattern is empty, or they are too large together.
    pub fn new<T: AsRef<[u8]>>(patterns: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut selection = Self::default();
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            let text = pattern.as_ref();
            // In a script that is a variable without a value; `.` means everything.
            if text.is_empty() {
                return Err(Error::Usage { detail: "a pattern is empty; . stands for everything".into() });
            }
            let pattern = Pattern::read(text);
            let Some(number) = selection.literal(text) else { continue };
            // Bytes that are not UTF-8 can't stand in a glob, only in a path.
            if !pattern.is_glob() || std::str::from_utf8(text).is_err() {
                continue;
            }
            let anywhere = !pattern.at_top && !pattern.body.contains(&b'/');
            let forms = pattern.glob(anywhere).and_then(|glob| Ok((compile(&glob)?, compile(&format!("{glob}/**"))?)));
            match forms {
                Ok((itself, below)) => {
                    globs.add(itself).add(below);
                    selection.owners.extend([number; 2]);
                    selection.patterns[number].root = pattern.plain_directory().map(Box::from);
                }
                Err(fault) => selection.patterns[number].fault = Some(fault),
            }
        }
        selection.globs =
            globs.build().map_err(|error| Error::Usage { detail: format!("the patterns are too large: {error}") })?;
        Ok(selection)
    }

    /// Takes in these paths too, each with all below it; none of them is a glob.
    pub fn and_paths<T: AsRef<[u8]>>(mut self, paths: impl IntoIterator<Item = T>) -> Self {
        for path in paths {
            self.literal(path.as_ref());
        }
        self
    }

    /// Leaves out what the rules say, and everything below directories that they leave out.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the rules are too large together.
    pub fn without(mut self, rules: &Rules) -> Result<Self> {
        self.rules = rules.compile()?;
        Ok(self)
    }

    /// Adds a path; returns its number, unless it is there already.
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
        self.patterns.push(Wanted {
            text: text.to_vec(),
            root: Some(normal.into()),
            fault: None,
            matched: AtomicBool::new(false),
        });
        Some(number)
    }

    /// Returns the selection of the entries with these numbers: disjoint ranges in order.
    ///
    /// # Errors
    ///
    /// As reading the entries at the ends of the ranges does.
    pub fn of_numbers(archive: &dyn Archive, ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Self> {
        let ends = |range: Range<u64>| {
            let paths = [archive.entry(range.start)?.path, archive.entry(range.end - 1)?.path];
            Ok((range, paths))
        };
        let chosen: Result<_> = ranges.into_iter().filter(|range| !range.is_empty()).map(ends).collect();
        Ok(Self { chosen: Some(chosen?), ..Self::default() })
    }

    /// Says whether every entry is meant because nothing else was said.
    pub fn is_all(&self) -> bool {
        self.names_all() && self.rules.is_empty()
    }

    /// Says whether nothing but rules narrows it down.
    pub(crate) fn names_all(&self) -> bool {
        self.patterns.is_empty() && self.chosen.is_none()
    }

    /// Says whether the entry is meant, and remembers which patterns meant it, also when it is skipped.
    pub fn matches(&self, entry: &Entry) -> bool {
        self.names(&entry.path) && !self.rules.leaves_out_within(entry.path.as_bytes(), entry.kind == Kind::Directory)
    }

    fn names(&self, path: &EntryPath) -> bool {
        if self.names_all() {
            return true;
        }
        if let Some(chosen) = &self.chosen {
            let after = chosen.partition_point(|(_, [first, _])| first <= path);
            return after > 0 && *path <= chosen[after - 1].1[1];
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
        if !self.owners.is_empty() {
            for glob in self.globs.matches_candidate(&Candidate::from_bytes(path.as_bytes())) {
                found(self.owners[glob]);
            }
        }
        any
    }

    /// Returns the numbers of the entries that can match, as disjoint ranges in path order. Between their ends nothing else of the archive
    /// has to be read.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    pub fn ranges(&self, archive: &dyn Archive) -> Result<Vec<Range<u64>>> {
        let whole = 0..archive.entry_count();
        if let Some(chosen) = &self.chosen {
            return Ok(chosen.iter().map(|(range, _)| range.clone()).collect());
        }
        if self.names_all() || self.patterns.iter().any(|pattern| pattern.root.as_deref().is_none_or(<[u8]>::is_empty)) {
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

    /// Iterates over the entries that are meant, in path order. Errors of single pages are handed on.
    ///
    /// # Errors
    ///
    /// As reading the index does.
    pub fn entries<'a>(&'a self, archive: &'a dyn Archive) -> Result<Box<dyn Iterator<Item = Result<Entry>> + Send + 'a>> {
        let ranges = self.ranges(archive)?;
        let candidates = ranges.into_iter().flat_map(|range| archive.entries(range));
        if self.rules.is_empty() && (self.names_all() || self.chosen.is_some()) {
            return Ok(Box::new(candidates));
        }
        Ok(Box::new(candidates.filter(|entry| entry.as_ref().map_or(true, |entry| self.matches(entry)))))
    }

    /// Returns why a pattern is no glob although it looks like one.
    pub fn fault(&self, pattern: &[u8]) -> Option<&str> {
        self.patterns.iter().find(|known| *known.text == *pattern)?.fault.as_deref()
    }

    /// Returns the patterns that have matched nothing so far, as they were given.
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
    fn an_empty_pattern_is_no_pattern() {
        assert!(matches!(Selection::new([&b"a"[..], b""]), Err(Error::Usage { .. })));
        assert!(Selection::new([b"."]).is_ok());
    }

    #[test]
    fn patterns_mean_what_they_say() {
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
                assert!(selection.names(&path(text)), "{pattern} should match {text}");
            }
            for text in others {
                assert!(!selection.names(&path(text)), "{pattern} should not match {text}");
            }
        }
        assert!(Selection::all().names(&path("a")));
    }

    #[test]
    fn bytes_that_are_no_text_can_be_selected() {
        let selection = Selection::new([&b"\xff*"[..]]).unwrap();
        assert!(selection.names(&EntryPath::new(*b"\xff*/x").unwrap()));
        let any = selection_of_bytes(b"*.\xff");
        assert!(!any.names(&path("a")));
        assert!(Selection::new(["*"]).unwrap().names(&EntryPath::new(*b"\xfe\n\xff").unwrap()));
    }

    fn selection_of_bytes(pattern: &[u8]) -> Selection {
        Selection::new([pattern]).unwrap()
    }

    #[test]
    fn what_matched_nothing_is_known() {
        let selection = selection(&["a", "*.txt", "b", "a/x", "b/"]);
        assert!(selection.names(&path("a/x")));
        assert_eq!(selection.unmatched(), [&b"*.txt"[..], b"b"]);
        assert!(selection.names(&path("b/c.txt")));
        assert!(selection.unmatched().is_empty());
        assert!(!selection.names(&path("c")));
    }

    #[test]
    fn senseless_globs_are_paths() {
        let selection = selection(&["a["]);
        assert_eq!(selection.fault(b"a["), Some("unclosed character class; missing ']'"));
        assert_eq!(selection.unmatched(), [b"a["]);
        assert!(selection.names(&path("a[")) && selection.names(&path("a[/b")) && !selection.names(&path("a")));
        assert!(selection.unmatched().is_empty());
        let long = "*".repeat(PATTERN_MAX + 1);
        assert!(Selection::new([&long]).unwrap().fault(long.as_bytes()).is_some());
    }

    #[test]
    fn names_from_a_list_are_no_globs() {
        let selection = selection(&["*.c"]).and_paths(["a*", "d/", "a*"]);
        for (text, meant) in [("a*", true), ("a*/x", true), ("ab", false), ("d/x", true), ("x.c", true)] {
            assert_eq!(selection.names(&path(text)), meant, "{text}");
        }
        assert_eq!(selection.patterns.len(), 3);
        assert!(Selection::all().and_paths(["a"]).and_paths(["b"]).unmatched().len() == 2);
    }

    #[test]
    fn rules_take_away_from_what_is_named() {
        let mut rules = Rules::default();
        for rule in ["*.tmp", "!keep.tmp", "cache/"] {
            rules.exclude(rule).unwrap();
        }
        let selection = selection(&["a", "b/x.tmp"]).without(&rules).unwrap();
        for (text, kind, meant) in [
            ("a", Kind::Directory, true),
            ("a/x.tmp", Kind::File, false),
            ("a/keep.tmp", Kind::File, true),
            ("a/cache", Kind::Directory, false),
            ("a/cache/y", Kind::File, false),
            ("a/sub/cache", Kind::File, true),
            ("b/x.tmp", Kind::File, false),
            ("c", Kind::File, false),
        ] {
            assert_eq!(selection.matches(&Entry::new(path(text), kind)), meant, "{text}");
        }
        // It is there, if skipped.
        assert!(selection.unmatched().is_empty());
        assert!(!Selection::all().without(&rules).unwrap().is_all());
        assert!(Selection::all().without(&Rules::default()).unwrap().is_all());
    }

    #[test]
    fn a_glob_is_looked_for_below_its_plain_part() {
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
    fn numbers_mean_their_entries_alone() {
        let archive = archive(&["a*", "ab", "b/c", "b/d", "e"].map(str::to_owned).into());
        // a*, ab, b, b/c, b/d, e
        let selection = Selection::of_numbers(&*archive, [0..1, 3..5, 6..6]).unwrap();
        let found: Vec<EntryPath> = selection.entries(&*archive).unwrap().map(|entry| entry.unwrap().path).collect();
        assert_eq!(found.iter().map(|path| path.as_bytes()).collect::<Vec<_>>(), [&b"a*"[..], b"b/c", b"b/d"]);
        for entry in archive.entries(0..archive.entry_count()) {
            let path = entry.unwrap().path;
            assert_eq!(selection.names(&path), found.contains(&path), "{path}");
        }
        assert!(!selection.is_all() && selection.unmatched().is_empty());
        assert!(!Selection::of_numbers(&*archive, []).unwrap().is_all());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn narrowing_loses_nothing(
            paths in prop::collection::btree_set("[ab!](/[ab!]){0,3}", 1..12),
            patterns in prop::collection::vec("[/]?[ab*?!](/([ab!*?]|[*][*])){0,3}[/]?", 0..4),
        ) {
            let archive = archive(&paths);
            let selection = Selection::new(&patterns).unwrap();
            let all: Vec<EntryPath> = archive.entries(0..archive.entry_count()).map(|entry| entry.unwrap().path).collect();
            let expected: Vec<&EntryPath> = all.iter().filter(|path| selection.names(path)).collect();
            let fresh = Selection::new(&patterns).unwrap();
            let found: Vec<EntryPath> = fresh.entries(&*archive).unwrap().map(|entry| entry.unwrap().path).collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(fresh.unmatched(), selection.unmatched());
        }
    }
}
