//! Fuzzy search over all paths below a directory, while the user types.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::glyphs;
use crate::rows::below;
use crate::state::{FindRequest, FindResponse, Hit, HitTarget};
use crate::workers::errors::error_message;
use crate::workers::room_for;
use nra_format::archive::Archive;
use nra_format::error::Result;
use nra_format::path::EntryPath;

/// Number of hits that are shown.
const MAX_HITS: usize = 200;
/// Bytes of paths that are kept for the next keystroke; the others are read again.
const MAX_KEPT: usize = 48 << 20;
/// Interval, in paths, for checking whether the search was cancelled.
const STRIDE: u64 = 4_096;
const REPORT_INTERVAL: Duration = Duration::from_millis(60);
/// Earliest time of the first report. Without hits, it is sent after `REPORT_INTERVAL`.
const FIRST_REPORT: Duration = Duration::from_millis(10);

/// The letters and digits of a path, as bits. Most paths lack a typed letter and need no closer
/// look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Letters(u64);

impl Letters {
    /// The path is not ASCII. Its bytes do not tell which letters match.
    const FOREIGN: u64 = 1 << 63;

    /// Returns the bit of a byte. Small and capital letters share one.
    fn bit(byte: u8) -> u64 {
        match byte {
            b'a'..=b'z' => 1 << (byte - b'a'),
            b'A'..=b'Z' => 1 << (byte - b'A'),
            b'0'..=b'9' => 1 << (26 + byte - b'0'),
            0x80.. => Self::FOREIGN,
            _ => 0,
        }
    }

    fn of(path: &[u8]) -> Self {
        Self(path.iter().fold(0, |bits, &byte| bits | Self::bit(byte)))
    }

    /// Returns the letters that a match needs; none if the pattern excludes some (`!`).
    fn wanted(pattern: &str) -> Self {
        if pattern.contains('!') { Self(0) } else { Self(Self::of(pattern.as_bytes()).0 & !Self::FOREIGN) }
    }

    fn may_match(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0 || self.0 & Self::FOREIGN != 0
    }
}

/// Paths in one buffer.
#[derive(Default)]
struct Paths {
    bytes: Vec<u8>,
    /// End of each path in the buffer.
    ends: Vec<u32>,
    letters: Vec<Letters>,
    /// Number of entries they belong to, including unreadable ones.
    entries: u64,
    /// A path did not fit. No later path is kept, so that reading continues there.
    full: bool,
}

impl Paths {
    /// Allocates memory for a number of entries.
    fn with_capacity(entries: u64) -> Self {
        Self {
            bytes: room_for(entries.saturating_mul(16)),
            ends: room_for(entries),
            letters: room_for(entries),
            ..Self::default()
        }
    }

    /// Adds the path of the next entry if the buffer does not exceed `max` bytes; `None` for an
    /// unreadable entry.
    fn add(&mut self, path: Option<&[u8]>, max: usize) {
        self.full |= path.is_some_and(|path| self.bytes.len() + path.len() > max);
        if self.full {
            return;
        }
        self.entries += 1;
        if let Some(path) = path {
            self.bytes.extend_from_slice(path);
            self.ends.push(u32::try_from(self.bytes.len()).expect("at most MAX_KEPT"));
            self.letters.push(Letters::of(path));
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], Letters)> {
        let mut start = 0;
        self.ends.iter().zip(&self.letters).map(move |(&end, &letters)| {
            let path = &self.bytes[start as usize..end as usize];
            start = end;
            (path, letters)
        })
    }
}

/// The state that one search keeps for the next.
pub struct Finder {
    matcher: Matcher,
    directory: Option<EntryPath>,
    /// The first paths below the directory.
    paths: Paths,
    /// Maximum length of these paths, in bytes.
    max_kept: usize,
}

impl Default for Finder {
    fn default() -> Self {
        let matcher = Matcher::new(Config::DEFAULT.match_paths());
        Self { matcher, directory: None, paths: Paths::default(), max_kept: MAX_KEPT }
    }
}

/// The best hits so far: score, shorter paths first, earlier ones first.
type Best = BinaryHeap<Reverse<(u32, Reverse<usize>, Reverse<u64>, Vec<u8>)>>;

/// Receives the results so far, if a report is due, and returns whether the search continues.
type Report<'a> = &'a mut dyn FnMut(Option<FindResponse>) -> bool;

impl Finder {
    /// Searches all paths.
    pub fn find(&mut self, archive: &dyn Archive, request: &FindRequest, report: Report<'_>) {
        let mut search = Search {
            pattern: Pattern::parse(&request.pattern, CaseMatching::Smart, Normalization::Smart),
            best: Best::new(),
            results: FindResponse::default(),
            wanted: Letters::wanted(&request.pattern),
            reported: None,
            started: Instant::now(),
            buffer: Vec::new(),
        };
        match self.run(archive, request, &mut search, report) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => search.results.error = Some(error_message(&error)),
        }
        search.results.complete = true;
        report(Some(search.response(request, &mut self.matcher)));
    }

    /// Searches all paths. Returns false if cancelled.
    fn run(&mut self, archive: &dyn Archive, request: &FindRequest, search: &mut Search, report: Report<'_>) -> Result<bool> {
        if self.directory != request.directory {
            self.directory = request.directory.clone();
            self.paths = Paths::default();
        }
        let numbers = below(archive, request.directory.as_ref(), &|| true)?;
        if self.paths.entries == 0 {
            self.paths = Paths::with_capacity(numbers.end - numbers.start);
        }
        let front = request.directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1);
        for (path, letters) in self.paths.iter() {
            search.match_path(path, letters, &mut self.matcher);
            if search.results.searched.is_multiple_of(STRIDE) && !search.report_due(request, &mut self.matcher, report) {
                return Ok(false);
            }
        }
        let known = numbers.start + self.paths.entries;
        for (count, entry) in (1u64..).zip(archive.entries(known..numbers.end)) {
            if count.is_multiple_of(STRIDE) && !search.report_due(request, &mut self.matcher, report) {
                return Ok(false);
            }
            // An unreadable entry has no name. The list reports the damage.
            let Ok(entry) = entry else {
                self.paths.add(None, self.max_kept);
                continue;
            };
            let path = entry.path.as_bytes().get(front..).unwrap_or_default();
            self.paths.add(Some(path), self.max_kept);
            search.match_path(path, Letters::of(path), &mut self.matcher);
        }
        Ok(true)
    }
}

struct Search {
    pattern: Pattern,
    best: Best,
    /// The results, without hits.
    results: FindResponse,
    wanted: Letters,
    reported: Option<Instant>,
    started: Instant,
    buffer: Vec<char>,
}

impl Search {
    fn match_path(&mut self, path: &[u8], letters: Letters, matcher: &mut Matcher) {
        self.results.searched += 1;
        if !letters.may_match(self.wanted) {
            return;
        }
        let text = String::from_utf8_lossy(path);
        let Some(score) = self.pattern.score(Utf32Str::new(&text, &mut self.buffer), matcher) else { return };
        self.results.matches += 1;
        let rank = (score, Reverse(path.len()), Reverse(self.results.searched));
        if self.best.len() >= MAX_HITS {
            let worst = self.best.peek().map(|Reverse((score, len, order, _))| (*score, *len, *order));
            if worst.is_some_and(|worst| worst >= rank) {
                return;
            }
            self.best.pop();
        }
        self.best.push(Reverse((rank.0, rank.1, rank.2, path.to_vec())));
    }

    /// Reports the results so far if a report is due. Returns whether the search continues.
    fn report_due(&mut self, request: &FindRequest, matcher: &mut Matcher, report: Report<'_>) -> bool {
        let is_early = match self.reported {
            Some(reported) => reported.elapsed() < REPORT_INTERVAL,
            None if self.best.is_empty() => self.started.elapsed() < REPORT_INTERVAL,
            None => self.started.elapsed() < FIRST_REPORT,
        };
        if is_early {
            return report(None);
        }
        self.reported = Some(Instant::now());
        report(Some(self.response(request, matcher)))
    }

    fn response(&mut self, request: &FindRequest, matcher: &mut Matcher) -> FindResponse {
        let mut best: Vec<_> = self.best.iter().map(|Reverse(hit)| hit).collect();
        best.sort_by(|a, b| b.cmp(a));
        let hits = best.into_iter().filter_map(|(.., path)| {
            let full = match &request.directory {
                Some(directory) => directory.join(path).ok()?,
                None => EntryPath::new(path.clone()).ok()?,
            };
            let text = glyphs::printable(path);
            let mut matched = Vec::new();
            self.pattern.indices(Utf32Str::new(&text, &mut self.buffer), matcher, &mut matched);
            matched.sort_unstable();
            matched.dedup();
            Some(Hit { target: HitTarget::Entry(full), text, matched })
        });
        FindResponse { hits: hits.collect(), ..self.results.clone() }
    }
}

/// Ranks short texts by a pattern, the best first: the index of each and its matching characters.
/// An empty pattern matches all.
pub fn rank(pattern: &str, texts: &[String]) -> Vec<(usize, Vec<u32>)> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(pattern, CaseMatching::Ignore, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut ranked: Vec<(u32, usize, Vec<u32>)> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let mut matched = Vec::new();
        if let Some(score) = pattern.indices(Utf32Str::new(text, &mut buffer), &mut matcher, &mut matched) {
            matched.sort_unstable();
            ranked.push((score, index, matched));
        }
    }
    ranked.sort_by_key(|(score, index, _)| (Reverse(*score), *index));
    ranked.into_iter().map(|(_, index, matched)| (index, matched)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn find(finder: &mut Finder, archive: &dyn Archive, directory: Option<&str>, pattern: &str) -> FindResponse {
        let directory = directory.map(|path| EntryPath::try_from(path).unwrap());
        let request = FindRequest { directory, pattern: pattern.to_owned() };
        let mut last = None;
        finder.find(archive, &request, &mut |answer| {
            last = answer.or(last.take());
            true
        });
        last.unwrap()
    }

    #[test]
    fn best_path_is_first_hit() {
        let archive = sample::archive(&["a/readme.txt", "docs/README.md", "docs/guide.md", "z/rxexaxd"]);
        let mut finder = Finder::default();
        let answer = find(&mut finder, &*archive, None, "readme");
        assert_eq!(answer.hits[0].text, "a/readme.txt");
        assert_eq!((answer.matches, answer.searched, answer.complete), (2, 7, true));
        // From the kept paths.
        assert_eq!(find(&mut finder, &*archive, None, "guide").hits[0].text, "docs/guide.md");
        let below = find(&mut finder, &*archive, Some("docs"), "md");
        assert_eq!(below.searched, 2);
        assert_eq!(below.hits[0].matched, [6, 7].map(|at| at + u32::from(below.hits[0].text.len() == 9)));
        assert!(matches!(&below.hits[0].target, HitTarget::Entry(path) if path.as_bytes().starts_with(b"docs/")));
    }

    #[test]
    fn paths_beyond_buffer_are_found_once() {
        let archive = sample::archive(&["a", "b-long-name", "c", "d-long-name", "e"]);
        for max_kept in [0, 1, 3, 12, 13, 100] {
            let mut finder = Finder { max_kept, ..Finder::default() };
            for _ in 0..3 {
                let answer = find(&mut finder, &*archive, None, "");
                let mut found: Vec<_> = answer.hits.iter().map(|hit| hit.text.as_str()).collect();
                found.sort_unstable();
                assert_eq!((answer.searched, found), (5, vec!["a", "b-long-name", "c", "d-long-name", "e"]), "{max_kept}");
            }
        }
        // An unreadable entry counts.
        let mut paths = Paths::default();
        [Some(&b"a"[..]), None, Some(b"b"), Some(b"too long"), Some(b"c"), None].iter().for_each(|path| paths.add(*path, 5));
        assert_eq!((paths.entries, paths.iter().count(), paths.full), (3, 2, true));
    }

    #[test]
    fn skipped_paths_cannot_match() {
        let paths = ["a/readme.txt", "Grüße.md", "x y", "UPPER/Case", "no-letters-9", "été", "", "ﬁle", "0123456789"];
        let patterns =
            ["", "READ", "gruse", "grüße", "!read", "x\\ y", "^a .txt$", "'case", "Case", "ete", "file", "99", "a!b", "9 -", "ﬁ"];
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        for pattern in patterns {
            let wanted = Letters::wanted(pattern);
            let parsed = Pattern::parse(pattern, CaseMatching::Smart, Normalization::Smart);
            for path in paths {
                let matches = parsed.score(Utf32Str::new(path, &mut Vec::new()), &mut matcher).is_some();
                assert!(!matches || Letters::of(path.as_bytes()).may_match(wanted), "{pattern:?} matches {path:?}");
            }
        }
        assert!(!Letters::of(b"abc").may_match(Letters::wanted("d")));
        assert!(!Letters::of(b"image-12").may_match(Letters::wanted("13")));
    }

    #[test]
    fn cancelled_search_stops() {
        let names: Vec<String> = (0..20_000).map(|number| format!("{number:05}")).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let request = FindRequest { directory: None, pattern: "1".to_owned() };
        let mut calls = 0;
        Finder::default().find(&*archive, &request, &mut |_| {
            calls += 1;
            calls < 2
        });
        assert_eq!(calls, 2);
    }
}
