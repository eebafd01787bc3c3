//! Dry runs of commands that store entries.

use std::cell::{Cell, RefCell};
use std::path::Path;

use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_convert::{NullSink, Options, Sink, Source, convert};
use nra_format::Error;
use nra_format::entry::Kind;
use nra_format::path::EntryPath;
use nra_text::{ArchiveField, PathField};

/// Suffix of messages about a dry run.
pub const DRY_RUN: &str = "dry run, nothing written";

/// Lists the entries that `command` would store in `output`.
pub fn list(
    command: &'static str,
    output: &Path,
    source: Source<'_>,
    sink: Sink<'_>,
    options: &Options,
    ui: &mut Ui,
) -> CommandResult {
    ui.list(command, "entries");
    let entries = Cell::new(0);
    let failure = Cell::new(None);
    let progress = ui.progress("scanning");
    let printer = RefCell::new(&mut *ui);
    let visit = |path: &EntryPath, kind: Kind| {
        entries.set(entries.get() + 1);
        let mut ui = printer.borrow_mut();
        let bytes = path.as_bytes();
        let printed = if ui.is_json() {
            ui.record(&record! { "entry" => ..PathField::new(bytes), kind: nra_text::kind(kind) })
        } else {
            ui.name_line("", bytes, "")
        };
        printed.map_err(|error| {
            failure.set(Some(error));
            Error::Cancelled
        })
    };
    let sink = Sink::Null(NullSink { of: Box::new(sink), visit: Some(&visit) });
    let result = convert(source, sink, options, &progress);
    drop(progress);
    if let Some(failure) = failure.take() {
        return Err(failure);
    }
    result?;
    ui.finish(Outcome::Done, "summary", &record! { ..ArchiveField::new(output), entries: entries.get() })
}
