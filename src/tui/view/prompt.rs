//! Draws prompts and menus.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tui_input::Input;

use crate::frames;
use crate::glyphs;
use crate::layout::Choices;
use crate::state::{Menu, Prompt};
use crate::theme::Theme;
use crate::view::{draw_choices, put};

pub fn view(prompt: &Prompt, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let errors = frames::wrapped(frames::error_text(&prompt.error), area.width);
    // Input and error come first if there is not room for everything.
    let mut note = frames::wrapped(&prompt.note, area.width);
    note.truncate(usize::from(area.height).saturating_sub(1 + errors.len().max(1)));
    for (row, line) in (0..).zip(&note) {
        put(buffer, area, 0, row, line, theme.dim);
    }
    let typed = u16::try_from(note.len()).unwrap_or(u16::MAX);
    let input = &prompt.input;
    let place = Rect { y: area.y + typed, height: area.height.saturating_sub(typed).min(1), ..area };
    let cursor = line(input, theme, place, buffer);
    if prompt.fresh && !place.is_empty() {
        // Shown as selected: typing replaces it.
        let width = u16::try_from(glyphs::width(input.value())).unwrap_or(u16::MAX).min(place.width.saturating_sub(3));
        buffer.set_style(Rect { x: place.x + 2, width, ..place }, theme.cursor_away);
    }
    put(buffer, area, 0, typed + 1, glyphs::start(&prompt.choices, usize::from(area.width)), theme.dim);
    for (row, line) in (typed + 1..area.height).zip(&errors) {
        put(buffer, area, 0, row, line, theme.error);
    }
    let policy = frames::policy_text(prompt);
    let below = typed + 1 + u16::try_from(errors.len().max(1)).unwrap_or(u16::MAX);
    for (row, line) in (below..area.height).zip(frames::wrapped(&policy, area.width)) {
        put(buffer, area, 0, row, line, theme.text);
    }
    cursor
}

/// Draws an input line and returns the cursor position.
pub fn line(input: &Input, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    let x = put(buffer, area, 0, 0, "› ", theme.accent);
    let room = usize::from(area.width.saturating_sub(x + 1));
    let scroll = input.visual_scroll(room);
    let shown = glyphs::printable(input.value().as_bytes());
    put(buffer, area, x, 0, &glyphs::skip(&shown, scroll), theme.text);
    let cursor = u16::try_from(input.visual_cursor().saturating_sub(scroll)).unwrap_or(0);
    Some(Position { x: (area.x + x + cursor).min(area.right().saturating_sub(1)), y: area.y })
}

pub fn menu(menu: &Menu, choices: Choices, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    for (row, line) in (0..).zip(menu.text(area.width, area.height)) {
        put(buffer, area, 0, row, &line, theme.text);
    }
    draw_choices(choices, theme, buffer, |index, row, buffer| {
        let (key, text, _) = &menu.items[index];
        put(buffer, row, 0, 0, &key.to_string(), theme.accent);
        let room = usize::from(row.width.saturating_sub(Menu::TEXT));
        // A long name loses its middle.
        let text = glyphs::fit(text, room * usize::from(row.height));
        for (line, text) in (0..).zip(glyphs::wrapped(&text, room)) {
            put(buffer, row, Menu::TEXT, line, text, theme.text);
        }
    })
}
