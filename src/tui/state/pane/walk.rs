//! Ways through the rows of a preview as the screen has them: a long one that is wrapped takes
//! several rows there.

use crate::preview::{Scroll, Scrolled};

/// A row of the screen: a row of the window and which of its parts, where it is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPart {
    /// The row of the window.
    pub row: usize,
    /// Its part.
    pub part: usize,
}

/// Rows as they are drawn in so many columns.
pub struct Walk<'a> {
    /// The window.
    pub rows: &'a dyn Scrolled,
    /// Columns, unless rows are cut at the edge of the screen.
    pub wrap: Option<u16>,
}

impl Walk<'_> {
    /// Returns how many rows of the screen a row takes.
    pub fn height(&self, row: usize) -> usize {
        self.wrap.map_or(1, |columns| self.rows.height(row, columns).max(1))
    }

    /// Returns what the screen begins with.
    pub fn top(&self, scroll: &Scroll) -> RowPart {
        RowPart { row: scroll.top, part: scroll.part.min(self.height(scroll.top) - 1) }
    }

    /// Goes down so many rows of the screen; ends at the last one, and returns how many were left
    /// to go.
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

    /// Goes up so many rows of the screen; ends at the first one.
    pub fn up(&self, from: RowPart, mut count: usize) -> RowPart {
        let RowPart { mut row, mut part } = from;
        while count > part && row > 0 {
            count -= part + 1;
            row -= 1;
            part = self.height(row) - 1;
        }
        RowPart { row, part: part.saturating_sub(count) }
    }

    /// Returns the last part of a row.
    pub fn last(&self, row: usize) -> RowPart {
        RowPart { row, part: self.height(row) - 1 }
    }

    /// Returns what a screen of so many rows begins with that ends with the window.
    pub fn end(&self, height: usize) -> RowPart {
        self.whole(self.rows.rows().saturating_sub(1), height)
    }

    /// Moves the cursor by rows of the screen, by one row of the window at least; one that is
    /// higher than the screen is scrolled through first. Returns what the screen begins with then,
    /// and the row under the cursor.
    pub fn with_cursor(&self, top: RowPart, cursor: usize, rows: isize, height: usize) -> (RowPart, usize) {
        let (count, first, whole) = (rows.unsigned_abs(), RowPart { row: cursor, part: 0 }, self.whole(cursor, height));
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

    /// Returns what the screen begins with for a row to be on it, if need be another one than
    /// before. Of a row that is higher than the screen some part is.
    pub fn around(&self, top: RowPart, row: usize, height: usize) -> RowPart {
        let (first, whole) = (RowPart { row, part: 0 }, self.whole(row, height));
        if whole > first { top.clamp(self.up(first, height.max(1) - 1), self.last(row)) } else { top.clamp(whole, first) }
    }

    /// Returns what the screen begins with that ends with a row.
    fn whole(&self, row: usize, height: usize) -> RowPart {
        self.up(self.last(row), height.max(1) - 1)
    }
}
