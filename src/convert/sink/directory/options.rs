//! How entries are extracted to a directory, and what was done.

use std::path::PathBuf;

use nra_format::entry::{Entry, Timestamp};
use nra_format::error::Result;

/// Where the entries go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryTarget {
    /// Exactly this directory, made when it is missing. A symlink to a directory is followed: it is what the user named.
    Exactly(PathBuf),
    /// `base` when everything selected lies below one name, otherwise the folder `name` in it. A symlink of that name is not followed.
    Auto {
        /// An existing directory.
        base: PathBuf,
        /// Name of the folder, one path component.
        name: Vec<u8>,
    },
}

/// What happens where something stands in the place of an entry. Directories always merge. Where a directory stands and something else goes, or the
/// other way round, what the policy leaves there costs the entry, with all that lies below it, and a warning; a directory is never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Stop before anything is written.
    #[default]
    Refuse,
    /// Replace it, atomically, once the new content is whole.
    Replace,
    /// Leave it and skip the entry.
    Skip,
    /// Replace it if it is older than the entry, otherwise leave it.
    KeepNewer,
    /// Rename it to `name~` (`name~2` and so on if that exists), once the new content is whole.
    Backup,
    /// Give the entry another name: `name (2).ext`. What lies below a directory goes with it.
    Rename,
}

/// Something that stands where an entry goes.
#[derive(Debug, Clone, Copy)]
pub struct Conflict<'a> {
    /// The entry; or the first one below a directory that the archive does not have as an entry, or that is not selected.
    pub entry: &'a Entry,
    /// Path below the target.
    pub path: &'a [u8],
    /// A directory goes there.
    pub wants_directory: bool,
    /// A directory is there.
    pub is_directory: bool,
    /// Length of what is there, bytes.
    pub size: u64,
    /// Its time of modification.
    pub modified: Timestamp,
}

/// Answer to a [`Conflict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What to do.
    pub overwrite: Overwrite,
    /// Do the same with all conflicts that follow.
    pub all: bool,
}

/// What was done with an entry, or would be in a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Made.
    Create,
    /// Made in place of what was there.
    Replace,
    /// Made; what was there has another name now.
    Backup,
    /// Made under another name.
    Rename,
    /// Made as a hard link of an entry made before.
    Link,
    /// Not made because something is there.
    Keep,
    /// The directory was there.
    Merge,
    /// Not made, nor is anything else: something is there, and the policy does not settle it.
    Refuse,
}

/// One entry that is done with.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Path below the target.
    pub path: &'a [u8],
    /// What was done.
    pub action: Action,
}

/// Asks about a conflict. An error ends the extraction before anything is written.
pub type Ask<'a> = &'a (dyn Fn(&Conflict<'_>) -> Result<Answer> + Sync);

/// Learns of each entry that is done; called from several threads.
pub type Observe<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

/// A directory that entries are extracted to.
///
/// Owners are restored when running as root, unless [`MetadataPolicy::owner`](crate::MetadataPolicy::owner) omits them; with
/// [`OwnerPolicy::Ids`](crate::OwnerPolicy::Ids) ids are restored as they are, even when the archive has names. Before anything is written,
/// [`Limits::bytes`](crate::Limits::bytes) is compared with the content; hard links of one file count once.
#[derive(Clone)]
pub struct DirectorySink<'a> {
    /// Which directory.
    pub target: DirectoryTarget,
    /// What happens to existing files.
    pub overwrite: Overwrite,
    /// Asks for each conflict, instead of `overwrite`.
    pub ask: Option<Ask<'a>>,
    /// Remove this many components at the start of each path; entries with no more than that are skipped.
    pub strip_components: usize,
    /// Make files only, all directly in the target.
    pub flat: bool,
    /// Restore set-id bits and file capabilities, and make device nodes.
    pub special: bool,
    /// Restore modes exactly (`true`) or without the bits of the umask; `None` = exactly when running as root, as tar does.
    pub exact_modes: Option<bool>,
    /// Bits removed from modes; `None` = the umask of the process.
    pub umask: Option<u32>,
    /// Learns of each entry that is done.
    pub observe: Option<Observe<'a>>,
}

impl DirectorySink<'_> {
    /// Returns a sink that refuses to overwrite and restores only metadata that is safe to restore.
    pub fn new(target: DirectoryTarget) -> Self {
        Self {
            target,
            overwrite: Overwrite::Refuse,
            ask: None,
            strip_components: 0,
            flat: false,
            special: false,
            exact_modes: None,
            umask: None,
            observe: None,
        }
    }
}

/// What an extraction did. Hard links count as files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryStats {
    /// Directory that the entries went to.
    pub target: PathBuf,
    /// Files made.
    pub files: u64,
    /// Those of them that are hard links of others.
    pub links: u64,
    /// Directories made or merged.
    pub directories: u64,
    /// Symlinks made.
    pub symlinks: u64,
    /// Fifos and devices made.
    pub specials: u64,
    /// Content of the files made, of each hard link and holes too, bytes.
    pub bytes: u64,
    /// Entries made under another name because something was there.
    pub renamed: u64,
    /// Things that were there and have another name now.
    pub backups: u64,
    /// Entries not made because something was there.
    pub kept: u64,
    /// Entries not made although they were selected, damaged ones among them.
    pub omitted: u64,
    /// Entries not made because the archive is damaged.
    pub damaged: u64,
    /// Entries of which [`DirectorySink::special`] would bring back more: devices, set-id bits, capabilities.
    pub untrusted: u64,
}

impl DirectoryStats {
    /// Returns the number of entries that were made or merged.
    pub fn made(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.specials
    }
}
