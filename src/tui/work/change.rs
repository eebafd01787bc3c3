//! Writes planned changes as one commit.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rangemap::RangeSet;

use crate::convert::change::{make_directory, remove};
use crate::convert::pack::{Input, PackOptions, add_to};
use crate::convert::select::Selection;
use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind, Timestamp};
use crate::format::error::{Error, Result, reason};
use crate::format::nra::changes::Change as Difference;
use crate::format::nra::revert::revert as go_back;
use crate::format::nra::writer::{StoreEnd, Writer, WriterOptions};
use crate::format::path::EntryPath;
use crate::format::progress::Monitor;
use crate::format::source::FileStore;
use crate::text;
use crate::tui::effect::Check;
use crate::tui::glyphs;
use crate::tui::state::staged::{Stage, Staged};
use crate::tui::work::jobs::expand;
use crate::tui::work::told;

/// What has been written.
pub struct Done {
    /// A sentence on it.
    pub text: String,
    /// Number of the commit.
    pub commit: u64,
    /// Files that could not be added.
    pub left_out: u64,
}

/// Makes commit number `commit` of the archive the newest state again, or brings the entries with numbers in `ranges` back from it: `archive` is that commit then; it has the
/// keys in any case.
///
/// # Errors
///
/// `Usage` when the newest commit is not `over`, if that says which is to be undone. The archive is what it was then.
pub fn revert(
    archive: &dyn Archive,
    file: &Path,
    commit: u64,
    ranges: Option<&[Range<u64>]>,
    over: Option<u64>,
    monitor: &dyn Monitor,
) -> Result<Done> {
    let (mut writer, newest) = begin(archive, file, "", over)?;
    let chosen = ranges.map(|ranges| Selection::of_numbers(archive, ranges.iter().cloned())).transpose()?;
    // Nothing goes where something is brought back.
    let comes_back = |change: &Difference| {
        !matches!(change, Difference::Removed(_)) && chosen.as_ref().is_none_or(|chosen| chosen.matches(change.entry()))
    };
    let is_meant: Option<&dyn Fn(&Difference) -> bool> = if chosen.is_some() { Some(&comes_back) } else { None };
    let done = go_back::<_, Error>(&mut writer, commit, is_meant, monitor, &mut |_| Ok(()))?;
    let what = text::counted(done.entries, "entry", "entries");
    let whole = if chosen.is_some() { format!("{what} ") } else { String::new() };
    writer.set_message(format!("{whole}back to commit {commit}"))?;
    let written = format!("{what} brought back to commit {commit}; ");
    end(writer, newest, &written, &format!("nothing differs from commit {commit}"), monitor)
}

/// Locks the archive for a commit with a message; `archive` has its keys. Returns the number of its newest commit, too.
///
/// # Errors
///
/// `Usage` when that is not `planned_at`, if a number is given.
fn begin(archive: &dyn Archive, file: &Path, message: &str, planned_at: Option<u64>) -> Result<(Writer<StoreEnd>, u64)> {
    let encryption = archive.keyring().cloned();
    let options = WriterOptions { message: message.to_owned(), encryption, ..WriterOptions::balanced() };
    let writer = Writer::append(Arc::new(FileStore::open(file)?), options)?;
    let newest = writer.base().and_then(|base| base.info().commit).unwrap_or_default();
    if planned_at.is_some_and(|number| number != newest) {
        return Err(Error::Usage { detail: "the archive has another commit by now: read it anew (ctrl-r)".to_owned() });
    }
    Ok((writer, newest))
}

/// Writes the commit that follows number `before`, and says so; `idle` says that there is none to write.
fn end(writer: Writer<StoreEnd>, before: u64, written: &str, idle: &str, monitor: &dyn Monitor) -> Result<Done> {
    let is_protected = writer.base().is_some_and(|base| base.info().recovery.is_some());
    let (_, stats) = writer.finish(monitor)?;
    if stats.commit == before {
        return Ok(Done { text: idle.to_owned(), commit: before, left_out: 0 });
    }
    let lost = if is_protected { "; the recovery data went with it: nra protect makes it anew" } else { "" };
    Ok(Done {
        text: format!("{written}commit {} is written; H goes back{lost}", stats.commit),
        commit: stats.commit,
        left_out: 0,
    })
}

/// Writes changes that were planned at a commit, with a message, and says what has been written. `archive` is that commit; it has the keys.
///
/// # Errors
///
/// `Usage` when the archive has another commit by now: the numbers would mean other entries. The archive is what it was then.
pub fn commit(
    archive: &dyn Archive,
    file: &Path,
    (planned_at, message): (u64, &str),
    changes: &[Stage],
    monitor: &dyn Monitor,
) -> Result<Done> {
    let (mut writer, _) = begin(archive, file, message, Some(planned_at))?;
    let mut left_out = 0;
    // Numbers and paths are those of the commit that is shown. So what goes goes first, what is renamed is renamed from the depth up, and what comes
    // goes to where its directory is by then.
    let removed = changes.iter().filter_map(|change| if let Stage::Remove(ranges, _) = change { Some(ranges) } else { None });
    // What was planned twice goes once.
    let removed: RangeSet<u64> = removed.flatten().filter(|range| !range.is_empty()).cloned().collect();
    if !removed.is_empty() {
        // It is the commit that is changed.
        let selection = Selection::of_numbers(archive, removed.iter().cloned())?;
        remove::<_, Error>(&mut writer, &selection, monitor, &mut |_| Ok(()))?;
    }
    let mut renames: Vec<(&EntryPath, &EntryPath)> =
        changes.iter().filter_map(|change| if let Stage::Rename(from, to) = change { Some((from, to)) } else { None }).collect();
    renames.sort_by_key(|(from, _)| std::cmp::Reverse(from.components().count()));
    for (index, (from, to)) in renames.iter().enumerate() {
        writer.rename(from, &moved(to, &renames[..index])?)?;
    }
    for change in changes {
        match change {
            Stage::Remove(..) | Stage::Rename(..) => {}
            Stage::MakeDirectory(path) => make_directory(&mut writer, &moved(path, &renames)?, now())?,
            Stage::Add(path, directory, _) => {
                let directory = directory.as_ref().map(|directory| moved_whole(directory, &renames)).transpose()?;
                let prefix = directory.map_or_else(Vec::new, |directory| directory.as_bytes().to_vec());
                let options = PackOptions { prefix, ..PackOptions::default() };
                let lost;
                (writer, lost) = add_to(&[input(path)], file, writer, &options, monitor)?;
                left_out += lost;
            }
        }
    }
    let done = end(writer, planned_at, "", "nothing has changed, no commit is written", monitor)?;
    Ok(Done { left_out, ..done })
}

/// Returns where a new path is once the directories above it have their new names.
fn moved(path: &EntryPath, renames: &[(&EntryPath, &EntryPath)]) -> Result<EntryPath> {
    match path.parent() {
        Some(parent) => moved_whole(&parent, renames)?.join(path.name()).map_err(|error| unfit(path, &error)),
        None => Ok(path.clone()),
    }
}

/// Returns where a directory is once it, or what it lies in, has its new name.
fn moved_whole(path: &EntryPath, renames: &[(&EntryPath, &EntryPath)]) -> Result<EntryPath> {
    let mut path = path.clone();
    for (from, to) in renames {
        if path == **from || path.is_below(from) {
            let there = [to.as_bytes(), &path.as_bytes()[from.as_bytes().len()..]].concat();
            path = EntryPath::new(there).map_err(|error| unfit(to, &error))?;
        }
    }
    Ok(path)
}

fn unfit(path: &EntryPath, error: &dyn std::fmt::Display) -> Error {
    Error::Usage { detail: format!("{path}: {error}") }
}

/// Returns a file or directory that goes into the archive under its own name.
fn input(path: &Path) -> Input {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_path_buf);
    let name = path.file_name().map_or_else(|| path.to_owned(), Into::into);
    Input { directory, path: name, keep_path: true }
}

/// Finds out whether what was typed can be done, and returns the change that it plans, if it plans one.
///
/// # Errors
///
/// Why it can't.
pub fn check(archive: &dyn Archive, check: Check) -> std::result::Result<Option<Stage>, String> {
    match check {
        Check::Add { path, directory, file } => look(archive, &path, directory, &file).map(Some),
        Check::Plan(stage, staged) => {
            if let Stage::Rename(from, _) = &stage
                && archive.find(from.as_bytes()).is_ok_and(|found| found.is_some_and(|(number, _)| staged.removes(number)))
            {
                return Err("it is to be removed: take that back first (P)".to_owned());
            }
            if let Some((path, _)) = stage.brings() {
                is_free(archive, &path, &staged)?;
            }
            Ok(Some(stage))
        }
        Check::Output(path) => {
            let path = expand(&path);
            // An empty one is this directory.
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match path.symlink_metadata() {
                Ok(_) => Err("there is such a file already: choose another name".to_owned()),
                Err(_) if !directory.is_dir() => Err("there is no such directory".to_owned()),
                Err(_) => Ok(None),
            }
        }
    }
}

/// Says what is in the way of a new path, once what is planned is done.
fn is_free(archive: &dyn Archive, path: &EntryPath, staged: &Staged) -> std::result::Result<(), String> {
    let there = |path: &EntryPath| -> std::result::Result<Option<Entry>, String> {
        let found = archive.find(path.as_bytes()).map_err(|error| told(&error))?;
        let stays = |(number, entry): &(u64, Entry)| !staged.removes(*number) && staged.renamed(&entry.path).is_none();
        Ok(found.filter(stays).map(|(_, entry)| entry))
    };
    let shown = |path: &EntryPath| glyphs::shown(path.as_bytes());
    if staged.brings(path) {
        return Err(format!("{} is planned already", shown(path)));
    }
    if there(path)?.is_some() {
        return Err(format!("{} is there already", shown(path)));
    }
    for above in std::iter::successors(path.parent(), EntryPath::parent) {
        if there(&above)?.is_some_and(|entry| entry.kind != Kind::Directory) {
            return Err(format!("{} is no directory", shown(&above)));
        }
    }
    Ok(())
}

/// Finds out whether there is something to add, and what it meets in the archive.
fn look(archive: &dyn Archive, path: &Path, directory: Option<EntryPath>, file: &Path) -> std::result::Result<Stage, String> {
    let path = expand(path);
    // Such as `..`: the name in the archive is the real one.
    let named = if path.file_name().is_some() { Ok(path.clone()) } else { path.canonicalize() };
    let there = named.and_then(|named| named.symlink_metadata().map(|metadata| (named, metadata.is_dir())));
    let (named, is_directory) = there.map_err(|error| format!("it does not read: {}", reason(&error)))?;
    if named.canonicalize().ok().is_some_and(|named| file.canonicalize().is_ok_and(|file| file == named)) {
        return Err("that is the archive itself".to_owned());
    }
    let stage = Stage::Add(named, directory, false);
    let Some((place, _)) = stage.brings() else { return Ok(stage) };
    let met = archive.find(place.as_bytes()).map_err(|error| told(&error))?;
    match (met.map(|(_, entry)| entry.kind == Kind::Directory), stage) {
        (Some(met), _) if met != is_directory => {
            let what = if met { "a directory" } else { "no directory" };
            Err(format!("{} is there already, and {what}", glyphs::shown(place.as_bytes())))
        }
        (met, Stage::Add(named, directory, _)) => Ok(Stage::Add(named, directory, met.is_some())),
        (_, stage) => Ok(stage),
    }
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanoseconds: since.subsec_nanos() })
}
