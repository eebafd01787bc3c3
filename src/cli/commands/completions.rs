//! `nra completions`

use clap_complete::Shell;
use serde::Serialize;

use crate::report::{CommandResult, Outcome};
use crate::ui::Ui;

/// Arguments of `nra completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nra completions bash > ~/.local/share/bash-completion/completions/nra
  nra completions zsh > ~/.zfunc/_nra
  nra completions fish > ~/.config/fish/completions/nra.fish")]
pub struct Args {
    /// Shell to complete for; bash, zsh and fish complete paths inside archives, too
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Scripts that ask the program itself, and so complete paths inside archives, too; the other shells get a list of words.
const ASKING: [(Shell, &str); 3] = [
    (Shell::Bash, include_str!("completions/nra.bash")),
    (Shell::Zsh, include_str!("completions/nra.zsh")),
    (Shell::Fish, include_str!("completions/nra.fish")),
];

/// Prints the completion script.
///
/// # Errors
///
/// When standard output can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let script = match ASKING.iter().find(|(shell, _)| *shell == args.shell) {
        Some((_, script)) => (*script).to_owned(),
        None => listing(args.shell),
    };
    if !ui.is_json() {
        ui.write(script.as_bytes())?;
    }
    ui.finish(Outcome::Done, "completions", &Script { shell: args.shell.to_string(), script })
}

/// Makes a script that knows all visible words, and nothing about archives.
fn listing(shell: Shell) -> String {
    let definition = crate::definition();
    // The generators offer hidden commands, too.
    let mut shown = clap::Command::new("nra").args(definition.get_arguments().cloned());
    shown = shown.subcommands(definition.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "nra", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
