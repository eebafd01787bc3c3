//! `nra browse`

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::cli::args::{ArchiveArg, ResourceArgs};
use crate::cli::reading;
use crate::cli::report::{CommandResult, Failure, Outcome};
use crate::cli::signals::CleanStop;
use crate::cli::ui::Ui;
use crate::format::Error;
use crate::tui::glyphs;
use crate::tui::run::{self, Options};

/// Bound for decoded blocks and pages unless `--memory` says otherwise, bytes: enough for what a screen shows.
const CACHE: u64 = 48 << 20;

/// Arguments of `nra browse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra browse photos.nra
  nra photos.nra

? shows the keys.")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// Runs the browser.
///
/// # Errors
///
/// When there is no terminal, or the archive does not open.
pub fn run(args: &Args, _ui: &mut Ui) -> CommandResult {
    if !is_interactive() {
        let failure = Failure::usage("browse needs a terminal for its screen and its keys");
        return Err(failure.hint("nra list ARCHIVE prints what is in an archive"));
    }
    let resources = ResourceArgs { memory: args.resources.memory.or(Some(CACHE)), ..args.resources.clone() };
    let opened = reading::open(&args.archive, &resources)?;
    let file = args.archive.archive.file_name().unwrap_or(args.archive.archive.as_os_str());
    let options = Options { name: glyphs::shown(file.as_bytes()), mouse: !args.no_mouse };
    let archive = Arc::from(opened.archive);
    // The first signal ends the browser, which gives the terminal back.
    let _clean = CleanStop::begin();
    match run::run(archive, &options) {
        Ok(true) => Err(Error::Cancelled.into()),
        Ok(false) => Ok(Outcome::Done),
        Err(error) => Err(Error::io("use", "the terminal", error).into()),
    }
}

/// Says whether there are a screen and keys.
pub fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}
