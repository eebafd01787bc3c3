//! The rows of the list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::format::entry::{Entry, Kind};
use crate::text::{self, SizeStyle};
use crate::tui::glyphs;
use crate::tui::state::listing::Line;
use crate::tui::state::{Focus, State};
use crate::tui::theme::Theme;
use crate::tui::view::{put, put_right};

/// Columns in front of a name: room for a mark.
const FRONT: u16 = 2;

/// Widths of the columns; 0 = not shown.
struct Columns {
    name: u16,
    size: u16,
    ratio: u16,
    time: u16,
    mode: u16,
}

impl Columns {
    fn new(width: u16) -> Self {
        let (size, ratio, time, mode) = match width {
            92.. => (10, 6, 16, 10),
            68.. => (10, 6, 16, 0),
            54.. => (10, 6, 10, 0),
            40.. => (10, 6, 0, 0),
            28.. => (10, 0, 0, 0),
            _ => (0, 0, 0, 0),
        };
        let used: u16 = [size, ratio, time, mode].into_iter().filter(|width| *width > 0).map(|width| width + 2).sum();
        Self { name: width.saturating_sub(FRONT + used + 1), size, ratio, time, mode }
    }

    /// Returns the cells right of the name: their text and width, as `cell` makes them of a column's name.
    fn cells(&self, cell: impl Fn(&str) -> String) -> impl Iterator<Item = (u16, String)> {
        let columns = [("size", self.size), ("ratio", self.ratio), ("modified", self.time), ("mode", self.mode)];
        columns.into_iter().filter(|(_, width)| *width > 0).map(move |(name, width)| (width, cell(name)))
    }
}

/// Draws heads and rows.
pub fn view(state: &State, heads: Rect, area: Rect, buffer: &mut Buffer) {
    let columns = Columns::new(area.width);
    let theme = &state.theme;
    put(buffer, heads, FRONT, 0, "name", theme.dim);
    let mut x = FRONT + columns.name;
    for (width, head) in columns.cells(str::to_owned) {
        x += 2 + width;
        put_right(buffer, Rect { width: x.min(heads.width), ..heads }, 0, &head, theme.dim);
    }
    let visible = state.listing.visible();
    for (y, index) in (0..area.height).zip(visible.clone()) {
        let line = &state.listing.lines[index];
        let row = Rect { y: area.y + y, height: 1, ..area };
        draw(state, line, &columns, row, buffer);
        if index == state.listing.cursor {
            buffer.set_style(row, if state.focus == Focus::List { theme.cursor } else { theme.cursor_away });
        }
    }
    if visible.is_empty() {
        remark(state, area, buffer);
    }
}

/// Says why there are no rows.
fn remark(state: &State, area: Rect, buffer: &mut Buffer) {
    let (remark, style) = match (&state.listing.error, state.listing.loaded) {
        (Some(error), _) => (error.as_str(), state.theme.error),
        (None, false) => ("reading …", state.theme.dim),
        (None, true) if state.archive.info.entries == 0 => ("the archive is empty", state.theme.dim),
        (None, true) => ("nothing here", state.theme.dim),
    };
    let room = usize::from(area.width.saturating_sub(FRONT));
    put(buffer, area, FRONT, 1, &glyphs::fit(remark, room), style);
}

fn draw(state: &State, line: &Line, columns: &Columns, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let entry = &line.row.entry;
    let indent = (line.row.depth * 2).min(columns.name / 2);
    name(entry, theme, Rect { x: area.x + FRONT + indent, width: columns.name - indent, ..area }, buffer);
    let mut x = FRONT + columns.name;
    for (width, cell) in columns.cells(|column| value(line, column, columns.time)) {
        x += 2 + width;
        put_right(buffer, Rect { width: x.min(area.width), ..area }, 0, &cell, theme.dim);
    }
}

/// Draws the name of an entry: a directory with a slash, a link with its target.
fn name(entry: &Entry, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width);
    let shown = glyphs::shown(entry.path.name());
    let (tail, style) = match entry.kind {
        Kind::Directory => ("/", theme.directory),
        Kind::Symlink => ("", theme.link),
        Kind::File => ("", theme.text),
        Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => ("", theme.special),
    };
    let fitted = glyphs::fit(&shown, room.saturating_sub(tail.len()));
    let mut x = put(buffer, area, 0, 0, &fitted, style);
    mark_symbols(buffer, Rect { width: x, ..area }, theme.symbol);
    x = put(buffer, area, x, 0, tail, style);
    if entry.kind == Kind::Symlink {
        x = put(buffer, area, x, 0, " → ", theme.dim);
        let left = usize::from(area.width.saturating_sub(x));
        put(buffer, area, x, 0, &glyphs::fit(&glyphs::shown(&entry.target), left), theme.dim);
    }
}

/// Sets off the symbols of control characters from letters.
fn mark_symbols(buffer: &mut Buffer, area: Rect, style: Style) {
    for x in area.left()..area.right() {
        let cell = &mut buffer[(x, area.y)];
        if cell.symbol().starts_with(|c| ('\u{2400}'..='\u{2426}').contains(&c)) {
            cell.set_style(style);
        }
    }
}

fn value(line: &Line, column: &str, time_width: u16) -> String {
    let entry = &line.row.entry;
    match column {
        "size" => line.size().map_or_else(String::new, |size| SizeStyle::Binary.show(size)),
        "ratio" => match line.facts.and_then(|facts| facts.stored_bytes) {
            Some(stored) if entry.size > 0 => format!("{:.2}", stored as f64 / entry.size as f64),
            _ => String::new(),
        },
        "modified" => {
            let time = entry.modified.map(text::table_time).unwrap_or_default();
            glyphs::start(&time, usize::from(time_width)).to_owned()
        }
        _ => text::mode(entry.kind, entry.metadata.mode),
    }
}
