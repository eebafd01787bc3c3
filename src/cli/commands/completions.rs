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
    /// Shell to complete for; bash completes paths inside archives, too
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Serialize)]
struct Script {
    shell: String,
    script: String,
}

/// Paths inside archives, for bash: once an archive has been named, the commands that read it complete what is in it.
const BASH_PATHS: &str = r#"
_nra_inside() {
    local current="${COMP_WORDS[COMP_CWORD]}" archive="" word
    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        [[ -f "$word" ]] && archive="$word" && break
    done
    case "${COMP_WORDS[1]}" in
        cat | extract | x | list | ls | l | find | du | verify | t | grep) ;;
        *) archive="" ;;
    esac
    if [[ -z "$archive" || "$current" == -* ]]; then
        _nra "$@"
        return
    fi
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete-paths -- "$archive" "${current//\\/}" 2> /dev/null)
    compopt -o filenames
    [[ "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
}
complete -F _nra_inside -o bashdefault -o default nra
"#;

/// Prints the completion script.
///
/// # Errors
///
/// When standard output can't be written.
pub fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::definition(), "nra", &mut script);
    if args.shell == Shell::Bash {
        script.extend_from_slice(BASH_PATHS.as_bytes());
    }
    if !ui.is_json() {
        ui.write(&script)?;
    }
    let script = String::from_utf8_lossy(&script).into_owned();
    ui.finish(Outcome::Done, "completions", &Script { shell: args.shell.to_string(), script })
}
