//! Writes planned changes as one commit.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::convert::change::{make_directory, remove};
use crate::convert::pack::{Input, PackOptions, add_to};
use crate::convert::select::Selection;
use crate::format::archive::Archive;
use crate::format::entry::{Entry, Kind, Timestamp};
use crate::format::error::{Error, Result, reason};
use crate::format::nra::writer::{Writer, WriterOptions};
use crate::format::path::EntryPath;
use crate::format::progress::Monitor;
use crate::format::source::FileStore;
use crate::tui::effect::Check;
use crate::tui::glyphs;
use crate::tui::state::staged::{Stage, Staged};
use crate::tui::work::jobs::expand;
use crate::tui::work::told;

/// What has been written.
pub struct Done {
    /// A sentence on it.
    pub text: String,
    /// Files that could not be added.
    pub left_out: u64,
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
    let encryption = archive.keyring().cloned();
    let options = WriterOptions { message: message.to_owned(), encryption, ..WriterOptions::balanced() };
    let mut writer = Writer::append(Arc::new(FileStore::open(file)?), options)?;
    let base = writer.base().map(Arc::clone);
    let base = base.filter(|base| base.info().commit == Some(planned_at));
    let stale = || Error::Usage { detail: "the archive has another commit by now; open it anew".to_owned() };
    let base = base.ok_or_else(stale)?;
    let mut left_out = 0;
    for change in changes {
        match change {
            Stage::Remove(ranges, _) => {
                let selection = Selection::of_numbers(&*base, ranges.iter().cloned())?;
                remove::<_, Error>(&mut writer, &selection, monitor, &mut |_| Ok(()))?;
            }
            Stage::Rename(from, to) => writer.rename(from, to)?,
            Stage::MakeDirectory(path) => make_directory(&mut writer, path, now())?,
            Stage::Add(path, directory) => {
                let prefix = directory.as_ref().map_or_else(Vec::new, |directory| directory.as_bytes().to_vec());
                let options = PackOptions { prefix, ..PackOptions::default() };
                let lost;
                (writer, lost) = add_to(&[input(path)], file, writer, &options, monitor)?;
                left_out += lost;
            }
        }
    }
    let (_, stats) = writer.finish(monitor)?;
    let mut text = format!("commit {} is written; H goes back", stats.commit);
    if base.info().recovery.is_some() && stats.commit != planned_at {
        text += "; the recovery data went with it: nra protect makes it anew";
    }
    Ok(Done { text, left_out })
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
        Check::Add(path, directory) => look(&path, directory).map(Some),
        Check::Plan(stage, staged) => {
            if let Some((path, _)) = stage.brings() {
                is_free(archive, &path, &staged)?;
            }
            Ok(Some(stage))
        }
        Check::Output(path) => match expand(&path).symlink_metadata() {
            Ok(_) => Err("there is such a file already: choose another name".to_owned()),
            Err(_) => Ok(None),
        },
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

/// Finds out whether there is something to add.
fn look(path: &Path, directory: Option<EntryPath>) -> std::result::Result<Stage, String> {
    let path = expand(path);
    // Such as `..`: the name in the archive is the real one.
    let named = if path.file_name().is_some() { Ok(path.clone()) } else { path.canonicalize() };
    let there = named.and_then(|named| named.symlink_metadata().map(|_| named));
    let told = |error| format!("it does not read: {}", reason(&error));
    there.map(|named| Stage::Add(named, directory)).map_err(told)
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanoseconds: since.subsec_nanos() })
}
