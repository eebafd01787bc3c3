//! Options of the browser, and archives opened by its caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use crate::config::Config;
use crate::environment::Environment;
use crate::open_target::OpenTarget;
use crate::state::{DAMAGED, Facts, ONLY_NRA, READ_ONLY, WRITE_PROTECTED};
use nra_format::archive::Archive;
use nra_format::container::Container;
use nra_format::crypt::Secret;
use nra_format::error::Result;

/// An archive that has been opened.
pub struct Opened {
    /// The archive.
    pub archive: Arc<dyn Archive>,
    /// Its name on the screen.
    pub name: String,
    /// Its file.
    pub path: Option<PathBuf>,
    /// There is a later commit.
    pub is_past: bool,
    /// The reason the archive did not open normally, and the content shown instead.
    pub remains: Option<String>,
}

impl Opened {
    pub(super) fn facts(&self, options: &Options) -> Facts {
        let read_only = options.read_only;
        let info = self.archive.info().clone();
        let remarks: Vec<String> = self.remains.iter().cloned().chain(self.archive.remarks()).collect();
        let damaged = self.remains.is_some() || self.archive.is_index_damaged();
        // The state file is not encrypted, so it has nothing about encrypted archives.
        let remembered = options.config.remember && !read_only && !info.encrypted;
        let home = self.path.as_ref().filter(|_| remembered).and_then(|path| path.canonicalize().ok());
        let home = home.and_then(|path| path.to_str().map(str::to_owned));
        let file = match &self.path {
            Some(path) if info.container == Container::Nra5 => match access(path, Access::WRITE_OK) {
                _ if read_only => Err(READ_ONLY),
                _ if damaged => Err(DAMAGED),
                Err(_) => Err(WRITE_PROTECTED),
                Ok(()) => Ok(path.clone()),
            },
            _ => Err(ONLY_NRA),
        };
        let is_past = self.is_past;
        Facts { name: self.name.clone(), info, is_past, file, depth: 0, inside: None, remarks, damaged, home }
    }
}

/// Opens a target with a password if one was typed; the path is that of the archive shown.
pub type Opener = Arc<dyn Fn(&OpenTarget, &Path, Option<Secret>) -> Result<Opened> + Send + Sync>;

/// Options of the browser.
#[derive(Clone)]
pub struct Options {
    /// Terminal and programs, from the environment.
    pub environment: Environment,
    /// Settings.
    pub config: Config,
    /// Problems in the settings.
    pub warnings: Vec<String>,
    /// Opens other archives and commits.
    pub opener: Opener,
    /// Discards an interrupt that was for another program.
    pub pass: fn(),
    /// Archives to choose from at the start.
    pub archives: Vec<PathBuf>,
    /// Lists the archives to choose from.
    pub list_archives: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// An archive that needs a password.
    pub locked: Option<PathBuf>,
    /// The archive cannot be changed.
    pub read_only: bool,
}
