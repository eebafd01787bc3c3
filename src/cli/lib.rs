//! The command line: arguments, one file per command, output, progress, errors.
//!
//! A command parses arguments, calls the library once and prints the result. Libraries never print.

mod archive_errors;
mod args;
mod attributes;
mod change;
mod command_line;
mod commands;
pub mod console;
mod description;
mod dry_run;
mod exit_code;
mod help;
mod inputs;
mod interruptible;
mod legacy_args;
mod listing;
mod open_archive;
mod output;
mod pack_args;
mod password_args;
mod passwords;
pub mod progress;
mod record;
mod report;
pub mod signals;
mod suggestions;
mod tree;
mod ui;
mod usage_errors;
mod watched_file;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::args::GlobalArgs;
use crate::commands::Command;
use crate::exit_code::Code;
use crate::report::Failure;
use crate::ui::Ui;

/// Create, read and change archives of large sets of files
#[derive(Debug, Parser)]
#[command(
    name = "nra",
    version,
    max_term_width = 80,
    override_usage = help::USAGE,
    subcommand_value_name = "COMMAND",
    after_long_help = help::EXIT_CODES
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the definition of the command line, for help, completions and man pages.
pub fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    report::install_panic_hook();
    signals::install();
    let run = std::panic::AssertUnwindSafe(|| run(legacy_args::translate(std::env::args_os().collect())));
    // The hook has reported the panic.
    let code = std::panic::catch_unwind(run).unwrap_or(Code::Failed);
    ExitCode::from(code.number())
}

fn run(mut arguments: Vec<OsString>) -> Code {
    if opens_browser(&arguments) {
        arguments.insert(1, "browse".into());
    }
    // Help ignores output options such as --json.
    if arguments.get(1).is_some_and(|verb| verb == "help") {
        arguments.retain(|argument| !command_line::is_option(argument));
    }
    let contains = |word: &str| arguments.iter().skip(1).any(|argument| argument == word);
    let parser = if contains("--help") || contains("help") { definition() } else { help::short(definition()) };
    let cli = match parser.try_get_matches_from(&arguments).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return handle_clap_error(&error, &arguments),
    };
    let mut ui = match Ui::new(&cli.global) {
        Ok(ui) => ui,
        Err(failure) => return report_failure(failure, &cli.global),
    };
    let result = cli.command.run(definition, &mut ui);
    ui.end(result)
}

/// Returns whether the arguments open the browser: the first one is an existing file (perhaps with
/// a commit) or directory and not a command, and only options follow; or there are none and the
/// current directory contains archives.
fn opens_browser(arguments: &[OsString]) -> bool {
    #[cfg(feature = "tui")]
    {
        let is_wanted = match arguments {
            [_] => !commands::browse::archives_in(std::path::Path::new(".")).is_empty(),
            [_, word, rest @ ..] => {
                let found = crate::open_archive::locate(std::path::Path::new(word), None).is_ok_and(|(path, _)| path.exists());
                found
                    && definition().find_subcommand(word).is_none()
                    && rest.first().is_none_or(|next| command_line::is_option(next))
            }
            _ => false,
        };
        is_wanted && commands::browse::is_interactive()
    }
    #[cfg(not(feature = "tui"))]
    {
        let _ = arguments;
        false
    }
}

/// Handles arguments that are invalid or request help or the version.
fn handle_clap_error(error: &clap::Error, arguments: &[OsString]) -> Code {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return match error.print() {
                Err(io) if io.kind() != std::io::ErrorKind::BrokenPipe => {
                    report_failure(Failure::output(&io), &GlobalArgs::default())
                }
                _ => Code::Done,
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return Code::Usage;
        }
        _ => {}
    }
    let is_given = |option: &str| arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == option);
    let global = GlobalArgs { json: is_given("--json"), jsonl: is_given("--jsonl"), ..GlobalArgs::default() };
    report_failure(usage_errors::explain(error, &definition(), arguments), &global)
}

/// Reports a failure that happened before there was a [`Ui`].
fn report_failure(failure: Failure, global: &GlobalArgs) -> Code {
    let plain = GlobalArgs { log_file: None, ..global.clone() };
    match Ui::new(&plain) {
        Ok(ui) => ui.end(Err(failure)),
        // Only opening a log file can fail, and there is none.
        Err(_) => failure.code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definition_is_valid() {
        definition().debug_assert();
    }
}
