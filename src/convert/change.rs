//! Changes to an existing archive other than adding files: removing and moving entries, creating
//! directories, editing attributes.
//!
//! All changes are made through a [`Writer`] that appends. Nothing is written until it finishes.
//! Missing entries are reported before anything is changed.

use std::io::Write;
use std::sync::Arc;

use crate::select::Selection;
use nra_format::archive::Archive;
use nra_format::entry::{Attribute, Entry, Kind, Metadata, Timestamp};
use nra_format::error::{Error, Result};
use nra_format::nra::changes::Change;
use nra_format::nra::revert::{Reverted, revert as undo};
use nra_format::nra::writer::{NewContent, Writer};
use nra_format::path::EntryPath;
use nra_format::progress::{Counter, Monitor};

/// Removes the selected entries. Passes each to `visit` before. Returns their number.
///
/// # Errors
///
/// If the archive cannot be read; errors of `visit`.
pub fn remove<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    selection: &Selection,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Entry) -> Result<(), E>,
) -> Result<u64, E> {
    let base = base(writer)?;
    let mut count = 0;
    // Removing a directory removes everything below it.
    let mut last: Option<EntryPath> = None;
    for entry in selection.entries(&*base)? {
        monitor.check()?;
        let entry = entry?;
        visit(&entry)?;
        count += 1;
        monitor.add(Counter::Entries, 1);
        if last.as_ref().is_none_or(|last| !entry.path.is_below(last)) {
            writer.remove(&entry.path)?;
            last = Some(entry.path);
        }
    }
    Ok(count)
}

/// Restores the selected entries as they were at an earlier commit. If everything is selected, also
/// restores the attributes of the archive. Passes each change to `visit` before.
///
/// # Errors
///
/// As [`revert`](nra_format::nra::revert::revert).
pub fn revert<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    commit: u64,
    selection: &Selection,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Change) -> Result<(), E>,
) -> Result<Reverted, E> {
    let accept = |change: &Change| selection.matches(change.entry());
    let accept: Option<&dyn Fn(&Change) -> bool> = if selection.is_all() { None } else { Some(&accept) };
    undo(writer, commit, accept, monitor, visit)
}

/// Returns the path of `from` after it is moved to `to`: in `to` if that is a directory.
///
/// # Errors
///
/// If the archive cannot be read or the path would be too long.
pub fn target<W: Write + Send>(writer: &Writer<W>, from: &EntryPath, to: &EntryPath) -> Result<EntryPath> {
    match base(writer)?.find(to.as_bytes())? {
        Some((_, entry)) if entry.kind == Kind::Directory => {
            let path = [to.as_bytes(), b"/", from.name()].concat();
            EntryPath::new(path).map_err(|error| Error::Usage { detail: format!("cannot move {from} into {to}: {error}") })
        }
        _ => Ok(to.clone()),
    }
}

/// Creates a directory and its parents.
///
/// # Errors
///
/// `Usage` if the path exists or a parent is not a directory; if the archive cannot be read.
pub fn make_directory<W: Write + Send>(writer: &mut Writer<W>, path: &EntryPath, time: Option<Timestamp>) -> Result<()> {
    let base = base(writer)?;
    for above in std::iter::successors(Some(path.clone()), EntryPath::parent) {
        match base.find(above.as_bytes())? {
            Some(_) if above == *path => return Err(Error::Usage { detail: format!("{path} exists already") }),
            Some((_, entry)) if entry.kind != Kind::Directory => {
                return Err(Error::Usage { detail: format!("{above} is not a directory") });
            }
            _ => {}
        }
    }
    let mut entry = Entry::new(path.clone(), Kind::Directory);
    entry.modified = time;
    writer.add(entry, NewContent::None).map(drop)
}

/// A change of attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Sets an attribute.
    Set(Attribute),
    /// Removes the attributes of this name from all namespaces, except those that describe the top
    /// directory.
    Remove(Box<[u8]>),
}

impl Edit {
    /// Returns whether the edit applies: an attribute to remove may be missing.
    fn applies_to(&self, attributes: &[Attribute]) -> bool {
        match self {
            Self::Set(_) => true,
            Self::Remove(name) => attributes.iter().any(|attribute| is_editable(attribute, name)),
        }
    }

    /// Applies the edit to attributes, which stay sorted.
    fn apply(&self, attributes: &mut Vec<Attribute>) {
        match self {
            Self::Set(new) => new.clone().insert_into(attributes),
            Self::Remove(name) => attributes.retain(|attribute| !is_editable(attribute, name)),
        }
    }
}

fn is_editable(attribute: &Attribute, name: &[u8]) -> bool {
    *attribute.name == *name && !attribute.describes_top_directory()
}

/// Result of changing attributes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditStats {
    /// Selected entries.
    pub selected: u64,
    /// Selected entries that changed.
    pub changed: u64,
    /// Indices of the edits that remove an attribute that does not exist.
    pub without_effect: Vec<usize>,
}

/// Applies `edits` to the attributes of the archive.
///
/// # Errors
///
/// `Usage` or `Limit` for attributes that the format does not support.
pub fn edit_archive_attributes<W: Write + Send>(writer: &mut Writer<W>, edits: &[Edit]) -> Result<EditStats> {
    let mut attributes = writer.attributes().to_vec();
    let mut without_effect: Vec<usize> = (0..edits.len()).collect();
    without_effect.retain(|&number| !edits[number].applies_to(&attributes));
    edits.iter().for_each(|edit| edit.apply(&mut attributes));
    let changed = u64::from(attributes != writer.attributes());
    writer.set_attributes(attributes)?;
    Ok(EditStats { selected: 1, changed, without_effect })
}

/// Applies `edits` to the attributes of the selected entries. Passes those that change to `visit`.
///
/// # Errors
///
/// `Usage` or `Limit` for attributes that the format does not support; if the archive cannot be
/// read; errors of `visit`.
pub fn edit_entry_attributes<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    selection: &Selection,
    edits: &[Edit],
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Entry) -> Result<(), E>,
) -> Result<EditStats, E> {
    let base = base(writer)?;
    let mut stats = EditStats { without_effect: (0..edits.len()).collect(), ..EditStats::default() };
    for entry in selection.entries(&*base)? {
        monitor.check()?;
        let entry = entry?;
        stats.selected += 1;
        monitor.add(Counter::Entries, 1);
        stats.without_effect.retain(|&number| !edits[number].applies_to(&entry.metadata.attributes));
        let mut attributes = entry.metadata.attributes.to_vec();
        edits.iter().for_each(|edit| edit.apply(&mut attributes));
        if attributes == *entry.metadata.attributes {
            continue;
        }
        visit(&entry)?;
        stats.changed += 1;
        let metadata = Arc::new(Metadata { attributes: attributes.into(), ..Metadata::clone(&entry.metadata) });
        writer.change(&entry.path, |entry| entry.metadata = metadata)?;
    }
    Ok(stats)
}

/// Returns the archive before the change.
fn base<W: Write + Send>(writer: &Writer<W>) -> Result<Arc<nra_format::nra::reader::NraReader>> {
    let none = || Error::Usage { detail: "the archive does not exist yet".into() };
    writer.base().cloned().ok_or_else(none)
}
