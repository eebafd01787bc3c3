//! The commits of an archive.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::format::archive::CommitInfo;
use crate::text::{self, SizeStyle};
use crate::tui::frames::Frame;
use crate::tui::glyphs;
use crate::tui::state::State;
use crate::tui::view::{dialog, put, put_right};

/// Draws the commits.
pub fn view(state: &State, list: &[CommitInfo], cursor: usize, frame: &Frame, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.theme;
    let area = dialog::frame("Commits", frame, theme, state.screen, buffer);
    let top = (cursor + 1).saturating_sub(usize::from(area.height));
    if list.is_empty() {
        put(buffer, area, 0, 0, "reading …", theme.dim);
    }
    for (row, (index, commit)) in (0..area.height).zip(list.iter().enumerate().skip(top)) {
        let line = Rect { y: area.y + row, height: 1, ..area };
        let here = if Some(commit.number) == state.archive.info.commit { "▸" } else { " " };
        let mut x = put(buffer, line, 0, 0, &format!("{here} {:>4}  ", commit.number), theme.accent);
        x = put(buffer, line, x, 0, &commit.time.map_or_else(|| " ".repeat(19), text::table_time), theme.dim);
        let figures = format!("{}  +{}", text::count(commit.entries), SizeStyle::Binary.show(commit.added_bytes));
        let room = usize::from(area.width.saturating_sub(x + 2)).saturating_sub(glyphs::width(&figures) + 2);
        put(buffer, line, x + 2, 0, &glyphs::fit(&glyphs::shown(commit.message.as_bytes()), room), theme.text);
        put_right(buffer, line, 0, &figures, theme.dim);
        if index == cursor {
            buffer.set_style(line, theme.cursor);
        }
    }
    Some(Position { x: area.x, y: area.y + u16::try_from(cursor.saturating_sub(top)).unwrap_or(0) })
}
