//! Draws the header: the path and the totals of the archive.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::path_bar;
use crate::state::SEPARATOR;
use crate::state::State;
use crate::view::{put, put_right};

pub fn view(state: &State, area: Rect, buffer: &mut Buffer) {
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let unusual = state.archive.damaged || state.archive.is_past;
    let style = if unusual { state.settings.theme.warning } else { state.settings.theme.dim };
    put_right(buffer, inner, 0, &path_bar::totals(state, area.width), style);
    let parts = path_bar::parts(state, path_bar::room(state, area.width));
    let mut x = 0;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            x = put(buffer, inner, x, 0, SEPARATOR, state.settings.theme.dim);
        }
        let style = if index + 1 == parts.len() { state.settings.theme.accent } else { state.settings.theme.text };
        x = put(buffer, inner, x, 0, &part.text, style);
    }
}
