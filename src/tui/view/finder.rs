//! Draws the search as you type.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::frames;
use crate::glyphs;
use crate::layout::Choices;
use crate::state::{FindKind, Finder, Hit};
use crate::theme::Theme;
use crate::view::{draw_choices, prompt, put, put_right};

/// Indent of the second row of a command.
const INDENT: u16 = 4;

/// Draws a search and returns the cursor position.
pub fn view(finder: &Finder, choices: Choices, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let results = &finder.results;
    let head = Rect { height: area.height.min(1), ..area };
    let cursor = prompt::line(&finder.input, theme, head, buffer);
    // The hits belong to the previous input.
    let is_read = results.searched == 0 && !results.complete;
    let more = if results.complete || results.error.is_some() { "" } else { " …" };
    let state = match is_read && results.error.is_none() {
        true => "reading …".to_owned(),
        false => format!("{} of {}{more}", nra_text::count(results.matches), nra_text::count(results.searched)),
    };
    let typed = glyphs::width(finder.input.value()) + 4;
    if typed + glyphs::width(&state) < usize::from(area.width) {
        put_right(buffer, head, 0, &state, theme.dim);
    }
    for (row, line) in (1..).zip(frames::wrapped(frames::error_text(&results.error), area.width)) {
        put(buffer, area, 0, row, line, theme.error);
    }
    if results.hits.is_empty() && results.complete {
        let nothing = if finder.whole == Some(false) { "No matches in this directory" } else { "No matches" };
        put(buffer, area, 2, 1, nothing, theme.dim);
    }
    draw_choices(choices, theme, buffer, |index, rows, buffer| {
        draw(&results.hits[index], finder.over == FindKind::Commands, theme, rows, buffer);
        if is_read {
            buffer.set_style(rows, theme.dim);
        }
    });
    cursor
}

/// Draws a hit with the matching letters highlighted. A long path is cut at its start, because
/// paths differ at the end. A long command continues in the next row.
fn draw(hit: &Hit, is_sentence: bool, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width).saturating_sub(2);
    let is_long = glyphs::width(&hit.text) > room;
    let (hidden, front) = if is_long && !is_sentence {
        let end = glyphs::end(&hit.text, room.saturating_sub(1));
        (glyphs::graphemes(&hit.text[..hit.text.len() - end.len()]).count(), "…")
    } else {
        (0, "")
    };
    // Start of the second row.
    let first = glyphs::wrapped(&hit.text, room).next().map_or(0, |line| glyphs::graphemes(line).count());
    let (mut x, mut row) = (put(buffer, area, 2, 0, front, theme.dim), 0);
    for (index, grapheme) in glyphs::graphemes(&hit.text).enumerate().skip(hidden) {
        if is_long && is_sentence && index == first {
            (x, row) = (INDENT, 1);
            if grapheme == " " {
                continue;
            }
        }
        let matched = u32::try_from(index).is_ok_and(|index| hit.matched.binary_search(&index).is_ok());
        let style: Style = if matched { theme.hit } else { theme.text };
        x = put(buffer, area, x, row, grapheme, style);
    }
}
