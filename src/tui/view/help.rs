//! The keys of a place.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::glyphs;
use crate::tui::keymap::{Group, Place};
use crate::tui::state::State;
use crate::tui::view::{dialog, put};

/// Columns of the dialog.
const WIDTH: u16 = 70;
/// Columns of the keys where there is room.
const KEYS: u16 = 20;

/// Draws the help.
pub fn view(state: &State, place: Place, top: usize, screen: Rect, buffer: &mut Buffer) -> Option<Position> {
    let lines = lines(state, place);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(screen.height.saturating_sub(2));
    let title = match place {
        Place::List => "Keys in the list",
        Place::Preview => "Keys in the preview",
        Place::Panel => "Keys",
    };
    let area = dialog::frame(title, "esc closes", WIDTH, height, &state.theme, screen, buffer);
    let keys_width = KEYS.min(area.width / 3);
    let top = top.min(lines.len().saturating_sub(usize::from(area.height)));
    for (row, line) in (0..area.height).zip(lines.iter().skip(top)) {
        match line {
            Line::Title(title) => {
                put(buffer, area, 0, row, title, state.theme.accent);
            }
            Line::Keys(keys, help) => {
                put(buffer, area, 0, row, &glyphs::fit(keys, usize::from(keys_width).saturating_sub(1)), state.theme.mark);
                let room = usize::from(area.width - keys_width);
                put(buffer, area, keys_width, row, &glyphs::fit(help, room), state.theme.text);
            }
            Line::Space => {}
        }
    }
    None
}

enum Line {
    Title(&'static str),
    Keys(String, &'static str),
    Space,
}

fn lines(state: &State, place: Place) -> Vec<Line> {
    let mut lines = Vec::new();
    for group in Group::ALL {
        let commands: Vec<_> =
            state.keymap.commands().filter(|(command, _)| command.group == group && command.works_in(place)).collect();
        if commands.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::Space);
        }
        lines.push(Line::Title(group.title()));
        for (command, keys) in commands {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            lines.push(Line::Keys(keys.join("  "), command.help));
        }
    }
    lines
}
