//! Writes planned changes as one commit.

use std::path::Path;
use std::sync::Arc;

use crate::convert::change::remove;
use crate::convert::select::Selection;
use crate::format::archive::Archive;
use crate::format::error::{Error, Result};
use crate::format::nra::writer::{Writer, WriterOptions};
use crate::format::progress::Monitor;
use crate::format::source::FileStore;
use crate::tui::state::staged::Stage;

/// Writes changes that were planned at a commit, and says what has been written.
///
/// # Errors
///
/// `Usage` when the archive has another commit by now: the numbers would mean other entries. The archive is what it was then.
pub fn commit(file: &Path, planned_at: u64, message: &str, changes: &[Stage], monitor: &dyn Monitor) -> Result<String> {
    let options = WriterOptions { message: message.to_owned(), ..WriterOptions::balanced() };
    let mut writer = Writer::append(Arc::new(FileStore::open(file)?), options)?;
    let base = writer.base().map(Arc::clone);
    let base = base.filter(|base| base.info().commit == Some(planned_at));
    let stale = || Error::Usage { detail: "the archive has another commit by now; open it anew".to_owned() };
    let base = base.ok_or_else(stale)?;
    for change in changes {
        match change {
            Stage::Remove(ranges) => {
                let selection = Selection::of_numbers(&*base, ranges.iter().cloned())?;
                remove::<_, Error>(&mut writer, &selection, monitor, &mut |_| Ok(()))?;
            }
            Stage::Rename(from, to) => writer.rename(from, to)?,
        }
    }
    let (_, stats) = writer.finish(monitor)?;
    Ok(format!("commit {} is written; H goes back", stats.commit))
}
