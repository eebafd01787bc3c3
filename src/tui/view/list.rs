//! The rows of the list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::format::entry::{Entry, Kind};
use crate::text::{self, SizeStyle};
use crate::tui::glyphs;
use crate::tui::state::arrange::Sort;
use crate::tui::state::listing::Line;
use crate::tui::state::marks::Marked;
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
    let head = |name: &str| {
        let arrow = if state.arrangement.reverse { "▴" } else { "▾" };
        if column(state.arrangement.sort) == name && !state.arrangement.is_natural() {
            format!("{name} {arrow}")
        } else {
            name.to_owned()
        }
    };
    put(buffer, heads, FRONT, 0, &head("name"), theme.dim);
    let mut x = FRONT + columns.name;
    for (width, head) in columns.cells(head) {
        x += 2 + width;
        put_right(buffer, Rect { width: x.min(heads.width), ..heads }, 0, &head, theme.dim);
    }
    let visible = state.listing.visible();
    for (y, index) in (0..area.height).zip(visible.clone()) {
        let line = &state.listing.lines[index];
        let row = Rect { y: area.y + y, height: 1, ..area };
        mark(state, index, row, buffer);
        draw(state, line, &columns, row, buffer);
        if index == state.listing.cursor {
            buffer.set_style(row, if state.focus == Focus::List { theme.cursor } else { theme.cursor_away });
        }
    }
    if visible.is_empty() {
        remark(state, area, buffer);
    }
}

/// Returns the column that an order goes by.
fn column(sort: Sort) -> &'static str {
    match sort {
        Sort::Name | Sort::Kind => "name",
        Sort::Size => "size",
        Sort::Stored | Sort::Ratio => "ratio",
        Sort::Time => "modified",
    }
}

/// Draws the mark of a row.
fn mark(state: &State, index: usize, row: Rect, buffer: &mut Buffer) {
    let place = state.listing.lines[index].row.place;
    let cursor = state.listing.current().map_or(place, |line| line.row.place);
    let in_range = state.anchor.is_some_and(|anchor| (anchor.min(cursor)..=anchor.max(cursor)).contains(&place));
    let number = state.listing.lines[index].row.number;
    let numbers = state.listing.numbers(index).unwrap_or(number..number + 1);
    let sign = match state.marks.of(&numbers) {
        Marked::Yes => "●",
        _ if in_range => "○",
        Marked::Partly => "◐",
        Marked::No => return,
    };
    put(buffer, row, 0, 0, sign, state.theme.mark);
}

/// Says why there are no rows.
fn remark(state: &State, area: Rect, buffer: &mut Buffer) {
    let (remark, style) = match (&state.listing.error, state.listing.loaded) {
        (Some(error), _) => (error.as_str(), state.theme.error),
        (None, false) => ("reading …", state.theme.dim),
        (None, true) if !state.arrangement.filter.is_empty() => {
            ("no name matches the filter; esc takes it away", state.theme.dim)
        }
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
    if state.tree && entry.kind == Kind::Directory && columns.name > indent + 4 {
        let sign = if state.listing.scope.open.contains(&entry.path) { "▾" } else { "▸" };
        put(buffer, area, FRONT + indent, 0, sign, theme.dim);
    }
    let indent = if state.tree { (indent + 2).min(columns.name) } else { indent };
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
