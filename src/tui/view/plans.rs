//! What is planned, change by change.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::frames::Frame;
use crate::tui::glyphs;
use crate::tui::state::State;
use crate::tui::view::{dialog, put};

/// Draws the plans.
pub fn view(state: &State, cursor: usize, frame: &Frame, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.theme;
    let plans: Vec<String> = state.staged.list().iter().map(|stage| stage.told()).collect();
    let area = dialog::frame("Planned", frame, theme, state.screen, buffer);
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
