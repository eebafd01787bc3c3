//! The keys of a place.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::glyphs;
use crate::tui::keymap::{HELP, HelpLine, Place};
use crate::tui::state::State;
use crate::tui::view::{dialog, put};

/// Draws the help.
pub fn view(state: &State, place: Place, top: usize, screen: Rect, buffer: &mut Buffer) -> Option<Position> {
    let width = HELP.min(screen.width.saturating_sub(4));
    let lines = state.keymap.help(place, width);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(screen.height.saturating_sub(2));
    let area =
        dialog::frame(&format!("Keys: {}", place.title()), "/ searches · esc closes", HELP, height, &state.theme, screen, buffer);
    let keys_width = HelpLine::keys_width(area.width);
    let top = top.min(lines.len().saturating_sub(usize::from(area.height)));
    for (row, line) in (0..area.height).zip(lines.iter().skip(top)) {
        match line {
            HelpLine::Title(title) => {
                put(buffer, area, 0, row, title, state.theme.accent);
            }
            HelpLine::Keys(keys, help) => {
                put(buffer, area, 0, row, &glyphs::fit(keys, usize::from(keys_width).saturating_sub(1)), state.theme.mark);
                let room = usize::from(area.width - keys_width);
                put(buffer, area, keys_width, row, &glyphs::fit(help, room), state.theme.text);
            }
            HelpLine::Space => {}
        }
    }
    Some(Position { x: area.x, y: area.y })
}
