//! Facts as labels and values: about a directory, a link, an entry; or a remark instead of content.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::glyphs;
use crate::preview::{Scroll, Scrolled, summary};
use crate::rows::{self, Scope, Want};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind};
use nra_format::error::Result;
use nra_text::{self, SizeStyle};

/// Children of a directory that are shown.
const CHILDREN: usize = 200;

/// Columns of a value that are kept, more than a screen has: all of them are measured when it is drawn.
const WIDEST: usize = 500;

/// A page of facts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sheet {
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line of a sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A label and its value.
    Fact(String, String),
    /// The name of an entry, its size, and whether it is a directory.
    Child(String, String, bool),
    /// A sentence.
    Remark(String),
    /// Something that is wrong.
    Problem(String),
    /// Nothing.
    Space,
}

impl Sheet {
    /// Returns a sheet with one sentence.
    pub fn remark(text: &str) -> Self {
        Self { lines: vec![Line::Remark(text.to_owned())] }
    }

    /// Returns a sheet that says what is wrong.
    pub fn problem(text: &str) -> Self {
        Self { lines: vec![Line::Problem(text.to_owned())] }
    }

    /// Adds a value with its label. One that is far too long for any screen loses its middle.
    pub fn fact(&mut self, label: &str, value: &str) {
        self.lines.push(Line::Fact(label.to_owned(), glyphs::fit(value, WIDEST).into_owned()));
    }
}

impl Scrolled for Sheet {
    fn rows(&self) -> usize {
        self.lines.len()
    }
}

/// Collects facts about an entry: all of them, or those that stand for content; up to `most` entries below a directory are gone through. What takes long ends early when it is no longer awaited.
///
/// # Errors
///
/// As reading the index does.
pub fn load(archive: &dyn Archive, entry: &Entry, all: bool, most: u64, awaited: &dyn Fn() -> bool) -> Result<Sheet> {
    let mut sheet = Sheet::default();
    if all {
        sheet.fact("path", &glyphs::shown(entry.path.as_bytes()));
        sheet.fact("kind", nra_text::kind(entry.kind));
    }
    match entry.kind {
        Kind::Directory => directory(archive, entry, &mut sheet, awaited)?,
        Kind::Symlink => sheet.fact("target", &glyphs::shown(&entry.target)),
        Kind::File => {
            sheet.fact("size", &bytes(entry.size));
            if let Some(stored) = archive.stored_bytes(entry)? {
                sheet.fact("stored", &format!("{} ({})", bytes(stored), nra_text::percent(stored, entry.size)));
            }
        }
        Kind::Fifo => sheet.lines.push(Line::Remark("a named pipe".to_owned())),
        Kind::CharacterDevice | Kind::BlockDevice => {
            let numbers =
                entry.device.map_or_else(|| "unknown".to_owned(), |device| format!("{}, {}", device.major, device.minor));
            sheet.fact("device", &numbers);
        }
    }
    if all {
        common(entry, &mut sheet);
        inside(archive, entry, &mut sheet);
    } else if entry.kind == Kind::Directory {
        let numbers = rows::subtree(archive, &entry.path, awaited)?;
        if numbers.end - numbers.start <= most {
            // Nobody looks at the half of it.
            let _ = summary::add(archive, numbers, entry.path.as_bytes().len() + 1, &mut sheet, awaited);
        }
        children(archive, entry, &mut sheet, awaited)?;
    }
    Ok(sheet)
}

fn bytes(count: u64) -> String {
    if count < 1024 {
        nra_text::counted(count, "byte", "bytes")
    } else {
        format!("{} ({} bytes)", SizeStyle::Binary.show(count), nra_text::count(count))
    }
}

fn directory(archive: &dyn Archive, entry: &Entry, sheet: &mut Sheet, awaited: &dyn Fn() -> bool) -> Result<()> {
    let Some(totals) = rows::totals(archive, &entry.path, awaited)? else { return Ok(()) };
    let (one, many) = if archive.is_index_damaged() { ("entry that reads", "entries that read") } else { ("entry", "entries") };
    sheet.fact("holds", &nra_text::counted(totals.entries.saturating_sub(1), one, many));
    sheet.fact("size", &bytes(totals.content_bytes));
    Ok(())
}

fn children(archive: &dyn Archive, entry: &Entry, sheet: &mut Sheet, awaited: &dyn Fn() -> bool) -> Result<()> {
    let scope = Scope { directory: Some(entry.path.clone()), ..Scope::default() };
    let page = rows::page(archive, &scope, &Want::Start, CHILDREN, awaited)?;
    sheet.lines.push(Line::Space);
    for row in &page.rows {
        let directory = row.entry.kind == Kind::Directory;
        let name = glyphs::shown_within(row.entry.path.name(), WIDEST);
        let size = if row.entry.kind == Kind::File { SizeStyle::Binary.show(row.entry.size) } else { String::new() };
        sheet.lines.push(Line::Child(if directory { format!("{name}/") } else { name }, size, directory));
    }
    if !page.last {
        sheet.lines.push(Line::Remark("… and more".to_owned()));
    }
    Ok(())
}

fn common(entry: &Entry, sheet: &mut Sheet) {
    if let Some(time) = entry.modified {
        sheet.fact("modified", &nra_text::rfc3339(time));
    }
    sheet.fact("mode", &format!("{} ({:04o})", nra_text::mode(entry.kind, entry.metadata.mode), entry.metadata.mode));
    if let Some(owner) = &entry.metadata.owner {
        let name =
            |name: &[u8], id: u64| if name.is_empty() { id.to_string() } else { format!("{} ({id})", glyphs::shown(name)) };
        sheet.fact("owner", &format!("{} : {}", name(&owner.user, owner.user_id), name(&owner.group, owner.group_id)));
    }
    if entry.link_group != 0 {
        sheet.fact("hard links", &format!("group {}", entry.link_group));
    }
    if entry.implied {
        sheet.lines.push(Line::Remark("not packed itself, only what is below it".to_owned()));
    }
    for attribute in entry.metadata.attributes.iter() {
        sheet.fact(&glyphs::shown(&attribute.name), &glyphs::shown(&attribute.value[..attribute.value.len().min(256)]));
    }
}

/// Adds what headers tell of the content, or why they tell nothing.
fn inside(archive: &dyn Archive, entry: &Entry, sheet: &mut Sheet) {
    match archive.describe(Some(entry)) {
        Ok(Some(table)) => {
            sheet.fact("archive", &archive.container().to_string());
            sheet.fact("inside", &glyphs::shown(format!("{} {}", table.format, table.brief).trim_end().as_bytes()));
            for (label, value) in &table.facts {
                sheet.fact(&glyphs::shown(label.as_bytes()), &glyphs::shown(value.as_bytes()));
            }
        }
        Ok(None) => {}
        Err(error) => sheet.lines.push(Line::Problem(glyphs::shown(error.to_string().as_bytes()))),
    }
}

/// Draws facts.
pub fn view(sheet: &Sheet, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let labels = sheet.lines.iter().filter_map(|line| match line {
        Line::Fact(label, _) => Some(glyphs::width(label)),
        _ => None,
    });
    let label_width = labels.max().unwrap_or(0).min(usize::from(area.width) / 2);
    let width = usize::from(area.width);
    for (y, line) in (area.top()..area.bottom()).zip(sheet.lines.iter().skip(scroll.top)) {
        match line {
            Line::Fact(label, value) => {
                buffer.set_stringn(area.left(), y, glyphs::fit(label, label_width), label_width, theme.dim);
                let from = label_width + 2;
                let x = area.left() + u16::try_from(from).unwrap_or(area.width).min(area.width);
                let room = width.saturating_sub(from);
                buffer.set_stringn(x, y, glyphs::fit(value, room), room, theme.text);
            }
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
