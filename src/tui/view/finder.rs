//! Search by typing.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

use crate::text;
use crate::tui::frames::Frame;
use crate::tui::glyphs;
use crate::tui::state::finder::{Finder, Hit, Over};
use crate::tui::theme::Theme;
use crate::tui::view::{dialog, prompt, put, put_right};

/// Draws a search and returns where its cursor is.
pub fn view(finder: &Finder, theme: &Theme, frame: &Frame, screen: Rect, buffer: &mut Buffer) -> Option<Position> {
    let title = match finder.over {
        Over::Paths if finder.whole == Some(true) => "Find in the whole archive",
        Over::Paths => "Find below here",
        Over::Commands => "Commands",
        Over::Archives => "Open an archive",
    };
    let area = dialog::frame(title, frame, theme, screen, buffer);
    let head = Rect { height: area.height.min(1), ..area };
    let cursor = prompt::line(&finder.input, theme, head, buffer);
    // The hits are those of what was typed before.
    let is_read = finder.searched == 0 && !finder.complete;
    let state = match &finder.error {
        Some(error) => error.clone(),
        _ if is_read => "reading …".to_owned(),
        None if finder.complete => format!("{} of {}", text::count(finder.matches), text::count(finder.searched)),
        None => format!("{} of {} …", text::count(finder.matches), text::count(finder.searched)),
    };
    let typed = glyphs::width(finder.input.value()) + 4;
    if typed + glyphs::width(&state) < usize::from(area.width) {
        put_right(buffer, head, 0, &state, theme.dim);
    }
    let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let top = (finder.cursor + 1).saturating_sub(usize::from(list.height));
    if finder.hits.is_empty() && finder.complete {
        let nothing = if finder.whole == Some(false) { "nothing matches below here" } else { "nothing matches" };
        put(buffer, list, 2, 0, nothing, theme.dim);
    }
    for (row, (index, hit)) in (0..list.height).zip(finder.hits.iter().enumerate().skip(top)) {
        let line = Rect { y: list.y + row, height: 1, ..list };
        draw(hit, finder.over == Over::Commands, theme, line, buffer);
        if is_read {
            buffer.set_style(line, theme.dim);
        }
        if index == finder.cursor {
            buffer.set_style(line, theme.cursor);
        }
    }
    cursor
}

/// Draws a hit with the letters that matched. A path that is too long loses its start, for what tells paths apart is at their end; a sentence its end.
fn draw(hit: &Hit, is_sentence: bool, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width).saturating_sub(2);
    let (hidden, front) = if glyphs::width(&hit.text) > room && !is_sentence {
        let end = glyphs::end(&hit.text, room.saturating_sub(1));
        (glyphs::graphemes(&hit.text[..hit.text.len() - end.len()]).count(), "…")
    } else {
        (0, "")
    };
    let mut x = put(buffer, area, 2, 0, front, theme.dim);
    for (index, grapheme) in glyphs::graphemes(&hit.text).enumerate().skip(hidden) {
        let matched = u32::try_from(index).is_ok_and(|index| hit.matched.binary_search(&index).is_ok());
        let style: Style = if matched { theme.hit } else { theme.text };
        x = put(buffer, area, x, 0, grapheme, style);
    }
    if is_sentence && glyphs::width(&hit.text) > room && !area.is_empty() {
        put(buffer, area, area.width - 1, 0, "…", theme.dim);
    }
}
