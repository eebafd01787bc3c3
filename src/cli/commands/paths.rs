//! `nra complete-paths`: what shells ask when a path inside an archive is being typed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use crate::cli::args::{ArchiveArg, ResourceArgs};
use crate::cli::reading;
use crate::cli::report::{CommandResult, Outcome};
use crate::cli::ui::Ui;
use crate::format::entry::Kind;

/// Most paths that are offered: a shell that gets more only asks whether to show them.
const MAX_OFFERED: usize = 2_000;

/// Arguments of `nra complete-paths`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra complete-paths photos.nra train/00")]
pub struct Args {
    #[command(flatten)]
    archive: ArchiveArg,
    /// What has been typed of the path
    #[arg(value_name = "START", default_value = "", hide_default_value = true)]
    start: OsString,
}

/// Prints the paths one level further that begin with what has been typed, directories with `/` behind.
///
/// # Errors
///
/// When the archive can't be read.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    // A completion must not ask for anything.
    let argument = ArchiveArg { keys: args.archive.keys.silent(), ..args.archive.clone() };
    let opened = reading::open(&argument, &ResourceArgs::default())?;
    let start = args.start.as_bytes();
    let directory = start.iter().rposition(|&byte| byte == b'/').map(|slash| &start[..slash]);
    let children = opened.archive.children(directory);
    // A name that takes more than one line, or could act on the terminal, can't be typed anyway.
    let offered = children
        .filter_map(Result::ok)
        .filter(|entry| entry.path.as_bytes().starts_with(start))
        .filter(|entry| std::str::from_utf8(entry.path.as_bytes()).is_ok_and(|path| !path.chars().any(char::is_control)))
        .take(MAX_OFFERED);
    for entry in offered {
        let slash: &[u8] = if entry.kind == Kind::Directory { b"/\n" } else { b"\n" };
        ui.write(entry.path.as_bytes())?;
        ui.write(slash)?;
    }
    Ok(Outcome::Done)
}
