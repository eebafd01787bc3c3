//! Where the space goes: bars in the list, or a map of the directory.

use ratatui::layout::Rect;

use crate::state::arrange::Arrangement;
use crate::treemap::squarified;
use nra_format::path::EntryPath;

/// How sizes are shown.
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
    /// What is in the directory, the largest first, as far as it can be seen.
    pub tiles: Vec<Tile>,
    /// How many more there are, and their bytes.
    pub rest: (u64, u64),
    /// It has come.
    pub loaded: bool,
    /// How the list was arranged before.
    pub before: Arrangement,
}

/// A part of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// The entry.
    pub path: EntryPath,
    /// It is a directory.
    pub directory: bool,
    /// Size of its content, with all that is below it, bytes.
    pub bytes: u64,
}

/// Tiles, with the number and the size of the entries that have none.
pub type Tiles = (Vec<Tile>, (u64, u64));

impl Map {
    /// Returns where each tile is on the screen; what is left out has room at the end.
    pub fn places(&self, area: Rect) -> Vec<Rect> {
        let mut sizes: Vec<u64> = self.tiles.iter().map(|tile| tile.bytes).collect();
        // All of it would be in no order.
        sizes.push(self.rest.1.min(sizes.last().copied().unwrap_or(0)));
        squarified(&sizes, area)
    }
}

impl Sizes {
    /// Says whether bars are shown.
    pub fn has_bars(&self) -> bool {
        *self == Self::Bars
    }
}
