//! The archive shown: name, format, whether it can be changed.

use std::path::PathBuf;

use nra_format::archive::Info;
use nra_format::container::Container;
use nra_format::entry::Entry;

/// Separator between nested archives, and between the parts of a path.
pub const SEPARATOR: &str = " ▸ ";

/// The message for formats that cannot be changed.
pub const ONLY_NRA: &str = "Only NRA 5 archives in files can be changed";

/// The message if the user has forbidden changes.
pub const READ_ONLY: &str = "The browser was started with --read-only";

pub const WRITE_PROTECTED: &str = "The file is write-protected";

pub const DAMAGED: &str = "A damaged archive cannot be changed";

/// Facts about the archive shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name, escaped for the terminal.
    pub name: String,
    pub info: Info,
    /// There is a later commit.
    pub is_past: bool,
    /// The file to write commits to, or why none can be written.
    pub file: Result<PathBuf, &'static str>,
    /// Number of archives around it.
    pub depth: usize,
    /// Its entry in the archive around it.
    pub inside: Option<Entry>,
    pub remarks: Vec<String>,
    /// Its index is damaged, so entries were recovered in another way.
    pub damaged: bool,
    /// The key for its stored position, if that may be stored.
    pub home: Option<String>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            name: String::new(),
            info: Info::default(),
            is_past: false,
            file: Err(ONLY_NRA),
            depth: 0,
            inside: None,
            remarks: Vec::new(),
            damaged: false,
            home: None,
        }
    }
}

/// The message for an earlier commit.
const PAST: &str = "An earlier commit is shown: ] goes to the newest to make changes, U returns to this one";

impl Facts {
    /// Returns the file that changes are written to.
    pub fn writable_file(&self) -> Result<&PathBuf, &'static str> {
        self.file.as_ref().map_err(|why| *why).and_then(|file| if self.is_past { Err(PAST) } else { Ok(file) })
    }

    /// Records damage that was detected after opening.
    pub fn set_damaged(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
        self.damaged = true;
        // An earlier reason against changes holds in any case.
        if self.file.is_ok() {
            self.file = Err(DAMAGED);
        }
    }

    /// Returns whether its format is encrypted with keys only, not passwords.
    pub fn has_keys_only(&self) -> bool {
        matches!(self.info.container, Container::Nra1 | Container::Nra4)
    }

    /// Returns its name without those of the archives around it.
    pub fn own_name(&self) -> &str {
        self.name.rsplit(SEPARATOR).next().unwrap_or(&self.name)
    }
}
