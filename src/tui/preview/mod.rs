//! What an entry looks like inside: loaded as plain data, drawn from it.
//!
//! [`load`] is the only part that reads, and reads a window, never the whole. A kind of preview is a module with a value that implements
//! [`Scrolled`], a variant of [`Body`], a way to load it and a function that draws it.

pub mod hex;
pub mod sheet;
pub mod text;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind};
use crate::format::error::Result;
use crate::tui::theme::Theme;

/// Bytes that tell what kind of content it is.
const HEAD: usize = 8 << 10;

/// How content is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// By what it is.
    #[default]
    Auto,
    /// Lines of text.
    Text,
    /// Bytes.
    Hex,
    /// Facts about the entry.
    Info,
}

/// Which part is wanted, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Form.
    pub form: Form,
    /// Where the window begins, bytes. Text begins at the next line unless this is 0.
    pub offset: u64,
    /// A place whose line number is known: offset of a line and its number.
    pub anchor: Option<(u64, u64)>,
    /// Bytes in a row of hex.
    pub hex_columns: u16,
}

/// A loaded window of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The form that was chosen.
    pub form: Form,
    /// What there is to see.
    pub body: Body,
    /// Length of the whole content, bytes.
    pub size: u64,
}

/// Content in one of its forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Lines of text.
    Text(text::Page),
    /// Bytes.
    Hex(hex::Page),
    /// Facts, or why there is nothing to see.
    Sheet(sheet::Sheet),
}

/// A window of rows that can be scrolled.
pub trait Scrolled {
    /// Returns how many rows the window has.
    fn rows(&self) -> usize;

    /// Returns the offset in the content where a row begins, bytes.
    fn offset(&self, row: usize) -> u64 {
        row as u64
    }

    /// Returns the row that an offset lies in.
    fn row(&self, offset: u64) -> usize {
        usize::try_from(offset).unwrap_or(usize::MAX).min(self.rows().saturating_sub(1))
    }

    /// Says whether the window begins where the content does.
    fn at_start(&self) -> bool {
        true
    }

    /// Says whether the window ends where the content does.
    fn at_end(&self) -> bool {
        true
    }

    /// Returns a line number that is known, for the next window.
    fn anchor(&self, _row: usize) -> Option<(u64, u64)> {
        None
    }
}

/// How a window is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scroll {
    /// First row shown.
    pub top: usize,
    /// Columns left out at the left.
    pub left: usize,
    /// Long lines go on in the next row.
    pub wrap: bool,
}

impl Body {
    /// Returns the window as rows.
    pub fn scrolled(&self) -> &dyn Scrolled {
        match self {
            Self::Text(page) => page,
            Self::Hex(page) => page,
            Self::Sheet(sheet) => sheet,
        }
    }
}

/// Loads a window of an entry.
///
/// # Errors
///
/// As reading the archive does.
pub fn load(archive: &dyn Archive, entry: &Entry, request: &Request) -> Result<Preview> {
    let whole = |form, body| Ok(Preview { form, body, size: entry.size });
    if entry.kind != Kind::File || request.form == Form::Info {
        return whole(Form::Info, Body::Sheet(sheet::load(archive, entry, request.form == Form::Info)?));
    }
    if entry.size == 0 {
        return whole(Form::Text, Body::Sheet(sheet::Sheet::remark("empty file")));
    }
    let form = match request.form {
        Form::Auto => guess(archive, entry)?,
        form => form,
    };
    match form {
        Form::Hex => whole(form, Body::Hex(hex::load(archive, entry, request)?)),
        Form::Auto | Form::Text | Form::Info => whole(Form::Text, Body::Text(text::load(archive, entry, request)?)),
    }
}

/// Says by its first bytes what a file is.
fn guess(archive: &dyn Archive, entry: &Entry) -> Result<Form> {
    let mut head = vec![0; HEAD];
    let len = archive.read_at(entry, 0, &mut head)?;
    Ok(if text::looks_like_text(&head[..len]) { Form::Text } else { Form::Hex })
}

/// Draws a preview.
pub fn view(preview: &Preview, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    match &preview.body {
        Body::Text(page) => text::view(page, scroll, theme, area, buffer),
        Body::Hex(page) => hex::view(page, scroll, theme, area, buffer),
        Body::Sheet(sheet) => sheet::view(sheet, scroll, theme, area, buffer),
    }
}
