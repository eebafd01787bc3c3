//! `nra formats`

use serde::Serialize;

use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_format::archive::{FORMATS, Format};

/// Arguments of `nra formats`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The column 'pipe' shows formats that can be written to standard output. All formats can be\nread from standard input (-).\n\nExamples:\n  nra formats\n  nra formats --json"
)]
pub struct Args {}

/// A supported format as JSON.
#[derive(Debug, Serialize)]
struct FormatRecord {
    #[serde(rename = "type")]
    record: &'static str,
    name: &'static str,
    extension: &'static str,
    /// How the format is detected: its first bytes in hexadecimal.
    magic: &'static str,
    read: bool,
    write: bool,
    append: bool,
    /// Can be written to a pipe.
    stream: bool,
}

impl From<&Format> for FormatRecord {
    fn from(format: &Format) -> Self {
        let Format { extension, signature, write, append, stream, .. } = *format;
        Self { record: "format", name: format.name(), extension, magic: signature, read: true, write, append, stream }
    }
}

#[derive(Debug, Serialize)]
struct Summary {
    formats: usize,
}

/// Prints the table of formats.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn run(_args: &Args, ui: &mut Ui) -> CommandResult {
    ui.list("formats", "formats");
    let formats: Vec<FormatRecord> = FORMATS.iter().map(FormatRecord::from).collect();
    let name_width = formats.iter().map(|format| format.name.len()).max().unwrap_or_default().max("format".len());
    let extension_width = formats.iter().map(|format| format.extension.len()).max().unwrap_or_default().max("extension".len());
    if !ui.is_json() {
        ui.line(format_args!(
            "{:<name_width$}  {:<extension_width$}  read  write  append  pipe  detected by",
            "format", "extension"
        ))?;
    }
    for format in &formats {
        ui.record(format)?;
        if !ui.is_json() {
            let [read, write, append, stream] =
                [format.read, format.write, format.append, format.stream].map(|able| if able { "yes" } else { "no" });
            ui.line(format_args!(
                "{:<name_width$}  {:<extension_width$}  {read:<4}  {write:<5}  {append:<6}  {stream:<4}  {}",
                format.name, format.extension, format.magic
            ))?;
        }
    }
    ui.finish(Outcome::Done, "summary", &Summary { formats: formats.len() })
}
