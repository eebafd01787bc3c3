//! Searches the content of one file, line by line, as it comes out of the archive.

use regex::bytes::Regex;

use crate::format::archive::{Access, Archive, Part};
use crate::format::entry::Entry;
use crate::format::error::Result;

/// Longest line that is kept whole, bytes; a longer one is searched in parts of this length.
const MAX_LINE: usize = 1 << 20;
/// Lines kept of one file.
const MAX_HITS: usize = 1 << 18;
/// Bytes of lines kept of one file.
const MAX_HIT_BYTES: usize = 16 << 20;

/// What is wanted of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Whether there is a match.
    First,
    /// The number of lines that match.
    Count,
    /// The lines.
    Lines,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins in the content, bytes.
    pub offset: u64,
    /// The line without its end.
    pub text: Vec<u8>,
}

/// What was found in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Lines that match; 1 when only the first was wanted.
    pub matches: u64,
    /// The content has a NUL byte in front of the end of the first match: its lines are not for a screen.
    pub binary: bool,
    /// The lines, if they were wanted.
    pub hits: Vec<Hit>,
    /// Lines that match and were wanted, but were too many to keep.
    pub dropped: u64,
}

/// Searches the content of `entry`.
///
/// # Errors
///
/// As reading does.
pub(super) fn search(archive: &dyn Archive, entry: &Entry, regex: &Regex, want: Want) -> Result<Found> {
    let mut searcher = Searcher { regex, want, found: Found::default(), carry: Vec::new(), line: 1, offset: 0, hit_bytes: 0 };
    if entry.size > 0 {
        archive.with_content(entry, Access::Sequential, &mut |part| {
            match part {
                Part::Data(bytes) => searcher.push(bytes),
                Part::Hole(length) => searcher.hole(length),
            }
            Ok(())
        })?;
    }
    searcher.finish();
    Ok(searcher.found)
}

struct Searcher<'a> {
    regex: &'a Regex,
    want: Want,
    found: Found,
    /// The beginning of a line whose end has not come yet.
    carry: Vec<u8>,
    /// Number of the line that begins at `offset`.
    line: u64,
    /// Where the bytes not searched yet begin.
    offset: u64,
    hit_bytes: usize,
}

impl Searcher<'_> {
    /// Nothing more can change the result.
    fn is_done(&self) -> bool {
        self.found.matches > 0 && (self.want == Want::First || (self.want == Want::Lines && self.found.binary))
    }

    fn push(&mut self, mut bytes: &[u8]) {
        if self.is_done() {
            return;
        }
        if !self.found.binary && bytes.contains(&0) {
            self.found.binary = true;
        }
        if !self.carry.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
            let (rest, tail) = bytes.split_at(end);
            self.carry.extend_from_slice(rest);
            bytes = tail;
            if self.carry.ends_with(b"\n") || self.carry.len() >= MAX_LINE {
                let whole = std::mem::take(&mut self.carry);
                self.search(&whole);
            }
        }
        // Whole lines at once; what is behind the last line end waits, unless it is too long already.
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let end = if bytes.len() - end >= MAX_LINE { bytes.len() } else { end };
        let (whole, tail) = bytes.split_at(end);
        if !whole.is_empty() {
            self.search(whole);
        }
        self.carry.extend_from_slice(tail);
    }

    /// Zero bytes make the content binary, so that no lines are shown and their places don't matter: a few stand for all.
    fn hole(&mut self, length: u64) {
        let shown = usize::try_from(length).unwrap_or(4096).min(4096);
        self.push(&vec![0; shown]);
    }

    fn finish(&mut self) {
        let rest = std::mem::take(&mut self.carry);
        if !rest.is_empty() && !self.is_done() {
            self.search(&rest);
        }
    }

    /// Searches a run of whole lines.
    fn search(&mut self, lines: &[u8]) {
        let mut counted = 0;
        let mut at = 0;
        while at < lines.len() && !self.is_done() {
            let Some(found) = self.regex.find_at(lines, at) else { break };
            let start = lines[..found.start()].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1).max(at);
            let end = lines[start..].iter().position(|&byte| byte == b'\n').map_or(lines.len(), |length| start + length);
            if start == lines.len() {
                break;
            }
            let text = &lines[start..end];
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            // A match over several lines, such as one of `\s+`, does not count unless a line alone has one.
            if self.regex.is_match(text) {
                self.line += count_lines(&lines[counted..start]);
                counted = start;
                self.hit(start, text);
            }
            at = end + 1;
        }
        self.line += count_lines(&lines[counted..]);
        self.offset += lines.len() as u64;
    }

    fn hit(&mut self, start: usize, text: &[u8]) {
        self.found.matches += 1;
        let keep = self.want == Want::Lines && !self.found.binary;
        if keep && self.found.hits.len() < MAX_HITS && self.hit_bytes + text.len() <= MAX_HIT_BYTES {
            self.hit_bytes += text.len();
            self.found.hits.push(Hit { line: self.line, offset: self.offset + start as u64, text: text.to_vec() });
        } else if keep {
            self.found.dropped += 1;
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(parts: &[&[u8]], expression: &str, want: Want) -> Found {
        let regex = regex::bytes::RegexBuilder::new(expression).multi_line(true).build().unwrap();
        let mut searcher =
            Searcher { regex: &regex, want, found: Found::default(), carry: Vec::new(), line: 1, offset: 0, hit_bytes: 0 };
        for part in parts {
            searcher.push(part);
        }
        searcher.finish();
        searcher.found
    }

    fn lines(parts: &[&[u8]], expression: &str) -> Vec<(u64, u64, String)> {
        let hits = run(parts, expression, Want::Lines).hits;
        hits.into_iter().map(|hit| (hit.line, hit.offset, String::from_utf8(hit.text).unwrap())).collect()
    }

    #[test]
    fn lines_are_found_across_parts() {
        let expected = [(2, 4, "two".to_owned()), (3, 8, "three".to_owned())];
        assert_eq!(lines(&[b"one\ntwo\nthree"], "t"), expected);
        assert_eq!(lines(&[b"one\nt", b"w", b"o\r\nthr", b"ee\n"], "^t"), [(2, 4, "two".to_owned()), (3, 9, "three".to_owned())]);
        assert_eq!(lines(&[b"a\n\n\nb"], r"a\s+b"), []);
        assert_eq!(lines(&[b"a\n\nb\n"], "^$"), [(2, 2, String::new())]);
        assert_eq!(lines(&[b"ab\ncb\n"], "b$").len(), 2);
        assert_eq!(lines(&[b""], "x*"), []);
    }

    #[test]
    fn binary_content_only_matches() {
        let found = run(&[b"a\0b\nneedle\n", b"needle\n"], "needle", Want::Lines);
        assert_eq!((found.binary, found.matches, found.hits.len()), (true, 1, 0));
        assert_eq!(run(&[b"x\nx\n"], "x", Want::First).matches, 1);
        assert_eq!(run(&[b"x\nx\ny"], "x", Want::Count).matches, 2);
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_what_is_found(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected: Vec<&str> = text.lines().filter(|line| line.contains("ab")).collect();
            let found = lines(&parts, "ab");
            prop_assert_eq!(found.iter().map(|(_, _, line)| line.as_str()).collect::<Vec<_>>(), expected);
            for (number, offset, line) in found {
                let offset = usize::try_from(offset).unwrap();
                prop_assert_eq!(&text[offset..offset + line.len()], line.as_str());
                prop_assert_eq!(text[..offset].matches('\n').count() as u64 + 1, number);
            }
        }
    }
}
