//! How the browser runs, and the archives it is given by whoever starts it.

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
    /// What it is called on the screen.
    pub name: String,
    /// Its file.
    pub path: Option<PathBuf>,
    /// There is a later commit.
    pub is_past: bool,
    /// It did not open as it should have: why, and what this is instead.
    pub remains: Option<String>,
}

impl Opened {
    pub(super) fn facts(&self, options: &Options) -> Facts {
        let read_only = options.read_only;
        let info = self.archive.info().clone();
        let remarks: Vec<String> = self.remains.iter().cloned().chain(self.archive.remarks()).collect();
        let damaged = self.remains.is_some() || self.archive.is_index_damaged();
        // Nothing of what is encrypted is told to anybody who can read a file.
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

/// Opens what a target leads to, beside the archive file that is shown, with a password if one was typed.
pub type Opener = Arc<dyn Fn(&OpenTarget, &Path, Option<Secret>) -> Result<Opened> + Send + Sync>;

/// How the browser runs.
#[derive(Clone)]
pub struct Options {
    /// What the environment says.
    pub environment: Environment,
    /// Settings.
    pub config: Config,
    /// What was wrong with them.
    pub warnings: Vec<String>,
    /// How other archives and commits are opened.
    pub opener: Opener,
    /// Forgets an interrupt that was for another program.
    pub pass: fn(),
    /// Archives to choose from at the start.
    pub archives: Vec<PathBuf>,
    /// Looks which there are by now.
    pub look: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// An archive that needs a password.
    pub locked: Option<PathBuf>,
    /// Nothing is changed.
    pub read_only: bool,
}
