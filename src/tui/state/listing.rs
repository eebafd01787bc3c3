//! Rows of the list: a loaded window, the cursor, and which rows to load next.

use std::ops::Range;

use crate::rows::{Anchor, Order, Page, Scope};
use crate::state::{Line, RowDetails};
use nra_format::entry::{Entry, Kind};
use nra_format::path::EntryPath;

/// Rows per request.
pub const FETCH: usize = 256;
/// Most rows that are kept, and most bytes of their names. Beyond that, only rows near the cursor
/// are kept.
const KEEP: usize = 2_048;
const KEEP_NAMES: usize = 4 << 20;
/// More rows are loaded if fewer than this are left between cursor and end of the window.
const MARGIN: usize = 128;

/// Requests rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsRequest {
    pub scope: Scope,
    pub anchor: Anchor,
    pub count: usize,
}

/// Rows, or why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsResponse {
    pub anchor: Anchor,
    pub page: Result<Page, RowsError>,
}

/// The reason there are no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowsError {
    Gone,
    /// They cannot be read: the error.
    Failed(String),
}

/// A list of entries of which a window is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub scope: Scope,
    pub lines: Vec<Line>,
    pub cursor: usize,
    /// Index of the first row on the screen.
    pub top: usize,
    pub height: usize,
    /// Numbers of everything below the directory.
    pub below: Range<u64>,
    /// Rows, or an error, have been loaded.
    pub loaded: bool,
    pub error: Option<String>,
    /// Unreadable entries.
    pub lost: u64,
    /// The largest size of a row so far, bytes: the full length of a bar.
    pub largest: u64,
    /// The window begins with the list.
    first: bool,
    /// The window ends with the list.
    last: bool,
    /// The rows that are requested.
    waiting: Option<Anchor>,
    /// Rows the cursor still has to move once they are loaded.
    owed: isize,
    /// Screen row of the cursor once rows are loaded.
    row: Option<usize>,
}

impl Listing {
    /// Starts a list, with the cursor on `at` or on the first row, and returns the request for its
    /// rows.
    pub fn open(scope: Scope, at: Option<EntryPath>, height: usize) -> (Self, RowsRequest) {
        let mut listing = Self { scope, height, ..Self::default() };
        let request = listing.request(at.map_or(Anchor::Start, Anchor::AroundPath));
        (listing, request)
    }

    /// Sets the screen row of the cursor once rows are loaded.
    pub fn keep_row(&mut self, row: usize) {
        self.row = Some(row);
    }

    /// Returns the row under the cursor.
    pub fn current(&self) -> Option<&Line> {
        self.lines.get(self.cursor)
    }

    /// Returns the entry under the cursor.
    pub fn entry(&self) -> Option<&Entry> {
        self.current().map(|line| &line.row.entry)
    }

    /// Returns the rows on the screen.
    pub fn visible(&self) -> Range<usize> {
        self.top.min(self.lines.len())..(self.top + self.height).min(self.lines.len())
    }

    /// Returns whether all rows are loaded.
    pub fn is_whole(&self) -> bool {
        self.loaded && self.first && self.last
    }

    /// Returns the position of the cursor, 0 to 1; `None` if all rows are on the screen.
    pub fn position(&self) -> Option<f64> {
        if self.first && self.last && self.lines.len() <= self.height {
            return None;
        }
        let (at, range) = match (&self.scope.order, self.current()) {
            (_, None) => return None,
            (Order::Path, Some(line)) => (line.row.number, self.below.clone()),
            (Order::Listed(numbers), Some(line)) => (line.row.place, 0..numbers.len() as u64),
        };
        if self.last && self.cursor + 1 == self.lines.len() {
            return Some(1.0);
        }
        let span = range.end.saturating_sub(range.start + 1).max(1);
        Some((at.saturating_sub(range.start)) as f64 / span as f64)
    }

    /// Returns the numbers of a row and everything below it, if the following rows or its details
    /// contain them.
    pub fn numbers(&self, index: usize) -> Option<Range<u64>> {
        let line = self.lines.get(index)?;
        let number = line.row.number;
        if line.row.entry.kind != Kind::Directory {
            return Some(number..number + 1);
        }
        let in_order = self.scope.order == Order::Path;
        let mut following = self.lines[index + 1..].iter().filter(|_| in_order);
        match following.find(|next| next.row.depth <= line.row.depth) {
            Some(next) => Some(number..next.row.number),
            None if in_order && self.last => Some(number..self.below.end),
            None => line.facts?.numbers.map(|(from, to)| from..to),
        }
    }

    /// Returns whether the cursor still has to move by rows that are not loaded.
    pub fn has_owed_rows(&self) -> bool {
        self.owed != 0
    }

    /// Returns whether the cursor goes to another part of the list, which is not loaded.
    pub fn is_jumping(&self) -> bool {
        self.loaded && matches!(self.waiting, Some(Anchor::Start | Anchor::End | Anchor::Around(_) | Anchor::AroundPath(_)))
    }

    /// Returns whether rows are requested.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Moves the cursor by rows.
    pub fn step(&mut self, rows: isize) -> Option<RowsRequest> {
        if self.lines.is_empty() {
            return None;
        }
        let last = isize::try_from(self.lines.len() - 1).unwrap_or(isize::MAX);
        let wanted = isize::try_from(self.cursor).unwrap_or(isize::MAX).saturating_add(self.owed).saturating_add(rows);
        let reached = wanted.clamp(0, last);
        let ended = if wanted < reached { self.first } else { self.last };
        self.owed = if ended { 0 } else { wanted - reached };
        self.cursor = usize::try_from(reached).unwrap_or(0);
        self.show_cursor();
        self.fetch()
    }

    /// Scrolls by rows; the cursor stays on the screen.
    pub fn scroll(&mut self, rows: isize) -> Option<RowsRequest> {
        let most = self.lines.len().saturating_sub(self.height);
        self.top = self.top.saturating_add_signed(rows).min(most);
        self.cursor = self.cursor.clamp(self.top, (self.top + self.height).saturating_sub(1).max(self.top));
        self.cursor = self.cursor.min(self.lines.len().saturating_sub(1));
        self.fetch()
    }

    /// Moves the cursor to a row of the window.
    pub fn select(&mut self, index: usize) -> Option<RowsRequest> {
        self.cursor = index.min(self.lines.len().saturating_sub(1));
        self.owed = 0;
        self.show_cursor();
        self.fetch()
    }

    /// Moves the cursor to the first row of the list.
    pub fn to_first(&mut self) -> Option<RowsRequest> {
        if self.first { self.select(0) } else { Some(self.request(Anchor::Start)) }
    }

    /// Moves the cursor to the last row of the list.
    pub fn to_last(&mut self) -> Option<RowsRequest> {
        if self.last { self.select(self.lines.len().saturating_sub(1)) } else { Some(self.request(Anchor::End)) }
    }

    /// Moves the cursor to the row of a path.
    pub fn to_path(&mut self, path: EntryPath) -> Option<RowsRequest> {
        match self.lines.iter().position(|line| line.row.entry.path == path) {
            Some(index) => self.select(index),
            None => Some(self.request(Anchor::AroundPath(path))),
        }
    }

    /// Moves the cursor to the row at a place.
    pub fn to_place(&mut self, place: u64) -> Option<RowsRequest> {
        match self.lines.iter().position(|line| line.row.place == place) {
            Some(index) => self.select(index),
            None => Some(self.request(Anchor::Around(place))),
        }
    }

    /// Returns the rows on the screen that `lacks` details, if one of them has not been requested.
    /// Details of other rows are no longer requested, so that those on the screen come first.
    pub fn missing_details(&mut self, lacks: impl Fn(&Line) -> bool) -> Vec<(u64, Entry)> {
        let visible = self.visible();
        let lacks = |line: &Line| line.facts.is_none() && lacks(line);
        if !self.lines[visible.clone()].iter().any(|line| lacks(line) && !line.requested) {
            return Vec::new();
        }
        self.lines.iter_mut().for_each(|line| line.requested = false);
        let lines = self.lines[visible].iter_mut().filter(|line| lacks(line));
        lines
            .map(|line| {
                line.requested = true;
                (line.row.number, line.row.entry.clone())
            })
            .collect()
    }

    /// Adds details of rows, in ascending order of entry numbers.
    pub fn add_details(&mut self, facts: &[(u64, RowDetails)]) {
        for line in &mut self.lines {
            if let Ok(index) = facts.binary_search_by_key(&line.row.number, |(number, _)| *number) {
                line.facts = Some(facts[index].1);
            }
        }
        self.measure();
    }

    /// Updates the largest size.
    fn measure(&mut self) {
        let sizes = self.lines.iter().filter_map(Line::size);
        self.largest = sizes.max().unwrap_or(0).max(self.largest);
    }

    /// Sets the number of rows on the screen.
    pub fn resize(&mut self, height: usize) -> Option<RowsRequest> {
        self.height = height;
        self.show_cursor();
        self.fetch()
    }

    /// Adds loaded rows, unless others are awaited.
    pub fn add_rows(&mut self, response: RowsResponse) -> Option<RowsRequest> {
        if self.waiting.as_ref() != Some(&response.anchor) {
            return None;
        }
        self.waiting = None;
        let page = match response.page {
            Ok(page) => page,
            Err(error) => {
                self.error = Some(match error {
                    RowsError::Gone => "no such directory".to_owned(),
                    RowsError::Failed(error) => error,
                });
                self.loaded = true;
                // Loaded rows stay. Another request would fail again.
                (self.first, self.last, self.owed) = (true, true, 0);
                return None;
            }
        };
        self.lost = self.lost.max(page.lost);
        self.below = page.below;
        let lines = page.rows.into_iter().map(|row| Line { row, facts: None, requested: false });
        match response.anchor {
            Anchor::After(_) => {
                self.lines.extend(lines);
                self.last = page.last;
                let (keep, near) = self.kept();
                let excess = self.lines.len().saturating_sub(keep).min(self.cursor.saturating_sub(near));
                self.drop_front(excess);
            }
            Anchor::Before(_) => {
                let before = self.lines.len();
                self.lines.splice(0..0, lines);
                let added = self.lines.len() - before;
                self.cursor += added;
                self.top += added;
                self.first = page.first;
                let (keep, near) = self.kept();
                let keep = keep.max(self.cursor + near);
                if self.lines.len() > keep {
                    self.lines.truncate(keep);
                    self.last = false;
                }
            }
            Anchor::Start | Anchor::End | Anchor::Around(_) | Anchor::AroundPath(_) => {
                self.lines = lines.collect();
                (self.first, self.last) = (page.first, page.last);
                self.cursor = page.at;
                let row = self.row.take().unwrap_or(self.height / 2);
                self.top = if response.anchor == Anchor::Start { 0 } else { self.cursor.saturating_sub(row) };
                self.loaded = true;
            }
        }
        self.measure();
        self.show_cursor();
        if self.owed != 0 {
            let owed = std::mem::take(&mut self.owed);
            return self.step(owed);
        }
        self.fetch()
    }

    /// Returns how many rows are kept, and how many of them on each side of the cursor.
    fn kept(&self) -> (usize, usize) {
        let names: usize = self.lines.iter().map(|line| line.row.names()).sum();
        // With fewer rows, they would be requested again.
        let near = self.margin() + 1;
        if names > KEEP_NAMES { (2 * near, near) } else { (KEEP, KEEP / 4) }
    }

    /// Returns the number of rows between the cursor and the end of the window below which more are
    /// requested.
    fn margin(&self) -> usize {
        MARGIN.max(self.height * 2)
    }

    fn drop_front(&mut self, rows: usize) {
        if rows > 0 {
            self.lines.drain(..rows);
            self.cursor -= rows;
            self.top = self.top.saturating_sub(rows);
            self.first = false;
        }
    }

    fn show_cursor(&mut self) {
        let height = self.height.max(1);
        if self.cursor < self.top {
            self.top = self.cursor;
        }
        if self.cursor >= self.top + height {
            self.top = self.cursor + 1 - height;
        }
        // No empty rows below the last one while there are rows above.
        if self.last {
            self.top = self.top.min(self.lines.len().saturating_sub(height));
        }
    }

    /// Requests more rows if the cursor is near an end of the window.
    fn fetch(&mut self) -> Option<RowsRequest> {
        if self.waiting.is_some() {
            return None;
        }
        let margin = self.margin();
        let (front, back) = (self.lines.first()?.row.place, self.lines.last()?.row.place);
        if !self.last && (self.lines.len() - self.cursor <= margin || self.owed > 0) {
            return Some(self.request(Anchor::After(back)));
        }
        if !self.first && (self.cursor < margin || self.owed < 0) {
            return Some(self.request(Anchor::Before(front)));
        }
        None
    }

    fn request(&mut self, anchor: Anchor) -> RowsRequest {
        self.waiting = Some(anchor.clone());
        RowsRequest { scope: self.scope.clone(), anchor, count: FETCH.max(self.height * 2) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::rows;
    use crate::tests::sample;
    use nra_format::archive::Archive;

    /// Answers requests until there are no more.
    fn settle(archive: &dyn Archive, listing: &mut Listing, mut request: Option<RowsRequest>) {
        while let Some(RowsRequest { scope, anchor, count }) = request {
            let page =
                rows::page(archive, &scope, &anchor, count, &|| true).map_err(|error| RowsError::Failed(error.to_string()));
            request = listing.add_rows(RowsResponse { anchor, page });
        }
    }

    fn name(listing: &Listing) -> String {
        listing.entry().unwrap().path.to_string()
    }

    #[test]
    fn window_follows_cursor() {
        let names: Vec<String> = (0..5_000).map(|number| format!("{number:04}")).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let (mut listing, request) = Listing::open(Scope::default(), None, 20);
        settle(&*archive, &mut listing, Some(request));
        for row in 0..5_000 {
            assert_eq!(name(&listing), format!("{row:04}"));
            assert!(listing.visible().contains(&listing.cursor));
            assert!(listing.lines.len() <= KEEP + FETCH);
            let request = listing.step(1);
            settle(&*archive, &mut listing, request);
        }
        let request = listing.to_first();
        settle(&*archive, &mut listing, request);
        assert_eq!(name(&listing), "0000");
        let request = listing.to_last();
        settle(&*archive, &mut listing, request);
        assert_eq!((name(&listing), listing.position()), ("4999".to_owned(), Some(1.0)));
        let request = listing.step(-3_000);
        settle(&*archive, &mut listing, request);
        assert_eq!(name(&listing), "1999");
    }

    #[test]
    fn details_of_visible_rows_are_requested_again() {
        let names: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let (mut listing, request) = Listing::open(Scope::default(), None, 10);
        settle(&*archive, &mut listing, Some(request));
        let asked =
            |listing: &mut Listing| listing.missing_details(|_| true).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(asked(&mut listing), Vec::from_iter(0..10));
        assert!(asked(&mut listing).is_empty());
        // Two are known; four more come to the screen, and with them what has not been answered.
        listing.add_details(&[(4, RowDetails::default()), (5, RowDetails::default())]);
        listing.step(13);
        assert_eq!(asked(&mut listing), Vec::from_iter(6..14));
        // Details of rows that were scrolled away are not awaited, and requested again later.
        listing.step(50);
        asked(&mut listing);
        listing.step(-63);
        assert_eq!(asked(&mut listing), [0, 1, 2, 3, 6, 7, 8, 9]);
    }

    #[test]
    fn few_rows_with_long_names_are_kept() {
        let names: Vec<String> = (0..400).map(|number| format!("{number:04}{}", "x".repeat(30_000))).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let listed = Order::Listed(Arc::new((0..400).collect()));
        for order in [Order::Path, listed] {
            let (mut listing, request) = Listing::open(Scope { order, ..Scope::default() }, None, 20);
            settle(&*archive, &mut listing, Some(request));
            let mut most = 0;
            let steps = (0..400).map(|row| (row, 1)).chain((0..399).rev().map(|row| (row, -1)));
            for (row, step) in steps.take(798) {
                let request = listing.step(if row == 0 { 0 } else { step });
                settle(&*archive, &mut listing, request);
                assert!(name(&listing).starts_with(&format!("{row:04}")), "{row}");
                most = most.max(listing.lines.iter().map(|line| line.row.names()).sum::<usize>());
            }
            // All would be 12 MB: it is what is near the cursor, and a page more.
            assert!(most < (2 * 129 + 1) * 30_004 + (2 << 20), "{most}");
        }
    }

    #[test]
    fn steps_add_up_before_rows_are_loaded() {
        let names: Vec<String> = (0..3_000).map(|number| format!("{number:04}")).collect();
        let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let (mut listing, request) = Listing::open(Scope::default(), None, 20);
        settle(&*archive, &mut listing, Some(request));
        let mut asked = None;
        for _ in 0..2_000 {
            asked = asked.or(listing.step(1));
        }
        for _ in 0..10 {
            asked = asked.or(listing.step(-1));
        }
        assert!(listing.has_owed_rows());
        settle(&*archive, &mut listing, asked);
        assert_eq!((name(&listing), listing.has_owed_rows()), ("1990".to_owned(), false));
        // Beyond the end there is nothing to go to.
        let mut asked = None;
        for _ in 0..5_000 {
            asked = asked.or(listing.step(1));
        }
        settle(&*archive, &mut listing, asked);
        assert_eq!((name(&listing), listing.has_owed_rows()), ("2999".to_owned(), false));
        let request = listing.step(-1);
        settle(&*archive, &mut listing, request);
        assert_eq!(name(&listing), "2998");
    }

    #[test]
    fn stale_responses_are_ignored() {
        let archive = sample::archive(&["a", "b"]);
        let (mut listing, request) = Listing::open(Scope::default(), None, 20);
        let page = rows::page(&*archive, &request.scope, &request.anchor, 9, &|| true);
        let page = page.map_err(|error| RowsError::Failed(error.to_string()));
        assert_eq!(listing.add_rows(RowsResponse { anchor: Anchor::End, page: page.clone() }), None);
        assert!(!listing.loaded);
        listing.add_rows(RowsResponse { anchor: Anchor::Start, page });
        assert!(listing.loaded);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn cursor_matches_full_list(steps in proptest::collection::vec(-900isize..900, 1..40), height in 1usize..60) {
            let names: Vec<String> = (0..3_000).map(|number| format!("{number:04}")).collect();
            let archive = sample::archive(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let (mut listing, request) = Listing::open(Scope::default(), None, height);
            settle(&*archive, &mut listing, Some(request));
            let mut expected = 0isize;
            for step in steps {
                let request = listing.step(step);
                settle(&*archive, &mut listing, request);
                expected = (expected + step).clamp(0, 2_999);
                prop_assert_eq!(name(&listing), format!("{expected:04}"));
                prop_assert!(listing.visible().contains(&listing.cursor));
            }
        }
    }
}
