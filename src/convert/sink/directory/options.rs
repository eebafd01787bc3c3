//! How entries are extracted to a directory, and what was done.

use std::path::PathBuf;

use nra_format::entry::{Entry, Timestamp};
use nra_format::error::Result;

/// The directory that entries are extracted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryTarget {
    /// Exactly this directory, created if it is missing. A symlink to a directory is followed,
    /// because the user named it.
    Exactly(PathBuf),
    /// `base` if all selected entries are below one name, otherwise the folder `name` in it. A
    /// symlink of that name is not followed.
    Auto {
        /// An existing directory.
        base: PathBuf,
        /// Name of the folder, one path component.
        name: Vec<u8>,
    },
}

/// How a conflict with an existing file is resolved. Directories are always merged. If one of the
/// two is a directory and the policy keeps the existing file, the entry and everything below it is
/// skipped with a warning. A directory is never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Fail before anything is written.
    #[default]
    Refuse,
    /// Replace it atomically when the new content is complete.
    Replace,
    /// Keep it and skip the entry.
    Skip,
    /// Replace it if it is older than the entry, otherwise keep it.
    KeepNewer,
    /// Rename it to `name~` (`name~2` and so on if that exists) when the new content is complete.
    Backup,
    /// Give the entry another name: `name (2).ext`. Entries below a renamed directory follow it.
    Rename,
}

/// An existing file at the path of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Conflict<'a> {
    /// The entry; or the first one below a directory that is not an entry or not selected.
    pub entry: &'a Entry,
    /// Path below the target.
    pub path: &'a [u8],
    /// The path is that of a directory of the archive.
    pub wants_directory: bool,
    /// The existing file is a directory.
    pub is_directory: bool,
    /// Length of the existing file, bytes.
    pub size: u64,
    /// Its time of modification.
    pub modified: Timestamp,
}

/// Answer to a [`Conflict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// How to resolve the conflict.
    pub overwrite: Overwrite,
    /// Resolve all following conflicts in the same way.
    pub all: bool,
}

/// The result for an entry, or the expected result in a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Created.
    Create,
    /// Created in place of an existing file.
    Replace,
    /// Created; the existing file was renamed.
    Backup,
    /// Created under another name.
    Rename,
    /// Created as a hard link to an earlier entry.
    Link,
    /// Skipped because the path exists.
    Keep,
    /// The directory existed.
    Merge,
    /// The policy does not settle a conflict, so nothing is extracted.
    Refuse,
}

/// A processed entry.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Path below the target.
    pub path: &'a [u8],
    /// The result.
    pub action: Action,
}

/// Asks how to resolve a conflict. An error ends the extraction before anything is written.
pub type Ask<'a> = &'a (dyn Fn(&Conflict<'_>) -> Result<Answer> + Sync);

/// Receives each processed entry. Called from several threads.
pub type Observe<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

/// A directory that entries are extracted to.
///
/// Owners are restored when running as root, unless
/// [`MetadataPolicy::owner`](crate::MetadataPolicy::owner) omits them; with
/// [`OwnerPolicy::Ids`](crate::OwnerPolicy::Ids) IDs are restored even if the archive has names.
/// [`Limits::bytes`](crate::Limits::bytes) is checked before anything is written. Hard links of one
/// file count once.
#[derive(Clone)]
pub struct DirectorySink<'a> {
    /// The directory.
    pub target: DirectoryTarget,
    /// How conflicts with existing files are resolved.
    pub overwrite: Overwrite,
    /// Asks for each conflict, instead of `overwrite`.
    pub ask: Option<Ask<'a>>,
    /// Remove this many components at the start of each path; entries with no more than that are
    /// skipped.
    pub strip_components: usize,
    /// Create files only, all directly in the target.
    pub flat: bool,
    /// Restore set-id bits and file capabilities, and create device nodes.
    pub special: bool,
    /// Restore modes exactly (`true`) or without the bits of the umask. `None`: exactly when
    /// running as root, as tar does.
    pub exact_modes: Option<bool>,
    /// Bits removed from modes. `None`: the umask of the process.
    pub umask: Option<u32>,
    /// Receives each processed entry.
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

/// Statistics of an extraction. Hard links count as files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectoryStats {
    /// The target directory.
    pub target: PathBuf,
    /// Files created.
    pub files: u64,
    /// Files that are hard links to others.
    pub links: u64,
    /// Directories created or merged.
    pub directories: u64,
    /// Symlinks created.
    pub symlinks: u64,
    /// Fifos and devices created.
    pub specials: u64,
    /// Content of the files, bytes, including holes and each hard link.
    pub bytes: u64,
    /// Entries created under another name because their path existed.
    pub renamed: u64,
    /// Existing files that were renamed.
    pub backups: u64,
    /// Entries skipped because their path existed.
    pub kept: u64,
    /// Selected entries that could not be created, including damaged ones.
    pub skipped: u64,
    /// Entries skipped because the archive is damaged.
    pub damaged: u64,
    /// Entries that [`DirectorySink::special`] would restore more completely: devices, set-id bits,
    /// capabilities.
    pub untrusted: u64,
}

impl DirectoryStats {
    /// Returns the number of entries that were created or merged.
    pub fn made(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.specials
    }
}
