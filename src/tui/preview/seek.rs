//! Finds positions in content: of a text, a line or a row.

use std::cell::Cell;
use std::ops::Range;

use regex::bytes::Regex;

use crate::preview::cells::{ByteRole, Cells};
use crate::preview::encoding::{self, Encoding};
use crate::preview::{HEAD, is_damage};
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};

/// Bytes searched in one step; a multiple of any code unit.
const STEP: u64 = 256 << 10;
/// Bytes skipped at damage, small enough to find matches next to it.
const GAP: u64 = 32 << 10;
/// Maximum number of matches that are counted.
const MAX_MATCHES: usize = 100_000;
/// Maximum number of bytes read to number the lines at the end.
const MAX_NUMBERED_TAIL: u64 = 16 << 20;

/// The target of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seek {
    Text {
        /// The text. Without capitals, it matches both cases.
        needle: String,
        /// Offset in bytes: the first to search when searching forwards, the first to exclude when
        /// searching backwards.
        from: u64,
        back: bool,
        /// Number of the line that contains `from`, if known.
        line: Option<u64>,
    },
    /// The end. Offset and number of a known line.
    End(u64, u64),
    /// The line with this number, counted from 1.
    Line(u64),
    /// The row with this number, counted from 1, and the separator of its values.
    Row(u64, u8),
    Offset(u64),
}

/// The text of a search with its compiled pattern. It is compiled once, because compiling takes
/// longer than drawing a screen.
#[derive(Debug, Clone, Default)]
pub struct Needle {
    text: String,
    pattern: Option<Regex>,
}

impl Needle {
    pub fn new(text: String) -> Self {
        let pattern = encoding::pattern(&text).filter(|_| !text.is_empty());
        Self { text, pattern }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the pattern, unless the text is empty.
    pub fn pattern(&self) -> Option<&Regex> {
        self.pattern.as_ref()
    }
}

/// A position found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub offset: u64,
    /// Number of its line, if known.
    pub line: Option<u64>,
    /// The search wrapped around the end of the content.
    pub around: bool,
}

/// Finds a position in the content of an entry. Returns `None` if there is none. Stops when
/// `awaited` returns false. Damage is an error only if the text is not found in readable content.
pub fn place(archive: &dyn Archive, entry: &Entry, seek: &Seek, awaited: &dyn Fn() -> bool) -> Result<Option<Place>> {
    if let Seek::Offset(offset) = seek {
        return Ok(Some(Place { offset: (*offset).min(entry.size.saturating_sub(1)), line: None, around: false }));
    }
    let content = Content::new(archive, entry, awaited)?;
    match seek {
        Seek::Offset(_) => Ok(None),
        Seek::Line(number) => content.line(*number).map(Some),
        Seek::Row(number, separator) => content.row(*number, *separator).map(Some),
        Seek::End(offset, line) => {
            let line = content.number(*offset, *line, entry.size)?;
            Ok(Some(Place { offset: entry.size, line, around: false }))
        }
        Seek::Text { needle, from, back, line } => {
            let Some(pattern) = content.encoding.pattern(needle) else { return Ok(None) };
            // A match may cross the end of a step and be longer than the typed text.
            let overlap = 4 * needle.len() as u64;
            let found = content.text(&pattern, *from, *back, *line, overlap)?;
            // The text may be in the damaged part.
            match content.damage.take().filter(|_| found.is_none()) {
                Some(damage) => Err(damage),
                None => Ok(found),
            }
        }
    }
}

/// Collects the offsets of all matches in ascending order; with `by_line`, only the first match of
/// each line. `tell` receives the matches so far after each step. Returns the matches and whether
/// they are complete.
pub fn occurrences(
    archive: &dyn Archive,
    entry: &Entry,
    needle: &str,
    by_line: bool,
    awaited: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&[u64]),
) -> Result<(Vec<u64>, bool)> {
    let content = Content::new(archive, entry, awaited)?;
    let encoding = content.encoding;
    let mut places = Vec::new();
    let Some(pattern) = encoding.pattern(needle) else { return Ok((places, true)) };
    let overlap = 4 * needle.len() as u64;
    // Matches before the offset `counted` have been counted. It is `None` while the counted line
    // continues.
    let (mut at, mut counted) = (0, Some(0));
    while at < entry.size {
        let (len, bytes) = content.step(|len| at..at + len + overlap)?;
        let next_line = |start: usize| encoding.lines(&bytes[start..]).next().map(|next| at + (start + next) as u64);
        counted = counted.or_else(|| next_line(0));
        for start in content.matches(&pattern, &bytes).take_while(|start| (*start as u64) < len) {
            let place = at + start as u64;
            if counted.is_none_or(|counted| place < counted) {
                continue;
            }
            if places.len() == MAX_MATCHES {
                return Ok((places, false));
            }
            places.push(place);
            counted = if by_line { next_line(start / encoding.unit() * encoding.unit()) } else { Some(place + 1) };
        }
        tell(&places);
        at += len;
    }
    Ok((places, content.damage.take().is_none()))
}

/// Returns whether numbering the lines from an offset to the end is cheap.
pub fn is_near_end(offset: u64, size: u64) -> bool {
    size.saturating_sub(offset) <= MAX_NUMBERED_TAIL
}

/// The content of an entry with its encoding.
struct Content<'a> {
    archive: &'a dyn Archive,
    entry: &'a Entry,
    encoding: Encoding,
    awaited: &'a dyn Fn() -> bool,
    /// The error of the part that was skipped.
    damage: Cell<Option<Error>>,
}

impl<'a> Content<'a> {
    fn new(archive: &'a dyn Archive, entry: &'a Entry, awaited: &'a dyn Fn() -> bool) -> Result<Self> {
        let mut content = Self { archive, entry, encoding: Encoding::default(), awaited, damage: Cell::default() };
        let (_, head) = content.step(|len| 0..len.min(HEAD as u64))?;
        content.encoding = Encoding::detect(&head).unwrap_or_default();
        Ok(content)
    }

    /// Reads the next step: the range that belongs to a length. At damage, the step is shorter and
    /// may be empty.
    fn step(&self, range: impl Fn(u64) -> Range<u64>) -> Result<(u64, Vec<u8>)> {
        for len in [STEP, GAP] {
            let Range { start, end } = range(len);
            match self.read(start, end) {
                Err(error) if is_damage(&error) => self.damage.set(Some(error)),
                read => return Ok((len, read?)),
            }
        }
        Ok((GAP, Vec::new()))
    }

    fn read(&self, from: u64, end: u64) -> Result<Vec<u8>> {
        if !(self.awaited)() {
            return Err(Error::Cancelled);
        }
        let len = end.min(self.entry.size).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(len).expect("little more than a step")];
        let read = self.archive.read_at(self.entry, from, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Counts the line starts within the first `len` bytes, not counting the start of the part.
    fn count(&self, bytes: &[u8], len: usize) -> u64 {
        self.encoding.lines(&bytes[..len.min(bytes.len())]).count() as u64
    }

    /// Iterates over the offsets of matches in a part.
    fn matches<'b>(&self, pattern: &'b Regex, bytes: &'b [u8]) -> impl Iterator<Item = usize> {
        let unit = self.encoding.unit();
        pattern.find_iter(bytes).map(|found| found.start()).filter(move |start| start % unit == 0)
    }

    /// Returns the line number of an offset, counted from a known line. Returns `None` if content
    /// in between is damaged.
    fn number(&self, from: u64, line: u64, to: u64) -> Result<Option<u64>> {
        let (mut at, mut number) = (from, line);
        while at < to {
            let bytes = match self.read(at, to.min(at + STEP)) {
                Err(error) if is_damage(&error) => return Ok(None),
                read => read?,
            };
            number += self.count(&bytes, bytes.len());
            at += STEP;
        }
        Ok(Some(number))
    }

    /// Finds a text from a position on, then wraps around up to that position.
    fn text(&self, pattern: &Regex, from: u64, back: bool, line: Option<u64>, overlap: u64) -> Result<Option<Place>> {
        let size = self.entry.size;
        let from = from.min(size).next_multiple_of(self.encoding.unit() as u64);
        let (first, then) = if back { (0..from, from..size) } else { (from..size, 0..from) };
        let find = |range, line| match back {
            true => self.last(pattern, range, line, overlap),
            false => self.first(pattern, range, line, overlap),
        };
        if let Some(found) = find(first, line)? {
            return Ok(Some(found));
        }
        let line = match line.filter(|_| back && is_near_end(from, size)) {
            Some(line) => self.number(from, line, size)?,
            None => Some(1).filter(|_| !back),
        };
        Ok(find(then, line)?.map(|place| Place { around: true, ..place }))
    }

    /// Finds the first match that starts in a range. `line` is the line number at the start of the
    /// range.
    fn first(&self, pattern: &Regex, range: Range<u64>, mut line: Option<u64>, overlap: u64) -> Result<Option<Place>> {
        let mut at = range.start;
        while at < range.end {
            let (len, bytes) = self.step(|len| at..at + len + overlap)?;
            let found = self.matches(pattern, &bytes).next().filter(|found| at + (*found as u64) < range.end);
            let passed = found.unwrap_or(usize::try_from(len).expect("a step fits"));
            // The number of lines in damaged content is unknown.
            line = line.filter(|_| !bytes.is_empty()).map(|line| line + self.count(&bytes, passed));
            if let Some(found) = found {
                return Ok(Some(Place { offset: at + found as u64, line, around: false }));
            }
            at += len;
        }
        Ok(None)
    }

    /// Finds the last match that starts in a range. `line` is the line number at the end of the
    /// range.
    fn last(&self, pattern: &Regex, range: Range<u64>, mut line: Option<u64>, overlap: u64) -> Result<Option<Place>> {
        let mut end = range.end.next_multiple_of(self.encoding.unit() as u64);
        while end > range.start {
            let from = |len| end.saturating_sub(len).max(range.start);
            let (len, bytes) = self.step(|len| from(len)..end + overlap)?;
            let at = from(len);
            let len = usize::try_from(end - at).expect("at most a step").min(bytes.len());
            let found = self.matches(pattern, &bytes).take_while(|found| *found < len).last();
            let passed = &bytes[found.unwrap_or(0)..len];
            line = line.filter(|_| !bytes.is_empty()).and_then(|line| line.checked_sub(self.count(passed, passed.len())));
            if let Some(found) = found {
                return Ok(Some(Place { offset: at + found as u64, line, around: false }));
            }
            end = at;
        }
        Ok(None)
    }

    /// Finds the start of a line; of the last line if there are fewer.
    fn line(&self, number: u64) -> Result<Place> {
        let (offset, line) = self.nth(number, |bytes| self.encoding.lines(bytes).collect())?;
        Ok(Place { offset, line: Some(line), around: false })
    }

    /// Finds the start of a row of separated values; of the last row if there are fewer. Reads from
    /// the start, because only then is it known which line breaks are quoted.
    fn row(&self, number: u64, separator: u8) -> Result<Place> {
        let mut cells = Cells::new(separator);
        let (offset, _) = self.nth(number, |bytes| {
            (1..).zip(bytes).filter_map(|(end, byte)| (cells.classify(*byte) == ByteRole::RowEnd).then_some(end)).collect()
        })?;
        Ok(Place { offset, line: None, around: false })
    }

    /// Finds the start of a line or row, or of the last one if there are fewer. `ends` returns the
    /// offsets after the line or row breaks of a part. Returns its offset and number.
    fn nth(&self, number: u64, mut ends: impl FnMut(&[u8]) -> Vec<usize>) -> Result<(u64, u64)> {
        let (mut at, mut begins, mut current) = (0, 0, 1);
        while at < self.entry.size && current < number {
            let bytes = self.read(at, at + STEP)?;
            let starts = ends(&bytes).into_iter().map(|end| at + end as u64).filter(|start| *start < self.entry.size);
            for start in starts.take(usize::try_from(number - current).unwrap_or(usize::MAX)) {
                (begins, current) = (start, current + 1);
            }
            at += STEP;
        }
        Ok((begins, current))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn content() -> Vec<u8> {
        (1..=60_000).flat_map(|number| format!("This is line {number}\n").into_bytes()).collect()
    }

    fn find(seek: Seek) -> Option<u64> {
        let archive = sample::with_contents(&[("text", &content())]);
        place(&*archive, &archive.entry(0).unwrap(), &seek, &|| true).unwrap().map(|place| place.offset)
    }

    fn text(needle: &str, from: u64, back: bool) -> Seek {
        Seek::Text { needle: needle.to_owned(), from, back, line: None }
    }

    #[test]
    fn text_is_found_in_both_directions() {
        let content = content();
        let offset = |needle: &str| content.windows(needle.len()).position(|part| part == needle.as_bytes()).map(|at| at as u64);
        let there = offset("line 50000");
        assert_eq!(find(text("line 50000", 0, false)), there);
        assert_eq!(find(text("LINE 50000", 0, false)), None);
        assert_eq!(find(text("this is line 50000", 0, false)), offset("This is line 50000"));
        // Wraps around if necessary.
        assert_eq!(find(text("line 50000", there.unwrap() + 1, false)), there);
        assert_eq!(find(text("line 777\n", u64::MAX, true)), offset("line 777\n"));
        assert_eq!(find(text("line 50000", there.unwrap(), true)), there);
        assert_eq!(find(text("line 777\n", offset("line 777\n").unwrap(), true)), offset("line 777\n"));
    }

    #[test]
    fn match_across_steps_is_found() {
        for at in (STEP - 6)..(STEP + 2) {
            let mut content = vec![b'.'; 600 << 10];
            content[usize::try_from(at).unwrap()..][..4].copy_from_slice(b"here");
            let archive = sample::with_contents(&[("text", &content)]);
            let entry = archive.entry(0).unwrap();
            for (from, back) in [(0, false), (u64::MAX, true)] {
                let found = place(&*archive, &entry, &text("here", from, back), &|| true).unwrap();
                assert_eq!(found.map(|place| place.offset), Some(at));
            }
        }
    }

    #[test]
    fn lines_are_counted() {
        let content = content();
        for number in [1, 2, 40_000, 60_000] {
            let at = usize::try_from(find(Seek::Line(number)).unwrap()).unwrap();
            assert!(content[at..].starts_with(format!("This is line {number}\n").as_bytes()));
        }
        assert_eq!(find(Seek::Line(u64::MAX)), find(Seek::Line(60_000)));
        assert_eq!(find(Seek::Line(0)), Some(0));
    }

    #[test]
    fn quoted_rows_are_counted() {
        let row = |number: u64| format!("{number};\"two\nlines \"\"{number}\"\"\";5\"\n");
        let content: Vec<u8> = (1..=30_000).flat_map(|number| row(number).into_bytes()).collect();
        let archive = sample::with_contents(&[("a.csv", &content)]);
        let entry = archive.entry(0).unwrap();
        let find = |number| place(&*archive, &entry, &Seek::Row(number, b';'), &|| true).unwrap().unwrap().offset;
        for number in [1, 2, 20_000, 30_000] {
            let at = usize::try_from(find(number)).unwrap();
            assert!(content[at..].starts_with(row(number).as_bytes()));
        }
        assert_eq!((find(u64::MAX), find(0)), (find(30_000), 0));
    }

    #[test]
    fn matches_have_line_numbers() {
        let content = content();
        let archive = sample::with_contents(&[("text", &content)]);
        let entry = archive.entry(0).unwrap();
        let line = |seek: Seek| place(&*archive, &entry, &seek, &|| true).unwrap().unwrap().line;
        let with = |needle: &str, from, back, line| Seek::Text { needle: needle.to_owned(), from, back, line };
        let start = |number: u64| find(Seek::Line(number)).unwrap();
        assert_eq!(line(with("line 50000", 0, false, Some(1))), Some(50_000));
        assert_eq!(line(with("line 50000", start(7), false, Some(7))), Some(50_000));
        assert_eq!(line(with("line 777\n", start(60_000), true, Some(60_000))), Some(777));
        assert_eq!(line(with("line 777\n", start(60_000), true, None)), None);
        assert_eq!(line(with("line 777\n", start(60_000), false, Some(60_000))), Some(777));
        assert_eq!(line(with("line 50000", start(7), true, Some(7))), Some(50_000));
        // The line after the last line break.
        assert_eq!(line(Seek::End(start(40_000), 40_000)), Some(60_001));
        assert_eq!(line(Seek::Line(u64::MAX)), Some(60_000));
    }

    #[test]
    fn other_encodings_are_searched() {
        let text: String = (1..=20_000).map(|number| format!("Grüße {number}\r\n")).collect();
        let utf16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let archive = sample::with_contents(&[("text", &utf16)]);
        let entry = archive.entry(0).unwrap();
        let find = |seek: Seek| place(&*archive, &entry, &seek, &|| true).unwrap();
        let text = |needle: &str, from, back| Seek::Text { needle: needle.to_owned(), from, back, line: Some(1) };
        let found = find(text("grüße 15000", 0, false)).unwrap();
        assert_eq!((found.line, found.offset), (Some(15_000), find(Seek::Line(15_000)).unwrap().offset));
        assert_eq!(find(text("gruesse", 0, false)), None);
    }

    #[test]
    fn matches_are_counted() {
        let long = [vec![b'x'; 600 << 10], b"\nxa x\n".to_vec()].concat();
        let archive = sample::with_contents(&[("long", &long), ("text", &content())]);
        let count = |number: u64, needle: &str, by_line| {
            let mut reports = 0;
            let entry = archive.entry(number).unwrap();
            let (places, all) = occurrences(&*archive, &entry, needle, by_line, &|| true, &mut |_| reports += 1).unwrap();
            assert!(all && reports > 0);
            places
        };
        assert_eq!(count(0, "x", true), [0, (600 << 10) + 1]);
        assert_eq!(count(0, "x\nx", false), [(600 << 10) - 1]);
        assert_eq!(count(0, "XA", true), [0u64; 0]);
        assert_eq!(count(1, "line", true).len(), 60_000);
        assert_eq!(count(1, "line 777", true).len(), 1 + 10);
        assert_eq!(count(0, "xa x", true).len(), 1);
    }

    #[test]
    fn search_is_cancelled() {
        let archive = sample::with_contents(&[("text", b"abc")]);
        let found = place(&*archive, &archive.entry(0).unwrap(), &text("x", 0, false), &|| false);
        assert!(matches!(found, Err(Error::Cancelled)));
    }
}
