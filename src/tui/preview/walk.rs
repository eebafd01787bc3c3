//! Moves through rows as the screen shows them: a wrapped row takes several screen rows.

use crate::preview::{Scroll, Scrolled};

/// A screen row: a row of the window and, if it is wrapped, which of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RowPart {
    pub row: usize,
    pub part: usize,
}

/// Rows drawn in a number of columns.
pub struct Walk<'a> {
    pub rows: &'a dyn Scrolled,
    /// Columns to wrap to; `None` if rows are cut at the edge of the screen.
    pub wrap: Option<u16>,
}

impl Walk<'_> {
    /// Returns the number of screen rows of a row.
    fn height(&self, row: usize) -> usize {
        self.wrap.map_or(1, |columns| self.rows.height(row, columns).max(1))
    }

    /// Returns the first screen row at a scroll position.
    pub fn top(&self, scroll: &Scroll) -> RowPart {
        RowPart { row: scroll.top, part: scroll.part.min(self.height(scroll.top) - 1) }
    }

    /// Moves down by `count` screen rows, at most to the last one. Returns how many were left.
    pub fn down(&self, from: RowPart, mut count: usize) -> (RowPart, usize) {
        let RowPart { mut row, mut part } = from;
        loop {
            let left = self.height(row).saturating_sub(part + 1);
            if count <= left {
                return (RowPart { row, part: part + count }, 0);
            }
            if row + 1 >= self.rows.rows() {
                return (RowPart { row, part: part + left }, count - left);
            }
            count -= left + 1;
            (row, part) = (row + 1, 0);
        }
    }

    /// Moves up by `count` screen rows, at most to the first one.
    pub fn up(&self, from: RowPart, mut count: usize) -> RowPart {
        let RowPart { mut row, mut part } = from;
        while count > part && row > 0 {
            count -= part + 1;
            row -= 1;
            part = self.height(row) - 1;
        }
        RowPart { row, part: part.saturating_sub(count) }
    }

    pub fn last(&self, row: usize) -> RowPart {
        RowPart { row, part: self.height(row) - 1 }
    }

    /// Returns the first screen row of a screen of this height that ends with the last row.
    pub fn end(&self, height: usize) -> RowPart {
        self.ending_with(self.rows.rows().saturating_sub(1), height)
    }

    /// Moves the cursor by screen rows, by at least one row of the window. A row that is higher
    /// than the screen is scrolled first. Returns the first screen row, and the row under the
    /// cursor.
    pub fn with_cursor(&self, top: RowPart, cursor: usize, rows: isize, height: usize) -> (RowPart, usize) {
        let (count, first, whole) = (rows.unsigned_abs(), RowPart { row: cursor, part: 0 }, self.ending_with(cursor, height));
        if rows > 0 && whole > first.max(top) {
            return (self.down(top, count).0.min(whole), cursor);
        }
        if rows < 0 && top > first && whole > first {
            return (self.up(top, count).max(first), cursor);
        }
        let last = self.rows.rows().saturating_sub(1);
        let cursor = if rows < 0 { self.up(first, count).row } else { self.down(first, count).0.row.max(cursor + 1).min(last) };
        (self.around(top, cursor, height), cursor)
    }

    /// Returns the first screen row that makes a row visible: `top` if possible. A row that is
    /// higher than the screen is visible in part.
    pub fn around(&self, top: RowPart, row: usize, height: usize) -> RowPart {
        let (first, whole) = (RowPart { row, part: 0 }, self.ending_with(row, height));
        if whole > first { top.clamp(self.up(first, height.max(1) - 1), self.last(row)) } else { top.clamp(whole, first) }
    }

    /// Returns the first screen row of a screen of this height that ends with a row.
    fn ending_with(&self, row: usize, height: usize) -> RowPart {
        self.up(self.last(row), height.max(1) - 1)
    }
}
