//! Entries as text lines and as JSON.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use crate::description::DescriptionRecord;
use crate::open_archive::Opened;
use crate::report::{CommandResult, Failure};
use crate::ui::Ui;
use nra_format::describe;
use nra_format::digest::Digest;
use nra_format::entry::{Entry, Kind};
use nra_format::error::Error;
use nra_format::progress::Warning;
use nra_text::{self, PathField};

/// Columns of the text output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Columns {
    /// Type, mode, size, ratio and time before the path.
    pub long: bool,
    /// Digest before the path.
    pub digest: bool,
    /// Raw paths, terminated by NUL.
    pub null: bool,
}

/// Totals of the listed entries.
#[derive(Debug, Default, Serialize)]
pub struct Totals {
    /// Number of entries.
    pub entries: u64,
    /// Their content, bytes.
    pub content_bytes: u64,
}

impl Totals {
    /// Counts an entry.
    pub fn count(&mut self, entry: &Entry) {
        self.entries += 1;
        self.content_bytes = self.content_bytes.saturating_add(entry.size);
    }
}

/// Properties that are looked up on request.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Digest of the content.
    pub digest: Option<Digest>,
    /// Stored size of the content, bytes.
    pub stored_bytes: Option<u64>,
    /// Description of the content, from its header.
    pub inside: Option<describe::Description>,
}

/// An entry as JSON.
#[derive(Debug, Serialize)]
pub struct EntryRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    kind: &'static str,
    size: u64,
    mode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_group: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<DescriptionRecord>,
}

impl<'a> EntryRecord<'a> {
    /// Wraps an entry.
    pub fn new(entry: &'a Entry, facts: Facts) -> Self {
        let owner = entry.metadata.owner.as_ref();
        let name = |bytes: &[u8]| (!bytes.is_empty()).then(|| lossy(bytes));
        let target = (entry.kind == Kind::Symlink).then(|| PathField::new(&entry.target));
        let (target, target_b64) = target.map_or((None, None), |field| (Some(field.path.into_owned()), field.path_b64));
        Self {
            record: "entry",
            path: PathField::new(entry.path.as_bytes()),
            kind: nra_text::kind(entry.kind),
            size: entry.size,
            mode: format!("{:04o}", entry.metadata.mode),
            mtime: entry.modified.map(nra_text::rfc3339),
            uid: owner.map(|owner| owner.user_id),
            gid: owner.map(|owner| owner.group_id),
            user: owner.and_then(|owner| name(&owner.user)),
            group: owner.and_then(|owner| name(&owner.group)),
            target,
            target_b64,
            stored_bytes: facts.stored_bytes,
            link_group: Some(entry.link_group).filter(|&group| group != 0),
            device: entry.device.map(|device| [device.major, device.minor]),
            attributes: entry.metadata.attributes.iter().map(|attribute| lossy(&attribute.name)).collect(),
            tags: user_defined(entry).map(|(name, value)| (lossy(name), lossy(value))).collect(),
            digest: facts.digest.map(|digest| digest.to_string()),
            inside: facts.inside.map(DescriptionRecord::from),
        }
    }
}

/// Returns names and values of the user-defined attributes of an entry.
fn user_defined(entry: &Entry) -> impl Iterator<Item = (&[u8], &[u8])> {
    let attributes = entry.metadata.attributes.iter().filter(|attribute| attribute.is_user_defined());
    attributes.map(|attribute| (&*attribute.name, &*attribute.value))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Looks up the digests of entries. Damage is reported as a warning.
pub fn digests(entries: &[Entry], opened: &Opened, ui: &Ui) -> CommandResult<Vec<Option<Digest>>> {
    in_storage_order(entries, |entry| Ok(opened.intact(opened.archive.digest(entry), entry, ui.console())?.flatten()))
}

/// Calls `read` for each entry in storage order. The results are in the order of `entries`.
fn in_storage_order<T>(entries: &[Entry], mut read: impl FnMut(&Entry) -> CommandResult<T>) -> CommandResult<Vec<T>> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| entries[index].position());
    let mut results = Vec::with_capacity(entries.len());
    for index in order {
        results.push((index, read(&entries[index])?));
    }
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Looks up the properties that the columns need, except digests. Damage is reported as a warning.
pub fn facts(entry: &Entry, columns: Columns, opened: &Opened, ui: &Ui) -> CommandResult<Facts> {
    let mut facts = Facts::default();
    let path = entry.path.as_bytes();
    if columns.long && entry.kind == Kind::File {
        facts.stored_bytes = opened.intact(opened.archive.stored_bytes(entry), entry, ui.console())?.flatten();
    }
    if columns.long || ui.is_json() {
        facts.inside = opened.archive.describe(Some(entry)).or_else(|error| match error {
            // Only the header inside the content is invalid; the content itself is undamaged.
            Error::Corrupt { .. } | Error::Limit { .. } | Error::ResourceLimit { .. } => {
                let message = error.to_string();
                ui.console().warn(Warning::remark(path, message));
                Ok(None)
            }
            other => Err(other),
        })?;
    }
    Ok(facts)
}

impl Ui {
    /// Prints an entry as a line or as JSON.
    pub fn entry(&mut self, entry: &Entry, facts: Facts, columns: Columns) -> CommandResult<()> {
        if self.is_json() {
            return self.record(&EntryRecord::new(entry, facts));
        }
        self.entry_line(entry, facts, columns).map_err(|error| Failure::output(&error))?;
        self.flush_if_due()
    }

    fn entry_line(&mut self, entry: &Entry, facts: Facts, columns: Columns) -> io::Result<()> {
        let path = entry.path.as_bytes();
        let terminal = self.stdout_is_terminal();
        let size = if columns.long { self.size_text(entry) } else { String::new() };
        let style = self.kind_style(entry.kind);
        let out = self.out();
        if columns.digest {
            match facts.digest {
                Some(digest) => write!(out, "{digest}  ")?,
                None => write!(out, "{:width$}  ", "-", width = std::mem::size_of::<Digest>() * 2)?,
            }
        }
        if columns.long {
            let time = entry.modified.map_or_else(|| "-".to_owned(), nra_text::table_time);
            let ratio = facts.stored_bytes.filter(|_| entry.size > 0);
            let ratio = ratio.map_or_else(|| "-".to_owned(), |stored| nra_text::whole_percent(stored, entry.size));
            write!(out, "{}  {size:>10}  {ratio:>5}  {time:<19}  ", nra_text::mode(entry.kind, entry.metadata.mode))?;
        }
        if columns.null {
            out.write_all(path)?;
            return out.write_all(b"\0");
        }
        if let Some(style) = style {
            write!(out, "{style}")?;
        }
        out.write_all(&nra_text::name(path, terminal))?;
        if let Some(style) = style {
            write!(out, "{style:#}")?;
        }
        if columns.long && entry.kind == Kind::Symlink {
            out.write_all(b" -> ")?;
            out.write_all(&nra_text::name(&entry.target, terminal))?;
        }
        if let Some(table) = facts.inside.as_ref().filter(|table| columns.long && !table.brief.is_empty()) {
            write!(out, "  {}", nra_text::harmless(&table.brief))?;
        }
        if columns.long && user_defined(entry).next().is_some() {
            let shown = user_defined(entry).map(|(name, value)| {
                let sign = if value.is_empty() { "" } else { "=" };
                nra_text::harmless(&format!("{}{sign}{}", lossy(name), lossy(value)))
            });
            write!(out, "  [{}]", shown.collect::<Vec<_>>().join(", "))?;
        }
        out.write_all(b"\n")
    }

    /// Returns the size of a file, the numbers of a device, or `-`.
    fn size_text(&self, entry: &Entry) -> String {
        match (entry.kind, entry.device) {
            (Kind::File, _) => self.column(entry.size),
            (_, Some(device)) => format!("{}, {}", device.major, device.minor),
            _ => "-".to_owned(),
        }
    }

    /// Returns the style of names of a kind, if colours are on.
    pub fn kind_style(&self, kind: Kind) -> Option<anstyle::Style> {
        use anstyle::{AnsiColor, Style};
        let color = match kind {
            Kind::Directory => AnsiColor::Blue,
            Kind::Symlink => AnsiColor::Cyan,
            Kind::Fifo | Kind::CharacterDevice | Kind::BlockDevice => AnsiColor::Yellow,
            Kind::File => return None,
        };
        self.stdout_has_color().then(|| Style::new().fg_color(Some(color.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_format::entry::Location;
    use nra_format::path::EntryPath;

    #[test]
    fn contents_are_read_in_storage_order() {
        let entry = |(name, place): (&str, u64)| {
            let mut entry = Entry::new(EntryPath::try_from(name).unwrap(), Kind::File);
            entry.location = Location::numbered(0, (0, place));
            entry
        };
        let entries = [("a", 7), ("b", 3), ("c", 9), ("d", 0)].map(entry);
        let mut read = Vec::new();
        let results = in_storage_order(&entries, |entry| {
            read.push(entry.position().1);
            Ok(entry.path.to_string())
        });
        assert_eq!(read, [0, 3, 7, 9]);
        assert_eq!(results.unwrap(), ["a", "b", "c", "d"]);
    }
}
