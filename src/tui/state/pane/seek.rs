//! Places in the preview that are sought: a text, a line, an offset.

use crate::tui::glyphs;
use crate::tui::preview::seek::{self, Seek};
use crate::tui::preview::{Body, Form, Preview, text};
use crate::tui::state::pane::{Pane, PreviewRequest};

impl Pane {
    /// Says whether a place is being sought.
    pub fn is_seeking(&self) -> bool {
        self.seeking
    }

    /// Stops the search for a place: what is shown is read again.
    pub fn stop_seeking(&mut self) -> Option<PreviewRequest> {
        if self.seeking { self.set_form(self.form) } else { None }
    }

    /// Returns how many columns have to be left out at the left for the text that was sought to be seen in the first row.
    pub(super) fn reveal(&self, page: &text::Page) -> usize {
        let (left, line) = (self.scroll.left, page.lines.get(self.scroll.top));
        let found = line.zip(seek::pattern(&self.needle)).and_then(|(line, pattern)| {
            let found = pattern.find(line.text.as_bytes()).filter(|found| !found.is_empty())?;
            let column = |at: usize| line.text.get(..at).map(glyphs::width);
            column(found.start()).zip(column(found.end()))
        });
        let Some((start, end)) = found.filter(|_| !self.scroll.wrap) else { return left };
        let width = usize::from(self.width.saturating_sub(page.gutter(self.width) + 3));
        if end <= width {
            0
        } else if (left..left + width).contains(&start) && end <= left + width {
            left
        } else {
            start.saturating_sub(width / 4)
        }
    }

    /// Goes to the row that has the text sought last: the next one behind the row in view (from that one on if it is not sought `again`), or the one
    /// before.
    ///
    /// # Errors
    ///
    /// When it is known at once that there is none.
    pub fn find(&mut self, back: bool, again: bool) -> Result<Option<PreviewRequest>, &'static str> {
        let Some(Ok(preview)) = &self.preview else { return Ok(None) };
        let window = preview.body.scrolled();
        let top = if window.has_cursor() { self.scroll.cursor } else { self.scroll.top };
        let is_content = matches!(preview.body, Body::Text(_) | Body::Hex(_)) && matches!(preview.form, Form::Text | Form::Hex);
        if is_content || !(window.at_start() && window.at_end()) {
            let place = window.offset(top);
            let from = if back || !again { place } else { window.offset(top + 1).max(place + 1) };
            return Ok(Some(self.seek(Seek::Text { needle: self.needle.clone(), from, back })));
        }
        let pattern = seek::pattern(&self.needle).ok_or("this can't be sought")?;
        let holds = |row: &usize| window.holds(*row, &pattern);
        let row = if back { (0..top).rev().find(holds) } else { (top + usize::from(again)..window.rows()).find(holds) };
        self.scroll.top = row.ok_or("nothing more is found")?;
        self.scroll.cursor = self.scroll.top;
        Ok(None)
    }

    /// Goes to a line, or in bytes to an offset.
    pub fn jump(&mut self, number: u64) -> Option<PreviewRequest> {
        match &self.preview {
            Some(Ok(Preview { body: Body::Hex(_), .. })) => Some(self.seek(Seek::Offset(number))),
            Some(Ok(Preview { form: Form::Text, .. })) => Some(self.seek(Seek::Line(number))),
            Some(Ok(preview)) => {
                let last = preview.body.scrolled().rows().saturating_sub(1);
                self.scroll.top = usize::try_from(number.saturating_sub(1)).unwrap_or(last).min(last);
                self.scroll.cursor = self.scroll.top;
                None
            }
            _ => None,
        }
    }

    fn seek(&mut self, seek: Seek) -> PreviewRequest {
        let mut request = self.ask(0, None, 0);
        if let Some(Ok(preview)) = &self.preview {
            request.request.form = preview.form;
        }
        request.request.seek = Some(seek);
        self.seeking = true;
        request
    }
}
