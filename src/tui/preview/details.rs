//! Details as labels and values: of a directory, a link or an entry; or a remark instead of
//! content.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::preview::{Scroll, Scrolled, summary};
use crate::rows::{self, Anchor, Scope};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::Result;
use nra_text::{self, SizeStyle};

/// Maximum number of children of a directory that are shown.
const MAX_CHILDREN: usize = 200;

/// Maximum width of a value in columns, more than a screen has. All values are measured when drawn.
const MAX_VALUE_WIDTH: usize = 500;

/// A page of details.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    pub lines: Vec<Line>,
}

/// A line of details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Field(String, String),
    /// Name and size of an entry, and whether it is a directory.
    Child(String, String, bool),
    Remark(String),
    Problem(String),
    Space,
}

impl Details {
    pub fn remark(text: &str) -> Self {
        Self { lines: vec![Line::Remark(text.to_owned())] }
    }

    /// Adds labels and values.
    pub fn fields(&mut self, fields: Vec<(&str, String)>) {
        fields.iter().for_each(|(label, value)| self.field(label, value));
    }

    /// Adds a label and its value. A value that is too long for any screen loses its middle.
    pub fn field(&mut self, label: &str, value: &str) {
        self.lines.push(Line::Field(label.to_owned(), glyphs::fit(value, MAX_VALUE_WIDTH).into_owned()));
    }
}

impl Scrolled for Details {
    fn rows(&self) -> usize {
        self.lines.len()
    }
}

/// Collects the details of an entry: all of them, or those that replace content. Up to `most`
/// entries below a directory are summarised. Slow parts stop when `awaited` returns false.
pub fn load(archive: &dyn Archive, entry: &Entry, all: bool, most: u64, awaited: &dyn Fn() -> bool) -> Result<Details> {
    let mut details = Details::default();
    if all {
        details.field("path", &glyphs::printable(entry.path.as_bytes()));
        details.field("kind", nra_text::kind(entry.kind));
    }
    match entry.kind {
        Kind::Directory => directory(archive, entry, &mut details, awaited)?,
        Kind::Symlink => details.field("target", &glyphs::printable(&entry.target)),
        Kind::File => {
            details.field("size", &bytes(entry.size));
            if let Some(stored) = archive.stored_bytes(entry)? {
                details.field("stored", &format!("{} ({})", bytes(stored), nra_text::percent(stored, entry.size)));
            }
        }
        Kind::Fifo => details.lines.push(Line::Remark("named pipe".to_owned())),
        Kind::CharacterDevice | Kind::BlockDevice => {
            let numbers =
                entry.device.map_or_else(|| "unknown".to_owned(), |device| format!("{}, {}", device.major, device.minor));
            details.field("device", &numbers);
        }
    }
    if all {
        common(entry, &mut details);
        content_format(archive, entry, &mut details);
    } else if entry.kind == Kind::Directory {
        let numbers = rows::subtree(archive, &entry.path, awaited)?;
        if numbers.end - numbers.start <= most {
            // An incomplete summary is not needed any more.
            let fields = summary::summary(archive, numbers, entry.path.as_bytes().len() + 1, awaited);
            details.fields(fields.unwrap_or_default());
        }
        children(archive, entry, &mut details, awaited)?;
    }
    Ok(details)
}

fn bytes(count: u64) -> String {
    if count < 1024 {
        nra_text::counted(count, "byte", "bytes")
    } else {
        format!("{} ({} bytes)", SizeStyle::Binary.show(count), nra_text::count(count))
    }
}

fn directory(archive: &dyn Archive, entry: &Entry, details: &mut Details, awaited: &dyn Fn() -> bool) -> Result<()> {
    let Some(totals) = rows::totals(archive, &entry.path, awaited)? else { return Ok(()) };
    let (one, many) = if archive.is_index_damaged() { ("readable entry", "readable entries") } else { ("entry", "entries") };
    details.field("contains", &nra_text::counted(totals.entries.saturating_sub(1), one, many));
    details.field("size", &bytes(totals.content_bytes));
    Ok(())
}

fn children(archive: &dyn Archive, entry: &Entry, details: &mut Details, awaited: &dyn Fn() -> bool) -> Result<()> {
    let scope = Scope { directory: Some(entry.path.clone()), ..Scope::default() };
    let page = rows::page(archive, &scope, &Anchor::Start, MAX_CHILDREN, awaited)?;
    details.lines.push(Line::Space);
    for row in &page.rows {
        let directory = row.entry.kind == Kind::Directory;
        let name = glyphs::printable_within(row.entry.path.name(), MAX_VALUE_WIDTH);
        let size = if row.entry.kind == Kind::File { SizeStyle::Binary.show(row.entry.size) } else { String::new() };
        details.lines.push(Line::Child(if directory { format!("{name}/") } else { name }, size, directory));
    }
    if !page.last {
        details.lines.push(Line::Remark("… and more".to_owned()));
    }
    Ok(())
}

fn common(entry: &Entry, details: &mut Details) {
    if let Some(time) = entry.modified {
        details.field("modified", &nra_text::rfc3339(time));
    }
    details.field("mode", &format!("{} ({:04o})", nra_text::mode(entry.kind, entry.metadata.mode), entry.metadata.mode));
    if let Some(owner) = &entry.metadata.owner {
        let name =
            |name: &[u8], id: u64| if name.is_empty() { id.to_string() } else { format!("{} ({id})", glyphs::printable(name)) };
        details.field("owner", &format!("{} : {}", name(&owner.user, owner.user_id), name(&owner.group, owner.group_id)));
    }
    if entry.link_group != 0 {
        details.field("hard links", &format!("group {}", entry.link_group));
    }
    if entry.implied {
        details.lines.push(Line::Remark("not stored itself, only entries below it".to_owned()));
    }
    for attribute in entry.metadata.attributes.iter() {
        details
            .field(&glyphs::printable(&attribute.name), &glyphs::printable(&attribute.value[..attribute.value.len().min(256)]));
    }
}

/// Adds the description of the content's header, or the error of reading it.
fn content_format(archive: &dyn Archive, entry: &Entry, details: &mut Details) {
    match archive.describe(Some(entry)) {
        Ok(Some(table)) => {
            details.field("archive", &archive.container().to_string());
            details.field("format", &glyphs::printable(format!("{} {}", table.format, table.brief).trim_end().as_bytes()));
            for (label, value) in &table.facts {
                details.field(&glyphs::printable(label.as_bytes()), &glyphs::printable(value.as_bytes()));
            }
        }
        Ok(None) => {}
        Err(error) => details.lines.push(Line::Problem(glyphs::printable(error.to_string().as_bytes()))),
    }
}

/// Draws a label and its value in the first row of an area.
pub fn put_field(label: &str, value: &str, label_width: usize, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    buffer.set_stringn(area.x, area.y, glyphs::fit(label, label_width), label_width, theme.dim);
    let from = u16::try_from(label_width + 2).unwrap_or(area.width).min(area.width);
    let room = usize::from(area.width - from);
    buffer.set_stringn(area.x + from, area.y, glyphs::fit(value, room), room, theme.text);
}

pub fn view(details: &Details, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let labels = details.lines.iter().filter_map(|line| match line {
        Line::Field(label, _) => Some(glyphs::width(label)),
        _ => None,
    });
    let label_width = labels.max().unwrap_or(0).min(usize::from(area.width) / 2);
    let width = usize::from(area.width);
    for (y, line) in (area.top()..area.bottom()).zip(details.lines.iter().skip(scroll.top)) {
        match line {
            Line::Field(label, value) => put_field(label, value, label_width, theme, Rect { y, ..area }, buffer),
            Line::Child(name, size, directory) => {
                let style = if *directory { theme.directory } else { theme.text };
                let room = width.saturating_sub(11);
                buffer.set_stringn(area.left(), y, glyphs::fit(name, room), room, style);
                if width > 20 {
                    buffer.set_stringn(area.right() - 10, y, format!("{size:>10}"), 10, theme.dim);
                }
            }
            Line::Remark(text) => {
                buffer.set_stringn(area.left(), y, glyphs::fit(text, width), width, theme.dim);
            }
            Line::Problem(text) => {
                buffer.set_stringn(area.left(), y, glyphs::fit(text, width), width, theme.error);
            }
            Line::Space => {}
        }
    }
}
