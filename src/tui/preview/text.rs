//! Text with line numbers.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::glyphs;
use crate::preview::encoding::Encoding;
use crate::preview::seek::Seek;
use crate::preview::syntax::Line;
use crate::preview::window::Window;
use crate::preview::{Request, Scroll, Scrolled};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::Result;

/// Maximum length of a line that is shown, in bytes.
const MAX_LINE: usize = 4 << 10;

/// A window of lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub lines: Vec<Line>,
    /// Number of the first line, counted from 1, if known.
    pub first_number: Option<u64>,
    pub at_start: bool,
    pub at_end: bool,
    pub end: u64,
    pub encoding: Encoding,
}

impl Line {
    /// Returns the number of rows that the line needs when wrapped.
    pub fn height(&self, columns: u16) -> usize {
        parts(&self.text, columns.into()).count()
    }
}

impl Scrolled for Page {
    fn rows(&self) -> usize {
        self.lines.len()
    }

    fn height(&self, row: usize, columns: u16) -> usize {
        self.lines.get(row).map_or(1, |line| line.height(columns - self.gutter(columns)))
    }

    fn offset(&self, row: usize) -> u64 {
        self.lines.get(row).or(self.lines.last()).map_or(0, |line| line.offset)
    }

    fn row(&self, offset: u64) -> usize {
        self.lines.partition_point(|line| line.offset <= offset).saturating_sub(1)
    }

    fn numbered(&self, number: u64) -> Option<Seek> {
        Some(Seek::Line(number))
    }

    fn unit(&self) -> u64 {
        self.encoding.unit() as u64
    }

    fn at_start(&self) -> bool {
        self.at_start
    }

    fn at_end(&self) -> bool {
        self.at_end
    }

    fn matches(&self, row: usize, pattern: &regex::bytes::Regex) -> bool {
        self.lines.get(row).is_some_and(|line| pattern.is_match(line.text.as_bytes()))
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn anchor(&self, row: usize) -> Option<(u64, u64)> {
        Some((self.lines.get(row)?.offset, self.first_number? + row as u64))
    }
}

/// Loads a window of lines.
pub fn load(archive: &dyn Archive, entry: &Entry, request: &Request, encoding: Encoding) -> Result<Page> {
    let window = Window::read(archive, entry, request.offset, encoding.unit() as u64, request.limits.window)?;
    Ok(page(&window, request.anchor, encoding))
}

/// Splits a window of bytes into lines. Lines that may be incomplete at either end are skipped.
fn page(window: &Window, anchor: Option<(u64, u64)>, encoding: Encoding) -> Page {
    let Window { offset, ref bytes, size } = *window;
    let end = offset + bytes.len() as u64;
    let breaks: Vec<usize> = encoding.lines(bytes).collect();
    let Range { start: first, end: last } = window.whole(anchor.is_some_and(|(place, _)| place == offset), &breaks);
    let begin = offset + first as u64;
    let mut lines = Vec::new();
    let mut from = first;
    for to in breaks.iter().copied().chain([last]).filter(|to| (first + 1..=last).contains(to)) {
        if to > from {
            lines.push(printable_line_in(encoding, &bytes[from..to], offset + from as u64));
            from = to;
        }
    }
    let at = offset + last as u64;
    let first_number = match anchor {
        _ if begin == 0 => Some(1),
        Some((place, number)) if (begin..=end).contains(&place) => {
            let place = usize::try_from(place - offset).expect("within the window");
            number.checked_sub(breaks.iter().filter(|&&start| first < start && start <= place).count() as u64)
        }
        _ => None,
    };
    Page { lines, first_number, at_start: begin == 0, at_end: at >= size, end: at, encoding }
}

/// Makes a line of UTF-8 printable.
pub fn printable_line(bytes: &[u8], offset: u64) -> Line {
    printable_line_in(Encoding::Utf8, bytes, offset)
}

/// Makes a line in any encoding printable.
fn printable_line_in(encoding: Encoding, bytes: &[u8], offset: u64) -> Line {
    // A long line is cut before it is decoded.
    let line = encoding.decode(&bytes[..bytes.len().min((MAX_LINE + 2) * encoding.unit())]);
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let cut = line.len() > MAX_LINE;
    let mut text = String::with_capacity(line.len().min(MAX_LINE));
    for (number, part) in line[..line.len().min(MAX_LINE)].split(|&byte| byte == b'\t').enumerate() {
        if number > 0 {
            let columns = glyphs::TAB - glyphs::width(&text) % glyphs::TAB;
            text.extend(std::iter::repeat_n(' ', columns));
        }
        text.push_str(&glyphs::printable(part));
    }
    Line { offset, text, cut, roles: Vec::new() }
}

impl Page {
    /// Returns the width of the longest line number.
    fn digits(&self) -> usize {
        let last_number = self.first_number.map(|first| first + self.lines.len() as u64);
        last_number.map_or(1, |number| number.to_string().len()).max(3)
    }

    /// Returns the width of the line numbers out of `width` columns.
    pub fn gutter(&self, width: u16) -> u16 {
        if width >= 30 { u16::try_from(self.digits() + 1).expect("at most 21") } else { 0 }
    }
}

/// Draws lines and returns the area of their text.
pub fn view(page: &Page, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    let (digits, gutter) = (page.digits(), page.gutter(area.width));
    let mut y = area.top();
    for (row, line) in page.lines.iter().enumerate().skip(scroll.top) {
        if y >= area.bottom() {
            break;
        }
        if gutter > 0 && scroll.above(row) == 0 {
            let number = page.first_number.map_or_else(|| "~".to_owned(), |first| (first + row as u64).to_string());
            buffer.set_stringn(area.left(), y, format!("{number:>digits$}"), digits, theme.dim);
        }
        let rest = Rect { x: area.left() + gutter, y, width: area.width - gutter, height: area.bottom() - y };
        y += put(line, scroll, scroll.above(row), theme, rest, buffer);
    }
    Rect { x: area.x + gutter, width: area.width - gutter, ..area }
}

/// Splits a line into wrapped rows.
pub fn parts(text: &str, columns: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let part = glyphs::start(text, columns);
        // If no letter fits, nothing after it does either.
        rest = Some(&text[part.len()..]).filter(|tail| !tail.is_empty() && !part.is_empty());
        Some(part)
    })
}

/// Draws a line from the top of an area, without the first `above` wrapped rows. Returns the number
/// of rows used.
pub fn put(line: &Line, scroll: Scroll, above: usize, theme: &Theme, area: Rect, buffer: &mut Buffer) -> u16 {
    let width = usize::from(area.width);
    let row = |y: u16| Rect { y: area.y + y, height: 1, ..area };
    if !scroll.wrap {
        let rest = glyphs::skip(&line.text, scroll.left);
        draw(&rest, line, scroll.left, theme, row(0), buffer);
        if width > 0 && (line.cut || glyphs::width(&rest) > width) {
            buffer.set_stringn(area.right() - 1, area.y, "›", 1, theme.dim);
        }
        return 1;
    }
    let (mut rows, mut skipped) = (0, 0);
    for (number, part) in parts(&line.text, width).enumerate() {
        if number >= above {
            draw(part, line, skipped, theme, row(rows), buffer);
            rows += 1;
        }
        if rows == area.height {
            break;
        }
        skipped += glyphs::width(part);
    }
    rows
}

/// Draws the part of a line after `skipped` columns, with the styles of its roles and symbols.
fn draw(text: &str, line: &Line, skipped: usize, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let y = area.y;
    let (end, _) = buffer.set_stringn(area.x, y, text, usize::from(area.width), theme.text);
    let (mut at, mut column) = (0, 0);
    for (len, role) in &line.roles {
        let from = column;
        column += glyphs::width(&line.text[at..at + len]);
        at += len;
        let on_screen = |column: usize| {
            let column = column.saturating_sub(skipped).min(usize::from(end - area.x));
            area.x + u16::try_from(column).expect("no more than the width of the area")
        };
        for x in on_screen(from)..on_screen(column) {
            buffer[(x, y)].set_style(role.style(theme));
        }
    }
    mark_symbols(buffer, Rect { width: end - area.x, ..area }, theme.symbol);
}

/// Highlights the symbols of control characters in the first row of an area.
pub fn mark_symbols(buffer: &mut Buffer, area: Rect, style: Style) {
    for x in area.left()..area.right() {
        let cell = &mut buffer[(x, area.y)];
        if cell.symbol().starts_with(|c| ('\u{2400}'..='\u{2426}').contains(&c)) {
            cell.set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn lines_are_numbered_and_printable() {
        let window = Window { offset: 0, bytes: b"one\r\n\ttwo\x1b[2J\nthree".to_vec(), size: 19 };
        let page = page(&window, None, Encoding::Utf8);
        let lines: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(lines, ["one", "    two␛[2J", "three"]);
        assert_eq!((page.first_number, page.at_start, page.at_end), (Some(1), true, true));
        assert_eq!(page.lines[2].offset, 14);
    }

    #[test]
    fn windows_start_and_end_at_lines() {
        let text: Vec<u8> = (0..100).flat_map(|number| format!("line {number:02}\n").into_bytes()).collect();
        // Eight bytes a line; the window is 100 bytes from the middle of line 10 on.
        let window = Window { offset: 85, bytes: text[85..185].to_vec(), size: text.len() as u64 };
        let page = page(&window, Some((96, 13)), Encoding::Utf8);
        assert_eq!(page.lines[0].text, "line 11");
        assert_eq!(page.first_number, Some(12));
        assert_eq!(page.lines.last().unwrap().text, "line 22");
        assert!(!page.at_start && !page.at_end);
        assert_eq!(page.row(96), 1);
        assert_eq!(page.anchor(1), Some((96, 13)));
    }

    #[test]
    fn long_line_is_cut() {
        let content = [vec![b'x'; 600 << 10], b"\nend\n".to_vec()].concat();
        let archive = sample::with_contents(&[("long", &content)]);
        let entry = archive.entry(0).unwrap();
        let page = load(&*archive, &entry, &Request::default(), Encoding::Utf8).unwrap();
        assert_eq!((page.lines.len(), page.lines[0].text.len(), page.lines[0].cut), (1, MAX_LINE, true));
        let end = load(&*archive, &entry, &Request { offset: 500 << 10, ..Request::default() }, Encoding::Utf8).unwrap();
        assert_eq!(end.lines.last().unwrap().text, "end");
        assert!(end.at_end && end.first_number.is_none());
    }

    #[test]
    fn other_encodings_are_decoded() {
        let text = "Grüße\r\nzweite Zeile\n\tdritte ✓";
        let utf16: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        let archive = sample::with_contents(&[("text", &utf16)]);
        let page = load(&*archive, &archive.entry(0).unwrap(), &Request::default(), Encoding::Utf16Be).unwrap();
        let lines: Vec<(&str, u64)> = page.lines.iter().map(|line| (line.text.as_str(), line.offset)).collect();
        assert_eq!(lines, [("Grüße", 0), ("zweite Zeile", 16), ("    dritte ✓", 42)]);
        assert!(page.at_end);
        // A window may begin anywhere.
        let request = Request { offset: 3, anchor: Some((42, 3)), ..Request::default() };
        let page = load(&*archive, &archive.entry(0).unwrap(), &request, Encoding::Utf16Be).unwrap();
        assert_eq!((page.lines[0].text.as_str(), page.first_number), ("zweite Zeile", Some(2)));
        let line = printable_line_in(Encoding::Latin, b"K\xf6ln\x1b\n", 0);
        assert_eq!(line.text, "Köln␛");
    }
}
