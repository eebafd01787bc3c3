//! Tables with aligned columns: descriptions of file headers, and comma- or tab-separated values.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::preview::cells::{ByteRole, Cells};
use crate::preview::details::put_field;
use crate::preview::encoding::Encoding;
use crate::preview::seek::Seek;
use crate::preview::window::{Window, line_feeds};
use crate::preview::{Request, Scroll, Scrolled};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::describe::Description;
use nra_format::entry::Entry;
use nra_format::error::Result;

/// Maximum number of columns of separated values.
const MAX_COLUMNS: usize = 100;
/// Maximum width of a cell, in columns of the screen.
const MAX_CELL_WIDTH: usize = 40;
/// Maximum length of a cell, in bytes.
const MAX_CELL_LEN: usize = 160;

/// A window of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub format: &'static str,
    /// Labels and values above the rows. They scroll with the rows.
    pub facts: Vec<(String, String)>,
    pub heads: Vec<String>,
    pub rows: Vec<Row>,
    /// Width of each column, in columns of the screen.
    pub widths: Vec<usize>,
    /// Numeric columns. Numbers are right-aligned.
    pub numbers: Vec<bool>,
    /// The separator, if the rows are content.
    pub separator: Option<u8>,
    /// Number of rows that are not loaded although the window is complete.
    pub hidden_rows: u64,
    pub at_start: bool,
    pub at_end: bool,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its offset in the content, in bytes; 0 if it is not content.
    pub offset: u64,
    /// Its cells, printable.
    pub cells: Vec<String>,
}

impl Page {
    /// Number of rows above the cells: facts, a blank row, column headers.
    fn above(&self) -> usize {
        let gap = usize::from(!self.facts.is_empty() && !self.heads.is_empty());
        self.facts.len() + gap + usize::from(!self.heads.is_empty())
    }

    /// Determines the widths of the columns and which are numeric.
    fn measure(mut self) -> Self {
        let columns = self.rows.iter().map(|row| row.cells.len()).chain([self.heads.len()]).max().unwrap_or(0);
        self.widths = vec![1; columns];
        self.numbers = vec![!self.rows.is_empty(); columns];
        for (width, head) in self.widths.iter_mut().zip(&self.heads) {
            *width = glyphs::width(head).clamp(1, MAX_CELL_WIDTH);
        }
        for row in &self.rows {
            for ((width, number), cell) in self.widths.iter_mut().zip(&mut self.numbers).zip(&row.cells) {
                *width = glyphs::width(cell).min(MAX_CELL_WIDTH).max(*width);
                *number &= cell.chars().all(|c| c.is_ascii_digit() || "+-.,eE?".contains(c));
            }
        }
        self
    }
}

impl From<Description> for Page {
    fn from(table: Description) -> Self {
        let printable = |text: &str| glyphs::printable(text.as_bytes());
        let hidden_rows = table.row_count - table.rows.len() as u64;
        let rows = table.rows.iter();
        let rows = rows.map(|row| Row { offset: 0, cells: row.iter().map(|cell| printable(cell)).collect() }).collect();
        // A table without rows has facts only.
        let heads = if table.rows.is_empty() { Vec::new() } else { table.heads.iter().map(|head| (*head).to_owned()).collect() };
        let facts = table.facts.iter().map(|(label, value)| (printable(label), printable(value))).collect();
        Self { format: table.format, facts, heads, rows, hidden_rows, at_start: true, at_end: true, ..Self::default() }.measure()
    }
}

impl Scrolled for Page {
    fn rows(&self) -> usize {
        self.above() + self.rows.len() + usize::from(self.hidden_rows > 0)
    }

    fn offset(&self, row: usize) -> u64 {
        let row = row.saturating_sub(self.above());
        self.rows.get(row).or(self.rows.last()).map_or(0, |row| row.offset)
    }

    fn row(&self, offset: u64) -> usize {
        let next = self.rows.partition_point(|row| row.offset <= offset);
        if offset == 0 { 0 } else { (self.above() + next).saturating_sub(1) }
    }

    fn numbered(&self, number: u64) -> Option<Seek> {
        self.separator.map(|separator| Seek::Row(number, separator))
    }

    fn matches(&self, row: usize, pattern: &regex::bytes::Regex) -> bool {
        let matches = |text: &String| pattern.is_match(text.as_bytes());
        match self.facts.get(row) {
            Some((label, value)) => matches(label) || matches(value),
            None => {
                let row = row.checked_sub(self.above()).and_then(|row| self.rows.get(row));
                row.is_some_and(|row| row.cells.iter().any(matches))
            }
        }
    }

    fn at_start(&self) -> bool {
        self.at_start
    }

    fn at_end(&self) -> bool {
        self.at_end
    }
}

/// Loads a window of separated values.
pub fn load(archive: &dyn Archive, entry: &Entry, request: &Request, separator: u8, encoding: Encoding) -> Result<Page> {
    let window = Window::read(archive, entry, request.offset, 1, request.limits.window)?;
    Ok(page(&window, separator, encoding))
}

/// Returns the separator of a CSV file: the most frequent one in its first line, outside quotes.
pub fn separator(head: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
    for &byte in head.iter().take_while(|byte| **byte != b'\n') {
        quoted ^= byte == b'"';
        counts.iter_mut().filter(|(separator, _)| !quoted && *separator == byte).for_each(|(_, count)| *count += 1);
    }
    // Prefer the usual one if several are equally frequent.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(separator, _)| separator)
}

/// Splits a window of bytes into rows and cells. Rows that may be incomplete at either end are
/// skipped.
fn page(window: &Window, separator: u8, encoding: Encoding) -> Page {
    let Window { offset, ref bytes, .. } = *window;
    let at_end = window.is_last();
    // Only the quotes tell where the last row ends.
    let first = window.whole(false, &line_feeds(bytes)).start;
    let mut rows = Vec::new();
    let mut at = first;
    let mut end = first;
    while at < bytes.len() {
        let (cells, len, whole) = row(&bytes[at..], separator, encoding);
        // A row that is longer than the window is shown as far as it is loaded.
        if !whole && !at_end && !rows.is_empty() {
            break;
        }
        rows.push(Row { offset: offset + at as u64, cells });
        at += len;
        end = at;
    }
    let format = if separator == b'\t' { "TSV" } else { "CSV" };
    let at_end = at_end && end >= bytes.len();
    Page { format, rows, separator: Some(separator), at_start: offset == 0, at_end, ..Page::default() }.measure()
}

/// Splits one row into cells. Returns the cells, the length of the row, and whether its end was
/// found.
fn row(bytes: &[u8], separator: u8, encoding: Encoding) -> (Vec<String>, usize, bool) {
    let (mut cells, mut cell) = (Vec::new(), Vec::new());
    let mut parts = Cells::new(separator);
    let mut at = 0;
    let mut finish = |cell: &mut Vec<u8>| {
        if cells.len() < MAX_COLUMNS {
            cells.push(glyphs::printable(&encoding.decode(cell)));
        }
        cell.clear();
    };
    let mut whole = false;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match parts.classify(byte) {
            ByteRole::RowEnd => {
                whole = true;
                if cell.last() == Some(&b'\r') {
                    cell.pop();
                }
                break;
            }
            ByteRole::CellEnd => finish(&mut cell),
            ByteRole::Value if cell.len() < MAX_CELL_LEN => cell.push(byte),
            ByteRole::Value | ByteRole::Quote => {}
        }
    }
    finish(&mut cell);
    (cells, at, whole)
}

pub fn view(page: &Page, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let labels = page.facts.iter().map(|(label, _)| glyphs::width(label)).max().unwrap_or(0).min(usize::from(area.width) / 2);
    let above = page.above();
    for (y, row) in (area.top()..area.bottom()).zip(scroll.top..page.rows()) {
        let line = Rect { y, height: 1, ..area };
        if let Some((label, value)) = page.facts.get(row) {
            put_field(label, value, labels, theme, line, buffer);
        } else if row + 1 == above && !page.heads.is_empty() {
            put(page, &page.heads, scroll, theme.accent, line, buffer);
        } else if let Some(cells) = row.checked_sub(above).and_then(|row| page.rows.get(row)) {
            let first = page.heads.is_empty() && row == 0 && page.at_start;
            put(page, &cells.cells, scroll, if first { theme.accent } else { theme.text }, line, buffer);
        } else if row > above && page.hidden_rows > 0 {
            let more = format!("… and {} more", nra_text::count(page.hidden_rows));
            buffer.set_stringn(area.left(), y, more, usize::from(area.width), theme.dim);
        }
    }
}

/// Draws cells from the horizontal scroll position on.
fn put(page: &Page, cells: &[String], scroll: Scroll, style: ratatui::style::Style, line: Rect, buffer: &mut Buffer) {
    let mut text = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let width = page.widths.get(index).copied().unwrap_or(1);
        let cell = glyphs::fit(cell, width);
        let gap = " ".repeat(width - glyphs::width(&cell).min(width));
        let right = page.numbers.get(index).copied().unwrap_or(false);
        text.push_str(&if right { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") });
    }
    let rest = glyphs::skip(text.trim_end(), scroll.left);
    let room = usize::from(line.width);
    buffer.set_stringn(line.x, line.y, &rest, room, style);
    if room > 0 && glyphs::width(&rest) > room {
        buffer.set_stringn(line.right() - 1, line.y, "›", 1, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(page: &Page) -> Vec<Vec<&str>> {
        page.rows.iter().map(|row| row.cells.iter().map(String::as_str).collect()).collect()
    }

    #[test]
    fn quotes_keep_cells_together() {
        let page = page(
            &Window {
                offset: 0,
                bytes: b"name,note,n\r\n\"a, b\",\"two\nlines \"\"q\"\"\",1\nc,\x1b[2J,22\n".to_vec(),
                size: 48,
            },
            b',',
            Encoding::Utf8,
        );
        assert_eq!(cells(&page), [vec!["name", "note", "n"], vec!["a, b", "two␊lines \"q\"", "1"], vec!["c", "␛[2J", "22"]]);
        assert_eq!((page.widths.as_slice(), page.at_end), (&[4, 13, 2][..], true));
    }

    #[test]
    fn windows_start_and_end_at_rows() {
        let text: Vec<u8> = (0..1_000).flat_map(|number| format!("{number:03},x\n").into_bytes()).collect();
        let page = page(&Window { offset: 7, bytes: text[7..103].to_vec(), size: text.len() as u64 }, b',', Encoding::Utf8);
        assert_eq!(cells(&page)[0], ["002", "x"]);
        assert_eq!(page.rows.last().unwrap().cells[0], "016");
        assert_eq!((page.rows[0].offset, page.row(18), page.at_start, page.at_end), (12, 1, false, false));
    }

    #[test]
    fn table_counts_hidden_rows() {
        let table =
            Description { heads: vec!["name"], rows: vec![vec!["a\u{202e}".to_owned()]], row_count: 3, ..Description::default() };
        let page = Page::from(table);
        assert_eq!((page.rows(), page.hidden_rows, page.rows[0].cells[0].as_str()), (3, 2, "a·"));
    }

    #[test]
    fn separator_is_detected() {
        assert_eq!(separator(b"name;\"a, b, c\";n\n1,2;3,4;5,6\n"), b';');
        assert_eq!(separator(b"a,b;c,d\n"), b',');
        assert_eq!(separator(b"a\tb\n"), b'\t');
        assert_eq!(separator(b"alone"), b',');
        let page =
            page(&Window { offset: 0, bytes: b"Stra\xdfe;n\nB\xe4ckerweg;1,5\n".to_vec(), size: 25 }, b';', Encoding::Latin);
        assert_eq!(cells(&page), [vec!["Straße", "n"], vec!["Bäckerweg", "1,5"]]);
        assert_eq!(page.format, "CSV");
    }
}
