//! Frames of what lies over the browser.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Widget};

use crate::tui::glyphs;
use crate::tui::layout::centred;
use crate::tui::preview::Scroll;
use crate::tui::preview::sheet::{self, Line, Sheet};
use crate::tui::theme::Theme;

/// Draws a frame in the middle of the screen, as large as is wanted and possible, and returns the area inside.
pub fn frame(title: &str, footer: &str, width: u16, height: u16, theme: &Theme, screen: Rect, buffer: &mut Buffer) -> Rect {
    let area = centred(width + 4, height + 2, screen);
    Clear.render(area, buffer);
    // A wide character that ends under the frame would push it aside.
    for y in area.top()..area.bottom() {
        if area.x > screen.x && glyphs::width(buffer[(area.x - 1, y)].symbol()) > 1 {
            buffer[(area.x - 1, y)].set_symbol(" ");
        }
    }
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.frame)
        .style(theme.dialog)
        .title(format!(" {title} "))
        .title_style(theme.accent)
        .padding(Padding::horizontal(1));
    // Where there is not room for all keys, the first and the last are told.
    let mut keys: Vec<&str> = footer.split(" · ").collect();
    while keys.len() > 2 && glyphs::width(&keys.join(" · ")) + 4 > usize::from(area.width) {
        keys.remove(keys.len() - 2);
    }
    let block = if footer.is_empty() { block } else { block.title_bottom(format!(" {} ", keys.join(" · "))) };
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// Draws facts in a frame.
pub fn sheet(title: &str, sheet: &Sheet, top: usize, theme: &Theme, screen: Rect, buffer: &mut Buffer) -> Option<Position> {
    let width = |line: &Line| match line {
        Line::Fact(label, value) => glyphs::width(label).max(12) + 2 + glyphs::width(value),
        Line::Child(name, ..) => glyphs::width(name) + 12,
        Line::Remark(text) | Line::Problem(text) => glyphs::width(text),
        Line::Space => 0,
    };
    let width = sheet.lines.iter().map(width).max().unwrap_or(0).clamp(30, 90);
    let height = u16::try_from(sheet.lines.len()).unwrap_or(u16::MAX).min(screen.height.saturating_sub(2));
    let area = frame(&glyphs::fit(title, 60), "esc closes", u16::try_from(width).unwrap_or(90), height, theme, screen, buffer);
    sheet::view(sheet, Scroll { top, ..Scroll::default() }, theme, area, buffer);
    Some(Position { x: area.x, y: area.y })
}
