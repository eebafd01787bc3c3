//! Previews of entries: loaded as plain data, then drawn from it.
//!
//! [`load`] is the only part that reads. It reads a window, never the whole content. A preview type
//! consists of a module with a value that implements [`Scrolled`], a variant of [`Body`], a load
//! function and a draw function.

pub mod cells;
pub mod details;
pub mod encoding;
pub mod grid;
pub mod hex;
pub mod image;
pub mod json;
pub mod seek;
pub mod source;
pub mod summary;
pub mod syntax;
pub mod terminal_image;
pub mod text;
pub mod walk;
pub mod window;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::canvas::Canvas;
use crate::limits::Limits;
use crate::preview::encoding::Encoding;
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::describe::describe;
use nra_format::entry::{Entry, Kind};
use nra_format::error::{Error, Result};
use nra_format::source::ReadAt;

/// Bytes used to detect the type of content.
pub const HEAD: usize = 8 << 10;

/// The form of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// Chosen by the type of content.
    #[default]
    Auto,
    Text,
    Hex,
    Image,
    /// A table, or indented JSON.
    Table,
    /// Metadata of the entry.
    Info,
}

/// The requested part of the content and its form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    pub form: Form,
    /// Offset of the window, in bytes. Text starts at the next line unless this is 0.
    pub offset: u64,
    /// The offset of a line and its known number.
    pub anchor: Option<(u64, u64)>,
    /// Offset to show, in bytes.
    pub place: u64,
    /// Bytes per row of hexadecimal.
    pub hex_columns: u16,
    /// A position to find first. The window is placed around it.
    pub seek: Option<seek::Seek>,
    pub canvas: Canvas,
    pub limits: Limits,
}

/// A loaded window of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub form: Form,
    pub body: Body,
    /// Length of the whole content, in bytes.
    pub size: u64,
}

/// Content in one of the forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Text(text::Page),
    Hex(hex::Page),
    Image(image::Page),
    Json(json::Page),
    Grid(grid::Page),
    /// Metadata, or a remark instead of content.
    Details(details::Details),
}

/// A window of rows that can be scrolled.
pub trait Scrolled {
    /// Returns the number of rows in the window.
    fn rows(&self) -> usize;

    /// Returns the number of screen rows that a row needs when wrapped to `columns`.
    fn height(&self, _row: usize, _columns: u16) -> usize {
        1
    }

    /// Returns the offset of a row in the content, in bytes.
    fn offset(&self, row: usize) -> u64 {
        row as u64
    }

    /// Returns the row that contains an offset.
    fn row(&self, offset: u64) -> usize {
        usize::try_from(offset).unwrap_or(usize::MAX).min(self.rows().saturating_sub(1))
    }

    /// Returns the offset for a window that starts at a row or shortly before it.
    fn start(&self, row: usize) -> u64 {
        self.offset(row)
    }

    /// Returns the offset of the end of the window, in bytes.
    fn end(&self) -> u64 {
        self.offset(self.rows())
    }

    /// Returns the length of a unit that must not be cut, in bytes.
    fn unit(&self) -> u64 {
        1
    }

    /// Returns how to find a row by its number in the whole content; `None` if rows are not
    /// numbered.
    fn numbered(&self, _number: u64) -> Option<seek::Seek> {
        None
    }

    /// Returns whether one row has a cursor.
    fn has_cursor(&self) -> bool {
        false
    }

    /// Returns whether the window starts at the start of the content.
    fn at_start(&self) -> bool {
        true
    }

    /// Returns whether the window ends at the end of the content.
    fn at_end(&self) -> bool {
        true
    }

    /// Returns whether a row matches a pattern. Only called for windows with the whole content.
    fn matches(&self, row: usize, pattern: &regex::bytes::Regex) -> bool {
        let _ = (row, pattern);
        false
    }

    /// Returns a known line number for the next window.
    fn anchor(&self, _row: usize) -> Option<(u64, u64)> {
        None
    }
}

/// The scroll position of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scroll {
    pub top: usize,
    /// Number of wrapped screen rows of the first row that are above the screen.
    pub part: usize,
    /// Number of columns scrolled off to the left.
    pub left: usize,
    pub wrap: bool,
    /// The row under the cursor, if the form has a cursor.
    pub cursor: usize,
    pub focused: bool,
    /// The offset of the last jump, in bytes, until the window is scrolled.
    pub at: Option<u64>,
}

impl Scroll {
    /// Returns how many wrapped screen rows of a row are above the screen.
    pub fn above(&self, row: usize) -> usize {
        if self.wrap && row == self.top { self.part } else { 0 }
    }
}

impl Body {
    /// Returns the window as rows.
    pub fn scrolled(&self) -> &dyn Scrolled {
        match self {
            Self::Text(page) => page,
            Self::Hex(page) => page,
            Self::Image(page) => page,
            Self::Json(page) => page,
            Self::Grid(page) => page,
            Self::Details(details) => details,
        }
    }
}

/// Returns whether an error means damaged content. Other parts of the content may still be
/// readable.
pub fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. }) || error.is_unreadable()
}

/// Loads a window of an entry. If part of it is damaged, loads a shorter one from the requested
/// position on and returns the error as well. Stops when `awaited` returns false.
pub fn load_around_damage(
    archive: &Arc<dyn Archive>,
    entry: &Entry,
    request: &Request,
    awaited: &dyn Fn() -> bool,
) -> Result<(Preview, Option<Error>)> {
    let damage = match load(archive, entry, request, awaited) {
        Err(error) if is_damage(&error) => error,
        loaded => return loaded.map(|preview| (preview, None)),
    };
    // Nothing can be loaded from the end.
    if request.place >= entry.size {
        return Err(damage);
    }
    for part in [1, 4, 16, 64] {
        let limits = Limits { window: request.limits.window / part, ..request.limits };
        let request = Request { offset: request.place, limits, ..request.clone() };
        if let Ok(preview) = load(archive, entry, &request, awaited) {
            return Ok((preview, Some(damage)));
        }
    }
    Err(damage)
}

/// Loads a window of an entry. Stops when `awaited` returns false.
pub fn load(archive: &Arc<dyn Archive>, entry: &Entry, request: &Request, awaited: &dyn Fn() -> bool) -> Result<Preview> {
    let whole = |form, body| Ok(Preview { form, body, size: entry.size });
    let remark = |form, text| whole(form, Body::Details(details::Details::remark(text)));
    if entry.kind != Kind::File || request.form == Form::Info {
        let all = request.form == Form::Info;
        let details = details::load(&**archive, entry, all, request.limits.directory, awaited)?;
        return whole(Form::Info, Body::Details(details));
    }
    if entry.size == 0 {
        return remark(Form::Text, "Empty file");
    }
    let mut head = vec![0; HEAD];
    match archive.read_at(entry, 0, &mut head) {
        Ok(len) => head.truncate(len),
        // Text and hexadecimal may be readable at another position.
        Err(error) if is_damage(&error) && request.form != Form::Image => head.clear(),
        Err(error) => return Err(error),
    }
    let encoding = Encoding::detect(&head).filter(|_| !head.is_empty());
    let is_text = encoding == Some(Encoding::Utf8);
    let is_binary = encoding.is_none();
    if matches!(request.form, Form::Auto | Form::Image) {
        match image::format(&head).filter(|_| request.form == Form::Image || is_binary) {
            Some(format) => {
                return whole(Form::Image, Body::Image(image::load(&**archive, entry, format, request, awaited)?));
            }
            None if request.form == Form::Image => return remark(Form::Image, "Not a supported image format"),
            None => {}
        }
    }
    if matches!(request.form, Form::Auto | Form::Table) {
        match (table(archive, entry, request, encoding, &head), request.form) {
            (Ok(Some(page)), _) => return whole(Form::Table, Body::Grid(page)),
            (Err(error), Form::Table) => return Err(error),
            // Show the content itself if it is not a valid table after all.
            (Ok(None) | Err(_), _) => {}
        }
        let by_name = matches!(extension(entry).as_slice(), b"jsonl" | b"ndjson");
        let as_json = json::begins(&head) && (request.form == Form::Table || by_name) || json::is_dense(&head);
        if is_text && as_json {
            let is_json_lines = by_name || json::is_lines(&head);
            return whole(Form::Table, Body::Json(json::load(&**archive, entry, request, is_json_lines)?));
        }
        if request.form == Form::Table {
            return remark(Form::Table, "Not a supported table format");
        }
    }
    if request.form == Form::Hex || request.form == Form::Auto && is_binary {
        return whole(Form::Hex, Body::Hex(hex::load(&**archive, entry, request)?));
    }
    let mut page = text::load(&**archive, entry, request, encoding.unwrap_or_default())?;
    syntax::paint(&mut page.lines, &String::from_utf8_lossy(entry.path.name()), syntax::MAX_TIME);
    whole(Form::Text, Body::Text(page))
}

/// Loads an entry as a table if possible: the description of its header, or separated values, which
/// are recognised by their extension.
fn table(
    archive: &Arc<dyn Archive>,
    entry: &Entry,
    request: &Request,
    encoding: Option<Encoding>,
    head: &[u8],
) -> Result<Option<grid::Page>> {
    let is_text = encoding.is_some();
    // A container may know its entries better than their first bytes do. Text stays text unless a
    // table is requested.
    if let Some(table) = archive.describe(Some(entry))?.filter(|table| {
        let is_table = table.elements.is_some() || !is_text || request.form == Form::Table;
        is_table && !(table.facts.is_empty() && table.rows.is_empty())
    }) {
        return Ok(Some(table.into()));
    }
    let source: Arc<dyn ReadAt> = Arc::new(source::EntrySource::new(archive, entry));
    if let Some(table) = describe(&source)? {
        return Ok(Some(table.into()));
    }
    let separator = match extension(entry).as_slice() {
        b"csv" => grid::separator(head),
        b"tsv" | b"tab" => b'\t',
        _ => return Ok(None),
    };
    // Rows are split at bytes.
    match encoding.filter(|encoding| encoding.unit() == 1) {
        Some(encoding) => grid::load(&**archive, entry, request, separator, encoding).map(Some),
        None => Ok(None),
    }
}

/// Returns the extension of a name in lower case; empty if there is none.
fn extension(entry: &Entry) -> Vec<u8> {
    let name = entry.path.name();
    name.iter().rposition(|&byte| byte == b'.').map_or(Vec::new(), |dot| name[dot + 1..].to_ascii_lowercase())
}

/// Draws a preview. Returns the area of its text, without line numbers or offsets. `covered` means
/// that a dialog is drawn over it.
pub fn view(preview: &Preview, scroll: Scroll, theme: &Theme, covered: bool, area: Rect, buffer: &mut Buffer) -> Rect {
    match &preview.body {
        Body::Text(page) => return text::view(page, scroll, theme, area, buffer),
        Body::Hex(page) => return hex::view(page, scroll, theme, area, buffer),
        Body::Json(page) => return json::view(page, scroll, theme, area, buffer),
        Body::Image(page) => {
            image::view(page, theme, covered, area, buffer);
            return Rect::default();
        }
        Body::Grid(page) => grid::view(page, scroll, theme, area, buffer),
        Body::Details(details) => details::view(details, scroll, theme, area, buffer),
    }
    area
}
