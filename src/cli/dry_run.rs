//! Dry runs of commands that store entries.

use std::path::Path;

use serde::Serialize;

use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_format::Error;
use nra_format::entry::Kind;
use nra_format::path::EntryPath;
use nra_format::progress::Monitor;
use nra_text::{ArchiveField, PathField};

/// Suffix of messages about a dry run.
pub const DRY_RUN: &str = "dry run, nothing written";

/// A path to pack as JSON.
#[derive(Debug, Serialize)]
struct EntryRecord<'a> {
    #[serde(rename = "type")]
    record: &'static str,
    #[serde(flatten)]
    path: PathField<'a>,
    kind: &'static str,
}

/// The result of a dry run as JSON.
#[derive(Debug, Serialize)]
struct DryRun {
    #[serde(flatten)]
    archive: ArchiveField,
    entries: u64,
}

/// Receives each entry that would be stored.
pub type Visit<'a> = &'a mut dyn FnMut(&EntryPath, Kind) -> Result<(), Error>;

/// Lists the entries that `command` would store in `output`, as enumerated by `survey`.
///
/// # Errors
///
/// As `survey` does.
pub fn list(
    command: &'static str,
    output: &Path,
    survey: &mut dyn FnMut(&dyn Monitor, Visit<'_>) -> Result<(), Error>,
    ui: &mut Ui,
) -> CommandResult {
    ui.list(command, "entries");
    let mut entries = 0;
    let mut failure = None;
    let progress = ui.progress("scanning");
    let result = survey(&progress, &mut |path, kind| {
        entries += 1;
        let bytes = path.as_bytes();
        let printed = if ui.is_json() {
            ui.record(&EntryRecord { record: "entry", path: PathField::new(bytes), kind: nra_text::kind(kind) })
        } else {
            ui.name_line("", bytes, "")
        };
        printed.map_err(|error| {
            failure = Some(error);
            Error::Cancelled
        })
    });
    drop(progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    result?;
    ui.finish(Outcome::Done, "summary", &DryRun { archive: ArchiveField::new(output), entries })
}
