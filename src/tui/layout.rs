//! The layout of the screen.

use std::ops::RangeInclusive;

use ratatui::layout::{Position, Rect};
use serde::{Deserialize, Serialize};

/// Minimum width for the preview beside the list, in columns.
pub const TWO_PANES: u16 = 100;
/// Minimum size of the screen. Smaller screens show only a message.
pub const SMALLEST: (u16, u16) = (20, 5);

/// Default share of the list beside the preview, in percent.
pub const SHARE: u16 = 58;
/// Allowed shares of the list.
pub const SHARES: RangeInclusive<u16> = 20..=80;

pub const MESSAGE_ROWS: u16 = 3;

/// Areas of the screen. Areas that are not shown are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Areas {
    /// Path and totals.
    pub header: Rect,
    pub column_headers: Rect,
    pub list: Rect,
    /// Line between the panes.
    pub divider: Rect,
    /// Title of the preview.
    pub title: Rect,
    pub preview: Rect,
    pub messages: Rect,
    pub status: Rect,
    pub hints: Rect,
}

/// Options of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutOptions {
    /// The preview is shown.
    pub preview: bool,
    /// The preview fills the screen.
    pub zoom: bool,
    /// Share of the list, in percent.
    pub share: u16,
    /// Previous messages are shown.
    pub messages: bool,
}

/// Returns a centred area of the given size, limited to the screen.
pub fn centred(width: u16, height: u16, screen: Rect) -> Rect {
    let (width, height) = (width.min(screen.width), height.min(screen.height));
    Rect { x: screen.x + (screen.width - width) / 2, y: screen.y + (screen.height - height) / 2, width, height }
}

/// The visible part of a list in a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices {
    area: Rect,
    /// Screen rows per choice.
    each: u16,
    cursor: usize,
    top: usize,
    len: usize,
}

impl Choices {
    /// Shows as many of `len` choices as fit, including the one under the cursor.
    pub fn new(area: Rect, each: u16, cursor: usize, len: usize) -> Self {
        let room = usize::from(area.height / each.max(1)).max(1);
        Self { area, each: each.max(1), cursor, top: (cursor + 1).saturating_sub(room), len }
    }

    /// Iterates over the visible choices: index and area.
    pub fn rows(self) -> impl Iterator<Item = (usize, Rect)> {
        let Self { area, each, top, len, .. } = self;
        let rows = (area.top()..area.bottom()).step_by(usize::from(each));
        (top..len).zip(rows).map(move |(index, y)| (index, Rect { y, height: each.min(area.bottom() - y), ..area }))
    }

    /// Returns whether a choice is under the cursor.
    pub fn is_cursor(self, index: usize) -> bool {
        index == self.cursor
    }

    /// Returns the index of the choice at a position.
    pub fn at(self, place: Position) -> Option<usize> {
        self.rows().find(|(_, rows)| (rows.top()..rows.bottom()).contains(&place.y)).map(|(index, _)| index)
    }

    /// Returns the position of the choice under the cursor.
    pub fn cursor(self) -> Option<Position> {
        self.rows().find(|(index, _)| self.is_cursor(*index)).map(|(_, rows)| rows.as_position())
    }
}

impl Areas {
    /// Divides a screen into areas.
    pub fn new(screen: Rect, options: LayoutOptions) -> Self {
        if screen.width < SMALLEST.0 || screen.height < SMALLEST.1 {
            return Self::default();
        }
        let line = |y: u16| Rect { y, height: 1, ..screen };
        let low = screen.height < 12;
        // A low screen has no hint line, which leaves room for a row.
        let footer = if low { 1 } else { 2 };
        let hints = if low { Rect::default() } else { line(screen.bottom() - 1) };
        let mut areas = Self { header: line(screen.top()), status: line(screen.bottom() - footer), hints, ..Self::default() };
        let rows = if options.messages && !low { MESSAGE_ROWS } else { 0 };
        areas.messages = Rect { y: areas.status.y - rows, height: rows, ..screen };
        let body = Rect { y: screen.y + 1, height: screen.height - 1 - footer - rows, ..screen };
        let below = |area: Rect| Rect { y: area.y + 1, height: area.height - 1, ..area };
        let head = |area: Rect| Rect { height: 1, ..area };
        if options.zoom {
            (areas.title, areas.preview) = (head(body), below(body));
            return areas;
        }
        let split = options.preview && screen.width >= TWO_PANES;
        let width = if split { screen.width * options.share.clamp(*SHARES.start(), *SHARES.end()) / 100 } else { screen.width };
        let left = Rect { width, ..body };
        (areas.column_headers, areas.list) = (head(left), below(left));
        if split {
            areas.divider = Rect { x: body.x + width, width: 1, ..body };
            let right = Rect { x: body.x + width + 2, width: body.width - width - 2, ..body };
            (areas.title, areas.preview) = (head(right), below(right));
        }
        areas
    }
}

/// Columns before a name, for the mark.
pub const FRONT: u16 = 2;

/// A column of the list, or the order of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Column {
    /// In the order of the archive.
    #[default]
    Name,
    /// Size as a bar. Not a sort order.
    Bar,
    /// The largest first.
    Size,
    /// The largest first.
    Stored,
    /// Stored size divided by size, the worst first.
    Ratio,
    /// Modification time, the newest first.
    Time,
    /// Permissions, the most permissive first.
    Mode,
    /// File, directory, link. Directories first.
    Kind,
}

impl Column {
    /// Selectable columns. If there is not room for all, the first ones are shown.
    pub const CHOICES: [Self; 6] = [Self::Size, Self::Ratio, Self::Time, Self::Mode, Self::Stored, Self::Kind];

    /// Returns the header of the column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Bar => "",
            Self::Size => "size",
            Self::Stored => "stored",
            Self::Ratio => "ratio",
            Self::Time => "modified",
            Self::Mode => "mode",
            Self::Kind => "kind",
        }
    }

    /// Returns the possible widths, best first.
    fn widths(self) -> &'static [u16] {
        match self {
            Self::Name => &[],
            Self::Bar => &[10, 6],
            Self::Size | Self::Stored | Self::Mode => &[10],
            Self::Ratio => &[6],
            // Date and time, or date only.
            Self::Time => &[16, 10],
            Self::Kind => &[9],
        }
    }
}

/// The columns of the list that fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    pub name: u16,
    /// The columns to the right of the name, with their widths.
    right: Vec<(Column, u16)>,
}

impl Columns {
    /// Minimum width of names: percent of the list, and columns.
    const NAME: (u16, u16) = (35, 12);
    /// Space between columns.
    const GAP: u16 = 2;

    /// Allocates `width` columns of the screen: first to the sort column, then to the chosen
    /// columns in their order.
    pub fn new(width: u16, bars: bool, chosen: &[Column], sorted: Option<Column>) -> Self {
        let names = Self::NAME.1.max(u16::try_from(u32::from(width) * u32::from(Self::NAME.0) / 100).unwrap_or(u16::MAX));
        let mut room = width.saturating_sub(FRONT + names + 1);
        let mut right: Vec<(Column, u16)> = Vec::new();
        let mut add = |column: Column| {
            if column.widths().is_empty() || right.iter().any(|(other, _)| *other == column) {
                return true;
            }
            let Some(width) = column.widths().iter().find(|width| **width + Self::GAP <= room) else { return false };
            room -= width + Self::GAP;
            right.push((column, *width));
            true
        };
        sorted.map(&mut add);
        if bars {
            // Bars belong beside the sizes that they show.
            let _ = !chosen.contains(&Column::Size) || add(Column::Size);
            add(Column::Bar);
        }
        let _ = chosen.iter().all(|column| add(*column));
        let order = |column: &Column| match column {
            Column::Bar => 0,
            column => 1 + chosen.iter().position(|other| other == column).unwrap_or(chosen.len()),
        };
        right.sort_by_key(|(column, _)| order(column));
        let used: u16 = right.iter().map(|(_, width)| width + Self::GAP).sum();
        Self { name: width.saturating_sub(FRONT + used + 1), right }
    }

    /// Iterates over the columns to the right of the name: start and width of each.
    pub fn right_of_name(&self) -> impl Iterator<Item = (Column, u16, u16)> {
        let mut x = FRONT + self.name;
        self.right.iter().map(move |(column, width)| {
            let start = x + Self::GAP;
            x = start + width;
            (*column, start, *width)
        })
    }

    pub fn has(&self, column: Column) -> bool {
        column == Column::Name || self.right.iter().any(|(other, _)| *other == column)
    }

    pub fn at(&self, x: u16) -> Column {
        let right = self.right_of_name().find(|(_, start, width)| (*start..start + width).contains(&x));
        right.map_or(Column::Name, |(column, ..)| column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_under_cursor_is_visible_and_clickable() {
        for height in 1..9 {
            for each in 1..=height {
                for (len, cursor) in (1..12).flat_map(|len| (0..len).map(move |cursor| (len, cursor))) {
                    let area = Rect::new(3, 2, 10, height);
                    let choices = Choices::new(area, each, cursor, len);
                    let place = choices.cursor().expect("it is shown");
                    assert_eq!(choices.at(place), Some(cursor));
                    for (index, rows) in choices.rows() {
                        assert!(area.union(rows) == area && index < len, "{index} {rows}");
                        assert_eq!(choices.at(Position { y: rows.bottom() - 1, ..rows.as_position() }), Some(index));
                    }
                }
            }
        }
        assert_eq!(Choices::new(Rect::new(0, 0, 9, 9), 1, 0, 0).cursor(), None);
    }

    #[test]
    fn columns_fit_and_names_keep_their_minimum() {
        for width in 20..300 {
            for (bars, sorted) in [(false, None), (true, None), (true, Some(Column::Kind)), (false, Some(Column::Stored))] {
                let columns = Columns::new(width, bars, &Column::CHOICES, sorted);
                assert!(width < 28 || sorted.is_none_or(|sorted| columns.has(sorted)), "{width}");
                let end = columns.right_of_name().last().map_or(FRONT + columns.name, |(_, start, width)| start + width);
                assert!(end <= width, "{width}");
                assert!(columns.name >= 12, "{width} {bars} {columns:?}");
                for (column, start, _) in columns.right_of_name() {
                    assert_eq!(columns.at(start), column);
                }
            }
        }
    }

    #[test]
    fn columns_are_allocated_in_chosen_order() {
        let shown = |width, chosen: &[Column], sorted| {
            let columns = Columns::new(width, false, chosen, sorted);
            columns.right_of_name().map(|(column, ..)| column).collect::<Vec<_>>()
        };
        let chosen = [Column::Stored, Column::Kind, Column::Size];
        assert_eq!(shown(300, &chosen, None), chosen);
        assert_eq!(shown(40, &chosen, None), [Column::Stored, Column::Kind]);
        assert_eq!(shown(40, &chosen, Some(Column::Mode)), [Column::Mode]);
        assert_eq!(shown(120, &[], Some(Column::Mode)), [Column::Mode]);
        assert_eq!(shown(120, &Column::CHOICES, None), Column::CHOICES);
    }

    #[test]
    fn areas_fill_the_screen_without_overlap() {
        for width in SMALLEST.0..150 {
            for height in SMALLEST.1..50 {
                for (preview, zoom) in [(false, false), (true, false), (true, true)] {
                    let screen = Rect::new(0, 0, width, height);
                    let areas = Areas::new(screen, LayoutOptions { preview, zoom, share: 58, messages: height % 2 == 0 });
                    let all = [
                        areas.header,
                        areas.column_headers,
                        areas.list,
                        areas.divider,
                        areas.title,
                        areas.preview,
                        areas.messages,
                        areas.status,
                        areas.hints,
                    ];
                    for (index, area) in all.iter().enumerate().filter(|(_, area)| !area.is_empty()) {
                        assert!(screen.union(*area) == screen, "{area} of {screen}");
                        assert!(
                            all[..index].iter().all(|other| other.is_empty() || !other.intersects(*area)),
                            "{area} of {screen}"
                        );
                    }
                    assert!(zoom || areas.list.height > 0);
                }
            }
        }
    }
}
