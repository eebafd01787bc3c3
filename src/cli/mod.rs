//! The command line: arguments, one file a command, output, progress, failures.
//!
//! A command is short: arguments, one call into the library, print. Nothing below this module prints.

pub mod args;
pub mod changing;
pub mod commands;
pub mod console;
pub mod earlier;
pub mod inputs;
pub mod inside;
pub mod keys;
pub mod listing;
pub mod packing;
pub mod progress;
pub mod reading;
pub mod report;
pub mod signals;
pub mod tree;
pub mod ui;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::cli::args::GlobalArgs;
use crate::cli::commands::Command;
use crate::cli::report::{Code, Failure};
use crate::cli::ui::Ui;
pub use crate::text;

/// Archives of large sets of files, read entry by entry
#[derive(Debug, Parser)]
#[command(
    name = "nra",
    version,
    max_term_width = 100,
    disable_help_subcommand = false,
    subcommand_value_name = "COMMAND",
    after_help = "nra help COMMAND tells about a command.",
    after_long_help = EXIT_CODES
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Table of exit codes, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed (grep: nothing found)
  2    wrong command line (grep: a file or pattern that is not there, too)
  3    done, but something was skipped or degraded
  4    archive damaged or unsupported
  5    wrong or missing key
  130  interrupted (143 when terminated)";

/// Returns the definition of the command line, for help, completions and man pages.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    report::install_panic_hook();
    signals::install();
    let run = std::panic::AssertUnwindSafe(|| run(earlier::translate(std::env::args_os().collect())));
    // The hook has told of the panic.
    let code = std::panic::catch_unwind(run).unwrap_or(Code::Failed);
    ExitCode::from(code.number())
}

fn run(mut arguments: Vec<OsString>) -> Code {
    if is_archive_alone(&arguments) {
        arguments.insert(1, "browse".into());
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &arguments),
    };
    let mut ui = match Ui::new(&cli.global) {
        Ok(ui) => ui,
        Err(failure) => return tell(failure, &cli.global),
    };
    let result = cli.command.run(&mut ui);
    ui.end(result)
}

/// Says whether the only argument is a file that is no command, on a terminal: that opens the browser.
fn is_archive_alone(arguments: &[OsString]) -> bool {
    #[cfg(feature = "tui")]
    if let [_, word] = arguments {
        let is_command = word.to_str().is_some_and(|word| definition().find_subcommand(word).is_some());
        return !is_command && std::path::Path::new(word).is_file() && commands::browse::is_interactive();
    }
    let _ = arguments;
    false
}

/// Ends when the arguments were not understood, or ask for help or version.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> Code {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return match error.print() {
                Err(io) if io.kind() != std::io::ErrorKind::BrokenPipe => tell(Failure::output(&io), &GlobalArgs::default()),
                _ => Code::Done,
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return Code::Usage;
        }
        _ => {}
    }
    let given = |option: &str| arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == option);
    let global = GlobalArgs { json: given("--json"), jsonl: given("--jsonl"), ..GlobalArgs::default() };
    let mut failure = report::command_line(error);
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        failure = unknown_verb(word, error.get(ContextKind::SuggestedSubcommand));
    }
    if error.kind() == ErrorKind::MissingSubcommand {
        failure = Failure::usage("a command is missing");
    }
    let verb = arguments
        .iter()
        .skip(1)
        .filter_map(|argument| argument.to_str())
        .find(|word| definition().find_subcommand(word).is_some());
    let help = verb.map_or_else(|| "nra --help".to_owned(), |verb| format!("nra {verb} --help"));
    tell(failure.hint(format!("{help} lists what there is")), &global)
}

/// A word that is no command may be a mistyped one, or a file.
fn unknown_verb(word: &str, suggested: Option<&ContextValue>) -> Failure {
    let shown = crate::format::path::Quoted::new(word);
    let nearest = match suggested {
        // Old and short names are understood, but not advertised.
        Some(ContextValue::Strings(words)) => words.iter().rfind(|word| is_command(word)).cloned(),
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let is_file = std::path::Path::new(word).exists();
    let failure = if is_file {
        Failure::usage(format!("{shown} is a file, not a command"))
    } else {
        Failure::usage(format!("no command {shown}, and no file of that name"))
    };
    let failure = nearest.into_iter().fold(failure, |failure, verb| failure.hint(format!("did you mean nra {verb}?")));
    if is_file { failure.hint(format!("nra list {shown} shows what is in it")) } else { failure }
}

fn is_command(word: &str) -> bool {
    definition().get_subcommands().any(|command| command.get_name() == word)
}

/// Tells a failure that came before there was a [`Ui`].
fn tell(failure: Failure, global: &GlobalArgs) -> Code {
    let plain = GlobalArgs { log_file: None, ..global.clone() };
    match Ui::new(&plain) {
        Ok(ui) => ui.end(Err(failure)),
        // Only a log file can fail, and there is none.
        Err(_) => failure.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }
}
