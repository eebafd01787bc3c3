//! The path as crumbs, and how much the archive holds.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::crumbs::{self, BETWEEN};
use crate::state::State;
use crate::view::{put, put_right};

/// Draws the header.
pub fn view(state: &State, area: Rect, buffer: &mut Buffer) {
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let unusual = state.archive.damaged || state.archive.is_past;
    let style = if unusual { state.settings.theme.warning } else { state.settings.theme.dim };
    put_right(buffer, inner, 0, &crumbs::totals(state, area.width), style);
    let crumbs = crumbs::crumbs(state, crumbs::room(state, area.width));
    let mut x = 0;
    for (index, crumb) in crumbs.iter().enumerate() {
        if index > 0 {
            x = put(buffer, inner, x, 0, BETWEEN, state.settings.theme.dim);
        }
        let style = if index + 1 == crumbs.len() { state.settings.theme.accent } else { state.settings.theme.text };
        x = put(buffer, inner, x, 0, &crumb.text, style);
    }
}
