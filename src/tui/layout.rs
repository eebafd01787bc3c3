//! Where things are on the screen.

use ratatui::layout::Rect;

/// From this many columns on the preview stands beside the list.
pub const TWO_PANES: u16 = 100;
/// Fewer columns or rows than these show nothing but a remark.
pub const SMALLEST: (u16, u16) = (20, 5);

/// Areas of the screen. Those that are not there are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Areas {
    /// Path and totals.
    pub header: Rect,
    /// Heads of the columns.
    pub heads: Rect,
    /// Rows of the list.
    pub list: Rect,
    /// Line between the panes.
    pub divider: Rect,
    /// Title of the preview.
    pub title: Rect,
    /// The preview.
    pub preview: Rect,
    /// What is going on.
    pub status: Rect,
    /// Hints for keys.
    pub hints: Rect,
}

/// What decides on the areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The preview is switched on.
    pub preview: bool,
    /// It has the whole screen.
    pub zoom: bool,
    /// Share of the list, percent.
    pub share: u16,
}

impl Areas {
    /// Divides a screen.
    pub fn new(screen: Rect, wanted: Wanted) -> Self {
        if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
            return Self::default();
        }
        let line = |y: u16| Rect { y, height: 1, ..screen };
        let low = screen.height < 12;
        // On a low screen the line of hints makes room for a row.
        let footer = if low { 1 } else { 2 };
        let hints = if low { Rect::default() } else { line(screen.bottom() - 1) };
        let mut areas = Self { header: line(screen.top()), status: line(screen.bottom() - footer), hints, ..Self::default() };
        let body = Rect { y: screen.y + 1, height: screen.height - 1 - footer, ..screen };
        let below = |area: Rect| Rect { y: area.y + 1, height: area.height - 1, ..area };
        let head = |area: Rect| Rect { height: 1, ..area };
        if wanted.zoom {
            (areas.title, areas.preview) = (head(body), below(body));
            return areas;
        }
        let split = wanted.preview && screen.width >= TWO_PANES;
        let width = if split { screen.width * wanted.share.clamp(20, 80) / 100 } else { screen.width };
        let left = Rect { width, ..body };
        (areas.heads, areas.list) = (head(left), below(left));
        if split {
            areas.divider = Rect { x: body.x + width, width: 1, ..body };
            let right = Rect { x: body.x + width + 2, width: body.width - width - 2, ..body };
            (areas.title, areas.preview) = (head(right), below(right));
        }
        areas
    }
}
