//! The division of the screen: panes, columns, and the divider or thumb that the mouse holds.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::layout::{Areas, Column, LayoutOptions, SHARE};
use crate::state::Sizes;

/// The pane that receives keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Focus {
    /// The list.
    #[default]
    List,
    Preview,
}

/// The division of the screen.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The preview is shown beside the list, if there is room.
    pub preview: bool,
    /// The preview fills the screen.
    pub zoom: bool,
    /// Share of the list, percent.
    pub list_share: u16,
    pub focus: Focus,
    pub columns: Vec<Column>,
    pub sizes: Sizes,
    pub dragging: bool,
    /// Time and row of the last click.
    pub last_click: Option<(Duration, u64)>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            preview: true,
            zoom: false,
            list_share: SHARE,
            focus: Focus::List,
            columns: Column::CHOICES.to_vec(),
            sizes: Sizes::default(),
            dragging: false,
            last_click: None,
        }
    }
}

impl Layout {
    /// Returns the areas of a screen; `messages` reserves rows for previous messages.
    pub fn areas(&self, screen: Rect, messages: bool) -> Areas {
        Areas::new(screen, LayoutOptions { preview: self.preview, zoom: self.zoom, share: self.list_share, messages })
    }

    /// Returns an area of the preview without its margin, which it has when it fills the screen.
    pub fn inner(&self, area: Rect) -> Rect {
        if self.zoom { Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area } } else { area }
    }
}
