//! `nra version`

use crate::record::record;
use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;

/// Arguments of `nra version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  nra version\n  nra version --json")]
pub struct Args {}

/// Prints the version.
pub fn run(_args: &Args, ui: &mut Ui) -> CommandResult {
    let (version, codecs) = (env!("CARGO_PKG_VERSION"), ["none", "zstd", "lz4"]);
    let target = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    if !ui.is_json() {
        ui.line(format_args!("nra {version} ({target})"))?;
        ui.line(format_args!("writes NRA 5; codecs {}", codecs.join(", ")))?;
    }
    ui.finish(Outcome::Done, "version", &record! { version, format_versions: [5], codecs, target })
}
