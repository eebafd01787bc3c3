//! Draws a directory as a treemap: areas proportional to sizes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::state::{Map, State, Tile};
use crate::view::put;
use nra_text::{self, SizeStyle};

/// Draws a map with the entry under the cursor highlighted.
pub fn view(state: &State, map: &Map, headers: Rect, area: Rect, buffer: &mut Buffer) {
    let theme = &state.settings.theme;
    let (count, bytes) = map.rest;
    let head = match (map.loaded, count) {
        (false, _) => "calculating …".to_owned(),
        (true, 0) => "areas by size".to_owned(),
        _ => format!("areas by size; {} more hold {}", nra_text::count(count), SizeStyle::Binary.show(bytes)),
    };
    put(buffer, headers, 2, 0, &glyphs::fit(&head, usize::from(headers.width.saturating_sub(2))), theme.dim);
    let current = state.listing.entry().map(|entry| &entry.path);
    for (tile, place) in map.tiles.iter().zip(map.places(area)) {
        draw(tile, state, place, buffer);
        if Some(&tile.path) == current && !place.is_empty() {
            buffer.set_style(place, theme.cursor);
        }
    }
    if map.loaded && map.tiles.iter().all(|tile| tile.bytes == 0) {
        put(buffer, area, 2, 1, "No content", theme.dim);
    }
}

/// Draws a tile: a line at the top and the left, the name in the line, the size below it.
fn draw(tile: &Tile, state: &State, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let theme = &state.settings.theme;
    let line = "─".repeat(usize::from(area.width));
    put(buffer, area, 0, 0, &line, theme.dim);
    for row in 0..area.height {
        put(buffer, area, 0, row, if row == 0 { "┌" } else { "│" }, theme.dim);
    }
    let room = usize::from(area.width.saturating_sub(2));
    let (slash, style) = if tile.directory { ("/", theme.directory) } else { ("", theme.text) };
    let name = format!("{}{slash}", glyphs::printable_within(tile.path.name(), room.saturating_sub(slash.len())));
    put(buffer, area, 1, 0, glyphs::start(&name, room), style);
    // A cut number would look like another size.
    let size = SizeStyle::Binary.show(tile.bytes);
    if glyphs::width(&size) <= room {
        put(buffer, area, 1, 1, &size, theme.dim);
    }
}
