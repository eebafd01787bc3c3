//! Draws the list of entries.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::layout::{Column, Columns, FRONT};
use crate::preview::text::mark_symbols;
use crate::state::{Focus, Line, Marked, Sizes, State};
use crate::view::{map, put, put_right};
use nra_format::entry::{Entry, Kind};
use nra_text::{self, SizeStyle};

/// Draws column headers and rows, or the map.
pub fn view(state: &State, headers: Rect, area: Rect, buffer: &mut Buffer) {
    if let Sizes::Map(map) = &state.layout.sizes {
        return map::view(state, map, headers, area, buffer);
    }
    let columns = state.columns_in(area.width);
    let theme = &state.settings.theme;
    let head = |column: Column| {
        let arrow = if state.arrangement.wanted.reverse { "▴" } else { "▾" };
        let by = Some(state.arrangement.wanted.sort).filter(|by| columns.has(*by)).unwrap_or(Column::Name);
        if by == column { format!("{} {arrow}", column.title()) } else { column.title().to_owned() }
    };
    put(buffer, headers, FRONT, 0, &head(Column::Name), theme.dim);
    for (column, x, width) in columns.right_of_name() {
        put_right(buffer, Rect { width: (x + width).min(headers.width), ..headers }, 0, &head(column), theme.dim);
    }
    let visible = state.listing.visible();
    for (y, index) in (0..area.height).zip(visible.clone()) {
        let line = &state.listing.lines[index];
        let row = Rect { y: area.y + y, height: 1, ..area };
        mark(state, index, row, buffer);
        draw(state, line, &columns, row, buffer);
        if index == state.listing.cursor {
            buffer.set_style(row, if state.layout.focus == Focus::List { theme.cursor } else { theme.cursor_away });
        }
    }
    draw_pending_rows(state, area, visible.len(), buffer);
    if visible.is_empty() && !state.opening.no_archive {
        draw_empty(state, area, buffer);
    }
}

/// Draws the entries that pending changes add to this directory, below its rows. If there is not
/// room for all, the last row shows how many are hidden.
fn draw_pending_rows(state: &State, area: Rect, rows: usize, buffer: &mut Buffer) {
    let pending = state.pending_rows();
    let room = usize::from(area.height).saturating_sub(rows);
    let shown = if pending.len() > room { room.saturating_sub(1) } else { pending.len() };
    if let (1.., Some(y)) = (pending.len() - shown, u16::try_from(rows + shown).ok().filter(|y| *y < area.height)) {
        put(buffer, area, 0, y, "+", state.settings.theme.mark);
        let more = nra_text::count((pending.len() - shown) as u64);
        put(buffer, area, FRONT, y, &format!("… {more} more (P: all)"), state.settings.theme.dim);
    }
    for (y, (path, directory)) in (0..area.height).skip(rows).zip(pending.into_iter().take(shown)) {
        let row = Rect { y: area.y + y, height: 1, ..area };
        let tail = if directory { "/" } else { "" };
        let room = usize::from(area.width.saturating_sub(FRONT)).saturating_sub(tail.len());
        put(buffer, row, 0, 0, "+", state.settings.theme.mark);
        put(buffer, row, FRONT, 0, &format!("{}{tail}", glyphs::printable_within(path.name(), room)), state.settings.theme.dim);
    }
}

fn mark(state: &State, index: usize, row: Rect, buffer: &mut Buffer) {
    let place = state.listing.lines[index].row.place;
    let cursor = state.listing.current().map_or(place, |line| line.row.place);
    let in_range = state.marks.anchor.is_some_and(|anchor| (anchor.min(cursor)..=anchor.max(cursor)).contains(&place));
    let number = state.listing.lines[index].row.number;
    let numbers = state.listing.numbers(index).unwrap_or(number..number + 1);
    if state.changes.pending.removes(number) {
        put(buffer, row, 0, 0, "✗", state.settings.theme.error);
        return;
    }
    let sign = match state.marks.of(&numbers) {
        Marked::Yes => "●",
        _ if in_range => "○",
        Marked::Partly => "◐",
        Marked::No => return,
    };
    put(buffer, row, 0, 0, sign, state.settings.theme.mark);
}

/// Shows why there are no rows.
fn draw_empty(state: &State, area: Rect, buffer: &mut Buffer) {
    let (message, style) = match (&state.listing.error, state.listing.loaded) {
        (Some(error), _) => (error.as_str(), state.settings.theme.error),
        (None, false) => ("reading …", state.settings.theme.dim),
        (None, true) if !state.arrangement.wanted.query.is_empty() => {
            ("No matches. Esc clears the query", state.settings.theme.dim)
        }
        (None, true) if !state.arrangement.wanted.filter.is_empty() => {
            ("No matches. Esc clears the filter", state.settings.theme.dim)
        }
        (None, true) if state.archive.info.entries == 0 && state.archive.damaged => {
            ("No readable entries", state.settings.theme.error)
        }
        (None, true) if state.archive.info.entries == 0 => ("Empty archive", state.settings.theme.dim),
        (None, true) => ("Empty directory", state.settings.theme.dim),
    };
    let room = usize::from(area.width.saturating_sub(FRONT));
    put(buffer, area, FRONT, 1, &glyphs::fit(message, room), style);
}

fn draw(state: &State, line: &Line, columns: &Columns, area: Rect, buffer: &mut Buffer) {
    let theme = &state.settings.theme;
    let entry = &line.row.entry;
    let indent = (line.row.depth * 2).min(columns.name / 2);
    if state.tree.on && entry.kind == Kind::Directory && columns.name > indent + 4 {
        let sign = if state.listing.scope.open.contains(&entry.path) { "▾" } else { "▸" };
        put(buffer, area, FRONT + indent, 0, sign, theme.dim);
    }
    if let Some(to) = state.changes.pending.renamed(&entry.path) {
        let width = columns.name / 2;
        let place = Rect { x: area.x + FRONT + columns.name - width, width, ..area };
        name(
            state,
            entry,
            Rect { x: area.x + FRONT + indent, width: columns.name.saturating_sub(width + indent + 1), ..area },
            buffer,
        );
        let to = glyphs::printable_within(to.as_bytes(), usize::from(width).saturating_sub(2));
        put(buffer, place, 0, 0, &format!("→ {to}"), theme.warning);
    } else {
        let mut indent = if state.tree.on { (indent + 2).min(columns.name) } else { indent };
        // Same content as the row above.
        let firsts = &state.arrangement.found.firsts;
        if !firsts.is_empty() && columns.name > 4 && firsts.binary_search(&line.row.number).is_err() {
            put(buffer, area, FRONT, 0, "=", theme.dim);
            indent = 2;
        }
        name(state, entry, Rect { x: area.x + FRONT + indent, width: columns.name - indent, ..area }, buffer);
    }
    for (column, x, width) in columns.right_of_name() {
        if column == Column::Bar {
            let cells = bar(line.size().unwrap_or(0), state.listing.largest, usize::from(width));
            put(buffer, area, x, 0, &cells, theme.bar);
        } else {
            let cell = value(line, column, width);
            put_right(buffer, Rect { width: (x + width).min(area.width), ..area }, 0, &cell, theme.dim);
        }
    }
}

/// Returns a bar proportional to a size, relative to the largest one, in eighths of a column.
fn bar(size: u64, largest: u64, width: usize) -> String {
    let eighths = u128::from(size) * width as u128 * 8 / u128::from(largest.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).max(usize::from(size > 0));
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{part}", "█".repeat(eighths / 8))
}

/// Draws the name of an entry: a directory with a slash, a link with its target.
fn name(state: &State, entry: &Entry, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width);
    // Entries found at any depth are shown with their path from here.
    let front = if state.arrangement.wanted.query.is_empty() {
        entry.path.as_bytes().len() - entry.path.name().len()
    } else {
        state.listing.scope.directory.as_ref().map_or(0, |directory| directory.as_bytes().len() + 1)
    };
    let name = entry.path.as_bytes().get(front..).unwrap_or_default();
    let theme = &state.settings.theme;
    let (tail, style) = match entry.kind {
        Kind::Directory => ("/", theme.directory),
        Kind::Symlink => ("", theme.link),
        Kind::File => ("", theme.text),
        Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => ("", theme.special),
    };
    let fitted = glyphs::printable_within(name, room.saturating_sub(tail.len()));
    let mut x = put(buffer, area, 0, 0, &fitted, style);
    mark_symbols(buffer, Rect { width: x, ..area }, theme.symbol);
    x = put(buffer, area, x, 0, tail, style);
    if entry.kind == Kind::Symlink {
        x = put(buffer, area, x, 0, " → ", theme.dim);
        let left = usize::from(area.width.saturating_sub(x));
        put(buffer, area, x, 0, &glyphs::printable_within(&entry.target, left), theme.dim);
    }
}

/// Returns stored size divided by size. Nothing is returned if overhead of shared blocks or
/// encryption makes the ratio of a small entry meaningless.
fn ratio(stored: u64, size: u64) -> String {
    const MAX_MEANINGFUL: f64 = 1.5;
    let ratio = stored as f64 / size.max(1) as f64;
    match stored {
        0 => String::new(),
        _ if ratio > MAX_MEANINGFUL => String::new(),
        _ if ratio < 0.005 => "<0.01".to_owned(),
        _ => format!("{ratio:.2}"),
    }
}

fn value(line: &Line, column: Column, width: u16) -> String {
    let entry = &line.row.entry;
    match column {
        Column::Size => line.size().map_or_else(String::new, |size| SizeStyle::Binary.show(size)),
        Column::Stored => {
            line.facts.and_then(|facts| facts.stored_bytes).map_or_else(String::new, |stored| SizeStyle::Binary.show(stored))
        }
        Column::Ratio => match line.facts.and_then(|facts| facts.stored_bytes) {
            Some(stored) => ratio(stored, entry.size),
            None => String::new(),
        },
        Column::Time => {
            let time = entry.modified.map(nra_text::table_time).unwrap_or_default();
            glyphs::start(&time, usize::from(width)).to_owned()
        }
        Column::Mode => nra_text::mode(entry.kind, entry.metadata.mode),
        Column::Kind => glyphs::start(nra_text::kind(entry.kind), usize::from(width)).to_owned(),
        Column::Name | Column::Bar => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaningless_ratios_are_not_shown() {
        assert_eq!(ratio(50, 100), "0.50");
        assert_eq!(ratio(102, 100), "1.02");
        assert_eq!(ratio(1, 1_000), "<0.01");
        // A share of less than a byte; six bytes with overhead.
        assert_eq!((ratio(0, 1), ratio(18, 6), ratio(0, 0)), (String::new(), String::new(), String::new()));
    }
}
