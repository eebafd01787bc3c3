//! The archive that is being opened, and the archives to choose from.

use std::path::PathBuf;

use crate::open_target::OpenTarget;

/// The archive that is being opened, and the archives to choose from.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// What is being opened.
    pub target: Option<OpenTarget>,
    /// No archive is open yet.
    pub no_archive: bool,
    /// Archives to choose from.
    pub archives: Vec<PathBuf>,
    /// Their list is being read.
    pub listing: bool,
}
