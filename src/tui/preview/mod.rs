//! What an entry looks like inside: loaded as plain data, drawn from it.
//!
//! [`load`] is the only part that reads, and reads a window, never the whole. A kind of preview is a module with a value that implements
//! [`Scrolled`], a variant of [`Body`], a way to load it and a function that draws it.

pub mod encoding;
pub mod grid;
pub mod hex;
pub mod image;
pub mod json;
pub mod seek;
pub mod sent;
pub mod sheet;
pub mod source;
pub mod summary;
pub mod syntax;
pub mod text;
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

/// Bytes that tell what kind of content it is.
pub const HEAD: usize = 8 << 10;

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
    /// A picture.
    Image,
    /// Rows and columns, or indented values.
    Table,
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
    /// What is to be in view, bytes.
    pub place: u64,
    /// Bytes in a row of hex.
    pub hex_columns: u16,
    /// A place to find first; the window lies around it.
    pub seek: Option<seek::Seek>,
    /// What pictures are drawn on.
    pub canvas: Canvas,
    /// How much is read.
    pub limits: Limits,
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
    /// A picture.
    Image(image::Page),
    /// Objects and lists that fold.
    Json(json::Page),
    /// Rows of cells.
    Grid(grid::Page),
    /// Facts, or why there is nothing to see.
    Sheet(sheet::Sheet),
}

/// A window of rows that can be scrolled.
pub trait Scrolled {
    /// Returns how many rows the window has.
    fn rows(&self) -> usize;

    /// Returns how many rows of a screen a row takes where long ones are wrapped, in so many columns.
    fn height(&self, _row: usize, _columns: u16) -> usize {
        1
    }

    /// Returns the offset in the content where a row begins, bytes.
    fn offset(&self, row: usize) -> u64 {
        row as u64
    }

    /// Returns the row that an offset lies in.
    fn row(&self, offset: u64) -> usize {
        usize::try_from(offset).unwrap_or(usize::MAX).min(self.rows().saturating_sub(1))
    }

    /// Returns the offset of a window that begins with a row, or a little before.
    fn start(&self, row: usize) -> u64 {
        self.offset(row)
    }

    /// Returns the offset where the window ends, bytes.
    fn end(&self) -> u64 {
        self.offset(self.rows())
    }

    /// Returns the bytes that belong together where the content is cut.
    fn unit(&self) -> u64 {
        1
    }

    /// Returns what finds a row by its number in the whole content; `None` where the window has all that is counted.
    fn numbered(&self, _number: u64) -> Option<seek::Seek> {
        None
    }

    /// Says whether one of the rows is under a cursor.
    fn has_cursor(&self) -> bool {
        false
    }

    /// Says whether the window begins where the content does.
    fn at_start(&self) -> bool {
        true
    }

    /// Says whether the window ends where the content does.
    fn at_end(&self) -> bool {
        true
    }

    /// Says whether a row matches a pattern. Only asked of windows that hold all there is.
    fn holds(&self, row: usize, pattern: &regex::bytes::Regex) -> bool {
        let _ = (row, pattern);
        false
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
    /// Rows of the screen that the first row would take above it, where it is wrapped.
    pub part: usize,
    /// Columns left out at the left.
    pub left: usize,
    /// Long lines go on in the next row.
    pub wrap: bool,
    /// The row under the cursor, in what has one.
    pub cursor: usize,
    /// The keys go here.
    pub focused: bool,
    /// The offset that was gone to, until the window is scrolled on, bytes.
    pub at: Option<u64>,
}

impl Scroll {
    /// Returns how many parts of a row lie above the screen.
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
            Self::Sheet(sheet) => sheet,
        }
    }
}

/// Says whether content that does not read is damaged: what stands elsewhere may read.
pub fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. }) || error.is_unreadable()
}

/// Loads a window of an entry; where some of that is damaged a shorter one, from the place on that is to be in view, and says why. What takes long ends
/// early when it is no longer awaited.
///
/// # Errors
///
/// As reading the archive does.
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
    // There is nothing at the end to begin with.
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

/// Loads a window of an entry. What takes long ends early when it is no longer awaited.
///
/// # Errors
///
/// As reading the archive does.
pub fn load(archive: &Arc<dyn Archive>, entry: &Entry, request: &Request, awaited: &dyn Fn() -> bool) -> Result<Preview> {
    let whole = |form, body| Ok(Preview { form, body, size: entry.size });
    let remark = |form, text| whole(form, Body::Sheet(sheet::Sheet::remark(text)));
    if entry.kind != Kind::File || request.form == Form::Info {
        let all = request.form == Form::Info;
        let sheet = sheet::load(&**archive, entry, all, request.limits.directory, awaited)?;
        return whole(Form::Info, Body::Sheet(sheet));
    }
    if entry.size == 0 {
        return remark(Form::Text, "empty file");
    }
    let mut head = vec![0; HEAD];
    match archive.read_at(entry, 0, &mut head) {
        Ok(len) => head.truncate(len),
        // What is shown as bytes or text may read where it is not the start that is damaged.
        Err(error) if is_damage(&error) && request.form != Form::Image => head.clear(),
        Err(error) => return Err(error),
    }
    let encoding = Encoding::of(&head).filter(|_| !head.is_empty());
    let is_text = encoding == Some(Encoding::Utf8);
    let is_binary = encoding.is_none();
    if matches!(request.form, Form::Auto | Form::Image) {
        match image::format(&head).filter(|_| request.form == Form::Image || is_binary) {
            Some(format) => {
                return whole(Form::Image, Body::Image(image::load(&**archive, entry, format, request, awaited)?));
            }
            None if request.form == Form::Image => return remark(Form::Image, "this is no image that nra knows"),
            None => {}
        }
    }
    if matches!(request.form, Form::Auto | Form::Table) {
        match (table(archive, entry, request, encoding, &head), request.form) {
            (Ok(Some(page)), _) => return whole(Form::Table, Body::Grid(page)),
            (Err(error), Form::Table) => return Err(error),
            // Content that looked like a table and is none, or a damaged one, is shown as it is.
            (Ok(None) | Err(_), _) => {}
        }
        let by_name = matches!(extension(entry).as_slice(), b"jsonl" | b"ndjson");
        let as_json = json::begins(&head) && (request.form == Form::Table || by_name) || json::is_dense(&head);
        if is_text && as_json {
            let a_line_each = by_name || json::is_lines(&head);
            return whole(Form::Table, Body::Json(json::load(&**archive, entry, request, a_line_each)?));
        }
        if request.form == Form::Table {
            return remark(Form::Table, "no rows and columns that nra knows");
        }
    }
    if request.form == Form::Hex || request.form == Form::Auto && is_binary {
        return whole(Form::Hex, Body::Hex(hex::load(&**archive, entry, request)?));
    }
    let mut page = text::load(&**archive, entry, request, encoding.unwrap_or_default())?;
    syntax::paint(&mut page.lines, &String::from_utf8_lossy(entry.path.name()), syntax::MAX_TIME);
    whole(Form::Text, Body::Text(page))
}

/// Loads an entry as rows and columns if it has any: what its header tells, or separated values, which only their name gives away.
fn table(
    archive: &Arc<dyn Archive>,
    entry: &Entry,
    request: &Request,
    encoding: Option<Encoding>,
    head: &[u8],
) -> Result<Option<grid::Page>> {
    let is_text = encoding.is_some();
    // A container may know its entries better than their first bytes do. Text stays text where it is not wanted as a table.
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
    // Rows are cut at bytes.
    match encoding.filter(|encoding| encoding.unit() == 1) {
        Some(encoding) => grid::load(&**archive, entry, request, separator, encoding).map(Some),
        None => Ok(None),
    }
}

/// Returns what is behind the last dot of a name, in small letters; nothing where there is no dot.
fn extension(entry: &Entry) -> Vec<u8> {
    let name = entry.path.name();
    name.iter().rposition(|&byte| byte == b'.').map_or(Vec::new(), |dot| name[dot + 1..].to_ascii_lowercase())
}

/// Draws a preview, `covered` when something lies over it, and returns where its text stands, without what is beside it: numbers of lines, offsets.
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
        Body::Sheet(sheet) => sheet::view(sheet, scroll, theme, area, buffer),
    }
    area
}
