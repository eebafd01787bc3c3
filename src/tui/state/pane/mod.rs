//! The preview: entry, form, loaded window, scroll position.

mod seek;

pub use seek::{Occurrences, OccurrencesRequest, OccurrencesResponse};

use std::time::Duration;

use crate::canvas::Canvas;
use crate::limits::Limits;
use crate::preview::json::Fold;
use crate::preview::seek::{self as places, Needle, Seek};
use crate::preview::walk::{RowPart, Walk};
use crate::preview::{Body, Form, Preview, Request, Scroll, Scrolled, hex};
use nra_format::entry::{Entry, Kind};

/// Time without cursor movement before an entry is loaded.
const REST: Duration = Duration::from_millis(60);
/// More rows are loaded if fewer than this are left between the screen and the end of the window.
const MARGIN: usize = 64;

/// Requests a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewRequest {
    pub entry: Entry,
    /// Part and form.
    pub request: Request,
}

/// A preview, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewResponse {
    pub preview: Result<Preview, String>,
    pub found: SeekResult,
    /// The content needs a password; true if a wrong one was given.
    pub sealed: Option<bool>,
    /// Damage that limits what is shown.
    pub damage: Option<String>,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeekResult {
    /// There was no search.
    #[default]
    Unsought,
    /// A match at this offset, bytes.
    At(u64),
    /// A match at this offset, bytes, after the search has wrapped.
    Around(u64),
    Nowhere,
}

/// The preview pane.
#[derive(Debug, Clone, Default)]
pub struct Pane {
    pub form: Form,
    pub preview: Option<Result<Preview, String>>,
    pub scroll: Scroll,
    /// The last search text.
    pub needle: Needle,
    /// The content needs a password; true if a wrong one was given.
    pub sealed: Option<bool>,
    /// The entry shown, or to be shown.
    entry: Option<Entry>,
    /// The time at which it will be loaded.
    due: Option<Duration>,
    /// A window is requested; offset for the first row.
    waiting: Option<u64>,
    /// A search is in progress.
    seeking: bool,
    /// It is a search for text.
    seeking_text: bool,
    /// The last match, until its occurrences are counted.
    found: Option<u64>,
    /// Occurrences of the search text.
    pub(super) stops: Option<Occurrences>,
    width: u16,
    /// Columns for rows.
    columns: u16,
    pub canvas: Canvas,
    pub limits: Limits,
}

impl Pane {
    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// Returns when [`Pane::load_due`] has something to do.
    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Returns whether a preview is requested and has not been loaded.
    pub fn is_loading(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns whether a preview is due or being loaded.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some() || self.due.is_some()
    }

    /// Shows another entry, which is loaded when the cursor rests.
    pub fn show(&mut self, entry: Option<&Entry>, now: Duration) {
        if self.entry.as_ref() == entry {
            return;
        }
        self.clear();
        self.entry = entry.cloned();
        self.due = self.entry.as_ref().map(|_| now + REST);
    }

    /// Empties the pane, and keeps its settings.
    pub fn clear(&mut self) {
        *self = Self {
            form: self.form,
            needle: std::mem::take(&mut self.needle),
            width: self.width,
            columns: self.columns,
            canvas: self.canvas,
            limits: self.limits,
            scroll: Scroll { wrap: self.scroll.wrap, ..Scroll::default() },
            ..Self::default()
        };
    }

    /// Loads the entry now, if it is due or will be.
    pub fn load_now(&mut self) -> Option<PreviewRequest> {
        self.due.take()?;
        Some(self.request(0, None, 0))
    }

    /// Loads the entry if it is due.
    pub fn load_due(&mut self, now: Duration) -> Option<PreviewRequest> {
        if self.due? <= now { self.load_now() } else { None }
    }

    /// Changes the form and keeps the position.
    pub fn set_form(&mut self, form: Form) -> Option<PreviewRequest> {
        self.form = form;
        self.stops = None;
        self.entry.as_ref()?;
        self.due = None;
        let place = self.place();
        let anchor = self.anchor();
        Some(self.request(place.saturating_sub(self.limits.back()), anchor, place))
    }

    /// Sets the columns for rows, and keeps the position.
    pub fn set_columns(&mut self, columns: u16) {
        let before = std::mem::replace(&mut self.columns, columns);
        self.scroll.part = self.scroll.part * usize::from(before) / usize::from(columns.max(1));
    }

    /// Wraps or truncates long rows, and keeps the cursor visible.
    pub fn wrap(&mut self, height: usize) {
        self.scroll = Scroll { wrap: !self.scroll.wrap, left: 0, part: 0, ..self.scroll };
        let Some(walk) = self.walk().filter(|walk| walk.rows.has_cursor()) else { return };
        let top = walk.around(walk.top(&self.scroll), self.scroll.cursor, height);
        self.go(top);
    }

    pub fn resize(&mut self, (width, height): (u16, u16)) -> Option<PreviewRequest> {
        // The first row describes the picture.
        self.refit(width, Canvas { cells: (width, height.saturating_sub(1)), ..self.canvas })
    }

    /// Sets the size of a cell, pixels.
    pub fn set_font(&mut self, font: (u16, u16)) -> Option<PreviewRequest> {
        self.refit(self.width, Canvas { font, ..self.canvas })
    }

    /// Reloads a preview that depends on the size.
    fn refit(&mut self, width: u16, canvas: Canvas) -> Option<PreviewRequest> {
        let columns_changed = hex::columns(std::mem::replace(&mut self.width, width)) != hex::columns(width);
        let canvas_changed = std::mem::replace(&mut self.canvas, canvas) != canvas && canvas.protocol.sends_pixels();
        let again = match &self.preview {
            Some(Ok(Preview { body: Body::Hex(_), .. })) => columns_changed,
            Some(Ok(Preview { body: Body::Image(_), .. })) => canvas_changed,
            // The window being loaded has the previous size.
            None if self.waiting.is_some() => columns_changed || canvas_changed,
            _ => false,
        };
        if again { self.set_form(self.form) } else { None }
    }

    /// Shows a preview. Returns the damage that the preview does not show.
    pub fn show_loaded(&mut self, response: PreviewResponse) -> Option<String> {
        let awaited = self.waiting.take().unwrap_or(0);
        let sought_text = self.is_seeking_text();
        self.seeking = false;
        let place = match (response.found, response.preview.as_ref().err()) {
            // Keep the preview.
            (SeekResult::Nowhere, _) => {
                self.stops = None;
                return None;
            }
            (_, Some(error)) if response.sealed.is_none() && self.is_in_form() => {
                if sought_text {
                    self.stops = None;
                }
                return Some(error.clone());
            }
            (SeekResult::Unsought, _) => awaited,
            (SeekResult::At(place) | SeekResult::Around(place), _) => {
                self.scroll.at = Some(place);
                self.found = Some(place).filter(|_| self.seeking_text);
                place
            }
        };
        if let Ok(preview) = &response.preview {
            let window = preview.body.scrolled();
            // The cursor stays if the position is the same.
            let stays = |rows: &&dyn Scrolled| {
                response.found == SeekResult::Unsought && rows.has_cursor() && rows.offset(self.scroll.top) == place
            };
            let cursor = self.rows().filter(stays).map_or(place, |rows| rows.offset(self.scroll.cursor));
            let again = self.rows().is_some_and(|rows| rows.offset(self.scroll.top) == place);
            self.scroll.part = if again && response.found == SeekResult::Unsought { self.scroll.part } else { 0 };
            self.scroll.top = if place == 0 { 0 } else { window.row(place) };
            self.scroll.cursor = window.row(cursor).max(self.scroll.top);
            if place >= preview.size {
                // The end of the content is the last row of the screen.
                let walk = Walk { rows: window, wrap: self.wrap_columns() };
                let end = walk.end(usize::from(self.canvas.cells.1) + 1);
                self.go(walk.last(self.scroll.top).min(end));
            } else if let (Body::Text(page), SeekResult::At(_) | SeekResult::Around(_)) = (&preview.body, response.found) {
                (self.scroll.left, self.scroll.part) = self.reveal(page);
            }
        }
        self.sealed = response.sealed;
        self.preview = Some(response.preview);
        response.damage
    }

    /// Returns whether content is shown in the chosen form.
    fn is_in_form(&self) -> bool {
        matches!(&self.preview, Some(Ok(preview)) if matches!(self.form, Form::Auto) || self.form == preview.form)
    }

    /// Returns whether the file could not be read here.
    fn is_unreadable(&self) -> bool {
        matches!(&self.preview, Some(Err(_)))
            && self.sealed.is_none()
            && self.entry.as_ref().is_some_and(|entry| entry.kind == Kind::File)
    }

    pub fn step(&mut self, rows: isize, height: usize) -> Option<PreviewRequest> {
        let Some(Ok(preview)) = &self.preview else { return None };
        let window = preview.body.scrolled();
        let last = window.rows().saturating_sub(1);
        self.scroll.at = None;
        let walk = Walk { rows: window, wrap: self.wrap_columns() };
        let (top, cursor, count) = (walk.top(&self.scroll), self.scroll.cursor, rows.unsigned_abs());
        // If there is more, the next window fills the screen.
        let most = if window.at_end() { walk.end(height) } else { walk.last(last) };
        let (top, cursor) = match rows {
            _ if window.has_cursor() => walk.with_cursor(top, cursor, rows, height),
            ..0 => (walk.up(top, count).min(most), cursor),
            0.. => (walk.down(top, count).0.min(most), cursor),
        };
        let is_through = top >= walk.end(height);
        (self.scroll.top, self.scroll.part, self.scroll.cursor) = (top.row, top.part, cursor);
        let top = top.row;
        if self.waiting.is_some() {
            return None;
        }
        let place = window.offset(top);
        if !window.at_end() && top + height + MARGIN >= window.rows() {
            if last == 0 && !is_through {
                return None;
            }
            if last == 0 {
                // The rest of a line as long as the window is not shown.
                let end = window.end();
                return Some(self.request(end, None, end));
            }
            // The row in view will be in the middle of the next window, or its first row if rows
            // are so long that there are only a few.
            let from = if top > MARGIN { top - MARGIN } else { top };
            if from > 0 {
                return Some(self.request_from(from, place));
            }
            if cursor == last {
                let place = window.offset(cursor);
                return Some(self.request_from(cursor, place));
            }
        }
        if !window.at_start() && top < MARGIN {
            let anchor = self.anchor();
            return Some(self.request(place.saturating_sub(self.limits.back()), anchor, place));
        }
        None
    }

    /// Scrolls to the start or the end of the content.
    pub fn to_end(&mut self, end: bool, height: usize) -> Option<PreviewRequest> {
        if self.is_unreadable() {
            let size = self.entry.as_ref().filter(|_| end).map_or(0, |entry| entry.size);
            return Some(self.request(size.saturating_sub(self.limits.back() / 4), None, size));
        }
        let Some(Ok(preview)) = &self.preview else { return None };
        let window = preview.body.scrolled();
        self.scroll.at = None;
        let there = if end { window.at_end() } else { window.at_start() };
        if there {
            let walk = Walk { rows: window, wrap: self.wrap_columns() };
            let top = if end { walk.end(height) } else { RowPart { row: 0, part: 0 } };
            let cursor = if end { window.rows().saturating_sub(1) } else { 0 };
            (self.scroll.top, self.scroll.part, self.scroll.cursor) = (top.row, top.part, cursor);
            return None;
        }
        if end {
            let size = preview.size;
            if let Some((offset, line)) = window.anchor(self.scroll.top).filter(|(offset, _)| places::is_near_end(*offset, size))
            {
                return Some(self.seek(Seek::End(offset, line)));
            }
            return Some(self.request(size.saturating_sub(self.limits.back() / 4), None, size));
        }
        Some(self.request(0, None, 0))
    }

    pub fn scroll_sideways(&mut self, columns: isize) {
        self.scroll.left = self.scroll.left.saturating_add_signed(columns).min(8 << 10);
    }

    /// Folds or unfolds the item under the cursor. Returns whether there is one.
    pub fn fold(&mut self, fold: Fold) -> bool {
        let Some(Ok(Preview { body: Body::Json(page), .. })) = &mut self.preview else { return false };
        let above = self.scroll.cursor.saturating_sub(self.scroll.top);
        let Some(cursor) = page.fold(self.scroll.cursor, fold) else { return false };
        // The cursor keeps its screen row, unless it moves up.
        self.scroll.part = if cursor <= self.scroll.top { 0 } else { self.scroll.part };
        self.scroll.top = if cursor < self.scroll.top { cursor } else { self.scroll.top.max(cursor.saturating_sub(above)) };
        self.scroll.cursor = cursor;
        true
    }

    /// Moves the cursor to a row of the screen. Returns whether it was there already.
    pub fn click_row(&mut self, row: usize) -> bool {
        let Some(walk) = self.walk().filter(|walk| walk.rows.has_cursor()) else { return false };
        let (there, left) = walk.down(walk.top(&self.scroll), row);
        let again = left == 0 && there.row == self.scroll.cursor;
        if left == 0 {
            self.scroll.cursor = there.row;
        }
        again
    }

    /// Returns the columns that rows are wrapped to, if any.
    fn wrap_columns(&self) -> Option<u16> {
        self.scroll.wrap.then_some(self.columns)
    }

    /// Returns the loaded rows as drawn.
    fn walk(&self) -> Option<Walk<'_>> {
        Some(Walk { rows: self.rows()?, wrap: self.wrap_columns() })
    }

    /// Scrolls to a screen row.
    fn go(&mut self, top: RowPart) {
        (self.scroll.top, self.scroll.part) = (top.row, top.part);
    }

    fn rows(&self) -> Option<&dyn Scrolled> {
        match &self.preview {
            Some(Ok(preview)) => Some(preview.body.scrolled()),
            _ => None,
        }
    }

    /// Offset of the first row on the screen.
    fn place(&self) -> u64 {
        match &self.preview {
            Some(Ok(preview)) if !matches!(preview.body, Body::Details(_)) => preview.body.scrolled().offset(self.scroll.top),
            _ => 0,
        }
    }

    fn anchor(&self) -> Option<(u64, u64)> {
        self.preview.as_ref()?.as_ref().ok()?.body.scrolled().anchor(self.scroll.top)
    }

    /// Requests the window that starts with a row of this one.
    fn request_from(&mut self, row: usize, place: u64) -> PreviewRequest {
        let Some(Ok(preview)) = &self.preview else { return self.request(place, None, place) };
        let window = preview.body.scrolled();
        // From the preceding line break on, so that the row is complete.
        let (offset, anchor) = (window.start(row).saturating_sub(1), window.anchor(row));
        self.request(offset, anchor, place)
    }

    fn request(&mut self, offset: u64, anchor: Option<(u64, u64)>, place: u64) -> PreviewRequest {
        self.waiting = Some(place);
        self.seeking = false;
        let entry = self.entry.clone().expect("requests are made for an entry only");
        let hex_columns = hex::columns(self.width);
        let (canvas, limits) = (self.canvas, self.limits);
        let request = Request { form: self.form, offset, anchor, place, hex_columns, seek: None, canvas, limits };
        PreviewRequest { entry, request }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::preview;
    use crate::tests::sample;
    use nra_format::archive::Archive;

    fn settle(archive: &Arc<dyn Archive>, pane: &mut Pane, request: Option<PreviewRequest>) {
        if let Some(PreviewRequest { entry, request }) = request {
            let preview = preview::load(archive, &entry, &request, &|| true).map_err(|error| error.to_string());
            drop(pane.show_loaded(PreviewResponse { preview, found: SeekResult::Unsought, sealed: None, damage: None }));
        }
    }

    fn line(pane: &Pane) -> (String, Option<u64>) {
        match pane.preview.as_ref().unwrap().as_ref().unwrap() {
            Preview { body: Body::Text(page), .. } => {
                (page.lines[pane.scroll.top].text.clone(), page.first_number.map(|first| first + pane.scroll.top as u64))
            }
            other => panic!("no text: {other:?}"),
        }
    }

    #[test]
    fn long_text_scrolls_by_windows() {
        let content: Vec<u8> = (1..=60_000).flat_map(|number| format!("this is line {number}\n").into_bytes()).collect();
        let archive = sample::with_contents(&[("text", &content)]);
        let mut pane = Pane::default();
        pane.show(Some(&archive.entry(0).unwrap()), Duration::ZERO);
        assert_eq!(pane.load_due(Duration::from_millis(10)), None);
        let request = pane.load_due(REST);
        settle(&archive, &mut pane, request);
        let mut expected = 1;
        while expected + 40 < 60_000 {
            assert_eq!(line(&pane), (format!("this is line {expected}"), Some(expected)));
            let request = pane.step(37, 40);
            settle(&archive, &mut pane, request);
            expected += 37;
        }
        let request = pane.to_end(true, 40);
        settle(&archive, &mut pane, request);
        assert_eq!(pane.to_end(true, 40), None);
        assert_eq!(line(&pane).0, "this is line 59961");
        let request = pane.to_end(false, 40);
        settle(&archive, &mut pane, request);
        assert_eq!(line(&pane), ("this is line 1".to_owned(), Some(1)));
    }

    #[test]
    fn position_stays_when_form_changes() {
        let content: Vec<u8> = (1..=60_000).flat_map(|number| format!("this is line {number}\n").into_bytes()).collect();
        let archive = sample::with_contents(&[("text", &content)]);
        let mut pane = Pane::default();
        pane.resize((80, 40));
        pane.show(Some(&archive.entry(0).unwrap()), Duration::ZERO);
        let request = pane.load_now();
        settle(&archive, &mut pane, request);
        let request = pane.step(3_000, 40);
        settle(&archive, &mut pane, request);
        let (before, number) = line(&pane);
        let request = pane.set_form(Form::Hex);
        settle(&archive, &mut pane, request);
        assert!(matches!(&pane.preview, Some(Ok(Preview { body: Body::Hex(_), .. }))));
        let request = pane.set_form(Form::Text);
        settle(&archive, &mut pane, request);
        // A row of bytes begins within the line before.
        let expected: u64 = before.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(number, Some(expected));
        assert!(line(&pane).0.ends_with(&(expected - 1).to_string()), "{:?}", line(&pane));
    }
}
