//! `nra completions`

use clap_complete::Shell;
use serde::Serialize;

use crate::cli::report::{CommandResult, Outcome};
use crate::cli::ui::Ui;

/// Arguments of `nra completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra completions bash > ~/.local/share/bash-completion/completions/nra
  nra completions zsh > ~/.zfunc/_nra
  nra completions fish > ~/.config/fish/completions/nra.fish")]
pub struct Args {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Prints the completion script.
///
/// # Errors
///
/// When standard output can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::definition(), "nra", &mut script);
    if !ui.is_json() {
        ui.write(&script)?;
    }
    let script = String::from_utf8_lossy(&script).into_owned();
    ui.finish(Outcome::Done, "completions", &Script { shell: args.shell.to_string(), script })
}
