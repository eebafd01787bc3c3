//! `nra mkdir`

use std::ffi::OsString;
use std::time::SystemTime;

use crate::change::{ChangeArgs, entry_path};
use crate::report::CommandResult;
use crate::ui::Ui;
use nra_convert::change::make_directory;
use nra_format::entry::Timestamp;

/// Arguments of `nra mkdir`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra mkdir photos.nra train/new")]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Directory to create, including its parents
    #[arg(value_name = "PATH")]
    path: OsString,
}

/// Creates a directory in an archive.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let path = entry_path(&args.path)?;
    let mut change = args.change.begin()?;
    make_directory(&mut change.writer, &path, now()).map_err(|error| change.explain(error))?;
    if change.is_dry() && !ui.is_json() {
        ui.name_line("", path.as_bytes(), "")?;
    }
    change.finish(&format!("created {path}"), ui)
}

fn now() -> Option<Timestamp> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanoseconds: since.subsec_nanos() })
}
