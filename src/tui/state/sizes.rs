//! Sizes as numbers, bars or a map.

use ratatui::layout::Rect;

use crate::state::Arrangement;
use crate::treemap::squarified;
use nra_format::path::EntryPath;

/// The view of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sizes {
    /// As numbers.
    #[default]
    Numbers,
    /// As bars beside the numbers.
    Bars,
    /// As areas instead of rows.
    Map(Map),
}

/// The map of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// The largest children, the largest first.
    pub tiles: Vec<Tile>,
    /// Number and size of the others.
    pub rest: (u64, u64),
    pub loaded: bool,
    /// The arrangement of the list before the map was shown.
    pub before: Arrangement,
}

/// An area of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    pub path: EntryPath,
    pub directory: bool,
    /// Size of its content and of everything below it, bytes.
    pub bytes: u64,
}

/// Areas, with number and size of the entries that have none.
pub type Tiles = (Vec<Tile>, (u64, u64));

impl Map {
    /// Returns the rectangle of each area; the last one is for the entries without an area.
    pub fn places(&self, area: Rect) -> Vec<Rect> {
        let mut sizes: Vec<u64> = self.tiles.iter().map(|tile| tile.bytes).collect();
        // Its full size would break the order.
        sizes.push(self.rest.1.min(sizes.last().copied().unwrap_or(0)));
        squarified(&sizes, area)
    }
}
