//! Draws the help.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::glyphs;
use crate::keymap::{HelpLine, Place};
use crate::state::State;
use crate::view::put;

pub fn view(state: &State, place: Place, top: usize, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let lines = state.settings.keymap.help(place, area.width);
    let keys_width = HelpLine::keys_width(area.width);
    let top = top.min(lines.len().saturating_sub(usize::from(area.height)));
    for (row, line) in (0..area.height).zip(lines.iter().skip(top)) {
        match line {
            HelpLine::Title(title) => {
                put(buffer, area, 0, row, title, state.settings.theme.accent);
            }
            HelpLine::Keys(keys, help) => {
                let keys = glyphs::fit(keys, usize::from(keys_width).saturating_sub(1));
                put(buffer, area, 0, row, &keys, state.settings.theme.mark);
                let room = usize::from(area.width - keys_width);
                put(buffer, area, keys_width, row, &glyphs::fit(help, room), state.settings.theme.text);
            }
            HelpLine::Space => {}
        }
    }
    Some(area.as_position())
}
