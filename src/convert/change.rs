//! Changes of an archive that is there, other than what is added: entries removed, moved, made and described.
//!
//! All of it acts on a [`Writer`] that appends; nothing is written before that is finished. What is not found is told before
//! anything is changed.

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

/// Removes the entries that `selection` means, and hands each to `visit` first. Returns how many there were.
///
/// # Errors
///
/// What reading the archive gives, and errors of `visit`.
pub fn remove<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    selection: &Selection,
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Entry) -> Result<(), E>,
) -> Result<u64, E> {
    let base = base(writer)?;
    let mut count = 0;
    // With a directory goes what is below it: one cut for all.
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

/// Makes what `selection` means as it was at an earlier commit: all of it together with the attributes of the archive. Each difference that is undone is handed to `visit` first.
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
    let is_meant = |change: &Change| selection.matches(change.entry());
    let is_meant: Option<&dyn Fn(&Change) -> bool> = if selection.is_all() { None } else { Some(&is_meant) };
    undo(writer, commit, is_meant, monitor, visit)
}

/// Returns where `from` goes when it is moved to `to`: into `to` if that is a directory.
///
/// # Errors
///
/// What reading the archive gives.
pub fn target<W: Write + Send>(writer: &Writer<W>, from: &EntryPath, to: &EntryPath) -> Result<EntryPath> {
    match base(writer)?.find(to.as_bytes())? {
        Some((_, entry)) if entry.kind == Kind::Directory => {
            let path = [to.as_bytes(), b"/", from.name()].concat();
            EntryPath::new(path).map_err(|error| Error::Usage { detail: format!("cannot move {from} into {to}: {error}") })
        }
        _ => Ok(to.clone()),
    }
}

/// Makes a directory, with those above it.
///
/// # Errors
///
/// `Usage` when something is there, or lies above it that is no directory; what reading the archive gives.
pub fn make_directory<W: Write + Send>(writer: &mut Writer<W>, path: &EntryPath, time: Option<Timestamp>) -> Result<()> {
    let base = base(writer)?;
    for above in std::iter::successors(Some(path.clone()), EntryPath::parent) {
        match base.find(above.as_bytes())? {
            Some(_) if above == *path => return Err(Error::Usage { detail: format!("{path} exists already") }),
            Some((_, entry)) if entry.kind != Kind::Directory => {
                return Err(Error::Usage { detail: format!("{above} is no directory") });
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
    /// Sets this one.
    Set(Attribute),
    /// Removes what has this name, of whatever origin; not what only describes the directory that was packed.
    Remove(Box<[u8]>),
}

impl Edit {
    /// Says whether there is something to do for it: what it removes may be missing.
    fn concerns(&self, attributes: &[Attribute]) -> bool {
        match self {
            Self::Set(_) => true,
            Self::Remove(name) => attributes.iter().any(|attribute| is_meant(attribute, name)),
        }
    }

    /// Applies it to attributes, which stay sorted.
    fn apply(&self, attributes: &mut Vec<Attribute>) {
        match self {
            Self::Set(own) => own.clone().insert_into(attributes),
            Self::Remove(name) => attributes.retain(|attribute| !is_meant(attribute, name)),
        }
    }
}

fn is_meant(attribute: &Attribute, name: &[u8]) -> bool {
    *attribute.name == *name && !attribute.describes_top_directory()
}

/// What changes of attributes came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edited {
    /// Entries that were meant.
    pub meant: u64,
    /// Those of them that change.
    pub changed: u64,
    /// Numbers of the edits that remove what nothing has.
    pub idle: Vec<usize>,
}

/// Applies `edits` to the attributes of the archive.
///
/// # Errors
///
/// `Usage` or `Limit` for attributes that the format can't hold.
pub fn describe_archive<W: Write + Send>(writer: &mut Writer<W>, edits: &[Edit]) -> Result<Edited> {
    let mut attributes = writer.attributes().to_vec();
    let mut idle: Vec<usize> = (0..edits.len()).collect();
    idle.retain(|&number| !edits[number].concerns(&attributes));
    edits.iter().for_each(|edit| edit.apply(&mut attributes));
    let changed = u64::from(attributes != writer.attributes());
    writer.set_attributes(attributes)?;
    Ok(Edited { meant: 1, changed, idle })
}

/// Applies `edits` to the attributes of the entries that `selection` means; those that change are handed to `visit`.
///
/// # Errors
///
/// `Usage` or `Limit` for attributes that the format can't hold; what reading the archive gives, and errors of `visit`.
pub fn describe_entries<W: Write + Send, E: From<Error>>(
    writer: &mut Writer<W>,
    selection: &Selection,
    edits: &[Edit],
    monitor: &dyn Monitor,
    visit: &mut dyn FnMut(&Entry) -> Result<(), E>,
) -> Result<Edited, E> {
    let base = base(writer)?;
    let mut done = Edited { idle: (0..edits.len()).collect(), ..Edited::default() };
    for entry in selection.entries(&*base)? {
        monitor.check()?;
        let entry = entry?;
        done.meant += 1;
        monitor.add(Counter::Entries, 1);
        done.idle.retain(|&number| !edits[number].concerns(&entry.metadata.attributes));
        let mut attributes = entry.metadata.attributes.to_vec();
        edits.iter().for_each(|edit| edit.apply(&mut attributes));
        if attributes == *entry.metadata.attributes {
            continue;
        }
        visit(&entry)?;
        done.changed += 1;
        let metadata = Arc::new(Metadata { attributes: attributes.into(), ..Metadata::clone(&entry.metadata) });
        writer.change(&entry.path, |entry| entry.metadata = metadata)?;
    }
    Ok(done)
}

/// Returns the archive as it was before the change.
fn base<W: Write + Send>(writer: &Writer<W>) -> Result<Arc<nra_format::nra::reader::NraReader>> {
    let none = || Error::Usage { detail: "there is no archive to change yet".into() };
    writer.base().cloned().ok_or_else(none)
}
