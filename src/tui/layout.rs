//! Where things are on the screen.

use std::ops::RangeInclusive;

use ratatui::layout::Rect;

/// From this many columns on the preview stands beside the list.
pub const TWO_PANES: u16 = 100;
/// Fewer columns or rows than these show nothing but a remark.
pub const SMALLEST: (u16, u16) = (20, 5);

/// Share of the list beside the preview unless the user moves the divider, percent.
pub const SHARE: u16 = 58;
/// Shares that leave room for both.
pub const SHARES: RangeInclusive<u16> = 20..=80;

/// Rows of what was said before.
pub const SAID: u16 = 3;

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
    /// What was said before.
    pub said: Rect,
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
    /// What was said before stays in sight.
    pub said: bool,
}

/// Returns an area in the middle of a screen, as large as is wanted and possible.
pub fn centred(width: u16, height: u16, screen: Rect) -> Rect {
    let (width, height) = (width.min(screen.width), height.min(screen.height));
    Rect { x: screen.x + (screen.width - width) / 2, y: screen.y + (screen.height - height) / 2, width, height }
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
        let rows = if wanted.said && !low { SAID } else { 0 };
        areas.said = Rect { y: areas.status.y - rows, height: rows, ..screen };
        let body = Rect { y: screen.y + 1, height: screen.height - 1 - footer - rows, ..screen };
        let below = |area: Rect| Rect { y: area.y + 1, height: area.height - 1, ..area };
        let head = |area: Rect| Rect { height: 1, ..area };
        if wanted.zoom {
            (areas.title, areas.preview) = (head(body), below(body));
            return areas;
        }
        let split = wanted.preview && screen.width >= TWO_PANES;
        let width = if split { screen.width * wanted.share.clamp(*SHARES.start(), *SHARES.end()) / 100 } else { screen.width };
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

/// Columns in front of a name: room for a mark.
pub const FRONT: u16 = 2;

/// Widths of the columns of the list; 0 = not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Name.
    pub name: u16,
    /// Size as a bar.
    pub bar: u16,
    /// Size.
    pub size: u16,
    /// Bytes in the archive.
    pub stored: u16,
    /// Stored to raw.
    pub ratio: u16,
    /// Time of modification.
    pub time: u16,
    /// Permissions.
    pub mode: u16,
}

/// A column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Name.
    Name,
    /// Size as a bar.
    Bar,
    /// Size.
    Size,
    /// Bytes in the archive.
    Stored,
    /// Stored to raw.
    Ratio,
    /// Time of modification.
    Time,
    /// Permissions.
    Mode,
}

impl Column {
    /// Those that can be chosen.
    pub const CHOICES: [Self; 5] = [Self::Size, Self::Stored, Self::Ratio, Self::Time, Self::Mode];

    /// Returns what stands above the column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Bar => "",
            Self::Size => "size",
            Self::Stored => "stored",
            Self::Ratio => "ratio",
            Self::Time => "modified",
            Self::Mode => "mode",
        }
    }
}

impl Columns {
    /// Divides so many columns of the screen.
    pub fn new(width: u16, bars: bool, chosen: &[Column]) -> Self {
        let (size, ratio, time, mode) = match width {
            92.. => (10, 6, 16, 10),
            68.. => (10, 6, 16, 0),
            54.. => (10, 6, 10, 0),
            40.. => (10, 6, 0, 0),
            28.. => (10, 0, 0, 0),
            _ => (0, 0, 0, 0),
        };
        let wanted = |column, width| if chosen.contains(&column) { width } else { 0 };
        let (size, ratio) = (wanted(Column::Size, size), wanted(Column::Ratio, ratio));
        let stored = wanted(Column::Stored, if width >= 104 { 10 } else { 0 });
        let (time, mode) = (wanted(Column::Time, time), wanted(Column::Mode, mode));
        // Bars take the place of times where there is not room for both.
        let bar = if bars && width >= 40 { 10 } else { 0 };
        let time = if bar > 0 && width < 80 { 0 } else { time };
        let ratio = if bar > 0 && width < 54 { 0 } else { ratio };
        let used: u16 =
            [bar, size, stored, ratio, time, mode].into_iter().filter(|width| *width > 0).map(|width| width + 2).sum();
        Self { name: width.saturating_sub(FRONT + used + 1), bar, size, stored, ratio, time, mode }
    }

    /// Iterates over the columns right of the name: where each begins, how wide it is.
    pub fn right_of_name(&self) -> impl Iterator<Item = (Column, u16, u16)> {
        let columns = [
            (Column::Bar, self.bar),
            (Column::Size, self.size),
            (Column::Stored, self.stored),
            (Column::Ratio, self.ratio),
            (Column::Time, self.time),
            (Column::Mode, self.mode),
        ];
        let mut x = FRONT + self.name;
        columns.into_iter().filter(|(_, width)| *width > 0).map(move |(column, width)| {
            let start = x + 2;
            x = start + width;
            (column, start, width)
        })
    }

    /// Returns the column at a place.
    pub fn at(&self, x: u16) -> Column {
        let right = self.right_of_name().find(|(_, start, width)| (*start..start + width).contains(&x));
        right.map_or(Column::Name, |(column, ..)| column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_and_names_have_room() {
        for width in 20..300 {
            for bars in [false, true] {
                let columns = Columns::new(width, bars, &Column::CHOICES);
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
    fn areas_fill_the_screen_without_overlap() {
        for width in SMALLEST.0..150 {
            for height in SMALLEST.1..50 {
                for (preview, zoom) in [(false, false), (true, false), (true, true)] {
                    let screen = Rect::new(0, 0, width, height);
                    let areas = Areas::new(screen, Wanted { preview, zoom, share: 58, said: height % 2 == 0 });
                    let all = [
                        areas.header,
                        areas.heads,
                        areas.list,
                        areas.divider,
                        areas.title,
                        areas.preview,
                        areas.said,
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
