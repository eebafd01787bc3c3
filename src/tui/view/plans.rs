//! What is planned, change by change.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::glyphs;
use crate::tui::state::State;
use crate::tui::view::{dialog, put};

/// Draws the plans.
pub fn view(state: &State, cursor: usize, screen: Rect, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.theme;
    let plans: Vec<String> = state.staged.list().iter().map(|stage| stage.told()).collect();
    let width = plans.iter().map(|plan| glyphs::width(plan)).max().unwrap_or(0).clamp(44, 96);
    let height = u16::try_from(plans.len()).unwrap_or(u16::MAX).min(screen.height.saturating_sub(4)).max(2);
    let keys = "u takes it back · W writes all · esc closes";
    let area = dialog::frame("Planned", keys, u16::try_from(width).unwrap_or(96), height, theme, screen, buffer);
    let top = (cursor + 1).saturating_sub(usize::from(area.height));
    for (row, (index, plan)) in (0..area.height).zip(plans.iter().enumerate().skip(top)) {
        let line = Rect { y: area.y + row, height: 1, ..area };
        put(buffer, line, 0, 0, &glyphs::fit(plan, usize::from(line.width)), theme.text);
        if index == cursor {
            buffer.set_style(line, theme.cursor);
        }
    }
    Some(Position { x: area.x, y: area.y + u16::try_from(cursor.saturating_sub(top)).unwrap_or(0) })
}
