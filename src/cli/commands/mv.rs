//! `nra mv`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::change::{ChangeArgs, entry_path};
use crate::record::record;
use crate::report::CommandResult;
use crate::ui::Ui;
use nra_convert::change::target;
use nra_format::path::EntryPath;
use nra_text::PathField;

/// Arguments of `nra mv`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra mv photos.nra train/0001.jpg train/first.jpg
  nra mv photos.nra train test -m 'rename to test set'")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Entry to move, including everything below it
    #[arg(value_name = "FROM")]
    from: OsString,
    /// New path, or directory to move it to (/ for the top)
    #[arg(value_name = "TO")]
    to: OsString,
}

/// Moves or renames an entry and everything below it.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let from = entry_path(&args.from)?;
    let to = if is_top(&args.to) { None } else { Some(entry_path(&args.to)?) };
    let mut change = args.change.begin()?;
    ui.list("mv", "moves");
    let to = match to {
        Some(to) => target(&change.writer, &from, &to).map_err(|error| change.explain(error))?,
        None => EntryPath::new(from.name()).expect("a name is a path"),
    };
    change.writer.rename(&from, &to).map_err(|error| change.explain(error))?;
    if ui.is_json() {
        ui.record(&record! { "move" => from: PathField::new(from.as_bytes()), to: PathField::new(to.as_bytes()) })?;
    } else if change.is_dry() {
        let from = String::from_utf8_lossy(&ui.name(from.as_bytes())).into_owned();
        ui.name_line(format_args!("{from} -> "), to.as_bytes(), "")?;
    }
    change.finish(&format!("moved {from} to {to}"), ui)
}

/// Returns whether the path is the top directory.
fn is_top(path: &OsStr) -> bool {
    let bytes = path.as_bytes();
    bytes == b"." || bytes == b"./" || !bytes.is_empty() && bytes.iter().all(|&byte| byte == b'/')
}
