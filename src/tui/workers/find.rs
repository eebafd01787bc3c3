//! Fuzzy search over all paths below a directory, while the user types.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::glyphs;
use crate::rows::below;
use crate::state::finder::{FindRequest, FindResponse, Goal, Hit};
use crate::workers::errors::error_message;
use crate::workers::room_for;
use nra_format::archive::Archive;
use nra_format::error::Result;
use nra_format::path::EntryPath;

/// Hits that are shown.
const BEST: usize = 200;
/// Bytes of paths that are kept for the next keystroke; the rest is read again.
const KEEP: usize = 48 << 20;
/// After this many paths it is time to look whether somebody still waits.
const STRIDE: u64 = 4_096;
/// Hits so far are told this often,
const TELL: Duration = Duration::from_millis(60);
/// and the first ones as early as they fill a screen, or were worth waiting for.
const FIRST: Duration = Duration::from_millis(10);

/// Which characters a path has, as bits: most paths lack one of those that were typed, and need no
/// closer look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Letters(u64);

impl Letters {
    /// The path is not ASCII: what matches what is not told by bytes.
    const FOREIGN: u64 = 1 << 63;

    /// Returns the bit of a byte; small and capital letters share one.
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

    /// Returns what a path must have that matches a pattern: its letters and digits, unless some of
    /// them are those that must not be there.
    fn wanted(pattern: &str) -> Self {
        if pattern.contains('!') { Self(0) } else { Self(Self::of(pattern.as_bytes()).0 & !Self::FOREIGN) }
    }

    fn may_match(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0 || self.0 & Self::FOREIGN != 0
    }
}

/// Paths in one piece of memory.
#[derive(Default)]
struct Paths {
    bytes: Vec<u8>,
    /// Where each path ends, and what is in it.
    ends: Vec<u32>,
    letters: Vec<Letters>,
    /// How many entries they are of: those that do not read count, too.
    entries: u64,
    /// There was no room for a path. None behind it is kept, so that what is read again begins
    /// there.
    full: bool,
}

impl Paths {
    /// Returns room for the paths of so many entries.
    fn with_room(entries: u64) -> Self {
        Self {
            bytes: room_for(entries.saturating_mul(16)),
            ends: room_for(entries),
            letters: room_for(entries),
            ..Self::default()
        }
    }

    /// Keeps the path of the next entry, `None` if it does not read, if there is room within so
    /// many bytes.
    fn add(&mut self, path: Option<&[u8]>, room: usize) {
        self.full |= path.is_some_and(|path| self.bytes.len() + path.len() > room);
        if self.full {
            return;
        }
        self.entries += 1;
        if let Some(path) = path {
            self.bytes.extend_from_slice(path);
            self.ends.push(u32::try_from(self.bytes.len()).expect("no more than is kept"));
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

/// What a search leaves for the next one.
pub struct Finder {
    matcher: Matcher,
    directory: Option<EntryPath>,
    /// The first paths below the directory.
    paths: Paths,
    /// Bytes of them that are kept.
    room: usize,
}

impl Default for Finder {
    fn default() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT.match_paths()), directory: None, paths: Paths::default(), room: KEEP }
    }
}

/// The best hits so far: score, shorter paths first, earlier ones first.
type Best = BinaryHeap<Reverse<(u32, Reverse<usize>, Reverse<u64>, Vec<u8>)>>;

impl Finder {
    /// Lets go of what it keeps for the next search.
    pub fn forget(&mut self) {
        (self.directory, self.paths) = (None, Paths::default());
    }

    /// Searches; `tell` takes what has been found so far and says whether anybody still waits for
    /// more.
    pub fn find(&mut self, archive: &dyn Archive, request: &FindRequest, tell: &mut dyn FnMut(Option<FindResponse>) -> bool) {
        let mut search = Search {
            pattern: Pattern::parse(&request.pattern, CaseMatching::Smart, Normalization::Smart),
            best: Best::new(),
            answer: FindResponse { hits: Vec::new(), matches: 0, searched: 0, complete: false, error: None },
            wanted: Letters::wanted(&request.pattern),
            told: None,
            began: Instant::now(),
            buffer: Vec::new(),
        };
        match self.run(archive, request, &mut search, tell) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => search.answer.error = Some(error_message(&error)),
        }
        search.answer.complete = true;
        let answer = search.answer(request, &mut self.matcher);
        tell(Some(answer));
    }

    /// Goes through all paths; says whether it came to the end.
    fn run(
        &mut self,
        archive: &dyn Archive,
        request: &FindRequest,
        search: &mut Search,
        tell: &mut dyn FnMut(Option<FindResponse>) -> bool,
    ) -> Result<bool> {
        if self.directory != request.directory {
            self.directory = request.directory.clone();
            self.paths = Paths::default();
        }
        let numbers = below(archive, request.directory.as_ref(), &|| true)?;
        if self.paths.entries == 0 {
            self.paths = Paths::with_room(numbers.end - numbers.start);
        }
        let front = request.directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1);
        for (path, letters) in self.paths.iter() {
            search.look(path, letters, &mut self.matcher);
            if search.answer.searched.is_multiple_of(STRIDE) && !search.pause(request, &mut self.matcher, tell) {
                return Ok(false);
            }
        }
        let known = numbers.start + self.paths.entries;
        for (looked, entry) in (1u64..).zip(archive.entries(known..numbers.end)) {
            if looked.is_multiple_of(STRIDE) && !search.pause(request, &mut self.matcher, tell) {
                return Ok(false);
            }
            // What does not read has no name to be found by; the list tells of the damage.
            let Ok(entry) = entry else {
                self.paths.add(None, self.room);
                continue;
            };
            let path = entry.path.as_bytes().get(front..).unwrap_or_default();
            self.paths.add(Some(path), self.room);
            search.look(path, Letters::of(path), &mut self.matcher);
        }
        Ok(true)
    }
}

struct Search {
    pattern: Pattern,
    best: Best,
    answer: FindResponse,
    wanted: Letters,
    /// When hits were told the last time.
    told: Option<Instant>,
    began: Instant,
    buffer: Vec<char>,
}

impl Search {
    fn look(&mut self, path: &[u8], letters: Letters, matcher: &mut Matcher) {
        self.answer.searched += 1;
        if !letters.may_match(self.wanted) {
            return;
        }
        let text = String::from_utf8_lossy(path);
        let Some(score) = self.pattern.score(Utf32Str::new(&text, &mut self.buffer), matcher) else { return };
        self.answer.matches += 1;
        let rank = (score, Reverse(path.len()), Reverse(self.answer.searched));
        if self.best.len() >= BEST {
            let worst = self.best.peek().map(|Reverse((score, len, order, _))| (*score, *len, *order));
            if worst.is_some_and(|worst| worst >= rank) {
                return;
            }
            self.best.pop();
        }
        self.best.push(Reverse((rank.0, rank.1, rank.2, path.to_vec())));
    }

    /// Tells what has been found when it is time to, and says whether to go on.
    fn pause(
        &mut self,
        request: &FindRequest,
        matcher: &mut Matcher,
        tell: &mut dyn FnMut(Option<FindResponse>) -> bool,
    ) -> bool {
        let is_early = match self.told {
            Some(told) => told.elapsed() < TELL,
            None => self.best.is_empty() && self.began.elapsed() < TELL || self.began.elapsed() < FIRST,
        };
        if is_early {
            return tell(None);
        }
        self.told = Some(Instant::now());
        let answer = self.answer(request, matcher);
        tell(Some(answer))
    }

    fn answer(&mut self, request: &FindRequest, matcher: &mut Matcher) -> FindResponse {
        let mut best: Vec<_> = self.best.iter().map(|Reverse(hit)| hit).collect();
        best.sort_by(|a, b| b.cmp(a));
        let hits = best.into_iter().filter_map(|(.., path)| {
            let full = match &request.directory {
                Some(directory) => directory.join(path).ok()?,
                None => EntryPath::new(path.clone()).ok()?,
            };
            let shown = glyphs::shown(path);
            let mut matched = Vec::new();
            self.pattern.indices(Utf32Str::new(&shown, &mut self.buffer), matcher, &mut matched);
            matched.sort_unstable();
            matched.dedup();
            Some(Hit { goal: Goal::Entry(full), text: shown, matched })
        });
        let hits = hits.collect();
        FindResponse { hits, ..self.answer.clone() }
    }
}

/// Ranks short texts by a pattern: their indices and the characters that matched, the best first.
/// All of them when nothing is typed.
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
    use crate::sample;

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
    fn the_best_path_comes_first() {
        let archive = sample::archive(&["a/readme.txt", "docs/README.md", "docs/guide.md", "z/rxexaxd"]);
        let mut finder = Finder::default();
        let answer = find(&mut finder, &*archive, None, "readme");
        assert_eq!(answer.hits[0].text, "a/readme.txt");
        assert_eq!((answer.matches, answer.searched, answer.complete), (2, 7, true));
        // The second time from memory.
        assert_eq!(find(&mut finder, &*archive, None, "guide").hits[0].text, "docs/guide.md");
        let below = find(&mut finder, &*archive, Some("docs"), "md");
        assert_eq!(below.searched, 2);
        assert_eq!(below.hits[0].matched, [6, 7].map(|at| at + u32::from(below.hits[0].text.len() == 9)));
        assert!(matches!(&below.hits[0].goal, Goal::Entry(path) if path.as_bytes().starts_with(b"docs/")));
    }

    #[test]
    fn paths_beyond_buffer_are_found_once() {
        let archive = sample::archive(&["a", "b-long-name", "c", "d-long-name", "e"]);
        for room in [0, 1, 3, 12, 13, 100] {
            let mut finder = Finder { room, ..Finder::default() };
            for _ in 0..3 {
                let answer = find(&mut finder, &*archive, None, "");
                let mut found: Vec<_> = answer.hits.iter().map(|hit| hit.text.as_str()).collect();
                found.sort_unstable();
                assert_eq!((answer.searched, found), (5, vec!["a", "b-long-name", "c", "d-long-name", "e"]), "{room}");
            }
        }
        // An entry that does not read has its place.
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
