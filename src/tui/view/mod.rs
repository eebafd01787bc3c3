//! Draws the state. Drawing does not read, change or store anything.

mod commits;
mod dialog;
mod finder;
mod footer;
mod header;
mod help;
mod jobs;
mod list;
mod map;
mod preview;
mod prompt;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::frames;
use crate::glyphs;
use crate::layout::{Areas, Choices, SMALLEST};
use crate::state::{About, Dialog, Focus, Menu, State};
use crate::theme::Theme;

/// Returns the message for a screen that is too small, including the question before quitting.
fn too_small_message(state: &State) -> String {
    let (width, height) = SMALLEST;
    match state.dialogs.last() {
        Some(Dialog::Menu(Menu { about: About::PendingChanges, .. })) => {
            "changes are pending: quit again to discard them".to_owned()
        }
        Some(Dialog::Menu(Menu { about: About::Quitting, .. })) => "jobs are running: quit again to stop them".to_owned(),
        _ => format!("too small: needs {width}x{height}"),
    }
}

/// Draws everything and returns the cursor position, if the cursor is visible.
pub fn view(state: &State, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    buffer.set_style(area, state.settings.theme.text);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let message = too_small_message(state);
        for (row, line) in (0..area.height).zip(glyphs::wrapped(&message, usize::from(area.width))) {
            put(buffer, area, 0, row, line, state.settings.theme.warning);
        }
        return None;
    }
    let areas = state.areas();
    header::view(state, areas.header, buffer);
    if !areas.list.is_empty() {
        list::view(state, areas.column_headers, areas.list, buffer);
    }
    if !areas.preview.is_empty() {
        preview::view(state, &areas, buffer);
    }
    footer::previous_messages(state, areas.messages, buffer);
    footer::status(state, areas.status, buffer);
    footer::hints(state, areas.hints, buffer);
    let mut cursor = focus(state, &areas);
    for dialog in &state.dialogs {
        cursor = draw_dialog(dialog, state, &areas, buffer).or(cursor);
    }
    if state.settings.ascii {
        replace_non_ascii(buffer, area);
    }
    cursor.filter(|_| state.settings.linear || state.is_typing())
}

/// Draws a dialog over the browser.
fn draw_dialog(dialog: &Dialog, state: &State, areas: &Areas, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.settings.theme;
    if let Dialog::Jump(jump) = dialog {
        return footer::jump(jump, theme, areas.status, buffer);
    }
    if let Dialog::Bookmark(_) = dialog {
        return footer::bookmark(theme, areas.status, buffer);
    }
    let frame = frames::frame(dialog, state)?;
    let area = dialog::frame(&frame, theme, state.screen, buffer);
    match (dialog, frames::choices(dialog, state, area)) {
        (Dialog::Help { place, top }, _) => help::view(state, *place, *top, area, buffer),
        (Dialog::Prompt(prompt), _) => prompt::view(prompt, theme, area, buffer),
        (Dialog::Details { details, top, .. }, _) => dialog::details(details, *top, theme, area, buffer),
        (Dialog::Menu(menu), Some(choices)) => prompt::menu(menu, choices, theme, area, buffer),
        (Dialog::Finder(finder), Some(choices)) => finder::view(finder, choices, theme, area, buffer),
        (Dialog::Commits { list, .. }, Some(choices)) => commits::view(state, list, choices, area, buffer),
        (Dialog::PendingChanges { .. }, Some(choices)) => draw_choices(choices, theme, buffer, |index, row, buffer| {
            let text = state.changes.pending.list()[index].describe();
            put(buffer, row, 0, 0, &glyphs::fit(&text, usize::from(row.width)), theme.text);
        }),
        (Dialog::Jobs { job, top }, Some(choices)) => jobs::view(state, choices, state.jobs.place(*job), *top, area, buffer),
        (_, _) => None,
    }
}

/// Draws the visible choices of a list, and highlights the one under the cursor. Returns its
/// position.
fn draw_choices(
    choices: Choices,
    theme: &Theme,
    buffer: &mut Buffer,
    mut draw: impl FnMut(usize, Rect, &mut Buffer),
) -> Option<Position> {
    for (index, rows) in choices.rows() {
        draw(index, rows, buffer);
        if choices.is_cursor(index) {
            buffer.set_style(rows, theme.cursor);
        }
    }
    choices.cursor()
}

fn replace_non_ascii(buffer: &mut Buffer, area: Rect) {
    for position in area.positions() {
        let cell = &mut buffer[position];
        if !cell.symbol().is_ascii() {
            let plain = glyphs::ascii(cell.symbol());
            cell.set_char(plain);
        }
    }
}

/// Returns the position of the focus: the latest message, the list or the preview.
fn focus(state: &State, areas: &Areas) -> Option<Position> {
    let at =
        |area: Rect, row: usize| (!area.is_empty()).then(|| Position { x: area.x, y: area.y + u16::try_from(row).unwrap_or(0) });
    if state.status.message.is_some() {
        return at(areas.status, 0);
    }
    match state.layout.focus {
        Focus::List => at(areas.list, state.listing.cursor.saturating_sub(state.listing.top)),
        Focus::Preview => at(areas.preview, 0),
    }
}

/// Draws printable text at a column and row of an area, cut at its right edge. Returns the column
/// after the text.
fn put(buffer: &mut Buffer, area: Rect, column: u16, row: u16, text: &str, style: Style) -> u16 {
    if column >= area.width || row >= area.height {
        return column;
    }
    let room = usize::from(area.width - column);
    buffer.set_stringn(area.x + column, area.y + row, text, room, style).0 - area.x
}

/// Draws text aligned to the right edge of an area.
fn put_right(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    let width = u16::try_from(glyphs::width(text)).unwrap_or(u16::MAX);
    put(buffer, area, area.width.saturating_sub(width), row, text, style);
}
