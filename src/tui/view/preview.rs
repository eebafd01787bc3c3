//! Draws the preview beside the list or on the whole screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use regex::bytes::Regex;

use crate::glyphs;
use crate::keymap::Action;
use crate::layout::Areas;
use crate::preview::{self, Body, Form, Scroll};
use crate::state::{Focus, State};
use crate::theme::Theme;
use crate::view::{put, put_right};
use nra_text::SizeStyle;

/// Draws divider, title and content.
pub fn view(state: &State, areas: &Areas, buffer: &mut Buffer) {
    let theme = &state.settings.theme;
    for y in areas.divider.top()..areas.divider.bottom() {
        buffer.set_stringn(areas.divider.x, y, "│", 1, theme.dim);
    }
    let (title, area) = (state.layout.inner(areas.title), state.layout.inner(areas.preview));
    let Some(entry) = state.preview.entry() else { return };
    let about = match &state.preview.preview {
        _ if state.preview.is_seeking() => "searching … esc stops".to_owned(),
        Some(Ok(preview)) => match preview.form {
            Form::Image | Form::Table => {
                let format = match &preview.body {
                    Body::Image(page) => page.format,
                    Body::Grid(page) => page.format,
                    Body::Json(_) => "JSON",
                    _ => "file",
                };
                format!("{format} · {}", SizeStyle::Binary.show(preview.size))
            }
            Form::Text => {
                let encoding = if let Body::Text(page) = &preview.body { page.encoding.name() } else { None };
                let encoding = encoding.map_or_else(String::new, |name| format!("{name} "));
                format!("{encoding}text · {}", SizeStyle::Binary.show(preview.size))
            }
            Form::Hex => format!("hex · {}", SizeStyle::Binary.show(preview.size)),
            Form::Info | Form::Auto => String::new(),
        },
        Some(Err(_)) => String::new(),
        None => "reading …".to_owned(),
    };
    let about = match state.preview.match_position().filter(|_| !state.preview.is_seeking()) {
        Some(position) => format!("{position} · {about}"),
        None => about,
    };
    put_right(buffer, title, 0, &about, theme.dim);
    let room = usize::from(title.width).saturating_sub(glyphs::width(&about) + 1);
    let name = glyphs::printable(entry.path.name());
    let style = if state.layout.focus == Focus::Preview { theme.accent } else { theme.dim };
    put(buffer, title, 0, 0, &glyphs::fit(&name, room), style);
    match &state.preview.preview {
        Some(Ok(loaded)) => {
            let scroll = Scroll { focused: state.layout.focus == Focus::Preview, ..state.preview.scroll };
            let text = preview::view(loaded, scroll, theme, !state.dialogs.is_empty(), area, buffer);
            highlight(state.preview.needle.pattern(), theme, text, buffer);
            // The form was chosen for another file.
            if let (Form::Image | Form::Table, Body::Details(_)) = (loaded.form, &loaded.body)
                && let Some(key) = state.settings.keymap.key(Action::AsAuto)
            {
                put(buffer, area, 0, 1, &format!("Press {key} for the default preview"), theme.dim);
            }
        }
        Some(Err(error)) => {
            for (row, part) in (0..area.height).zip(glyphs::wrapped(error, usize::from(area.width))) {
                put(buffer, area, 0, row, part, theme.error);
            }
        }
        None => {}
    }
}

/// Highlights the matches of a search on the screen.
fn highlight(needle: Option<&Regex>, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(pattern) = needle else { return };
    for y in area.top()..area.bottom() {
        let (mut line, mut columns) = (String::new(), Vec::new());
        let mut x = area.left();
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            columns.extend(std::iter::repeat_n(x, symbol.len()));
            line.push_str(symbol);
            // The cell after a wide character is its second half.
            x += u16::try_from(glyphs::width(symbol)).unwrap_or(1).max(1);
        }
        for found in pattern.find_iter(line.as_bytes()) {
            for x in &columns[found.range()] {
                buffer[(*x, y)].set_style(theme.hit);
            }
        }
    }
}
