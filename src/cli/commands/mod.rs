//! The commands, one file each: `Args` and `run`.

pub mod version;

use clap::Subcommand;

use crate::cli::report::CommandResult;
use crate::cli::ui::Ui;

/// What nra can be told to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the version and what was built in
    Version(version::Args),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn run(&self, ui: &mut Ui) -> CommandResult {
        match self {
            Self::Version(args) => version::run(args, ui),
        }
    }
}
