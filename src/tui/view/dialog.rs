//! Frames of what lies over the browser.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear, Padding, Widget};

use crate::tui::theme::Theme;

/// Draws a frame in the middle of the screen, as large as is wanted and possible, and returns the area inside.
pub fn frame(title: &str, footer: &str, width: u16, height: u16, theme: &Theme, screen: Rect, buffer: &mut Buffer) -> Rect {
    let (width, height) = ((width + 4).min(screen.width), (height + 2).min(screen.height));
    let x = screen.x + (screen.width - width) / 2;
    let y = screen.y + (screen.height - height) / 2;
    let area = Rect { x, y, width, height };
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.frame)
        .style(theme.dialog)
        .title(format!(" {title} "))
        .title_style(theme.accent)
        .padding(Padding::horizontal(1));
    let block = if footer.is_empty() { block } else { block.title_bottom(format!(" {footer} ")) };
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}
