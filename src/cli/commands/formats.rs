//! `nra formats`

use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;
use nra_format::archive::{FORMATS, Format};

/// Arguments of `nra formats`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The column 'pipe' shows formats that can be written to standard output. All formats can be\nread from standard input (-).\n\nExamples:\n  nra formats\n  nra formats --json"
)]
pub struct Args {}

/// Prints the table of formats.
pub fn run(_args: &Args, ui: &mut Ui) -> CommandResult {
    ui.list("formats", "formats");
    let width = |heading: &str, column: fn(&Format) -> &str| {
        FORMATS.iter().map(|format| column(format).len()).max().unwrap_or_default().max(heading.len())
    };
    let (name_width, extension_width) = (width("format", Format::name), width("extension", |format| format.extension));
    if !ui.is_json() {
        ui.line(format_args!(
            "{:<name_width$}  {:<extension_width$}  read  write  append  pipe  detected by",
            "format", "extension"
        ))?;
    }
    for format in FORMATS {
        let Format { extension, signature, write, append, stream, .. } = *format;
        let name = format.name();
        if ui.is_json() {
            ui.record(&record! {
                "format" => name,
                extension,
                magic: signature,
                read: true,
                write,
                append,
                stream,
            })?;
            continue;
        }
        let [write, append, stream] = [write, append, stream].map(|able| if able { "yes" } else { "no" });
        ui.line(format_args!(
            "{name:<name_width$}  {extension:<extension_width$}  yes   {write:<5}  {append:<6}  {stream:<4}  {signature}"
        ))?;
    }
    ui.finish(Outcome::Done, "summary", &record! { formats: FORMATS.len() })
}
