//! Draws the pending changes.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use crate::frames::Frame;
use crate::glyphs;
use crate::layout::Choices;
use crate::state::State;
use crate::view::{dialog, put};

/// Draws one pending change per row.
pub fn view(state: &State, choices: Choices, cursor: usize, frame: &Frame, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.settings.theme;
    let pending = state.changes.pending.list();
    dialog::frame(frame, theme, state.screen, buffer);
    for (index, row) in choices.rows() {
        put(buffer, row, 0, 0, &glyphs::fit(&pending[index].describe(), usize::from(row.width)), theme.text);
        if index == cursor {
            buffer.set_style(row, theme.cursor);
        }
    }
    choices.cursor()
}
