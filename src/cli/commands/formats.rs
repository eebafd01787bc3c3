//! `nra formats`

use serde::Serialize;

use crate::cli::report::{CommandResult, Outcome};
use crate::cli::ui::Ui;

/// Arguments of `nra formats`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra formats\n  nra formats --json")]
pub struct Args {}

/// What can be done with a container.
#[derive(Debug, Serialize)]
struct FormatRecord {
    #[serde(rename = "type")]
    record: &'static str,
    name: &'static str,
    extension: &'static str,
    /// First bytes that tell it, in hex.
    magic: &'static str,
    read: bool,
    write: bool,
    append: bool,
    /// Written to a pipe.
    stream: bool,
}

const FORMATS: [FormatRecord; 1] = [FormatRecord {
    record: "format",
    name: "NRA 5",
    extension: ".nra",
    magic: "4e524100 0500",
    read: true,
    write: true,
    append: false,
    stream: true,
}];

#[derive(Debug, Serialize)]
struct Summary {
    formats: usize,
}

/// Prints the table of containers.
///
/// # Errors
///
/// When standard output can't be written.
pub fn run(_args: &Args, ui: &mut Ui) -> CommandResult {
    ui.list("formats", "formats");
    if !ui.is_json() {
        ui.line("format  name    read  write  append  pipe  told by the first bytes")?;
    }
    for format in &FORMATS {
        ui.record(format)?;
        if !ui.is_json() {
            let [read, write, append, stream] =
                [format.read, format.write, format.append, format.stream].map(|able| if able { "yes" } else { "no" });
            ui.line(format_args!(
                "{:<7} {:<7} {read:<5} {write:<6} {append:<7} {stream:<5} {}",
                format.name, format.extension, format.magic
            ))?;
        }
    }
    ui.finish(Outcome::Done, "summary", &Summary { formats: FORMATS.len() })
}
