//! The commands, one file each: `Args` and `run`.

pub mod add;
pub mod attr;
#[cfg(feature = "tui")]
pub mod browse;
pub mod cat;
pub mod compact;
pub mod complete;
pub mod completions;
pub mod convert;
pub mod diff;
pub mod du;
pub mod extract;
pub mod find;
pub mod formats;
pub mod grep;
pub mod info;
pub mod key;
pub mod list;
pub mod log;
pub mod man;
pub mod mkdir;
pub mod mv;
pub mod pack;
pub mod protect;
pub mod repair;
pub mod revert;
pub mod rm;
pub mod salvage;
pub mod verify;
pub mod version;

use clap::Subcommand;

use crate::report::CommandResult;
use crate::ui::Ui;

/// The command to run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Pack files and directories into a new archive
    #[command(aliases = ["c", "pack-beta"])]
    Pack(pack::Args),
    /// Add files and directories to an archive
    #[command(alias = "append")]
    Add(add::Args),
    /// Remove entries from an archive; earlier commits keep them
    Rm(rm::Args),
    /// Move or rename an entry in an archive
    Mv(mv::Args),
    /// Create a directory in an archive
    Mkdir(mkdir::Args),
    /// Restore an earlier commit of an archive as a new commit
    ///
    /// With patterns, only matching entries are restored, and matching entries added since then are removed. Everything else stays unchanged.
    Revert(revert::Args),
    /// Reclaim the space of old commits
    Compact(compact::Args),
    /// Add recovery data for repairing damage later
    Protect(protect::Args),
    /// Restore a damaged archive from its recovery data
    Repair(repair::Args),
    /// Show, set or remove attributes of an archive or its entries
    Attr(attr::Args),
    /// Convert an archive to another format
    Convert(convert::Args),
    /// Extract entries from an archive
    #[command(aliases = ["x", "unpack", "unpack-beta"])]
    Extract(extract::Args),
    /// List the entries of an archive
    #[command(aliases = ["ls", "l"])]
    List(list::Args),
    /// Browse an archive in the terminal
    #[cfg(feature = "tui")]
    #[command(alias = "tui")]
    Browse(browse::Args),
    /// Print the content of files from an archive
    #[command(aliases = ["stream", "stream-beta"])]
    Cat(cat::Args),
    /// Show counts, sizes and properties of an archive
    #[command(alias = "info-beta")]
    Info(info::Args),
    /// List the commits of an archive
    Log(log::Args),
    /// List or change the keys of an encrypted archive
    Key(key::Args),
    /// Check the integrity of an archive
    #[command(alias = "t")]
    Verify(verify::Args),
    /// Recover readable entries from a damaged archive
    Salvage(salvage::Args),
    /// Find entries by name, size, time, type or content
    Find(find::Args),
    /// Search the content of files in an archive
    Grep(grep::Args),
    /// Compare archives, commits or directories
    Diff(diff::Args),
    /// Show the size of directories in an archive
    Du(du::Args),
    /// List the supported archive formats
    Formats(formats::Args),
    /// Print a shell completion script
    Completions(completions::Args),
    /// List completions for a shell
    #[command(hide = true)]
    Complete(complete::Args),
    /// Print a manual page or write all of them
    Man(man::Args),
    /// Print the version and supported codecs
    Version(version::Args),
}

impl Command {
    /// Runs the command. `definition` returns the definition of the whole command line.
    pub fn run(&self, definition: fn() -> clap::Command, ui: &mut Ui) -> CommandResult {
        match self {
            Self::Pack(args) => pack::run(args, ui),
            Self::Add(args) => add::run(args, ui),
            Self::Rm(args) => rm::run(args, ui),
            Self::Mv(args) => mv::run(args, ui),
            Self::Mkdir(args) => mkdir::run(args, ui),
            Self::Revert(args) => revert::run(args, ui),
            Self::Compact(args) => compact::run(args, ui),
            Self::Protect(args) => protect::run(args, ui),
            Self::Repair(args) => repair::run(args, ui),
            Self::Attr(args) => attr::run(args, ui),
            Self::Convert(args) => convert::run(args, ui),
            Self::Extract(args) => extract::run(args, ui),
            Self::List(args) => list::run(args, ui),
            #[cfg(feature = "tui")]
            Self::Browse(args) => browse::run(args, ui),
            Self::Cat(args) => cat::run(args, ui),
            Self::Key(args) => key::run(args, ui),
            Self::Info(args) => info::run(args, ui),
            Self::Log(args) => log::run(args, ui),
            Self::Verify(args) => verify::run(args, ui),
            Self::Salvage(args) => salvage::run(args, ui),
            Self::Find(args) => find::run(args, ui),
            Self::Grep(args) => grep::run(args, ui),
            Self::Diff(args) => diff::run(args, ui),
            Self::Du(args) => du::run(args, ui),
            Self::Formats(args) => formats::run(args, ui),
            Self::Completions(args) => completions::run(args, &definition(), ui),
            Self::Complete(args) => complete::run(args, &definition(), ui),
            Self::Man(args) => man::run(args, &definition(), ui),
            Self::Version(args) => version::run(args, ui),
        }
    }
}
