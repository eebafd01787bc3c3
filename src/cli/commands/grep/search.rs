//! Searches the content of a file line by line while decoding it. Keeps at most one line in memory.

use regex::bytes::Regex;

use nra_format::Error;
use nra_format::archive::{Access, Archive, Part};
use nra_format::entry::Entry;
use nra_format::error::Result;

/// Longest line kept in memory, bytes. Longer lines are searched in parts of this length.
const MAX_LINE: usize = 1 << 20;
/// Memory limit for the buffered lines of one file, bytes.
const MAX_BUFFERED: usize = 128 << 10;

/// Which results of the search are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchMode {
    /// Whether there is a match.
    FirstMatch,
    /// The number of matching lines.
    Count,
    /// The lines.
    Lines,
}

/// A matching line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit<'a> {
    /// Its number, from 1.
    pub line: u64,
    /// Its offset in the content, bytes.
    pub offset: u64,
    /// The line without its newline; for a very long line, its first matching part.
    pub text: &'a [u8],
}

/// The result of searching a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of matching lines; 1 if only the first was requested.
    pub matches: u64,
    /// The content contains a NUL byte before the end of the last line searched.
    pub binary: bool,
}

/// Matching lines, buffered until they are printed.
#[derive(Debug, Default)]
pub(super) struct Hits {
    text: Vec<u8>,
    /// Number, offset in the content, end in `text`.
    lines: Vec<(u64, u64, usize)>,
    /// The buffer overflowed: the file has to be searched again.
    pub overflow: bool,
}

impl Hits {
    /// Buffers a line, unless there are too many.
    pub(super) fn push(&mut self, hit: Hit<'_>) -> Result<()> {
        let memory = self.text.len() + hit.text.len() + (self.lines.len() + 1) * size_of::<(u64, u64, usize)>();
        if memory > MAX_BUFFERED {
            self.overflow = true;
            return Err(Error::Cancelled);
        }
        self.text.extend_from_slice(hit.text);
        self.lines.push((hit.line, hit.offset, self.text.len()));
        Ok(())
    }

    /// Iterates over the lines.
    pub(super) fn iter(&self) -> impl Iterator<Item = Hit<'_>> {
        let starts = std::iter::once(0).chain(self.lines.iter().map(|(.., end)| *end));
        starts.zip(&self.lines).map(|(start, &(line, offset, end))| Hit { line, offset, text: &self.text[start..end] })
    }
}

/// Receives matching lines. An error ends the search.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Hit<'_>) -> Result<()>;

/// Searches the content of `entry`. Passes requested lines to `sink` until it finds a NUL byte.
pub(super) fn search(archive: &dyn Archive, entry: &Entry, regex: &Regex, mode: SearchMode, sink: Sink<'_>) -> Result<Found> {
    let mut searcher = Searcher::new(regex, mode, sink);
    if entry.size > 0 {
        let read = archive.with_content(entry, Access::Sequential, &mut |part| match part {
            Part::Data(bytes) => searcher.push(bytes),
            Part::Hole(length) => searcher.hole(length),
        });
        match read {
            // The rest is not needed.
            Err(Error::Cancelled) if searcher.is_done() => return Ok(searcher.found),
            read => read?,
        }
    }
    searcher.finish()
}

struct Searcher<'a> {
    regex: &'a Regex,
    mode: SearchMode,
    sink: Sink<'a>,
    found: Found,
    /// The start of an incomplete line; at most [`MAX_LINE`] bytes.
    carry: Vec<u8>,
    /// Number of the line that starts at `offset`.
    line: u64,
    /// Number of the last matching line.
    last: u64,
    /// Offset of the first byte not yet searched.
    offset: u64,
}

impl<'a> Searcher<'a> {
    fn new(regex: &'a Regex, mode: SearchMode, sink: Sink<'a>) -> Self {
        Self { regex, mode, sink, found: Found::default(), carry: Vec::new(), line: 1, last: 0, offset: 0 }
    }

    /// Returns whether the result is final.
    fn is_done(&self) -> bool {
        self.found.matches > 0 && (self.mode == SearchMode::FirstMatch || (self.mode == SearchMode::Lines && self.found.binary))
    }

    /// Searches the lines that end in `bytes`. Fails with [`Error::Cancelled`] when it is done.
    fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.found.binary |= bytes.contains(&0);
        while !bytes.is_empty() {
            if self.is_done() {
                return Err(Error::Cancelled);
            }
            let taken = if self.carry.is_empty() {
                // Search complete lines together. Keep an incomplete one unless it is too long.
                match bytes.iter().rposition(|&byte| byte == b'\n') {
                    Some(end) => {
                        self.search(&bytes[..=end])?;
                        end + 1
                    }
                    None if bytes.len() >= MAX_LINE => {
                        self.search(&bytes[..MAX_LINE])?;
                        MAX_LINE
                    }
                    None => {
                        self.carry.extend_from_slice(bytes);
                        bytes.len()
                    }
                }
            } else {
                let room = bytes.len().min(MAX_LINE - self.carry.len());
                let end = bytes[..room].iter().position(|&byte| byte == b'\n').map_or(room, |end| end + 1);
                self.carry.extend_from_slice(&bytes[..end]);
                if self.carry.ends_with(b"\n") || self.carry.len() == MAX_LINE {
                    let mut whole = std::mem::take(&mut self.carry);
                    self.search(&whole)?;
                    whole.clear();
                    self.carry = whole;
                }
                end
            };
            bytes = &bytes[taken..];
        }
        if self.is_done() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Searches a hole as at most 4096 zero bytes, which is enough to mark the content as binary.
    fn hole(&mut self, length: u64) -> Result<()> {
        let shown = usize::try_from(length).unwrap_or(4096).min(4096);
        self.push(&vec![0; shown])
    }

    fn finish(mut self) -> Result<Found> {
        let rest = std::mem::take(&mut self.carry);
        if !rest.is_empty() && !self.is_done() {
            self.search(&rest)?;
        }
        Ok(self.found)
    }

    /// Searches complete lines, or a part of a line that is too long.
    fn search(&mut self, lines: &[u8]) -> Result<()> {
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
            // A match across lines, such as of `\s+`, counts only if a single line matches.
            if self.regex.is_match(text) {
                self.line += count_lines(&lines[counted..start]);
                counted = start;
                self.hit(start, text)?;
            }
            at = end + 1;
        }
        self.line += count_lines(&lines[counted..]);
        self.offset += lines.len() as u64;
        Ok(())
    }

    fn hit(&mut self, start: usize, text: &[u8]) -> Result<()> {
        // Parts of a line count once.
        if self.line == self.last {
            return Ok(());
        }
        self.last = self.line;
        self.found.matches += 1;
        if self.mode == SearchMode::Lines && !self.found.binary {
            (self.sink)(Hit { line: self.line, offset: self.offset + start as u64, text })?;
        }
        Ok(())
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(parts: &[&[u8]], expression: &str, mode: SearchMode) -> (Found, Hits) {
        let regex = regex::bytes::RegexBuilder::new(expression).multi_line(true).build().unwrap();
        let mut hits = Hits::default();
        let mut sink = |hit: Hit<'_>| hits.push(hit);
        let mut searcher = Searcher::new(&regex, mode, &mut sink);
        for part in parts {
            if searcher.push(part).is_err() {
                assert!(searcher.is_done());
                return (searcher.found, hits);
            }
        }
        let found = searcher.finish().unwrap();
        (found, hits)
    }

    fn lines(parts: &[&[u8]], expression: &str) -> Vec<(u64, u64, String)> {
        let (_, hits) = run(parts, expression, SearchMode::Lines);
        hits.iter().map(|hit| (hit.line, hit.offset, String::from_utf8(hit.text.to_vec()).unwrap())).collect()
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
    fn binary_content_has_no_lines() {
        let (found, hits) = run(&[b"a\0b\nneedle\n", b"needle\n"], "needle", SearchMode::Lines);
        assert_eq!((found.binary, found.matches, hits.iter().count()), (true, 1, 0));
        // Earlier lines are already printed.
        let (found, hits) = run(&[b"needle\n", b"a\0b\n", b"needle\n"], "needle", SearchMode::Lines);
        assert_eq!((found.binary, found.matches, hits.iter().count()), (true, 1, 1));
        assert_eq!(run(&[b"x\nx\n"], "x", SearchMode::FirstMatch).0.matches, 1);
        assert_eq!(run(&[b"x\nx\ny"], "x", SearchMode::Count).0.matches, 2);
    }

    #[test]
    fn long_line_in_parts_counts_once() {
        let long = [&b"ab".repeat(MAX_LINE)[..], b"abc\nend ab\n"].concat();
        for step in [1000, MAX_LINE / 2 + 1, MAX_LINE * 3] {
            let parts: Vec<&[u8]> = long.chunks(step).collect();
            assert_eq!(run(&parts, "ab", SearchMode::Count).0.matches, 2, "{step}");
            assert_eq!(run(&parts, "bc$", SearchMode::Count).0.matches, 1, "{step}");
            assert_eq!(lines(&parts, "^end"), [(2, 2 * MAX_LINE as u64 + 4, "end ab".to_owned())], "{step}");
        }
    }

    #[test]
    fn full_buffer_ends_the_search() {
        let regex = Regex::new("x").unwrap();
        let mut hits = Hits::default();
        let mut sink = |hit: Hit<'_>| hits.push(hit);
        let mut searcher = Searcher::new(&regex, SearchMode::Lines, &mut sink);
        assert!(matches!(searcher.push(&b"x\n".repeat(MAX_BUFFERED)), Err(Error::Cancelled)));
        assert!(hits.overflow && hits.iter().count() * 25 <= MAX_BUFFERED);
    }

    proptest! {
        #[test]
        fn block_boundaries_do_not_change_matches(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6)) {
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
