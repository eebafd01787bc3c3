//! The path as crumbs, and how much the archive holds.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::text::{self, SizeStyle};
use crate::tui::glyphs;
use crate::tui::state::State;
use crate::tui::view::{put, put_right};

/// What stands between crumbs.
const BETWEEN: &str = " ▸ ";

/// Draws the header.
pub fn view(state: &State, area: Rect, buffer: &mut Buffer) {
    let inner = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let totals = totals(state, area.width);
    let room = usize::from(inner.width).saturating_sub(if totals.is_empty() { 0 } else { glyphs::width(&totals) + 2 });
    put_right(buffer, inner, 0, &totals, state.theme.dim);
    let crumbs = crumbs(state, room);
    let mut x = 0;
    for (index, crumb) in crumbs.iter().enumerate() {
        if index > 0 {
            x = put(buffer, inner, x, 0, BETWEEN, state.theme.dim);
        }
        let style = if index + 1 == crumbs.len() { state.theme.accent } else { state.theme.text };
        x = put(buffer, inner, x, 0, crumb, style);
    }
}

/// Returns the crumbs that fit: the name of the archive and as many directories as possible, counted from the innermost.
fn crumbs(state: &State, room: usize) -> Vec<String> {
    let mut all = vec![state.archive.name.clone()];
    if let Some(directory) = &state.listing.scope.directory {
        all.extend(directory.components().map(glyphs::shown));
    }
    let width = |crumbs: &[String]| {
        let gaps = crumbs.len().saturating_sub(1) * glyphs::width(BETWEEN);
        crumbs.iter().map(|crumb| glyphs::width(crumb)).sum::<usize>() + gaps
    };
    while width(&all) > room && all.len() > 2 {
        // The first crumb that goes leaves a sign; the next ones go behind it.
        if all[1] == "…" {
            all.remove(2);
            if all.len() == 2 {
                break;
            }
        } else {
            all[1] = "…".to_owned();
        }
    }
    if width(&all) > room {
        let last = all.pop().unwrap_or_default();
        return vec![glyphs::fit(&last, room).into_owned()];
    }
    all
}

fn totals(state: &State, width: u16) -> String {
    let info = &state.archive.info;
    let entries = text::counted(info.entries, "entry", "entries");
    let content = SizeStyle::Binary.show(info.content_bytes);
    let whole = SizeStyle::Binary.show(info.archive_bytes);
    match width {
        80.. => format!("{entries} · {content} → {whole}"),
        56.. => format!("{entries} · {content}"),
        36.. => text::count(info.entries),
        _ => String::new(),
    }
}
