//! `nra version`

use serde::Serialize;

use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;

/// Arguments of `nra version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra version\n  nra version --json")]
pub struct Args {}

/// The version as JSON.
#[derive(Debug, Serialize)]
struct Version {
    version: &'static str,
    format_versions: [u16; 1],
    codecs: [&'static str; 3],
    target: String,
}

/// Prints the version.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn run(_args: &Args, ui: &mut Ui) -> CommandResult {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        format_versions: [5],
        codecs: ["none", "zstd", "lz4"],
        target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
    };
    if !ui.is_json() {
        ui.line(format_args!("nra {} ({})", version.version, version.target))?;
        ui.line(format_args!("writes NRA {}; codecs {}", version.format_versions[0], version.codecs.join(", ")))?;
    }
    ui.finish(Outcome::Done, "version", &version)
}
