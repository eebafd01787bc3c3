//! Search in the preview: text, lines, offsets.

use std::sync::Arc;

use crate::glyphs;
use crate::preview::seek::Seek;
use crate::preview::{Body, Form, Preview, text as lines};
use crate::state::{Pane, PreviewRequest, SeekResult};
use nra_format::entry::Entry;

/// Requests all occurrences of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrencesRequest {
    pub entry: Entry,
    pub needle: String,
    /// Count one per line.
    pub by_line: bool,
}

/// Occurrences of a text found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrencesResponse {
    /// Offsets, ascending.
    pub places: Arc<[u64]>,
    pub all: bool,
}

/// Occurrences of the search text, and the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrences {
    needle: String,
    places: Arc<[u64]>,
    all: bool,
    at: u64,
}

impl Occurrences {
    /// Returns the number of the current match: `3 of 17`, with `+` while there may be more.
    fn position(&self) -> String {
        let known = self.all || self.places.last().is_some_and(|last| *last >= self.at);
        let number = self.places.partition_point(|place| *place <= self.at);
        let number = if known { nra_text::count(number as u64) } else { "?".to_owned() };
        format!("{number} of {}{}", nra_text::count(self.places.len() as u64), if self.all { "" } else { "+" })
    }
}

impl Pane {
    /// Returns the number of the current match: `3 of 17`.
    pub fn match_position(&self) -> Option<String> {
        self.stops.as_ref().map(Occurrences::position)
    }

    /// Requests all occurrences of a text that has been found.
    pub fn count(&mut self) -> Option<OccurrencesRequest> {
        let at = self.found.take()?;
        let known = self.stops.as_mut().filter(|stops| stops.needle == self.needle.text());
        if let Some(stops) = known {
            stops.at = at;
            return None;
        }
        let (entry, needle) = (self.entry()?.clone(), self.needle.text().to_owned());
        let by_line = matches!(&self.preview, Some(Ok(Preview { body: Body::Text(_), .. })));
        self.stops = Some(Occurrences { needle: needle.clone(), places: Arc::from([]), all: false, at });
        Some(OccurrencesRequest { entry, needle, by_line })
    }

    /// Shows the number of occurrences.
    pub fn counted(&mut self, response: OccurrencesResponse) {
        if let Some(stops) = &mut self.stops {
            (stops.places, stops.all) = (response.places, response.all);
        }
    }

    pub fn is_counting(&self) -> bool {
        self.stops.as_ref().is_some_and(|stops| !stops.all)
    }

    /// Drops an incomplete count. The next search starts it again.
    pub fn stop_counting(&mut self) {
        self.stops.take_if(|stops| !stops.all);
    }

    /// Returns whether a search is in progress.
    pub fn is_seeking(&self) -> bool {
        self.seeking
    }

    pub fn is_seeking_text(&self) -> bool {
        self.seeking && self.seeking_text
    }

    /// Stops a search and reloads the preview.
    pub fn stop_seeking(&mut self) -> Option<PreviewRequest> {
        if self.seeking { self.set_form(self.form) } else { None }
    }

    /// Returns the scroll position that shows the match in the first row: columns to the left and,
    /// if lines are wrapped, screen rows above.
    pub(super) fn reveal(&self, page: &lines::Page) -> (usize, usize) {
        let (left, line) = (self.scroll.left, page.lines.get(self.scroll.top));
        let found = line.zip(self.needle.pattern()).and_then(|(line, pattern)| {
            let found = pattern.find(line.text.as_bytes()).filter(|found| !found.is_empty())?;
            Some((line.text.get(..found.start())?, line.text.get(..found.end())?))
        });
        let Some((before, with)) = found else { return (left, 0) };
        if let Some(columns) = self.wrap_columns() {
            let height = lines::parts(before, usize::from(columns - page.gutter(columns))).count();
            return (left, if self.seeking_text { height - 1 } else { 0 });
        }
        let (start, end) = (glyphs::width(before), glyphs::width(with));
        let width = usize::from(self.width.saturating_sub(page.gutter(self.width) + 3));
        let left = if end <= width {
            0
        } else if (left..left + width).contains(&start) && end <= left + width {
            left
        } else {
            start.saturating_sub(width / 4)
        };
        (left, 0)
    }

    /// Searches the last text: from the first row in view on (after it if `again`), or backwards.
    /// The search wraps. Returns the result as an error if it is known without a request.
    pub fn find(&mut self, back: bool, again: bool) -> Result<PreviewRequest, SeekResult> {
        let needle = self.needle.text().to_owned();
        if self.is_unreadable() {
            return Ok(self.seek(Seek::Text { needle, from: 0, back, line: None }));
        }
        let Some(Ok(preview)) = &self.preview else { return Err(SeekResult::Unsought) };
        let window = preview.body.scrolled();
        let top = if window.has_cursor() { self.scroll.cursor } else { self.scroll.top };
        let is_content = matches!(preview.body, Body::Text(_) | Body::Hex(_)) && matches!(preview.form, Form::Text | Form::Hex);
        if is_content || !(window.at_start() && window.at_end()) {
            let place = window.offset(top);
            let number = |row: usize| window.anchor(row).map(|(_, number)| number);
            // A row of bytes may have several matches.
            let found = self.scroll.at.filter(|_| matches!(preview.body, Body::Hex(_)) && (back || again));
            let (from, line) = match (found, window.offset(top + 1)) {
                (Some(found), _) => (found + u64::from(!back), None),
                _ if back || !again => (place, number(top)),
                (None, next) if next > place => (next, number(top + 1)),
                (None, _) => (place + window.unit(), number(top)),
            };
            return Ok(self.seek(Seek::Text { needle, from, back, line }));
        }
        let holds = |row: &usize| self.needle.pattern().is_some_and(|pattern| window.matches(*row, pattern));
        let (rows, from) = (window.rows(), top + usize::from(again && !back));
        let row =
            if back { (0..from).rev().chain((from..rows).rev()).find(holds) } else { (from..rows).chain(0..from).find(holds) };
        let Some(row) = row else {
            self.stops = None;
            return Err(SeekResult::Nowhere);
        };
        let places = (0..rows).filter(holds).map(|row| row as u64).collect();
        self.stops = Some(Occurrences { needle, places, all: true, at: row as u64 });
        (self.scroll.top, self.scroll.part, self.scroll.cursor) = (row, 0, row);
        let found = if back == (row < from) { SeekResult::At } else { SeekResult::Around };
        Err(found(row as u64))
    }

    /// Goes to a line or row, or to an offset in hexadecimal.
    pub fn jump(&mut self, number: u64) -> Option<PreviewRequest> {
        if self.is_unreadable() {
            return Some(self.seek(if self.form == Form::Text { Seek::Line(number) } else { Seek::Offset(number) }));
        }
        let Some(Ok(preview)) = &self.preview else { return None };
        let window = preview.body.scrolled();
        if let Some(seek) = window.numbered(number) {
            return Some(self.seek(seek));
        }
        let last = window.rows().saturating_sub(1);
        self.scroll.top = usize::try_from(number.saturating_sub(1)).unwrap_or(last).min(last);
        (self.scroll.part, self.scroll.cursor) = (0, self.scroll.top);
        None
    }

    pub(super) fn seek(&mut self, seek: Seek) -> PreviewRequest {
        self.seeking_text = matches!(seek, Seek::Text { .. });
        let mut request = self.request(0, None, 0);
        if let Some(Ok(preview)) = &self.preview {
            request.request.form = preview.form;
        }
        request.request.seek = Some(seek);
        self.seeking = true;
        request
    }
}
