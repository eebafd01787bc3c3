//! `nra completions`

use clap_complete::Shell;

use crate::record::record;
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
    /// Shell; bash, zsh and fish also complete paths inside archives
    #[arg(value_enum)]
    shell: Shell,
}

/// Scripts that call `nra complete`, which also completes paths inside archives. Other shells get a
/// static list of words.
const DYNAMIC: [(Shell, &str); 3] = [
    (Shell::Bash, include_str!("completions/nra.bash")),
    (Shell::Zsh, include_str!("completions/nra.zsh")),
    (Shell::Fish, include_str!("completions/nra.fish")),
];

/// Prints the completion script.
pub fn run(args: &Args, definition: &clap::Command, ui: &mut Ui) -> CommandResult {
    let script = match DYNAMIC.iter().find(|(shell, _)| *shell == args.shell) {
        Some((_, script)) => (*script).to_owned(),
        None => static_script(args.shell, definition),
    };
    if !ui.is_json() {
        ui.write(script.as_bytes())?;
    }
    ui.finish(Outcome::Done, "completions", &record! { shell: args.shell.to_string(), script })
}

/// Generates a script with all visible words, without paths inside archives.
fn static_script(shell: Shell, definition: &clap::Command) -> String {
    // The generators would include hidden commands.
    let mut shown = clap::Command::new("nra").args(definition.get_arguments().cloned());
    shown = shown.subcommands(definition.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "nra", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
