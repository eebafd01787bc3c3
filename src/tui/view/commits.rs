//! Draws the list of commits.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::glyphs;
use crate::layout::Choices;
use crate::state::State;
use crate::view::{draw_choices, put, put_right};
use nra_format::archive::CommitInfo;
use nra_text::{self, SizeStyle};

/// Minimum width for times, figures and a message, in columns.
const WIDE: u16 = 60;

pub fn view(state: &State, list: &[CommitInfo], choices: Choices, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let theme = &state.settings.theme;
    if list.is_empty() {
        put(buffer, area, 0, 0, "reading …", theme.dim);
    }
    let numbers = list.iter().map(|commit| commit.number.to_string().len()).max().unwrap_or(1);
    draw_choices(choices, theme, buffer, |index, row, buffer| {
        let commit = &list[index];
        let here = if Some(commit.number) == state.archive.info.commit { "▸" } else { " " };
        let mut x = put(buffer, row, 0, 0, &format!("{here} {:>numbers$}  ", commit.number), theme.accent);
        let is_wide = row.width >= WIDE;
        // Date and time, or date only.
        let columns = if is_wide { 19 } else { 10 };
        let time = commit.time.map_or_else(String::new, nra_text::table_time);
        put(buffer, row, x, 0, glyphs::start(&time, columns), theme.dim);
        x += u16::try_from(columns).unwrap_or(0) + 2;
        let mut room = usize::from(row.width.saturating_sub(x));
        if is_wide {
            let figures = format!("{}  +{}", nra_text::count(commit.entries), SizeStyle::Binary.show(commit.added_bytes));
            room = room.saturating_sub(glyphs::width(&figures) + 2);
            put_right(buffer, row, 0, &figures, theme.dim);
        }
        put(buffer, row, x, 0, &glyphs::fit_start(&glyphs::printable(commit.message.as_bytes()), room), theme.text);
    })
}
