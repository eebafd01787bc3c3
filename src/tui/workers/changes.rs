//! Checks changes, and writes them as one commit.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::effect::Check;
use crate::event::Checked;
use crate::state::{PendingChange, PendingChanges};
use crate::workers::change_set::{ChangeSet, removable, without_dependents};
use crate::workers::complete::expand;
use crate::workers::errors::error_message;
use nra_convert::change::remove;
use nra_convert::select::Selection;
use nra_convert::{Input, Options, Sink, Source, WalkSource, convert};
use nra_format::archive::Archive;
use nra_format::entry::{Entry, Kind, Timestamp};
use nra_format::error::{Error, Result, reason};
use nra_format::nra::changes::Change as Difference;
use nra_format::nra::revert::revert as go_back;
use nra_format::nra::writer::{AppendDestination, NewContent, Writer, WriterOptions};
use nra_format::path::EntryPath;
use nra_format::progress::Monitor;
use nra_format::source::FileStore;

/// The result of writing a commit.
pub struct Done {
    /// A summary for people.
    pub text: String,
    /// Number of the commit; the previous one if there was nothing to write.
    pub commit: u64,
    /// There was something to write.
    pub written: bool,
    /// Files that could not be added.
    pub skipped: u64,
}

/// Returns an archive to commit `commit`, or restores the entries with numbers in `ranges` from it:
/// then `archive` is that commit. `archive` has the keys. Fails with `Usage` if the newest commit
/// is not `over`, the commit to undo. The archive is unchanged then.
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
    // Entries added since are kept.
    let comes_back = |change: &Difference| {
        !matches!(change, Difference::Removed(_)) && chosen.as_ref().is_none_or(|chosen| chosen.matches(change.entry()))
    };
    let is_meant: Option<&dyn Fn(&Difference) -> bool> = if chosen.is_some() { Some(&comes_back) } else { None };
    let done = go_back::<_, Error>(&mut writer, commit, is_meant, monitor, &mut |_| Ok(()))?;
    let what = match done.entries {
        0 if done.attributes => "attributes of the archive".to_owned(),
        entries => nra_text::counted(entries, "entry", "entries"),
    };
    let whole = if chosen.is_some() { format!("{what} ") } else { String::new() };
    writer.set_message(format!("{whole}back to commit {commit}"))?;
    // Returning to a commit removes entries added since.
    let written = match chosen {
        Some(_) => format!("{what} restored from commit {commit}; "),
        None => format!("{what} reset to commit {commit}; "),
    };
    let idle = match done.skipped {
        0 => format!("nothing differs from commit {commit}"),
        _ => "nothing can be restored".to_owned(),
    };
    let ended = end(writer, newest, &written, &idle, monitor)?;
    Ok(Done { skipped: done.skipped, ..ended })
}

/// Locks the archive for a commit with a message; `archive` has its keys. Returns the writer and
/// the number of the newest commit. Fails with `Usage` if that is not `planned_at`, or if the file
/// is another archive by now.
fn begin(archive: &dyn Archive, file: &Path, message: &str, planned_at: Option<u64>) -> Result<(Writer<AppendDestination>, u64)> {
    let encryption = archive.keyring().cloned();
    let options = WriterOptions { message: message.to_owned(), encryption, ..WriterOptions::balanced() };
    let writer = Writer::append(Arc::new(FileStore::open(file)?), options)?;
    let base = writer.base().map(|base| base.info().clone()).unwrap_or_default();
    let newest = base.commit.unwrap_or_default();
    // Compacting restarts the numbers of commits.
    if base.archive_id != archive.info().archive_id || planned_at.is_some_and(|number| number != newest) {
        return Err(Error::Usage { detail: "the archive has another commit by now: reload it (ctrl-r)".to_owned() });
    }
    Ok((writer, newest))
}

/// Writes the commit after number `before`. `idle` is the summary if there is nothing to write.
fn end(writer: Writer<AppendDestination>, before: u64, written: &str, idle: &str, monitor: &dyn Monitor) -> Result<Done> {
    let is_protected = writer.base().is_some_and(|base| base.info().recovery.is_some());
    let (_, stats) = writer.finish(monitor)?;
    if stats.commit == before {
        return Ok(Done { text: idle.to_owned(), commit: before, written: false, skipped: 0 });
    }
    let lost = if is_protected { "; its recovery data is gone: nra protect adds it again" } else { "" };
    Ok(Done {
        text: format!("{written}commit {} is written; H goes back{lost}", stats.commit),
        commit: stats.commit,
        written: true,
        skipped: 0,
    })
}

/// Writes changes made for a commit. `archive` is that commit and has the keys. Fails with `Usage`
/// if the archive has another commit by now, because entry numbers belong to a commit. The archive
/// is unchanged then.
pub fn commit(
    archive: &dyn Archive,
    file: &Path,
    (planned_at, message): (u64, &str),
    changes: &[PendingChange],
    monitor: &dyn Monitor,
) -> Result<Done> {
    let (mut writer, _) = begin(archive, file, message, Some(planned_at))?;
    // Some may have been checked against an earlier commit.
    let set = ChangeSet::of(archive, changes).map_err(usage)?;
    // Remove first, then rename, then add to renamed directories.
    if !set.removed.is_empty() {
        // The numbers are those of the commit being changed.
        let selection = Selection::of_numbers(archive, set.removed.iter().cloned())?;
        remove::<_, Error>(&mut writer, &selection, monitor, &mut |_| Ok(()))?;
    }
    for (from, to) in set.steps().map_err(usage)? {
        writer.rename(&from, &to)?;
    }
    let mut added: BTreeMap<Option<EntryPath>, Vec<Input>> = BTreeMap::new();
    for change in changes {
        match change {
            PendingChange::Remove(..) | PendingChange::Rename(..) => {}
            PendingChange::MakeDirectory(path) => {
                let mut entry = Entry::new(set.placed(path).map_err(usage)?, Kind::Directory);
                entry.modified = now();
                writer.add(entry, NewContent::None)?;
            }
            PendingChange::Add(path, directory, _) => {
                let directory = directory.as_ref().map(|directory| set.renames.then(directory)).transpose().map_err(usage)?;
                added.entry(directory).or_default().push(input(path));
            }
        }
    }
    let mut skipped = 0;
    for (directory, inputs) in added {
        let prefix = directory.map_or_else(Vec::new, |directory| directory.as_bytes().to_vec());
        let source = Source::Walk(WalkSource { prefix, ..WalkSource::new(inputs) });
        skipped += convert(source, Sink::Pending(file, &mut writer), &Options::default(), monitor)?.skipped;
    }
    let done = end(writer, planned_at, "", "nothing has changed, no commit written", monitor)?;
    Ok(Done { skipped, ..done })
}

fn usage(detail: impl Into<String>) -> Error {
    Error::Usage { detail: detail.into() }
}

/// Returns a file or directory to add under its own name.
fn input(path: &Path) -> Input {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_path_buf);
    let name = path.file_name().map_or_else(|| path.to_owned(), Into::into);
    Input { directory, path: name, keep_path: true }
}

/// Checks a typed or pending change.
pub fn check(archive: &dyn Archive, check: Check) -> std::result::Result<Checked, String> {
    match check {
        Check::Add { path, directory, file, pending } => {
            check_addition(archive, &path, directory, &file, &pending).map(Checked::Change)
        }
        Check::Change(change, pending) => {
            let change = match change {
                PendingChange::Remove(ranges, what) => {
                    match removable(archive, &ranges).map_err(|error| error_message(&error))? {
                        ranges if ranges.is_empty() => return Err(format!("{what} cannot be removed: some of its entries stay")),
                        ranges => PendingChange::Remove(Arc::new(ranges), what),
                    }
                }
                change => change,
            };
            ChangeSet::of(archive, &with(&pending, &change))?;
            Ok(Checked::Change(change))
        }
        Check::Undo(index, pending) => {
            let mut rest = pending.clone();
            rest.remove(index);
            // If they cannot be written anyway, there may be another reason.
            let is_sound = ChangeSet::of(archive, pending.list()).is_ok();
            Ok(Checked::Remaining(if is_sound { without_dependents(archive, &rest) } else { rest }))
        }
        Check::Output(path) => {
            let path = expand(&path);
            // An empty path is the current directory.
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match path.symlink_metadata() {
                Ok(_) => Err("the file exists: choose another name".to_owned()),
                Err(_) if !directory.is_dir() => Err("no such directory".to_owned()),
                Err(_) => Ok(Checked::Possible),
            }
        }
    }
}

/// Returns changes with one more.
fn with(pending: &PendingChanges, change: &PendingChange) -> Vec<PendingChange> {
    pending.list().iter().chain([change]).cloned().collect()
}

/// Checks that a path on disk can be added, and whether its name exists in the archive after the
/// pending changes.
fn check_addition(
    archive: &dyn Archive,
    path: &Path,
    directory: Option<EntryPath>,
    file: &Path,
    pending: &PendingChanges,
) -> std::result::Result<PendingChange, String> {
    let path = expand(path);
    // Such as `..`: the name in the archive is the real one.
    let named = if path.file_name().is_some() { Ok(path.clone()) } else { path.canonicalize() };
    let there = named.and_then(|named| named.symlink_metadata().map(|_| named));
    let named = there.map_err(|error| format!("cannot read it: {}", reason(&error)))?;
    if named.canonicalize().ok().is_some_and(|named| file.canonicalize().is_ok_and(|file| file == named)) {
        return Err("an archive cannot be added to itself".to_owned());
    }
    let change = PendingChange::Add(named.clone(), directory.clone(), true);
    let set = ChangeSet::of(archive, &with(pending, &change))?;
    let (place, _) = change.new_path().ok_or("not a valid entry name")?;
    let meets = set.there(&set.placed(&place)?)?.is_some();
    Ok(PendingChange::Add(named, directory, meets))
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanoseconds: since.subsec_nanos() })
}
