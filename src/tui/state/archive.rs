//! What is known of the archive that is shown.

use std::path::PathBuf;

use crate::crumbs::BETWEEN;
use nra_format::archive::Info;
use nra_format::container::Container;
use nra_format::entry::Entry;

/// Why archives of other formats can't be changed.
pub const ONLY_NRA: &str = "Only NRA 5 archives in files can be changed";

/// Why nothing is changed at the user's wish.
pub const READ_ONLY: &str = "The browser was started with --read-only";

/// Why a file that nobody may write to can't be changed.
pub const WRITE_PROTECTED: &str = "The file is write-protected";

/// Why damaged archives can't be changed.
pub const DAMAGED: &str = "A damaged archive cannot be changed";

/// What is known of the archive from its opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name, harmless to show.
    pub name: String,
    /// What kind of archive it is, how much it holds.
    pub info: Info,
    /// There is a later commit.
    pub is_past: bool,
    /// Its file, which further commits can be written to, or why none can.
    pub file: Result<PathBuf, &'static str>,
    /// How many archives it lies in.
    pub depth: usize,
    /// What it is in the archive around it, if it lies in one.
    pub inside: Option<Entry>,
    /// What is unusual about the file.
    pub remarks: Vec<String>,
    /// Its index is damaged: what is shown was found in another way.
    pub damaged: bool,
    /// What it is remembered by, if it may be.
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

/// Why nothing is planned where an earlier commit is shown.
const PAST: &str = "An earlier commit is shown: ] goes to the newest to make changes, U returns to this one";

impl Facts {
    /// Returns the file that what is planned here is written to.
    ///
    /// # Errors
    ///
    /// Why nothing can be planned.
    pub fn writable_file(&self) -> Result<&PathBuf, &'static str> {
        self.file.as_ref().map_err(|why| *why).and_then(|file| if self.is_past { Err(PAST) } else { Ok(file) })
    }

    /// Takes that it is damaged, which came to light only now, by these remarks.
    pub fn turn_out_damaged(&mut self, remarks: impl IntoIterator<Item = String>) {
        self.remarks.extend(remarks);
        self.damaged = true;
        // Why it can't be changed in any case is a better reason.
        if self.file.is_ok() {
            self.file = Err(DAMAGED);
        }
    }

    /// Says whether it is of a version whose encryption knows raw keys, not passwords.
    pub fn has_keys_only(&self) -> bool {
        matches!(self.info.container, Container::Nra1 | Container::Nra4)
    }

    /// Returns its name without those of the archives around it.
    pub fn own_name(&self) -> &str {
        self.name.rsplit(BETWEEN).next().unwrap_or(&self.name)
    }
}
