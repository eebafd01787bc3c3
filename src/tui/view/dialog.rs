//! Draws the frames of dialogs.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use crate::frames::Frame;
use crate::glyphs;
use crate::preview::Scroll;
use crate::preview::details::{self, Details};
use crate::theme::Theme;
use crate::view::put;

/// Draws a frame and returns the area inside.
pub fn frame(frame: &Frame, theme: &Theme, screen: Rect, buffer: &mut Buffer) -> Rect {
    let area = frame.area;
    Clear.render(area, buffer);
    // A wide character that overlaps the frame would shift it.
    for y in area.top()..area.bottom() {
        if area.x > screen.x && glyphs::width(buffer[(area.x - 1, y)].symbol()) > 1 {
            buffer[(area.x - 1, y)].set_symbol(" ");
        }
    }
    let title = if frame.title.is_empty() { String::new() } else { format!(" {} ", frame.title) };
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.frame)
        .style(theme.dialog)
        .title(title)
        .title_style(theme.accent)
        .title_bottom(format!(" {} ", frame.keys))
        .render(area, buffer);
    for (row, line) in (0..).zip(&frame.title_lines) {
        put(buffer, frame.inside(), 0, row, line, theme.accent);
    }
    frame.inner()
}

pub fn details(details: &Details, top: usize, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if details.lines.is_empty() {
        put(buffer, area, 0, 0, "reading …", theme.dim);
    }
    details::view(details, Scroll { top, ..Scroll::default() }, theme, area, buffer);
    Some(area.as_position())
}
