//! JSON as a tree: every value of an object or array on its own indented line. Objects and arrays
//! can be folded.

mod lines;

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::preview::seek::Seek;
use crate::preview::syntax::{self, Line, Role};
use crate::preview::text;
use crate::preview::window::{Window, line_feeds};
use crate::preview::{Request, Scroll, Scrolled};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::Result;

use lines::Lines;

/// A first line longer than this was not formatted for people.
const MAX_READABLE_LINE: usize = 240;
/// Width of the fold markers, in columns.
const FRONT: u16 = 2;

/// A window of lines. Folded lines are hidden.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    lines: Vec<Line>,
    /// For each line, the index of the line that closes what it opens, or its own index.
    ends: Vec<usize>,
    /// Lines whose object or array is folded.
    folded: BTreeSet<usize>,
    rows: Vec<usize>,
    /// Every line of the content is a separate value.
    by_line: bool,
    at_start: bool,
    /// The window ends at the end of the content, or of the shown part.
    at_end: bool,
    end: u64,
}

/// The lines to fold or unfold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    Toggle,
    /// Folds the row under the cursor. If it cannot be folded, moves the cursor to its parent.
    Close,
    Open,
    CloseAll,
    OpenAll,
}

impl Page {
    fn of(lines: Lines, at_start: bool, at_end: bool, end: u64) -> Self {
        let mut page = Self { ends: lines.ends, lines: lines.done, at_start, at_end, end, ..Self::default() };
        syntax::paint(&mut page.lines, "a.json", syntax::MAX_TIME);
        // One row per record.
        if page.roots().nth(1).is_some() {
            page.folded = page.roots().filter(|root| page.ends[*root] > *root).collect();
        }
        page.update_rows();
        page
    }

    /// Iterates over the top-level lines.
    fn roots(&self) -> impl Iterator<Item = usize> {
        std::iter::successors((!self.lines.is_empty()).then_some(0), |root| Some(self.ends.get(*root)? + 1))
            .take_while(|root| *root < self.lines.len())
    }

    /// Determines the visible lines.
    fn update_rows(&mut self) {
        self.rows.clear();
        let mut next = 0;
        while next < self.lines.len() {
            self.rows.push(next);
            next = if self.folded.contains(&next) { self.ends[next] + 1 } else { next + 1 };
        }
    }

    /// Returns the row of a line, or of the fold that hides it.
    fn row_of(&self, line: usize) -> usize {
        self.rows.partition_point(|row| *row <= line).saturating_sub(1)
    }

    /// Returns the line that opens the innermost object or array around a line.
    fn around(&self, line: usize) -> Option<usize> {
        (0..line).rev().find(|before| self.ends[*before] >= line)
    }

    /// Folds or unfolds. Returns the new row of the cursor; `None` if nothing changes.
    pub fn fold(&mut self, row: usize, fold: Fold) -> Option<usize> {
        let line = *self.rows.get(row)?;
        let begins = self.ends[line] > line;
        let is_folded = self.folded.contains(&line);
        let mut at = line;
        match fold {
            Fold::Toggle | Fold::Open if is_folded => drop(self.folded.remove(&line)),
            Fold::Toggle | Fold::Close if begins && !is_folded => drop(self.folded.insert(line)),
            // On a closing line, or on a value: fold its parent.
            Fold::Toggle => {
                at = self.around(line).filter(|around| self.ends[*around] == line)?;
                self.folded.insert(at);
            }
            Fold::Close => return Some(self.row_of(self.around(line)?)),
            Fold::Open => return None,
            Fold::CloseAll => {
                let alone = self.roots().nth(1).is_none();
                // Folding the only record would leave a single row.
                self.folded = (usize::from(alone)..self.lines.len()).filter(|line| self.ends[*line] > *line).collect();
            }
            Fold::OpenAll => self.folded.clear(),
        }
        self.update_rows();
        Some(self.row_of(at))
    }

    /// Returns a folded line followed by its content, cut to `columns`.
    fn summary(&self, line: usize, columns: usize) -> Line {
        let Line { mut text, mut roles, .. } = self.lines[line].clone();
        let known: usize = roles.iter().map(|(len, _)| len).sum();
        roles.push((text.len() - known, Role::Plain));
        let from = text.len();
        let mut width = glyphs::width(&text);
        for inner in &self.lines[line + 1..=self.ends[line].min(self.lines.len() - 1)] {
            let part = inner.text.trim_start();
            // No spaces inside brackets.
            if !text.ends_with(['{', '[']) && !part.starts_with(['}', ']']) {
                text.push(' ');
            }
            text.push_str(part);
            width += glyphs::width(part) + 1;
            if width > columns {
                break;
            }
        }
        roles.push((text.len() - from, Role::Comment));
        Line { text, roles, ..Line::default() }
    }
}

impl Scrolled for Page {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn height(&self, row: usize, columns: u16) -> usize {
        let Some(&line) = self.rows.get(row) else { return 1 };
        let columns = columns.saturating_sub(FRONT);
        if self.folded.contains(&line) {
            self.summary(line, usize::MAX).height(columns)
        } else {
            self.lines[line].height(columns)
        }
    }

    fn offset(&self, row: usize) -> u64 {
        let line = self.rows.get(row).or(self.rows.last());
        line.map_or(0, |line| self.lines[*line].offset)
    }

    fn start(&self, row: usize) -> u64 {
        let line = self.rows.get(row).or(self.rows.last()).copied().unwrap_or(0);
        self.roots().take_while(|root| *root <= line).last().map_or(0, |root| self.lines[root].offset)
    }

    fn row(&self, offset: u64) -> usize {
        self.row_of(self.lines.partition_point(|line| line.offset <= offset).saturating_sub(1))
    }

    fn at_start(&self) -> bool {
        self.at_start
    }

    fn at_end(&self) -> bool {
        self.at_end
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn numbered(&self, number: u64) -> Option<Seek> {
        self.by_line.then_some(Seek::Line(number))
    }

    fn has_cursor(&self) -> bool {
        true
    }

    fn matches(&self, row: usize, pattern: &regex::bytes::Regex) -> bool {
        let Some(&line) = self.rows.get(row) else { return false };
        // Folded lines belong to their row.
        let last = if self.folded.contains(&line) { self.ends[line] } else { line };
        self.lines[line..].iter().take(last - line + 1).any(|line| pattern.is_match(line.text.as_bytes()))
    }
}

/// Returns whether content is JSON that is hard to read: it starts like JSON and has a long first
/// line.
pub fn is_dense(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.len() > MAX_READABLE_LINE && begins(head)
}

/// Returns whether content starts like a JSON object or array.
pub fn begins(head: &[u8]) -> bool {
    let mut bytes = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    match bytes.next() {
        Some(b'{') => matches!(bytes.next(), Some(b'"' | b'}')),
        Some(b'[') => bytes.next().is_some_and(|byte| b"[{\"]-tfn".contains(byte) || byte.is_ascii_digit()),
        _ => false,
    }
}

/// Returns whether content is JSON Lines: the first line is an object or array, and the second line
/// starts one.
pub fn is_lines(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    matches!(
        (lines.next(), lines.next()),
        (Some([b'{', .., b'}']), Some([b'{', ..])) | (Some([b'[', .., b']']), Some([b'[', ..]))
    )
}

/// Loads an entry as indented lines: a window of JSON Lines, or the start of other JSON.
pub fn load(archive: &dyn Archive, entry: &Entry, request: &Request, is_lines_format: bool) -> Result<Page> {
    let offset = if is_lines_format { request.offset } else { 0 };
    let window = Window::read(archive, entry, offset, 1, request.limits.window)?;
    Ok(if is_lines_format { records(&window) } else { start(&window.bytes, entry.size) })
}

/// Formats the start of content.
fn start(bytes: &[u8], size: u64) -> Page {
    let mut lines = Lines::default();
    let read = lines.indent(bytes, 0);
    if (read as u64) < size {
        lines.text = "… truncated: the text preview shows everything".as_bytes().to_vec();
        lines.end(read as u64);
    }
    Page::of(lines, true, true, size)
}

/// Formats a window of JSON Lines. Lines that may be incomplete at either end are skipped.
fn records(window: &Window) -> Page {
    let Window { offset, ref bytes, size } = *window;
    let whole = window.whole(false, &line_feeds(bytes));
    let mut lines = Lines::default();
    let mut end = offset + whole.start as u64;
    let at_start = end == 0;
    for line in bytes[whole].split_inclusive(|&byte| byte == b'\n') {
        let read = lines.indent(line, end);
        end += read as u64;
        if read < line.len() {
            break;
        }
    }
    Page { by_line: true, ..Page::of(lines, at_start, end >= size, end) }
}

/// Draws rows and returns the area of their text.
pub fn view(page: &Page, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    let text = Rect { x: area.x + FRONT.min(area.width), width: area.width.saturating_sub(FRONT), ..area };
    let mut y = area.top();
    for (row, &index) in page.rows.iter().enumerate().skip(scroll.top) {
        if y >= area.bottom() {
            break;
        }
        let is_folded = page.folded.contains(&index);
        let above = scroll.above(row);
        if page.ends[index] > index && above == 0 {
            buffer.set_stringn(area.x, y, if is_folded { "▸" } else { "▾" }, usize::from(area.width), theme.dim);
        }
        let rest = Rect { y, height: area.bottom() - y, ..text };
        let columns = scroll.left + usize::from(text.width) * if scroll.wrap { above + usize::from(rest.height) } else { 1 };
        let height = if is_folded {
            text::put(&page.summary(index, columns), scroll, above, theme, rest, buffer)
        } else {
            text::put(&page.lines[index], scroll, above, theme, rest, buffer)
        };
        if scroll.focused && row == scroll.cursor {
            buffer.set_style(Rect { y, height, ..area }, theme.cursor);
        }
        y += height;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::sample;

    /// Returns the rows as shown.
    fn rows(page: &Page) -> Vec<String> {
        let text = |row: &usize| if page.folded.contains(row) { page.summary(*row, 60) } else { page.lines[*row].clone() };
        page.rows.iter().map(|row| text(row).text).collect()
    }

    #[test]
    fn objects_and_arrays_are_folded() {
        let json = br#"{"a":[1,2,{"x":[]}],"b":{"c":3}}"#;
        let mut page = start(json, json.len() as u64);
        assert_eq!(page.rows(), 12);
        // From a value to its parent, which is then folded.
        assert_eq!(page.fold(3, Fold::Close), Some(1));
        assert_eq!(page.fold(1, Fold::Close), Some(1));
        assert_eq!(rows(&page)[..3], ["{", "  \"a\": [1, 2, {\"x\": []}],", "  \"b\": {"]);
        // The closing line folds the object.
        assert_eq!(page.fold(4, Fold::Toggle), Some(2));
        assert_eq!(rows(&page), ["{", "  \"a\": [1, 2, {\"x\": []}],", "  \"b\": {\"c\": 3}", "}"]);
        assert!(page.matches(1, &regex::bytes::Regex::new("x").unwrap()));
        assert_eq!(page.fold(2, Fold::Open), Some(2));
        assert_eq!(page.fold(2, Fold::Open), None);
        assert_eq!(page.rows(), 6);
        assert_eq!(page.fold(0, Fold::OpenAll), Some(0));
        assert_eq!(page.rows(), 12);
        assert_eq!(page.fold(5, Fold::CloseAll), Some(1));
        assert_eq!(page.rows(), 4);
        assert_eq!(page.fold(0, Fold::Close), Some(0));
        assert_eq!(rows(&page), ["{\"a\": [1, 2, {\"x\": []}], \"b\": {\"c\": 3}}"]);
    }

    #[test]
    fn windows_start_and_end_at_records() {
        let content: Vec<u8> = (0..100).flat_map(|number| format!("{{\"id\":{number:02},\"x\":[1]}}\n").into_bytes()).collect();
        let len = content.len() as u64 / 100;
        assert!(is_lines(&content) && !is_lines(b"{\n  \"a\": 1\n}\n"));
        let page = records(&Window { offset: 30, bytes: content[30..80].to_vec(), size: content.len() as u64 });
        assert_eq!(rows(&page), ["{\"id\": 02, \"x\": [1]}", "{\"id\": 03, \"x\": [1]}"]);
        assert_eq!((page.offset(0), page.end, page.at_start(), page.at_end()), (2 * len, 4 * len, false, false));
        let mut page = page;
        page.fold(1, Fold::Open);
        assert_eq!((page.rows(), page.start(4), page.row(3 * len + 5)), (7, 3 * len, 2));
        // An invalid record does not affect the next one.
        let page = records(&Window { offset: 0, bytes: b"{\"a\":[1,\n{\"b\":2}\n".to_vec(), size: 18 });
        assert_eq!(rows(&page), ["{\"a\": [1,", "{\"b\": 2}"]);
    }

    #[test]
    fn deep_nesting_is_bounded() {
        let content = vec![b'['; 300 << 10];
        let archive = sample::with_contents(&[("deep.json", &content)]);
        let page = load(&*archive, &archive.entry(0).unwrap(), &Request::default(), false).unwrap();
        let bytes: usize = page.lines.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= lines::MAX_TEXT + (8 << 10), "{bytes}");
        assert!(page.lines.last().unwrap().text.contains("truncated"));
    }

    #[test]
    fn dense_json_is_detected() {
        let dense = format!("{{\"a\":[{}]}}", "1,".repeat(200));
        assert!(is_dense(dense.as_bytes()));
        assert!(!is_dense(b"{\n  \"a\": 1\n}\n"));
        assert!(!is_dense(format!("[section {}]", "x".repeat(300)).as_bytes()));
    }

    proptest! {
        #[test]
        fn folded_json_can_be_drawn(
            text in "[\\[\\]{}\",:a1 \n]{0,80}",
            steps in proptest::collection::vec((0usize..30, 0usize..5), 0..12),
        ) {
            let window = Window { offset: 0, bytes: text.as_bytes().to_vec(), size: text.len() as u64 };
            for mut page in [start(text.as_bytes(), text.len() as u64), records(&window)] {
                for (row, fold) in &steps {
                    let fold = [Fold::Toggle, Fold::Close, Fold::Open, Fold::CloseAll, Fold::OpenAll][*fold];
                    if let Some(cursor) = page.fold(*row, fold) {
                        prop_assert!(cursor < page.rows());
                    }
                    for row in 0..page.rows() {
                        prop_assert_eq!(page.row(page.offset(row)) <= row, true);
                    }
                    rows(&page);
                }
            }
        }
    }
}
