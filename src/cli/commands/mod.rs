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

/// What nra can be told to do.
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
    /// Make a directory in an archive
    Mkdir(mkdir::Args),
    /// Make an earlier commit of an archive its newest state again
    ///
    /// That is one more commit. With patterns what they match is made as it was, and what was added there since goes; the rest stays as it is.
    Revert(revert::Args),
    /// Drop what no kept commit of an archive needs
    Compact(compact::Args),
    /// Add recovery data to an archive, which repairs damage
    Protect(protect::Args),
    /// Restore the exact bytes of a damaged archive by its recovery data
    Repair(repair::Args),
    /// Show, set and remove attributes of an archive and its entries
    Attr(attr::Args),
    /// Convert an archive of any kind into another
    Convert(convert::Args),
    /// Extract entries of an archive into a directory
    #[command(aliases = ["x", "unpack", "unpack-beta"])]
    Extract(extract::Args),
    /// List what is in an archive
    #[command(aliases = ["ls", "l"])]
    List(list::Args),
    /// Look around in an archive in the terminal
    #[cfg(feature = "tui")]
    #[command(alias = "tui")]
    Browse(browse::Args),
    /// Print the content of files in an archive
    #[command(aliases = ["stream", "stream-beta"])]
    Cat(cat::Args),
    /// Print what is known of an archive: counts, sizes, ratios
    #[command(alias = "info-beta")]
    Info(info::Args),
    /// List the commits of an archive
    Log(log::Args),
    /// List and change the passwords and keys of an encrypted archive
    Key(key::Args),
    /// Check every byte of an archive
    #[command(alias = "t")]
    Verify(verify::Args),
    /// Take what a damaged archive still holds into a new one
    Salvage(salvage::Args),
    /// Find entries by name, size, time and kind
    Find(find::Args),
    /// Search the content of files in an archive
    Grep(grep::Args),
    /// Print what differs between archives, commits and directories
    Diff(diff::Args),
    /// Print how much directories in an archive hold
    Du(du::Args),
    /// Print which containers are read and written
    Formats(formats::Args),
    /// Print a script that completes command lines in a shell
    Completions(completions::Args),
    /// Tell a shell what can stand where the cursor is
    #[command(hide = true)]
    Complete(complete::Args),
    /// Print the manual page, or write those of all commands
    Man(man::Args),
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
            Self::Completions(args) => completions::run(args, ui),
            Self::Complete(args) => complete::run(args, ui),
            Self::Man(args) => man::run(args, ui),
            Self::Version(args) => version::run(args, ui),
        }
    }
}
